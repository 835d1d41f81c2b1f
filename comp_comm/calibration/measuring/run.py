"""A measurement from shapes to tables: which kernels, how long, and the rows of each table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from comp_comm.calibration.measuring.backends import NumpyBackend, TorchBackend
from comp_comm.calibration.measuring.collectives import measure_collectives
from comp_comm.calibration.measuring.shapes import attention_shapes, gemm_shapes, stream_shapes
from comp_comm.calibration.measuring.timer import median_seconds, nothing

HEADERS: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k", "dtype", "time_s"),
    "elementwise": ("op", "rows", "cols", "dtype", "time_s"),
    "attention": ("batch", "seq_len", "heads", "kv_heads", "head_dim", "dtype", "time_s"),
    "collective": ("collective", "n_gpus", "gpus_per_node", "size_bytes", "dtype", "time_s"),
}
FILES = {"gemm": "gemms.csv", "elementwise": "elementwise.csv", "attention": "attention.csv",
         "collective": "collectives.csv"}  # fmt: skip
Backend = NumpyBackend | TorchBackend
Row = Sequence[object]


def measure_kernels(
    backend: Backend, kind: str, count: int, largest: int, budget: float, say: Callable[[str], object] = str,
    cold: float = 0.0, meet: Callable[[], object] = nothing,
) -> list[Row]:  # fmt: skip
    """Return the rows of one table: ``count`` shapes, no side longer than ``largest``, ``budget`` seconds each.

    Before each call ``cold`` bytes of other memory are overwritten. ``meet`` waits for processes that measure as well.

    Examples
    --------
    >>> [row[:4] for row in measure_kernels(NumpyBackend(), "gemm", 2, 64, 0.0)]
    [(64, 64, 64, 'fp32'), (32, 32, 32, 'fp32')]
    """
    rows: list[Row] = []
    scrub = backend.scrub(cold) if cold else nothing
    for first, call in _calls(backend, kind, count, largest):
        meet()
        seconds = median_seconds(call, budget, backend.settle, scrub)
        rows.append((*first, backend.dtype, f"{seconds:.9g}"))
        say(f"{kind} {' '.join(map(str, first))}: {seconds * 1e6:.4g} us")
    return rows


def _calls(backend: Backend, kind: str, count: int, largest: int) -> Iterator[tuple[Row, Callable[[], object]]]:
    if kind == "gemm":
        for m, n, k in gemm_shapes(count, largest):
            yield (m, n, k), backend.gemm(m, n, k)
    elif kind == "elementwise":
        each = max(1, count // len(backend.streams))
        for op in backend.streams:
            for rows, columns in stream_shapes(each, largest**2):
                yield (op, rows, columns), backend.stream(op, rows, columns)
    else:
        for batch, tokens, heads, dim in attention_shapes(count, largest):
            call = backend.attention(batch, tokens, heads, dim)
            if call is not None:
                yield (batch, tokens, heads, heads, dim), call


def collective_rows(processes: int, library: str, budget: float, largest: int, busy: float = 0.0) -> list[Row]:
    """Return the rows of the table of collectives between so many processes."""
    return [(*row[:-1], f"{row[-1]:.9g}") for row in measure_collectives(processes, library, budget, largest, busy)]


def table_text(kind: str, rows: Sequence[Row]) -> str:
    """Return the CSV table that ``compcomm calibrate`` reads.

    >>> table_text("gemm", [(1, 2, 3, "fp32", "0.5")])
    'm,n,k,dtype,time_s\\n1,2,3,fp32,0.5\\n'
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([HEADERS[kind], *rows])
    return out.getvalue()

"""Measured rows as arrays that a profile's timing predicts: the same functions that time a training step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, ElementwiseRow, GemmRow, KernelTime, Row
from comp_comm.calibration.placement import DomainTiers, place_rows
from comp_comm.choices import Precision
from comp_comm.distinct import distinct_rows, in_lines
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.formulas.kernels import TILE
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Attention, Elementwise, Gemm
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.network import collective_seconds

HALVES = ("bf16", "fp16")
# Tensors of the size of its argument that an element-wise kernel reads and writes.
STREAMS = {
    "add": 3, "mlp_act": 3, "swiglu": 3, "layernorm": 2, "rmsnorm": 2, "input_layernorm": 2,
    "post_attention_layernorm": 2, "softmax": 2, "gelu": 2, "relu": 2, "silu": 2, "copy": 2,
}  # fmt: skip
# Further reads of the argument: after those for LayerNorm's statistics or softmax's maximum, those for softmax's sum
# and for the results. PyTorch's softmax keeps rows of up to 1024 elements in registers.
REREADS = {"layernorm": 1.0, "softmax": 2.0}
SOFTMAX_IN_REGISTERS = 1024
MIB = 2.0**20
FLOP_SIZES = (
    (0.0, 1e9, "< 1 GFLOP"), (1e9, 1e10, "1 to 10 GFLOP"), (1e10, 1e11, "10 to 100 GFLOP"),
    (1e11, 1e12, "0.1 to 1 TFLOP"), (1e12, np.inf, ">= 1 TFLOP"),
)  # fmt: skip


Predict = Callable[[Hardware], Array]


@struct
class ByShape:
    """What predicts rows by the columns of their shapes: each distinct shape once.

    Shapes are in lines on which the first columns, as many as ``groups``, have one value: see `in_lines`.
    """

    predictor: Callable[..., Predict]
    columns: tuple[Array, ...]
    groups: int = 0

    @cached_property
    def _lines(self) -> tuple[Predict, tuple[int, int], NDArray[np.intp]]:
        """What predicts lines of distinct shapes, how many there are and how long, and where each row is in them."""
        table = distinct_rows(self.columns, len(self.columns[0]))
        shapes = [column[table.first] for column in self.columns]
        lines = in_lines(distinct_rows(shapes[: self.groups], len(table.first)))
        places = (lines.rows[:, :1] if number < self.groups else lines.rows for number in range(len(shapes)))
        predict = self.predictor(*(column[place] for column, place in zip(shapes, places, strict=True)))
        return predict, lines.rows.shape, lines.place[table.row]

    def __call__(self, hardware: Hardware) -> Array:
        """Return the seconds of every row, of each set of numbers where the hardware's are arrays (K, 1, 1)."""
        predict, shape, places = self._lines
        seconds = predict(hardware)
        sets = seconds.shape[:-2]
        return np.broadcast_to(seconds, (*sets, *shape)).reshape(*sets, -1).take(places, axis=-1)

    def of(self, rows: NDArray[np.bool_]) -> ByShape:
        """Return what predicts some of the rows."""
        return ByShape(self.predictor, tuple(column[rows] for column in self.columns), self.groups)


@dataclass(frozen=True)
class Sample:
    """Rows of one operator (and collective): their seconds, what predicts them, and by what they are grouped.

    ``sizes`` names groups of rows and says which are in them; ``fitted`` says which rows a fit may use.
    """

    operator: str
    collective: str
    seconds: Array
    predict: ByShape
    sizes: dict[str, NDArray[np.bool_]]
    fitted: NDArray[np.bool_]
    magnitude: Array

    def part(self, rows: NDArray[np.bool_]) -> Sample:
        """Return some of the rows as a sample of their own."""
        if rows.all():
            return self
        sizes = {name: mask[rows] for name, mask in self.sizes.items()}
        return Sample(self.operator, self.collective, self.seconds[rows], self.predict.of(rows), sizes,
                      self.fitted[rows], self.magnitude[rows])  # fmt: skip


def make_samples(
    rows: Iterable[Row], precision: str, domain: float, tiers: DomainTiers | None = None, notes: list[str] | None = None
) -> tuple[list[Sample], Counter[str]]:
    """Return the rows as samples for a profile whose innermost domain has ``domain`` devices, and what was left out.

    ``tiers`` are the bandwidths of its network, which tell where devices were; what to say of that is added to
    ``notes``.
    """
    kinds: dict[tuple[str, str], list[Row]] = defaultdict(list)
    left: Counter[str] = Counter()
    placed, said = place_rows(list(rows), tiers or DomainTiers(domain))
    if notes is not None:
        notes += said
    for row in placed:
        place = _place(row, precision, left)
        if place is not None:
            kinds[place].append(row)
    order = sorted(kinds)
    return [_MAKE[operator](name, kinds[operator, name], domain) for operator, name in order], left


def _place(row: Row, precision: str, left: Counter[str]) -> tuple[str, str] | None:
    if isinstance(row, KernelTime):
        left["kernels without a shape (compcomm project uses them)"] += 1
        return None
    if isinstance(row, CollectiveRow):
        return "collective", row.kind
    if row.dtype and row.dtype != precision and not (row.dtype in HALVES and precision in HALVES):
        left[f"{row.dtype} rows (--precision {row.dtype} takes them)"] += 1
        return None
    if isinstance(row, ElementwiseRow):
        if row.op not in STREAMS:
            left[f"element-wise '{row.op}': what it moves is not known"] += 1
            return None
        return "elementwise", row.op
    return ("gemm" if isinstance(row, GemmRow) else "attention"), ""


def _column(rows: Sequence[Row], name: str) -> Array:
    return to_float([getattr(row, name) for row in rows])


def _bytes(dtype: str) -> float:
    return float(Precision.of(dtype).size) if dtype in Precision.words() else 2.0


def _gemm(name: str, rows: Sequence[Row], domain: float) -> Sample:
    m, n, k, batch = (_column(rows, part) for part in ("m", "n", "k", "batch"))
    operand = to_float([_bytes(row.dtype) for row in rows])
    output = to_float([_bytes(row.output or row.dtype) for row in rows if isinstance(row, GemmRow)])
    product = Gemm("", "", count=1, m=m, k=k, n=n, groups=batch)
    least, flops = np.minimum(np.minimum(m, n), k), product.flops
    sizes = {"m, n, k >= 256": least >= 256, "128 to 255": (least >= 128) & (least < 256), "< 128": least < 128}
    for low, high, words in FLOP_SIZES:
        sizes[words] = (flops >= low) & (flops < high)

    def predictor(m: Array, n: Array, k: Array, batch: Array, operand: Array, output: Array) -> Predict:
        product = Gemm("", "", count=1, m=m, k=k, n=n, groups=batch)
        moved = product.moved(operand, output)
        return lambda hardware: Kernels(hardware, operand, output, isolated=True).product(
            product.padded_flops, (m, n, k), moved, batch)  # fmt: skip

    predict = ByShape(predictor, (m, n, k, batch, operand, output))
    # Less than a tile in some direction: predicted, but the form says nothing of it to fit.
    return Sample("gemm", name, _column(rows, "seconds"), predict, sizes, least >= TILE, flops)


def _attention(name: str, rows: Sequence[Row], domain: float) -> Sample:
    batch, seq, heads, kv, dim = (_column(rows, p) for p in ("batch", "seq_len", "heads", "kv_heads", "head_dim"))
    causal = np.array([isinstance(row, AttentionRow) and row.causal for row in rows])
    usual = (dim == 64) | (dim == 128)
    sizes = {"seq_len >= 1024, head_dim 64 and 128": usual & (seq >= 1024), "seq_len < 1024": seq < 1024,
             "other head_dim": ~usual}  # fmt: skip

    def operation(batch: Array, seq: Array, heads: Array, kv: Array, dim: Array, causal: Array) -> Attention:
        seen = np.where(causal > 0, seq / 2, seq)
        return Attention(
            "",
            "",
            count=1,
            sequences=batch,
            heads=heads,
            queries=seq,
            keys=seq,
            seen=seen,
            key_dim=dim,
            value_dim=dim,
            key_heads=kv,
        )

    def predictor(dim: Array, causal: Array, batch: Array, seq: Array, heads: Array, kv: Array) -> Predict:
        op = operation(batch, seq, heads, kv, dim, causal)
        codes = np.where(causal > 0, AttentionKernel.FLASH_CAUSAL, AttentionKernel.FLASH)
        return lambda hardware: Kernels(hardware, isolated=True, serving=True).attention(op, codes).forward

    masked = causal.astype(float)
    flops, fitted = operation(batch, seq, heads, kv, dim, masked).seen_flops, usual & (seq >= 512)
    predict = ByShape(predictor, (dim, masked, batch, seq, heads, kv), groups=2)
    return Sample("attention", name, _column(rows, "seconds"), predict, sizes, fitted, flops)


def _elementwise(name: str, rows: Sequence[Row], domain: float) -> Sample:
    width = to_float([_bytes(row.dtype) for row in rows])
    count, columns = _column(rows, "rows"), _column(rows, "columns")
    tensor = width * count * columns
    moved = STREAMS[name] * tensor
    sizes = {"< 1 MiB": moved < MIB, "1 to 64 MiB": (moved >= MIB) & (moved < 64 * MIB), ">= 64 MiB": moved >= 64 * MIB}
    kept = (columns <= SOFTMAX_IN_REGISTERS) & (name == "softmax")
    again, blocks = (np.where(kept, 0.0, numbers) for numbers in (REREADS.get(name, 0.0) * tensor, count))

    def predictor(moved: Array, again: Array, blocks: Array) -> Predict:
        def predict(hardware: Hardware) -> Array:
            kernels = Kernels(hardware)
            if name not in REREADS:
                return kernels.elementwise(Elementwise(name, "", 1, moved, 0.0)).forward
            return kernels.rowwise(moved, again, blocks, hardware.timing.norm_kernels if name == "layernorm" else 1.0)

        return predict

    predict = ByShape(predictor, (moved, again, blocks))
    return Sample("elementwise", name, _column(rows, "seconds"), predict, sizes, np.ones(len(rows), np.bool_), moved)


def _collective(name: str, rows: Sequence[Row], domain: float) -> Sample:
    size, devices, per_node = (_column(rows, part) for part in ("size", "devices", "per_node"))
    if np.any(per_node > domain):
        most = int(per_node.max())
        raise ConfigError(
            f"the logs have {most} devices to a node, the profile {domain:g} to its innermost domain: extend a profile "
            "with network.*.domain set right, or give --gpus-per-node"
        )
    given = (per_node > 0) & (per_node < np.minimum(devices, domain))
    stride = np.where(given & np.isfinite(domain), np.floor(domain / np.where(per_node > 0, per_node, 1)), 1.0)
    inside = np.minimum(devices, np.maximum(np.floor(domain / stride), 1.0)) == devices
    sizes = {}
    for where, mask in (("in a domain", inside), ("across domains", ~inside)):
        sizes[f">= 1 MiB {where}"] = mask & (size >= MIB)
        sizes[f"< 1 MiB {where}"] = mask & (size < MIB)

    def predictor(devices: Array, stride: Array, size: Array) -> Predict:
        group = Group(devices, stride)
        return lambda hardware: collective_seconds(hardware, name, size, group)

    predict = ByShape(predictor, (devices, stride, size), groups=2)
    return Sample("collective", name, _column(rows, "seconds"), predict, sizes, size >= 1024, size)


_MAKE: dict[str, Callable[[str, Sequence[Row], float], Sample]] = {
    "gemm": _gemm,
    "attention": _attention,
    "elementwise": _elementwise,
    "collective": _collective,
}

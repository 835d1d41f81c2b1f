"""Output of rocblas-bench and hipblaslt-bench: a header and a row for each product, among whatever else they print.

A search for the best kernel prints a row for each that was tried: of one shape, the fastest counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from comp_comm.calibration.measurements import GemmRow, Log
from comp_comm.calibration.readers.kernel_tables import GEMM, number_format
from comp_comm.calibration.readers.tables import header_of
from comp_comm.calibration.readers.text import LogSource, number_of, positive, refuse, whole_number

RATES = ("hipblaslt-gflops", "rocblas-gflops")
TIME = "us"
MOST_SECONDS = 1e5
AGREE = 0.03  # how far FLOP over the time may be from the rate that is printed
MOST_ROWS = 500_000
# What a call of rocblas-bench says of its number format, which the rows do not.
CALL = re.compile(r"-bench\b.{0,400}?\s(?:-r|--precision|--a_type)[ =](\w{1,12})")
LETTERS = {"s": "fp32", "d": "fp64", "h": "fp16"}
GROUPED = "grouped GEMMs"
OTHER_FLOPS = "time and Gflop/s that do not fit together (complex numbers?)"


def recognise(header: Sequence[str]) -> bool:
    """Return whether the columns of a line are those of one of these programs.

    >>> recognise(("transa", "transb", "m", "n", "k", "alpha", "rocblas-gflops", "us"))
    True
    """
    return {*GEMM, TIME}.issubset(header) and any(rate in header for rate in RATES)


def read(source: LogSource) -> Log:
    """Return a row for each shape. Raises ``ConfigError`` for a file without any that can be used."""
    log = Log(source.file, "output of rocblas-bench or hipblaslt-bench")
    best: dict[GemmRow, GemmRow] = {}
    columns: tuple[str, ...] = ()
    called, tried = "", 0
    for number, line in source.lines():
        if "flops" in line.lower() and recognise(header := header_of(line)):
            columns = header
        elif call := CALL.search(line):
            called = _format(call.group(1))
        elif columns and line.count(",") == len(columns) - 1:
            row = _row(
                source.file, number, dict(zip(reversed(columns), reversed(_cells(line)), strict=True)), called, log
            )
            if row is None:
                continue
            tried += 1
            if tried > MOST_ROWS:
                raise refuse(source.file, f"has more than {MOST_ROWS:,} rows", number)
            shape = GemmRow(0.0, row.dtype, 0, row.m, row.n, row.k, row.batch, row.output)
            if shape not in best or row.seconds < best[shape].seconds:
                best[shape] = row
    log.rows += best.values()
    log.skipped = +log.skipped
    if not log.rows:
        why = "; ".join(log.skipped) or "the run stopped, or the file is cut off"
        raise refuse(source.file, f"has the header of {log.kind[10:]} and no row that can be used: {why}")
    if tried > len(best):
        log.notes.append(f"{source.file}: {tried} rows of {len(best)} shapes: the fastest of each counts")
    if any(not row.dtype for row in best.values()):
        what = "the number format is not said (no command of rocblas-bench with -r): taken for the one that is fitted"
        log.notes.append(f"{source.file}: {what}")
    return log


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]


def _row(file: str, number: int, row: Mapping[str, str], called: str, log: Log) -> GemmRow | None:
    """Return the product that a row is of; columns are named from the last on, so that the first of two is kept."""
    if not all(number_of(row[name]) is not None for name in (*GEMM, TIME)):
        return None  # other text with as many commas
    if row.get("grouped_gemm", "0") not in ("0", "false"):
        log.skipped[GROUPED] += 1
        return None
    m, n, k = (whole_number(file, number, name, row[name]) for name in GEMM)
    batch = whole_number(file, number, "batch_count", row.get("batch_count") or "1")
    seconds = positive(file, number, TIME, row[TIME], MOST_SECONDS * 1e6) * 1e-6
    rate = next(number_of(row[name]) for name in RATES if name in row)
    if min(m, n, k, batch) < 1 or seconds <= 0:
        log.skipped["a dimension or a time of 0"] += 1
        return None
    if rate is None or abs(2.0 * m * n * k * batch / seconds / 1e9 - rate) > AGREE * rate:
        log.skipped[OTHER_FLOPS] += 1
        return None
    dtype = _format(row.get("a_type") or row.get("d_type") or "") or called
    if dtype == "fp32" and "xf32" in row.get("compute_type", ""):
        dtype = "tf32"
    output = _format(row.get("d_type", ""))
    return GemmRow(seconds, dtype, number, m, n, k, batch, output if output != dtype else "")


def _format(name: str) -> str:
    """Return our name of a number format of these programs.

    >>> _format("bf16_r"), _format("s"), _format("f8_fnuz_r"), _format("f32_r")
    ('bf16', 'fp32', 'fp8', 'fp32')
    """
    plain = name.strip().lower()
    return LETTERS.get(plain) or number_format(re.sub(r"(?:_fnuz)?_r$", "", plain))

"""CSV tables of GEMMs, attention, element-wise kernels and collectives, by their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, ElementwiseRow, GemmRow, Log, Row
from comp_comm.calibration.readers.tables import LogTable
from comp_comm.calibration.readers.text import first_of, refuse, whole_number

GEMM = ("m", "n", "k")
ATTENTION = ("batch", "seq_len", "heads", "head_dim")
ELEMENTWISE = ("op", "rows", "cols")
COLLECTIVE = ("n_gpus", "size_bytes")
# What one table may hold of several: which of them is meant has to be said.
DEVICES = ("gpu", "device", "system")
DTYPES = ("dtype_in", "dtype", "precision", "data_type", "datatype", "a_type")
MOST_ROWS = 500_000
MOST_VALUES, MOST_SHOWN = 1000, 60
GEMM_OPS = ("gemm", "bmm", "matmul", "mm")
KINDS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "alltoall": "all_to_all",
    "sendrecv": "send", "send": "send",
}  # fmt: skip
FORMATS = {
    "half": "fp16", "float16": "fp16", "f16": "fp16", "bfloat16": "bf16", "float": "fp32", "float32": "fp32",
    "f32": "fp32", "double": "fp64", "float64": "fp64", "f64": "fp64",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2fnuz": "fp8", "f8": "fp8",
    "bf8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "f8e4m3": "fp8", "f8e5m2": "fp8", "float8": "fp8",
}  # fmt: skip


def collective_kind(name: str) -> str | None:
    """Return our name of a collective, None where we do not time it.

    >>> collective_kind("AllReduce"), collective_kind("all-to-all"), collective_kind("broadcast")
    ('all_reduce', 'all_to_all', None)
    """
    return KINDS.get(name.lower().replace("_", "").replace("-", "").strip())


def number_format(name: str) -> str:
    """Return our name of a number format.

    >>> number_format("c10::BFloat16"), number_format("half"), number_format("c10::Float8_e4m3fn")
    ('bf16', 'fp16', 'fp8')
    """
    plain = name.lower().removeprefix("c10::").removeprefix("torch.").strip()
    return FORMATS.get(plain, plain)


def recognise(header: Sequence[str]) -> str | None:
    """Return what a table holds by its columns, None if nothing we know.

    >>> recognise(("m", "n", "k", "time_s"))
    'GEMMs'
    """
    has = set(header)
    if has.issuperset(COLLECTIVE) and has & {"collective", "op"}:
        return "collectives"
    if has.issuperset(GEMM):
        return "GEMMs"
    if has.issuperset(ATTENTION):
        return "attention"
    if has.issuperset(ELEMENTWISE):
        return "element-wise kernels"
    return None


def read(table: LogTable, kind: str, only: Mapping[str, Sequence[str]]) -> Log:
    """Return the rows of a table of a known kind; ``only`` keeps those with one of some values in a column."""
    log = Log(table.file, f"table of {kind}")
    for name in only:
        if name not in table.header:
            raise refuse(table.file, f"has no column '{name}' (--only); it has: {', '.join(table.header[:40])}")
    _ = table.seconds_column  # refused here, before any row, where there is none
    take: Callable[[LogTable, int, dict[str, str], Log], Row | None] = _TAKE[kind]
    devices: dict[str, set[str]] = {name: set() for name in DEVICES if name in table.header}
    others: dict[str, set[str]] = {name: set() for name in only}
    kept = 0
    for line, row in table.rows:
        if any(row[name] not in values for name, values in only.items()):
            log.skipped["other rows (--only)"] += 1
            _note_values(others, row)
            continue
        kept += 1
        _note_values(devices, row)
        if kept > MOST_ROWS:
            raise refuse(table.file, f"has more than {MOST_ROWS:,} rows; keep some (--only)", line)
        measurement = take(table, line, row, log)
        if measurement is not None:
            log.rows.append(measurement)
    if not kept:
        name, values = next(iter(only.items()))
        has = ", ".join(sorted(others[name])[:20])
        raise refuse(table.file, f"no row has {name}={' or '.join(values)} (--only); it has: {has}")
    _check_one_device(table, devices, only)
    log.skipped = +log.skipped
    if not log.rows:
        why = "; ".join(log.skipped) or "none of them can be used"
        raise refuse(table.file, f"no row is usable: {why}")
    return log


def _note_values(seen: dict[str, set[str]], row: dict[str, str]) -> None:
    for name, values in seen.items():
        if len(values) < MOST_VALUES:
            values.add(row[name][:MOST_SHOWN])


def _check_one_device(table: LogTable, devices: Mapping[str, set[str]], only: Mapping[str, Sequence[str]]) -> None:
    for name, values in devices.items():
        several = sorted(values)
        if len(several) > 1 and name not in only and not (set(DEVICES) & set(only)):
            shown = ", ".join(several[:12]) + (", ..." if len(several) > 12 else "")
            raise refuse(table.file, f"has rows of several devices; choose with --only {name}=NAME: {shown}")


def _dtype(row: dict[str, str]) -> str:
    name = first_of(DTYPES, row)
    return number_format(row[name]) if name else ""


def _timed(table: LogTable, line: int, row: dict[str, str], log: Log) -> float:
    seconds = table.seconds(line, row)
    if seconds <= 0:
        log.skipped["no time, or a time of 0"] += 1
    return seconds


def _gemm(table: LogTable, line: int, row: dict[str, str], log: Log) -> Row | None:
    if row.get("op", "gemm").lower() not in GEMM_OPS:
        which = f"operation '{row['op'][:MOST_SHOWN]}'" if len(log.skipped) < MOST_VALUES else "other operations"
        log.skipped[which] += 1
        return None
    seconds = _timed(table, line, row, log)
    m, n, k = (whole_number(table.file, line, name, row[name]) for name in GEMM)
    batch = whole_number(table.file, line, "batch", row["batch"]) if row.get("batch", "").strip() else 1
    if min(m, n, k, batch) < 1:
        log.skipped["a dimension of 0"] += 1
        return None
    output = number_format(row.get("dtype_out", ""))
    return GemmRow(seconds, _dtype(row), line, m, n, k, batch, output) if seconds > 0 else None


def _attention(table: LogTable, line: int, row: dict[str, str], log: Log) -> Row | None:
    seconds = _timed(table, line, row, log)
    batch, seq, heads, dim = (whole_number(table.file, line, name, row[name]) for name in ATTENTION)
    kv_heads = whole_number(table.file, line, "kv_heads", row["kv_heads"]) if row.get("kv_heads", "").strip() else heads
    causal = row.get("causal", "true").strip().lower() in ("", "1", "true", "yes", "causal")
    if min(batch, seq, heads, dim, kv_heads) < 1:
        log.skipped["a dimension of 0"] += 1
        return None
    return AttentionRow(seconds, _dtype(row), line, batch, seq, heads, kv_heads, dim, causal) if seconds > 0 else None


def _elementwise(table: LogTable, line: int, row: dict[str, str], log: Log) -> Row | None:
    seconds = _timed(table, line, row, log)
    rows, columns = (whole_number(table.file, line, name, row[name]) for name in ("rows", "cols"))
    if min(rows, columns) < 1:
        log.skipped["a dimension of 0"] += 1
        return None
    return ElementwiseRow(seconds, _dtype(row), line, row["op"].strip().lower(), rows, columns) if seconds > 0 else None


def _collective(table: LogTable, line: int, row: dict[str, str], log: Log) -> Row | None:
    name = row["collective"] if "collective" in row else row["op"]
    kind = collective_kind(name)
    if kind is None:
        which = f"'{name[:MOST_SHOWN]}'" if len(log.skipped) < MOST_VALUES else "of another name"
        log.skipped[f"collective {which}, which has no timing"] += 1
        return None
    seconds = _timed(table, line, row, log)
    devices, size = (whole_number(table.file, line, name, row[name]) for name in COLLECTIVE)
    given = row.get("gpus_per_node", "").strip()
    per_node = min(whole_number(table.file, line, "gpus_per_node", given), devices) if given else 0
    if devices < 2 or size < 1:
        log.skipped["fewer than 2 devices, or no bytes"] += 1
        return None
    return CollectiveRow(seconds, _dtype(row), line, kind, size, devices, per_node) if seconds > 0 else None


_TAKE: dict[str, Callable[[LogTable, int, dict[str, str], Log], Row | None]] = {
    "GEMMs": _gemm,
    "attention": _attention,
    "element-wise kernels": _elementwise,
    "collectives": _collective,
}

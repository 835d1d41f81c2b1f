"""The paper's operator-level model: one measured iteration, each operator scaled by its own law to other sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from comp_comm.calibration.measurements import Log
from comp_comm.calibration.readers.tables import LogTable
from comp_comm.calibration.readers.text import refuse, whole_number
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.records import Record, Records

SIZES = ("hidden", "seq_len", "micro_batch", "tp")
MOST_ITERATIONS = 100_000


@dataclass(frozen=True)
class Law:
    """How an operator's time follows the sizes: powers of H, SL, B and TP; ``ring`` adds (TP - 1) / TP.

    >>> Law(2, 1, 1, -1).factor({"hidden": 2, "seq_len": 1, "micro_batch": 1, "tp": 2},
    ...                         {"hidden": 1, "seq_len": 1, "micro_batch": 1, "tp": 1})
    2.0
    """

    hidden: float
    seq_len: float
    micro_batch: float
    tp: float
    ring: bool = False
    words: str = ""

    def factor(self, target: Mapping[str, int], baseline: Mapping[str, int]) -> float:
        """Return by how much the operator's time grows from one set of sizes to another."""
        powers = {name: float(getattr(self, name)) for name in SIZES}
        grown = float(np.prod([(target[name] / baseline[name]) ** power for name, power in powers.items()]))
        if not self.ring:
            return grown
        if baseline["tp"] < 2:
            raise ConfigError("a ring of one device sends nothing: there is no all-reduce to scale at TP 1")
        return grown * (1 - 1 / target["tp"]) / (1 - 1 / baseline["tp"])


LINEAR = Law(2, 1, 1, -1, words="B SL H^2 / TP")
SCORES = Law(1, 2, 1, -1, words="B SL^2 H / TP")
WHOLE = Law(1, 1, 1, 0, words="B SL H")
SHARED = Law(1, 1, 1, -1, words="B SL H / TP")
RING = Law(1, 1, 1, 0, ring=True, words="B SL H (TP - 1) / TP")
# Section 4.2.2 of arXiv:2302.02825: GEMMs are linear in SL and quadratic in H, LayerNorm, all-reduce linear in both.
LAWS = {
    "gemm": LINEAR, "linear": LINEAR, "qkv": LINEAR, "projection": LINEAR, "fc": LINEAR,
    "attention": SCORES, "scores": SCORES, "softmax": SCORES,
    "elementwise": WHOLE, "layernorm": WHOLE, "norm": WHOLE, "dropout": WHOLE, "residual": WHOLE, "embedding": WHOLE,
    "other": WHOLE, "gelu": SHARED, "activation": SHARED, "rotary": SHARED,
    "all_reduce": RING, "collective": RING, "optimizer": Law(2, 0, 0, -1, words="H^2 / TP"),
}  # fmt: skip
COMMUNICATION = ("all_reduce", "collective")


def law_of(operator: str) -> Law:
    """Return the law of an operator. Raises ``ConfigError`` for one that has none.

    >>> law_of("layernorm").words
    'B SL H'
    """
    name = operator.lower()
    if name in LAWS:
        return LAWS[name]
    shown = operator[:60]
    raise ConfigError(f"no law is known for the operator '{shown}'{nearest(name[:60], LAWS)} ({one_of(list(LAWS))})")


@dataclass(frozen=True)
class Iteration:
    """Seconds by operator of one iteration of given sizes."""

    sizes: Mapping[str, int]
    seconds: Mapping[str, float]


def from_logs(logs: Sequence[Log], sizes: Mapping[str, int]) -> Iteration:
    """Return the iteration that profiles of kernels are of, each kernel counted to its operator."""
    totals: dict[str, float] = defaultdict(float)
    for log in logs:
        if not log.totals:
            raise refuse(log.file, f"is a {log.kind}, not a profile of everything that ran in an iteration")
        for operator, seconds in log.totals.items():
            totals[operator] += seconds
    return Iteration(dict(sizes), dict(totals))


def from_table(table: LogTable) -> list[Iteration]:
    """Return the iterations of a table with the columns hidden, seq_len, micro_batch, tp, operator and a time."""
    seconds_at: dict[tuple[int, ...], dict[str, float]] = defaultdict(dict)
    for line, row in table.rows:
        sizes = tuple(whole_number(table.file, line, name, row[name]) for name in SIZES)
        operator, seconds = row["operator"].strip(), table.seconds(line, row)
        if min(sizes) < 1 or seconds <= 0:
            raise refuse(table.file, "sizes and times must be above 0", line)
        if operator in seconds_at[sizes]:
            raise refuse(table.file, f"'{operator}' is there twice for the same sizes", line)
        law_of(operator)
        if len(seconds_at) > MOST_ITERATIONS:
            raise refuse(table.file, f"has more than {MOST_ITERATIONS:,} iterations", line)
        seconds_at[sizes][operator] = seconds
    return [Iteration(dict(zip(SIZES, sizes, strict=True)), seconds) for sizes, seconds in seconds_at.items()]


def project(baseline: Iteration, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the seconds of each operator at other sizes.

    What a baseline of TP 1 communicates is no all-reduce of tensor parallelism, and has no law: it is left out (see
    `left_out`). Raises ``ConfigError`` where it would have to grow to a larger TP.

    >>> base = Iteration({"hidden": 1024, "seq_len": 512, "micro_batch": 4, "tp": 1}, {"gemm": 8e-3, "layernorm": 1e-3})
    >>> project(base, {"hidden": 2048, "seq_len": 512, "micro_batch": 4, "tp": 1})
    {'gemm': 0.032, 'layernorm': 0.002}
    """
    without = left_out(baseline)
    if without and sizes["tp"] > 1:
        raise ConfigError(f"the baseline has '{without[0]}' at TP 1, where there is no all-reduce of tensor "
                          "parallelism: profile it with TP of at least 2")  # fmt: skip
    return {name: float(f"{seconds * law_of(name).factor(sizes, baseline.sizes):.12g}")
            for name, seconds in baseline.seconds.items() if name not in without}  # fmt: skip


def left_out(baseline: Iteration) -> list[str]:
    """Return the operators of a baseline that communicate, though its TP is 1.

    >>> left_out(Iteration({"tp": 1}, {"gemm": 8e-3, "all_reduce": 1e-3})), left_out(Iteration({"tp": 2}, {}))
    (['all_reduce'], [])
    """
    return [name for name in baseline.seconds if name in COMMUNICATION] if baseline.sizes["tp"] < 2 else []


def lacks_communication(baseline: Iteration, sizes: Mapping[str, int]) -> bool:
    """Return whether the all-reduces of some sizes cannot be told: the baseline has none to scale."""
    told = baseline.sizes["tp"] > 1 and any(name in COMMUNICATION for name in baseline.seconds)
    return bool(left_out(baseline)) or (sizes["tp"] > 1 and not told)


def projection_rows(baseline: Iteration, targets: Sequence[Mapping[str, int]]) -> Records:
    """Return a record for each set of sizes: seconds in all, of communication, and of each operator.

    The share of communication is None where it is missing: the sum is then of all other operators.
    """
    rows = []
    for sizes in targets:
        parts = project(baseline, sizes)
        total = sum(parts.values())
        talk = sum(seconds for name, seconds in parts.items() if name in COMMUNICATION)
        share = None if lacks_communication(baseline, sizes) or total <= 0 else talk / total
        rows.append({**sizes, "total_s": total, "serialized_comm_fraction": share,
                     **{f"{name}_s": seconds for name, seconds in parts.items()}})  # fmt: skip
    return rows


def projection_notes(baseline: Iteration, targets: Sequence[Mapping[str, int]]) -> list[str]:
    """Return what to say of communication that a projection is without."""
    without = left_out(baseline)
    if without:
        said = " and ".join(f"'{name}'" for name in without)
        return [f"{said} of the baseline at TP 1 is no all-reduce of tensor parallelism: it is left out"]
    lacking = [sizes["tp"] for sizes in targets if lacks_communication(baseline, sizes)]
    if not lacking:
        return []
    degrees = ", ".join(map(str, sorted(set(lacking))[:8]))
    return [f"communication at TP {degrees} is missing: the baseline has no all-reduce (sums are of all else)"]


def compare(baseline: Iteration, measured: Sequence[Iteration]) -> Records:
    """Return projected against measured seconds of every operator of every other iteration, and of each in all."""
    rows = []
    for iteration in measured:
        if iteration.sizes == baseline.sizes:
            continue
        parts = project(baseline, iteration.sizes)
        common = [name for name in parts if name in iteration.seconds]
        for name in common:
            rows.append(_compared(iteration, name, parts[name], iteration.seconds[name]))
        if len(common) > 1:
            total = sum(iteration.seconds[name] for name in common)
            rows.append(_compared(iteration, "total", sum(parts[name] for name in common), total))
    return rows


def _compared(iteration: Iteration, operator: str, projected: float, measured: float) -> Record:
    return {**iteration.sizes, "operator": operator, "projected_s": projected, "measured_s": measured,
            "error": projected / measured - 1}  # fmt: skip


def error_summary(rows: Sequence[Record]) -> Records:
    """Return the errors of each operator over all iterations."""
    records = []
    for name in dict.fromkeys(row["operator"] for row in rows):
        errors = np.array([row["error"] for row in rows if row["operator"] == name])
        size = np.abs(errors)
        records.append({
            "operator": name, "n": len(errors), "mean_abs_error": round(float(size.mean()), 6),
            "median_abs_error": round(float(np.median(size)), 6),
            "p90_abs_error": round(float(np.percentile(size, 90)), 6), "bias": round(float(np.median(errors)), 6),
        })  # fmt: skip
    return records

"""One point of a study: explained, its memory, what it is sensitive to, and two of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict, cast

import numpy as np

from comp_comm.configs.study import Study, as_study
from comp_comm.costmodels import COST_MODELS
from comp_comm.costmodels.explained import ExplainedAnswer
from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.costmodels.records import OperationRecord, StepRecord
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.hardware.certainty import LARGE, Certainty, collective_certainty
from comp_comm.hardware.evolution import evolve
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record, Records
from comp_comm.sweeps.interval import step_interval
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.plan_notes import notes
from comp_comm.sweeps.prices import NO_PRICES, Prices, priced
from comp_comm.units import GIB

FACTORS = (1.1, 2.0)
StudyLike = str | Record | Study  # a path or catalogue name, a mapping of the same form, or a study already read


class CertaintyRecord(TypedDict):
    """How sure the seconds of some collectives are: which ones, in words, and the band of a data sheet."""

    where: str
    words: str
    data_sheet: dict[str, float] | None


class SensitivityRecord(TypedDict):
    """A step where one number of the hardware is multiplied."""

    number: str
    factor: float
    step_s: float
    change: float
    feasible: bool


class ComparedTerm(TypedDict):
    """A term of two points side by side; the ratio is None over 0."""

    term: str
    a: float
    b: float
    difference: float
    ratio: float | None


class Verdict(NamedTuple):
    """Whether a step is feasible, and why not."""

    feasible: bool
    reason: str | None


def point_of(study: StudyLike) -> tuple[Plan, ExplainedAnswer]:
    """Return the plan and the step of a study of one point. Raises ``ConfigError`` for axes, and for a wrong study."""
    study = as_study(study)
    plan = make_plan(study)
    if plan.grid.axes:
        follow = {name for axis in plan.study.axes for name in axis.values}.difference(
            *(axis.values for axis in study.axes)
        )
        several = ", ".join(name for name in plan.grid.moving if name not in follow)  # of a stack only itself
        raise ConfigError(f"the study has several points, and this is for one: give {several} one value "
                          "(--set KEY=VALUE)")  # fmt: skip
    return plan, explained(plan)


def check_explains(plan: Plan) -> None:
    """Raise ``ConfigError`` where the cost model of a plan has no operations."""
    if not plan.model.explains:
        able = [model.name for model in COST_MODELS.values() if model.explains]
        raise ConfigError(f"{plan.model.name} has no operations to show; this is for the cost model {', '.join(able)} "
                          f"(--set cost_model={able[0]})")  # fmt: skip


def explained(plan: Plan) -> ExplainedAnswer:
    """Return the answer at the one point of a plan. Raises ``ConfigError`` where its cost model has no operations."""
    check_explains(plan)
    return cast(ExplainedAnswer, plan.evaluate(()))


def explain(study: StudyLike, prices: Prices = NO_PRICES) -> Record:
    """Return everything about the one point of a study: seconds, FLOP, memory, communication, operations, sensitivity.

    Parameters
    ----------
    study : str, dict or Study
        A study without axes, of a cost model with operations: a path or catalogue name, a mapping of the same form, or
        one already read.
    prices : Prices
        What a device costs and draws, for ``cost_per_million_tokens``, ``energy_kwh_of_run`` and so on.

    Returns
    -------
    dict
        Plain numbers in SI units; ``compute_s``, ``recompute_s``, ``optimizer_s``, ``host_s``, ``bubble_s`` and the
        serialized and exposed seconds of ``comm`` add up to ``step_s``. ``feasible`` is false where the memory does
        not hold it.

    Raises
    ------
    ConfigError
        Everything wrong with the study, at once.

    Examples
    --------
    >>> from comp_comm.configs.study import study_from
    >>> point = {"layers": 32, "hidden": 4096, "heads": 32, "vocab": 32000, "seq_len": 4096, "gpus": 8, "tp": 8}
    >>> answer = explain(study_from({"hardware": "h100-sxm", "set": point}))
    >>> answer["comm"]["tp"]["calls"]
    329.0
    """
    study = as_study(study)
    plan, step = point_of(study)
    record = step.record()
    (profile,) = study.profiles
    bands = banded(record["operations"], profile)
    return {
        "meta": point_meta(plan, "explain", step.notes()), **_flat(record),
        "operations": bands, **verdict(step)._asdict(),
        "collectives": certainties(record["operations"], profile), "sensitivity": sensitivity(plan, step),
        "interval": interval_of(plan, step, profile),
        **priced(prices, _flat(record), study.fixed.get("tokens")),
        "roofs": {"flops": float(step.hardware.peak_flops),
                  "memory_bytes_per_s": float(step.hardware.memory_bandwidth)},
    }  # fmt: skip


def interval_of(plan: Plan, step: SearchableAnswer, profile: Profile) -> Record | None:
    """Return between which seconds the step is, as far as measured runs like it tell; None where none are like it."""
    if not plan.model.measured:
        return None
    mixture = bool(np.any(plan.grid.values("experts", ()) > 0))
    known = step_interval(profile, "moe" if mixture else "dense")
    return None if known is None else known.record(float(step.step_s), profile.name)


def _flat(record: StepRecord) -> Record:
    return {**record["counts"], **record["numbers"], "memory": record["memory"], "comm": record["comm"]}


def banded(operations: Sequence[OperationRecord], profile: Profile) -> Records:
    """Return operations with the band of their seconds.

    Only collectives below 1 MiB have a band, and only where no measurement of the device is behind them: for the
    others ``low_s`` and ``high_s`` are None.
    """
    inside, across = collective_certainty(profile)
    rows = []
    for op in operations:
        low = high = None
        if op["group"]:
            known = across if op["across_domains"] else inside
            if known.band is not None and op["message_bytes"] < LARGE:
                low, high = (op["seconds"] * factor for factor in known.band[:2])
        rows.append(
            {**{name: value for name, value in op.items() if name != "across_domains"}, "low_s": low, "high_s": high}
        )
    return rows


def certainties(operations: Sequence[OperationRecord], profile: Profile) -> list[CertaintyRecord]:
    """Return how sure a profile's collectives are, as far as operations use them."""
    used = {op["across_domains"] for op in operations if op["group"]}
    known = zip((False, True), collective_certainty(profile), strict=True)
    return [_certainty(each) for across, each in known if across in used]


def _certainty(certainty: Certainty) -> CertaintyRecord:
    band = certainty.band._asdict() if certainty.band else None
    return {"where": certainty.where, "words": certainty.words, "data_sheet": band}


def memory(study: StudyLike) -> Record:
    """Return the memory of the one point of a study by part, in bytes, and whether the device holds it."""
    plan, step = point_of(study)
    return {"meta": point_meta(plan, "memory"), **step.memory_record(), **verdict(step)._asdict()}


def compare(first: StudyLike, second: StudyLike) -> list[ComparedTerm]:
    """Return two points side by side, term by term: their values, the difference, and the ratio (None over 0)."""
    return compared(point_of(first)[1], point_of(second)[1])


def compared(first: ExplainedAnswer, second: ExplainedAnswer) -> list[ComparedTerm]:
    """Return two steps side by side, as `compare` does."""
    left, right = (_terms(_flat(step.record())) for step in (first, second))
    rows: list[ComparedTerm] = []
    for name in dict.fromkeys([*left, *right]):
        a, b = left.get(name, 0.0), right.get(name, 0.0)
        rows.append({"term": name, "a": a, "b": b, "difference": b - a, "ratio": b / a if a else None})
    return rows


def _terms(record: Record, prefix: str = "") -> dict[str, float]:
    terms: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            terms |= _terms(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            terms[prefix + name] = value
    return terms


def verdict(step: ExplainedAnswer) -> Verdict:
    """Return whether a step is feasible, and why not."""
    reason = "; ".join(rule.reason for rule in step.violations if rule.broken)
    if step.memory_bytes > step.memory_capacity:
        needed, has = (float(size) / GIB for size in (step.memory_bytes, step.memory_capacity))
        reason += f" ({needed:.1f} GiB needed, {has:.1f} there)"
    return Verdict(not reason, reason or None)


def point_meta(plan: Plan, command: str, more: Sequence[str] = ()) -> Record:
    """Return the meta block of a command about one point."""
    about = meta(plan)
    return {name: value for name, value in about.items() if name not in ("axes", "where", "points")} | {
        "command": command, "notes": [*notes(plan), *more]
    }  # fmt: skip


def sensitivity(plan: Plan, step: ExplainedAnswer, factors: tuple[float, ...] = FACTORS) -> list[SensitivityRecord]:
    """Return how a step changes where one number of the hardware is multiplied: all of them along one more axis.

    Latency is that of every hop and start of a collective; memory capacity changes what fits, not the seconds.
    """
    tiers = [tier.key.removeprefix("network.") for tier in step.hardware.tiers if tier.key]
    names = ["flops", "memory_bandwidth", *(f"bandwidth of {tier}" for tier in tiers), "latency", "memory_capacity"]
    cases = [(name, factor) for name in names for factor in factors]

    def along(name: str) -> Array:
        return to_float([factor if name == case else 1.0 for case, factor in cases])

    changed = evolve(
        step.hardware, flops=along("flops"), memory_bandwidth=along("memory_bandwidth"),
        memory_capacity=along("memory_capacity"), latency=along("latency"),
        tiers=tuple(along(f"bandwidth of {tier}") for tier in tiers),
    )  # fmt: skip
    other = cast(ExplainedAnswer, plan.evaluate_on(changed))
    shape, today = (len(cases),), float(step.step_s)
    seconds, broken = np.broadcast_to(other.step_s, shape), np.broadcast_to(other.broken, shape)
    return [
        {"number": name, "factor": factor, "step_s": float(seconds[i]), "change": float(seconds[i]) / today - 1,
         "feasible": not bool(broken[i])}
        for i, (name, factor) in enumerate(cases)
    ]  # fmt: skip

"""What trained models were, beside what the paper expected of them: shapes, TP, edge and slack, shares, errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comp_comm.formulas.arrays import Array
from comp_comm.formulas.growth import yearly_growth
from comp_comm.records import Record, Records
from comp_comm.trends.growth import shapes
from comp_comm.trends.part import Asked, Part
from comp_comm.trends.steps import (
    LARGEST_TP,
    Machine,
    Steps,
    eq10_tp,
    evaluate,
    measured_errors,
    overlapped,
    paper_share,
    points_with_layout,
)
from comp_comm.trends.tables import Models
from comp_comm.validation.predict import Point
from comp_comm.validation.table import MeasuredRun

ABOUT = ("model", "date", "arch", "certainty")
MODERN = 2023.0


def table(columns: dict[str, Sequence[object] | Array]) -> Records:
    """Return columns as rows of plain values, None for NaN."""
    plain = [[_plain(value) for value in np.asarray(values, object).tolist()] for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]


def _plain(value: object) -> object:
    if isinstance(value, float):
        return None if value != value else int(value) if value == int(value) and abs(value) < 2**53 else value
    return value or None


def about(models: Models) -> dict[str, Sequence[object]]:
    """Return what names a model: recipes by their model and device."""
    return {"model": [label(run) for run in models.runs], "date": models.words("date"), "arch": models.words("arch"),
            "certainty": [run["software_certainty"].split(" (")[0] for run in models.runs]}  # fmt: skip


def label(run: MeasuredRun) -> str:
    """Return the name of a row: that of a published model, or of a recipe its model and device."""
    return f"recipe: {run['model_name']} on {run['gpu']}" if run["group"] else run.run_id


def chosen(asked: Asked) -> tuple[list[Point], dict[str, str]]:
    """Return points with a layout, of the years asked for."""
    points, left = points_with_layout()
    years = Models(tuple(point.run for point in points)).years
    return [one for one, year in zip(points, years, strict=True) if asked.since <= year < asked.until], left


def models_part(asked: Asked) -> Part:
    """Return the dimensions of every model of the table."""
    every = Models.read()
    models = Models(tuple(run for run, year in zip(every.runs, every.years, strict=True)
                          if asked.since <= year < asked.until))  # fmt: skip
    rows = table({**about(models), "year": models.years, "gpu": models.words("gpu"),
                  **shapes(models), "kv_heads_share": models.numbers("kv_heads") / models.numbers("heads")})  # fmt: skip
    return Part("models", "Models as they were trained, 2018 to 2026", rows,
                ("model", "date", "arch", "published_parameters", "hidden", "seq_len", "batch_tokens", "tp",
                 "micro_batch", "gpu"), ("blank is not published, or not known to us",))  # fmt: skip


def sharding(points: Sequence[Point]) -> Array:
    """Return over how many devices weights are split: TP x PP x EP, or the shards of ZeRO-3 if they are more."""

    def degrees(name: str) -> Array:
        return np.asarray([float(point.fields.get(name) or 1) for point in points])

    zero = np.asarray([point.fields.get("zero") == 3 for point in points])
    shards = np.asarray([float(point.run["dp_shard"] or point.run["n_gpus"]) for point in points])
    return np.maximum(degrees("tp") * degrees("pp") * degrees("ep"), np.where(zero, shards, 1))


def required_tp_part(asked: Asked) -> Part:
    """Return the TP that Eq 10 asks for beside what was used."""
    points, _ = chosen(asked)
    models, machine = Models(tuple(point.run for point in points)), Machine.of(points)
    required = eq10_tp(_parameters(points), machine.memory)
    used = np.asarray([float(point.fields.get("tp") or 1) for point in points])
    split = sharding(points)
    rows = table({**about(models), "year": models.years, "required_tp": required, "tp": used,
                  "sharding_degree": split, "required_over_tp": required / used,
                  "required_over_sharding": required / split})  # fmt: skip
    modern = models.years >= MODERN
    extra = {"tp": _fit(models.years, used, modern), "medians": {
        name: float(np.median(values)) for name, values in
        (("required_over_tp", required / used), ("required_over_sharding", required / split))}}  # fmt: skip
    return Part("required-tp", "The TP that Eq 10 asks for, and what was used", rows,
                ("model", "date", "required_tp", "tp", "sharding_degree", "required_over_tp", "required_over_sharding"),
                ("sharding_degree: devices that weights are split over, TP x PP x EP or the shards of ZeRO-3",
                 "EP counts fully, though only experts are split by it"), extra)  # fmt: skip


def _parameters(points: Sequence[Point]) -> Array:
    return np.asarray(evaluate(points, {}, ("parameters",), all_of_them=True).columns["parameters"])


def _fit(years: Array, values: Array, mask: Array) -> Record:
    fit = yearly_growth(years[mask], values[mask])
    return {"a_year": fit.factor, "low": fit.low, "high": fit.high, "n": fit.count}


def edges_part(asked: Asked) -> Part:
    """Return edge and slack of each model as trained, relative to the first, and whether gradients could hide."""
    points, _ = chosen(asked)
    models, machine = Models(tuple(point.run for point in points)), Machine.of(points)
    counts = evaluate(points, {}, ("accumulation", "dp", "gpus"), all_of_them=True).columns
    hidden, seq_len = (np.asarray([float(point.fields[name]) for point in points]) for name in ("hidden", "seq_len"))
    tp, batch = (np.asarray([float(point.fields.get(name) or 1) for point in points]) for name in ("tp", "micro_batch"))
    edge, slack = (hidden + seq_len) / tp, seq_len * batch
    step_tokens = seq_len * batch * counts["accumulation"]
    needed = machine.peak / machine.scale_out
    zero3 = np.asarray([point.fields.get("zero") == 3 for point in points])
    # ZeRO-3 moves weights twice and gradients once for each micro-batch, where others reduce gradients once a step.
    between = np.where(zero3, 2 / 3 * slack, step_tokens)
    rows = table({**about(models), "year": models.years, "flop_vs_bw": machine.flop_vs_bw, "edge": edge,
                  "edge_over_flop_vs_bw": edge / machine.flop_vs_bw, "slack": slack, "tokens_between": between,
                  "tokens_needed": needed, "margin": between / needed})  # fmt: skip
    every = np.ones(len(points), bool)
    names = {"edge": edge, "edge_over_flop_vs_bw": edge / machine.flop_vs_bw, "slack": slack, "margin": between / needed}
    return Part("edges", "Edge and slack of models as they were trained", rows,
                ("model", "date", "flop_vs_bw", "edge", "edge_over_flop_vs_bw", "slack", "tokens_between",
                 "tokens_needed", "margin"),
                ("edge (H + SL) / TP and slack SL x B are the paper's; flop_vs_bw is 1 for its MI210",
                 "tokens_between are those of a replica between two reductions of its gradients (of ZeRO-3: 2/3 of a "
                 "micro-batch), tokens_needed the device's FLOP/s over its scale-out bandwidth: a margin below 1 shows",
                 ), {name: _fit(models.years, values, every & ~np.isnan(values)) for name, values in names.items()})  # fmt: skip


def shares_part(asked: Asked) -> Part:
    """Return communication's share of each model on its own machine, by both models."""
    points, left = chosen(asked)
    steps = evaluate(points, left)
    points = list(steps.points)
    bounds = {word: evaluate(overlapped(points, word), {}, all_of_them=True).columns for word in ("off", "on")}
    models, machine, c = steps.models, Machine.of(points), steps.columns
    hidden, seq_len = (np.asarray([float(point.fields[name]) for point in points]) for name in ("hidden", "seq_len"))
    tp = np.asarray([float(point.fields.get("tp") or 1) for point in points])
    eq10 = np.minimum(eq10_tp(c["parameters"], machine.memory), LARGEST_TP)
    used = np.where(tp > 1, paper_share(hidden, seq_len, tp, machine.flop_vs_bw), 0.0)
    asked_for = np.where(eq10 > 1, paper_share(hidden, seq_len, eq10, machine.flop_vs_bw), 0.0)
    rows = table({
        **about(models), "year": models.years, "parameters": c["parameters"],
        "visible_fraction": c["visible_comm_fraction"], "serialized_fraction": c["serialized_comm_s"] / c["step_s"],
        "exposed_fraction": c["exposed_comm_s"] / c["step_s"],
        "all_overlapped_fraction": bounds["on"]["visible_comm_fraction"],
        "none_overlapped_fraction": bounds["off"]["visible_comm_fraction"],
        **{f"{group}_fraction": c[f"{group}_serialized_s"] + c[f"{group}_exposed_s"] for group in GROUPS},
        "paper_tp_fraction": used, "paper_eq10_fraction": asked_for, "flop_vs_bw": machine.flop_vs_bw,
    })  # fmt: skip
    for row, seconds in zip(rows, c["step_s"].tolist(), strict=True):
        row |= {f"{group}_fraction": (row[f"{group}_fraction"] or 0) / seconds for group in GROUPS}
    return Part("shares", "Communication's share of models as they were trained", rows,
                ("model", "date", "visible_fraction", "serialized_fraction", "exposed_fraction",
                 "all_overlapped_fraction", "none_overlapped_fraction", "paper_tp_fraction", "paper_eq10_fraction"),
                ("visible is serialized and exposed communication over the step, by the model 'complete' on each one's "
                 "own machine; the bounds are with everything overlapped that can, and with nothing",
                 f"paper_: the paper's one layer, with the TP that was used and with that of Eq 10 (at most "
                 f"{LARGEST_TP:.0f})", *_silent(steps)))  # fmt: skip


GROUPS = ("tp", "cp", "pp", "dp", "ep")


def _silent(steps: Steps) -> list[str]:
    others = {name: why for name, why in steps.left_out.items() if "no whole layout" not in why}
    count = len(steps.left_out) - len(others)
    said = [f"{count} models of the table published no whole layout"] if count else []
    return [*said, *(f"{name}: {why}" for name, why in others.items())]


def errors_part(asked: Asked) -> Part:
    """Return predicted against reported steps, as far as a rate was reported."""
    points, _ = chosen(asked)
    found = measured_errors(points)
    runs = Models(tuple(run for run, _, _ in found))
    measured, predicted = (np.asarray([each[i] for each in found]) for i in (1, 2))
    error = predicted / measured - 1
    rows = table({**about(runs), "year": runs.years, "reported_s": measured, "predicted_s": predicted, "error": error})
    said = (f"median size of the errors {100 * np.median(np.abs(error)):.0f} %, bias {100 * np.median(error):+.0f} %, "
            f"{100 * np.mean(np.abs(error) < 0.2):.0f} % within 20 %, of {len(found)} steps",)  # fmt: skip
    return Part("errors", "Steps as predicted and as reported", rows, ("model", "date", "reported_s", "predicted_s",
                                                                       "error"), said)  # fmt: skip


__all__ = ["chosen", "edges_part", "errors_part", "label", "models_part", "required_tp_part", "shares_part", "table"]

"""What trained models were, beside what the paper expected of them: shapes, TP, edge and slack, shares, errors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np

from comp_comm.errors import so_many
from comp_comm.formulas.arrays import Array
from comp_comm.formulas.growth import yearly_growth
from comp_comm.records import Records
from comp_comm.trends.growth import shapes
from comp_comm.trends.part import Part, PartSettings
from comp_comm.trends.steps import (
    LARGEST_TP,
    MachineNumbers,
    Steps,
    eq10_tp,
    measured_errors,
    paper_share,
    trained_steps,
)
from comp_comm.trends.tables import Models
from comp_comm.validation.table import MeasuredRun

ABOUT = ("model", "date", "arch", "certainty")


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


def models_part(asked: PartSettings) -> Part:
    """Return the dimensions of every model of the table."""
    every = Models.read()
    models = Models(tuple(itertools.compress(every.runs, every.not_before(asked.since))))
    rows = table({**about(models), "year": models.years, "gpu": models.words("gpu"),
                  **shapes(models), "kv_share": models.numbers("kv_heads") / models.numbers("heads")})  # fmt: skip
    return Part("models", "Models as they were trained, 2018 to 2026", rows,
                ("model", "date", "arch", "published_parameters", "hidden", "seq_len", "batch_tokens", "tp",
                 "micro_batch", "gpu"), ("blank is not published, or not known to us",))  # fmt: skip


def sharding(steps: Steps) -> Array:
    """Return over how many devices weights are split: TP x PP x EP, or the shards of ZeRO-3 if they are more."""
    shards = np.asarray([float(point.run["dp_shard"] or point.run["n_gpus"]) for point in steps.points])
    split = steps.field("tp") * steps.field("pp") * steps.field("ep")
    return np.maximum(split, np.where(steps.field("zero") == 3, shards, 1))


@cache
def required_tp_part(asked: PartSettings) -> Part:
    """Return the TP that Eq 10 asks for beside what was used."""
    steps = trained_steps().since(asked.since)
    models, used, split = steps.models, steps.field("tp"), sharding(steps)
    required = eq10_tp(steps.columns["parameters"], MachineNumbers.of(steps.points).memory)
    rows = table({**about(models), "year": models.years, "required_tp": required, "tp": used,
                  "sharding_degree": split, "required_over_tp": required / used,
                  "required_over_sharding": required / split})  # fmt: skip
    return Part("required-tp", "The TP that Eq 10 asks for, and what was used", rows,
                ("model", "date", "required_tp", "tp", "sharding_degree", "required_over_tp", "required_over_sharding"),
                ("sharding_degree: devices that weights are split over, TP x PP x EP or the shards of ZeRO-3",
                 "EP counts fully, though only experts are split by it"))  # fmt: skip


@cache
def edges_part(asked: PartSettings) -> Part:
    """Return edge and slack of each model as trained, and whether the reduction of its gradients could hide."""
    steps = trained_steps().since(asked.since)
    models, machine = steps.models, MachineNumbers.of(steps.points)
    edge = (steps.field("hidden") + steps.field("seq_len")) / steps.field("tp")
    slack = steps.field("seq_len") * steps.field("micro_batch")
    needed = machine.peak / machine.scale_out
    # ZeRO-3 moves weights twice and gradients once for each micro-batch, where others reduce gradients once a step.
    between = np.where(steps.field("zero") == 3, 2 / 3 * slack, slack * steps.columns["accumulation"])
    names = {"edge": edge, "edge_over_flop_vs_bw": edge / machine.flop_vs_bw, "slack": slack,
             "margin": between / needed}  # fmt: skip
    rows = table({**about(models), "year": models.years, "flop_vs_bw": machine.flop_vs_bw, **names,
                  "tokens_between": between, "tokens_needed": needed})  # fmt: skip
    shown = ("model", "date", "flop_vs_bw", "edge", "edge_over_flop_vs_bw", "slack", "tokens_between",
             "tokens_needed", "margin")  # fmt: skip
    notes = (
        "edge (H + SL) / TP and slack SL x B are the paper's; flop_vs_bw is 1 for its MI210",
        "tokens_between are those of a replica between two reductions of its gradients (of ZeRO-3: 2/3 of a "
        "micro-batch), tokens_needed the device's FLOP/s over its scale-out bandwidth: a margin below 1 shows",
        "of mixtures, as if all their weights were dense: experts have less to reduce, and EP splits them",
    )
    fits = {name: yearly_growth(models.years, values)._asdict() for name, values in names.items()}
    return Part("edges", "Edge and slack of models as they were trained", rows, shown, notes, fits)


@cache
def shares_part(asked: PartSettings) -> Part:
    """Return communication's share of each model on its own machine, by both models."""
    steps = trained_steps().since(asked.since)
    models, machine, c = steps.models, MachineNumbers.of(steps.points), steps.columns
    hidden, seq_len, tp = (steps.field(name) for name in ("hidden", "seq_len", "tp"))
    eq10 = np.minimum(eq10_tp(c["parameters"], machine.memory), LARGEST_TP)
    papers = {name: np.where(degree > 1, paper_share(hidden, seq_len, degree, machine.flop_vs_bw), 0.0)
              for name, degree in (("tp", tp), ("eq10", eq10))}  # fmt: skip
    groups = {f"{group}_fraction": (c[f"{group}_serialized_s"] + c[f"{group}_exposed_s"]) / c["step_s"]
              for group in GROUPS}  # fmt: skip
    rows = table({
        **about(models), "year": models.years, "parameters": c["parameters"],
        "visible_fraction": c["visible_comm_fraction"], "serialized_fraction": c["serialized_comm_s"] / c["step_s"],
        "exposed_fraction": c["exposed_comm_s"] / c["step_s"], "all_overlapped_fraction": steps.all_overlapped,
        "none_overlapped_fraction": steps.none_overlapped, **groups, "paper_tp_fraction": papers["tp"],
        "paper_eq10_fraction": papers["eq10"], "flop_vs_bw": machine.flop_vs_bw,
    })  # fmt: skip
    notes = (
        "visible is serialized and exposed communication over the step, by the model 'complete' on each one's own "
        "machine; the bounds are with everything overlapped that can, and with nothing",
        f"paper_: the paper's one layer, with the TP that was used and with that of Eq 10 (at most {LARGEST_TP:.0f})",
        *_silent(steps),
    )
    shown = ("model", "date", "visible_fraction", "serialized_fraction", "exposed_fraction", "all_overlapped_fraction",
             "none_overlapped_fraction", "paper_tp_fraction", "paper_eq10_fraction")  # fmt: skip
    return Part("shares", "Communication's share of models as they were trained", rows, shown, notes)


GROUPS = ("tp", "cp", "pp", "dp", "ep")


def _silent(steps: Steps) -> list[str]:
    others = {name: why for name, why in steps.left_out.items() if "no whole layout" not in why}
    count = len(steps.left_out) - len(others)
    said = [f"{so_many(count, 'model')} of the table published no whole layout"] if count else []
    return [*said, *(f"{name}: {why}" for name, why in others.items())]


def errors_part(asked: PartSettings) -> Part:
    """Return predicted against reported steps, as far as a rate was reported."""
    steps = measured_errors(trained_steps().since(asked.since).points)
    runs = Models(tuple(run for run, _, _ in steps))
    measured, predicted = (np.asarray([each[i] for each in steps]) for i in (1, 2))
    error = predicted / measured - 1
    rows = table({**about(runs), "year": runs.years, "reported_s": measured, "predicted_s": predicted, "error": error})
    said = (f"median size of the errors {100 * np.median(np.abs(error)):.0f} %, "
            f"bias {round(100 * np.median(error)):+d} %, {100 * np.mean(np.abs(error) < 0.2):.0f} % within 20 %, of "
            f"{so_many(len(steps), 'step')}",)  # fmt: skip
    return Part("errors", "Steps as predicted and as reported", rows, ("model", "date", "reported_s", "predicted_s",
                                                                       "error"), said)  # fmt: skip


__all__ = ["edges_part", "errors_part", "label", "models_part", "required_tp_part", "shares_part", "table"]

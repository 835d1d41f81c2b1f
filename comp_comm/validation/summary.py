"""Errors of predictions, all together and by what runs have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import log2

import numpy as np

from comp_comm.records import Record, Records
from comp_comm.validation.predict import Prediction

PLACES = 6
SILENT = "not stated"
# What has to be stated for a configuration to be complete.
COMPLETE = ("micro_batch", "global_batch", "precision", "vocab", "heads")


def is_complete(one: Prediction) -> bool:
    """Return whether the source states all that a prediction needs: batches, precision, heads, vocabulary, sharding
    and recomputation.
    """
    run = one.run
    sharding = bool(run["zero_stage"] or run["fsdp"]) or run["dp"] == "1"
    again = bool(run["recompute"] or run["recompute_modules"])
    return all(run[name] for name in COMPLETE) and sharding and again and "recall" not in run["notes"]


def parameters_class(one: Prediction) -> str:
    """Return the class of size of a run's model."""
    from_to = ((3e9, "below 3 B"), (15e9, "3 to 15 B"), (60e9, "15 to 60 B"), (200e9, "60 to 200 B"))
    return next((name for most, name in from_to if one.parameters < most), "200 B and more")


def devices_class(one: Prediction) -> str:
    """Return the class of a run's devices: powers of eight."""
    devices = float(one.run["n_gpus"])
    low = 8 ** int(log2(devices) / 3)
    return f"{low:,} to {8 * low - 1:,}" if devices >= 8 else "1 to 7"


def release_of(one: Prediction) -> str:
    """Return the release of the software: its column, or what notes say."""
    match = re.search(r"release ([\d.]*\d)", one.run["notes"])
    return one.run["release"] or (match[1] if match else SILENT)


def parallelism(one: Prediction) -> str:
    """Return the kinds of parallelism that a run has."""
    fields = one.point.fields if one.point else {}
    kinds = [name for name in ("tp", "cp", "pp", "ep") if int(fields.get(name, 1)) > 1]
    sharded = "fsdp" if fields.get("zero") == 3 else "dp"
    return " + ".join([*kinds, *([sharded] if float(one.run["dp"] or 2) > 1 else [])]) or "one device"


def attention(one: Prediction) -> str:
    """Return the kernel of attention, as the source calls it."""
    return re.split(r" ?\(|;", one.run["attention_kernel"])[0] or SILENT


def _column(name: str) -> Callable[[Prediction], str]:
    return lambda one: one.run[name] or SILENT


KINDS: dict[str, Callable[[Prediction], str]] = {
    "all": lambda one: "all",
    "arch": lambda one: arch_of(one),
    "configuration": lambda one: f"{arch_of(one)}, {'complete' if is_complete(one) else 'not all stated'}",
    "gpu": _column("gpu"),
    "group": lambda one: f"{one.run['group'] or SILENT} ({arch_of(one)})",
    "parameters": parameters_class,
    "gpus": devices_class,
    "parallelism": parallelism,
    "precision": lambda one: str(one.point.fields.get("precision", SILENT)) if one.point else SILENT,
    "release": lambda one: release_of(one),
    "attention": attention,
}


def arch_of(one: Prediction) -> str:
    """Return whether a run's model is dense or a mixture of experts."""
    experts = one.point.fields.get("experts") if one.point else None
    return "moe" if experts or (one.point is None and one.run["arch"] == "moe") else "dense"


def errors_of(predictions: Iterable[Prediction]) -> list[float]:
    """Return the errors of predictions that count."""
    return [one.error for one in predictions if one.counted and one.error is not None]


def error_record(by: str, value: str, errors: Sequence[float]) -> Record:
    """Return what there is to say of some errors: their sizes, and the bias, which is their median with the sign.

    >>> error_record("all", "all", [-0.1, 0.0, 0.3])["bias"]
    0.0
    """
    signed = np.asarray(errors, np.float64)
    size = np.abs(signed)
    numbers = {"median_abs_error": np.median(size), "mean_abs_error": size.mean(),
               "p90_abs_error": np.percentile(size, 90), "bias": np.median(signed)}  # fmt: skip
    return {"by": by, "value": value, "n": len(signed)} | {k: round(float(v), PLACES) for k, v in numbers.items()}


def summary(predictions: Sequence[Prediction], kinds: Sequence[str] = tuple(KINDS)) -> Records:
    """Return errors by each kind of runs, a record a value that any run has; those with most runs first."""
    records: Records = []
    for kind in kinds:
        of: dict[str, list[Prediction]] = {}
        for one in predictions:
            if one.counted:
                of.setdefault(KINDS[kind](one), []).append(one)
        made = [error_record(kind, value, errors_of(members)) for value, members in of.items()]
        records += sorted(made, key=lambda record: -record["n"])
    return records


__all__ = ["KINDS", "arch_of", "error_record", "errors_of", "is_complete", "summary"]

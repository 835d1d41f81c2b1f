"""Laws of every cost model over random points and options: what a change of a point may never do to its answer.

Points are those of the net (`net.points`): random models of every kind of layer, layouts, choices and devices. A study
is swept as it is and with one thing changed, and the rows are compared one by one.
"""

from __future__ import annotations

import itertools
import math
import random
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from amount import examples
from fuzz.bounds import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from net import points as net

from comp_comm.costmodels.registry import COST_MODELS
from comp_comm.errors import ConfigError, InfeasibleError
from comp_comm.hardware.evolution import NO_OUTER
from comp_comm.sweeps.result import sweep

CATALOGUE = Path(__file__).parent.parent / "configs"
SECONDS = dict.fromkeys(COST_MODELS, ("step_s",)) | {"inference": ("ttft_s", "tpot_s", "request_s")}
# What hardware of the same kind may be better at, and by how much.
BETTER = {
    "flops": (1.3, 8),
    "network": (1.3, 8),
    "scale_up": (1.3, 8),
    "scale_out": (1.3, 8),
    "memory_bandwidth": (1.3, 8),
    "latency": (0.7, 0.01),
}
# Techniques and conventions of `comp_vs_comm` that only take work away.
TECHNIQUES = ("comm_offload", "in_network_reduction", "in_memory_reduction", "fused_comm")
ROUNDING = 1e-9
# Where the host is waited for, faster GEMMs hide less of what is gathered beside them, and no step is the shorter: the
# network is taken to be idle while the host launches.
HIDDEN = 1e-3
FEW = settings(max_examples=examples(0.15), deadline=None, derandomize=True)
MANY = settings(max_examples=CASES // 10, deadline=None, derandomize=CASES <= 150)
SEEDS = st.integers(0, 2**32)
PAPERS = ("amped", "foundation_models")


@cache
def catalogue():
    """Return the devices, the papers' devices, and the models of the catalogue that a whole step can be made of."""
    machines, papers = (sorted(CATALOGUE.glob(f"{folder}/*.yaml")) for folder in ("hardware", "papers/hardware"))
    models = {path.stem: net._numbers(yaml.safe_load(path.read_text())) for path in CATALOGUE.glob("models/*.yaml")}
    usable = {name: numbers for name, numbers in sorted(models.items()) if {"layers", "heads"} <= numbers.keys()}
    return [path.stem for path in machines], [f"papers/hardware/{path.stem}" for path in papers], usable


def drawn(cost_model, seed):
    """Return a random study of a cost model, the same for the same seed."""
    draw = random.Random(seed)
    machines, papers, usable = catalogue()
    if cost_model == "comp_vs_comm":
        return net._one_layer(draw)
    if cost_model in ("complete", "inference"):
        make = net._complete if cost_model == "complete" else net._inference
        return without(make(draw, draw.choice(machines), usable), "uneven_stages")  # a field of older revisions
    make, word = (net._amped, "amped") if cost_model == "amped" else (net._foundation, "foundation")
    return make(draw, [name for name in papers if word in name])


def rows_of(study):
    """Return the rows of a study, None where it has none that is feasible, or cannot be had at all."""
    try:
        return sweep(study).to_records()
    except (ConfigError, InfeasibleError):
        return None


def scaled(study, name, factor):
    """Return a study in which a field that is a factor is so many times what it was, at every point."""
    if name in study["zip"][0]:
        return {**study, "zip": [{**point, name: factor * point[name]} for point in study["zip"]]}
    return {**study, "set": {**study["set"], name: factor * study["set"].get(name, 1)}}


def given_as(study, **values):
    """Return a study in which fields have values, at every point."""
    rest = without(study, *values)
    return {**rest, "set": {**rest["set"], **values}}


def without(study, *names):
    """Return a study without some fields."""
    points = [{name: value for name, value in point.items() if name not in names} for point in study["zip"]]
    points = list({str(sorted(point.items())): point for point in points}.values())
    return {**study, "set": {name: study["set"][name] for name in study["set"] if name not in names}, "zip": points}


def never_slower(cost_model, study, better, name, most=ROUNDING):
    """Assert that a study with something better is feasible where the other is, and as fast."""
    before = rows_of(study)
    if before is None:
        return
    for number, (old, new) in enumerate(zip(before, sweep(better).to_records(), strict=True)):
        if not old["feasible"]:
            continue
        assert new["feasible"], f"{name} makes point {number} infeasible: {new['reason']}\n{study}"
        for column in SECONDS[cost_model]:
            slower = new[column] / old[column] - 1
            assert slower <= most, f"{name}: {column} of point {number} is slower by {slower:.3g}\n{study}"


@contextmanager
def suppress_refusal(reason):
    """Go on where a study is refused for this reason."""
    try:
        yield
    except ConfigError as error:
        if reason not in str(error):
            raise


def faster_hardware(cost_model, seed):
    """Assert that a device which is better at one thing is never slower."""
    study = drawn(cost_model, seed)
    draw = random.Random(seed)
    for name, factors in BETTER.items():
        if name in COST_MODELS[cost_model].fields:
            factor = draw.choice(factors)
            refused = NO_OUTER if name == "scale_out" else "nothing"
            with suppress_refusal(refused):
                never_slower(cost_model, study, scaled(study, name, factor), f"{name} x {factor}", HIDDEN)


def techniques(cost_model, seed):
    """Assert that a technique which takes work away never makes a step slower."""
    study = drawn(cost_model, seed)
    for name in TECHNIQUES:
        never_slower(cost_model, given_as(study, **{name: "off"}), given_as(study, **{name: "on"}), name)


def recomputation(cost_model, seed):
    """Assert that what is computed again takes time: full at least that of selective, and that of none."""
    study = without(drawn(cost_model, seed), "recompute_layers")
    words = ("none", "selective", "full") if cost_model == "complete" else ("none", "full")
    for less, more in itertools.pairwise(words):
        one, other = (rows_of(given_as(study, recompute=word)) for word in (less, more))
        for number, (quick, slow) in enumerate(zip(one or [], other or [], strict=True) if one and other else []):
            if quick["feasible"] and slow["feasible"]:
                faster = 1 - slow["step_s"] / quick["step_s"]
                assert faster <= ROUNDING, f"{more}: point {number} is faster than {less} by {faster:.3g}\n{study}"


def more_memory(cost_model, seed):
    """Assert that what fits a device fits a larger one, in the same time."""
    study = given_as(drawn(cost_model, seed), memory_capacity=1)
    for factor in (1.5, 100):
        never_slower(cost_model, study, scaled(study, "memory_capacity", factor), f"memory_capacity x {factor}")


def finite(cost_model, seed):
    """Assert that a feasible row's numbers are numbers, and seconds and bytes are not below 0."""
    study = drawn(cost_model, seed)
    for number, row in enumerate(rows_of(study) or []):
        if not row["feasible"]:
            continue
        for name, value in row.items():
            if isinstance(value, (int, float)):
                assert math.isfinite(value), f"{name} of point {number} is {value}\n{study}"
                assert value >= 0 or not name.endswith(("_s", "_gib", "_bytes")), f"{name}: {value}\n{study}"
        assert all(row[name] > 0 for name in SECONDS[cost_model])


LAWS = {
    faster_hardware: tuple(COST_MODELS), finite: tuple(COST_MODELS), recomputation: ("complete", "amped"),
    more_memory: ("complete", "inference", "foundation_models"), techniques: ("comp_vs_comm",),
}  # fmt: skip
CHECKS = [(law, cost_model) for law, cost_models in LAWS.items() for cost_model in cost_models]
NAMES = [f"{law.__name__}-{cost_model}" for law, cost_model in CHECKS]
# Laws evaluate a study again for everything that changes: of whole steps that takes seconds.
SOME = [pytest.param(law, cost_model, marks=pytest.mark.slow) if law is not finite and cost_model not in PAPERS
        else (law, cost_model) for law, cost_model in CHECKS]  # fmt: skip


@pytest.mark.parametrize(("law", "cost_model"), SOME, ids=NAMES)
@FEW
@given(seed=SEEDS)
def test_law(law, cost_model, seed):
    law(cost_model, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "cost_model"), CHECKS, ids=NAMES)
@MANY
@given(seed=SEEDS)
def test_law_over_many(law, cost_model, seed):
    law(cost_model, seed)


@pytest.mark.slow
@pytest.mark.parametrize("cost_model", COST_MODELS)
def test_points_are_such_that_laws_can_be_seen(cost_model):
    rows = [row for seed in range(10) for row in rows_of(drawn(cost_model, seed)) or []]
    feasible = np.mean([row["feasible"] for row in rows])
    assert len(rows) > 50
    assert feasible > 0.2

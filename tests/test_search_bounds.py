"""A search leaves untimed what cannot be among what it tells: its bounds hold, and its answer is that of timing all."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest

from comp_comm.configs.study import study_from
from comp_comm.costmodels.layout_space import Bound
from comp_comm.errors import CompcommError
from comp_comm.formulas.arrays import unwarned
from comp_comm.searches import block_search, partition, search
from comp_comm.searches.block_search import BlockSearch
from comp_comm.searches.build_space import make_space
from comp_comm.searches.objectives import OBJECTIVES, Objective
from comp_comm.searches.state import SearchState

DENSE = {"layers": 6, "hidden": 512, "heads": 8, "kv_heads": 2, "vocab": 32000, "seq_len": 1024}
MOE = {**DENSE, "experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "dense_layers": 1, "mtp_layers": 1}
PINS = {"recompute_layers": (1, 2), "offload_activations": (1,), "recompute_early_stop": ("on",),
        "interference": (1.2,), "zero": (0, 3), "micro_batch": (1, 2), "cp": (1, 2), "launch_blocking": ("on",),
        "flops": (0.05, 20), "network": (0.1, 10), "memory_capacity": (0.01, 0.03, 0.1), "layers": (5, 24)}  # fmt: skip
TRIED = {"schedule": ["1f1b", "gpipe", "zb_h2", "zb_v", "dualpipe"], "overlap_tp": ["off", "on"],
         "overlap_pp": ["off", "on"], "overlap_dp": ["off", "on"], "cp_comm": ["p2p", "all_to_all"],
         "offload_optimizer": ["off", "on"], "recompute": ["none", "mlp", "full"]}  # fmt: skip


def drawn(chance):
    """Return a small search: a study, and how many devices."""
    fixed = {**chance.choice((DENSE, MOE)), "global_batch": chance.choice((16, 24, 64))}
    fixed |= {name: chance.choice(values) for name, values in PINS.items() if chance.random() < 0.2}
    tried = {name: values for name, values in TRIED.items() if chance.random() < 0.15 and name not in fixed}
    hardware = chance.choice(("h100-sxm", "a100-sxm-40gb", "gb200-nvl72", "mi300x", "v100-sxm-16gb"))
    return {"hardware": hardware, "set": fixed, "sweep": tried}, chance.choice((4, 8, 12, 16))


def every_step(study, gpus):
    """Return the steps of every layout of a search."""
    space = make_space(study_from(study), gpus)
    for begin, end, choices in space.segments:
        yield space.plan.evaluate((*choices, np.arange(begin, end)))


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_no_step_takes_less_than_its_bounds(count):
    chance, steps, close = random.Random(count), 0, []
    for _ in range(count):
        try:
            answers = list(every_step(*drawn(chance)))
        except CompcommError:
            continue
        for answer in answers:
            with unwarned():
                least, closer, nearly = (answer.least_step_s(bound) for bound in Bound)
                for less, more in pairwise((least, closer, nearly, answer.step_s)):
                    assert (less <= more * (1 + 1e-12)).all()
                close.append(np.max(closer / answer.step_s))
                steps += np.broadcast(least, answer.step_s).size
    assert steps > 1000 * count
    assert max(close) > 0.95  # they are of some use


def answered(study, gpus, **asked):
    """Return what a search answers as text, or why it does not."""
    try:
        return json.dumps(search(study_from(study), gpus, **asked), sort_keys=True)
    except CompcommError as error:
        return str(error)


@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_the_answer_is_that_of_timing_every_layout(count, monkeypatch):
    """Whatever is asked for: with few rows a block, and few that are tried first, so that bounds are made much of."""
    chance, told = random.Random(-count), 0
    monkeypatch.setattr(partition, "BLOCK_POINTS", 2**13)
    monkeypatch.setattr(block_search, "PROBED", 2**4)
    for _ in range(count):
        study, gpus = drawn(chance)
        asked = {"objective": chance.choice(("step", "step", "mfu", "tokens_per_s", "comm")),
                 "top": chance.choice((1, 10, 300)), "per": chance.choice(((), ("tp",), ("zero", "placement"))),
                 "headroom": chance.choice((None, 0.5))}  # fmt: skip
        found = answered(study, gpus, **asked)
        with monkeypatch.context() as patch:
            patch.setattr(Objective, "lower_bound", lambda *_: None)
            assert answered(study, gpus, **asked) == found, (study, gpus, asked)
        told += found.startswith("{")
    assert told > count / 3


@pytest.mark.slow
def test_those_that_tie_with_the_best_are_all_timed(monkeypatch):
    """Where one is told of and others, of the same memory and nearly as good, are only counted."""
    study = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 32, "seq_len": 2048}}
    found = answered(study, 16, top=1)
    with monkeypatch.context() as patch:
        patch.setattr(Objective, "lower_bound", lambda *_: None)
        assert json.loads(answered(study, 16, top=1))["tied"] == json.loads(found)["tied"]


@pytest.mark.slow
def test_many_of_the_best_are_all_found(monkeypatch):
    """More than are nearly as good: then it is how many are wanted that says how good a layout must be."""
    monkeypatch.setattr(block_search, "PROBED", 2**4)
    study = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 32, "seq_len": 2048}}
    found = json.loads(answered(study, 16, top=2000))
    worst = found["rows"][-1]["step_s"]
    assert len(found["rows"]) == 2000
    assert worst > 1.2 * found["rows"][0]["step_s"]
    monkeypatch.setattr(Objective, "lower_bound", lambda *_: None)
    assert json.loads(answered(study, 16, top=2000)) == found


def test_incumbents_are_as_good_as_some_layout(monkeypatch):
    """Where only a walk through all passes times the best: DualPipe with a last stage unlike the others, by GPipe."""
    probes, probe = [], SearchState.probe
    monkeypatch.setattr(SearchState, "probe", lambda state: probes.append(probe(state)) or probes[-1])
    monkeypatch.setattr(block_search, "PROBED", 2)
    study = {"hardware": "h100-sxm", "model": "gemma-2-9b",
             "sweep": {"schedule": ["gpipe", "dualpipe"], "pp": [4, 8]},
             "set": {"global_batch": 32, "seq_len": 2048, "cp": 1, "placement": "tp-cp-dp-pp"}}  # fmt: skip
    rows = json.loads(answered(study, 32))["rows"]
    assert rows[0]["schedule"] == "dualpipe"
    best = min(each.near_optimal.best for each in probes)
    assert 1 - 1e-12 < best / rows[0]["step_s"] < 1.1


def test_most_layouts_are_not_timed(monkeypatch):
    timed = []
    rank = BlockSearch._rank

    def ranked(self, into, block, *more):
        timed.append(np.prod(block.shape))
        rank(self, into, block, *more)

    monkeypatch.setattr(BlockSearch, "_rank", ranked)
    study = study_from({"hardware": "a100-sxm-80gb", "model": "gpt3-175b", "set": {"global_batch": 256}})
    found = search(study, 64)
    assert found["meta"]["candidates"] > 100_000
    assert sum(timed) < make_space(study, 64).points / 3


def test_a_bound_is_a_score_of_each_objective():
    """Of a rate too, which is larger where a step takes less."""
    step = next(iter(every_step({"hardware": "h100-sxm", "set": {**DENSE, "global_batch": 16, "tokens": 1e9}}, 4)))
    model = make_space(study_from({"hardware": "h100-sxm", "set": {**DENSE, "global_batch": 16}}), 4).plan.model
    for name, objective in OBJECTIVES.items():
        least = objective.lower_bound(model, step, Bound.SLOWEST)
        if not objective.timed:
            assert least is None
            continue
        assert (least <= objective.score(model, step)).all(), name
        share = least / objective.score(model, step)
        known = step.least_step_s(Bound.SLOWEST) / step.step_s
        assert np.allclose(np.broadcast_to(share if (least > 0).all() else 1 / share, known.shape), known), name

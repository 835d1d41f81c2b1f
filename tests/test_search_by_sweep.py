"""A search finds what a sweep over every layout finds: how many there are, the best, how flat the top is, the front.

A sweep has every combination of degrees and choices, lawful or not, and says of each what it breaks. Of layouts that
differ only in a choice without an effect (sequence parallelism on one device, say) the first counts.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
from face import named, row_of, rows_of, search_of

from comp_comm.errors import InfeasibleError

MODEL = {"layers": 4, "hidden": 512, "heads": 4, "vocab": 1000, "seq_len": 256, "global_batch": 8}
MOE = {**MODEL, "experts": 4, "top_k": 2, "moe_ffn_hidden": 512}
TOP = 30
ROOM = 81_559 / 1024  # GiB of an H100, as nvidia-smi reports them
DEGREES = ("tp", "cp", "pp", "vpp", "micro_batch")
# A flash kernel keeps nothing of attention that recomputing it would free: "selective" is not tried.
ALWAYS = {"zero": [0, 1, 2, 3], "recompute": ["none", "full"], "sp": ["off", "on"]}
# What a search tries of a mixture of experts beside it.
OF_MIXTURES = {"ep_dispatch": ["deepep"], "overlap_ep": ["on"], "schedule": ["1f1b", "dualpipe"]}
# What has no effect, and where.
IDLE = {
    "sp": lambda row: row["tp"] == 1, "overlap_tp": lambda row: row["tp"] == 1, "cp_comm": lambda row: row["cp"] == 1,
    "schedule": lambda row: row["pp"] == 1, "overlap_pp": lambda row: row["pp"] == 1,
    "zero": lambda row: row["dp"] * row["cp"] == 1, "overlap_dp": lambda row: row["dp"] * row["cp"] == 1,
}  # fmt: skip
# Model, devices, what is tried beside the usual, and what is pinned.
SPACES = {
    "plain": (MODEL, 8, {}, {"cp": 1, "micro_batch": 2}),
    "little memory": (MODEL, 4, {}, {"memory_capacity": 0.026}),
    "some memory": (MODEL, 4, {}, {"memory_capacity": 0.028, "cp": 1}),
    # Of a pipeline with chunks the middle one of these is refused, of one without them the last; or the first.
    "schedules": (MODEL, 8, {"schedule": ["1f1b", "gpipe", "interleaved"]}, {"cp": 1, "recompute": "none"}),
    "turned": (MODEL, 8, {"schedule": ["interleaved", "1f1b"]}, {"cp": 1, "recompute": "none", "zero": 1}),
    "contexts": (MODEL, 4, {"cp_comm": ["p2p", "all_gather", "all_to_all"], "overlap_dp": ["off", "on"]},
                 {"recompute": "full", "window": 64}),
    "one by one": (MODEL, 8, {"overlap_tp": ["off", "on"], "overlap_pp": ["off", "on"], "schedule": ["gpipe", "1f1b"]},
                   {"cp": 1, "zero": 1, "recompute": "none"}),
    "copies": ({**MODEL, "kv_heads": 2}, 4, {"kv_replication": ["off", "on"]}, {"cp": 1, "zero": 2}),
    "experts": (MOE, 4, {}, {"cp": 1, "recompute": "none", "pp": 1}),
    "threes": ({**MOE, "hidden": 768, "heads": 12, "seq_len": 288, "moe_ffn_hidden": 576, "global_batch": 12}, 6, {},
               {"cp": 1, "recompute": "none", "pp": 1, "zero": 1}),
    "encoder": ({**MODEL, "layers": 2, "architecture": "encoder-decoder", "encoder_layers": 2}, 4, {},
                {"cp": 1, "recompute": "none", "zero": 1}),
}  # fmt: skip
HEADROOM = {"little memory": 0.0}  # of the others it is a search's own


def choices_of(model, tried):
    """Return the choices that a search of a model tries: those of its own, and those it is told."""
    return {**ALWAYS, **(OF_MIXTURES if "experts" in model else {}), **tried}


def every_layout(model, gpus, tried, pinned):
    """Return every layout once that keeps its rules, as a sweep has it."""
    layers = model["layers"] + model.get("encoder_layers", 0)
    numbers = {"tp": gpus, "cp": gpus, "pp": gpus, "vpp": layers, "micro_batch": model["global_batch"]}
    if "experts" in model:
        numbers |= {"ep": model["experts"], "etp": gpus}
    degrees = {name: [n for n in range(1, number + 1) if number % n == 0] for name, number in numbers.items()}
    # With more than one chunk a stage, the embedding and the loss may take the place of a layer each.
    degrees["vpp"] = sorted({*degrees["vpp"], *(n for n in range(1, layers + 3) if (layers + 2) % n == 0)})
    axes = {**degrees, **choices_of(model, tried)}
    axes = {name: values for name, values in axes.items() if name not in pinned}
    fixed = {**model, **pinned, "gpus": gpus, "placement": "tp-cp-dp-pp", "memory_capacity": 1}
    names = (*axes, "dp", "step_s", "memory_gib", "feasible", "reason")
    found = {}
    for row in rows_of({"hardware": "h100-sxm", "set": fixed, "sweep": axes}, names):
        at = {**fixed, **row}
        # A group inside an expert is a part of one that splits tensors: a search tries no others.
        if not row["feasible"] or at["tp"] % (at.get("etp") or 1):
            continue
        chunks = at["pp"] * at["vpp"]
        if at["vpp"] > 1 and layers % chunks and (layers + 2) % chunks and "vpp" not in pinned:
            continue
        key = tuple(None if name in IDLE and IDLE[name](at) else row[name] for name in axes)
        found.setdefault(key, row)
    return list(found.values())


@cache
def found_in(name):
    """Search one of the spaces for all of its layouts."""
    model, gpus, tried, pinned = SPACES[name]
    given = {"hardware": "h100-sxm", "set": {**model, **pinned, "placement": "tp-cp-dp-pp"}, "sweep": tried}
    return search_of(given, gpus, top=TOP, headroom=HEADROOM.get(name))


def assert_as_ties(rows, layouts, top):
    """Assert that rows are the fastest layouts, those of the same seconds and memory as one row with their number."""
    alike = sorted(Counter((row["step_s"], row["memory_gib"]) for row in layouts).items())[:top]
    assert len(rows) == len(alike)
    assert [row["step_s"] for row in rows] == pytest.approx([seconds for (seconds, _), _ in alike], rel=1e-12)
    assert [row["memory_gib"] for row in rows] == pytest.approx([memory for (_, memory), _ in alike], rel=1e-12)
    assert [row["ties"] for row in rows] == [number for _, number in alike]


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_a_search_is_a_sweep_over_every_layout(name):
    model, gpus, tried, pinned = SPACES[name]
    layouts = every_layout(model, gpus, tried, pinned)
    room = ROOM * pinned.get("memory_capacity", 1) * (1 - HEADROOM.get(name, 0.05))
    fitting = [row for row in layouts if row["memory_gib"] <= room]
    found, meta = found_in(name), found_in(name)["meta"]
    assert (meta["candidates"], meta["feasible"]) == (len(layouts), len(fitting))
    seconds = sorted(row["step_s"] for row in fitting)
    assert len(found["rows"]) > 15
    assert_as_ties(found["rows"], fitting, TOP)
    assert meta["within_percent"] == {
        str(percent): sum(s <= seconds[0] * (1 + percent / 100) for s in seconds) for percent in (1, 2, 5, 10)
    }
    best = {(row["step_s"], row["memory_gib"]) for row in fitting}
    front = sorted(point for point in best if not any(a <= point[0] and b <= point[1] and (a, b) != point
                                                     for a, b in best))  # fmt: skip
    shown = [(point["score"], point["memory_gib"]) for point in found["front"]]
    assert [part for point in shown for part in point] == pytest.approx([part for point in front for part in point])
    faster = [row for row in layouts if room < row["memory_gib"] <= 2 * room and row["step_s"] < seconds[0]]
    assert_as_ties(found["near_misses"], faster, 3)
    assert all(row["memory_times"] == pytest.approx(row["memory_gib"] / room) for row in found["near_misses"])


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_rows_are_the_points_they_name(name):
    """And keep every rule: none of them is refused alone."""
    model, gpus, tried, pinned = SPACES[name]
    rows = found_in(name)["rows"]
    choices = choices_of(model, tried)
    names = (*DEGREES, *choices, "ep", "etp", "placement", "gpus")
    for row in rows[::4]:
        point = {key: row[key] for key in names if key in row and (key != "etp" or "experts" in model)}
        alone = row_of({"hardware": "h100-sxm", "set": {**model, **pinned, **point}})
        assert alone["feasible"]
        for column in ("step_s", "memory_gib", "mfu", "tokens_per_s", "visible_comm_fraction"):
            assert row[column] == pytest.approx(alone[column], rel=1e-12), column
        assert row["dp"] * row["tp"] * row["cp"] * row["pp"] == gpus
        assert row["global_batch"] == row["accumulation"] * row["micro_batch"] * row["dp"] == model["global_batch"]
        assert {*DEGREES, *choices, *pinned, "placement"} - {"memory_capacity", "window"} <= set(row)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["schedules", "contexts", "little memory"])
def test_workers_find_and_count_the_same(name):
    model, gpus, tried, pinned = SPACES[name]
    study = {"hardware": "h100-sxm", "set": {**model, **pinned}, "sweep": tried}
    with ThreadPoolExecutor(3) as pool:
        asked = {"top": TOP, "headroom": HEADROOM.get(name)}
        assert search_of(study, gpus, executor=pool, **asked) == search_of(study, gpus, **asked)


def test_why_layouts_fell_out_is_counted():
    """Two stages of eight layers and a batch of three, in micro-batches of one or three, and one to eight chunks."""
    given = {**MODEL, "layers": 8, "global_batch": 3, "tp": 1, "cp": 1}
    assert search_of({"hardware": "h100-sxm", "set": given}, 2)["meta"]["dropped"] == {
        "dp does not divide global_batch": 1,  # two replicas
        "pp x vpp exceeds the layers": 4,  # eight or ten chunks of the divisors of 8 and 8 + 2
        "interleaving needs a multiple of pp micro-batches a replica": 6,  # two, four or five chunks: three, or one
    }
    three = search_of({"hardware": "h100-sxm", "set": {**MODEL, "global_batch": 6, "cp": 1, "pp": 1}}, 3)["meta"]
    assert three["dropped"]["tp does not divide heads"] == 1  # three of four
    with pytest.raises(InfeasibleError, match=r"none of [\d,]+ layouts on 3 devices fits"):
        search_of({"hardware": "h100-sxm", "set": {**MODEL, "global_batch": 6, "memory_capacity": 0.001}}, 3)


# -- the search of foundation_models ----------------------------------------------------------------------------------


def test_the_front_of_a_foundation_search_is_of_its_rows():
    found = search_of("papers/foundation-models-gpt3", 512, top=2000)
    rows, front = found["rows"], found["front"]
    assert (front[0]["score"], front[0]["memory_gib"]) == pytest.approx((rows[0]["step_s"], rows[0]["memory_gib"]))
    shown = {(row["step_s"], row["memory_gib"]) for row in rows}
    best = sorted(point for point in shown if not any(a <= point[0] and b <= point[1] and (a, b) != point
                                                     for a, b in shown))  # fmt: skip
    assert len(rows) == found["meta"]["feasible"]
    assert [(point["score"], point["memory_gib"]) for point in front] == [pytest.approx(point) for point in best]
    seconds = [row["step_s"] for row in rows]
    assert found["meta"]["within_percent"] == {
        str(percent): sum(s <= seconds[0] * (1 + percent / 100) for s in seconds) for percent in (1, 2, 5, 10)
    }
    assert found["best"]["memory"]["total_bytes"] == pytest.approx(rows[0]["memory_gib"] * 2**30)
    assert sum(found["best"]["parts"].values()) == pytest.approx(found["best"]["step_s"])


def test_what_does_not_fit_and_is_slower_is_no_near_miss():
    """With eight times the memory two layouts are too large; one of them would be faster."""
    found = search_of(named("papers/foundation-models-gpt3", "memory_capacity=8"), 512, top=1)
    assert found["meta"]["candidates"] - found["meta"]["feasible"] == 2
    (miss,) = found["near_misses"]
    assert 1 < miss["memory_times"] <= 2
    assert miss["step_s"] < found["rows"][0]["step_s"]

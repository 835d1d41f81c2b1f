"""The timeline of a step: every pass waits for what it needs, and its end is that of the step."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from comp_comm.configs.study import load_study
from comp_comm.costmodels.timeline import COMPUTE, STREAMS
from comp_comm.sweeps.point import point_of

ALL = [["vpp=1"], ["vpp=1", "schedule=gpipe"], ["vpp=1", "schedule=zero_bubble"], ["vpp=1", "pp_layout=20|22|18|20"],
         ["vpp=1", "recompute=full"], ["vpp=1", "overlap_pp=on"], ["pp=1", "vpp=1", "zero=3"],
       ["vpp=5"], ["vpp=5", "overlap_pp=off"], ["vpp=2", "recompute=selective"], ["pp=2", "vpp=4"]]  # fmt: skip
IN_A_ROW = [["vpp=1", "schedule=zb_h2"], ["vpp=1", "schedule=zb_v"]]


def timeline(overrides):
    step = point_of(load_study("llama-step", ["global_batch=256", *overrides]))[1]
    return step.timeline(), float(step.step_s)


@pytest.mark.a_third
@pytest.mark.parametrize("overrides", ALL, ids=" ".join)
def test_the_end_is_the_steps_and_passes_take_what_they_take(overrides):
    made, step_s = timeline(overrides)
    assert max(piece.start + piece.seconds for piece in made.slices) == pytest.approx(step_s, rel=1e-12)
    assert made.stretch == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("overrides", [["optimizer=muon", "vpp=1"],  # gathers over TP
                                       ["lora_rank=8", "zero=0"]],  # a tail shorter than a send
                         ids=" ".join)  # fmt: skip
def test_everything_of_a_step_is_drawn_and_nothing_after_it(overrides):
    made, step_s = timeline(overrides)
    assert max(piece.start + piece.seconds for piece in made.slices) == pytest.approx(step_s, rel=1e-9)


@pytest.mark.parametrize("overrides", IN_A_ROW, ids=" ".join)
def test_without_a_barrier_the_last_stage_ends_later_than_a_step_takes(overrides):
    made, step_s = timeline(overrides)
    last = {stage: max(p.start + p.seconds for p in made.slices if p.stage == stage) for stage in range(made.stages)}
    first = {stage: min(p.start for p in made.slices if p.stage == stage) for stage in range(made.stages)}
    assert made.stretch == pytest.approx(1.0, rel=1e-9)
    assert max(last.values()) == pytest.approx(made.end)
    assert made.end > step_s
    assert max(last[stage] - first[stage] for stage in first) <= step_s * (1 + 1e-9)  # the next step fits behind it


@pytest.mark.parametrize(
    "overrides",
    [["vpp=1"], ["vpp=5"], ["vpp=1", "schedule=zb_h2"], ["vpp=1", "schedule=zb_v"], ["vpp=1", "schedule=dualpipe"]],
    ids=" ".join,
)
def test_a_stage_does_one_thing_at_a_time_and_nothing_before_its_input(overrides):
    made, _ = timeline(overrides)
    passes = [piece for piece in made.slices if piece.stream == COMPUTE and "pass" in piece.about]
    for stage in range(made.stages):
        own = sorted((p.start, p.start + p.seconds) for p in passes if p.stage == stage)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in itertools.pairwise(own))
    when = {(p.about["pass"], p.about["micro_batch"], p.about["chunk"]): p for p in passes}
    last = max(chunk for _, _, chunk in when)
    model = made.stages if "schedule=dualpipe" in overrides else last + 1  # chunks; of two copies one after the other
    assert len(when) == len(passes)
    for (kind, j, chunk), piece in when.items():
        before = {"F": ("F", j, chunk - 1) if chunk % model else None, "W": ("B", j, chunk),
                  "B": ("B", j, chunk + 1) if (chunk + 1) % model else ("F", j, chunk)}[kind]  # fmt: skip
        if before:
            assert piece.start >= when[before].start + when[before].seconds - 1e-9


def test_the_compute_of_the_slowest_stage_is_that_of_the_step():
    step = point_of(load_study("llama-step", ["vpp=1"]))[1]
    made = step.timeline()
    spent = [sum(p.seconds for p in made.slices if p.stage == stage and p.stream == COMPUTE and "pass" in p.about)
             for stage in range(made.stages)]  # fmt: skip
    assert max(spent) == pytest.approx(float(step.compute_s), rel=1e-9)


def test_a_trace_is_what_perfetto_reads(compcomm, tmp_path):
    trace, svg = tmp_path / "t.json", tmp_path / "t.svg"
    code, out, _ = compcomm("trace", "llama-step", "--global-batch", "128", "-o", trace, "--svg", svg)
    assert (code, out) == (0, "")
    made = json.loads(trace.read_text())
    slices = [event for event in made["traceEvents"] if event["ph"] == "X"]
    named = [event for event in made["traceEvents"] if event["ph"] == "M" and event["name"] == "thread_name"]
    assert {event["pid"] for event in slices} == {0, 1, 2, 3}
    assert len(named) == 4 * len(STREAMS)
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in slices)
    end = max(event["ts"] + event["dur"] for event in slices) / 1e6
    assert end == pytest.approx(made["otherData"]["step_s"], rel=1e-12)
    text = svg.read_text()
    ends = [float(x) + float(w) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text)]
    assert max(ends) == pytest.approx(1160, abs=0.1)
    assert text.count("stage ") == 4


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--global-batch", "1048576"], "too long"), (["-o", "x.json", "--svg", "x.png"], ".svg")],
)  # fmt: skip
def test_what_has_no_trace_is_refused(compcomm, tmp_path, monkeypatch, more, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = compcomm("trace", "llama-step", *more)
    assert (code, out) == (2, "")
    assert said in err
    assert not list(tmp_path.iterdir())

"""Two points term by term, whichever of them has a term; and bytes on the wire, counted by hand and beside a log."""

from __future__ import annotations

import json
import math

import pytest
from face import command, compared, explained, machine, volume_of, volumes_of

from comp_comm.cli.main import run

S, H, L, V = 1024, 2048, 8, 32000
MODEL = {"layers": L, "hidden": H, "heads": 16, "vocab": V, "seq_len": S, "bias": "off", "norm": "rmsnorm"}
HIDDEN = 2 * S * H  # bytes of the hidden states of a sequence
LAYER = 12 * H * H + 2 * H  # parameters


def study(**more):
    return {"hardware": "h100-sxm", "set": {**MODEL, **more}}


# -- compare ----------------------------------------------------------------------------------------------------------

ALONE = {"tp": 2, "gpus": 2}
OTHERS = {"pp": {"pp": 2, "gpus": 4}, "dp": {"gpus": 8}, "cp": {"cp": 2, "gpus": 4}}


@pytest.mark.a_third
@pytest.mark.parametrize("group", OTHERS)
@pytest.mark.parametrize("first", [True, False])
def test_terms_that_only_one_point_has(group, first):
    """What the other has not is 0 there: the difference is all of it, and over 0 there is no ratio."""
    one, other = study(**ALONE), study(**{**ALONE, **OTHERS[group]})
    rows = compared(*((one, other) if first else (other, one)))
    there = explained(other)["comm"][group]
    for name, value in there.items():
        row = rows[f"comm.{group}.{name}"]
        a, b = (0.0, value) if first else (value, 0.0)
        assert (row["a"], row["b"], row["difference"]) == (a, b, b - a)
        assert row["ratio"] == (b / a if a else None)
    assert rows["comm.tp.calls"]["a"] > 0 < rows["comm.tp.calls"]["b"]


def test_a_term_of_both_is_that_of_each():
    rows, points = compared(study(gpus=8), study(gpus=8, zero=3)), [explained(study(gpus=8, zero=z)) for z in (1, 3)]
    for term, row in rows.items():
        values = points
        for name in term.split("."):
            values = [value[name] for value in values]
        assert [row["a"], row["b"]] == values
        assert row["difference"] == values[1] - values[0]
        assert row["ratio"] == (values[1] / values[0] if values[0] else None)
    assert rows["memory.weights_bytes"]["ratio"] == pytest.approx(1 / 8)
    assert not any(term.startswith("operations") for term in rows)


def test_without_a_study_both_are_what_is_set(capsys):
    """Settings alone mean the same two points as a study that says them."""
    of_both = ("model=llama-2-7b", "hardware=h100-sxm", "gpus=64", "global_batch=1024")
    flags = [part for text in of_both for part in ("--set", text)]
    assert run(["compare", *flags, "--set-b", "optimizer=muon", "--format", "json"]) == 0
    there = {row["term"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    given = {"hardware": "h100-sxm", "model": "llama-2-7b", "set": {"gpus": 64, "global_batch": 1024}}
    points = [explained({**given, "set": {**given["set"], "optimizer": name}}) for name in ("adamw", "muon")]
    assert [there["step_s"][side] for side in "ab"] == [point["step_s"] for point in points]
    assert there["step_s"]["difference"] > 0


# -- volume, by hand --------------------------------------------------------------------------------------------------


BASE = (
    "compare",
    "--set",
    "model=llama-3-8b",
    "--set",
    "hardware=h100",
    "--set",
    "gpus=64",
    "--set",
    "global_batch=256",
)


def test_sides_are_named_by_the_value_in_force(capsys):
    """The precision of a training step is bf16 where nothing is said, whatever a field's own default is."""
    assert run([*BASE, "--set-b", "precision=fp16", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["meta"]["differs"] == [
        {"differs": "precision", "a": "bf16", "b": "fp16"}
    ]


def test_a_side_takes_its_own_in_place_of_what_both_have(capsys):
    assert run([*BASE, "--set-b", "gpus=128", "--format", "json"]) == 0
    rows = {row["term"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (rows["gpus"]["a"], rows["gpus"]["b"]) == (64, 128)
    assert run([*BASE, "--set-b", "global-batch=512", "--format", "json"]) == 0  # a key as its flag is written
    assert json.loads(capsys.readouterr().out)["meta"]["differs"] == [
        {"differs": "global_batch", "a": "256", "b": "512"}
    ]


def test_a_side_that_does_not_fit_is_told(capsys):
    assert (
        run(["compare", "llama-step", "--set-b", "tp=1", "--set-b", "pp=1", "--set-b", "vpp=1", "--format", "json"])
        == 0
    )
    out, err = capsys.readouterr()
    about = json.loads(out)["meta"]
    assert (about["a"]["feasible"], about["a"]["reason"], about["b"]["feasible"]) == (True, None, False)
    assert "GiB needed" in about["b"]["reason"]
    assert "is not feasible: does not fit" in err


def test_groups_of_a_step(tmp_path):
    """Tensors over two, stages over two, four replicas: of the last stage, which has the logits."""
    point = {**MODEL, "tp": 2, "pp": 2, "dp": 4, "accumulation": 8, "zero": 0, "sp": "off"}
    found = volume_of({"hardware": machine(tmp_path, flops=1e14, network=1e11, outer=1e11), "set": point})
    groups, steps, layers = found["groups"], 8, L // 2
    # Two sums forward and two backward in a layer; of the logits the gradient, and three numbers a token.
    assert groups["tp"]["message_bytes"] == pytest.approx(steps * (4 * layers * HIDDEN + HIDDEN + 3 * 4 * S))
    assert groups["tp"]["calls"] == steps * (4 * layers + 1 + 3)
    assert groups["tp"]["volume_bytes"] == 2 * groups["tp"]["message_bytes"]
    assert groups["tp"]["wire_bytes"] == pytest.approx(groups["tp"]["message_bytes"])  # 2 (2 - 1) / 2
    assert groups["tp"]["smallest_message_bytes"] == 4 * S
    assert groups["tp"]["largest_message_bytes"] == HIDDEN
    # Each of two devices sends a half on, and gathers the whole; forward, and back.
    assert groups["pp"]["message_bytes"] == pytest.approx(2 * steps * (HIDDEN / 2 + HIDDEN))
    assert groups["pp"]["wire_bytes"] == pytest.approx(2 * steps * (HIDDEN / 2 + HIDDEN / 2))
    held = layers * (12 * H * H / 2 + 2 * H) + V * H / 2 + H
    assert groups["dp"]["message_bytes"] == pytest.approx(2 * held)
    assert groups["dp"]["wire_bytes"] == pytest.approx(2 * 3 / 4 * 2 * held)
    assert (groups["world"]["message_bytes"], groups["world"]["calls"]) == (4, 1)
    assert all(row["calls"] > 0 for row in found["messages"])  # nothing of the embedding, which the first stage has


@pytest.mark.parametrize(("again", "repeated"), [({}, L), ({"recompute_layers": 3}, 3)])
def test_what_is_computed_again_is_sent_again(again, repeated):
    """The two sums of a layer's forward pass."""
    point = {"tp": 2, "gpus": 2, "sp": "off", "accumulation": 2, "vocab": 0}
    plain, full = (volume_of(study(**point, **more))["groups"]["tp"] for more in ({}, {"recompute": "full", **again}))
    assert plain["message_bytes"] == 2 * 4 * L * HIDDEN
    assert full["message_bytes"] == plain["message_bytes"] + 2 * 2 * repeated * HIDDEN
    assert full["calls"] == 2 * (4 * L + 2 * repeated)


def test_messages_are_named_and_sum_to_their_groups():
    found = volume_of(study(tp=2, pp=2, gpus=16, accumulation=4, zero=2, recompute="full"))
    for group, sums in found["groups"].items():
        mine = [row for row in found["messages"] if row["group"] == group]
        for name, of in (("calls", "calls"), ("volume_bytes", "volume_bytes"), ("wire_bytes", "wire_bytes"),
                         ("message_bytes", "total_message_bytes")):  # fmt: skip
            assert sum(row[of] for row in mine) == pytest.approx(sums[name])
        assert sums["smallest_message_bytes"] == min(row["message_bytes"] for row in mine)
        assert sums["largest_message_bytes"] == max(row["message_bytes"] for row in mine)
        assert {row["devices"] for row in mine} == {{"tp": 2, "pp": 2, "dp": 4, "world": 16}[group]}
        sized = [row for row in found["distribution"] if row["group"] == group]
        for row in sized:
            assert row["to_bytes"] == 2 * row["from_bytes"] == 2 ** (1 + round(math.log2(row["from_bytes"])))
            inside = [m for m in mine if row["from_bytes"] <= m["message_bytes"] < row["to_bytes"]]
            assert row["wire_bytes"] == pytest.approx(sum(m["wire_bytes"] for m in inside))
            assert row["calls"] == pytest.approx(sum(m["calls"] for m in inside))
        assert sum(row["calls"] for row in sized) == pytest.approx(sums["calls"])


def test_over_axes_a_row_for_each_group():
    """What does not fit is sent all the same; what breaks a rule has the reason and no bytes."""
    axes = {"hardware": "h100-sxm", "set": {**MODEL, "gpus": 8, "zero": 0, "memory_capacity": 0.01},
            "sweep": {"tp": [1, 2, 3]}}  # fmt: skip
    rows = volumes_of(axes)
    assert [(row["tp"], row["group"]) for row in rows] == [
        (1, "dp"), (2, "tp"), (2, "dp"), (2, "world"), (3, None)]  # fmt: skip
    by = {(row["tp"], row["group"]): row for row in rows}
    assert by[1, "dp"]["message_bytes"] == pytest.approx(2 * (L * LAYER + 2 * V * H + H))
    assert by[1, "dp"]["wire_bytes"] == pytest.approx(2 * 7 / 8 * by[1, "dp"]["message_bytes"])
    assert by[2, "dp"]["message_bytes"] == pytest.approx(2 * (L * (6 * H * H + 2 * H) + V * H + H))
    for row in rows[:4]:
        assert row["mean_message_bytes"] == pytest.approx(row["message_bytes"] / row["calls"])
        assert row["parameters"] == L * LAYER + 2 * V * H + H
        assert row["reason"] is None
    assert "tp does not divide" in by[3, None]["reason"]
    assert by[3, None]["message_bytes"] is by[3, None]["mean_message_bytes"] is None


# -- beside a log -----------------------------------------------------------------------------------------------------

LOG = """\
Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)
broadcast
                    2.0 KB              146                 11.12               0.08                0.43
                    1.5 MB              4                   11.12               0.08                0.43
all_reduce
                    8.0 MB              40                  11.12               0.08                0.43
                    64.0 MB             120                 11.12               0.08                0.43
all_gather_into_tensor
                    10.0 MB             40                  602.29              9.69                1468.06
"""
KB, MB = 2.0**10, 2.0**20
FLAGS = ["--layers", L, "--hidden", H, "--heads", 16, "--vocab", V, "--seq-len", S, "--bias", "off", "--norm",
         "rmsnorm", "--gpus", 4, "--zero", 0, "--format", "json"]  # fmt: skip


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(LOG)
    return path


@pytest.mark.parametrize("steps", [1, 40])
def test_what_was_measured_is_counted_a_step(log, steps, capsys):
    """Calls, and calls times their sizes, over the steps; a gather's size is of a device's part, of four."""
    code, found, _ = command(capsys, "volume", *FLAGS, "--log", log, "--steps", steps)
    assert code == 0
    rows = {row["collective"]: row for row in found["measured"]}
    assert list(rows) == ["broadcast", "all_reduce", "all_gather"]
    measured = {"broadcast": (150, 146 * 2 * KB + 4 * 1.5 * MB), "all_gather": (40, 40 * 4 * 10 * MB),
                "all_reduce": (160, 40 * 8 * MB + 120 * 64 * MB)}  # fmt: skip
    gradients = 2 * (L * LAYER + 2 * V * H + H)
    predicted = {"broadcast": (0, 0), "all_gather": (0, 0), "all_reduce": (1, gradients)}  # each has their norm
    for kind, row in rows.items():
        calls, size = measured[kind]
        assert row["measured_calls"] == pytest.approx(calls / steps)
        assert row["measured_message_bytes"] == pytest.approx(size / steps)
        assert (row["predicted_calls"], row["predicted_message_bytes"]) == pytest.approx(predicted[kind])
        assert row["ratio"] == pytest.approx(predicted[kind][1] / (size / steps))


def test_a_gather_is_of_the_most_devices_there_are(log, capsys):
    """Of four, of which two split tensors: their sums, the gradients of halves, and the norm over those two."""
    _, found, _ = command(capsys, "volume", *FLAGS, "--tp", 2, "--sp", "off", "--log", log)
    rows = {row["collective"]: row for row in found["measured"]}
    assert rows["all_gather"]["measured_message_bytes"] == 40 * 4 * 10 * MB
    sums = 4 * L * HIDDEN + HIDDEN + HIDDEN + 3 * 4 * S  # of layers, the embedding, the logits' gradient, and the loss
    gradients = 2 * (L * (6 * H * H + 2 * H) + V * H + H)
    assert rows["all_reduce"]["predicted_message_bytes"] == pytest.approx(sums + gradients + 4)
    assert rows["all_reduce"]["predicted_calls"] == 4 * L + 1 + 1 + 3 + 1 + 1


def test_what_was_not_measured_has_no_ratio(log, capsys):
    log.write_text(LOG[: LOG.index("all_reduce")])
    _, found, _ = command(capsys, "volume", *FLAGS, "--log", log)
    (row,) = [row for row in found["measured"] if row["collective"] == "all_reduce"]
    assert (row["measured_calls"], row["measured_message_bytes"], row["ratio"]) == (0, 0, None)


@pytest.mark.parametrize("steps", [0, -1])
def test_no_step_is_refused(log, steps, capsys):
    code, out, err = command(capsys, "volume", *FLAGS, "--log", log, "--steps", steps)
    assert (code, out) == (2, "")
    assert f"--steps must be at least 1, not {steps}" in err

"""The inverse question over axes: every row's values in closed form, on hardware on which a step is counted by hand.

A model without a vocabulary, S tokens, on t devices: forward 24 S H^2 + 2 S^2 H FLOP a layer (a causal mask halves the
scores), twice that backward for products and 3.125 times for attention, and four all-reduces of 2 S H bytes.
"""

from __future__ import annotations

import json
import math

import pytest
from face import command, machine, row_of, rows_of, solved

from comp_comm.errors import ConfigError, InfeasibleError

S, L = 1024, 4
MODEL = {"layers": L, "heads": 8, "vocab": 0, "seq_len": S, "sp": "off"}
FLOPS, NETWORK = 1e14, 1e11
HIDDEN, DEGREES = [1024, 2048, 4096], [2, 4, 8]


def compute_s(hidden, tp, micro_batch=1):
    products, attention = 24 * S * hidden**2, 2 * S**2 * hidden
    return micro_batch * L * (3 * products + (1 + 2.5 / 0.8) * attention) / tp / FLOPS


def comm_s(hidden, tp, network=1.0):
    return 4 * L * 2 * (tp - 1) / tp * 2 * S * hidden / (NETWORK * network)


def network_for(share, hidden, tp):
    """Serialized over all is c / n / (C + c / n)."""
    return comm_s(hidden, tp) * (1 - share) / (share * compute_s(hidden, tp))


@pytest.fixture
def hardware(tmp_path):
    return machine(tmp_path, flops=FLOPS, network=NETWORK)


@pytest.mark.slow
def test_a_row_for_each_point_in_the_order_of_the_axes(hardware):
    study = {"hardware": hardware, "set": MODEL, "sweep": {"hidden": HIDDEN, "tp": DEGREES}}
    rows = solved(study, "serialized_comm_fraction", 0.25, "network")
    assert [(row["hidden"], row["tp"]) for row in rows] == [(hidden, tp) for hidden in HIDDEN for tp in DEGREES]
    for row in rows:
        assert row["value"] == pytest.approx(network_for(0.25, row["hidden"], row["tp"]), rel=1e-6)
        assert (row["achieved"], row["reason"]) == (pytest.approx(0.25), None)
        assert (row["solved_for"], row["column"], row["target"]) == ("network", "serialized_comm_fraction", 0.25)
        assert row["network"] == row["value"]
        there = {**MODEL, "hidden": row["hidden"], "tp": row["tp"], "network": row["value"]}
        assert row_of({"hardware": hardware, "set": there})["serialized_comm_fraction"] == pytest.approx(0.25)


def test_points_without_a_solution_have_a_row_that_says_why(hardware):
    """Between ends that some of the values lie in; one device has nothing to say."""
    values = {(hidden, tp): network_for(0.25, hidden, tp) for hidden in HIDDEN for tp in DEGREES}
    low, high = sorted(values.values())[2] * 0.99, sorted(values.values())[5] * 1.01
    study = {"hardware": hardware, "set": MODEL, "sweep": {"hidden": HIDDEN, "tp": [1, *DEGREES]}}
    rows = solved(study, "serialized_comm_fraction", 0.25, "network", (low, high))
    assert len(rows) == 12
    for row in rows:
        wanted = values.get((row["hidden"], row["tp"]))
        if wanted is None:
            assert row["reason"] == "network does not change it: it is 0"
        elif low <= wanted <= high:
            assert (row["value"], row["reason"]) == (pytest.approx(wanted, rel=1e-6), None)
            continue
        else:
            at = [comm_s(row["hidden"], row["tp"], n) / compute_s(row["hidden"], row["tp"]) for n in (high, low)]
            ends = [float(part) for part in row["reason"].removeprefix("it goes from ").split(" to ")]
            assert ends == pytest.approx([ratio / (1 + ratio) for ratio in at], rel=1e-4)
        assert row["value"] is row["achieved"] is row["network"] is None


def test_nothing_anywhere_is_an_error_with_the_range(hardware):
    study = {"hardware": hardware, "set": {**MODEL, "tp": 8}, "sweep": {"hidden": HIDDEN}}
    with pytest.raises(
        InfeasibleError, match=r"no value of network from 1 to 2 gives .* = 0\.9999; it goes from 0\.\d+"
    ):
        solved(study, "serialized_comm_fraction", 0.9999, "network", (1, 2))


@pytest.mark.slow
def test_a_column_that_comes_back_has_two_values(tmp_path):
    """Of one batch: small micro-batches start more kernels, large ones fill the pipeline later.

    G / b of a + c b, and of two stages once more: c b^2 - (T - G c - a) b + G a = 0. Where a step cannot take so little
    time there is no value, nor where a micro-batch would have to be larger than the batch. Micro-batches divide it.
    """
    start = 1e-2
    hardware = machine(tmp_path, flops=FLOPS, timing={"kernel_latency": f"{start} s"})
    a, c = L / 2 * 12 * start, compute_s(2048, 1) / 2  # four products, three times each
    batches = [16, 256, 64, 128, 8]
    least = {batch: batch * c + a + 2 * math.sqrt(batch * a * c) for batch in batches}
    target = 1.05 * least[64]
    study = {"hardware": hardware, "set": {**MODEL, "hidden": 2048, "pp": 2}, "sweep": {"global_batch": batches}}
    rows = solved(study, "step_s", target, "micro_batch")
    found = {batch: [row["value"] for row in rows if row["global_batch"] == batch] for batch in batches}
    assert [row["global_batch"] for row in rows] == [16, 16, 256, 64, 64, 128, 8, 8]
    for batch, values in found.items():
        half = (target - batch * c - a) / 2
        root = half**2 - batch * a * c
        roots = [(half + sign * math.sqrt(root)) / c for sign in (-1, 1)] if root > 0 and half > 0 else []
        # Between whole sequences, tokens are padded to tiles of 64.
        within = [root for root in roots if root <= batch]
        assert [value for value in values if value is not None] == pytest.approx(within, abs=64 / S), batch
    assert [row["reason"] for row in rows if row["global_batch"] == 16][1].endswith("that the study allows, 16")
    for row in rows:
        if row["value"] is not None:
            divisors = [n for n in range(1, 257) if row["global_batch"] % n == 0]
            assert row["below"] == max(n for n in divisors if n <= row["value"])
            assert row["above"] == min(n for n in divisors if n >= row["value"])
            for side in ("below", "above"):
                at = row[side] * c * (1 + row["global_batch"] / row[side]) + a * (1 + row["global_batch"] / row[side])
                assert row[f"at_{side}"] == pytest.approx(at)


@pytest.mark.slow
def test_a_degree_has_valid_neighbours_in_every_row(hardware):
    """Of t devices: c (t - 1) over C + c (t - 1), so t = 1 + f C / (c (1 - f)); divisors of heads are around it."""
    hidden = [1024, 3072, 1536]
    study = {"hardware": hardware, "set": {**MODEL, "heads": 512}, "sweep": {"hidden": hidden}}
    rows = solved(study, "serialized_comm_fraction", 0.25, "tp")
    assert [row["hidden"] for row in rows] == hidden
    for row in rows:
        h = row["hidden"]
        expected = 1 + 0.25 * compute_s(h, 1) / (0.75 * comm_s(h, 2) * 2)
        assert row["value"] == pytest.approx(expected, rel=1e-6)
        divisors = [n for n in range(1, h + 1) if 512 % n == 0 and 4 * h % n == 0]
        assert row["below"] == max(n for n in divisors if n <= expected)
        assert row["above"] == min(n for n in divisors if n >= expected)
        for side in ("below", "above"):
            share = comm_s(h, row[side]) / (comm_s(h, row[side]) + compute_s(h, row[side]))
            assert row[f"at_{side}"] == pytest.approx(share, rel=1e-6)


@pytest.mark.a_third
@pytest.mark.parametrize("degrees", [
    [2, 4],
    pytest.param([2, 8], marks=pytest.mark.xfail(reason="ffn_hidden is taken to be 4, of a width of 1")),
])  # fmt: skip
def test_a_width_has_neighbours_that_its_degree_divides(hardware, degrees):
    """Compute grows faster with the width than messages do: one solution, between multiples of eight heads."""
    rows = solved({"hardware": hardware, "set": {**MODEL, "hidden": 1024}, "sweep": {"tp": degrees}},
                  "serialized_comm_fraction", 0.1, "hidden")  # fmt: skip
    assert [row["reason"] for row in rows] == [None, None]
    for row in rows:
        tp, h = row["tp"], row["value"]
        assert comm_s(h, tp) / (comm_s(h, tp) + compute_s(h, tp)) == pytest.approx(0.1, rel=1e-6)
        assert (row["below"], row["above"]) == (8 * math.floor(h / 8), 8 * math.ceil(h / 8))


@pytest.mark.slow
def test_a_rule_that_a_point_breaks_is_its_reason(hardware):
    """Whatever the network is, eight heads are not split over three devices."""
    study = {"hardware": hardware, "set": {**MODEL, "hidden": 1536}, "sweep": {"tp": [2, 3, 8]}}
    rows = solved(study, "serialized_comm_fraction", 0.25, "network")
    assert [row["value"] is None for row in rows] == [False, True, False]
    assert "tp does not divide heads" in rows[1]["reason"]
    assert rows[2]["value"] == pytest.approx(network_for(0.25, 1536, 8), rel=1e-6)


@pytest.mark.slow
def test_what_the_study_says_of_the_field_is_dropped(hardware):
    """A field that is fixed, or an axis of its own, or tied to another one."""
    plain = {"hardware": hardware, "set": {**MODEL, "hidden": 2048, "tp": 4}}
    wanted = network_for(0.25, 2048, 4)
    for more in ({"set": {**plain["set"], "network": 7}}, {"sweep": {"network": [1, 2, 3]}},
                 {"zip": [{"network": 1, "flops": 1}, {"network": 2, "flops": 2}]}):  # fmt: skip
        rows = solved({**plain, **more}, "serialized_comm_fraction", 0.25, "network")
        faster = [row.get("flops", 1) for row in rows]
        assert [row["value"] for row in rows] == pytest.approx([wanted * factor for factor in faster], rel=1e-6)
        assert faster == ([1, 2] if "zip" in more else [1])


@pytest.mark.slow
def test_the_command_prints_a_row_a_point(hardware, tmp_path, capsys):
    study = tmp_path / "study.yaml"
    given = {"hardware": hardware, "set": {**MODEL, "hidden": 2048}, "sweep": {"tp": [2, 8]}}
    study.write_text(json.dumps(given), encoding="utf-8")
    call = ("solve", study, "--target", "serialized_comm_fraction=0.25", "--for", "network", "--format", "json")
    code, answer, _ = command(capsys, *call)
    assert code == 0
    assert [row["value"] for row in answer["rows"]] == pytest.approx([network_for(0.25, 2048, tp) for tp in (2, 8)])


@pytest.mark.parametrize(("question", "said"), [
    (("step_s", math.inf, "network", None), "finite"), (("step_s", 1, "network", (2, 1)), "--between"),
    (("step_s", 1, "network", (0, 1)), "--between"), (("step", 1, "network", None), "no column is called 'step'"),
    (("step_s", 1, "pp", None), "cannot be solved for"), (("overlapped_comm_s", 1, "network", None), "has no column"),
    (("step_s", 1, "inter_node_slowdown", None), "does not model"),
])  # fmt: skip
def test_questions_that_are_none(hardware, question, said):
    with pytest.raises(ConfigError, match=said):
        solved({"hardware": hardware, "set": {**MODEL, "hidden": 1024}}, *question)


def test_too_many_points_are_refused(hardware):
    many = {"from": 1, "to": 2, "steps": 400}
    study = {"hardware": hardware, "set": {**MODEL, "hidden": 1024}, "sweep": {"flops": many, "latency": many}}
    with pytest.raises(ConfigError, match="160,000 points; at most 100,000"):
        solved(study, "step_s", 1, "network")
    assert len(rows_of({**study, "sweep": {"flops": [1, 2]}})) == 2


@pytest.mark.slow
def test_more_points_than_are_worked_out_at_once(hardware):
    """2600 points: faster arithmetic needs as much more network."""
    study = {"hardware": hardware, "set": {**MODEL, "tp": 8}, "sweep": {
        "hidden": {"from": 1024, "to": 4096, "step": 64}, "flops": {"from": 1, "to": 2, "steps": 53}}}  # fmt: skip
    rows = solved(study, "serialized_comm_fraction", 0.25, "network")
    assert len(rows) == 49 * 53
    for row in rows[::97]:
        assert row["value"] == pytest.approx(row["flops"] * network_for(0.25, row["hidden"], 8), rel=1e-6)


def test_where_a_column_stays_on_the_target_it_begins_to():
    """Gradients that fit under the backward pass are exposed no more, however fast the network is."""
    layer = {"cost_model": "comp_vs_comm", "hardware": "mi210", "set": {"seq_len": 1024, "micro_batch": 1, "tp": 16}}
    columns = ("overlapped_comm_s", "exposed_comm_s")
    rows = solved({**layer, "sweep": {"hidden": [8192, 16384]}}, "exposed_comm_s", 0, "network", (0.01, 100))
    assert [row["hidden"] for row in rows] == [8192, 16384]
    for row in rows:
        slow = row_of({**layer, "set": {**layer["set"], "hidden": row["hidden"], "network": 0.01}}, columns)
        hides = slow["overlapped_comm_s"] - slow["exposed_comm_s"]
        assert row["value"] == pytest.approx(0.01 * slow["overlapped_comm_s"] / hides, rel=1e-6)
        assert row["achieved"] == 0

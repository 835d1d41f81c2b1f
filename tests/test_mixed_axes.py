"""Axes on which what is there and what is not stand side by side; ranges of one point; domains of another size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from face import machine, row_of, rows_of

from comp_comm.errors import ConfigError
from comp_comm.formulas.amped import layer_nonlinear

# -- amped: dense and mixed models on one axis ------------------------------------------------------------------------

AMPED = {"hidden": 4096, "seq_len": 2048, "layers": 8, "heads": 32, "global_batch": 64, "micro_batch": 1, "gpus": 64,
         "tp": 4}  # fmt: skip
MIXED = {"top_k": 2, "moe_ffn_hidden": 2048, "moe_every": 2}
SECONDS = ("step_s", "compute_s", "tp_comm_s", "pp_comm_s", "ep_comm_s", "dp_comm_s", "bubble_s", "model_flops",
           "hardware_flops")  # fmt: skip


def amped(**more):
    fixed, axes = {**AMPED, **more}, {}
    axes = {name: fixed.pop(name) for name, value in more.items() if isinstance(value, list)}
    return rows_of(
        {"hardware": "papers/hardware/amped-a100", "cost_model": "amped", "set": fixed, "sweep": axes}, SECONDS
    )


@pytest.mark.parametrize("pp", [1, 2])
def test_amped_on_an_axis_of_experts(pp):
    """A dense row has no message of experts, not even an empty one, which would take its hops."""
    dense, mixed = amped(experts=[0, 8], pp=pp, **MIXED)
    assert dense == amped(pp=pp)[0]
    assert mixed == amped(experts=8, pp=pp, **MIXED)[0]
    assert mixed["dp_comm_s"] > dense["dp_comm_s"]


def test_amped_on_an_axis_of_groups_of_experts():
    for size, row in zip((1, 2, 8), amped(experts=8, ep=[1, 2, 8], **MIXED), strict=True):
        assert row == amped(experts=8, ep=size, **MIXED)[0]


@pytest.mark.parametrize("active", [1, 2, 6])
def test_operations_of_active_experts(active):
    """Of a token: 5 a score, 8 a number of each network it goes through, 9 a number of two norms."""
    tokens, seq, hidden, wide, heads = 10, 7, 16, 48, 4
    assert layer_nonlinear(tokens, seq, hidden, wide, heads, active) == tokens * (
        5 * heads * seq + 8 * active * wide + 2 * 9 * hidden
    )


def test_the_compute_of_active_experts_counts(tmp_path):
    """On a device whose products take no time there are only softmax, activations and norms: four layers of eight."""
    speed = 1e12
    timing = {"vector_flops": f"{speed:g} FLOP/s", "gemm_ramp_tokens": 0}
    given = {"hardware": machine(tmp_path, timing=timing, outer=1e21), "cost_model": "amped"}
    point = {**AMPED, "gpus": 4, "experts": 8, **MIXED, "precision": "bf16"}
    found = row_of({**given, "set": point}, SECONDS)
    each = 5 * 32 * 2048 + 2 * 9 * 4096
    layers = 4 * (each + 8 * 4 * 4096) + 4 * (each + 8 * 2 * 2048)
    assert found["compute_s"] * speed == pytest.approx(3 * 64 * 2048 * layers / 4, rel=1e-6)


# -- ranges -----------------------------------------------------------------------------------------------------------

LAYER = {"cost_model": "comp_vs_comm", "set": {"micro_batch": 1, "seq_len": 1024, "tp": 4}}


@pytest.mark.parametrize(("given", "values"), [
    ({"from": 4096, "to": 4096, "steps": 1}, [4096]), ({"from": 4096, "to": 4096, "step": 7}, [4096]),
    ({"from": 4096, "to": 4096, "steps": 1, "scale": "log"}, [4096]),
    ({"from": 1024, "to": 4096, "steps": 3, "scale": "log"}, [1024, 2048, 4096]),
    ({"from": 1024, "to": 4096, "steps": 4}, [1024, 2048, 3072, 4096]),
    ({"from": 1024, "to": 4000, "step": 1024}, [1024, 2048, 3072]),
    ({"from": 1000, "to": 3000, "steps": 6, "round_to": 512}, [1024, 1536, 2048, 2560]),
    ({"from": 1024, "to": 1400, "steps": 9, "round_to": 512}, [1024]),
])  # fmt: skip
def test_a_range_is_its_points(given, values):
    rows = rows_of({**LAYER, "sweep": {"hidden": given}}, ("hidden",))
    assert [row["hidden"] for row in rows] == values


def test_a_range_of_parts_ends_where_it_is_said_to():
    axis = {"from": 0.1, "to": 0.7, "steps": 3, "scale": "log"}
    fixed = {**LAYER["set"], "hidden": 4096}
    low, middle, high = (
        row["network"] for row in rows_of({**LAYER, "set": fixed, "sweep": {"network": axis}}, ("network",))
    )
    assert (low, high) == (0.1, 0.7)
    assert middle == pytest.approx(0.07**0.5)


@pytest.mark.parametrize(("given", "said"), [
    ({"from": 4096, "to": 4095, "steps": 2}, "'from' must not exceed 'to'"),
    ({"from": 4096, "to": 8192, "steps": 1}, "needs 'from' and 'to' to be equal"),
    ({"from": 1024, "to": 4096, "steps": 0}, "'steps' must be a whole number from 1"),
    ({"from": 1024, "to": 4096, "step": 0}, "'step' must be above 0"),
    ({"from": 1024, "to": 4096, "steps": 3, "step": 2}, "either 'steps'"),
    ({"from": 1024, "to": 4096, "steps": 4, "scale": "log"}, "not whole"),
    ({"from": 1025, "to": 1030, "steps": 2, "round_to": 512}, "no multiple of 512"),
    ({"from": 1, "to": 2, "steps": 2, "scale": "cubic"}, "'scale'"), ({"from": 1, "steps": 2}, "a range needs"),
])  # fmt: skip
def test_a_range_that_is_none(given, said):
    with pytest.raises(ConfigError, match=said):
        rows_of({**LAYER, "sweep": {"hidden": given}})


# -- domains ----------------------------------------------------------------------------------------------------------

MODEL = {"layers": 4, "hidden": 1024, "heads": 64, "vocab": 0, "seq_len": 1024, "sp": "off",
         "collective_algorithm": "ring"}  # fmt: skip


@pytest.fixture
def racks(tmp_path):
    """Domains of eight, racks of 64 with links of a tenth, and links of a hundredth between racks."""
    path = Path(machine(tmp_path, network=1e12))
    profile = json.loads(path.read_text(encoding="utf-8"))
    none = {"latency": "0 s", "entry_latency": "0 s", "tree_latency": "0 s"}
    profile["network"]["rack"] = {"domain": 64, "bandwidth": "1e11 B/s", **none}
    profile["network"]["hall"] = {"bandwidth": "1e10 B/s", **none}
    path.write_text(json.dumps(profile), encoding="utf-8")
    return str(path)


def test_a_domain_of_another_size_on_three_tiers(racks):
    """Of sixteen devices n in a domain: a ring that leaves it has n links, of those at hand."""
    message = 4 * 4 * 2 * 1024 * 1024  # four sums in four layers, forward and backward
    for nvs in (None, 1, 2, 4, 8, 16, 32, 64):
        more = {} if nvs is None else {"nvs": nvs}
        row = row_of({"hardware": racks, "set": {**MODEL, "tp": 16, **more}})
        inside = nvs or 8
        speed = 1e12 if inside >= 16 else min(1e12, inside * 1e11) if inside > 1 else 1e11
        assert row["serialized_comm_s"] == pytest.approx(2 * 15 / 16 * message / speed, rel=1e-5), nvs


@pytest.mark.parametrize("nvs", [3, 24, 48, 128])
def test_a_domain_that_does_not_divide_the_next_is_refused(racks, nvs):
    with pytest.raises(ConfigError, match=r"nvs does not divide the domain of network\.rack"):
        row_of({"hardware": racks, "set": {**MODEL, "tp": 16, "nvs": nvs}})
    rows = rows_of({"hardware": racks, "set": {**MODEL, "tp": 16}, "sweep": {"nvs": [8, nvs, 16]}})
    assert [row["feasible"] for row in rows] == [True, False, True]
    assert "nvs does not divide the domain of network.rack" in rows[1]["reason"]


def test_a_domain_beneath_an_unlimited_tier_may_be_any(tmp_path):
    hardware = machine(tmp_path, network=1e12, outer=1e11)
    rows = rows_of({"hardware": hardware, "set": {**MODEL, "tp": 16}, "sweep": {"nvs": [3, 7, 24]}})
    assert all(row["feasible"] for row in rows)
    assert rows[2]["serialized_comm_s"] < rows[1]["serialized_comm_s"]


def test_a_mesh_has_the_size_it_has():
    """Eight devices with a link for each pair: no other number of them, but that one may be said."""
    point = {**MODEL, "tp": 8, "precision": "bf16"}
    said, unsaid = (row_of({"hardware": "mi300x", "set": {**point, **more}}) for more in ({"nvs": 8}, {}))
    assert said["step_s"] == unsaid["step_s"]
    with pytest.raises(ConfigError, match="is a mesh"):
        row_of({"hardware": "mi300x", "set": {**point, "nvs": 4}})

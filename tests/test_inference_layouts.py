"""Serving on layouts and machines: what starts, what crosses domains, which formats, and what is refused."""

from __future__ import annotations

import pytest
from face import GIB, machine, row_of, rows_of

from comp_comm.errors import ConfigError

H, L, V, S, A, B, D = 1024, 6, 32000, 512, 128, 4, 64
MODEL = {"layers": L, "hidden": H, "heads": 16, "vocab": V, "seq_len": S, "output_len": A, "micro_batch": B,
         "phase": "inference", "bias": "off", "norm": "rmsnorm", "framework_gib": 0}  # fmt: skip
PRODUCTS = L * 12 * H * H + H * V  # multiplications of a token with weights
N = S + A / 2


def served(hardware, **more):
    return row_of({"hardware": hardware, "set": {**MODEL, **more}})


def test_a_machine_that_keeps_half_its_speed_does_so_in_products_alone(tmp_path):
    half = served(machine(tmp_path, flops=1e12), sustained=0.5)
    assert half["ttft_s"] * 1e12 == pytest.approx(2 * B * S * (2 * PRODUCTS + L * 2 * 16 * D * S / 2))
    assert half["tpot_s"] * 1e12 == pytest.approx(2 * B * (2 * PRODUCTS + L * 2 * 16 * D * N))


def test_each_kernel_starts_once(tmp_path):
    """Four products and attention in a layer, and the logits."""
    row = served(machine(tmp_path, timing={"kernel_latency": "1 s"}))
    assert row["tpot_s"] == pytest.approx(L * 5 + 1)
    assert row["ttft_s"] == pytest.approx(L * 4 + 1)  # fused attention has a start of its own
    flash = served(machine(tmp_path, timing={"flash_latency": "1 s"}))
    assert (flash["ttft_s"], round(flash["tpot_s"], 6)) == (pytest.approx(L), 0)


def test_a_causal_mask_may_be_counted(tmp_path):
    hardware = machine(tmp_path, flops=1e12)
    full, causal = (served(hardware, count_attention=word) for word in ("full", "causal"))
    assert full["prefill_flops"] - causal["prefill_flops"] == pytest.approx(L * 4 * 16 * D * S * S / 2)
    assert full["ttft_s"] == causal["ttft_s"]
    assert full["decode_flops_per_token"] == causal["decode_flops_per_token"]


def test_fp8_is_a_format_of_products(tmp_path):
    """Weights take a byte; the cache and what is at work have 16 bits unless the cache's format is given."""
    hardware = machine(tmp_path, memory=1e12)
    row = served(hardware, precision="fp8")
    parameters = L * (12 * H * H + 2 * H) + 2 * V * H + H
    assert row["weights_gib"] * GIB == pytest.approx(parameters)
    assert row["kv_cache_gib"] * GIB == pytest.approx(2 * B * (S + A) * L * 2 * H)
    working = 2 * B * S * (2 * H + 3 * H + 8 * H)
    assert (row["memory_gib"] - row["weights_gib"] - row["kv_cache_gib"]) * GIB == pytest.approx(working)
    # A byte for each weight and input of a product, two for its output; and two throughout for the output layer.
    products = L * ((3 + 1 + 4 + 4) * H * H + B * (7 * H + 2 * 9 * H)) + 2 * (H * V + B * (H + V))
    between = L * (2 * B * (2 * 2 + 2 * 4 + 10) * H + 2 * B * N * 2 * H) + 4 * B * H + 8 * B * V
    assert row["tpot_s"] * 1e12 == pytest.approx(products + between, rel=1e-5)


def test_the_fullest_stage_of_uneven_ones(tmp_path):
    """Stages of 1, 2, 2 and 1 layers, each with a micro-batch of every stage in its cache."""
    row = served(machine(tmp_path), pp=4, tp=2)
    layer = (12 * H * H) / 2 + 2 * H
    words, cache = V * H / 2, 4 * B * (S + A) * 2 * 2 * H / 2
    stages = [(2 * (layer + words), cache), (2 * 2 * layer, 2 * cache), (2 * (layer + words + H), cache)]
    weights, kept = max(stages, key=sum)
    assert row["weights_gib"] * GIB == pytest.approx(weights)
    assert row["kv_cache_gib"] * GIB == pytest.approx(kept)


# -- the network ------------------------------------------------------------------------------------------------------

MESSAGE = (2 * L + 1) * B * H * 2  # bytes of a decode step


def test_across_domains_the_links_between_them_count(tmp_path):
    """Sixteen devices on domains of eight, each with a link of a tenth: a ring of eight links, of what they keep."""
    hardware = machine(tmp_path, network=1e12, outer=1e10, timing={"network_sustained": 0.5})
    row = served(hardware, tp=16, collective_algorithm="ring")
    assert row["decode_comm_s"] == pytest.approx(2 * 15 / 16 * MESSAGE / (8 * 1e10 * 0.5), rel=1e-5)
    assert row["prefill_comm_s"] == pytest.approx(S * row["decode_comm_s"])


@pytest.mark.parametrize(("placement", "apart"), [("tp-cp-dp-pp", 1), ("pp-tp-cp-dp", 4), ("dp-tp-cp-pp", 2)])
def test_groups_are_where_the_placement_puts_them(tmp_path, placement, apart):
    """Four devices in a domain of eight if they are neighbours; with others between them, 8 / apart of them."""
    hardware = machine(tmp_path, network=1e12, outer=1e10)
    row = served(hardware, tp=4, pp=4, dp=2, placement=placement, collective_algorithm="ring")
    sums = 2 * 3 / 4 * MESSAGE
    here = sums / 1e12 if apart <= 2 else sums / (2 * 1e10)
    boundaries = 3 * B * H * 2
    # Stages are neighbours where they come first; else each is beyond the others' domain.
    sends = boundaries / 4 / (1e12 if placement.startswith("pp") else 1e10)
    gathers = 3 / 4 * boundaries / (1e12 if apart <= 2 else 2e10)
    assert row["decode_comm_s"] == pytest.approx(here + sends + gathers, rel=1e-4)


def test_the_algorithm_asked_for_is_used(tmp_path):
    """Between two domains a tree sends the message once, inside each a chain sends it twice."""
    hardware = machine(tmp_path, network=1e11, outer=1e12)
    row = served(hardware, tp=16, collective_algorithm="tree")
    assert row["decode_comm_s"] == pytest.approx(2 * MESSAGE / 1e11, rel=1e-5)
    ring = served(hardware, tp=16, collective_algorithm="ring")
    assert ring["decode_comm_s"] == pytest.approx(2 * 15 / 16 * MESSAGE / 1e11, rel=1e-5)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_blank_number_of_the_network_is_refused_where_it_is_needed(tmp_path):
    hardware = machine(tmp_path, outer="blank")
    assert served(hardware, tp=8)["tpot_s"] > 0
    with pytest.raises(ConfigError, match=r"network\.scale-out\.bandwidth is blank .* tp needs it"):
        served(hardware, tp=16)


def test_a_blank_number_is_told_of_every_point_that_needs_it_whichever_group_it_is_for():
    """Experts of two points are two groups, which lack the same number: neither hides the other."""
    point = {"tp": 1, "pp": 1, "micro_batch": 1, "gpus": 16, "ep": 8, "etp": 1}
    points = [{**point, "gpus": 4, "ep": 4}, point, {**point, "tp": 8, "pp": 4, "gpus": 256, "ep": 2, "etp": 8}]
    study = {"hardware": "mi210", "model": "mixtral-8x22b", "zip": points,
             "set": {"phase": "inference", "seq_len": 256, "memory_capacity": 1000}}  # fmt: skip
    fits, *others = rows_of(study)
    assert fits["feasible"]
    assert all("scale-out.bandwidth is blank" in row["reason"] for row in others)


def test_a_latency_that_is_blank_is_refused_for_two(tmp_path):
    hardware = machine(tmp_path, timing={"collective_latency": None})
    assert served(hardware)["tpot_s"] > 0
    with pytest.raises(ConfigError, match=r"timing\.collective_latency is blank"):
        served(hardware, tp=2)


@pytest.mark.parametrize(("more", "said"), [
    ({"architecture": "encoder"}, "only decoders generate tokens"),
    ({"architecture": "vit", "vocab": 0}, "only decoders generate tokens"),
    ({"architecture": "encoder-decoder"}, "only decoders generate tokens"),
    ({"pp": 8}, "exceeds the layers"),
    ({"tp": 32}, "tp does not divide heads"), ({"kv_heads": 3}, "kv_heads does not divide heads"),
    ({"gpus": 6, "tp": 4}, "does not divide gpus"), ({"cp": 2}, "inference does not model cp"),
    ({"tp": 4, "kv_heads": 2}, "tp exceeds kv_heads"),
])  # fmt: skip
def test_what_cannot_serve_is_refused(tmp_path, more, said):
    with pytest.raises(ConfigError, match=said):
        served(machine(tmp_path), **more)


def test_what_does_not_fit_says_so(tmp_path):
    needed = served(machine(tmp_path))["memory_gib"] * GIB
    point = {name: value for name, value in MODEL.items() if name != "micro_batch"}
    for room, fits in ((1.01, True), (0.99, False)):
        small, large = rows_of({"hardware": machine(tmp_path, capacity=needed * room), "set": point,
                                "sweep": {"micro_batch": [1, B]}})  # fmt: skip
        assert (small["feasible"], small["reason"]) == (True, None)
        assert large["feasible"] == fits
        assert fits or "memory exceeds" in large["reason"]

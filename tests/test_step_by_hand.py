"""A step counted by hand where layers differ: mixtures, windows, an encoder beside a decoder, stages of one layer.

On hardware on which only memory (or only arithmetic) takes time, seconds are bytes (or FLOP) over its speed.
"""

from __future__ import annotations

import pytest
from face import GIB, counted_parameters, explained, machine, memory_of, row_of, rows_of

from comp_comm.errors import ConfigError

SPEED = 1e12
S, H, A, V, L = 1024, 1024, 16, 32000, 8
D = H // A
MODEL = {"layers": L, "hidden": H, "heads": A, "vocab": V, "seq_len": S, "bias": "off", "norm": "rmsnorm",
         "dropout": "off", "framework_gib": 0}  # fmt: skip
MOE = {**MODEL, "gated": "on", "experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "dense_layers": 2, "shared_experts": 1}
EXPERT, DENSE, ATTENTION = 3 * H * 512, 3 * H * 4 * H, 4 * H * H
BESIDE = L * (ATTENTION + 2 * H) + 2 * DENSE + 6 * (H * 8 + EXPERT) + 2 * V * H + H  # all but the eight experts
EXPERTS = 6 * 8 * EXPERT


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    return machine(tmp_path_factory.mktemp("memory"), memory=SPEED, outer=1e21)


@pytest.fixture(scope="module")
def arithmetic(tmp_path_factory):
    return machine(tmp_path_factory.mktemp("flops"), flops=SPEED, outer=1e21)


def product(m, k, n):
    return 2 * (m * k + k * n + m * n)


# -- mixtures ---------------------------------------------------------------------------------------------------------

# Bytes of a parameter: gradient read for its norm; and read again, master weight and moments in and out, weight out.
NORM, ADAM = 2, 2 + 2 * 12 + 2


@pytest.mark.a_third
@pytest.mark.parametrize(("zero", "dp", "ep", "dense", "experts"), [
    (0, 8, 1, 1, 1), (1, 8, 1, 8, 8), (1, 8, 4, 8, 2), (1, 8, 8, 8, 1), (3, 8, 2, 8, 4), (0, 8, 8, 1, 1),
    (1, 8, 2, 2, 1), (1, 8, 2, 4, 2), (1, 8, 8, 4, 1),
])  # fmt: skip
def test_the_optimizer_steps_experts_where_they_are(tmp_path, zero, dp, ep, dense, experts):
    """Parameters beside experts are sharded over the shards, experts over those of them that hold the same ones."""
    memory = machine(tmp_path, memory=SPEED, timing={"memory_efficiency": 0.5})  # which is of products
    shards = {"dp_shard": dense} if zero else {}
    found = explained({"hardware": memory, "set": {**MOE, "dp": dp, "ep": ep, "zero": zero, **shards}})
    mine = BESIDE / dense + EXPERTS / ep / experts
    assert found["optimizer_s"] * SPEED == pytest.approx((NORM + ADAM) * mine)
    assert found["parameters"] == BESIDE + EXPERTS
    assert found["active_parameters"] == BESIDE + EXPERTS / 8 * 2


def test_an_offloaded_optimizer_sends_gradients_and_weights_of_experts_too(tmp_path):
    host = machine(tmp_path, network=SPEED)
    found = explained({"hardware": host, "set": {**MOE, "dp": 4, "ep": 2, "zero": 1, "offload_optimizer": "on"}})
    mine = BESIDE / 4 + EXPERTS / 2 / 2
    assert found["optimizer_s"] * SPEED == pytest.approx((2 + 2) * mine)
    assert found["memory"]["optimizer_bytes"] == 0


@pytest.mark.parametrize("zero", range(4))
def test_states_of_a_mixture(memory, zero):
    """Four replicas in two groups that share the experts out: each of them is held twice."""
    found = memory_of({"hardware": memory, "set": {**MOE, "dp": 4, "ep": 2, "zero": zero}})
    for name, each, stage in (("weights", 2, 3), ("gradients", 2, 2), ("optimizer", 12, 1)):
        shards = (4, 2) if zero >= stage else (1, 1)
        assert found[name] == pytest.approx(each * (BESIDE / shards[0] + EXPERTS / 2 / shards[1])), name


def test_gradients_of_experts_are_reduced_among_those_that_hold_them(memory):
    found = explained({"hardware": memory, "set": {**MOE, "dp": 8, "ep": 4, "zero": 0}})["comm"]["dp"]
    assert found["calls"] == 2
    assert found["message_bytes"] == pytest.approx(2 * (BESIDE + EXPERTS / 4))
    assert found["wire_bytes"] == pytest.approx(2 * (2 * 7 / 8 * BESIDE + 2 * 1 / 2 * EXPERTS / 4))


def test_a_mixture_forward(memory, arithmetic):
    """A token meets two of eight experts, whose weights are read; sorted and sorted back, 16 bytes a number."""

    def point(hardware):
        return explained({"hardware": hardware, "set": {**MOE, "dp": 2, "ep": 2}})

    attention = L * 2 * S * S / 2 * 2 * H
    met = L * ATTENTION + 2 * DENSE + 6 * (8 * H + 3 * EXPERT) + V * H
    assert point(arithmetic)["forward_s"] * SPEED == pytest.approx(2 * S * met + attention)
    dense = product(S, H, 8 * H) + product(S, 4 * H, H) + 2 * S * 3 * 4 * H
    shared = product(S, H, 2 * 512) + product(S, 512, H) + 2 * S * 3 * 512
    each = 2 * S / 4  # of the four experts here, with the other device's tokens for them
    experts = 4 * (product(each, H, 2 * 512) + product(each, 512, H)) + 2 * 2 * S * 3 * 512
    layer = product(S, H, 3 * H) + product(S, H, H) + 2 * S * 4 * H + 2 * S * 10 * H + 2 * 4 * S * H
    moved = L * layer + 2 * dense + 6 * (product(S, H, 8) + 16 * 2 * S * H + experts + shared)
    ends = 2 * 2 * S * H + product(S, H, V) + 8 * S * V
    assert point(memory)["forward_s"] * SPEED == pytest.approx(moved + ends)


@pytest.mark.a_third
@pytest.mark.parametrize("split", [{"ep": 2, "etp": 1}, {"ep": 2, "etp": 2}, {"ep": 4, "etp": 2}, {"ep": 1, "etp": 2}])
def test_experts_that_are_split_do_the_same_work(arithmetic, split):
    """Twice the tokens, gathered, through half of an expert: every device does as much."""
    found = explained({"hardware": arithmetic, "set": {**MOE, "tp": 2, "dp": 4, **split}})
    met = L * ATTENTION / 2 + 2 * DENSE / 2 + 6 * (8 * H / 2 + 2 * EXPERT / 2 + EXPERT / 2) + V * H / 2
    assert found["forward_s"] * SPEED == pytest.approx(2 * S * met + L * 2 * S * S / 2 * H)


def test_gathered_weights_of_a_mixture(memory):
    """Under ZeRO 3, with short sequences: weights of what is beside the layers (FSDP2's root) as they come, twice, and
    the gradient of logits. With few entries layers are more: two of them and gradients of the last, and of the root
    weights and the head's gradients; experts of the device among them."""
    point = {**MOE, "dense_layers": 0, "dp": 4, "ep": 2, "zero": 3}
    layer = ATTENTION + 2 * H + 8 * H + EXPERT + 4 * EXPERT
    root = 2 * V * H + H
    assert memory_of({"hardware": memory, "set": point})["buffers"] == pytest.approx(2 * 2 * root)
    assert memory_of({"hardware": memory, "set": point})["logits"] == 2 * S * V
    few = {**point, "vocab": 1024, "vocab_multiple": 1}
    of_few = 3 * 2 * layer + 2 * (2 * 1024 * H + H) + 2 * (1024 * H + H)
    assert memory_of({"hardware": memory, "set": few})["buffers"] == pytest.approx(of_few)


# -- an encoder beside a decoder --------------------------------------------------------------------------------------

ENCODER, SHORT = 4, 384
BOTH = {**MODEL, "architecture": "encoder-decoder", "encoder_layers": ENCODER, "encoder_seq_len": SHORT}


def test_an_encoder_and_a_decoder_forward(memory, arithmetic):
    """A decoder layer has a third block, with a norm and sums of its own, and keys of the encoder's tokens."""
    wide = 2 * H * 4 * H
    met = ENCODER * SHORT * (ATTENTION + wide) + L * S * (ATTENTION + 2 * H * H + wide) + L * SHORT * 2 * H * H
    pairs = ENCODER * SHORT * SHORT + L * (S * S / 2 + S * SHORT)
    found = explained({"hardware": arithmetic, "set": BOTH})
    assert found["forward_s"] * SPEED == pytest.approx(2 * (met + S * V * H) + 2 * 2 * H * pairs)
    feed = {t: product(t, H, 4 * H) + product(t, 4 * H, H) + 2 * t * 2 * 4 * H for t in (S, SHORT)}
    own = {t: product(t, H, 3 * H) + product(t, H, H) + 2 * 4 * t * H for t in (S, SHORT)}
    cross = product(S, H, H) + product(SHORT, H, 2 * H) + product(S, H, H) + 2 * 2 * (S + SHORT) * H
    rotary = 2 * 2 * 2 * H * (ENCODER * SHORT + L * S)  # of queries and keys of self-attention
    norms = 2 * 10 * H * (ENCODER * SHORT + 1.5 * L * S)
    moved = ENCODER * (own[SHORT] + feed[SHORT]) + L * (own[S] + cross + feed[S]) + rotary + norms
    ends = 2 * 2 * S * H + product(S, H, V) + 8 * S * V
    assert explained({"hardware": memory, "set": BOTH})["forward_s"] * SPEED == pytest.approx(moved + ends)


def test_parameters_of_an_encoder_and_a_decoder(memory):
    layer = ATTENTION + 8 * H * H + 2 * H
    found = explained({"hardware": memory, "set": BOTH})
    assert found["parameters"] == ENCODER * layer + L * (layer + ATTENTION + H) + 2 * V * H + 2 * H


@pytest.mark.parametrize("tp", [2, 4])
def test_messages_of_an_encoder_and_a_decoder(memory, tp):
    """Two sums in an encoder's layer, three in a decoder's, forward and backward."""
    found = explained({"hardware": memory, "set": {**BOTH, "tp": tp, "sp": "off"}})["comm"]["tp"]
    layers = 2 * 2 * H * (2 * ENCODER * SHORT + 3 * L * S)
    ends = 2 * 2 * S * H + 3 * 4 * S  # the embedding, the gradient of the logits; three numbers a token
    assert found["message_bytes"] == pytest.approx(layers + ends)
    assert found["calls"] == 2 * (2 * ENCODER + 3 * L) + 1 + 1 + 3


# -- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize(("every", "full"), [(None, 0), (4, 2), (3, 2), (8, 1)])
def test_a_window_in_some_layers(memory, arithmetic, every, full):
    """Every n-th of eight layers sees all; what the others keep of unfused attention are scores in the window."""
    w = 256
    more = {"window": w} | ({"global_every": every} if every else {})
    seen = full * S / 2 + (L - full) * (w - w * w / (2 * S))
    met = L * 12 * H * H + V * H
    found = explained({"hardware": arithmetic, "set": {**MODEL, **more}})
    assert found["forward_s"] * SPEED == pytest.approx(2 * S * met + 2 * 2 * H * S * seen)
    scores = full * S + (L - full) * w
    assert found["model_flops"] == pytest.approx(3 * (2 * S * met + 2 * 2 * H * S * scores))
    unfused = {**MODEL, **more, "attention_kernel": "unfused", "dropout": "on"}
    plain = memory_of({"hardware": memory, "set": {**unfused, "recompute": "selective"}})["activations"]
    kept = memory_of({"hardware": memory, "set": unfused})["activations"]
    # Memory is fullest with the loss, when nothing is made again: logits are more than the scores of a layer.
    assert kept - plain == pytest.approx(5 * A * S * scores)


# -- stages of one layer ----------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("zero", [0, 1, 2])
@pytest.mark.parametrize("layers", [4, 8])
def test_buffers_where_a_stage_has_one_layer(memory, layers, zero):
    """A bucket of the gradients of the first stage, which has most in flight; and what comes from both sides."""
    point = {**MODEL, "layers": layers, "vocab": 8000, "pp": 4, "dp": 2, "zero": zero, "accumulation": 4}
    found = memory_of({"hardware": memory, "set": point})
    parameters = layers / 4 * (12 * H * H + 2 * H) + 8064 * H
    assert parameters < 40e6
    assert found["logits"] == 0
    assert found["buffers"] == pytest.approx(2 * parameters + 2 * 2 * S * H)
    recomputed = memory_of({"hardware": memory, "set": {**point, "vocab": 0, "recompute": "full"}})
    layer = 2 * S * H * (4 + 4 + 8)  # two norms and two blocks, Q, K, V and outputs, twice 4 H
    assert recomputed["activations"] == pytest.approx(4 * layers / 4 * 2 * S * H + layer)


def test_parts_of_a_stage_of_one_layer_add_up(memory):
    point = {**MODEL, "pp": L, "tp": 2, "cp": 2, "dp": 2, "zero": 3, "accumulation": 8}
    found = memory_of({"hardware": memory, "set": point})
    parts = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")
    assert found["total"] == pytest.approx(sum(found[name] for name in parts))
    layer = 6 * H * H + 2 * H
    # At the end weights and gradients of the embedding, and what those of the layer are scattered from; the sequence,
    # gathered; two pairs of keys and values; what comes from two sides.
    token = S / 2
    messages = 2 * token * H + 2 * 2 * token * 2 * H / 2 + 2 * 2 * token / 2 * H
    assert found["buffers"] == pytest.approx(2 * layer + (2 + 2) * V * H / 2 + messages)


# -- what some have not -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "beside"), [
    ({}, 0), ({"patch_features": 768}, 769 * H), ({"classes": 1000}, 1000 * (H + 1)),
    ({"patch_features": 768, "classes": 1000}, 769 * H + 1000 * (H + 1)),
])  # fmt: skip
def test_a_vision_transformer_has_the_ends_it_is_given(memory, more, beside):
    found = explained({"hardware": memory, "set": {**MODEL, "vocab": 0, "architecture": "vit", **more}})
    assert found["parameters"] == L * (12 * H * H + 2 * H) + H + beside


def test_modules_of_prediction_have_the_last_layers_kind():
    """A module has three norms, a projection of two hidden states, and a layer: of experts if there are any."""
    dense, mixed = counted_parameters(**{**MODEL, "mtp_layers": 1}), counted_parameters(**{**MOE, "mtp_layers": 1})
    module = 2 * H * H + 3 * H
    assert dense[2] == module + 12 * H * H + 2 * H
    assert mixed[2] == module + ATTENTION + 2 * H + 8 * H + 9 * EXPERT
    beside = {**MOE, "mtp_layers": 1, "shared_experts": 0, "dense_layers": 0}
    both = counted_parameters(**{**beside, "experts": [0, 8]})
    each = [counted_parameters(**{**beside, "experts": count}) for count in (0, 8)]
    for part in range(3):
        assert both[part].tolist() == [each[0][part], each[1][part]]


def test_without_sequence_parallelism_a_sequence_need_not_divide(memory):
    odd = {**MODEL, "seq_len": 1001, "tp": 2}
    assert row_of({"hardware": memory, "set": {**odd, "sp": "off"}})["feasible"]
    with pytest.raises(ConfigError, match="tp does not divide seq_len / cp"):
        row_of({"hardware": memory, "set": odd})


def test_rows_with_and_without_sequence_parallelism(memory):
    rows = rows_of(
        {"hardware": memory, "set": {**MODEL, "seq_len": 1001}, "sweep": {"sp": ["off", "on"], "tp": [1, 2]}}
    )
    assert [row["feasible"] for row in rows] == [True, True, True, False]


@pytest.mark.a_third
@pytest.mark.parametrize(("point", "key", "who"), [
    ({"tp": 16}, "network.scale-out.bandwidth", "tp"), ({"tp": 8, "pp": 2}, "network.scale-out.bandwidth", "pp"),
    ({"cp": 16}, "network.scale-out.bandwidth", "cp"), ({"dp": 16}, "network.scale-out.bandwidth", "dp"),
])  # fmt: skip
def test_a_blank_network_is_refused_by_name(tmp_path, point, key, who):
    hardware = machine(tmp_path, outer="blank")
    with pytest.raises(ConfigError, match=rf"{key} is blank in the hardware profile, and {who} needs it"):
        explained({"hardware": hardware, "set": {**MODEL, **point}})
    sizes = {name: [1, size] for name, size in point.items()}
    rows = rows_of({"hardware": hardware, "set": MODEL, "zip": [dict(zip(sizes, each, strict=True))
                    for each in zip(*sizes.values(), strict=True)]})  # fmt: skip
    assert [row["feasible"] for row in rows] == [True, False]
    assert f"{key} is blank in the hardware profile, and {who} needs it" in rows[1]["reason"]
    assert rows[1]["step_s"] is None


@pytest.mark.a_third
@pytest.mark.parametrize("point", [{"tp": 2}, {"cp": 2}, {"dp": 2}, {"pp": 2}])
def test_a_blank_start_is_refused_for_two(tmp_path, point):
    hardware = machine(tmp_path, timing={"collective_latency": None})
    assert explained({"hardware": hardware, "set": MODEL})["step_s"] > 0
    with pytest.raises(ConfigError, match=r"timing\.collective_latency is blank"):
        explained({"hardware": hardware, "set": {**MODEL, **point}})
    axes = {name: [1, size] for name, size in point.items()}
    assert [row["feasible"] for row in rows_of({"hardware": hardware, "set": MODEL, "sweep": axes})] == [True, False]


def test_a_device_of_the_catalogue_without_a_network_between_nodes():
    for more in ({"tp": 8}, {"gpus": 8}):
        with pytest.raises(ConfigError, match=r"network\.scale-out\.bandwidth is blank|no network tier reaches"):
            explained({"hardware": "mi210", "set": {**MODEL, **more}})


def test_memory_is_said_in_gib(memory):
    point = {"hardware": memory, "set": {**MOE, "dp": 4, "ep": 2, "framework_gib": 1.5}}
    parts, row = memory_of(point), row_of(point, ("memory_gib", "weights_gib", "framework_gib"))
    assert row["memory_gib"] * GIB == pytest.approx(parts["total"])
    assert row["weights_gib"] * GIB == pytest.approx(parts["weights"])
    assert parts["framework"] == 1.5 * GIB


def test_values_may_be_narrower_than_keys():
    """Q of 16 heads of 64, K of 4, V of 4 heads of 32; what comes out is 16 x 32 wide. Two FLOP a weight and token."""
    point = {"layers": 1, "hidden": 1024, "heads": 16, "kv_heads": 4, "head_dim": 64, "v_head_dim": 32, "vocab": 0,
             "seq_len": 512, "bias": "off", "global_batch": 1, "micro_batch": 1}  # fmt: skip
    found = explained({"hardware": "h100-sxm", "set": point})
    flops = {op["operation"]: op["flops"] for op in found["operations"] if op["phase"] == "forward"}
    assert flops["QKV projection"] == 2 * 512 * 1024 * (16 * 64 + 4 * 64 + 4 * 32)
    assert flops["attention output"] == 2 * 512 * 1024 * 16 * 32

"""Memory of a device against what is counted by hand: states weight by weight, activations, logits, buffers, stages."""

from __future__ import annotations

import csv
import math
import random
from statistics import median

import pytest
from face import explained, rows_of
from state_dict import layers_of, of_experts, random_model, state_dict

from comp_comm.configs import catalogue
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.sweeps.point import memory
from comp_comm.validation.table import shipped

GIB = 2**30
OTHERS = ("total", "capacity", "allocated", "reserved")  # bytes that are no part
DEVICE = 81559 * 2**20  # bytes of an H100
GPT = {"layers": 12, "hidden": 1024, "heads": 16, "vocab": 51200, "seq_len": 1024, "framework_gib": 0}
MOE = {**GPT, "experts": 16, "top_k": 2, "moe_ffn_hidden": 512, "gated": "on"}


def held(hardware="h100-sxm", **point):
    found = memory(study_from({"hardware": str(hardware), "set": {"framework_gib": 0, **point}}))
    beside = ("allocated_bytes", "reserved_bytes")
    return {name.removesuffix("_bytes"): value for name, value in found.items()
            if name.endswith("_bytes") and name not in beside}  # fmt: skip


@pytest.fixture(scope="module")
def more_known(tmp_path_factory):
    """Return the path of an H100 with a peak in 32 bit and a slower link to its host."""
    text = catalogue.locate("hardware", "h100-sxm").read_text(encoding="utf-8")
    fp32 = "  fp32: {value: 67 TFLOP/s, source: sheet, certainty: high}\n"
    for old, new in (
        ("host_bandwidth: {value: 63.0", "host_bandwidth: {value: 50"),
        ("  dense: true", f"{fp32}  dense: true"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path_factory.mktemp("hardware") / "h100.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def states(hardware="h100-sxm", **point):
    found = held(hardware, **point)
    return found["weights"], found["gradients"], found["optimizer"]


def size(weights):
    return sum(w.size for w in weights)


def padded(p, tp):
    return {**p, "vocab": math.ceil(p["vocab"] / (128 * tp)) * 128 * tp}


# -- states -----------------------------------------------------------------------------------------------------------

# Bytes of a parameter: weight, gradient, optimizer.
FORMATS = [
    ({"precision": "bf16"}, (2, 2, 12)),
    ({"precision": "fp32"}, (4, 4, 8)),
    ({"precision": "fp16", "grad_precision": "fp32"}, (2, 4, 12)),
    ({"accumulate_precision": "fp32"}, (2, 6, 12)),
    ({"optimizer_precision": "bf16"}, (2, 2, 8)),
    ({"precision": "fp32", "optimizer_precision": "fp8", "grad_precision": "bf16"}, (4, 2, 2)),
]


@pytest.mark.parametrize(("recipe", "device", "kept"), [
    ({}, "h100-sxm", 2 + 2), ({}, "b200-sxm", 2 + 2 * (1 + 1 / 32)), ({"recipe": "tensorwise"}, "b200-sxm", 2 + 1),
    ({"fp8_param_gather": "on"}, "h100-sxm", 2), ({"recipe": "blockwise", "zero": 3}, "h100-sxm", 2),
    ({"precision": "nvfp4"}, "b200-sxm", 2 + 2 * (0.5 + 1 / 16)),
])  # fmt: skip
def test_quantised_weights_are_kept_beside_those_of_16_bits(recipe, device, kept):
    """In both orientations, but for per-tensor ones where GEMMs take either; or alone; under ZeRO 3 with a layer."""
    model = {**GPT, "tp": 1, "pp": 1, "dp": 2, "zero": 1, "global_batch": 2}
    weights = {
        name: held(device, **{**model, "precision": "fp8", **recipe, **more})["weights"]
        for name, more in (("all", {}), ("without layers", {"layers": 1}))
    }
    shards = 2 if recipe.get("zero") == 3 else 1
    layers = GPT["layers"] - 1
    each = (weights["all"] - weights["without layers"]) / layers
    h = GPT["hidden"]
    assert each * shards == pytest.approx(kept * 12 * h * h, rel=0.02)  # 12 H^2 of matrices, some H of biases and norms


@pytest.mark.a_third
@pytest.mark.parametrize(("formats", "each"), FORMATS, ids=str)
@pytest.mark.parametrize("zero", range(4))
def test_zero_shards_states_one_by_one(more_known, formats, each, zero):
    d, psi = 16, size(state_dict(GPT))
    sharded = (zero >= 3, zero >= 2, zero >= 1)
    expected = tuple(psi * b / (d if over else 1) for b, over in zip(each, sharded, strict=True))
    assert states(more_known, **GPT, dp=d, zero=zero, **formats) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("formats", "each"), [
    ({"grad_precision": "fp32"}, (4, 4, 8)), ({}, (4, 4, 8)), ({"optimizer_precision": "bf16"}, (4, 4, 4)),
    ({"grad_precision": "fp32", "accumulate_precision": "fp32"}, (4, 8, 8)),
])  # fmt: skip
def test_shards_in_32_bit_are_the_master_copy(formats, each):
    psi, point = size(state_dict(GPT)), {**GPT, "dp": 16, "zero": 3, "accumulation": 2, **formats}
    found = states(**point, master_weights="shards")
    assert found == pytest.approx(tuple(psi * b / 16 for b in each), rel=1e-12)
    copied = states(**{**point, "grad_precision": "fp32"}, master_weights="copy")
    assert sum(copied) - sum(states(**{**point, "grad_precision": "fp32"}, master_weights="shards")) == (
        pytest.approx(2 * psi / 16)
    )


def test_shards_in_32_bit_send_what_others_do_and_cast_nothing_in_the_optimizer():
    point = {**GPT, "dp": 16, "zero": 3, "grad_precision": "fp32"}
    copy, shards = (explained(study_from({"hardware": "h100-sxm", "set": {**point, "master_weights": word}}))
                    for word in ("copy", "shards"))  # fmt: skip
    # But for norms of gradients: of shards there is one a tensor, over their devices.
    parts = [[e["comm"]["dp"][name] for name in ("message_bytes", "hidden_s", "exposed_s")] for e in (copy, shards)]
    assert parts[0] == pytest.approx(parts[1], rel=1e-6)
    assert (set(copy["comm"]), set(shards["comm"])) == ({"dp", "world"}, {"dp"})
    (one,), (other,) = ([op for op in e["operations"] if op["operation"] == "Adam"] for e in (copy, shards))
    # Gradient in, weight and two moments in and out, each of 4 bytes; of a copy 2 of a weight out beside.
    assert (one["hbm_bytes"], other["hbm_bytes"]) == pytest.approx([size(state_dict(GPT)) / 16 * n for n in (30, 28)])


def test_master_weights_along_an_axis_are_those_of_points():
    study = {
        "hardware": "h100-sxm",
        "set": {**GPT, "dp": 16},
        "sweep": {"zero": [2, 3], "master_weights": ["copy", "shards"]},
    }
    rows = rows_of(study, ("weights_gib", "gradients_gib", "optimizer_gib", "step_s", "feasible", "reason"))
    assert [row["feasible"] for row in rows] == [True, False, True, True]
    assert rows[1]["reason"] == "master_weights: shards goes with zero 3"
    for row, word in zip(rows[2:], ("copy", "shards"), strict=True):
        found = [row[f"{part}_gib"] * GIB for part in ("weights", "gradients", "optimizer")]
        assert found == pytest.approx(states(**GPT, dp=16, zero=3, master_weights=word))


def test_only_zero_3_has_shards_of_weights():
    with pytest.raises(ConfigError, match="master_weights: shards goes with zero 3"):
        states(**GPT, dp=16, zero=2, master_weights="shards")


def test_hsdp_shards_states_over_some_of_the_replicas_and_context_parallel_ones_count():
    psi = size(state_dict(GPT))
    assert states(**GPT, dp=16, zero=3, dp_shard=4) == pytest.approx((2 * psi / 4, 2 * psi / 4, 12 * psi / 4))
    assert states(**GPT, dp=4, cp=4, zero=3) == pytest.approx((2 * psi / 16, 2 * psi / 16, 12 * psi / 16))


@pytest.mark.a_third
@pytest.mark.parametrize("seed", range(24))
def test_states_fall_with_each_zero_stage(seed):
    chance = random.Random(seed)
    model = chance.choice((GPT, MOE))
    point = {name: chance.choice(values) for name, values in (
        ("tp", (1, 2)), ("pp", (1, 2)), ("cp", (1, 2)), ("dp", (4, 8)), ("recompute", ("none", "full")),
    )}  # fmt: skip
    if model is MOE:
        point |= {"ep": chance.choice((1, 2)), "etp": 1}
    sums = [sum(states(**model, **point, zero=zero)) for zero in range(4)]
    assert sums[0] > sums[1] > sums[2] > sums[3]


def split_at_random(seed):
    """A model and how it is split over devices, so that nothing is left over."""
    p, chance = random_model(seed), random.Random(seed)
    tp = chance.choice((1, 2, 4))
    split = {"tp": tp, "dp": 4}
    if p.get("kv_heads", p["heads"]) < tp:
        split["kv_replication"] = "on"
    if p.get("experts"):
        split |= {"ep": chance.choice((1, 2, 4)), "etp": chance.choice((1, tp))}
    return p, split


@pytest.mark.a_third
@pytest.mark.parametrize("seed", range(40))
def test_weights_are_those_of_one_device(seed):
    p, split = split_at_random(seed)
    ep = split.get("ep", 1)
    parts = {"": 1, "tp": split["tp"], "experts": ep * split.get("etp", 1), "ep": ep}
    parts["kv"] = min(split["tp"], p.get("kv_heads", p["heads"]))
    mine = sum(w.size / parts[w.split] for w in state_dict(padded(p, split["tp"])))
    assert states(**p, **split, zero=0) == pytest.approx((2 * mine, 2 * mine, 12 * mine), rel=1e-12)


def test_experts_are_sharded_over_fewer_devices():
    """Eight replicas; two of them hold the same experts."""
    experts = size(w for w in state_dict(MOE) if of_experts(w))
    rest = size(state_dict(MOE)) - experts
    weights, _, optimizer = states(**MOE, dp=8, ep=4, zero=1)
    assert weights == pytest.approx(2 * (rest + experts / 4))
    assert optimizer == pytest.approx(12 * (rest / 8 + experts / 4 / 2))


def test_offloaded_states_are_not_here_and_cross_the_link(more_known):
    point = {**GPT, "dp": 4, "zero": 1}
    here, there = (held(more_known, **point, offload_optimizer=word) for word in ("off", "on"))
    assert there.pop("optimizer") == 0
    assert here["total"] - there.pop("total") == pytest.approx(here["optimizer"])
    assert all(here[name] == value for name, value in there.items() if name not in OTHERS)
    found = [explained(study_from({"hardware": str(more_known), "set": {**point, "offload_optimizer": word}}))
             for word in ("off", "on")]  # fmt: skip
    usual, offloaded = ({op["operation"]: op["seconds"] for op in e["operations"] if op["phase"] == "optimizer"}
                        for e in found)  # fmt: skip
    assert offloaded["gradient norm"] == usual["gradient norm"]
    # Gradients of this device's share go there, and weights come back, 16 bit each.
    assert offloaded["Adam"] == pytest.approx(size(state_dict(GPT)) / 4 * (2 + 2) / 50e9)


def test_offload_needs_a_link_to_the_host():
    with pytest.raises(ConfigError, match=r"memory\.host_bandwidth is blank"):
        held("v100-sxm-32gb", **{**GPT, "precision": "fp16"}, offload_optimizer="on")


# -- activations ------------------------------------------------------------------------------------------------------


def kept(layers, **point):
    return held(**{**GPT, "vocab": 0, **point, "layers": layers})["activations"]


def a_layer(**point):
    return kept(3, **point) - kept(2, **point)


def test_a_llama_layer_keeps_eight_vectors_and_three_wide_ones():
    """Inputs of two norms and two blocks, Q, K, V, the heads' output; gate, up and their product. 16 bit, no masks."""
    llama = {"hidden": 4096, "heads": 32, "ffn_hidden": 11008, "gated": "on", "dropout": "off", "seq_len": 2048}
    assert a_layer(**llama) == 2 * 2048 * (8 * 4096 + 3 * 11008)
    shared = {**llama, "kv_heads": 8}
    assert a_layer(**shared) == 2 * 2048 * ((6 + 2 / 4) * 4096 + 3 * 11008)
    assert a_layer(**shared, tp=8) == a_layer(**shared) / 8
    assert a_layer(**shared, cp=4) == a_layer(**shared) / 4
    assert a_layer(**shared, tp=8, sp="off") == 2 * 2048 * (4 * 4096 + (2.5 * 4096 + 3 * 11008) / 8)


def test_an_expert_layer_keeps_what_its_tokens_need():
    """Each token twice: its expert's gate, up and product, and its own vector before and after sorting."""
    point = {name: value for name, value in MOE.items() if name not in ("layers", "vocab")} | {"dropout": "off"}
    beside = 2 * 1024 * 8 * 1024
    tokens = 1024 * 2 * 1.25
    assert a_layer(**point, capacity_factor=1.25) == beside + 2 * tokens * (3 * 512 + 2 * 1024)


def test_latent_attention_keeps_what_it_compresses_to():
    """Queries and keys with their rotary part, values, the heads' output; what is compressed before and after norms."""
    latent = {"q_lora_rank": 384, "kv_lora_rank": 128, "rope_head_dim": 32, "bias": "off", "dropout": "off"}
    a, d, rope = 16, 64, 32
    heads, compressed = a * (d + rope + d) + a * (d + rope + d), 384 + (128 + rope) + 384 + 128
    assert a_layer(**latent) == 2 * 1024 * (4 * 1024 + heads + compressed + 2 * 4096)
    without = 2 * 1024 * ((4 * 1024 + compressed) / 2 + heads / 2 + 4096)
    assert a_layer(**latent, tp=2) == without  # each device norms what it projected


@pytest.mark.parametrize("whole", ["on", "whole"])
def test_norms_of_queries_and_keys_keep_their_inputs(whole):
    point = {"kv_heads": 4, "dropout": "off"}
    assert a_layer(**point, qk_norm=whole) - a_layer(**point) == 2 * 1024 * (16 + 4) * 64
    assert a_layer(**point, qk_norm=whole, tp=4) - a_layer(**point, tp=4) == 2 * 1024 * (16 + 4) * 64 / 4


def test_kernels_one_by_one_keep_the_gate_after_its_nonlinearity():
    plain, gated = {"dropout": "off"}, {"dropout": "off", "gated": "on"}
    experts = {name: value for name, value in MOE.items() if name not in ("layers", "vocab")} | plain
    for kernels, more in (("fused", 0), ("compiled", 0), ("eager", 1)):
        assert a_layer(**gated, kernels=kernels) - a_layer(**gated) == more * 2 * 1024 * 4096
        assert a_layer(**experts, kernels=kernels) - a_layer(**experts) == more * 2 * 1024 * 2 * 512
        assert a_layer(**plain, kernels=kernels) == a_layer(**plain)  # GELU is one kernel


def test_dropout_of_the_embedding_keeps_a_mask_a_micro_batch_in_flight():
    """s b h / t: Korthikanti et al., section 4.3."""
    point = {**GPT, "layers": 4, "vocab": 256}

    def masks(**more):
        with_words, without = (held(**{**point, **more, "vocab": vocab})["activations"] for vocab in (256, 0))
        return with_words - without

    assert masks() == masks(recompute="full") == 1024 * 1024
    assert masks(tp=4) == 1024 * 1024 / 4
    assert masks(tp=4, sp="off") == 1024 * 1024
    assert masks(pp=4, accumulation=8) == 4 * 1024 * 1024
    assert masks(dropout="off") == 0


def test_a_decoder_layer_keeps_its_attention_to_the_encoder():
    point = {"architecture": "encoder-decoder", "encoder_layers": 3, "encoder_seq_len": 512, "dropout": "off"}
    one = 2 * 1024  # bytes of a hidden vector
    encoder, decoder = 512 * one * 16, 1024 * one * 16  # four inputs, Q, K, V and output, twice 4 h
    cross = 1024 * one * (2 + 4)
    assert kept(2, **point) == pytest.approx(3 * encoder + 2 * (decoder + cross))


@pytest.mark.parametrize("again", [1, 3, 5])
def test_full_recompute_keeps_inputs_and_one_layer_at_work(again):
    one = 34 * 1024 * 1024
    some = kept(5, recompute="full", recompute_layers=again)
    assert some == again * 2 * 1024 * 1024 + (5 - again) * one + one
    unfused = kept(5, recompute="full", recompute_layers=again, attention_kernel="unfused")
    assert unfused - some == (5 - again + 1) * 5 * 16 * 1024 * 1024  # the layer at work has its scores too


def test_selective_recompute_keeps_no_scores_but_those_at_work():
    scores = 5 * 16 * 1024 * 1024
    plain, selective = (kept(5, attention_kernel="unfused", recompute=name) for name in ("none", "selective"))
    assert plain - selective == (5 - 1) * scores


def test_a_window_keeps_fewer_scores():
    full, window = (a_layer(attention_kernel="unfused", **more) for more in ({}, {"window": 256}))
    assert full - window == 5 * 16 * 1024 * (1024 - 256)


@pytest.mark.parametrize(("t", "b"), [(1, 1), (8, 1), (4, 2)])
def test_logits_are_kept_in_32_bit(t, b):
    """4 s b h / t (1 + v / h): Korthikanti et al., section 4.3."""
    h, v = GPT["hidden"], GPT["vocab"]
    once = 4 * 1024 * b * h / t * (1 + v / h)
    assert held(**GPT, tp=t, micro_batch=b)["logits"] == pytest.approx(once)
    assert held(**GPT, tp=t, micro_batch=b, mtp_layers=2)["logits"] == pytest.approx(3 * once)


# Bytes of a logit that are kept, and that the backward pass needs beside: see docs/training-step.md.
LOSSES = {"fused": (4, 0), "compiled": (2, 2), "unfused": (4, 2), "eager": (4, 8), "chunked": (0, 12 / 8),
          "fused_metrics": (4, 0)}  # fmt: skip


@pytest.mark.parametrize("mtp", [0, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_logits_of_each_loss(loss, mtp):
    kept_bytes, beside = LOSSES[loss]
    logits, inputs = 1024 * GPT["vocab"] / 2, 2 * 2 * 1024 * 1024 / 2
    expected = (kept_bytes * logits + inputs) * (1 + mtp) + beside * logits
    assert held(**GPT, tp=2, cross_entropy=loss, mtp_layers=mtp)["logits"] == pytest.approx(expected)


def test_a_chunked_loss_needs_a_chunk():
    inputs = 2 * 2 * 1024 * 1024
    one, four = (held(**GPT, cross_entropy="chunked", loss_chunks=n)["logits"] - inputs for n in (1, 4))
    assert one == 12 * 1024 * GPT["vocab"] == 4 * four
    assert one == held(**GPT, cross_entropy="eager")["logits"] - inputs
    with pytest.raises(ConfigError, match="loss_chunks means nothing unless cross_entropy is chunked"):
        held(**GPT, loss_chunks=4)


@pytest.mark.a_third
@pytest.mark.parametrize("kernels", ["fused", "eager", "compiled"])
def test_a_loss_goes_with_the_kernels_unless_it_is_given(kernels):
    """Its memory and its seconds are of one choice."""

    def answer(**more):
        found = explained(study_from({"hardware": "h100-sxm", "set": {**GPT, **more}}))
        seconds = [op["seconds"] for op in found["operations"] if op["operation"] == "softmax and loss"]
        return found["memory"]["logits_bytes"], sum(seconds)

    assert answer(kernels=kernels) == answer(kernels=kernels, cross_entropy=kernels)
    assert answer(kernels=kernels, cross_entropy="unfused")[0] == answer(cross_entropy="unfused")[0]
    assert answer(cross_entropy="unfused")[1] > answer(cross_entropy="eager")[1] > answer()[1]


def test_metrics_of_logits_are_a_cast_and_a_softmax_each():
    """Of each logit 2 bytes are read and 4 written, then 4 and 4, twice: 28; a fused loss alone moves 16."""

    def seconds(loss):
        found = explained(study_from({"hardware": "h100-sxm", "set": {**GPT, "cross_entropy": loss}}))
        return sum(op["seconds"] for op in found["operations"] if op["operation"] == "softmax and loss")

    assert seconds("fused_metrics") / seconds("fused") == pytest.approx((16 + 2 * (2 + 4 + 4 + 4)) / 16, rel=0.01)


def test_a_loss_needs_a_vocabulary():
    vit = {"architecture": "vit", "vocab": 0, "classes": 1000, "patch_features": 768}
    with pytest.raises(ConfigError, match="cross_entropy means nothing without a vocabulary"):
        held(**{**GPT, **vit}, cross_entropy="fused")


# -- buffers ----------------------------------------------------------------------------------------------------------


def test_buffers_are_what_collectives_need():
    plain = {**GPT, "vocab": 0, "hidden": 4096, "heads": 32}
    hidden = 2 * 1024 * 4096
    layer = size(layers_of(plain)[0])
    assert held(**plain)["buffers"] == 0
    assert held(**plain, tp=4)["buffers"] == hidden  # the gathered sequence
    assert held(**plain, tp=4, sp="off")["buffers"] == 0
    assert held(**plain, pp=2)["buffers"] == 2 * hidden  # one from each side
    assert held(**plain, cp=2)["buffers"] - held(**plain, dp=2)["buffers"] == 2 * 2 * hidden / 2  # two pairs K and V
    assert held(**plain, dp=2)["buffers"] == 40e6 * 2  # a bucket
    assert held(**plain, dp=2, bucket=1e6)["buffers"] == 1e6 * 2
    # A layer that runs, its gradients and what they are scattered from, and the next one; the norm at the end and its
    # gradients, which are done last.
    assert held(**plain, dp=2, zero=3)["buffers"] == 4 * 2 * layer + 2 * 2 * (2 * 4096)
    # Nothing is gathered again, and the last layer is done with, but for what its gradients are scattered from.
    kept = held(**plain, dp=2, zero=3, reshard_after_forward="off")["buffers"]
    assert kept == 2 * (size(state_dict(plain)) - layer) + 2 * 2 * layer + 2 * (2 * 4096)


# -- stages -----------------------------------------------------------------------------------------------------------


def spread(layers, pp):
    """Return the layers of each stage: embedding and loss take a layer's place where stages do not divide layers."""
    if layers % pp == 0:
        return [layers // pp] * pp
    each, more = divmod(layers + 2, pp)
    stages = [each + (i < more) for i in range(pp)]
    return [stages[0] - 1, *stages[1:-1], stages[-1] - 1]


def test_spread_gives_away_every_layer():
    for pp in (2, 3, 4, 8):
        assert all(sum(spread(layers, pp)) == layers for layers in range(pp, 60))


@pytest.mark.a_third
@pytest.mark.parametrize("tied", ["off", "on"])
@pytest.mark.parametrize("vocab", [1024, 51200])  # with few words a stage between may need most
@pytest.mark.parametrize(("layers", "pp", "steps"), [
    (12, 4, 8), (12, 4, 2), (14, 4, 8), (13, 4, 8), (9, 4, 16), (11, 4, 3), (5, 2, 4), (126, 16, 32), (7, 3, 1),
])  # fmt: skip
def test_the_stage_that_needs_most_of_all_stages(layers, pp, steps, vocab, tied):
    p = {**GPT, "layers": layers, "vocab": vocab, "tied": tied}
    h, s, v = p["hidden"], p["seq_len"], p["vocab"]
    a_layer_has, words, norm = size(layers_of(p)[0]), v * h, 2 * h
    needs = []
    for i, count in enumerate(spread(layers, pp)):
        parameters = count * a_layer_has + (words if i == 0 else 0) + (words + norm if i == pp - 1 else 0)
        activations = (count * 34 + (i == 0)) * s * h * min(steps, pp - i)  # the embedding's mask
        logits = 4 * s * (v + h) if i == pp - 1 else 0
        needs.append(16 * parameters + activations + logits)
    found = held(**p, pp=pp, accumulation=steps)
    assert found["total"] == pytest.approx(max(needs) + 2 * 2 * s * h, rel=1e-12)


def test_tied_weights_are_held_once_by_one_stage_and_twice_by_two():
    once = size(state_dict({**GPT, "tied": "on"}))
    assert states(**GPT, tied="on", zero=0)[0] == 2 * once
    words = GPT["vocab"] * GPT["hidden"]
    deep = {**GPT, "layers": 48, "tied": "on"}  # so that activations make the first stage the worst
    assert states(**deep, pp=2, accumulation=8, micro_batch=8)[0] == 2 * (24 * size(layers_of(GPT)[0]) + words)


# -- whether it fits --------------------------------------------------------------------------------------------------


def test_the_framework_is_a_part_of_its_own():
    small, large = held(**GPT), held(**{**GPT, "framework_gib": 3})
    assert large["framework"] == 3 * GIB
    assert large["total"] - small["total"] == 3 * GIB


def test_parts_sum_to_the_total_and_the_column_is_the_same():
    point = {**MOE, "tp": 2, "pp": 2, "dp": 4, "ep": 2, "etp": 1, "framework_gib": 2}
    found = held(**point)
    assert sum(found[name] for name in found if name not in OTHERS) == pytest.approx(found["total"])
    whole = explained(study_from({"hardware": "h100-sxm", "set": point}))
    assert whole["memory_gib"] * GIB == pytest.approx(found["total"])
    assert found["capacity"] == DEVICE


def test_what_does_not_fit_is_said_and_shown():
    point = {**GPT, "layers": 96, "hidden": 12288, "heads": 96}
    found = memory(study_from({"hardware": "h100-sxm", "set": point}))
    assert found["total_bytes"] > found["capacity_bytes"] == DEVICE
    assert found["feasible"] is False
    assert found["reason"] == (f"does not fit: memory exceeds that of the device ({found['total_bytes'] / GIB:.1f} GiB "
                               "needed, 79.6 there)")  # fmt: skip
    larger = memory(study_from({"hardware": "h100-sxm", "set": {**point, "memory_capacity": 100}}))
    assert (larger["feasible"], larger["reason"]) == (True, None)
    assert larger["total_bytes"] == found["total_bytes"]


# -- what a machine shows ---------------------------------------------------------------------------------------------


def test_allocated_reserved_and_what_nvidia_smi_shows():
    point = {**GPT, "tp": 2, "framework_gib": 1.5}
    names = ["memory_gib", "allocated_gib", "reserved_gib", "nvidia_smi_mib"]
    row = rows_of({"hardware": "h100-sxm", "set": point}, columns=names)[0]
    total, allocated, reserved, shown = (row[name] for name in names)
    assert total - allocated == pytest.approx(1.5)
    assert allocated < reserved < 1.12 * allocated
    assert shown == pytest.approx(1024 * (reserved + 1.5))
    room = DEVICE / GIB - allocated - 0.001  # hardly any: nothing is held unused
    full = {**point, "micro_batch": 1, "framework_gib": room}
    assert rows_of({"hardware": "h100-sxm", "set": full}, columns=names)[0]["reserved_gib"] < 1.001 * allocated


SIMUMAX = [run for run in csv.DictReader(shipped().open(encoding="utf-8"))
           if run["group"] == "simumax_b200" and run["arch"] == "dense" and run["peak_mem_GiB"]]  # fmt: skip


def test_dense_runs_of_simumax_are_allocated_within_two_percent():
    """Megatron-LM on B200, PP 1 and 2: the peak of PyTorch's allocator."""
    errors = []
    for run in SIMUMAX:
        whole = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "seq_len", "tp", "cp", "pp", "dp",
                 "micro_batch", "global_batch")  # fmt: skip
        point = {name: int(run[name]) for name in whole}
        point |= {"gated": "on", "norm": "rmsnorm", "bias": "off", "dropout": "off", "precision": "bf16", "zero": 1,
                  "grad_precision": "fp32", "framework_gib": 0}  # fmt: skip
        row = rows_of({"hardware": "b200-sxm", "set": point}, columns=["allocated_gib"])[0]
        errors.append(row["allocated_gib"] / float(run["peak_mem_GiB"]) - 1)
    assert len(errors) >= 14
    assert median(map(abs, errors)) < 0.01
    assert max(map(abs, errors)) < 0.02


# -- whose ZeRO it is -------------------------------------------------------------------------------------------------

SMALL = {"layers": 2, "hidden": 1024, "heads": 8, "vocab": 0, "seq_len": 512, "bias": "off", "dropout": "off",
         "norm": "rmsnorm", "gpus": 4, "micro_batch": 1, "framework_gib": 0, "bucket": 1}  # fmt: skip
WEIGHTS = 2 * (12 * 1024**2 + 2 * 1024) + 1024  # of two layers with their norms, and the last norm


def parts_of(**more):
    names = ["weights_gib", "gradients_gib", "optimizer_gib", "activations_gib", "buffers_gib", "allocated_gib",
             "reserved_gib"]  # fmt: skip
    row = rows_of({"hardware": "a100-sxm", "set": {**SMALL, **more}}, columns=names)[0]
    return {name.removesuffix("_gib"): row[name] * GIB for name in names}


@pytest.mark.parametrize("zero", [1, 2])
def test_flat_gradients_of_deepspeed_for_a_step(zero):
    """ZeRO in 16 bits: the partition's gradients flat in 16 and in 32 bit, when activations are gone again."""
    usual, theirs = parts_of(zero=zero), parts_of(zero=zero, zero_implementation="deepspeed")
    flat = (2 + 4) * WEIGHTS / 4
    more = max(flat - usual["activations"], 0)
    assert theirs["allocated"] - usual["allocated"] == pytest.approx(more, abs=4)
    # The allocator's blocks of activations do not hold them: what is reserved grows by all.
    assert theirs["reserved"] - usual["reserved"] == pytest.approx(1.115 * flat, abs=8)


def test_gradients_of_deepspeed_that_are_added_up_in_32_bit_are_beside_those_of_16():
    """Its optimizer for bf16: 2 + 4 bytes a parameter, where Megatron-LM has 4; and no flat copies."""
    point = {"zero": 1, "grad_precision": "fp32"}
    usual, theirs = parts_of(**point), parts_of(**point, zero_implementation="deepspeed")
    assert usual["gradients"] == pytest.approx(4 * WEIGHTS)
    assert theirs["gradients"] == pytest.approx(6 * WEIGHTS)
    layer = 12 * 1024**2 + 2 * 1024
    assert usual["buffers"] - theirs["buffers"] == pytest.approx(2 * layer)  # a gradient in 16 bits a shape of weights


def test_a_pipeline_of_deepspeed_keeps_what_its_stages_send():
    point = {"zero": 1, "pp": 2, "global_batch": 8, "grad_precision": "fp32"}
    usual, theirs = parts_of(**point), parts_of(**point, zero_implementation="deepspeed")
    sent = 2 * 512 * 1024 * 2  # of the two micro-batches that the first stage holds
    layer = 12 * 1024**2 + 2 * 1024
    assert theirs["buffers"] - usual["buffers"] == pytest.approx(sent - 2 * layer)


def test_main_gradients_have_one_of_16_bits_beside_for_the_largest_layer_and_the_head():
    """Transformer Engine's buffer of each shape of weights, and Megatron-LM's gradient of the output layer."""
    point = {"vocab": 32000, "vocab_multiple": 1, "tied": "off", "zero": 1}
    main, plain = parts_of(**point, grad_precision="fp32"), parts_of(**point)
    layer = 12 * 1024**2 + 2 * 1024
    assert main["buffers"] - plain["buffers"] == pytest.approx(2 * (layer + 32000 * 1024), rel=1e-6)


def test_whose_zero_it_is_needs_a_stage_and_copies_of_weights():
    for more, part in (({"zero": 0}, "needs zero 1, 2 or 3"),
                       ({"zero": 3, "master_weights": "shards"}, "has copies of weights")):  # fmt: skip
        with pytest.raises(ConfigError, match=part):
            parts_of(**more, zero_implementation="deepspeed")


# -- what GEMMs in fewer bits keep of their inputs ---------------------------------------------------------------------


@pytest.mark.parametrize(("recipe", "size"), [("tensorwise", 1.0), ("mxfp8", 1.03125)])
def test_inputs_of_gemms_are_kept_as_they_were_quantised(recipe, size):
    """A gated layer by hand: inputs of norms, Q, K, V, output, gate, up in 16 bits; four inputs of GEMMs in 8."""
    tokens, h, f = 512, 1024, 4096
    point = {"hardware": "b200-sxm", "set": {**SMALL, "gated": "on", "ffn_hidden": f, "precision": "fp8",
                                             "recipe": recipe}}  # fmt: skip
    sixteen = tokens * (2 * h + 4 * h + 2 * f) * 2
    eight = tokens * (2 * h + h + f) * size
    found = rows_of(point, columns=["activations_gib"])[0]["activations_gib"] * GIB
    assert found == pytest.approx(2 * (sixteen + eight))
    # torchao's float8 under FSDP2 keeps what comes in; of so many tokens all is there at the peak.
    point["set"] |= {"zero": 3, "master_weights": "shards", "micro_batch": 64}
    kept = rows_of(point, columns=["activations_gib"])[0]["activations_gib"] * GIB
    assert kept == pytest.approx(64 * 2 * 2 * tokens * (2 * h + 4 * h + 2 * f + 2 * h + f))

"""What is kept and moved where kernels are written out, as PyTorch's autograd has it: counted by hand.

`tests/data/torch_reference.csv` has the same of whole layers, measured.
"""

from __future__ import annotations

import pytest
from face import explained, memory_of, row_of, volume_of

from comp_comm.errors import ConfigError

T, H, F, A = 2048, 1024, 4096, 8
MODEL = {"hidden": H, "layers": 4, "heads": A, "ffn_hidden": F, "norm": "rmsnorm", "bias": "off", "dropout": "off",
         "vocab": 0, "seq_len": T, "position": "rope", "memory_capacity": 1000}  # fmt: skip
EXPERTS = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "gated": "on"}


def study(**more):
    return {"hardware": "h100-sxm", "set": {**MODEL, **more}}


def of_a_layer(**more):
    few, many = (memory_of(study(**more, layers=layers))["activations"] for layers in (4, 8))
    return (many - few) / 4


def moved(operation, **more):
    """Return bytes of an operation and layer, forward and backward, with what kernels one by one cost."""
    found = [each for each in explained(study(**more))["operations"] if each["operation"] == operation]
    return [sum(each["hbm_bytes"] for each in found if each["phase"] == way) for way in ("forward", "backward")]


@pytest.mark.parametrize(("more", "beside"), [
    ({"activation_function": "relu"}, -2 * F),  # its output is the input of the matrix down
    ({"activation_function": "relu", "gated": "on"}, 0),  # one kernel keeps both its inputs
    ({"activation_function": "relu", "gated": "on", "kernels": "eager"}, -2 * F),
    ({"activation_function": "gelu_new"}, 0),
    ({"activation_function": "gelu_new", "kernels": "eager"}, 3 * 2 * F),  # tanh, 1 + tanh, x / 2
])  # fmt: skip
def test_what_a_nonlinearity_keeps(more, beside):
    usual = {name: value for name, value in more.items() if name != "activation_function"}
    assert of_a_layer(**more) - of_a_layer(**usual) == T * beside


def test_what_gelu_written_out_moves():
    """Cube, scale, sum, scale, tanh, sum, scale, product: 17 numbers read and written; gradients of them 28."""
    found = moved("FFN activation", activation_function="gelu_new", kernels="eager")
    assert found == pytest.approx([17 * 2 * T * F, 28 * 2 * T * F])
    fused = moved("FFN activation", activation_function="gelu_new")
    assert fused == moved("FFN activation")


@pytest.mark.parametrize(("kernel", "beside"), [("fused", 0), ("eager", 3 * 4 - 2), ("eager_fp32", 4 - 2)])
def test_what_a_layer_norm_keeps(kernel, beside):
    """Three numbers in 32 bits in place of its input (Cohere's), or a copy of it in 32 bits (OLMo's)."""
    norm = {"norm": "layernorm"}
    assert of_a_layer(**norm, norm_kernel=kernel) - of_a_layer(**norm) == beside * T * 2 * H


@pytest.mark.parametrize(("kernel", "beside"), [("fused", 0), ("eager", 4), ("eager_fp32", 6)])
def test_what_a_norm_keeps(kernel, beside):
    """Of two norms a layer, and with norms of heads of queries and keys as well."""
    assert of_a_layer(norm_kernel=kernel) - of_a_layer() == beside * T * 2 * H
    heads = of_a_layer(norm_kernel=kernel, qk_norm="on") - of_a_layer(qk_norm="on")
    assert heads == beside * T * (2 * H + 2 * H)


def test_norms_of_latents_are_written_out_too():
    latent = {"head_dim": 64, "rope_head_dim": 32, "v_head_dim": 64, "q_lora_rank": 256, "kv_lora_rank": 128}
    beside = of_a_layer(**latent, norm_kernel="eager") - of_a_layer(**latent)
    assert beside == 4 * T * (2 * H + 256 + 128)


def test_norms_that_are_made_again_free_what_they_keep():
    kept, less = (memory_of(study(norm_kernel="eager", recompute=name))["activations"]
                  for name in ("none", "layernorm"))  # fmt: skip
    assert kept - less == 3 * T * 2 * H * (2 + 4)  # the layer at work has all


def test_a_norm_is_as_fast_as_other_kernels_unless_it_is_said():
    name = "norms, residuals, dropout"
    eager = moved(name, kernels="eager")
    assert moved(name, kernels="eager", norm_kernel="eager") == eager
    one_kernel = moved(name, kernels="eager", norm_kernel="fused")
    assert one_kernel == [1.5 * each for each in moved(name)]
    sums = moved(name, norms=0)[0]
    assert moved(name, norm_kernel="eager_fp32")[0] - sums == 40 * 2 * T * H
    assert eager[0] - 1.5 * sums == pytest.approx(36 * 2 * T * H)


@pytest.mark.parametrize(("word", "numbers"), [
    ("parts", 0), ("product", 2 * H), ("joined", H), ("whole", H + 2 * H), ("masked", T)
])  # fmt: skip
def test_what_is_kept_of_queries_keys_and_values(word, numbers):
    assert of_a_layer(qkv_kept=word) - of_a_layer() == 2 * T * numbers


@pytest.mark.parametrize(("word", "numbers"), [("parts", 0), ("product", A * 96), ("whole", A * (96 + 64))])
def test_what_is_kept_of_latents_that_are_projected_up(word, numbers):
    """Keys without their rotary part are kept with values, which are a view of what both are projected to."""
    latent = {"head_dim": 96, "rope_head_dim": 32, "v_head_dim": 64, "q_lora_rank": 256, "kv_lora_rank": 128}
    assert of_a_layer(**latent, qkv_kept=word) - of_a_layer(**latent) == 2 * T * numbers


def test_keys_and_values_are_repeated_for_scores_and_for_masks():
    """Of 2 heads for 8; scores are in 16 bits, or in 32 and again in 16 for values, of which dropout keeps a mask."""
    few, scores = {"kv_heads": 2}, A * T * T
    repeated = 2 * T * 6 * (H // A) * 2
    assert of_a_layer(**few, qkv_kept="masked") - of_a_layer(**few) == repeated + 2 * T * T
    few |= {"attention_kernel": "unfused"}
    assert of_a_layer(**few) - of_a_layer(kv_heads=2) == repeated + 2 * scores
    assert of_a_layer(**few, softmax_precision="fp32") - of_a_layer(**few) == 4 * scores
    dropped = of_a_layer(**few, softmax_precision="fp32", dropout="on") - of_a_layer(**few, dropout="on")
    assert dropped == 2 * scores


def test_a_router_in_32_bits_keeps_copies_of_what_it_multiplies():
    assert of_a_layer(**EXPERTS, router_precision="fp32") - of_a_layer(**EXPERTS) == 4 * H * (T + 8)


def test_what_a_clamped_gate_keeps():
    """gpt-oss: both halves, the clamped gate, its sigmoid, their product, the other half and 1, and the product."""
    plain, clamped = ({**EXPERTS, "kernels": "eager", "clamped_glu": word} for word in ("off", "on"))
    assert of_a_layer(**clamped) - of_a_layer(**plain) == (7 - 4) * 2 * (2 * T) * 512
    assert of_a_layer(**EXPERTS, clamped_glu="on") == of_a_layer(**EXPERTS)  # compiled: GPT-OSS fits on its B200


def test_routed_copies_are_kept_as_they_are_weighted():
    assert of_a_layer(**EXPERTS, routed_weights="fp32") - of_a_layer(**EXPERTS) == 2 * T * 2 * H


@pytest.mark.parametrize(("more", "said"), [
    ({"softmax_precision": "fp32"}, "softmax_precision"),
    ({"router_precision": "fp32"}, "router_precision"),
    ({"position": "none", "qkv_kept": "whole"}, "qkv_kept"),
    ({"routed_weights": "fp32"}, "routed_weights"),
])  # fmt: skip
def test_where_a_word_means_nothing(more, said):
    with pytest.raises(ConfigError, match=said):
        row_of(study(**more))


# -- what is sent with what -------------------------------------------------------------------------------------------


def sent(**more):
    """Return calls and bytes of the states' messages, by name."""
    found = {}
    for row in volume_of(study(**{"zero": 3, "dp": 8, **more}))["messages"]:
        if row["group"] == "dp":
            calls = found.setdefault(row["message"], [0, 0])
            calls[0] += row["calls"]
            calls[1] += row["total_message_bytes"]
    return found


def test_experts_travel_with_their_layer_unless_they_are_elsewhere():
    together, apart = sent(**EXPERTS), sent(**EXPERTS, ep=2, etp=1)
    assert not [name for name in together if name.startswith("expert ")]
    assert together["weight all-gather"][0] == 2 * (4 + 1)  # and the root: the final norm
    assert apart["expert weight all-gather"][0] == 2 * 4
    weights = 3 * 8 * 512 * H * 2
    assert together["weight all-gather"][1] - apart["weight all-gather"][1] == 2 * 4 * weights
    assert apart["expert weight all-gather"][1] == 2 * 4 * weights / 2


@pytest.mark.parametrize(("ep", "shards"), [(2, 2), (4, 1)])
def test_hsdp_shards_experts_within_a_replica(ep, shards):
    """Of eight devices two replicas of four: a replica has 4 / ep of each expert, and two hold the same shard."""
    found = sent(**EXPERTS, ep=ep, etp=1, dp_shard=4)
    assert ("expert weight all-gather" in found) == (shards > 1)
    calls, size = found["expert all-reduce over replicas"]
    assert (calls, size) == (4, 4 * 3 * 8 * 512 * H * 2 / ep / shards)


def test_a_tied_embedding_is_one_unit_with_the_head():
    given = {"vocab": 1024, "fsdp_units": "ends", "vocab_multiple": 1}
    apart, tied = sent(**given), sent(**given, tied="on")
    assert apart["weight all-gather"][0] == 2 * 4 + 2 + 1
    assert tied["weight all-gather"][0] == 2 * 4 + 1  # kept from its first use to its last
    assert apart["weight all-gather"][1] - tied["weight all-gather"][1] == 2 * 2 * 1024 * H


def test_a_tied_embedding_is_there_while_layers_go_backward():
    """As FSDP2's root is: 16-bit weights. The head's gradients are there as well, until the embedding's are made; of a
    head that is a unit by itself, what they are scattered from, as many bytes."""
    given = {"zero": 3, "dp": 8, "vocab": 1024, "vocab_multiple": 1, "master_weights": "shards", "accumulation": 2}
    held = {(tied, units): memory_of(study(**given, tied=tied, fsdp_units=units))["buffers"]
            for tied in ("on", "off") for units in ("root", "ends")}  # fmt: skip
    assert held["on", "ends"] == held["on", "root"]
    assert held["off", "root"] - held["off", "ends"] == 2 * (2 * 1024 * H + H)

"""Kimi K3's own: attention residuals, a gate on latent attention, a norm of experts' latents; counted by hand."""

import json

import pytest
from face import explained, memory_of, row_of

from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.model_file import Model, load_model
from comp_comm.configs.study import study_from
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import CompcommError

H, TOKENS, BLOCK = 256, 512, 3
MODEL = {"layers": 8, "hidden": H, "heads": 8, "vocab": 512, "ffn_hidden": 512, "gated": "on", "norm": "rmsnorm",
         "bias": "off", "dropout": "off", "position": "none"}  # fmt: skip
LATENT = {"kv_lora_rank": 64, "q_lora_rank": 96, "rope_head_dim": 16, "head_dim": 32, "v_head_dim": 48}
EXPERTS = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 64, "moe_latent_hidden": 128}


def study(**more):
    point = {**MODEL, "seq_len": TOKENS, "micro_batch": 1, "precision": "bf16", "framework_gib": 0, **more}
    return {"hardware": "h100-sxm", "set": point}


def held(**more):
    return memory_of(study_from(study(**more)))


def forward(name, **more):
    found = explained(study(**more))["operations"]
    return [each for each in found if each["operation"] == name and each["phase"] == "forward"]


def written_out(layers, block):
    """The sources of each weighted sum, layer after layer, as the model's code goes through them; and of the last."""
    blocks, sums = 0, []
    for layer in range(layers):
        if blocks:
            sums.append(blocks + 1)
        blocks += layer % block == 0
        sums.append(blocks + 1)
    return sums, blocks + 1


@pytest.mark.parametrize(("layers", "block"), [(8, 3), (8, 1), (6, 3), (7, 12), (93, 12)])
def test_sources_are_those_that_the_code_goes_through(layers, block):
    """Each is read, and a sum is written; the first layer's attention has its input as it is. Backward the gradient of
    a sum is read, each source again, and the sum of that one's gradients is read and written."""
    sums, last = written_out(layers, block)
    written = len(sums) + 1 + 1  # one more is written: of the first layer
    for phase, times in (("forward", 1), ("backward", 3)):
        moved = sum(
            each["calls"] * each["hbm_bytes"]
            for each in explained(study(layers=layers, attn_res_block=block))["operations"]
            if each["operation"] == "attention residuals" and each["phase"] == phase
        )
        assert moved == pytest.approx(2 * TOKENS * H * (times * (sum(sums) + last) + written))


@pytest.mark.parametrize("tp", [1, 4])
def test_their_parameters_are_on_every_device_of_tp(tp):
    """A query and a norm before attention, before the network, and before the last norm."""
    with_them, without = (row_of(study(**more), ["parameters"]) for more in ({"attn_res_block": BLOCK}, {}))
    assert with_them["parameters"] - without["parameters"] == (8 * 2 + 1) * 2 * H
    states = [held(tp=tp, zero=0, **more)["optimizer"] for more in ({"attn_res_block": BLOCK}, {})]
    assert states[0] - states[1] == pytest.approx(12 * (8 * 2 + 1) * 2 * H)


def test_running_sums_are_kept():
    kept = [held(tp=4, **more)["activations"] for more in ({"attn_res_block": BLOCK}, {})]
    assert kept[0] - kept[1] == pytest.approx(2 * 8 * 2 * H * TOKENS / 4)


@pytest.mark.parametrize(("vpp", "share"), [(1, 1.0), (2, 0.75)])
def test_stages_send_the_blocks_that_the_next_lacks(vpp, share):
    """Of two chunks a stage keeps what it has had: half as many in the first round, half of them all in the second."""
    point = {"pp": 2, "vpp": vpp, "gpus": 2, "global_batch": 8}
    plain, more = (forward("stage boundary", **point, **with_them)[0]["message_bytes"]
                   for with_them in ({}, {"attn_res_block": BLOCK}))  # fmt: skip
    begun = sum(-(-layer // BLOCK) for layer in range(8)) / 8  # before each of eight layers: 0 1 1 1 2 2 2 3
    assert more / plain == pytest.approx(1 + share * begun)


@pytest.mark.parametrize("more", [{"parallel_blocks": "on"}, {"architecture": "encoder-decoder", "encoder_layers": 2}])
def test_what_has_no_attention_residuals(more):
    with pytest.raises(CompcommError, match="attention residuals in an encoder-decoder, or of parallel_blocks") as why:
        explained(study(attn_res_block=BLOCK, **more))
    name, value = next(iter(more.items()))
    assert f"{name} is {value}" in str(why.value)  # what breaks the rule is among what is told


@pytest.mark.parametrize("tp", [1, 4])
def test_a_gate_on_latent_attention_is_projected_by_heads(tp):
    """H x a d_v weights, split over TP; itself is kept, and what it gates; whole inputs are gathered for it."""
    gate, none = ({**LATENT, "attention_gate": word, "tp": tp} for word in ("on", "off"))
    counts = [row_of(study(**each), ["parameters"])["parameters"] for each in (gate, none)]
    assert counts[0] - counts[1] == 8 * H * 8 * 48
    (product,) = forward("attention gate projection", **gate)
    assert product["flops"] == 2 * TOKENS * H * 8 * 48 / tp
    assert held(**gate)["activations"] - held(**none)["activations"] == pytest.approx(8 * 2 * 2 * TOKENS * 8 * 48 / tp)
    gathered = forward("gate input all-gather", **gate)
    assert [each["message_bytes"] for each in gathered] == [2 * TOKENS * H] * (tp > 1)
    # Backward the input is gathered again, for the gradient of the weights, and its own gradient is scattered.
    back = [(op["operation"], op["message_bytes"]) for op in explained(study(**gate))["operations"]
            if op["operation"].startswith("gate input") and op["phase"] == "backward" and op["calls"]]  # fmt: skip
    both = ("gate input all-gather", "gate input gradient reduce-scatter")
    assert back == [(name, 2 * TOKENS * H) for name in both] * (tp > 1)


def test_a_norm_of_what_experts_make_of_a_latent():
    normed, plain = ({**EXPERTS, "moe_latent_norm": word} for word in ("on", "off"))
    counts = [row_of(study(**each), ["parameters"])["parameters"] for each in (normed, plain)]
    assert counts[0] - counts[1] == 8 * 128
    assert held(**normed)["activations"] - held(**plain)["activations"] == 8 * 2 * TOKENS * 128
    moved = {op["phase"]: op["hbm_bytes"] for op in explained(study(**normed))["operations"]
             if op["operation"] == "experts' latent norm"}  # fmt: skip
    assert moved == {"forward": 2 * 2 * TOKENS * 128, "backward": 1.5 * 2 * 2 * TOKENS * 128}


def k3():
    """Return Kimi K3 tensor by tensor, but for what reads images: names as its checkpoint has them."""
    h, heads, d, latent, experts = 7168, 96, 128, 3584, 896
    inner = heads * d
    kda = (4 * h * inner + h * heads + h * d + d * inner  # q, k, v, gate; strength; decay down and up
           + 3 * 4 * inner + heads + inner + d + inner * h)  # fmt: skip
    mla = (h * 1536 + 1536 + 1536 * heads * (d + 64) + h * (512 + 64) + 512 + 512 * heads * 2 * d
           + h * inner + inner * h)  # fmt: skip
    moe = experts * 3 * latent * 3072 + experts * h + experts + 2 * h * latent + latent + 3 * h * 2 * 3072
    around = 2 * h + 4 * h
    return 2 * 163840 * h + 3 * h + 69 * kda + 24 * mla + 92 * moe + 3 * h * 33792 + 93 * around, experts * 92


def test_kimi_k3_tensor_by_tensor():
    """And byte by byte: experts in MXFP4 (17/32 byte) and the rest in 16 bits are 0.92 GB less than the checkpoint's
    1,560,860,324,864 bytes, which have 0.46 billion parameters of a vision tower."""
    count, experts = k3()
    assert int(model_parameters(load_model("kimi-k3").transformer()).all) == count
    of_experts = experts * 3 * 3584 * 3072
    tower = 1_560_860_324_864 - (of_experts * 17 / 32 + 2 * (count - of_experts))
    assert 0.4e9 < tower / 2 < 0.5e9


TEXT = {
    "model_type": "kimi_linear", "attn_res_block_size": 12, "first_k_dense_replace": 1, "hidden_act": "situ",
    "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0, "hidden_size": 7168, "intermediate_size": 33792,
    "kv_lora_rank": 512, "latent_moe_use_norm": True, "mla_use_nope": True, "mla_use_output_gate": True,
    "moe_intermediate_size": 3072, "moe_layer_freq": 1, "num_attention_heads": 96, "num_experts": 896,
    "num_experts_per_token": 16, "num_hidden_layers": 93, "num_key_value_heads": 96, "num_shared_experts": 2,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "routed_expert_hidden_size": 3584,
    "v_head_dim": 128, "vocab_size": 163840, "tie_word_embeddings": False, "max_position_embeddings": 1048576,
    "linear_attn_config": {
        "full_attn_layers": [*range(4, 93, 4), 93], "head_dim": 128, "num_heads": 96, "short_conv_kernel_size": 4,
        "use_full_rank_gate": True, "gate_lower_bound": -5.0,
        "kda_layers": [layer for layer in range(1, 93) if layer % 4]},
}  # fmt: skip


def test_its_config_says_what_the_catalogue_has():
    found = import_text(json.dumps({"model_type": "kimi_k3", "text_config": TEXT}), "config.json").fields
    assert int(model_parameters(Model("", "", 0, "", dict(found)).transformer()).all) == k3()[0]
    known = load_model("kimi-k3").fields
    assert {name: found.get(name) for name in known.keys() & found.keys() - {"seq_len"}} == {
        name: known[name] for name in known.keys() & found.keys() - {"seq_len"}
    }

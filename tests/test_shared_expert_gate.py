"""The gate on shared experts (Qwen's mixtures): its weights, work and what it keeps, counted by hand."""

import pytest
from face import explained, memory_of, row_of

from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError

LAYERS, H, TOKENS, TP = 3, 256, 512, 4
MODEL = {"layers": LAYERS, "hidden": H, "heads": 8, "vocab": 512, "experts": 8, "top_k": 2, "moe_ffn_hidden": 64,
         "shared_experts": 1, "shared_ffn_hidden": 128, "gated": "on", "bias": "off", "dropout": "off"}  # fmt: skip


def study(gate="on", **more):
    point = {**MODEL, "seq_len": TOKENS, "micro_batch": 1, "precision": "bf16", "framework_gib": 0, "etp": 1,
             "shared_expert_gate": gate, **more}  # fmt: skip
    return {"hardware": "h100-sxm", "set": point}


def held(asked):
    return memory_of(study_from(asked))


def difference(of):
    return of("on") - of("off")


@pytest.mark.parametrize("dense", [0, 1])
def test_a_number_for_each_of_hidden_in_every_layer_of_experts(dense):
    for count in ("parameters", "active_parameters"):
        found = difference(lambda gate, count=count: row_of(study(gate, dense_layers=dense, ffn_hidden=512))[count])
        assert found == (LAYERS - dense) * H


@pytest.mark.parametrize("tp", [1, TP])
def test_what_it_keeps_is_the_output_of_shared_experts(tp):
    """autograd keeps both factors of sigmoid(x w) y: T H numbers, and one a token; under TP of a part of them."""
    kept = difference(lambda gate: held(study(gate, tp=tp))["activations"])
    assert kept == pytest.approx(2 * LAYERS * TOKENS / tp * (H + 1))


def test_every_device_of_tp_has_its_weights():
    states = difference(lambda gate: held(study(gate, tp=TP, zero=0))["optimizer"])
    assert states == pytest.approx(12 * LAYERS * H)


def test_it_is_a_product_of_one_column_and_a_product_of_numbers():
    operations = {each["operation"]: each for each in explained(study())["operations"] if each["phase"] == "forward"}
    assert operations["shared expert gate"]["flops"] == 2 * TOKENS * H
    assert operations["shared expert gating"]["hbm_bytes"] == 2 * 2 * TOKENS * H
    (backward,) = (each for each in explained(study())["operations"]
                   if each["operation"] == "shared expert gating" and each["phase"] == "backward")  # fmt: skip
    assert backward["hbm_bytes"] == 1.5 * 2 * 2 * TOKENS * H
    assert row_of(study(), ["step_s"])["step_s"] > row_of(study("off"), ["step_s"])["step_s"]


def test_it_is_made_again_with_the_shared_experts():
    kept = difference(lambda gate: held(study(gate, recompute="shared_experts"))["activations"])
    assert kept == 0


@pytest.mark.parametrize(("more", "part"), [
    ({"shared_experts": 0, "shared_ffn_hidden": None}, "is of shared experts, of which there are none"),
    ({"experts": None, "top_k": None, "moe_ffn_hidden": None, "shared_experts": None, "shared_ffn_hidden": None,
      "etp": None, "ffn_hidden": 512}, "shared_expert_gate means nothing without experts"),
])  # fmt: skip
def test_what_has_no_gate(more, part):
    point = study(**more)
    point["set"] = {name: value for name, value in point["set"].items() if value is not None}
    with pytest.raises(ConfigError, match=part):
        explained(point)


@pytest.mark.parametrize(("flag", "gate"), [("--moe-shared-expert-gate", "on"), ("", None)])
def test_megatron_says_so(flag, gate):
    command = (
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 --num-attention-heads 8 "
        "--seq-length 512 --max-position-embeddings 512 --micro-batch-size 1 --global-batch-size 8 --vocab-size 512 "
        "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 64 --moe-shared-expert-intermediate-size 128 "
    )
    assert import_text(command + flag, "train.sh").fields.get("shared_expert_gate") == gate

"""Adapters beside frozen weights, against counts by hand and what PEFT prints; and the files that describe them."""

from __future__ import annotations

import json

import pytest
from face import explained, memory_of, row_of

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import CompcommError

H, F, KV, LAYERS, VOCAB, RANK, TOKENS = 1024, 4096, 256, 8, 32000, 16, 2048
BASE = {"hidden": H, "heads": 16, "kv_heads": 4, "layers": LAYERS, "ffn_hidden": F, "gated": "on", "vocab": VOCAB,
        "seq_len": TOKENS, "norm": "rmsnorm", "bias": "off", "gpus": 8, "global_batch": 8,
        "dropout": "off"}  # fmt: skip
WEIGHTS = LAYERS * (2 * H * H + 2 * H * KV + 3 * H * F)  # of the linear layers
PARAMETERS = WEIGHTS + 2 * VOCAB * H + (2 * LAYERS + 1) * H
SIDES = {"q_proj": H + H, "k_proj": H + KV, "v_proj": H + KV, "qkv_proj": H + H + 2 * KV, "o_proj": H + H,
         "gate_proj": H + F, "up_proj": H + F, "gate_up_proj": H + 2 * F, "down_proj": F + H}  # fmt: skip


def study(targets="q_proj+v_proj", model=None, **more):
    adapters = {"lora_rank": RANK, "lora_targets": targets} if targets else {}
    return {"hardware": "h100-sxm", "cost_model": "complete", "set": {**BASE, **adapters, **more}}


@pytest.mark.parametrize(("targets", "count"), [("q_proj+v_proj", 6815744), ("all", 41943040)])
def test_llama_3_8b_trains_what_peft_prints(targets, count):
    given = {"gpus": 8, "global_batch": 8, "lora_rank": 16, "lora_targets": targets}
    row = row_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": given}, ("trained_parameters", "parameters"))
    assert (row["trained_parameters"], row["parameters"]) == (count, 8030261248)


@pytest.mark.parametrize("targets", ["q_proj", "k_proj+o_proj", "qkv_proj+gate_up_proj+down_proj", "gate_proj+up_proj"])
def test_parameters_by_hand(targets):
    row = row_of(study(targets), ("trained_parameters", "parameters"))
    assert row["trained_parameters"] == LAYERS * RANK * sum(SIDES[part] for part in targets.split("+"))
    assert row["parameters"] == PARAMETERS


def test_flops_are_four_of_a_frozen_weight_and_six_of_an_adapter():
    scores = LAYERS * 2 * 2 * TOKENS**2 * H
    full, adapted = (row_of(study(targets), ("model_flops",))["model_flops"] / 8 for targets in (None, "all"))
    weights, trained = WEIGHTS + VOCAB * H, LAYERS * RANK * (sum(SIDES.values()) - SIDES["qkv_proj"] - H - 2 * F)
    assert full == 6 * weights * TOKENS + 3 * scores
    assert adapted == 4 * weights * TOKENS + 6 * trained * TOKENS + 3 * scores


def test_a_step_is_shorter_by_the_gradients_of_weights():
    kept, frozen = (explained(study(targets, zero=0)) for targets in (None, "q_proj"))

    def backward(record, name):
        return next(op for op in record["operations"] if (op["operation"], op["phase"]) == (name, "backward"))

    for name in ("FFN up", "QKV projection", "attention output", "logits"):
        assert backward(kept, name)["flops"] == 2 * backward(frozen, name)["flops"]
        assert backward(frozen, name)["seconds"] < 0.7 * backward(kept, name)["seconds"]


def test_states_are_of_adapters_alone():
    trained = LAYERS * RANK * (SIDES["q_proj"] + SIDES["v_proj"])
    held = memory_of(study(zero=0))
    assert held["weights"] == 2 * (PARAMETERS + trained)
    assert (held["gradients"], held["optimizer"]) == (2 * trained, 12 * trained)
    sharded = memory_of(study(zero=3, framework_gib=0))
    assert sharded["weights"] == pytest.approx(2 * (PARAMETERS + trained) / 8)
    assert sharded["optimizer"] == pytest.approx(12 * trained / 8)


def test_inputs_that_no_adapter_reads_are_not_kept():
    size = 2 * TOKENS * LAYERS
    whole, attention, network = (memory_of(study(targets, zero=0))["activations"]
                                 for targets in (None, "q_proj", "up_proj+down_proj"))  # fmt: skip
    assert whole - attention == size * (H + F - RANK)  # of the network: its input, and that of the matrix down
    assert whole - network == size * (H - 2 * RANK)  # the input of attention


def messages(group, **more):
    found = explained(study(**more))["operations"]
    return {op["operation"]: op for op in found if op["group"] == group and op["calls"]}


def test_what_is_sent_of_adapters():
    trained = LAYERS * RANK * (SIDES["q_proj"] + SIDES["v_proj"])
    sent = messages("dp", zero=1)
    assert {name: op["message_bytes"] for name, op in sent.items()} == {
        "gradient reduce-scatter": 2 * trained,
        "weight all-gather": 2 * trained,
    }
    three = [op["calls"] * op["message_bytes"] for op in explained(study(zero=3))["operations"]
             if op["operation"] == "weight all-gather"]  # fmt: skip
    assert sum(three) == pytest.approx(2 * 2 * (PARAMETERS + trained))
    split = messages("tp", tp=2, targets="q_proj+o_proj")
    sums = [split[f"{part} adapter all-reduce"] for part in ("q_proj", "o_proj")]
    assert [op["message_bytes"] for op in sums] == [2 * TOKENS * RANK] * 2
    assert [op["phase"] for op in sums] == ["backward", "forward"]  # its input is split, or its output


@pytest.mark.parametrize("targets", ["q_proj", "q_proj+o_proj", "all"])
def test_gradients_over_tp_are_of_matrices_that_see_a_part_of_the_tokens(targets):
    # Norms are frozen; up from what is scattered along the sequence goes r by H, of o_proj and down_proj.
    many = {"q_proj": 0, "q_proj+o_proj": 1, "all": 2}[targets]
    size = 2 * many * RANK * H
    once, kept = (messages("tp", tp=2, targets=targets, sequence_inputs=word).get("partial gradients all-reduce")
                  for word in ("again", "kept"))  # fmt: skip
    assert (once["message_bytes"] if once else 0) == LAYERS * size
    assert (kept["message_bytes"] * kept["calls"] if kept else 0) == LAYERS * size * (8 / 4 if many else 1)


def test_what_tp_splits_of_adapters():
    # Of q_proj the outputs: its matrix down is whole, of all tokens. Of o_proj the inputs: what is summed is scattered
    # along the sequence, and goes up as each device's own tokens.
    found = explained(study("q_proj+o_proj", tp=2))["operations"]
    flops = {op["operation"]: op["flops"] for op in found if "adapter" in op["operation"] and op["phase"] == "forward"}
    one = 2 * TOKENS * RANK * H
    assert {name: flops[name] for name in flops if "all-reduce" not in name} == {
        "q_proj adapter down": one, "q_proj adapter up": one / 2,
        "o_proj adapter down": one / 2, "o_proj adapter up": one / 2,
    }  # fmt: skip
    kept = [memory_of(study("q_proj+o_proj", tp=2, lora_rank=rank))["activations"] for rank in (RANK, 2 * RANK)]
    assert kept[1] - kept[0] == 2 * 2 * TOKENS * RANK * LAYERS


EXPERTS = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "shared_experts": 1, "ep": 4, "etp": 1}
OWN = LAYERS * 8 * 3 * H * 512  # weights of experts
OF_EXPERTS = LAYERS * 8 * RANK * 3 * (H + 512)  # numbers of their adapters
SHARED = LAYERS * RANK * 3 * (H + 512)


def test_each_expert_has_adapters_of_its_own():
    row = row_of(study("gate_proj+up_proj+down_proj", **EXPERTS), ("trained_parameters", "parameters"))
    assert row["trained_parameters"] == OF_EXPERTS + SHARED
    held = memory_of(study("gate_proj+up_proj+down_proj", zero=0, **EXPERTS))
    assert held["optimizer"] == 12 * (OF_EXPERTS / 4 + SHARED)
    assert held["weights"] == 2 * (row["parameters"] - OWN * 3 / 4 + OF_EXPERTS / 4 + SHARED)


def test_without_shared_experts_there_are_no_adapters_of_them():
    row = row_of(study("down_proj", **{**EXPERTS, "shared_experts": 0}), ("trained_parameters",))
    assert row["trained_parameters"] == OF_EXPERTS / 3


def test_the_host_launches_adapters_and_what_makes_sixteen_bits():
    def host(targets, **more):  # a step so short that it takes what launching it takes
        small = {"hidden": 256, "ffn_hidden": 512, "vocab": 512, "seq_len": 64, "gpus": 1, "global_batch": 1, "zero": 0}
        row = row_of(study(targets, **small, **more), ("compute_s", "host_s"))
        return row["compute_s"] + row["host_s"]

    one, two = host("q_proj"), host("q_proj+v_proj")
    adapter = two - one  # four kernels
    assert host("q_proj+k_proj+v_proj") - two == pytest.approx(adapter)
    plain, single, double = (host("q_proj", **more) for more in
                             ({}, {"frozen_precision": "nf4_single"}, {"frozen_precision": "nf4"}))  # fmt: skip
    assert single - plain == pytest.approx(5 / 4 * adapter)  # of five products
    assert double - single == pytest.approx(10 / 4 * adapter)


def test_adapters_of_experts_see_the_tokens_of_their_expert():
    found = explained(study("up_proj", **EXPERTS))["operations"]
    flops = {op["operation"]: op["flops"] for op in found if "adapter" in op["operation"] and op["phase"] == "forward"}
    one = 2 * TOKENS * RANK
    assert flops == {"expert up_proj adapter down": 2 * one * H, "expert up_proj adapter up": 2 * one * 512,
                     "shared up_proj adapter down": one * H, "shared up_proj adapter up": one * 512}  # fmt: skip
    kept = [memory_of(study("up_proj", lora_rank=rank, **EXPERTS))["activations"] for rank in (RANK, 2 * RANK)]
    assert kept[1] - kept[0] == 2 * (2 + 1) * TOKENS * RANK * LAYERS


def test_gradients_of_experts_adapters_go_to_those_that_have_the_experts():
    sent = messages("dp", zero=1, targets="up_proj", **EXPERTS)
    numbers = {"expert gradient reduce-scatter": OF_EXPERTS / 3 / 4, "gradient reduce-scatter": SHARED / 3}
    assert {name: sent[name]["message_bytes"] for name in numbers} == {
        name: pytest.approx(2 * number) for name, number in numbers.items()
    }


BITS = {"nf4": 4 + 0.127, "nf4_single": 4.5}  # arXiv:2305.14314, section 3: 32/64 bit, 8/64 + 32/(64 * 256)


@pytest.mark.parametrize("word", BITS)
def test_frozen_weights_in_four_bits(word):
    trained = LAYERS * RANK * (SIDES["q_proj"] + SIDES["v_proj"])
    held, plain = (memory_of(study(zero=0, **more)) for more in ({"frozen_precision": word}, {}))
    rest = PARAMETERS - WEIGHTS + trained
    assert held["weights"] == pytest.approx(2 * rest + WEIGHTS * BITS[word] / 8, rel=1e-5)
    # Beside them 16 bits of one matrix: gate, up or down.
    assert held["buffers"] - plain["buffers"] == 2 * H * F
    assert held["activations"] == plain["activations"]


def test_experts_in_four_bits():
    more = {"zero": 0, **EXPERTS}
    four, sixteen = (memory_of(study(**more, **extra))["weights"] for extra in ({"frozen_precision": "nf4"}, {}))
    packed = LAYERS * (2 * H * H + 2 * H * KV + 3 * H * 512) + OWN / 4  # attention, shared, and two of eight experts
    assert sixteen - four == pytest.approx(packed * (16 - BITS["nf4"]) / 8, rel=1e-5)


def test_four_bits_are_gathered_and_made_sixteen_with_every_pass():
    found = explained(study(zero=3, frozen_precision="nf4"))["operations"]
    trained = LAYERS * RANK * (SIDES["q_proj"] + SIDES["v_proj"])
    gathered = sum(op["calls"] * op["message_bytes"] for op in found if op["operation"] == "weight all-gather")
    assert gathered == pytest.approx(2 * (2 * (PARAMETERS - WEIGHTS + trained) + WEIGHTS / 2))
    for phase in ("forward", "backward"):
        done = [op for op in found if (op["operation"], op["phase"]) == ("dequantise weights", phase)]
        assert sum(op["calls"] for op in done) == 5 * LAYERS  # Q, K and V are one
        moved = sum(op["calls"] * op["hbm_bytes"] for op in done)
        assert moved == pytest.approx(WEIGHTS * (BITS["nf4"] + 16) / 8, rel=1e-5)
    # Of a layer and the next one, which are whole, 4 bits; 16 of a matrix beside them.
    small = {"zero": 3, "vocab": 1024, "framework_gib": 0}
    four, sixteen = (memory_of(study(**small, **more))["buffers"] for more in ({"frozen_precision": "nf4"}, {}))
    assert sixteen - four == pytest.approx(2 * 1.5 * WEIGHTS / LAYERS - 2 * H * F)
    # Scales are no parameters: they are on every device.
    four, sixteen = (memory_of(study(zero=3, **more))["weights"] for more in ({"frozen_precision": "nf4"}, {}))
    assert sixteen - four == pytest.approx(WEIGHTS * ((2 - 0.5) / 8 - 0.127 / 8), rel=1e-4)


def test_it_takes_longer_and_less_memory():
    columns = ("step_s", "compute_s", "host_s", "memory_gib")
    four, sixteen = (row_of(study("all", zero=0, **more), columns) for more in ({"frozen_precision": "nf4"}, {}))
    assert four["step_s"] > sixteen["step_s"]  # the host's, here
    assert four["compute_s"] > 1.02 * sixteen["compute_s"]
    assert four["memory_gib"] < sixteen["memory_gib"]


def test_parts_of_a_step_add_up():
    columns = ("step_s", "compute_s", "recompute_s", "optimizer_s", "bubble_s", "host_s", "serialized_comm_s",
               "exposed_comm_s")  # fmt: skip
    for more in (
        {"tp": 2},
        {"zero": 3},
        {"pp": 2, "global_batch": 64},
        {"recompute": "full"},
        {"frozen_precision": "nf4"},
        {"zero": 3, **EXPERTS},
    ):
        row = row_of(study("all", **more), columns)
        assert sum(row[name] for name in columns[1:]) == pytest.approx(row["step_s"], rel=1e-12)


@pytest.mark.parametrize(("more", "message"), [
    ({"targets": None, "lora_targets": "q_proj"}, "means nothing without lora_rank"),
    ({"targets": "w1"}, "'w1' is no layer that has adapters"),
    ({"targets": "q_proj+qkv_proj"}, "names a layer twice"),
    ({"gated": "off", "targets": "gate_proj"}, "the network is not gated"),
    ({"experts": 8, "top_k": 2, "targets": "all", "tp": 2, "etp": 2}, "adapters of experts that etp splits"),
    ({"targets": None, "frozen_precision": "nf4"}, "means nothing without lora_rank"),
    ({"frozen_precision": "nf4", "tp": 2}, "no stack splits weights of 4 bits"),
    ({"frozen_precision": "nf4", "precision": "fp8"}, "goes with a precision of 16 bits"),
    ({"kv_heads": 16, "kv_lora_rank": 64, "rope_head_dim": 16}, "multi-head latent attention are not modelled"),
    ({"layer_pattern": "M-x8", "ssm_heads": 32, "ssm_head_dim": 64}, "no layer has the linear layers"),
    ({"recompute": "mlp"}, "recomputation by modules beside adapters"),
    ({"optimizer": "muon"}, "adapters by Muon"), ({"phase": "inference", "global_batch": None}, "lora_rank"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(more, message):
    given = {key: value for key, value in more.items() if value is not None or key == "targets"}
    point = study(**given)
    if "global_batch" in more:
        point["set"].pop("global_batch")
    with pytest.raises(CompcommError, match=message):
        row_of(point)


# -- files ------------------------------------------------------------------------------------------------------------

TUNE = """model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 4096}
optimizer: {_component_: torch.optim.AdamW, fused: True}
batch_size: 2
gradient_accumulation_steps: 8
dtype: bf16
enable_activation_checkpointing: False
compile: False
"""
AXOLOTL = """base_model: NousResearch/Meta-Llama-3.1-8B-Instruct
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
adapter: lora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
optimizer: adamw_torch
bf16: auto
gradient_checkpointing: true
datasets: [{path: x}]
"""
FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: lora
lora_rank: 8
lora_target: q_proj,v_proj
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
deepspeed: examples/deepspeed/ds_z2_config.json
bf16: true
"""
PEFT = json.dumps({"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16, "bias": "none",
                   "target_modules": ["k_proj", "q_proj"], "lora_alpha": 32})  # fmt: skip


@pytest.mark.parametrize(("text", "model", "fields"), [
    (TUNE, "llama-3.1-8b", {"lora_rank": 8, "lora_targets": "q_proj+v_proj+o_proj+gate_proj+up_proj+down_proj",
                            "seq_len": 4096, "micro_batch": 2, "accumulation": 8, "zero": 3, "recompute": "none"}),
    (AXOLOTL, "llama-3.1-8b", {"lora_rank": 32, "seq_len": 4096, "zero": 0, "recompute": "full",
                               "lora_targets": "q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj"}),
    (TUNE.replace("lora_llama3_1_8b", "qlora_llama3_1_8b"), "llama-3.1-8b",
     {"frozen_precision": "nf4", "lora_rank": 8}),
    (AXOLOTL.replace("adapter: lora", "adapter: qlora\nload_in_4bit: true"), "llama-3.1-8b",
     {"frozen_precision": "nf4", "lora_rank": 32}),
    (FACTORY + "quantization_bit: 4\n", "qwen3-8b", {"frozen_precision": "nf4"}),
    (FACTORY + "quantization_bit: 4\ndouble_quantization: false\n", "qwen3-8b", {"frozen_precision": "nf4_single"}),
    (FACTORY, "qwen3-8b", {"lora_rank": 8, "lora_targets": "q_proj+v_proj", "zero": 2, "accumulation": 8}),
    (PEFT, "llama-3.1-8b", {"lora_rank": 16, "lora_targets": "q_proj+k_proj"}),
    (PEFT.replace('"r": 16, ', ""), "llama-3.1-8b", {"lora_rank": 8}),  # LoraConfig's own
    # A recipe without an optimizer is one all the same: gradient_accumulation_steps is DeepSpeed's, too.
    (TUNE.replace("optimizer: {_component_: torch.optim.AdamW, fused: True}\n", ""), "llama-3.1-8b", {"zero": 3}),
    # transformers' FSDP: words in a list, and its configuration beside it or, with fsdp_version 2, alone.
    (f"{AXOLOTL}fsdp: [full_shard, auto_wrap]\nfsdp_config: {{fsdp_sharding_strategy: FULL_SHARD}}\n",
     "llama-3.1-8b", {"zero": 3}),
    (f"{AXOLOTL}fsdp: [shard_grad_op]\nfsdp_config: {{fsdp_use_orig_params: false}}\n", "llama-3.1-8b", {"zero": 2}),
    (f"{AXOLOTL}fsdp_version: 2\nfsdp_config: {{reshard_after_forward: false}}\n", "llama-3.1-8b", {"zero": 2}),
    (f"{AXOLOTL}fsdp_version: 2\nfsdp_config: {{reshard_after_forward: true}}\n", "llama-3.1-8b", {"zero": 3}),
    (f"{AXOLOTL}fsdp: [no_shard]\n", "llama-3.1-8b", {"zero": 0}),
])  # fmt: skip
def test_a_file_of_a_finetuning_tool_is_read(text, model, fields):
    found = import_text(text, "file")
    assert found.model == model
    assert {name: found.fields[name] for name in fields} == fields


@pytest.mark.parametrize(("text", "old", "new", "message"), [
    (TUNE, "llama3_1_8b", "llama9_1b", "no model of the catalogue is"),
    (TUNE, "max_seq_len: 4096", "max_seq_len: null", "give --set seq_len=N"),
    (AXOLOTL, "adapter: lora", "adapter: lora\nload_in_8bit: true", "few bits other than NF4"),
    (AXOLOTL, "adapter: lora", "load_in_4bit: true", "there are no adapters"),
    (FACTORY, "lora_rank: 8", "lora_rank: 8\nquantization_bit: 8", "few bits other than NF4"),
    (FACTORY, "lora_rank: 8", "lora_rank: 8\nquantization_bit: 4\nquantization_method: hqq", "few bits other"),
    (AXOLOTL, "lora_r: 32\n", "", "'lora_r' is missing"),
    (AXOLOTL, "bf16: auto", "fsdp: [all_shard]", "all_shard: not understood"),
    (AXOLOTL, "bf16: auto", "fsdp_config: {fsdp_offload_params: true}", "weights in the host.s memory"),
    (TUNE, "lora_llama3_1_8b", "dora_llama3_1_8b", "DoRA is not modelled"),
    (TUNE, "lora_rank: 8", "use_dora: True", "DoRA, which keeps"),
    (TUNE, "['q_proj', 'v_proj', 'output_proj']", "5", "'5' is not understood; a list of layers"),
    (AXOLOTL, "bf16: auto", "surprise: 3", "surprise: '3' is not understood"),
    (FACTORY, "lora_target: q_proj,v_proj", "lora_target: w1,w2", "adapters of w1, w2 are not modelled"),
    (FACTORY, "finetuning_type: lora", "finetuning_type: freeze", "'freeze' is not modelled; only full and lora"),
    (PEFT, '"LORA"', '"IA3"', "but by LORA is not modelled"),
    (PEFT, '"bias": "none"', '"use_dora": true', "use_dora: 'true' is not understood"),
])  # fmt: skip
def test_what_a_file_of_a_finetuning_tool_is_refused_for(text, old, new, message):
    assert old in text
    with pytest.raises(CompcommError, match=message):
        import_text(text.replace(old, new), "file")


@pytest.mark.parametrize(("text", "said"), [
    (TUNE + "optimizer_in_bwd: True\n", "optimizer_in_bwd: gradients are counted as kept"),
    (TUNE + "ac_mode: selective\n", "ac_mode: activations are counted as kept"),
    (AXOLOTL + "deepspeed: zero3_bf16_cpuoffload_all.json\n", "offloads is not counted"),
    (AXOLOTL.replace("adapter: lora\n", ""), "all weights are trained: there is no adapter"),
])  # fmt: skip
def test_what_changes_a_step_and_is_not_counted_is_said(text, said):
    assert any(said in note for note in import_text(text, "file").notes)

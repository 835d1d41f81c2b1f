"""How tools on transformers and accelerate say what is sharded: FSDP's strategies, degrees, and what has no model."""

from __future__ import annotations

import json

import pytest

from comp_comm.configs.importers.adapters import model_of
from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

AXOLOTL = {"base_model": "NousResearch/Llama-3.2-1B", "sequence_len": 1024, "micro_batch_size": 2, "datasets": []}
FACTORY = {"model_name_or_path": "meta-llama/Llama-3.2-1B", "stage": "sft", "finetuning_type": "full"}
ACCELERATE = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "FSDP", "num_machines": 2,
              "num_processes": 16, "mixed_precision": "bf16"}  # fmt: skip


def study(*parts):
    merged = {}
    for part in parts:
        merged |= part
    return import_text(json.dumps(merged), "some.yaml")


def refused(*parts):
    with pytest.raises(ConfigError) as caught:
        study(*parts)
    return str(caught.value)


# accelerate's numbers of strategies are from 1, in this order (its page on FSDP).
@pytest.mark.parametrize(("config", "zero"), [
    ({}, 3), ({"fsdp_sharding_strategy": "FULL_SHARD"}, 3), ({"fsdp_sharding_strategy": "SHARD_GRAD_OP"}, 2),
    ({"fsdp_sharding_strategy": "NO_SHARD"}, 0), ({"sharding_strategy": 1}, 3), ({"sharding_strategy": 2}, 2),
    ({"sharding_strategy": "3"}, 0), ({"fsdp_sharding_strategy": "HYBRID_SHARD"}, 3), ({"sharding_strategy": 5}, 2),
    ({"fsdp_version": 2, "fsdp_reshard_after_forward": True}, 3),
    ({"fsdp_version": 2, "fsdp_reshard_after_forward": False}, 2), ({"reshard_after_forward": "SHARD_GRAD_OP"}, 2),
    ({"fsdp_backward_prefetch": "BACKWARD_PRE", "fsdp_use_orig_params": True}, 3),
])  # fmt: skip
def test_strategies_of_fsdp_are_stages(config, zero):
    assert study(ACCELERATE, {"fsdp_config": config}).fields["zero"] == zero
    wrapped = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", **config}
    assert study(AXOLOTL, {"fsdp_version": 2, "fsdp_config": wrapped}).fields["zero"] == zero


def test_a_configuration_of_fsdp_is_read_to_its_last_key():
    assert "cpu_offlaod" in refused(ACCELERATE, {"fsdp_config": {"fsdp_cpu_offlaod": True}})
    assert "offload_params" in refused(ACCELERATE, {"fsdp_config": {"fsdp_offload_params": True}})
    assert "only FULL_SHARD" in refused(ACCELERATE, {"fsdp_config": {"fsdp_sharding_strategy": "SOME"}})
    checkpointed = {"fsdp_config": {"fsdp_activation_checkpointing": True}}
    assert study(ACCELERATE, checkpointed).fields["recompute"] == "full"


@pytest.mark.parametrize(("more", "expected"), [
    ({}, {"gpus": 16, "zero": 3, "precision": "bf16", "overlap_dp": "on"}),
    ({"distributed_type": "MULTI_GPU", "mixed_precision": "fp16"}, {"gpus": 16, "zero": 0, "precision": "fp16"}),
    ({"mixed_precision": "no"}, {"precision": None}), ({"mixed_precision": False}, {"precision": None}),
    ({"fsdp_config": {"fsdp_sharding_strategy": "HYBRID_SHARD"}}, {"zero": 3, "dp_shard": 8}),
    ({"parallelism_config": {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 2,
                             "parallelism_config_cp_size": 2, "parallelism_config_tp_size": 2}},
     {"tp": 2, "cp": 2, "dp_shard": 4, "cp_comm": "all_gather"}),
    ({"parallelism_config": {"dp_replicate_size": 1, "dp_shard_size": 8, "cp_size": 2}}, {"cp": 2, "dp_shard": None}),
    ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3, "gradient_accumulation_steps": 4,
      "offload_optimizer_device": "cpu", "offload_param_device": "none"}},
     {"zero": 3, "zero_implementation": "deepspeed", "accumulation": 4, "offload_optimizer": "on"}),
    ({"distributed_type": "MEGATRON_LM", "megatron_lm_config": {"megatron_lm_tp_degree": 4, "megatron_lm_pp_degree": 2,
      "megatron_lm_num_micro_batches": 8, "megatron_lm_sequence_parallelism": True,
      "megatron_lm_use_distributed_optimizer": True, "megatron_lm_recompute_activations": True}},
     {"tp": 4, "pp": 2, "sp": "on", "accumulation": 8, "zero": 1, "recompute": "selective"}),
])  # fmt: skip
def test_accelerate_says_devices_formats_and_sharding(more, expected):
    found = study(ACCELERATE, more)
    assert found.needs_model
    assert {name: found.fields.get(name) for name in expected} == expected


def test_accelerate_says_what_is_still_to_be_given():
    assert any("--set micro_batch=N" in note for note in study(ACCELERATE).notes)
    bare = {"distributed_type": "FSDP", "fsdp_config": {}}
    assert any("--set gpus=N" in note for note in study(bare).notes)
    file = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "ds.json"}}
    assert "import that file, or give --set zero=N" in refused(ACCELERATE, file)
    assert "not modelled" in refused(ACCELERATE, {"distributed_type": "MULTI_CPU", "use_cpu": True})


def test_axolotl_has_its_devices_from_replicas_and_shards():
    mesh = {"dp_replicate_size": 2, "dp_shard_size": 4, "tensor_parallel_size": 2, "context_parallel_size": 2}
    found = study(AXOLOTL, mesh, {"fsdp_version": 2}).fields
    assert (found["gpus"], found["dp_shard"]) == (32, 8)
    found = study(AXOLOTL, {"dp_shard_size": 8, "fsdp_version": 2}).fields
    assert (found["gpus"], found.get("dp_shard")) == (8, None)
    assert "--set dp_shard=N" in refused(AXOLOTL, {"dp_replicate_size": 2})
    assert "host's memory" in refused(AXOLOTL, {"gradient_checkpointing": "offload"})


def test_a_model_that_is_not_of_the_catalogue_is_asked_for_with_its_file():
    assert "--model FILE with its config.json" in refused(AXOLOTL, {"base_model": "someone/something"})


def test_factory_says_which_attention_and_weights():
    assert study(FACTORY, {"flash_attn": "disabled"}).fields["attention_kernel"] == "unfused"
    assert "attention_kernel" not in study(FACTORY, {"flash_attn": "fa2"}).fields
    assert study(FACTORY, {"pure_bf16": True}).fields["optimizer_precision"] == "bf16"


@pytest.mark.parametrize(("text", "told"), [
    ('{"model": {"d_model": 64, "n_layers": 2, "max_sequence_length": 128}, "global_train_batch_size": 8}', "OLMo"),
    ('{"train": {"micro_batch_size": 1}, "optimizer": {"lr": 1}, "model": {"tensor_model_parallel_size": 2}}',
     "Megatron-Bridge recipe"),
    ("from nemo.collections import llm\n\n\ndef recipe():\n    return llm.a(num_nodes=2)\n", "a program of Python"),
    ("import nemo_run as run\nx = run.Config(tp=1)\n", "a program of Python"),
])  # fmt: skip
def test_files_of_other_tools_are_told_by_one_sentence_with_what_helps(text, told):
    with pytest.raises(ConfigError) as caught:
        import_text(text, "file.yaml")
    message = str(caught.value)
    assert told in message
    assert "config.json" in message or "import a list of them" in message
    assert "is none of what can be imported" not in message


# What the cards of these models say they were made of; the smallest has an output layer of its own, unlike its base.
@pytest.mark.parametrize(("name", "known"), [
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"), ("unsloth/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", None), ("someone/llama-3.1-8b-distill-of-mine", None),
    ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b"), ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
    ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
])  # fmt: skip
def test_distilled_models_are_what_they_were_made_of(name, known):
    assert model_of(name) == known


def test_the_vocabulary_of_a_publisher_that_copies_a_model_is_that_models():
    sizes = (
        "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 32 --tokenizer-type HuggingFaceTokenizer"
    )
    for name in ("unsloth/Qwen2.5-32B", "/data/models/Qwen2.5-32B/"):
        script = f"python pretrain_gpt.py {sizes} --tokenizer-model {name}"
        assert import_text(script, "train.sh").fields["vocab"] == 152064


@pytest.mark.parametrize(("mesh", "gpus", "dp_shard"), [
    ({}, None, None), ({"data_parallel_shard_dim": -1, "data_parallel_replicate_dim": 1}, None, None),
    ({"data_parallel_shard_dim": 8}, 8, None), ({"data_parallel_shard_dim": 8, "tensor_parallel_dim": 4}, 32, None),
    ({"data_parallel_shard_dim": 4, "data_parallel_replicate_dim": 2}, 8, 4),
])  # fmt: skip
def test_torchtune_has_its_devices_from_replicas_and_shards(mesh, gpus, dp_shard):
    recipe = {"model": {"_component_": "torchtune.models.llama3_1.llama3_1_8b"}, "batch_size": 2,
              "tokenizer": {"_component_": "torchtune.models.llama3.llama3_tokenizer", "max_seq_len": 512}}  # fmt: skip
    found = study(recipe, mesh).fields
    assert (found.get("gpus"), found.get("dp_shard")) == (gpus, dp_shard)
    with pytest.raises(ConfigError, match="--set dp_shard=N"):
        study(recipe, {"data_parallel_shard_dim": -1, "data_parallel_replicate_dim": 2})


@pytest.mark.parametrize(("text", "told"), [
    ("python3 -m verl.trainer.main_ppo data.train_batch_size=64", "verl"),
    ("colossalai run --nproc_per_node 8 train.py --plugin 3d --tp 4", "Colossal-AI"),
    ('{"model": {"type": "gpt2", "hidden_dim": 64, "num_layers": 2}, "trainer": {"mp": "p=f32"}}', "Levanter"),
])  # fmt: skip
def test_scripts_and_files_that_are_not_read_are_told_by_whose_they_are(text, told):
    with pytest.raises(ConfigError, match=told) as caught:
        import_text(text, "run.sh")
    assert "config.json" in str(caught.value)


def test_a_model_that_is_given_stands_in_for_the_one_a_file_names():
    tuned = {"model": {"_component_": "torchtune.models.some.some_7b"}, "tokenizer": {"max_seq_len": 512},
             "batch_size": 2, "optimizer": {"_component_": "torch.optim.AdamW"}, "dtype": "bf16"}  # fmt: skip
    with pytest.raises(ConfigError, match="give --model NAME"):
        import_text(json.dumps(tuned), "some.yaml")
    for data in (tuned, {**AXOLOTL, "base_model": "a/b"}, {**FACTORY, "model_name_or_path": "meta-llama/Llama-3.2-1B"}):
        assert import_text(json.dumps(data), "some.yaml", {}, "llama-3.1-8b").model == "llama-3.1-8b"
    stored = {**AXOLOTL, "base_model": "NousResearch/Llama-3.2-1B-bnb-4bit"}
    with pytest.raises(ConfigError, match="weights of 4 or 8 bits"):
        import_text(json.dumps(stored), "some.yaml")

"""Tools that hand arguments to Megatron-LM: FlagScale's YAML, Megatron-SWIFT's scripts, MindSpeed-LLM's arguments."""

from __future__ import annotations

import json

import pytest

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

FLAGSCALE = {
    "system": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "sequence_parallel": True,
               "use_distributed_optimizer": True, "disable_bias_linear": True, "precision": {"bf16": True},
               "logging": {"log_interval": 1, "wandb_project": "${experiment.exp_name}"}, "no_shared_fs": False},
    "model": {"num_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "group_query_attention": True,
              "num_query_groups": 4, "ffn_hidden_size": 4096, "seq_length": 2048, "swiglu": True,
              "use_rotary_position_embeddings": True, "normalization": "RMSNorm", "micro_batch_size": 1,
              "untie_embeddings_and_output_weights": True, "attention_dropout": 0.0, "hidden_dropout": 0.0,
              "global_batch_size": 64, "optimizer": {"lr_scheduler": {"lr": 1e-4}}},
    "data": {"data_path": "${path:??}", "tokenizer": {"vocab_size": 32000, "tokenizer_path": "x"}},
}  # fmt: skip
SWIFT = ("NPROC_PER_NODE=8 megatron sft --model {model} --max_length 8192 --tensor_model_parallel_size 4 "
         "--micro_batch_size 1 --sequence_parallel true --finetune true --dataset x --lr 1e-5 {more}")  # fmt: skip
MINDSPEED = ("torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
             "--num-attention-heads 16 --ffn-hidden-size 4096 --seq-length 2048 --micro-batch-size 1 "
             "--global-batch-size 32 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --swiglu "
             "--use-fused-swiglu --use-rotary-position-embeddings --position-embedding-type rope "
             "--max-position-embeddings $LONGEST --normalization RMSNorm --bf16 --tokenizer-type PretrainedFromHF "
             "--tokenizer-name-or-path your tokenizer path --padded-vocab-size 32000 {more}")  # fmt: skip


def flagscale(section=None, **more):
    data = json.loads(json.dumps(FLAGSCALE))
    if section:
        data[section] |= more
    return import_text(json.dumps(data), "7b.yaml")


def script(text, **given):
    return import_text(text, "run.sh", given)


def refused(text, name="run.sh"):
    with pytest.raises(ConfigError) as caught:
        import_text(text, name)
    return str(caught.value)


def fields(found, expected):
    return {name: found.fields.get(name) for name in expected}


def test_sections_of_flagscale_are_flattened_into_arguments():
    expected = {"layers": 8, "hidden": 1024, "kv_heads": 4, "ffn_hidden": 4096, "vocab": 32000, "tp": 2, "pp": 2,
                "sp": "on", "zero": 1, "precision": "bf16", "micro_batch": 1, "global_batch": 64, "gated": "on",
                "bias": "off", "tied": "off", "position": "rope"}  # fmt: skip
    assert fields(flagscale(), expected) == expected
    whole = {"train": FLAGSCALE, "experiment": {"runner": {"nnodes": 2, "nproc_per_node": 8}}, "defaults": ["_self_"]}
    assert import_text(json.dumps(whole), "run.yaml").fields["gpus"] == 16
    # as Llama's code has it: 2/3 of 4 x 1024 is 2730, times 1.3, to the next multiple of 256
    wide = flagscale("model", ffn_hidden_size=None, multiple_of=256, hidden_dim_multiplier=1.3)
    assert wide.fields["ffn_hidden"] == 3584


@pytest.mark.parametrize(("section", "more", "told"), [
    ("system", {"hetero": {"enable_hetero": True}}, "several kinds"), ("system", {"use_dualpipev": True}, "DualPipeV"),
    ("model", {"seq_length": "${experiment.length}"}, "--set seq_len=N"),
    ("model", {"some_new_size": 4}, "some-new-size"),
])  # fmt: skip
def test_what_flagscale_has_beside_is_refused(section, more, told):
    with pytest.raises(ConfigError, match=told):
        flagscale(section, **more)


def test_an_experiment_of_flagscale_says_where_its_model_is():
    data = {"defaults": [{"train": "7b"}, "_self_"], "experiment": {"runner": {"nnodes": 4, "nproc_per_node": 8}}}
    told = refused(json.dumps(data), "train.yaml")
    assert "train/7b.yaml" in told
    assert "--set gpus=32" in told
    assert "trains nothing" in refused(json.dumps({"defaults": [{"serve": "7b"}], "experiment": {}}), "serve.yaml")


@pytest.mark.parametrize(("more", "expected"), [
    ("", {"gpus": 8, "tp": 4, "sp": "on", "micro_batch": 1, "global_batch": 16, "recompute": "selective", "zero": 1,
          "precision": "bf16", "lora_rank": None}),  # its own defaults: 16 sequences, selective, distributed
    ("--recompute_granularity none --global_batch_size 64", {"recompute": None, "global_batch": 64}),
    ("--tuner_type lora --lora_rank 16 --target_modules linear_qkv linear_proj",
     {"lora_rank": 16, "lora_targets": "qkv_proj+o_proj"}),
    ("--tuner_type lora", {"lora_rank": 8, "lora_targets": "q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj"}),
    ("--fp8_format hybrid --fp8_recipe tensorwise", {"precision": "fp8", "recipe": "tensorwise"}),
    ("--optimizer_cpu_offload true", {"offload_optimizer": "on"}),
])  # fmt: skip
def test_megatron_swift_has_arguments_on_a_model_it_names(more, expected):
    found = script(SWIFT.format(model="Qwen/Qwen2.5-7B-Instruct", more=more))
    assert found.model == "qwen2.5-7b"
    assert found.fields["seq_len"] == 8192
    assert fields(found, expected) == expected


@pytest.mark.parametrize(("more", "told"), [
    ("--freeze_vit true", "more than text"), ("--rlhf_type dpo", "preferences"), ("--new_size 3", "new-size"),
    ("--tuner_type lora_llm", "only full and lora"), ("--pipeline_model_parallel_size $PP", "--set pp=N"),
])  # fmt: skip
def test_what_megatron_swift_has_beside_is_refused(more, told):
    assert told in refused(SWIFT.format(model="Qwen/Qwen2.5-7B", more=more))


def test_megatron_swift_names_a_model_or_asks_for_one():
    assert "give --model NAME" in refused(SWIFT.format(model="a/b", more=""))
    assert "preferences" in refused(SWIFT.format(model="Qwen/Qwen2.5-7B", more="").replace(" sft", " rlhf"))
    assert "--set seq_len=N" in refused(SWIFT.format(model="Qwen/Qwen2.5-7B", more="").replace("--max_length 8192", ""))


@pytest.mark.parametrize(("more", "expected"), [
    ("", {"layers": 8, "tp": 2, "pp": 2, "gpus": 16, "vocab": 32000, "vocab_multiple": 1, "position": "rope"}),
    ("--context-parallel-size 2 --context-parallel-algo ulysses_cp_algo", {"cp": 2, "cp_comm": "all_to_all"}),
    ("--num-experts 16 --moe-router-topk 2 --moe-ffn-hidden-size 512 --first-k-dense-replace 1 --moe-layer-freq 1 "
     "--n-shared-experts 2 --expert-model-parallel-size 4 --moe-tp-extend-ep",
     {"experts": 16, "dense_layers": 1, "shared_ffn_hidden": 1024, "etp": 1}),
    ("--noop-layers 6,7", {"layers": 6, "pp_layout": "4|2"}),
    ("--noop-layers 7 --num-layers-per-virtual-pipeline-stage 2", {"layers": 7, "vpp": 2, "pp_layout": "2|2|2|1"}),
    ("--num-layer-list 5,3", {"pp_layout": "5|3"}), ("--swap-optimizer", {"offload_optimizer": "on"}),
    ("--lora-r 8 --lora-alpha 16 --lora-target-modules linear_qkv linear_proj", {"lora_rank": 8}),
])  # fmt: skip
def test_mindspeed_says_the_same_in_other_words(more, expected):
    found = script(MINDSPEED.format(more=more))
    assert fields(found, expected) == expected


@pytest.mark.parametrize(("more", "told"), [
    ("--swap-attention", "host's memory"), ("--schedules-method dualpipev", "DualPipeV"),
    ("--stage dpo", "only training"),
    ("--context-parallel-size 2 --context-parallel-algo hybrid_cp_algo", "hybrid_cp_algo"),
    ("--new-thing 3", "new-thing"),
])  # fmt: skip
def test_what_mindspeed_has_beside_is_refused(more, told):
    assert told in refused(MINDSPEED.format(more=more))

"""Hugging Face's Trainer: a YAML of its arguments, and scripts that start programs on it."""

from __future__ import annotations

import json

import pytest

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

BASE = {"model_name_or_path": "meta-llama/Llama-3.1-8B", "per_device_train_batch_size": 2, "output_dir": "out",
        "bf16": True, "gradient_checkpointing": True, "max_length": 4096}  # fmt: skip
FLAGS = (
    "--model_name_or_path meta-llama/Llama-2-7b-hf --bf16 True --per_device_train_batch_size 2 --model_max_length 2048"
)


def study(more):
    return import_text(json.dumps({**BASE, **more}), "sft.yaml")


def script(text):
    return import_text(text, "train.sh")


def refused(text_or_more, name="sft.yaml"):
    text = text_or_more if isinstance(text_or_more, str) else json.dumps({**BASE, **text_or_more})
    with pytest.raises(ConfigError) as caught:
        import_text(text, name)
    return str(caught.value)


@pytest.mark.parametrize(("more", "expected"), [
    ({}, {"micro_batch": 2, "seq_len": 4096, "precision": "bf16", "recompute": "full", "zero": 0}),
    ({"gradient_accumulation_steps": 8, "gradient_checkpointing": False}, {"accumulation": 8, "recompute": "none"}),
    ({"deepspeed": "configs/ds_z3_offload_config.json"}, {"zero": 3, "zero_implementation": "deepspeed"}),
    ({"deepspeed": "./scripts/zero2.json"}, {"zero": 2, "overlap_dp": "off"}),
    ({"deepspeed": {"zero_optimization": {"stage": 1}, "train_batch_size": "auto", "bf16": {"enabled": "auto"}}},
     {"zero": 1, "precision": "bf16", "micro_batch": 2}),
    ({"fsdp": "full_shard auto_wrap", "fsdp_config": {"reshard_after_forward": False}}, {"zero": 2}),
    ({"fsdp": True}, {"zero": 3}), ({"fsdp": ["hybrid_shard auto_wrap"]}, {"zero": 3}),
    ({"bf16": False, "fp16": True}, {"precision": "fp16"}), ({"bf16": False}, {"precision": "fp32"}),
    ({"bf16": False, "torch_dtype": "bfloat16"}, {"precision": "bf16"}),
    ({"optim": "paged_adamw_8bit"}, {"optimizer_precision": "fp8"}),
    ({"use_liger_kernel": True}, {"kernels": "fused"}), ({"torch_compile": True}, {"kernels": "compiled"}),
    ({"attn_implementation": "eager"}, {"attention_kernel": "unfused"}),
    ({"use_peft": True, "lora_r": 32, "lora_target_modules": ["q_proj", "o_proj"]},
     {"lora_rank": 32, "lora_targets": "q_proj+o_proj"}),
    ({"use_peft": True}, {"lora_rank": 16, "lora_targets": "q_proj+v_proj"}),  # TRL's ModelConfig and PEFT's for Llama
    ({"use_peft": False, "lora_r": 32}, {"lora_rank": None}),
])  # fmt: skip
def test_arguments_of_the_trainer(more, expected):
    found = study(more)
    assert found.model == "llama-3.1-8b"
    assert {name: found.fields.get(name) for name in expected} == expected


def test_what_a_file_leaves_open_is_said_with_the_value_that_is_taken():
    kept = {key: BASE[key] for key in ("model_name_or_path", "output_dir", "max_length")}
    bare = import_text(json.dumps({**kept, "gradient_accumulation_steps": 2}), "sft.yaml")
    taken = {name: bare.fields[name] for name in ("micro_batch", "precision", "recompute")}
    assert taken == {"micro_batch": 8, "precision": "fp32", "recompute": "none"}  # the Trainer's own defaults
    for key in ("per_device_train_batch_size", "neither bf16 nor fp16", "gradient_checkpointing", "sharded"):
        assert any(key in note for note in bare.notes)
    trl = {"gradient_accumulation_steps": 2, "packing": True, "model_name_or_path": "x/Llama-3.1-8B", "output_dir": "x",
           "max_seq_length": 512}  # fmt: skip
    found = import_text(json.dumps(trl), "sft.yaml").fields
    assert (found["precision"], found["recompute"], found["seq_len"]) == ("bf16", "full", 512)  # TRL has them on


@pytest.mark.parametrize(("more", "told"), [
    ({"num_generations": 8}, "rewards"), ({"max_prompt_length": 512}, "rewards"),
    ({"vision_tower": "clip"}, "a model of more than text"), ({"load_in_4bit": True}, "QLoRA"),
    ({"model_name_or_path": "x/Llama-3.1-8B-bnb-4bit"}, "weights of 4 or 8 bits"),
    ({"optim": "adafactor"}, "only AdamW"), ({"model_name_or_path": "a/b"}, "--model NAME"),
    ({"deepspeed": "mine.json"}, "--set zero=N"), ({"fsdp": "full_shard offload"}, "host's memory"),
    ({"my_tensor_parallel": 4}, "my_tensor_parallel"), ({"max_length": None}, "--set seq_len=N"),
    ({"torch_dtype": "float8"}, "float8"), ({"tuner_backend": "unsloth"}, "unsloth"),
])  # fmt: skip
def test_what_is_not_modelled_or_not_known_is_refused(more, told):
    assert told in refused(more)


def test_a_program_s_own_arguments_are_told():
    found = study({"my_experiment": "seven"})
    assert any("my_experiment" in note for note in found.notes)


@pytest.mark.parametrize(("text", "expected"), [
    (f"torchrun --nproc_per_node=8 --nnodes 2 train.py {FLAGS} --deepspeed zero3.json", {"gpus": 16, "zero": 3}),
    (f"N=4\nB=1\ndeepspeed --num_gpus $N train.py {FLAGS} --gradient_accumulation_steps $((64 / N / B))",
     {"gpus": 4, "accumulation": 16, "zero": 0}),
    (f"accelerate launch --num_processes 4 --mixed_precision fp16 --use_deepspeed --deepspeed_config_file s/stage3.conf"
     f" run.py {FLAGS.replace('--bf16 True', '')}", {"gpus": 4, "zero": 3, "precision": "fp16"}),
    (f"python launcher.py --num_nodes 4 -- accelerate launch --num_processes 8 --use_fsdp run.py {FLAGS}",
     {"gpus": None, "zero": 3}),  # how many devices the outer program starts it on is not known
    (f"accelerate launch --config_file configs/fsdp.yaml run.py {FLAGS}", {"gpus": None, "zero": 3}),
    ("NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B-Instruct --max_length 2048 --gradient_accumulation_steps 4",
     {"gpus": 4, "lora_rank": 8, "lora_targets": "q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj",
      "recompute": "full", "precision": "bf16", "micro_batch": 1}),
    ("swift sft --model Qwen/Qwen2.5-7B --tuner_type full --max_length 2048 --gradient_accumulation_steps 4 "
     "--torch_dtype float16 --sequence_parallel_size 2", {"gpus": 1, "lora_rank": None, "precision": "fp16", "cp": 2}),
    ("llamafactory-cli train --stage sft --finetuning_type lora --model_name_or_path Qwen/Qwen3-8B --bf16 true "
     "--cutoff_len 1024 --per_device_train_batch_size 3", {"micro_batch": 3, "seq_len": 1024, "lora_rank": 8}),
])  # fmt: skip
def test_scripts_that_start_training(text, expected):
    found = script(text)
    assert {name: found.fields.get(name) for name in expected} == expected


@pytest.mark.parametrize(("text", "told"), [
    (f"torchrun train.py {FLAGS} --gradient_accumulation_steps $STEPS", "--set accumulation="),
    (FLAGS.replace("meta-llama/Llama-2-7b-hf", "$MODEL"), "--model NAME"),
    (f"accelerate launch trl/scripts/dpo.py {FLAGS}", "preferences"),
    (f"accelerate launch --config_file x.yaml a.py {FLAGS}", "zero"),
    ("swift sft --model Qwen/Qwen2.5-7B --max_length 64 --per_device_train_batch_size 1", "16 sequences"),
])  # fmt: skip
def test_scripts_that_leave_something_open_say_what_to_give(text, told):
    assert told in refused(text, "train.sh")

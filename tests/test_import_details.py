"""What importers take from keys that few files have: each case is what the framework itself does with them."""

from __future__ import annotations

import json

import pytest
from test_import_layouts import PRIMUS
from test_import_maxtext import BASE as MAXTEXT
from test_import_maxtext import MESH, SIZES
from test_import_megatron_kin import flagscale
from test_import_recipes import BRIDGE, NEMO, TITAN
from test_import_recipes import study as recipe
from test_import_trainer import FLAGS, script
from test_import_trainer import study as trainer

from comp_comm.configs.importers.python_code import read_code
from comp_comm.configs.importers.python_values import NotLiteral
from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

SWIFT = "swift sft --model Qwen/Qwen2.5-7B --max_length 2048 --gradient_accumulation_steps 4 "


def of(found, *names):
    return tuple(found.fields.get(name) for name in names)


# -- Hugging Face's Trainer -------------------------------------------------------------------------------------------


def test_whose_shards_they_are_says_where_32_bit_weights_are():
    """Accelerate's FSDP casts its 32-bit shards; DeepSpeed's stage 3 has 16-bit weights, and copies of its own."""
    assert of(trainer({"fsdp": "full_shard auto_wrap"}), "zero", "master_weights") == (3, "shards")
    deepspeed = trainer({"deepspeed": "ds_config_zero3.json"})
    assert of(deepspeed, "zero", "zero_implementation", "master_weights") == (3, "deepspeed", None)


def test_each_program_has_adapters_of_its_own_by_default():
    """LLaVA's `lora_r` is 64, on all linear layers; TRL's ModelConfig has 16, ms-swift 8 on all, PEFT q and v."""
    linear = "q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj"
    assert of(trainer({"lora_enable": True}), "lora_rank", "lora_targets") == (64, linear)
    assert of(trainer({"use_peft": True}), "lora_rank", "lora_targets") == (16, "q_proj+v_proj")
    assert of(trainer({"use_lora": True}), "lora_rank", "lora_targets") == (8, "q_proj+v_proj")


def test_sequences_that_ms_swift_splits_are_ulysses():
    assert of(script(f"{SWIFT} --sequence_parallel_size 2"), "cp", "cp_comm") == (2, "all_to_all")
    assert of(script(SWIFT), "cp", "cp_comm") == (None, None)


@pytest.mark.parametrize(("launcher", "zero"), [
    ("--use_deepspeed", 2),  # accelerate's DeepSpeedPlugin: stage 2 unless it is said
    ("--use_deepspeed --zero_stage 3", 3), ("--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP", 2),
    ("--config_file fsdp_grad_op.yaml", 2), ("--config_file fsdp_full.yaml", 3),
])  # fmt: skip
def test_how_accelerate_shards(launcher, zero):
    found = script(f"accelerate launch --num_processes 4 {launcher} run.py {FLAGS}")
    assert of(found, "zero") == (zero,)


def test_a_backend_of_torch_compile_turns_it_on():
    """TrainingArguments: `torch_compile` is set where a backend or a mode of it is given."""
    assert of(trainer({"torch_compile_backend": "inductor"}), "kernels") == ("compiled",)
    assert of(trainer({"torch_compile_backend": "inductor", "torch_compile": False}), "kernels") == ("eager",)


def test_programs_with_a_stage_and_a_split_of_their_own():
    """DeepSpeed-Chat's `zero_stage`; `deepspeed_autotp_size` of ms-swift splits matrices."""
    sharded, whole = (trainer({"deepspeed": True, "zero_stage": stage}) for stage in (2, 0))
    assert of(sharded, "zero", "zero_implementation") == (2, "deepspeed")
    assert of(whole, "zero", "zero_implementation") == (0, None)
    assert of(trainer({"deepspeed_autotp_size": 4}), "tp") == (4,)


def test_ms_swift_is_told_of_nodes_by_its_environment():
    assert of(script(f"NNODES=2 NPROC_PER_NODE=4 {SWIFT}"), "gpus", "micro_batch") == (8, 1)


# -- MaxText ----------------------------------------------------------------------------------------------------------


def test_maxtext_routes_to_groups_where_both_numbers_are_given():
    """base.yml has -1 for both: no groups."""
    experts = f"{SIZES}num_experts: 16\nnum_experts_per_tok: 2\nbase_moe_mlp_dim: 512\n"
    assert of(import_text(f"{experts}n_routing_groups: 8\ntopk_routing_group: 4\n", "m.yml", {"gpus": 8}),
              "router_groups", "router_group_topk") == (8, 4)  # fmt: skip
    for one in ("n_routing_groups: 8\n", "n_routing_groups: 8\ntopk_routing_group: -1\n"):
        assert of(import_text(experts + one, "m.yml", {"gpus": 8}), "router_groups") == (None,)


@pytest.mark.parametrize(("device", "devices"), [("v5p-256", 256), ("v4-64", 64), ("v6e-256", 512), ("v5e-16", 32)])
def test_the_oldest_tpus_are_named_by_cores(device, devices):
    """Google Cloud: v4 and v5p are named by TensorCores, two of a chip; v5e and v6e by chips. Two slices here."""
    text = (f'xpk workload create --device-type={device} --num-slices=2 --command="python3 -m MaxText.train base.yml '
            'model_name=llama3.1-70b per_device_batch_size=2 max_target_length=8192 '
            'ici_fsdp_parallelism=-1"\n')  # fmt: skip
    assert of(import_text(text, "run.sh"), "gpus") == (devices,)


def test_maxtext_drops_tokens_only_where_its_products_are_dense():
    """`capacity_factor` is of the dense products; with `sparse_matmul` (the default) no token is dropped."""
    base = f"{MAXTEXT.replace('llama3.1-70b', 'qwen3-30b-a3b')}{MESH}capacity_factor: 1.25\n"
    assert of(import_text(base, "m.yml"), "capacity_factor") == (None,)
    assert of(import_text(f"{base}sparse_matmul: false\n", "m.yml"), "capacity_factor") == (1.25,)


# -- recipes in Python ------------------------------------------------------------------------------------------------


def test_what_a_condition_decides_in_a_function_that_is_called_is_not_known():
    called = "def change(c):\n    c.a = 1\n\n\ndef f():\n    c = Config(a=0)\n    if unknown():\n        change(c)\n"
    assert isinstance(read_code(f"{called}    return c\n", "x.py").result("f").values["a"], NotLiteral)


def test_a_list_that_a_condition_adds_to_is_not_known_there():
    text = "def f():\n    c = Config()\n    c.a = [1]\n    c.a.append(2)\n    if unknown():\n        c.a.append(3)\n"
    one, two, three = read_code(f"{text}    return c\n", "x.py").result("f").values["a"]
    assert (one, two, isinstance(three, NotLiteral)) == (1, 2, True)


def test_a_function_that_returns_nothing_has_made_the_configuration_it_names():
    text = BRIDGE.replace("    return cfg\n", "    pretrain(cfg)\n")
    assert of(recipe(text), "tp", "gpus") == (4, 64)


def test_an_object_handed_on_under_another_name_is_another():
    text = "def f():\n    a = Config(n=1)\n    {} = other(a)\n    return {}\n"
    itself, new = (read_code(text.format(name, name), "x.py").result("f") for name in ("a", "b"))
    assert itself.values == {"n": 1}
    assert (new.name, new.values) == ("other", {})


@pytest.mark.parametrize(("lines", "zero"), [
    ("", 1), ("cfg.optimizer.use_distributed_optimizer = False", 1),  # Megatron-Bridge sets both where one has it
    ("cfg.optimizer.use_distributed_optimizer = False\n    cfg.ddp.use_distributed_optimizer = False", 0),
])  # fmt: skip
def test_an_optimizer_is_distributed_unless_both_parts_say_no(lines, zero):
    assert of(recipe(BRIDGE.replace("    return cfg", f"    {lines}\n    return cfg")), "zero") == (zero,)


@pytest.mark.parametrize(("lines", "way"), [
    ('cfg.model.moe_flex_dispatcher_backend = "deepep"', "all_to_all"),  # a backend of a dispatcher that is not on
    ('cfg.model.moe_flex_dispatcher_backend = "deepep"\n    apply_flex_dispatcher_backend(cfg.model)', "deepep"),
    ('cfg.model.moe_flex_dispatcher_backend = "deepep"\n    cfg.model.moe_token_dispatcher_type = "flex"', "deepep"),
])  # fmt: skip
def test_a_backend_of_the_flexible_dispatcher_counts_where_that_is_on(lines, way):
    text = BRIDGE.replace("meta-llama/Llama-3.1-70B", "Qwen/Qwen3-30B-A3B").replace("_size = 5", "_size = None")
    lines = f"    cfg.model.expert_model_parallel_size = 8\n    {lines}\n    return cfg"
    assert of(recipe(text.replace("    return cfg", lines)), "ep_dispatch", "etp") == (way, 1)


def test_the_rank_of_adapters_where_a_recipe_says_none():
    """Megatron-Bridge's and NeMo's LoRA: dim 32."""
    assert of(recipe(BRIDGE.replace("    return cfg", "    cfg.peft = LoRA()\n    return cfg")), "lora_rank") == (32,)
    assert of(recipe(NEMO.replace("    return recipe", "    recipe.peft = run.Config(LoRA)\n    return recipe")),
              "lora_rank") == (32,)  # fmt: skip


def test_a_recipe_of_nemo_without_the_distributed_optimizer():
    config = "optim=run.Config(nl.MegatronOptimizerModule, config=run.Config(OptimizerConfig, {}))"
    for given, zero in (("use_distributed_optimizer=False", 0), ("use_distributed_optimizer=True", 1), ("lr=1", 1)):
        text = NEMO.replace("optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4)", config.format(given))
        assert of(recipe(text), "zero") == (zero,)


@pytest.mark.parametrize(("more", "field", "value"), [
    ("loss=ChunkedLossWrapper.Config()", "loss_chunks", 8),  # torchtitan: num_chunks is 8
    ("loss=ChunkedLossWrapper.Config(num_chunks=4)", "loss_chunks", 4),
])  # fmt: skip
def test_a_loss_in_chunks_of_torchtitan(more, field, value):
    text = TITAN.replace("        activation_checkpoint", f"        {more},\n        activation_checkpoint")
    assert of(recipe(text, "llama3_70b"), "cross_entropy", field) == ("chunked", value)


def test_tokens_of_a_step_of_torchtitan_are_sequences_of_its_context():
    text = TITAN.replace("max_context_length=8192", f"max_context_length=8192, num_tokens_per_train_step={512 * 8192}")
    assert of(recipe(text, "llama3_70b"), "global_batch", "micro_batch") == (512, 2)


def test_sequence_parallelism_of_torchtitan_is_on_unless_it_is_off():
    off = TITAN.replace("tensor_parallel_degree=8", "tensor_parallel_degree=8, enable_sequence_parallel=False")
    assert of(recipe(off, "llama3_70b"), "sp") == ("off",)
    assert of(recipe(TITAN, "llama3_70b"), "sp") != ("off",)


@pytest.mark.parametrize(("value", "expected"), [("True", None), ("False", "off"), ("None", None)])
def test_sends_between_interleaved_stages_overlap_unless_a_recipe_says_no(value, expected):
    """Megatron-Bridge's and NeMo's comm_overlap.py: on where stages have several chunks, or what the user says."""
    line = f"    cfg.comm_overlap = CommOverlapConfig(overlap_p2p_comm={value})\n    return cfg"
    assert of(recipe(BRIDGE.replace("    return cfg", line)), "vpp", "overlap_pp") == (5, expected)
    callback = f"callbacks=[run.Config(MegatronCommOverlapCallback, overlap_p2p_comm={value})], strategy=strategy)"
    chunks = NEMO.replace("sequence_parallel=True", "sequence_parallel=True, virtual_pipeline_model_parallel_size=2")
    found = recipe(chunks.replace("strategy=strategy)", callback))
    assert of(found, "vpp", "overlap_pp") == (2, expected)


def test_sends_of_primus_overlap_unless_it_says_no():
    stages = "pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2"
    for more, expected in (("", None), (", overlap_p2p_comm: false", "off")):
        text = PRIMUS.format(model="mixtral_8x7B_v0.1.yaml", overrides=stages + more)
        assert of(import_text(text, "primus.yaml"), "vpp", "overlap_pp") == (2, expected)


# -- FlagScale --------------------------------------------------------------------------------------------------------


def test_a_reference_to_another_file_is_no_matter_where_its_value_is_given():
    sizes = {"num_layers": 8, "hidden_size": 1024, "num_attention_heads": 8, "seq_length": "${experiment.length}",
             "micro_batch_size": 1}  # fmt: skip
    text = json.dumps({"system": {"tensor_model_parallel_size": 2, "precision": {"bf16": True}}, "model": sizes,
                       "data": {"tokenizer": {"vocab_size": 1000}}})  # fmt: skip
    assert of(import_text(text, "train.yaml", {"seq_len": 512}), "tp", "layers") == (2, 8)
    with pytest.raises(ConfigError, match="--set seq_len=N"):
        import_text(text, "train.yaml")


def test_a_width_is_that_of_llama_s_code():
    """Llama 2 7B: hidden 4096, multiple_of 256, ffn 11008; 70B: hidden 8192, multiplier 1.3, multiple 4096, 28672."""
    for hidden, multiple, factor, width in ((4096, 256, None, 11008), (8192, 4096, 1.3, 28672)):
        found = flagscale("model", hidden_size=hidden, ffn_hidden_size=None, multiple_of=multiple,
                          hidden_dim_multiplier=factor)  # fmt: skip
        assert of(found, "ffn_hidden") == (width,)

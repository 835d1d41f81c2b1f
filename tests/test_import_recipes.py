"""Python files are read as text: what functions would make, as far as literals say it, and whose recipes they are."""

from __future__ import annotations

import pytest

from comp_comm.configs.importers.python_code import read_code
from comp_comm.configs.importers.python_values import Made, NotLiteral
from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

BRIDGE = """
from somewhere import AutoBridge, _pretrain_common, bf16_mixed

SIZE = 2


def llama31_70b_pretrain_64gpu_config():
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-70B").to_megatron_provider(load_weights=False)
    cfg.model.tensor_model_parallel_size = 2 * SIZE
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.sequence_parallel = True
    cfg.model.seq_length = 8192
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    cfg.logger.log_interval = 10
    return cfg
"""
NEMO = """
import nemo_run as run
from nemo.collections import llm
from nemo import lightning as nl


def model():
    return run.Config(llm.LlamaModel, config=run.Config(llm.Llama31Config70B))


def trainer(tensor=4, num_nodes=1, num_gpus_per_node=8):
    strategy = run.Config(nl.MegatronStrategy, tensor_model_parallel_size=tensor, pipeline_model_parallel_size=2,
                          sequence_parallel=True, ddp=run.Config(DDP, overlap_grad_reduce=True))
    return run.Config(nl.Trainer, devices=num_gpus_per_node, num_nodes=num_nodes, plugins=bf16_mixed(),
                      strategy=strategy)


def pretrain_recipe(num_nodes=4, name="x", fast=False):
    recipe = run.Partial(llm.pretrain, model=model(), trainer=trainer(num_nodes=num_nodes),
                         data=run.Config(Mock, seq_length=8192, global_batch_size=512, micro_batch_size=1),
                         optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4))
    if fast:
        recipe.trainer.strategy.tensor_model_parallel_size = 8
    return recipe
"""
TITAN = """
from torchtitan.trainer import Trainer
from . import model_registry


def llama3_70b() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("70B"),
        optimizer=default_adamw(lr=1.5e-4),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192, steps=10),
        parallelism=ParallelismConfig(tensor_parallel_degree=8, data_parallel_shard_degree=16),
        activation_checkpoint=FullAC.Config(),
    )


def llama3_70b_fp8() -> Trainer.Config:
    config = llama3_70b()
    config.compile = CompileConfig(enable=True, components=["model"])
    config.model_spec = model_registry("70B", converters=[Float8LinearConverter.Config(model_compile_enabled=True)])
    return config
"""
TRAINER = """
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
from peft import LoraConfig

LENGTH = 4096
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", attn_implementation="eager")
lora = LoraConfig(r=16, target_modules=["q_proj", "v_proj"])
args = TrainingArguments(output_dir="x", per_device_train_batch_size=4, gradient_accumulation_steps=8, bf16=True,
                         gradient_checkpointing=True, logging_steps=some())
"""


def study(text, recipe="", **given):
    return import_text(text, "recipe.py", given, "", recipe)


def refused(text, recipe="", **given):
    with pytest.raises(ConfigError) as caught:
        study(text, recipe, **given)
    return str(caught.value)


def test_nothing_of_a_file_is_run(tmp_path):
    mark = tmp_path / "ran"
    code = read_code(f"import os\nos.system('touch {mark}')\nopen('{mark}', 'w')\n__import__('os').mkdir('{mark}')\n"
                     f"exec('x = 1')\ny = eval('1 + 1')\ndef f():\n    return [open('{mark}')]\n", "x.py")  # fmt: skip
    code.result("f")
    assert not mark.exists()
    assert isinstance(code.names["y"], Made)  # a call of that name, and no number
    assert "x" not in code.names


@pytest.mark.parametrize(("body", "expected"), [
    ("c.a = 2 * 8192", 16384), ("c.a = 7 // 2 + 2 ** 3", 11), ("n = 4\n    c.a = n if n > 3 else 1", 4),
    ("c.a = [1] * 3", [1, 1, 1]), ("c.a = f'x{n}'", "x3"), ("c.a = max(n, 2)", 3), ("c.a = {'k': 5}['k']", 5),
    ("if n == 3:\n        c.a = 1\n    else:\n        c.a = 2", 1), ("c.a = not n", False), ("c.a = n is None", False),
    ("for i in range(3):\n        c.a = i", NotLiteral), ("if unknown():\n        c.a = 1", NotLiteral),
    ("c.a = 10 ** 10 ** 10", NotLiteral), ("c.a = 'x' * 10 ** 9", NotLiteral), ("c.a = open('x').read()", Made),
    ("c.a = 1 / 0", NotLiteral), ("c.a = unknown + 1", NotLiteral), ("c.a, c.b = 1, 2", 1),
    ("c.a = 1\n    c.a += n", 4),
])  # fmt: skip
def test_literals_and_plain_arithmetic_are_known_and_nothing_else(body, expected):
    made = read_code(f"def f(n=3):\n    c = Config()\n    {body}\n    return c\n", "x.py").result("f")
    value = made.values["a"]
    assert isinstance(value, expected) if isinstance(expected, type) else value == expected


def test_functions_of_the_file_are_gone_through_with_their_arguments():
    text = "def base(n=1):\n    return Config(a=n)\ndef f():\n    c = base(n=4)\n    more(c)\n"
    code = read_code(
        text + "    g(c, b=2)\n    return c\ndef g(c, b):\n    c.b = b\ndef again():\n    return again()\n", "x.py"
    )
    made = code.result("f")
    assert made.values == {"a": 4, "b": 2}
    assert code.unread_of(made) == [("more", 5)]  # of another file: what it sets is not known
    assert isinstance(code.result("again"), Made)


@pytest.mark.parametrize("text", ["def f(:\n", "x = " + "(" * 500 + ")" * 500, "\x00"])
def test_what_is_no_python_is_refused(text):
    with pytest.raises(ConfigError, match=r"x\.py"):
        read_code(text, "x.py")


def test_a_recipe_of_megatron_bridge():
    found = study(BRIDGE)
    expected = {"gpus": 64, "tp": 4, "pp": 4, "vpp": 5, "cp": 1, "sp": "on", "seq_len": None, "global_batch": 128,
                "micro_batch": 1, "precision": "bf16", "zero": 1, "overlap_dp": "on",
                "grad_precision": "fp32"}  # fmt: skip
    assert found.model == "llama-3.1-70b"
    assert {name: found.fields.get(name) for name in expected} == expected  # 8192 is the model's own seq_len
    experts = BRIDGE.replace("Llama-3.1-70B", "Qwen/Qwen3-30B-A3B").replace("meta-llama/", "").replace(
        "cfg.train.global", "cfg.model.expert_model_parallel_size = 8\n    cfg.train.global")  # fmt: skip
    more = study(
        experts.replace("virtual_pipeline_model_parallel_size = 5", "virtual_pipeline_model_parallel_size = None")
    )
    assert (more.fields["ep"], more.fields["etp"], more.fields["ep_dispatch"]) == (8, 1, "all_to_all")


@pytest.mark.parametrize(("line", "expected"), [
    ('cfg.mixed_precision = "bf16_with_mxfp8_mixed"', {"precision": "fp8", "recipe": "mxfp8"}),
    ('cfg.mixed_precision = get_mixed_precision_config("bf16_with_fp8_current_scaling_mixed")',
     {"precision": "fp8", "recipe": "tensorwise"}),
    ("cfg.mixed_precision = fp16_mixed()", {"precision": "fp16"}),
    ('cfg.model.recompute_granularity = "full"', {"recompute": "full"}),
    ('cfg.model.recompute_modules = ["core_attn", "mlp"]\n    cfg.model.recompute_granularity = "selective"',
     {"recompute": "core_attn+mlp"}),
    ("cfg.ddp.grad_reduce_in_fp32 = False", {"grad_precision": "bf16"}),
    ('cfg.peft = default_peft_config("lora", dim=8)', {"lora_rank": 8}),
    ("cfg.optimizer.exp_avg_dtype = torch.bfloat16\n    cfg.optimizer.exp_avg_sq_dtype = torch.bfloat16",
     {"optimizer_precision": "bf16"}),
    ("cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)", {"overlap_tp": "on"}),
])  # fmt: skip
def test_parts_of_a_recipe_of_megatron_bridge(line, expected):
    found = study(BRIDGE.replace("    return cfg", f"    {line}\n    return cfg")).fields
    assert {name: found.get(name) for name in expected} == expected


def test_what_another_file_sets_is_asked_for():
    other = BRIDGE.replace("_pretrain_common()", "llama31_70b_pretrain_config()").replace(
        "cfg.model.seq_length", "cfg.x.y"
    )
    assert "--set cp=N --set seq_len=N" in refused(other)
    assert "--set sp=on" in refused(other.replace("cfg.model.sequence_parallel", "cfg.x.z"), cp=2, seq_len=4096)
    found = study(other, cp=2, seq_len=4096)
    assert (found.fields["cp"], found.fields["seq_len"]) == (2, 4096)
    assert any("another file" in note for note in found.notes)


def test_what_is_not_literal_is_named_with_its_line():
    told = refused(BRIDGE.replace("= 2 * SIZE", "= int(os.environ['TP'])"))
    assert "recipe.py:10" in told
    assert "int(os.environ['TP']) is not a literal" in told
    assert "--set tp=" in told
    assert study(BRIDGE.replace("= 2 * SIZE", "= int(os.environ['TP'])"), tp=8).fields["tp"] == 8
    unknown = study(
        BRIDGE.replace("    return cfg", "    cfg.model.apply_new = f()\n    cfg.model.x_y = g() + 1\n    return cfg")
    )
    told = [note for note in unknown.notes if "not literal, and left out: model.apply_new = f()" in note]
    assert "model.x_y" in told[0]
    assert "--some-new-size" in refused(BRIDGE.replace("cfg.model.seq_length", "cfg.model.some_new_size"))


def test_a_recipe_of_nemo():
    found = study(NEMO)
    expected = {"gpus": 32, "tp": 4, "pp": 2, "sp": "on", "global_batch": 512, "micro_batch": 1, "precision": "bf16"}
    assert found.model == "llama-3.1-70b"
    assert {name: found.fields.get(name) for name in expected} == expected
    fast = study(NEMO.replace("fast=False", "fast=True"))
    assert fast.fields["tp"] == 8
    assert "--set tp=" in refused(NEMO.replace("if fast:", "if fast():"))  # a condition that nothing decides
    assert study(NEMO.replace("if fast:", "if fast():"), tp=2).fields["tp"] == 2
    plugin = NEMO.replace("bf16_mixed()", "run.Config(nl.MegatronMixedPrecision, precision='bf16-mixed')")
    assert study(plugin).fields["precision"] == "bf16"
    assert study(plugin.replace("bf16-mixed", "16-mixed")).fields["precision"] == "fp16"
    tuned = NEMO.replace("    return recipe", "    recipe.peft = run.Config(LoRA, dim=16)\n    return recipe")
    assert study(tuned).fields["lora_rank"] == 16


def test_a_configuration_of_torchtitan():
    assert "give --recipe NAME" in refused(TITAN)
    assert "llama3_70b_fp8" in refused(TITAN)
    assert "did you mean" in refused(TITAN, "llama3_7b")
    found = study(TITAN, "llama3_70b")
    expected = {"tp": 8, "gpus": 128, "micro_batch": 2, "recompute": "full", "zero": 3, "precision": "bf16",
                "kernels": "eager"}  # fmt: skip
    assert found.model == "llama-3.1-70b"
    assert {name: found.fields.get(name) for name in expected} == expected
    more = study(TITAN, "llama3_70b_fp8").fields
    assert (more["precision"], more["kernels"], more["tp"]) == ("fp8", "compiled", 8)
    piped = TITAN.replace("tensor_parallel_degree=8", "pipeline_parallel_degree=2, num_pp_microbatches=4")
    staged = study(piped, "llama3_70b").fields
    assert (staged["pp"], staged["micro_batch"], staged["accumulation"]) == (2, 2, 4)
    assert "no multiple" in refused(TITAN.replace("2 * 8192", "10000"), "llama3_70b")
    assert "is not a literal" in refused(TITAN.replace("degree=8", "degree=n()"), "llama3_70b")
    assert "only AdamW" in refused(TITAN.replace("default_adamw", "default_lion"), "llama3_70b")


def test_training_arguments_of_a_program():
    found = study(TRAINER, seq_len=4096)
    expected = {"micro_batch": 4, "accumulation": 8, "lora_rank": 16, "lora_targets": "q_proj+v_proj",
                "attention_kernel": "unfused", "recompute": "full"}  # fmt: skip
    assert found.model == "llama-3.1-8b"
    assert {name: found.fields.get(name) for name in expected} == expected
    assert "--set seq_len=N" in refused(TRAINER)
    assert "--set micro_batch=" in refused(TRAINER.replace("batch_size=4", "batch_size=n"), seq_len=64)
    stored = TRAINER.replace("LENGTH = 4096", "bits = BitsAndBytesConfig(load_in_4bit=True)")
    assert "QLoRA" in refused(stored, seq_len=64)
    fast = TRAINER.replace("AutoModelForCausalLM.from_pretrained(", "FastLanguageModel.from_pretrained(")
    assert "Unsloth" in refused(fast, seq_len=64)
    assert "preferences" in refused(TRAINER.replace("args = TrainingArguments", "args = DPOConfig"), seq_len=64)


def test_a_file_without_a_recipe_says_what_to_do():
    assert "import the config.json of its model" in refused("import torch\nx = 1\n")
    with pytest.raises(ConfigError, match="leave --recipe out"):
        import_text("{}", "x.yaml", {}, "", "f")

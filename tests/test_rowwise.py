"""A scale for each row, as torchao has it: counted by hand from its kernels, and beside its published throughput."""

import pytest
from face import explained, row_of

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError
from comp_comm.hardware.numbers import Hardware, Timing
from comp_comm.kernel_choices import Recipe
from comp_comm.operations.shapes import Gemm
from comp_comm.timing.kernels import Kernels

M, K, N = 4096, 2048, 8192
SLOW = Timing(gemm_efficiency=0.5, fp8_efficiency=0.5, memory_efficiency=1e3, sustained=1.0, gemm_ramp_k=0,
              gemm_ramp_tiles=0, cast_efficiency=0.5)  # fmt: skip
# Bytes of an element at the rate of casts, and those that are transposed: torchao's roofline_utils.py. An input is
# quantised forward and, read anew, backward; a gradient once for both products that take it; 4 bytes rescale a result.
KERNELS = {
    Recipe.ROWWISE: {"input forward": (3, 0), "gradient": (3 + 1, 4), "again": (2 + 1, 4), "rescaled": 2},
    Recipe.ROWWISE_WITH_GW_HP: {"input forward": (3, 0), "gradient": (3, 0), "again": (0, 0), "rescaled": 1},
}


def passes(recipe, bandwidth=1e12):
    hardware = Hardware(2e15, 1e12, bandwidth, (), SLOW, attention_peak_flops=1e15)
    return Kernels(hardware, 1, 2, 4, recipe=int(recipe)).gemm(Gemm("up", "2 m k n", 1, M, K, N))


@pytest.mark.parametrize("recipe", KERNELS)
def test_casts_are_those_that_torchao_counts(recipe):
    """On a device whose products take no time for their memory: what is above them are casts and rescaled results."""
    kernels, fast = KERNELS[recipe], 2 * M * K * N / (2e15 * 0.5 * 0.95)

    def casts(elements, which):
        plain, turned = which
        return elements * (plain + turned * 2.2 / 1.4) / 0.5e12

    weights = fast if recipe is Recipe.ROWWISE else 2 * M * K * N / (1e15 * 0.5)
    starts = 4e-6 if recipe is Recipe.ROWWISE else 2e-6
    found = passes(recipe)
    inputs = casts(M * K, kernels["input forward"]) + casts(M * K, kernels["again"])
    rescaled = casts(M * K, (4, 0)) + (kernels["rescaled"] - 1) * casts(K * N, (4, 0))
    assert float(found.forward) == pytest.approx(fast + inputs + starts, rel=1e-6)
    assert float(found.backward) == pytest.approx(
        fast + weights + casts(M * N, kernels["gradient"]) + rescaled + starts, rel=1e-6
    )
    assert float(found.for_weights) == pytest.approx(weights + (kernels["rescaled"] - 1) * casts(K * N, (4, 0)))


def llama(recipe, **more):
    point = {"gpus": 8, "global_batch": 8, "seq_len": 8192, "stack": "torchtitan", "recompute": "per_op",
             "attention_kernel": "flash_2", "precision": "fp8" if recipe else "bf16"}  # fmt: skip
    named = {"recipe": recipe} if recipe else {}
    return {"model": "llama-3-8b", "hardware": "h100-96gb", "set": {**point, **named, **more}}


def test_rowwise_beside_tensorwise_as_torchao_publishes_it():
    """Llama 3 8B on eight H100: 6,768 and 7,689.5 tokens/s (and 6,150 in bf16), pytorch/ao, workflows/training.md."""
    rowwise, tensorwise, bf16 = (
        row_of(llama(recipe, **more), ["step_s"])["step_s"]
        for recipe, more in (("rowwise", {}), ("tensorwise", {"fp8_param_gather": "on"}), ("", {}))
    )
    assert tensorwise / rowwise == pytest.approx(6768 / 7689.5, abs=0.02)
    assert tensorwise < rowwise < bf16


def test_nothing_is_kept_or_sent_in_the_format():
    """Weights, inputs and messages have the bytes of bf16; tensorwise, beside it, sends half of what TP gathers."""
    point = {"tp": 8, "gpus": 64, "global_batch": 96, "micro_batch": 12, "zero": 1, "master_weights": "copy",
             "stack": None}  # fmt: skip
    found = {}
    for recipe in ("rowwise", "rowwise_with_gw_hp", "tensorwise", ""):
        study = llama(recipe, **point)
        study["set"].pop("stack")
        step = explained(study)
        found[recipe] = [*step["memory"].values(), step["comm"]["tp"]["wire_bytes"]]
    assert found["rowwise"] == found["rowwise_with_gw_hp"] == found[""]
    assert found["tensorwise"][-1] < 0.8 * found[""][-1]


def test_weights_are_quantised_with_every_micro_batch():
    def quantised(**more):
        step = explained(llama("rowwise", gpus=8, dp=8, zero=1, **more))
        return sum(each["seconds"] for each in step["operations"] if each["operation"] == "weights quantised")

    assert 0 < 4 * quantised(global_batch=8) == pytest.approx(quantised(global_batch=32))


@pytest.mark.parametrize(("more", "part"), [
    ({"fp8_param_gather": "on"}, "with one for each row weights are gathered in 16 bits"),
    ({"precision": "bf16"}, "this recipe goes with precision: fp8"),
])  # fmt: skip
def test_what_goes_with_no_scale_for_a_row(more, part):
    with pytest.raises(ConfigError, match=part):
        row_of(llama("rowwise", **more))


TOML = """
[model]
name = "llama3"
flavor = "8B"
converters = ["{converter}"]
[training]
seq_len = 8192
local_batch_size = 1
[parallelism]
data_parallel_shard_degree = 8
[{section}]
recipe_name = "{recipe}"
"""


@pytest.mark.parametrize(("section", "name", "recipe"), [
    ("float8", "rowwise", "rowwise"), ("float8", "rowwise_with_gw_hp", "rowwise_with_gw_hp"),
    ("quantize.linear.float8", "tensorwise", "tensorwise"), ("mx", "mxfp8_cublas_rceil", "mxfp8"),
])  # fmt: skip
def test_torchtitan_names_its_recipe(section, name, recipe):
    text = TOML.format(converter=section, section=section, recipe=name)
    found = import_text(text, "job.toml").fields
    assert (found["precision"], found["recipe"]) == ("fp8", recipe)
    unused = text.replace(f'converters = ["{section}"]', "converters = []")
    assert "recipe" not in import_text(unused, "job.toml").fields


def test_another_recipe_is_refused():
    with pytest.raises(ConfigError, match="'colwise' is not understood; only tensorwise, rowwise"):
        import_text(TOML.format(converter="float8", section="float8", recipe="colwise"), "job.toml")


TUNE = """
model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 4096
batch_size: 2
data_parallel_shard_dim: 8
enable_fp8_training: {on}
fp8_recipe_name: {recipe}
"""


@pytest.mark.parametrize(("on", "recipe", "expected"), [
    ("true", "rowwise", ("fp8", "rowwise")), ("true", "null", ("fp8", "tensorwise")),
    ("false", "rowwise", ("bf16", None)),
])  # fmt: skip
def test_torchtune_names_its_recipe(on, recipe, expected):
    found = import_text(TUNE.format(on=on, recipe=recipe), "recipe.yaml").fields
    assert (found["precision"], found.get("recipe")) == expected

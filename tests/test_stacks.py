"""A stack in one word: what it gives is what its choices give one by one; searches of it, and files written for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from face import explained, row_of, rows_of, told

from comp_comm.configs.study import study_from
from comp_comm.costmodels import COST_MODELS
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.searches import search as search_of
from comp_comm.searches.emitted import emitted
from comp_comm.stacks import Stack
from comp_comm.sweeps.stacked import with_stack

DENSE = {"layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn_hidden": 4096, "vocab": 32000, "seq_len": 2048,
         "gpus": 16, "global_batch": 64}  # fmt: skip
MIXTURE = {**DENSE, "experts": 16, "top_k": 2, "moe_ffn_hidden": 1024, "ep": 8, "etp": 1}
FSDP = {"master_weights": "shards", "fsdp_units": "ends"}
TITAN = {"sp": "on", "sequence_inputs": "kept", "overlap_pp": "off", "cp_comm": "all_gather", "kernels": "compiled",
         "cross_entropy": "compiled", "grad_precision": "fp32", "optimizer_precision": "fp32", "schedule": "1f1b",
         "pp_layout": "torchtitan"}  # fmt: skip
MEGATRON = {"cross_entropy": "fused", "grad_precision": "fp32"}
# Stack, point, and what its framework does there, by hand.
AT_A_POINT = [
    ("megatron", {"tp": 2, "pp": 2}, MEGATRON),
    ("megatron", {"tp": 2, "precision": "fp16"}, {"cross_entropy": "fused", "grad_precision": "fp16"}),
    ("megatron", {**MIXTURE, "precision": "fp8"}, {**MEGATRON, "ep_dispatch": "deepep", "fp8_param_gather": "on"}),
    ("nemo", {"tp": 2, "precision": "fp8"}, {"grad_precision": "bf16", "fp8_param_gather": "on"}),
    ("torchtitan", {"tp": 2}, {**TITAN, **FSDP, "zero": 3}),
    ("torchtitan", {"tp": 2, "pp": 2}, {**TITAN, "zero": 1}),
    ("torchtitan", {"tp": 2, "pp": 2, "zero": 3}, {**TITAN, **FSDP, "gradient_sync": "last"}),
    ("deepspeed", {"zero": 2}, {"zero_implementation": "deepspeed", "grad_precision": "bf16"}),
    ("deepseek", {**MIXTURE, "pp": 2, "precision": "fp8"},
     {"schedule": "dualpipe", "overlap_ep": "on", "ep_dispatch": "deepep", "ep_sms": 20, "recipe": "blockwise",
      "dispatch_precision": "fp8", "fp8_activations": "on", "fp8_param_gather": "on", "optimizer_precision": "bf16",
      "grad_precision": "fp32"}),
    ("deepseek", {"pp": 2}, {"schedule": "dualpipe", "optimizer_precision": "bf16", "grad_precision": "fp32"}),
]  # fmt: skip


def study(**fields):
    return {"hardware": "h100-sxm", "set": {**DENSE, **fields}}


def search(asked, gpus, **more):
    """Return a search of a study with other fields, lists of them as axes."""
    axes = {name: values for name, values in more.items() if isinstance(values, list)}
    fixed = {**asked.get("set", {}), **{name: value for name, value in more.items() if name not in axes}}
    return search_of({**asked, "set": fixed, "sweep": axes}, gpus)


@pytest.mark.a_third
@pytest.mark.parametrize(("stack", "point", "by_hand"), AT_A_POINT)
def test_a_stack_is_its_choices_one_by_one(stack, point, by_hand):
    one, other = told(study(**point, stack=stack)), explained(study(**point, **by_hand))
    assert (one["step_s"], one["memory_gib"]) == (other["step_s"], other["memory_gib"])
    (said,) = [note for note in one["meta"]["notes"] if note.startswith(f"stack {stack} ")]
    assert all(f"{name} {value}" in said for name, value in by_hand.items())


@pytest.mark.parametrize(("stack", "formats"), [
    ("megatron", {"fp16": "fp16", "fp32": "fp32", "bf16": "fp32", "fp8": "fp32"}),
    ("nemo", {"fp16": "fp16", "fp32": "fp32", "bf16": "bf16", "fp8": "bf16"}),
    ("deepspeed", {"fp16": "fp16", "fp32": "fp32", "bf16": "bf16"}),
])  # fmt: skip
def test_gradients_are_reduced_in_the_format_that_a_stack_takes_for_each_precision(stack, formats):
    given = [with_stack(study_from({"set": {"stack": stack, "precision": word}}), COST_MODELS["complete"])
             for word in formats]  # fmt: skip
    assert [found.fixed["grad_precision"] for found in given] == list(formats.values())


def test_a_field_that_is_given_wins_and_is_said():
    found = told(study(stack="megatron", grad_precision="bf16"))
    assert found["memory_gib"] == explained(study(grad_precision="bf16"))["memory_gib"]
    assert any("given, and not its own: grad_precision" in note for note in found["meta"]["notes"])


@pytest.mark.parametrize("stack", list(Stack))
def test_every_choice_of_a_stack_is_a_value_of_a_field_with_a_source(stack):
    assert stack.title
    assert stack.source
    for given in stack.given:
        assert given.source
        assert given.field in COST_MODELS["complete"].fields
        assert all(name in COST_MODELS["complete"].fields for name in given.needs)
        for case in given.cases:
            assert [FIELDS[given.field].parse(value) for value in case.listed] == list(case.listed)
            allowed = [value for values in case.when.values() for value in values if value is not None]
            assert all(isinstance(value, (int, str)) for value in allowed)
    assert len({given.field for given in stack.given}) == len(stack.given)


@pytest.mark.a_third
@pytest.mark.parametrize("axis", [{"pp": [1, 2, 4]}, {"zero": [1, 3]}, {"precision": ["bf16", "fp16"]},
                                  {"stack": ["megatron", "nemo", "torchtitan", "deepspeed"]}])  # fmt: skip
def test_what_a_stack_gives_goes_along_with_what_it_depends_on(axis):
    ((name, values),) = axis.items()
    fixed = {"stack": "torchtitan" if name != "precision" else "megatron", "pp": 2, **DENSE}
    fixed.pop(name, None)
    rows = rows_of({"hardware": "h100-sxm", "set": fixed, "sweep": axis})
    alone = [row_of({"hardware": "h100-sxm", "set": {**fixed, name: value}}) for value in values]
    for column in ("step_s", "memory_gib"):
        assert [row[column] for row in rows] == pytest.approx([row[column] for row in alone], rel=1e-12)


@pytest.mark.parametrize(("fields", "axes", "said"), [
    ({"stack": "megatorn"}, {}, "is not allowed; did you mean 'megatron'? Must be one of: megatron, nemo,"),
    ({"stack": "torchtitan"}, {"zero": [1, 3], "pp": [1, 2]}, "move along several axes: give gradient_sync too"),
    ({"stack": "deepspeed", "zero": 0}, {}, "zero_implementation: deepspeed needs zero 1, 2 or 3"),
    ({"stack": "deepseek", "pp": 3}, {}, "(stack deepseek gives schedule dualpipe)"),
    ({"stack": "megatron", "cost_model": "amped"}, {}, "amped does not model stack (complete does)"),
])  # fmt: skip
def test_stacks_that_cannot_be(fields, axes, said):
    given = dict(fields)
    data = {"hardware": "h100-sxm", "set": {**DENSE, **given}, **({"sweep": axes} if axes else {})}
    if "cost_model" in given:
        data["cost_model"] = data["set"].pop("cost_model")
    with pytest.raises(ConfigError) as error:
        rows_of(data)
    assert said in str(error.value)


@pytest.mark.slow
def test_a_search_of_torchtitan_is_three_searches_by_hand():
    """FSDP2 without a pipeline; in one with weights kept whole (ZeRO 1); and in one with weights resharded."""
    small = {"hardware": "h100-sxm", "set": {**DENSE, "gpus": 8, "global_batch": 16, "memory_capacity": 0.2}}
    pinned = {**{name: value for name, value in TITAN.items() if name != "pp_layout"}, "pp_layout": "torchtitan"}
    each = [{"pp": 1, "zero": 3, **FSDP}, {"pp": [2, 4, 8], "zero": 1},
            {"pp": [2, 4, 8], "zero": 3, "gradient_sync": "last", **FSDP}]  # fmt: skip
    apart = [search(small, 8, **pinned, recompute=["none", "per_op", "full"], **more) for more in each]
    whole = search(small, 8, stack="torchtitan")
    assert whole["meta"]["candidates"] == sum(one["meta"]["candidates"] for one in apart)
    assert whole["meta"]["feasible"] == sum(one["meta"]["feasible"] for one in apart)
    rows = sorted(row["step_s"] for one in apart for row in one["rows"])
    assert [row["step_s"] for row in whole["rows"]] == pytest.approx(rows[: len(whole["rows"])], rel=1e-12)
    for row in whole["rows"]:
        assert row["master_weights"] == ("shards" if row["zero"] == 3 else "copy")
        assert row["gradient_sync"] == ("last" if row["zero"] == 3 and row["pp"] > 1 else "micro_batch")
    assert any(note.startswith("stack torchtitan") for note in whole["meta"]["notes"])


@pytest.mark.slow
def test_stacks_side_by_side(compcomm):
    asked = ("--model", "llama-3-8b", "--hardware", "h100-sxm", "--gpus", "16", "--cp", "1", "--global-batch", "64")
    code, out, _ = compcomm("search", *asked, "--stack", "megatron,deepspeed", "--format", "json", "-q")
    rows = json.loads(out)["rows"]
    assert (code, [row["stack"] for row in rows]) == (0, ["megatron", "deepspeed"])
    alone = search({"hardware": "h100-sxm", "model": "llama-3-8b"}, 16, cp=1, global_batch=64, stack="deepspeed")
    assert rows[1]["step_s"] == alone["rows"][0]["step_s"]


def test_a_number_that_one_stack_alone_gives(compcomm):
    # ep_sms is of deepseek: of megatron it is a number that is not there, in every format, and warns nobody.
    point = [f"--set={name}={value}" for name, value in MIXTURE.items()]
    code, out, err = compcomm("sweep", *point, "--hardware", "h800", "--stack", "megatron,deepseek", "--format", "json")
    answer = json.loads(out, parse_constant=pytest.fail)
    assert (code, answer["meta"]["axes"][0]["ep_sms"]) == (0, [None, 20])
    assert [row["ep_sms"] for row in answer["rows"]] == [None, 20]
    code, out, err = compcomm(
        "volume", *point, "--hardware", "h800", "--stack", "megatron,deepseek", "--format", "json"
    )
    assert (code, "Warning" in err) == (0, False)
    assert {row["ep_sms"] for row in json.loads(out, parse_constant=pytest.fail)["rows"]} == {None, 20}
    # One point of them is that of one stack, not of each field that it gives.
    assert "give stack one value" in compcomm("memory", *point, "--hardware", "h800", "--stack", "megatron,deepseek")[2]


def test_a_layout_that_another_stack_has_names_it():
    point = {"gpus": 16, "seq_len": 2048, "global_batch": 64, "tp": 2, "memory_capacity": 1000}
    asked = study_from({"title": "t", "hardware": "h100-sxm", "model": "llama-3.1-8b", "set": point})
    with pytest.raises(ConfigError, match="or all that torchtitan does: --stack torchtitan"):
        emitted("torchtitan", asked, {**point, "dp": 8}, "h100-sxm")


# -- what only helps --------------------------------------------------------------------------------------------------

LATENT = {"kv_heads": None, "kv_lora_rank": 128, "q_lora_rank": 256, "head_dim": 64, "rope_head_dim": 32}


@pytest.mark.a_third
@pytest.mark.parametrize("recipe", ["blockwise", "tensorwise", "delayed"])
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("ep", [2, 8, 16])
def test_what_a_search_does_with_fp8_unasked_never_costs(recipe, zero, ep):
    point = {**MIXTURE, "ep": ep, "precision": "fp8", "recipe": recipe, "zero": zero, "ep_dispatch": "deepep"}
    helped = {"fp8_param_gather": "on", **({"dispatch_precision": "fp8"} if recipe == "blockwise" else {})}
    plain = row_of({"hardware": "h100-sxm", "set": point})
    for name, value in helped.items():
        better = row_of({"hardware": "h100-sxm", "set": {**point, name: value}})
        assert better["step_s"] <= plain["step_s"] * (1 + 1e-12)
        assert better["memory_gib"] <= plain["memory_gib"] * (1 + 1e-12)


@pytest.mark.slow
def test_a_search_in_fp8_takes_what_both_values_would_find():
    asked = {"hardware": "h100-sxm", "set": {**MIXTURE, "precision": "fp8", "recipe": "blockwise", "cp": 1,
                                                  "micro_batch": 1, "placement": "tp-cp-dp-pp"}}  # fmt: skip
    tried = search(asked, 16)
    both = search(asked, 16, fp8_param_gather=["off", "on"], dispatch_precision=["bf16", "fp8"])
    assert tried["rows"][0]["step_s"] == both["rows"][0]["step_s"]
    assert {name: tried["rows"][0][name] for name in ("fp8_param_gather", "dispatch_precision")} == {
        "fp8_param_gather": "on", "dispatch_precision": "fp8"}  # fmt: skip
    assert {"fp8_param_gather", "dispatch_precision"} <= tried["meta"]["not_tried"].keys()
    given = search(asked, 16, fp8_param_gather="off")["rows"][0]
    assert "fp8_param_gather" not in given or given["fp8_param_gather"] == "off"
    assert "dispatch_precision" not in search(asked, 16, recipe="tensorwise")["rows"][0]


# -- DeepSeek-V3 as it was trained ------------------------------------------------------------------------------------

PAGE = " ".join((Path(__file__).parents[1] / "docs" / "stacks.md").read_text(encoding="utf-8").split())
PUBLISHED = {"pp": 16, "ep": 64, "tp": 1, "etp": 1, "micro_batch": 1, "recipe": "blockwise", "schedule": "dualpipe",
             "overlap_ep": "on", "ep_dispatch": "deepep", "ep_node_limit": 4, "dispatch_precision": "fp8",
             "optimizer_precision": "bf16", "recompute": "mla_up_proj+layernorm+moe_act", "grad_precision": "fp32",
             "zero": 1, "fp8_param_gather": "on", "fp8_activations": "on"}  # fmt: skip
TRAINED = {"hardware": "h800-sxm", "model": "deepseek-v3",
           "set": {"seq_len": 4096, "global_batch": 15360, "precision": "fp8"}}  # fmt: skip


def published_s():
    return explained({**TRAINED, "set": {**TRAINED["set"], "gpus": 2048, **PUBLISHED}})["step_s"]


def test_the_stack_of_deepseek_is_its_published_run():
    given = {"gpus": 2048, "pp": 16, "ep": 64, "tp": 1, "etp": 1, "stack": "deepseek"}
    there = explained({**TRAINED, "set": {**TRAINED["set"], **given}})
    assert there["step_s"] == published_s()
    assert f"is {there['step_s']:.2f} s and {there['memory_gib']:.1f} GiB by this model" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize(("more", "allowed"), [({}, 1.05), ({"stack": "deepseek"}, 1.0)])
def test_a_search_finds_what_deepseek_trained_by(more, allowed):
    best = search(TRAINED, 2048, **more)["rows"][0]
    assert best["step_s"] <= allowed * published_s() * (1 + 1e-12)
    assert (best["pp"], best["ep"], best["schedule"]) == (16, 64, "dualpipe")
    assert more or f"PP 16, EP 64, DualPipe at {best['step_s']:.2f} s" in PAGE

"""What is made again by module, by torchtitan's policy and whole; and what is kept in the host's memory: by hand."""

from __future__ import annotations

import itertools
import random

import pytest
from face import explained, machine, memory_of, named, row_of, rows_of, search_of

from comp_comm.choices import MODULES
from comp_comm.errors import ConfigError

# Two dense layers and three of experts, two devices of TP with sequence parallelism: T tokens, half of them outside.
T, H, HALF = 2048, 1024, 1024
MODEL = {
    "hidden": H, "layers": 5, "dense_layers": 2, "heads": 16, "head_dim": 64, "rope_head_dim": 32, "v_head_dim": 64,
    "q_lora_rank": 256, "kv_lora_rank": 128, "ffn_hidden": 4096, "gated": "on", "experts": 8, "top_k": 2,
    "moe_ffn_hidden": 512, "shared_experts": 1, "norm": "rmsnorm", "bias": "off", "dropout": "off", "vocab": 0,
    "seq_len": T,
}  # fmt: skip
SPLIT = {"gpus": 4, "tp": 2, "ep": 2, "etp": 1, "global_batch": 2, "precision": "bf16", "memory_capacity": 1000}
SENT = HALF * 2  # tokens, once for each of two experts
# Layers that have it; bytes that one of them keeps of it; FLOP, and bytes of element-wise work, that are done again.
SCORES = 8 * T * T
BY_HAND = {
    "core_attn": (5, 2 * SCORES, 2 * SCORES * (96 + 64), 0),
    "mla_up_proj": (5, 2 * T * 8 * (96 + 96 + 64), 2 * T * 8 * (256 * 96 + 128 * (64 + 64)), 2 * 2 * T * 2 * 8 * 96),
    "layernorm": (5, 2 * 2 * HALF * H, 0, 2 * 2 * 2 * HALF * H),
    "moe_act": (3, 2 * SENT * 512, 0, 2 * 3 * SENT * 512),
    "mlp": (2, 2 * T * 3 * 2048, 2 * T * H * 3 * 2048, 2 * 3 * T * 2048),
    "shared_experts": (3, 2 * T * 3 * 256, 2 * T * H * 3 * 256, 2 * 3 * T * 256),
    "moe": (3, 2 * SENT * (3 * 512 + 2 * H) + 2 * T * 3 * 256,
            2 * HALF * H * 8 + 2 * SENT * H * 3 * 512 + 2 * T * H * 3 * 256,
            16 * SENT * H + 2 * 3 * SENT * 512 + 2 * 3 * T * 256),
}  # fmt: skip


def study(**more):
    return {"hardware": "h100-sxm", "set": {**MODEL, **SPLIT, "attention_kernel": "unfused", **more}}


def again(**more):
    """Return the operations of a device that are done again."""
    return [each for each in explained(study(**more))["operations"] if each["phase"] == "recompute"]


def test_all_modules_are_counted():
    assert sorted(BY_HAND) == sorted(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_frees(module):
    """Of the layer at work all is there: one layer's share is not freed."""
    layers, size, *_ = BY_HAND[module]
    kept, less = (memory_of(study(recompute=name))["activations"] for name in ("none", module))
    assert kept - less == (layers - 1) * size


@pytest.mark.a_third
@pytest.mark.parametrize("module", MODULES)
def test_what_is_done_again(module):
    layers, _, flops, moved = BY_HAND[module]
    done = again(recompute=module)
    assert sum(each["calls"] * each["flops"] for each in done) == layers * flops
    streamed = sum(each["calls"] * each["hbm_bytes"] for each in done if each["kind"] == "elementwise")
    assert streamed == pytest.approx(layers * moved, rel=1e-12)
    executed, less = (row_of(study(recompute=name))["hardware_flops"] for name in (module, "none"))
    assert executed - less == pytest.approx(4 * layers * flops, rel=1e-12)


@pytest.mark.parametrize(("module", "calls"), [
    ("core_attn", {}), ("layernorm", {}), ("moe_act", {}),
    ("mlp", {"layer all-gather": 2, "layer reduce-scatter": 2}),
    ("shared_experts", {"layer all-gather": 3, "layer reduce-scatter": 3}),
    ("moe", {"layer all-gather": 3, "layer reduce-scatter": 3, "expert dispatch": 3, "expert combine": 3,
             "expert token counts": 3, "expert load all-reduce of a micro-batch": 3}),
    ("mla_up_proj", {"latent all-gather": 3}),
])  # fmt: skip
def test_which_collectives_are_done_again(module, calls):
    assert {each["operation"]: each["calls"] for each in again(recompute=module) if each["group"]} == calls


def test_queries_that_are_not_compressed_come_of_a_gather():
    calls = [each for each in again(recompute="mla_up_proj", q_lora_rank=0) if each["group"]]
    assert {each["operation"] for each in calls} == {"latent all-gather"}
    assert sum(each["calls"] for each in calls) == 5


def test_the_core_of_attention_has_its_keys_sent_again():
    sent = [each for each in again(recompute="selective", cp=2, gpus=8) if each["group"]]
    assert {each["group"] for each in sent} == {"cp"}
    assert sum(each["calls"] for each in sent) == 5


def test_the_core_of_attention_is_what_selective_means():
    one, other = (row_of(study(recompute=name), ("step_s", "memory_gib")) for name in ("selective", "core_attn"))
    assert (one["step_s"], one["memory_gib"]) == (other["step_s"], other["memory_gib"])


def test_a_module_within_another_is_no_more():
    inner = row_of(study(recompute="moe+moe_act+shared_experts"), ("recompute_s", "memory_gib"))
    outer = row_of(study(recompute="moe"), ("recompute_s", "memory_gib"))
    assert [inner[name] for name in ("recompute_s", "memory_gib")] == [
        outer[name] for name in ("recompute_s", "memory_gib")
    ]


COLUMNS = ("step_s", "recompute_s", "memory_gib", "hardware_flops")


@pytest.mark.a_third
@pytest.mark.parametrize("seed", range(12))
def test_more_modules_keep_no_more_and_do_no_less(seed):
    chance = random.Random(seed)
    some = chance.sample(MODULES, chance.randint(1, 5))
    more = [*some, *chance.sample([name for name in MODULES if name not in some], 1)]
    layout = {"pp": chance.choice((1, 2)), "kernels": chance.choice(("fused", "eager")), "sp": "on",
              "attention_kernel": chance.choice(("unfused", "flash_causal")), "gpus": 8,
              "global_batch": 16}  # fmt: skip
    lists = ["none", "+".join(some), "+".join(more)]
    rows = [row_of(study(**layout, recompute=name), COLUMNS) for name in lists]
    for first, second in itertools.pairwise(rows):
        assert second["memory_gib"] <= first["memory_gib"]
        assert all(second[name] >= first[name] for name in COLUMNS if name != "memory_gib")


# -- how it is written ------------------------------------------------------------------------------------------------


def test_modules_are_a_list_or_joined():
    listed, joined = (row_of(study(recompute=name)) for name in (["mlp", "mla_up_proj"], "mla_up_proj + mlp"))
    assert listed == joined
    assert listed["step_s"] > row_of(study())["step_s"]
    swept = {**study(), "sweep": {"recompute": ["none", ["mlp", "mla_up_proj"], "full"]}}
    assert [row["recompute"] for row in rows_of(swept, ("recompute",))] == ["none", "mla_up_proj+mlp", "full"]
    flags = named("llama-step", "recompute=mlp+layernorm,full")
    assert [row["recompute"] for row in rows_of(flags, ("recompute",))] == ["layernorm+mlp", "full"]


@pytest.mark.parametrize(("model", "value", "said"), [
    ("llama-3-8b", "mla_up_proj", "no layer has mla_up_proj"), ("llama-3-8b", "mlp+moe_act", "no layer has moe_act"),
    ("mixtral-8x7b", "mlp", "no layer has mlp"), ("mixtral-8x7b", "shared_experts", "no layer has shared_experts"),
    ("llama-3-8b", "mpl+layernorm", "'mpl' is no module"), ("llama-3-8b", ["mlp", "mlp"], "names a module twice"),
    ("llama-3-8b", "mpl", "modules with + between them: core_attn, mla_up_proj"),
])  # fmt: skip
def test_modules_that_are_not_there(model, value, said):
    with pytest.raises(ConfigError, match=said.replace("+", r"\+")):
        row_of({"hardware": "h100-sxm", "model": model, "set": {"recompute": value}})


# -- by operator, and whole -------------------------------------------------------------------------------------------

GPT = {"hidden": H, "layers": 6, "heads": 16, "norm": "layernorm", "dropout": "off", "vocab": 0, "seq_len": T,
       "memory_capacity": 1000}  # fmt: skip


def of_a_layer(**more):
    """Return the bytes that a layer keeps: what two more of them add."""
    few, many = (memory_of({"hardware": "h100-sxm", "set": {**GPT, "layers": layers, **more}})["activations"]
                 for layers in (6, 8))  # fmt: skip
    return (many - few) / 2


def test_every_second_product_is_kept_by_operator():
    """Of QKV, output, up and down: the first and the third; the layer's input; attention's output and its sums."""
    assert of_a_layer(recompute="per_op") == 2 * T * (H + 3 * H + 4 * H + H) + 4 * T * 16
    gated = of_a_layer(recompute="per_op", gated="on", ffn_hidden=2048)  # QKV, (output,) one of two up, (other,) down
    assert gated == 2 * T * (H + 3 * H + 2048 + H + H) + 4 * T * 16


def test_what_is_done_again_by_operator():
    done = explained({"hardware": "h100-sxm", "set": {**GPT, "gated": "on", "recompute": "per_op"}})["operations"]
    flops = {each["operation"]: each["calls"] * each["flops"] for each in done if each["phase"] == "recompute"}
    assert flops["attention output"] == 6 * 2 * T * H * H
    assert flops["FFN up"] == 6 * 2 * T * H * 4 * H  # one of two
    assert not {"QKV projection", "attention", "FFN down"} & set(flops)
    assert {"FFN activation", "norms, residuals, dropout"} < set(flops)


@pytest.mark.parametrize(("more", "left_out"), [({}, True), ({"norms": 4}, False), ({"dropout": "on"}, False)])
def test_an_early_stop_leaves_out_the_last_product(more, left_out):
    given = {**GPT, "tp": 2, "recompute": "full", **more}
    late, early = (explained({"hardware": "h100-sxm", "set": {**given, "recompute_early_stop": stop}})
                   for stop in ("off", "on"))  # fmt: skip
    spared = 6 * 2 * T * (4 * H / 2) * H * left_out
    assert late["hardware_flops"] - early["hardware_flops"] == 2 * spared
    count = [sum(each["calls"] for each in record["operations"] if each["operation"] == "layer reduce-scatter"
                 and each["phase"] == "recompute") for record in (late, early)]  # fmt: skip
    assert count == [12, 12 - 6 * left_out]
    assert (early["step_s"] < late["step_s"]) == left_out


@pytest.mark.parametrize(("more", "said"), [
    ({"recompute_early_stop": "on"}, "recompute_early_stop goes with recompute: full"),
    ({"recompute": "full", "offload_activations": 1}, "exclude each other"),
    ({"offload_activations": 7}, "offload_activations exceeds the layers of a stage"),
])  # fmt: skip
def test_what_does_not_go_together(more, said):
    with pytest.raises(ConfigError, match=said):
        row_of({"hardware": "h100-sxm", "set": {**GPT, **more}})


# -- the host's memory ------------------------------------------------------------------------------------------------

KEPT = 2 * T * 16 * H  # four inputs, Q, K, V and output, twice 4 H
HOST = 63e9  # bytes a second, the profile's


@pytest.mark.parametrize(("away", "left"), [(1, 5), (3, 3), (5, 2), (6, 2)])
def test_layers_that_are_with_the_host(away, left):
    given = {"hardware": "h100-sxm", "set": {**GPT, "offload_activations": away}}
    assert memory_of(given)["activations"] == left * KEPT
    step = explained(given)
    sent = [each for each in step["operations"] if each["group"] == "host"]
    assert [(each["phase"], each["message_bytes"]) for each in sent] == [
        ("forward", away * KEPT),
        ("backward", away * KEPT),
    ]
    spent, alone = step["comm"]["host"], explained({"hardware": "h100-sxm", "set": GPT})
    seconds = away * KEPT / HOST
    shown = [max(seconds - alone[name], 0) for name in ("forward_s", "backward_s")]
    assert spent["exposed_s"] == pytest.approx(sum(shown), rel=1e-9)
    assert spent["hidden_s"] + spent["exposed_s"] == pytest.approx(2 * seconds, rel=1e-9)
    assert step["step_s"] - alone["step_s"] == pytest.approx(sum(shown), rel=1e-6, abs=1e-12)


def test_stages_of_a_pipeline_send_their_own_layers():
    given = {**GPT, "layers": 8, "pp": 2, "accumulation": 4}
    kept, less = (memory_of({"hardware": "h100-sxm", "set": {**given, **more}})["activations"]
                  for more in ({}, {"offload_activations": 2}))  # fmt: skip
    assert (kept, less) == (2 * 4 * KEPT, 2 * 2 * KEPT)


# -- a search ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "tried"), [
    ("flash_causal", {"none", "full"}), ("unfused", {"none", "selective", "full"}),
])  # fmt: skip
def test_no_search_offers_what_saves_nothing(kernel, tried):
    given = {**GPT, "global_batch": 16, "attention_kernel": kernel, "vocab": 32000}
    found = search_of({"hardware": "h100-sxm", "set": given}, 8)
    assert set(found["meta"]["searched"]["recompute"]) == tried


# -- measured ---------------------------------------------------------------------------------------------------------

# Llama 3 70B in FP8 on 32 H100 and Moonlight 16B on 8, by Megatron-LM: per cent more time than without recomputation
# (NVIDIA Megatron-Bridge, skills/nemo-mbridge-perf-activation-recompute, 2026-08-12; of Llama: TFLOP/s against 709.93).
LLAMA = {"gpus": 32, "tp": 4, "pp": 4, "vpp": 5, "global_batch": 32, "seq_len": 4096, "precision": "fp8",
         "fp8_param_gather": "on", "grad_precision": "fp32", "overlap_tp": "on", "overlap_pp": "on"}  # fmt: skip
# Moonlight is DeepSeek-V2-Lite with another vocabulary. Its steps are bound by the host that launches kernels: 457 ms
# without recomputation, 248 here. What norms cost there, 10.8 with moe_act, is not among these: 5.8 here.
MOONLIGHT = {"gpus": 8, "tp": 2, "ep": 8, "etp": 1, "global_batch": 4, "seq_len": 4096, "vocab": 163840,
             "precision": "bf16"}  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize(("model", "layout", "recompute", "more"), [
    ("llama-3-70b", LLAMA, "core_attn", 0.8), ("llama-3-70b", LLAMA, "mlp", 19.6),
    ("llama-3-70b", LLAMA, "core_attn+layernorm", 1.1), ("llama-3-70b", LLAMA, "core_attn+mlp", 21.0),
    ("deepseek-v2-lite", MOONLIGHT, "core_attn", 3.85), ("deepseek-v2-lite", MOONLIGHT, "moe_act", 1.99),
    ("deepseek-v2-lite", MOONLIGHT, "mla_up_proj", 5.19), ("deepseek-v2-lite", MOONLIGHT, "mla_up_proj+mlp", 8.65),
])  # fmt: skip
def test_what_it_costs(model, layout, recompute, more):
    with_it, without = (
        row_of({"hardware": "h100-sxm", "model": model, "set": {**layout, "recompute": name}})["step_s"]
        for name in (recompute, "none")
    )
    assert 100 * (with_it / without - 1) == pytest.approx(more, abs=2.5)


@pytest.mark.parametrize(("recompute", "allocated"), [
    ("none", 36.618), ("core_attn", 36.614), ("moe_act", 35.941), ("mla_up_proj", 35.902), ("mla_up_proj+mlp", 35.917),
])  # fmt: skip
def test_what_moonlight_allocates(recompute, allocated):
    """GB at the peak, by the same source: gradients and moments are in 16 bits (the recipe's optimizer)."""
    given = {**MOONLIGHT, "recompute": recompute, "optimizer_precision": "bf16", "framework_gib": 0}
    found = memory_of({"hardware": "h100-sxm", "model": "deepseek-v2-lite", "set": given})
    assert found["allocated"] / 1e9 == pytest.approx(allocated, rel=0.02)


@pytest.mark.a_third
@pytest.mark.parametrize(("module", "parts", "graph"), [
    ("core_attn", 1, "none"), ("core_attn", 0.15, "attention"), ("mlp", 1, "attention"), ("layernorm", 2, "none"),
    ("mlp", 0, "full"),
])  # fmt: skip
def test_the_host_sees_to_each_part_that_is_made_again(module, parts, graph, tmp_path):
    """Only launches take time: four for each part beside its own kernels, of six layers; what a graph has is in it."""
    launch = 2e-3
    hardware = machine(tmp_path, timing={"launch_latency": f"{launch} s"})
    given = {"hardware": hardware, "set": {**GPT, "vocab": 0, "cuda_graph": graph}}
    host = {name: row_of({**given, "set": {**given["set"], "recompute": name}})["host_s"] for name in ("none", module)}
    found = explained({**given, "set": {**given["set"], "recompute": module}})["operations"]
    compute = [each for each in found if each["group"] is None]
    own, all_of_them = (sum(each["calls"] for each in compute if each["phase"] == phase)
                        for phase in ("recompute", "forward"))  # fmt: skip
    kernels = host["none"] / (1 + 1.6) * own / all_of_them
    assert host[module] - host["none"] == pytest.approx(kernels + 6 * 4 * parts * launch)


def test_a_host_that_runs_ahead_is_not_waited_for_while_parts_are_made_again():
    """A norm alone is shorter than its launch, but the host is ahead by all that the backward pass takes."""
    given = {"hardware": "h100-sxm", "model": "llama-3-70b", "set": LLAMA}
    more = {"hardware": "h100-sxm", "model": "llama-3-70b", "set": {**LLAMA, "recompute": "core_attn+layernorm"}}
    assert (row_of(given)["host_s"], row_of(more)["host_s"]) == (0, 0)

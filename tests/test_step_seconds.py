"""Seconds of the parts of a step by hand: what the optimizer moves, what hides states, passes of kernels, derates."""

from __future__ import annotations

import itertools
from dataclasses import replace

import face
import numpy as np
import pytest
from state_dict import state_dict

from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete.model import evaluate
from comp_comm.errors import ConfigError
from comp_comm.hardware.numbers import FlashKernel, Hardware, Timing
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.operations import Attention, Gemm
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import sweep
from comp_comm.timing.kernels import Kernels

GPT = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 51200, "seq_len": 1024}
MOE = {**GPT, "experts": 8, "top_k": 2, "moe_ffn_hidden": 1024, "bias": "off", "norm": "rmsnorm"}
USABLE, VISIBLE = 0.85, 0.1  # of the compute beside it, states hide under so much; so much of them shows all the same


def explained(**point):
    """Explain a point in which the host is never waited for."""
    return face.explained({"hardware": "h100-sxm", "set": {"cuda_graph": "full", **GPT, **point}})


def operation(found, name, phase):
    (op,) = [op for op in found["operations"] if (op["operation"], op["phase"]) == (name, phase)]
    return op


# -- optimizer --------------------------------------------------------------------------------------------------------

# Bytes of a parameter: gradient in, master weight and two moments in and out, weight out.
ADAM = [
    ({}, 2 + 2 * 12 + 2),
    ({"grad_precision": "fp32"}, 4 + 2 * 12 + 2),
    ({"accumulate_precision": "fp32"}, 4 + 2 * 12 + 2),
    ({"optimizer_precision": "bf16"}, 2 + 2 * 8 + 2),
]


@pytest.mark.a_third
@pytest.mark.parametrize(("formats", "each"), ADAM, ids=str)
@pytest.mark.parametrize(("layout", "shards"), [
    ({"dp": 16, "zero": 0}, 1), ({"dp": 16}, 16), ({"dp": 4, "cp": 4}, 16), ({"dp": 16, "dp_shard": 4}, 4),
    ({"dp": 16, "zero": 3}, 16),
], ids=str)  # fmt: skip
def test_adam_moves_states_in_and_out_once(formats, each, layout, shards):
    found, mine = explained(**formats, **layout), sum(w.size for w in state_dict(GPT)) / shards
    assert operation(found, "Adam", "optimizer")["hbm_bytes"] == pytest.approx(mine * each, rel=1e-9)
    held = 4 if "fp32" in formats.values() else 2
    assert operation(found, "gradient norm", "optimizer")["hbm_bytes"] == pytest.approx(mine * held, rel=1e-9)


@pytest.mark.parametrize("vpp", [1, 2])
def test_gradients_are_added_up_while_other_stages_wait(vpp):
    """6 bytes of each parameter (a weight's and two gradients of 2) for each micro-batch but the first; the first stage
    begins to do so p - 1 passes of a chunk before the last one ends."""
    found = explained(pp=4, vpp=vpp, dp=2, accumulation=8, zero=1, zero_implementation="deepspeed", vocab=0)
    added = operation(found, "gradients added up", "optimizer")["hbm_bytes"]
    assert added == pytest.approx(6 * found["parameters"] / 4 * 7 * (1 + 3 / (8 * vpp)), rel=1e-3)


@pytest.mark.parametrize(("sums", "each", "added"), [("fp16", 6, 7), ("fp32", 10, 8)])
def test_gradients_are_added_up_by_a_kernel_where_gemms_do_not(sums, each, added):
    """A gradient of 2 bytes and the sum are read, and the sum is written; the first one in 16 bit is the sum."""
    point = {"dp": 2, "accumulation": 8, "zero": 0, "vocab": 0, "precision": "fp16", "grad_precision": sums}
    fused, found = (explained(**point, gradient_accumulation_fusion=word) for word in ("on", "off"))
    moved = operation(found, "gradients added up", "optimizer")["hbm_bytes"]
    assert moved == pytest.approx(each * found["parameters"] * added, rel=1e-9)
    assert not any(op["operation"] == "gradients added up" for op in fused["operations"])
    assert fused["step_s"] == explained(**point)["step_s"] < found["step_s"]


@pytest.mark.parametrize(("point", "what"), [
    ({"zero": 2, "gradient_accumulation_fusion": "off"}, "off goes with zero 0 or 1"),
    ({"zero": 3, "gradient_accumulation_fusion": "off"}, "off goes with zero 0 or 1"),
    ({"zero": 1, "zero_implementation": "deepspeed", "gradient_accumulation_fusion": "on"}, "DeepSpeed's optimizer"),
])  # fmt: skip
def test_what_adds_up_gradients_fits_zero(point, what):
    with pytest.raises(ConfigError, match=what):
        explained(dp=2, **point)


def test_tied_weights_are_stepped_and_reduced_where_they_are():
    """A last stage has the output layer, or its copy of the embedding: as many parameters."""
    point = {"pp": 2, "dp": 4, "accumulation": 4}
    untied, tied = explained(**point), explained(**point, tied="on")
    assert any(op["operation"] == "logits" for op in tied["operations"])  # the slowest stage is the last
    assert tied["comm"]["dp"] == pytest.approx(untied["comm"]["dp"])
    assert tied["optimizer_s"] == pytest.approx(untied["optimizer_s"])


# -- what hides states ------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("zero", range(4))
def test_on_a_slow_network_states_hide_under_what_runs_beside_them(zero, recompute):
    """Gradients under the last backward pass (ZeRO 2: under each), weights under the first forward pass."""
    steps = 5
    found = explained(dp=64, zero=zero, accumulation=steps, recompute=recompute, network=1e-3)
    forward, backward = found["forward_s"], found["backward_s"] + found["recompute_s"]
    beside = (backward / steps, (backward + forward) / steps, backward + forward / steps, backward + forward)[zero]
    dp = found["comm"]["dp"]
    assert dp["hidden_s"] == pytest.approx((1 - VISIBLE) * USABLE * beside)
    assert dp["serialized_s"] == 0


@pytest.mark.parametrize("zero", range(4))
def test_on_a_fast_network_a_tenth_of_states_shows(zero):
    dp = explained(dp=64, zero=zero, accumulation=2, micro_batch=8, network=100)["comm"]["dp"]
    assert dp["exposed_s"] / (dp["exposed_s"] + dp["hidden_s"]) == pytest.approx(VISIBLE)


@pytest.mark.a_third
@pytest.mark.parametrize("point", [
    {"tp": 8, "pp": 2, "accumulation": 8, "overlap_tp": "on", "overlap_pp": "on", "zero": 3},
    {"cp": 4, "tp": 2, "overlap_tp": "on", "zero": 2, "seq_len": 8192},
    {**MOE, "ep": 8, "tp": 2, "etp": 1, "cp": 2, "overlap_ep": "on", "overlap_tp": "on"},
])  # fmt: skip
def test_no_second_of_compute_hides_two_of_communication(point):
    """However slow the network is: what one group hides under is not there for the next."""
    for network in (1, 0.1, 1e-3):
        found = explained(**point, dp=16, network=network)
        busy = found["compute_s"] + found["recompute_s"]
        assert found["hidden_comm_s"] <= busy * (1 + 1e-12)
    assert found["hidden_comm_s"] > 0.7 * busy


def test_sends_take_compute_that_states_then_do_not_have():
    point = {"pp": 2, "dp": 64, "accumulation": 4, "zero": 3, "network": 1e-2}
    alone, both = explained(**point), explained(**point, overlap_pp="on")
    busy, sends = both["compute_s"], both["comm"]["pp"]["hidden_s"]
    assert 0 < sends <= busy
    left = alone["comm"]["dp"]["hidden_s"] * (1 - sends / busy)
    assert both["comm"]["dp"]["hidden_s"] == pytest.approx(left)


# -- bytes of memory --------------------------------------------------------------------------------------------------

# What runs between products, as numbers of 16 bit read and written for a token, forward; backward half as much more.
# Whether TP splits them comes first.
H, A, KV, D, F = 2048, 16, 4, 128, 6144
STREAMS = {
    "rotary embedding": (True, 2 * (A + KV) * D),  # split over TP
    "FFN activation": (True, 3 * F),
    "norms, residuals, dropout": (True, (2 * 2 + 6) * H),  # over the sequence, under sequence parallelism
    "embedding": (False, 2 * H),
}


@pytest.mark.a_third
@pytest.mark.parametrize(("kernels", "cost"), [("fused", 1), ("eager", 1.5), ("compiled", 0.9)])
@pytest.mark.parametrize("name", STREAMS)
def test_what_runs_between_products_reads_and_writes_its_numbers(name, kernels, cost):
    split, numbers = STREAMS[name]
    if (name, kernels) == ("rotary embedding", "eager"):
        numbers, cost = numbers / 2 * sum(map(sum, EAGER["rotation"])) / 2, 1  # a number is two bytes
    for tp in (1, 4):
        found = explained(kv_heads=KV, ffn_hidden=F, gated="on", kernels=kernels, tp=tp, micro_batch=2)
        moved = 2 * (2 * GPT["seq_len"]) * numbers / (tp if split else 1)
        moved *= 1 if name == "embedding" else cost
        forward, backward = (operation(found, name, phase) for phase in ("forward", "backward"))
        assert forward["hbm_bytes"] == pytest.approx(moved)
        assert backward["hbm_bytes"] == pytest.approx((1.5 if numbers in STREAMS[name] else 1) * moved)


# Bytes of an element that PyTorch's operations read and write: of torchtitan's `apply_rotary_emb` (float, product, back
# to bf16), and of its `RMSNorm` (float, square, mean, product with the root, back to bf16, product with the weights).
EAGER = {"rotation": [(2, 4), (4, 4), (4, 2)], "norm": [(2, 4), (4, 4), (4, 0), (4, 4), (4, 2), (2, 2)]}


def test_an_eager_rms_norm_is_one_operation_after_another():
    def moved(**more):
        found = [operation(explained(kernels="eager", **more), "norms, residuals, dropout", phase)["hbm_bytes"]
                 for phase in ("forward", "backward")]  # fmt: skip
        return [each / (1024 * H) for each in found]

    sums = 2 * 3 * 2 * 1.5
    assert moved(norm="rmsnorm")[0] == pytest.approx(2 * sum(map(sum, EAGER["norm"])) + sums)
    assert moved(norm="layernorm")[0] == pytest.approx(2 * 4 * 1.5 + sums)
    forward, backward = moved(norm="rmsnorm")
    # Gradients are of every operation but the mean's result, two of the products'.
    assert 2 < backward / forward < 2.5


def test_norms_after_blocks_and_blocks_side_by_side_are_counted():
    def moved(**more):
        return operation(explained(**more), "norms, residuals, dropout", "forward")["hbm_bytes"] / (2 * 1024 * H)

    assert (moved(), moved(norms=4)) == (10, 14)
    assert (moved(parallel_blocks="on"), moved(norms=1, parallel_blocks="on")) == (8, 6)
    assert moved(tp=4, sp="off") == 10


def test_tokens_are_sorted_by_expert_and_back():
    found = explained(**MOE, dp=4, tp=2, etp=1)
    sent = 16 * (1024 / 2) * 2 * H
    for phase in ("forward", "backward"):
        assert operation(found, "permute tokens", phase)["hbm_bytes"] == sent


# -- kernels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernels", "each"), [("fused", 16), ("eager", 34), ("compiled", 20)])
def test_a_logit_costs_so_many_bytes_beside_its_product(kernels, each):
    found = explained(kernels=kernels)
    moved = sum(operation(found, "softmax and loss", phase)["hbm_bytes"] for phase in ("forward", "backward"))
    assert moved == each * GPT["seq_len"] * GPT["vocab"]


@pytest.mark.parametrize("kernel", ["flash_causal", "flash"])
def test_flash_attention_backward_takes_3_1_times_forward(kernel):
    """2.5 times the FLOP, as the scores are made again, at 0.8 of the rate."""
    timing = Timing(flash_efficiency=0.5, flash_latency=0, flash_memory_efficiency=1)
    kernels = Kernels(Hardware(1, 1, np.inf, (), timing, attention_peak_flops=1e12))
    op = Attention("", "", count=1, sequences=1, heads=1, queries=1000, keys=1000, seen=500, key_dim=128, value_dim=128)
    passes = kernels.attention(op, int(AttentionKernel.of(kernel)))
    assert float(passes.backward / passes.forward) == pytest.approx(2.5 / 0.8)


@pytest.mark.parametrize(("kernel", "before"), [("cudnn", 0.0), ("trtllm", 5e-4)])
def test_a_kernel_that_rotates_takes_its_stream_of_rows_beside(kernel, before):
    """2 heads, 1 of keys, 1000 tokens, d 100: 4 bytes of 400 numbers a token at 4 GB/s, beside 2000 rows of 0.2 us."""
    numbers = FlashKernel(efficiency=1.0, latency=0.0, memory_efficiency=1.0, row_latency=2e-7)
    hardware = Hardware(1, 1, 5e9, (), Timing(stream_efficiency=0.8), 1e30, attention=(numbers,) * len(AttentionKernel))
    op = Attention(
        "",
        "",
        count=1,
        sequences=1,
        heads=2,
        queries=1000,
        keys=1000,
        seen=500,
        key_dim=100,
        value_dim=100,
        key_heads=1,
    )
    code = int(AttentionKernel.of(kernel))
    plain, ready = (Kernels(hardware, isolated=True, serving=True).attention(each, code).forward
                    for each in (op, replace(op, prepared=1)))  # fmt: skip
    assert float(ready - plain) == pytest.approx(np.hypot(4 * 400 * 1000 / 4e9, 2000 * 2e-7) if before else 0)


def test_exponentials_bound_narrow_heads():
    """As many scores a second as units of exponentials make, however narrow heads are; products where they are wide."""
    numbers = FlashKernel(efficiency=0.5, latency=0.0, memory_efficiency=1.0, softmax_dim=128.0)
    hardware = Hardware(1, 1, 1e30, (), Timing(), 1e15, attention=(numbers,) * len(AttentionKernel))

    def seconds(dim):
        op = Attention(
            "", "", count=1, sequences=1, heads=1, queries=1000, keys=1000, seen=500, key_dim=dim, value_dim=dim
        )
        return float(Kernels(hardware, isolated=True, serving=True).attention(op, int(AttentionKernel.CUDNN)).forward)

    assert seconds(128) == pytest.approx(4 * 128 * 5e5 / 0.5e15)
    assert seconds(1) == pytest.approx(seconds(128) / 2**0.5, rel=1e-3)
    assert seconds(12800) == pytest.approx(seconds(128) * 100 / 2**0.5, rel=1e-3)


@pytest.mark.parametrize(("batch", "tokens", "seconds"), [(1, 16384, 0.0810), (4, 4096, 0.0207)])
def test_triton_1_is_as_fast_as_triton_was_beside_flashattention_1(batch, tokens, seconds):
    """Figure of the FlashAttention-2 repository: A100, 16 heads of 128, all scores, forward and backward."""
    passes = Kernels(load_profile("a100-sxm-80gb").hardware("bf16")).attention(
        Attention(
            "",
            "",
            count=1,
            sequences=batch,
            heads=16,
            queries=tokens,
            keys=tokens,
            seen=tokens,
            key_dim=128,
            value_dim=128,
        ),
        int(AttentionKernel.of("triton_1")),
    )
    assert float(passes.forward + passes.backward) == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize(("dim", "slower", "columns"), [(128, 1, 128), (96, 1, 128), (80, 1, 128), (100, 13.5, 128)])
def test_unfused_attention_is_products_of_heads(dim, slower, columns):
    """Forward scores (inner dimension d) and a sum with d columns, in tiles of 64; backward one and three of these."""
    timing = Timing(gemm_efficiency=0.5, sustained=0.8, memory_efficiency=1, gemm_ramp_k=100, gemm_ramp_tiles=0,
                    stream_efficiency=1)  # fmt: skip
    kernels = Kernels(Hardware(1, 1, np.inf, (), timing, attention_peak_flops=1e12))
    passes = kernels.attention(
        Attention("", "", count=1, sequences=1, heads=1, queries=1000, keys=1000, seen=500, key_dim=dim, value_dim=dim),
        2,
    )
    rate = 0.4e12 / slower
    scores, summed = 2e6 * (dim + 100) / rate, 2e6 * columns * 1.1 / rate
    assert float(passes.forward) == pytest.approx(scores + summed)
    assert float(passes.backward) == pytest.approx(scores + 3 * summed)


def test_unfused_attention_sends_scores_through_memory():
    """Of a score: forward the GEMM writes it, softmax reads and writes, dropout too, and a mask, and a GEMM reads."""
    timing = Timing(gemm_efficiency=1, stream_efficiency=1, memory_efficiency=1)
    kernels = Kernels(Hardware(1, 1, 1e12, (), timing, attention_peak_flops=1e30))
    passes = kernels.attention(
        Attention(
            "", "", count=1, sequences=1, heads=1, queries=10**5, keys=10**5, seen=5 * 10**4, key_dim=8, value_dim=8
        ),
        2,
    )
    bytes_of_a_score = [float(seconds) * 1e12 / 1e10 for seconds in passes[:2]]
    assert bytes_of_a_score == pytest.approx([2 + 4 + 5 + 2, 2 + 5 + 6 + 3 * 2], rel=1e-3)


def test_a_mask_skipped_halves_the_work_of_long_sequences():
    causal, whole = (explained(seq_len=65536, attention_kernel=kernel) for kernel in ("flash_causal", "flash"))
    ratio = operation(whole, "attention", "forward")["seconds"] / operation(causal, "attention", "forward")["seconds"]
    assert ratio == pytest.approx(2, rel=0.03)


def test_each_product_of_a_gemm_ramps_with_its_own_inner_dimension():
    """Forward m x k by k x n; the input's gradient is over n, the weight's over m: (1 + 100 / inner) of 2 m k n."""
    timing = Timing(gemm_efficiency=0.5, sustained=0.5, memory_efficiency=1, gemm_ramp_k=100, gemm_ramp_tiles=0)
    kernels = Kernels(Hardware(1e12, 1, np.inf, (), timing))
    m, k, n = 192, 400, 1000
    passes = kernels.gemm(Gemm("", "", count=1, m=m, k=k, n=n))
    each = 2 * m * k * n / 0.25e12
    assert float(passes.forward) == pytest.approx(each * (1 + 100 / k))
    assert float(passes.for_weights) == pytest.approx(each * (1 + 100 / m))
    assert float(passes.backward) == pytest.approx(each * (2 + 100 / n + 100 / m))


def test_rows_are_padded_to_tiles_where_they_are_those_of_the_result():
    """200 tokens take what 256 do forward and for the gradient of the input; that of the weights only sums them."""
    timing = Timing(gemm_efficiency=1, sustained=1, memory_efficiency=1, gemm_ramp_k=0, gemm_ramp_tiles=0)
    kernels = Kernels(Hardware(1e12, 1, np.inf, (), timing))
    few, more = (kernels.gemm(Gemm("", "", count=1, m=m, k=400, n=1000)) for m in (200, 256))
    assert float(few.forward) == float(more.forward) == pytest.approx(2 * 256 * 400 * 1000 / 1e12)
    assert float(few.for_weights) == pytest.approx(2 * 200 * 400 * 1000 / 1e12)
    assert float(kernels.gemm(Gemm("", "", count=1, m=3, k=400, n=1000)).forward) == pytest.approx(
        2 * 3 * 400 * 1000 / 1e12
    )


def test_a_burst_of_long_products_warms_its_device():
    """Alone a product of 3 ms takes half of what a warm machine adds; in training `sustained` says it."""
    timing = Timing(
        gemm_efficiency=1, sustained=1, memory_efficiency=1, gemm_ramp_k=0, gemm_ramp_tiles=0, power_ratio=1.2
    )
    short, even, long = (Hardware(peak, 1, np.inf, (), timing) for peak in (1e21, 1e15, 1e9))
    op = Gemm("", "", count=1, m=1e3, k=1e3, n=1.5e6)
    for hardware, ratio in ((short, 1.0), (even, 1.1), (long, 1.2)):
        shape = (op.m, op.n, op.k)
        cold, alone = (float(Kernels(hardware, isolated=each).product(op.flops, shape, 0.0)) for each in (False, True))
        assert alone / cold == pytest.approx(ratio, rel=1e-5)


def test_each_product_of_a_gemm_reads_again_what_the_cache_does_not_keep():
    """Waves of 2048 by 2048, or 4096 by 1024 where there are as many columns; a cache of 1 MB.

    Each operand is read once for every wave beside it.
    """
    timing = Timing(gemm_efficiency=1, sustained=1, memory_efficiency=1, gemm_ramp_k=0, gemm_ramp_tiles=0)
    m, k, n = 16384, 1024, 8192
    op, cache = Gemm("", "", count=1, m=m, k=k, n=n, groups=3), 1e6
    plain, again = (Kernels(Hardware(1e30, 1, 1, (), each)) for each in (timing, replace(timing, gemm_cache=cache)))
    before, after = plain.gemm(op), again.gemm(op)
    forward = (2 * m * k - cache) * (n / 2048 - 1) + (2 * k * n - cache) * (m / 2048 - 1)
    for_input = (2 * k * n - cache) * (m / 4096 - 1)
    for_weights = (2 * m * k - cache) * (n / 4096 - 1)
    assert float(after.forward - before.forward) == pytest.approx(3 * forward)
    assert float(after.for_weights - before.for_weights) == pytest.approx(3 * for_weights)
    assert float(after.backward - before.backward) == pytest.approx(3 * (for_input + for_weights))
    two = Kernels(Hardware(1e30, 1, 1, (), replace(timing, gemm_cache=np.array([0.0, cache])))).gemm(op)
    assert list(two.forward) == pytest.approx([float(before.forward), float(after.forward)])


def test_what_a_gemm_keeps_of_its_speed_is_the_users_or_the_profiles():
    profile = make_plan(study_from({"hardware": "h100-sxm", "set": GPT})).evaluate(()).hardware.timing.sustained
    usual, same, half = explained(), explained(sustained=float(profile)), explained(sustained=float(profile) / 2)
    assert same["step_s"] == pytest.approx(usual["step_s"], rel=1e-12)
    slower = operation(half, "FFN up", "forward")["seconds"] / operation(usual, "FFN up", "forward")["seconds"]
    assert 1.8 < slower <= 2
    for name in ("attention", "softmax and loss"):
        assert operation(half, name, "forward")["seconds"] == operation(usual, name, "forward")["seconds"]


def test_a_whole_step_finds_less_network_beyond_its_domain():
    """`network_sustained` is a factor on the bandwidth of every tier but the innermost."""
    step = make_plan(study_from({"hardware": "h100-sxm", "set": {**GPT, "tp": 8, "gpus": 64}})).evaluate(())
    device = step.work.scenario.hardware
    timing = replace(device.timing, network_sustained=device.timing.network_sustained / 2)
    inner, *outer = device.tiers
    fewer = evaluate(replace(step.work.scenario, hardware=replace(device, timing=timing)))
    slower = replace(device, tiers=(inner, *(replace(tier, bandwidth=tier.bandwidth / 2) for tier in outer)))
    assert float(fewer.step_s) == float(evaluate(replace(step.work.scenario, hardware=slower)).step_s)
    assert float(fewer.comm["tp"].serialized) == float(step.comm["tp"].serialized)
    assert float(fewer.comm["dp"].exposed) > float(step.comm["dp"].exposed)
    assert float(device.timing.network_sustained) < 1


def test_an_uneven_load_takes_time_and_is_no_work_of_the_model():
    even, uneven = (explained(**{**MOE, "dp": 8, "ep": 4, "capacity_factor": c}) for c in (1, 2))
    assert uneven["model_flops"] == even["model_flops"]
    assert uneven["step_s"] > even["step_s"]
    up = [operation(found, "experts up", "forward")["flops"] for found in (even, uneven)]
    assert up[1] == 2 * up[0]


def test_states_wait_for_the_stage_that_has_most_wherever_the_pace_is():
    """BLOOM's embedding is half of its parameters: recomputation moves the pace off its stages, and is never faster."""
    words = ["none", "selective", "full"]
    study = {"hardware": "v100-sxm-32gb", "model": "bloom-1b7",
             "set": {"pp": 16, "tp": 2, "cp": 2, "dp": 2, "overlap_dp": "off", "precision": "fp16", "accumulation": 1,
                     "memory_capacity": 9},
             "sweep": {"micro_batch": [1, 2, 4], "zero": [0, 1],
                       "placement": ["tp-cp-dp-pp", "pp-dp-cp-tp"]}}  # fmt: skip
    seconds = {}
    for word in words:
        rows = sweep({**study, "set": {**study["set"], "recompute": word}}).to_records()
        seconds[word] = [row["step_s"] for row in rows]
    for less, more in itertools.pairwise(words):
        assert all(quick <= slow * (1 + 1e-9) for quick, slow in zip(seconds[less], seconds[more], strict=True))

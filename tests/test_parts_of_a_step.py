"""Parts of a step counted by hand: what hides communication, who routes which tokens, what latents take."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from face import machine, row_of
from test_every_field import COMPLETE, DENSE
from test_step_seconds import GPT, explained, operation

from comp_comm.configs.study import study_from
from comp_comm.errors import CompcommError
from comp_comm.formulas.block_scaled import block_scaled_flops
from comp_comm.hardware.numbers import FlashKernel, Hardware, Timing
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.operations import Attention
from comp_comm.sweeps.plan import make_plan
from comp_comm.timing.kernels import Kernels

MOE = {**GPT, "experts": 8, "top_k": 2, "moe_ffn_hidden": 4096, "bias": "off", "norm": "rmsnorm", "vocab": 0}
LATENT = {"layers": 1, "hidden": 1024, "heads": 16, "head_dim": 64, "vocab": 0, "seq_len": 1024, "norm": "rmsnorm",
          "bias": "off", "dropout": "off", "q_lora_rank": 256, "kv_lora_rank": 128, "rope_head_dim": 32,
          "v_head_dim": 64}  # fmt: skip
EXCHANGE_HIDDEN = 0.65  # of an exchange with experts, so much can run beside compute (costmodels/layer_times.py)


def seconds_of(found, phase, chosen):
    return sum(op["seconds"] for op in found["operations"]
               if op["part"] == "layer" and op["group"] is None and op["phase"] == phase and chosen(op))  # fmt: skip


# -- what hides communication -----------------------------------------------------------------------------------------


def test_tensor_parallelism_hides_under_products_alone():
    """On a slow network all GEMMs of a layer have a part of an all-reduce beside them, and nothing else has."""
    found = explained(tp=8, overlap_tp="on", sp="off", dp=2, network=1e-2, accumulation=2)
    products = sum(seconds_of(found, phase, lambda op: op["kind"] == "gemm") for phase in ("forward", "backward"))
    assert found["comm"]["tp"]["hidden_s"] == pytest.approx(products, rel=1e-9)


@pytest.mark.parametrize("network", [1, 0.3, 0.1, 0.03, 0.01])
def test_tokens_go_to_experts_beside_experts_and_come_back_beside_the_rest(network):
    """Of two micro-batches side by side (Megatron-LM's 1F1B with overlapped all-to-all, DualPipe): each way beside the
    experts of the other pass, or beside what else that has. Kernels take 33 of its 132 multiprocessors meanwhile."""
    found = explained(**MOE, dp=8, ep=8, overlap_ep="on", ep_sms=33, accumulation=4, network=network, zero=0)
    of_experts = ("router", "permute tokens", "experts up", "experts activation", "experts down")
    hidden = 0.0
    for phase, other in (("forward", "backward"), ("backward", "forward")):
        experts, rest = (seconds_of(found, other, lambda op, within=within: (op["operation"] in of_experts) is within)
                         for within in (True, False))  # fmt: skip
        sent = [operation(found, f"expert {way}", phase)["seconds"] for way in ("dispatch", "combine")]
        beside = (experts, rest) if phase == "forward" else (rest, experts)
        hidden += sum(min(EXCHANGE_HIDDEN * way, compute) for way, compute in zip(sent, beside, strict=True))
    assert found["comm"]["ep"]["hidden_s"] == pytest.approx(0.75 * hidden, rel=1e-9)


def test_gradients_between_two_copies_are_slowed_by_what_they_run_beside():
    point = {"pp": 4, "dp": 1, "schedule": "dualpipe", "accumulation": 8, "overlap_dp": "on"}
    whole = []
    for interference in (1, 1.5):
        dp = explained(**point, interference=interference)["comm"]["dp"]
        whole.append(sum(dp[f"{how}_s"] for how in ("serialized", "hidden", "exposed")))
    assert whole[1] == pytest.approx(1.5 * whole[0], rel=1e-9)


def test_logits_are_of_the_padded_vocabulary(tmp_path):
    """50,257 tokens on 8 devices are 51,200 (Megatron-LM pads to 128 a device): 6,400 columns each, on 1 TFLOP/s."""
    point = {"layers": 1, "hidden": 1024, "heads": 16, "seq_len": 512, "vocab": 50257, "tp": 8, "gpus": 8,
             "micro_batch": 2, "global_batch": 2}  # fmt: skip
    hardware = machine(tmp_path, flops=1e12)
    with_words, without = (row_of({"hardware": hardware, "set": {**point, **more}}, ["forward_s"])["forward_s"]
                           for more in ({}, {"vocab": 0}))  # fmt: skip
    assert with_words - without == pytest.approx(2 * 2 * 512 * 1024 * 6400 / 1e12, rel=1e-6)


# -- experts and latents under tensor parallelism ---------------------------------------------------------------------


def test_whose_tokens_a_router_sees():
    """torchtitan without expert parallelism gathers the layer's input: each router sees all; Megatron-LM's its part."""
    for more, tokens in (({"sequence_inputs": "kept", "etp": 2}, 1024), ({"sequence_inputs": "again"}, 512),
                         ({"sequence_inputs": "kept", "ep": 2, "etp": 1}, 512)):  # fmt: skip
        found = explained(**MOE, tp=2, dp=2, accumulation=1, **more)
        assert operation(found, "router", "forward")["flops"] == 2 * tokens * 2048 * 8


@pytest.mark.parametrize("tp", [2, 4])
def test_latents_that_are_made_of_a_gathered_input_are_kept_whole(tp):
    """Beside both blocks' inputs of H numbers: both latents before and after their norms, and the rotary part."""
    kept, split = (explained(**LATENT, tp=tp, dp=2, accumulation=1, sequence_inputs=word)["memory"]["activations_bytes"]
                   for word in ("kept", "again"))  # fmt: skip
    more = 2 * 2 * 1024 + 2 * 2 * (256 + 128) + 2 * 32
    assert kept - split == pytest.approx(1024 * (1 - 1 / tp) * more, rel=1e-9)


def test_latents_are_gathered_in_place_of_the_input():
    """Megatron-LM projects each device's own tokens down: one gather of a layer's input is left, that of its FFN."""
    found = explained(**LATENT, tp=2, dp=2, accumulation=3)
    assert operation(found, "layer all-gather", "forward")["calls"] == 3
    assert operation(found, "latent all-gather", "forward")["calls"] == 3
    whole = explained(**LATENT, tp=2, dp=2, accumulation=3, sequence_inputs="kept")
    assert operation(whole, "layer all-gather", "forward")["calls"] == 6
    assert not any(op["operation"] == "latent all-gather" for op in whole["operations"])


def test_each_device_projects_its_own_tokens_down_or_all_of_them():
    for word, tokens in (("again", 512), ("kept", 1024)):
        found = explained(**LATENT, tp=2, dp=2, accumulation=1, sequence_inputs=word)
        for name, width in (("Q down-projection", 256), ("KV down-projection", 128 + 32)):
            assert operation(found, name, "forward")["flops"] == 2 * tokens * 1024 * width


def test_norms_of_latents_keep_as_much_as_others_where_they_are_written_out():
    """Of each number a copy in 32 bit (`norm_kernel: eager`): of both blocks' inputs, and of both latents."""
    eager, fused = (explained(**LATENT, accumulation=1, norm_kernel=word)["memory"]["activations_bytes"]
                    for word in ("eager", "fused"))  # fmt: skip
    assert eager - fused == pytest.approx(1024 * 4 * (2 * 1024 + 256 + 128), rel=1e-9)


def test_norms_that_are_made_again_free_what_they_keep_beside():
    """Of all layers but the one that is made again just then: copies in 32 bit of both blocks' inputs."""

    def freed(kernel):
        whole, again = (explained(**{**LATENT, "layers": 5}, accumulation=1, norm_kernel=kernel, recompute=what)
                        for what in ("none", "layernorm"))  # fmt: skip
        return whole["memory"]["activations_bytes"] - again["memory"]["activations_bytes"]

    assert freed("eager") - freed("fused") == pytest.approx(4 * 1024 * 4 * 2 * 1024, rel=1e-9)


# -- kernels ----------------------------------------------------------------------------------------------------------

FAST = FlashKernel(efficiency=0.5, backward_efficiency=0.5, latency=0.0, memory_efficiency=1.0)


def attention(kernel=FAST, dim=128, memory=1e30, flops=1e12, fp8=0, alone=False, **op):
    hardware = Hardware(peak_flops=flops, memory_bandwidth=memory, memory_capacity=1e12, tiers=(), timing=Timing(),
                        attention_peak_flops=flops, attention=(kernel,) * 8, fp8_attention=(kernel,) * 8)  # fmt: skip
    shape = replace(Attention("attention", "", 1, 1, 1, 4096, 4096, 2048, dim, dim), **op)
    return Kernels(hardware, fp8_attention=fp8, isolated=alone).attention(shape, int(AttentionKernel.FLASH_CAUSAL))


def test_attention_in_eight_bits_moves_half():
    sixteen, eight = (float(attention(memory=1e9, flops=1e30, fp8=fp8).forward) for fp8 in (0, 1))
    assert sixteen == pytest.approx(4 * 4096 * 128 * 2 / 1e9, abs=0)  # queries, keys, values, and what comes out
    assert eight == pytest.approx(sixteen / 2, abs=0)


@pytest.mark.parametrize(("dim", "ratio"), [(64, 1.0), (128, 1.2), (256, 1.2)])
def test_heads_from_the_stated_dimension_on_heat_a_machine_that_runs_for_hours(dim, ratio):
    alone, training = (float(attention(replace(FAST, power_ratio=1.2), dim, alone=word).forward)
                       for word in (True, False))  # fmt: skip
    assert training / alone == pytest.approx(ratio)


def test_a_backward_pass_without_windows_does_all_that_a_mask_leaves():
    window = {"seen": 512, "unwindowed": 2048}
    for skips, seen in ((1.0, 512), (0.0, 2048)):
        kernel = replace(FAST, backward_windows=skips)
        assert float(attention(kernel, **window).backward) == pytest.approx(float(attention(seen=seen).backward))
        assert float(attention(kernel, **window).forward) == pytest.approx(float(attention(seen=512).forward))


@pytest.mark.parametrize("dim", [192, 256, 512])
def test_wide_heads_run_backward_as_the_widest_measured(dim):
    """Of keys of 192 and values of 128, 160 in the mean: a FLOP takes as long, whatever is beyond."""
    kernel = replace(FAST, backward_wide_exponent=0.5)
    at, beyond = (float(attention(kernel, wide).backward) / wide for wide in (160, dim))
    assert beyond == pytest.approx(at)
    assert at < float(attention(kernel, 128).backward) / 128


def test_experts_rows_that_are_padded_already_are_no_whole_tiles():
    """2.5 tiles of rows: 52 columns of tiles fit one wave of 132 (130), 80 wide, with two scales each."""
    assert float(block_scaled_flops(320, 4096, 512, 132, 0)) == pytest.approx(1.15 * 2 * 128 * 80 * 512 * 132)


# -- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("number", range(len(COMPLETE)))
def test_parts_of_memory_and_of_the_step_add_up(number):
    """Under every stage of ZeRO, with recomputation and without: each sum is made apart from its parts, for speed."""
    fields, answered = {name: v for name, v in {**DENSE, **COMPLETE[number]}.items() if v is not None}, 0
    for zero, recompute in itertools.product(range(4), ("none", "full")):
        study = study_from({"hardware": "h100-sxm", "set": {**fields, "zero": zero, "recompute": recompute}})
        try:
            step = make_plan(study).evaluate(())
        except CompcommError:
            continue
        answered += 1
        assert sum(step.footprint.parts) == pytest.approx(step.memory_bytes, rel=1e-12)
        shown = sum(float(getattr(step, name)) for name in ("compute_s", "recompute_s", "optimizer_s", "host_s"))
        shown += float(step.bubble_s) + sum(float(spent.visible) for spent in step.comm.values())
        assert shown == pytest.approx(step.step_s, rel=1e-9)
    assert answered > 1

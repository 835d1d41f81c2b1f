"""Kernels of the public tables, beside the checkout: fitted on a tenth of the rows, and judged on the others."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_tables import (
    BACKWARD,
    BLACKWELL,
    DEVICES,
    FOLDER,
    FORWARD,
    FP8_DEVICES,
    attention,
    both_formats,
    experts,
    gemms,
    picked,
    rows_of,
    smallest,
    training_kernels,
    trtllm_put,
)

from comp_comm.configs.hardware_file import load_profile
from comp_comm.kernel_choices import AttentionKernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the tables are not part of the project"),
]


def mean_and_p90(errors):
    return np.abs(errors).mean(), np.quantile(np.abs(errors), 0.9)


@pytest.mark.parametrize(("kind", "devices", "each", "together"), [
    ("bf16_random", tuple(DEVICES), 0.08, 0.066), ("fp8", FP8_DEVICES, 0.08, 0.067),
    ("fp8block", FP8_DEVICES, 0.08, 0.066), ("nvfp4", BLACKWELL, 0.095, 0.09),
])  # fmt: skip
def test_gemms(kind, devices, each, together):
    """bf16 with six numbers a device, fp8 with one, nvfp4 with three: TensorRT-LLM's, quantising apart."""
    found = []
    for device in devices:
        table = gemms(kind, device)
        errors = table.held_out(smallest(table) >= 128, smallest(table) >= 256)
        mean, p90 = mean_and_p90(errors)
        assert mean < each, device
        assert p90 < 0.26, device
        found.append(mean)
    assert np.mean(found) < together


@pytest.mark.parametrize(("kind", "number"), [("fp8", "fp8_efficiency"), ("nvfp4", "nvfp4_efficiency"),
                                              ("bf16_random", "gemm_efficiency")])  # fmt: skip
def test_profiles_have_what_the_tables_say(kind, number):
    for device in BLACKWELL:
        table = gemms(kind, device)
        mine = float(getattr(table.hardware.timing, number))
        assert mine == pytest.approx(table.fitted(smallest(table) >= 128)[number], rel=0.03)


@pytest.mark.parametrize(("kind", "most"), [("bf16_random", 0.05), ("fp8", 0.06), ("fp8block", 0.09),
                                             ("nvfp4", 0.12)])  # fmt: skip
def test_large_gemms_of_a_card_with_a_large_cache(kind, most):
    """The RTX PRO 6000 as its profile has it, from 1e11 FLOP on: operands of smaller ones stay in its 128 MB."""
    table = gemms(kind, "rtx_pro_6000_server")
    large = (2 * table.rows["m"] * table.rows["n"] * table.rows["k"] >= 1e11) & (smallest(table) >= 256)
    assert large.sum() > 100
    assert np.abs(table.errors({}, large)).mean() < most


def test_flash_attention_2_of_that_card():
    rows = rows_of("attention_fwd_rtx_pro_6000_server")
    kept = (rows["backend"] == "vllm:flash_attn_fa2") & (rows["dtype"] == "bfloat16") & (rows["window"] != 8192)
    names = ("batch", "seq_len", "heads", "kv_heads", "window", "head_dim", "time_s")
    table = attention(picked({name: rows[name] for name in names}, kept), "rtx_pro_6000_server", FORWARD)
    profile = load_profile("rtx-pro-6000").hardware("bf16").attention[AttentionKernel.FLASH_2]
    mine = replace(table, hardware=replace(table.hardware, attention=(profile,) * len(AttentionKernel)))
    assert np.abs(mine.errors({}, table.rows["seq_len"] >= 1024)).mean() < 0.1


def by_format(errors, eight):
    return [np.abs(errors[eight == which]).mean() for which in (0, 1)]


@pytest.mark.parametrize("device", FP8_DEVICES)
def test_forward_attention_at_every_head_dimension_and_window(device):
    """TensorRT-LLM's kernels by the profile's numbers, from 1024 tokens on; MLA's 192 and 128 among them."""
    table = both_formats(device)
    rows, judged = table.rows, table.rows["seq_len"] >= 1024
    errors = np.abs(table.errors({}, judged))
    assert max(by_format(errors, rows["eight"][judged])) < 0.08
    cells = list(zip(*(rows[key][judged] for key in ("eight", "key_dim", "value_dim")), rows["window"][judged] > 0,
                     strict=True))  # fmt: skip
    for cell in set(cells):
        mine = errors[[each == cell for each in cells]]
        assert mine.mean() < 0.155, (cell, mine.mean())


@pytest.mark.parametrize("device", FP8_DEVICES)
def test_forward_attention_fitted_on_a_tenth(device):
    """Nine numbers for both formats together, fitted on a tenth of the kernels; 12 % is aimed at, mean of draws."""
    table = both_formats(device)
    rows, judged = table.rows, table.rows["seq_len"] >= 1024
    found = []
    for seed in range(5):
        drawn = np.random.default_rng(seed).random(len(judged)) < 0.1
        errors = table.errors(table.fitted(drawn), judged & ~drawn)
        found.append(by_format(errors, rows["eight"][judged & ~drawn]))
    assert np.mean(found, axis=0).max() < 0.12


def test_rows_of_queries_tell_what_is_done_before():
    """Heads of one kernel that share keys rotate their queries all the same: without those rows it is worse."""
    rows = rows_of("attention_fwd_a100_sxm")
    rows = picked(rows, rows["backend"] == "trtllm:torch_flow")
    rows = {**rows, "key_dim": rows["head_dim"], "value_dim": rows["head_dim"]}
    table = attention(rows, "a100_sxm", FORWARD, code=AttentionKernel.TRTLLM, put=trtllm_put)
    everything = np.ones(len(rows["time_s"]), bool)
    assert np.abs(table.errors({}, rows["seq_len"] >= 1024)).mean() < 0.025
    without = replace(table.hardware.attention[AttentionKernel.TRTLLM], row_latency=0.0)
    less = replace(table, hardware=replace(table.hardware, attention=(without,) * len(AttentionKernel)))
    assert np.median(less.errors({}, everything)) < -0.03


@pytest.mark.parametrize("device", ["h200_sxm", "gb200", "gb300"])
@pytest.mark.parametrize("passes", ["fwd", "bwd"])
def test_training_attention_by_the_profile(device, passes):
    """cuDNN's kernels in bf16, forward and backward alone, at every head dimension and window measured."""
    rows = training_kernels(device, passes)
    table = attention(rows, device, {**FORWARD, **BACKWARD}, kernel="cudnn")
    errors = np.abs(table.errors({}, np.ones(len(rows["time_s"]), bool)))
    assert errors.mean() < 0.08
    assert errors.max() < 0.4


def test_training_attention_fitted_on_a_third_predicts_the_rest():
    rows = training_kernels("gb200", "bwd")
    free = {name: BACKWARD[name] for name in ("backward_efficiency", "backward_ramp_keys", "backward_wide_exponent")}
    table = attention(rows, "gb200", free, kernel="cudnn")
    everything = np.ones(len(rows["time_s"]), bool)
    assert mean_and_p90(table.held_out(everything, everything, 0.33))[0] < 0.08


@pytest.mark.parametrize(("device", "dtype", "unfitted", "most"), [
    ("h100_sxm", "bfloat16", 0.115, 0.11), ("h200_sxm", "bfloat16", 0.09, 0.13), ("gb200", "fp8_block", 0.125, 0.15),
    ("b300_sxm", "fp8_block", 0.1, 0.11), ("gb300", "fp8_block", 0.125, 0.14), ("gb200", "bfloat16", 0.24, 0.26),
])  # fmt: skip
def test_layers_of_experts(device, dtype, unfitted, most):
    """Sorting, grouped GEMMs and their activation, of 64 tokens an expert and more, balanced: as the profile has them,
    and with three numbers fitted on a tenth. 15 % is aimed at.

    16-bit layers on Blackwell miss it. Weights of zeros make large products there up to a quarter faster than random
    ones, and sorting takes as long as on Hopper, whose memory has 0.42 of the bandwidth.
    """
    table = experts(device, dtype)
    many = table.rows["rows"] >= 64
    assert np.abs(table.errors({}, many)).mean() < unfitted
    assert mean_and_p90(table.held_out(many, many, 0.1, seeds=range(5)))[0] < most


def test_a_kernel_without_its_ramp_is_far_off():
    """That the window's tables say something: without what a window's edges take, they are missed by half."""
    table = both_formats("gb200")
    windowed = (table.rows["window"] > 0) & (table.rows["seq_len"] >= 1024)
    kernels = [(replace(each[AttentionKernel.TRTLLM], ramp_keys=0.0, window_keys=0.0),) * len(AttentionKernel)
               for each in (table.hardware.attention, table.hardware.fp8_attention)]  # fmt: skip
    without = replace(table, hardware=replace(table.hardware, attention=kernels[0], fp8_attention=kernels[1]))
    assert np.abs(without.errors({}, windowed)).mean() > 0.4

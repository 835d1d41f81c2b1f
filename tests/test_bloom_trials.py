"""What BLOOM's trials say of single choices: pairs of runs that differ in one of them, none of them in the table.

BigScience, "Prequel" (train/tr11-176B-ml/chronicles-prequel.md), February 2022: A100 of 80 GB, Megatron-DeepSpeed.
"""

from __future__ import annotations

import pytest

import comp_comm as cc

TRIALS = {
    "seq_len": 2048, "vocab": 250880, "precision": "bf16", "grad_precision": "fp16", "zero_implementation": "deepspeed",
    "recompute": "full", "sp": "off", "tied": "on", "position": "learned", "max_positions": 2048,
    "attention_kernel": "unfused", "cross_entropy": "unfused", "launch_blocking": "on", "overlap_dp": "off",
    "overlap_pp": "off", "global_batch": 2048,
}  # fmt: skip
TALL = {"layers": 106, "hidden": 12288, "heads": 96, "gpus": 384, "tp": 4, "pp": 12, "micro_batch": 2}
EIGHTY = {"layers": 80, "hidden": 13824, "heads": 96, "gpus": 320, "tp": 8, "pp": 10, "micro_batch": 1}
NARROW = {"layers": 78, "hidden": 13824, "heads": 96, "gpus": 384, "tp": 8, "pp": 6, "micro_batch": 4}


def seconds(model, **more):
    answer = cc.explain({"hardware": "a100-sxm-80gb", "cost_model": "complete", "set": {**TRIALS, **model, **more}})
    return float(answer["step_s"])


def test_sums_of_gradients_in_32_bit():
    """195B: 110.96 and 112.69 s with 64 and 96 heads; 116.54 and 118.79 with DeepSpeed's optimizer for bf16."""
    slower = seconds(TALL, grad_precision="fp32") / seconds(TALL)
    assert slower == pytest.approx((116.54 / 110.96 + 118.79 / 112.69) / 2, abs=0.01)


def test_launches_that_block():
    """200B on 80 devices: 91.04 TFLOP/s, and 97.20 without blocking (on 160 both are the same)."""
    model = {**EIGHTY, "hidden": 14400, "gpus": 80, "global_batch": 512}
    slower = seconds(model) / seconds(model, launch_blocking="off")
    assert slower == pytest.approx(97.20 / 91.04, abs=0.015)


@pytest.mark.a_third
@pytest.mark.parametrize(("model", "aligned", "measured"), [
    ({**EIGHTY, "hidden": 14400}, EIGHTY, 221.21 / 160.29),
    ({**NARROW, "heads": 128}, NARROW, 156.84 / 118.12),
    ({**NARROW, "heads": 128, "tp": 4, "pp": 12}, {**NARROW, "tp": 4, "pp": 12}, 153.90 / 110.31),
])  # fmt: skip
def test_heads_that_8_does_not_divide(model, aligned, measured):
    assert seconds(model) / seconds(aligned) == pytest.approx(measured, rel=0.04)

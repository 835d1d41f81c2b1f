"""Mixtures as frontier models are trained, against what their authors and vendors published."""

from __future__ import annotations

import pytest
from face import memory_of, told

from comp_comm.validation.predict import predict
from comp_comm.validation.table import read_runs

# DeepSeek-V3 as its report (arXiv:2412.19437) tells: 2,048 H800, PP 16, EP 64 on at most 4 nodes, DualPipe, fp8 by
# blocks, tokens dispatched in fp8, bf16 moments; norms, projections up and SwiGLU made again, its inputs kept in fp8.
DEEPSEEK = {
    "gpus": 2048, "pp": 16, "ep": 64, "tp": 1, "etp": 1, "global_batch": 15360, "micro_batch": 1, "seq_len": 4096,
    "schedule": "dualpipe", "overlap_ep": "on", "ep_dispatch": "deepep", "ep_node_limit": 4, "precision": "fp8",
    "recipe": "blockwise", "dispatch_precision": "fp8", "grad_precision": "fp32", "optimizer_precision": "bf16",
    "fp8_param_gather": "on", "fp8_activations": "on", "recompute": "mla_up_proj+layernorm+moe_act", "zero": 1,
}  # fmt: skip
STUDY = {"hardware": "h800-sxm", "model": "deepseek-v3", "set": DEEPSEEK}


def test_deepseek_v3_as_it_was_trained():
    """180 thousand H800 hours for 10^12 tokens: 19.9 s a step; and it ran on 80 GiB."""
    found = told(STUDY)
    tokens = DEEPSEEK["global_batch"] * DEEPSEEK["seq_len"]
    published = 180e3 * 3600 / 2048 * tokens / 1e12
    assert published == pytest.approx(19.9, abs=0.1)
    assert found["step_s"] == pytest.approx(published, rel=0.2)
    assert found["memory"]["total_bytes"] < 80 * 2**30
    assert found["feasible"]


# -- what is kept in few bits -----------------------------------------------------------------------------------------

S, H, F, LAYERS = 4096, 1024, 4096, 4
DENSE = {"layers": LAYERS, "hidden": H, "heads": 8, "ffn_hidden": F, "gated": "on", "vocab": 0, "seq_len": S,
         "norm": "rmsnorm", "bias": "off", "dropout": "off", "precision": "fp8"}  # fmt: skip


def activations(**more):
    return memory_of({"hardware": "h100-sxm", "set": {**DENSE, **more}})["activations"]


def test_inputs_of_products_are_kept_as_the_recipe_has_them():
    """Of a token: inputs of two norms in 16 bit, of their products in 8; q, k, v and the output of attention in 16, and
    the latter once more in 8; two inputs of SwiGLU in 16 bit, and what it makes in 8."""
    token = 2 * H * (2 + 1) + 4 * H * 2 + H + 2 * F * 2 + F
    assert activations(recipe="tensorwise") == LAYERS * S * token
    assert activations(recipe="tensorwise", fp8_activations="on") == LAYERS * S * (token - 2 * F)
    sixteen = 2 * H * (2 + 2) + 4 * H * 2 + 2 * F * 2 + 2 * F
    assert activations(precision="bf16") == LAYERS * S * sixteen


# -- runs of vendors --------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize(("run_id", "tokens"), [("r0438", 1297), ("r0253", 1712), ("r0248", 8901)])
def test_mixtures_on_h100_within_fifteen_percent(run_id, tokens):
    """DeepSeek-V3 on 1,024, Qwen3-235B on 256, Qwen3-30B on 16: tokens a second and GPU (NVIDIA Megatron-Bridge)."""
    (run,) = [run for run in read_runs() if run.run_id == run_id]
    assert run.number("measured_value") == pytest.approx(tokens, rel=0.01)
    (found,) = predict([run])
    assert found.error == pytest.approx(0.0, abs=0.15)

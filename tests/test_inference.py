"""Serving: FLOP, cache and messages are the closed forms; prefill is a forward pass; decoding reads every weight."""

from __future__ import annotations

import json

import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import sweep

# Llama 3 8B: 32 layers, H 4096, 32 heads of 128, 8 of keys and values, FFN 14336, vocabulary 128256.
LLAMA = {"hardware": "h100-sxm", "model": "llama-3-8b"}
WEIGHTS = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) + 4096 * 128256
PROMPT, ANSWER = 2048, 256


def serve(**more):
    given = {**LLAMA, "set": {"phase": "inference", "seq_len": PROMPT, "output_len": ANSWER, **more}}
    return sweep(given).to_records()[0]


def test_decode_flops_per_token():
    length = PROMPT + ANSWER / 2
    assert serve()["decode_flops_per_token"] == 2 * WEIGHTS + 32 * 4 * 4096 * length


def test_prefill_is_the_forward_pass_of_training():
    point = {**LLAMA, "set": {"seq_len": PROMPT, "gpus": 64, "tp": 8, "zero": 3}}
    trained = sweep(point, columns=["model_flops", "global_batch"]).to_records()[0]
    assert serve()["prefill_flops"] == trained["model_flops"] / trained["global_batch"] / 3


@pytest.mark.parametrize(("kernel", "beside"), [("cudnn", True), ("trtllm", False)])
def test_a_kernel_that_rotates_queries_leaves_no_rotation_beside(kernel, beside):
    """Two numbers of 2 bytes of 32 + 8 heads a token at .8 of the bandwidth, in each of 32 layers."""
    rotary, none = (serve(attention_kernel=kernel, position=position)["ttft_s"] for position in ("rope", "none"))
    moved = 32 * PROMPT * 2 * 2 * (32 + 8) * 128
    assert rotary - none == pytest.approx(moved / (0.8 * 3350e9) if beside else 0, abs=1e-9)


def test_cache_bytes():
    row = serve(micro_batch=4, tp=2)
    assert row["kv_cache_bytes_per_token"] == 2 * 32 * 8 * 128 * 2
    assert row["kv_cache_gib"] * 2**30 == 4 * (PROMPT + ANSWER) * 2 * 32 * 8 * 128 * 2 / 2
    assert serve(kv_precision="fp8")["kv_cache_bytes_per_token"] == 2 * 32 * 8 * 128


def test_latent_attention_keeps_only_what_it_compresses_to():
    point = {"layers": 61, "hidden": 7168, "heads": 128, "head_dim": 128, "vocab": 129280, "seq_len": 4096,
             "q_lora_rank": 1536, "kv_lora_rank": 512, "rope_head_dim": 64, "phase": "inference", "tp": 8,
             "memory_capacity": 10}  # fmt: skip
    row = sweep({"hardware": "h200-sxm", "set": point}).to_records()[0]
    assert row["kv_cache_bytes_per_token"] == 61 * (512 + 64) * 2  # DeepSeek-V2, arXiv:2405.04434, Table 1


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_messages_per_token(tp):
    # Two all-reduces of H a layer, and one of the embedding.
    assert serve(tp=tp)["decode_message_bytes_per_token"] == (2 * 32 + 1) * 4096 * 2


def test_stages_send_a_hidden_state_over_each_boundary():
    sent = serve(pp=4)["decode_message_bytes_per_token"]
    assert sent == 3 * 4096 * 2


def test_a_decode_step_reads_every_weight_once():
    small, large = serve(micro_batch=1), serve(micro_batch=8)
    assert small["tpot_s"] > WEIGHTS * 2 / 3350e9  # not faster than memory
    assert large["tpot_s"] < 1.5 * small["tpot_s"]
    assert large["tokens_per_s"] > 5 * small["tokens_per_s"]


def test_times_add_up_and_answers_take_their_tokens():
    row = serve(tp=4, micro_batch=8)
    assert row["ttft_s"] == pytest.approx(row["prefill_compute_s"] + row["prefill_comm_s"])
    assert row["tpot_s"] == pytest.approx(row["decode_compute_s"] + row["decode_comm_s"])
    assert row["request_s"] == pytest.approx(row["ttft_s"] + (ANSWER - 1) * row["tpot_s"])
    assert row["tokens_per_s"] == pytest.approx(8 / row["tpot_s"])


def test_what_does_not_fit_is_infeasible():
    axis = {**LLAMA, "set": {"phase": "inference", "seq_len": 2**17}, "sweep": {"micro_batch": [1, 64]}}
    rows = sweep(axis).to_records()
    assert [row["feasible"] for row in rows] == [True, False]
    assert "memory" in rows[1]["reason"]


@pytest.mark.parametrize(("more", "said"), [
    ({"zero": 3}, "zero"), ({"recompute": "full"}, "recompute"), ({"architecture": "encoder"}, "decoders"),
    ({"vocab": 0}, "vocabulary"), ({"tp": 3}, "divide"),
])  # fmt: skip
def test_what_is_only_of_training_is_refused(more, said):
    with pytest.raises(ConfigError, match=said):
        make_plan(study_from({**LLAMA, "set": {"phase": "inference", **more}}))


def test_a_phase_is_no_axis():
    with pytest.raises(ConfigError, match="one value"):
        make_plan(study_from({**LLAMA, "sweep": {"phase": ["training", "inference"]}}))


def test_the_command(tmp_path, capsys):
    path = tmp_path / "serve.yaml"
    path.write_text(
        "hardware: h100-sxm\nmodel: llama-3-8b\nset: {phase: inference, seq_len: 2K}\nsweep: {tp: [1, 2]}\n"
    )
    assert run(["sweep", str(path), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["meta"]["cost_model"] == "inference"
    assert len(answer["rows"]) == 2
    assert run(["sweep", str(path)]) == 0
    assert "decode_comm_fraction" in capsys.readouterr().out

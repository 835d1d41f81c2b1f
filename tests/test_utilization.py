"""MFU and HFU: each says what it counts, and a note appears where that makes a difference."""

from __future__ import annotations

import pytest
from face import told

LLAMA = {"hardware": "h100-sxm", "model": "llama-3-8b"}
SPLIT = {"gpus": 64, "tp": 8, "cp": 8, "global_batch": 64, "seq_len": "128K"}
PEAK = 989.4e12


def step(**more):
    return told({**LLAMA, "set": {**SPLIT, **more}})


def notes_of(**more):
    return [note for note in step(**more)["meta"]["notes"] if "mfu" in note]


def scores(seq, batch):
    """FLOP of all scores of Llama 3 8B, forward and twice that backward."""
    return batch * 3 * 32 * 4 * seq**2 * 4096


def test_hfu_counts_what_a_kernel_executes():
    causal, whole = (step(attention_kernel=kernel) for kernel in ("flash_causal", "flash"))
    seq, batch = 2**17, 64
    assert whole["hardware_flops"] - causal["hardware_flops"] == pytest.approx(scores(seq, batch) / 2, rel=1e-9)
    assert causal["hfu"] == pytest.approx(causal["hardware_flops"] / (64 * PEAK * causal["step_s"]))
    assert causal["hfu"] < step(count_attention="causal")["mfu"] * 1.01  # padding of the vocabulary alone
    assert step(count_attention="causal")["hardware_flops"] == causal["hardware_flops"]


def test_a_note_where_the_two_counts_differ_by_more_than_a_tenth():
    full, causal = (step(count_attention=count)["model_flops"] for count in ("full", "causal"))
    (note, *_) = notes_of()
    assert note == ("mfu counts all attention scores (count_attention: full); with causal it is up to "
                    f"{100 * (1 - causal / full):.0f} % less")  # fmt: skip
    (note, *_) = notes_of(count_attention="causal")
    assert note.endswith(f"(count_attention: causal); with full it is up to {100 * (full / causal - 1):.0f} % more")
    assert notes_of(seq_len="4K", cp=1) == []  # 6 % apart


@pytest.mark.parametrize(("seq_len", "said"), [([4096], False), ([4096, 131072], True), ([131072, 8192, 4096], True)])
def test_a_sweep_says_it_where_any_end_of_an_axis_differs(seq_len, said, compcomm, tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text("hardware: h100-sxm\nmodel: llama-3-8b\nset: {gpus: 64, tp: 8, global_batch: 64}\n"
                     f"sweep: {{seq_len: {seq_len}}}\n")  # fmt: skip
    _, _, err = compcomm("sweep", study, "--format", "csv")
    assert ("mfu counts all attention scores" in err) is said


def test_a_note_where_a_utilization_is_above_seven_tenths():
    """However it is counted: of a causal count it is less than that here."""
    assert step(sustained=1.4)["mfu"] > 0.7
    assert any("above 70 % look at what is counted" in note for note in notes_of(sustained=1.4))
    assert step(sustained=1.4, count_attention="causal")["mfu"] < 0.7
    assert not any("above 70 %" in note for note in notes_of(sustained=1.4, count_attention="causal"))


def test_explain_says_what_it_counts_beside_the_number(compcomm):
    for count in ("full", "causal"):
        _, out, _ = compcomm("explain", "llama-step", "--count-attention", count)
        assert f"% ({count} attention), HFU" in out


def test_no_note_where_a_table_has_both_counts(compcomm, tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text("hardware: h100-sxm\nmodel: llama-3-8b\nset: {gpus: 64, tp: 8, global_batch: 64, seq_len: 64K}\n"
                     "sweep: {count_attention: [full, causal]}\n")  # fmt: skip
    _, _, err = compcomm("sweep", study, "--format", "csv")
    assert "mfu counts" not in err


@pytest.mark.parametrize("count", ["full", "causal"])
def test_a_search_says_the_same_of_its_best(count, compcomm):
    """What its MFU counts, always; and where the best one's is above 70 %, what explain says of that step."""
    flags = ("--model", "llama-3-8b", "--hardware", "h100-sxm", "--gpus", "8", "--global-batch", "8", "--seq-len",
             "64K", "--pp", "1", "--tp", "1", "--cp", "8", "--count-attention", count)  # fmt: skip
    _, out, err = compcomm("search", *flags, "--top", "1")
    assert f"mfu is of {count} attention (count_attention)" in out
    high = [line for line in err.splitlines() if "above 70 %" in line]
    assert bool(high) is (count == "full")
    best = ("--micro-batch", "1", "--zero", "2", "--sp", "off")
    _, _, explained_err = compcomm("explain", *flags, *best)
    assert [line for line in explained_err.splitlines() if "above 70 %" in line] == high

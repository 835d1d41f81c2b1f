"""Tables of a user's own runs: what is wrong with one is said with its file, line and column, and what to do."""

from __future__ import annotations

import io
import json
import sys

import pytest

from comp_comm.configs.hardware_file import load_profile
from comp_comm.validation.predict import points_of
from comp_comm.validation.readings import Silent
from comp_comm.validation.run import validate
from comp_comm.validation.table import LATER, read_runs, shipped
from comp_comm.validation.words import check_words, doubtful_names

HEAD = "model,gpu,gpus,tp,pp,micro_batch,global_batch,seq_len,precision,step_s"
ROW = "llama-3-8b,h100,64,8,2,1,256,8192,bf16,6.1"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a table of runs as ``runs.csv`` of the working folder: its head, and rows."""
    monkeypatch.chdir(tmp_path)

    def write(*rows, head=HEAD):
        (tmp_path / "runs.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
        return "runs.csv"

    return write


# -- what contradicts itself, or is nearly something else -------------------------------------------------------------


def test_replicas_that_devices_and_degrees_do_not_leave_are_told(compcomm, table):
    runs = table(f"{ROW},4", f"{ROW},2", f"{ROW},", head=f"{HEAD},dp")  # 64 / (8 x 2) = 4
    code, out, err = compcomm("validate", "--runs", runs, "--format", "json")
    assert code == 0
    assert [row["counted"] for row in json.loads(out)["rows"]] == [True, False, True]
    assert "runs.csv:3: dp 2 is not gpus / (tp x pp x cp) = 64 / 16 = 4: one of them is wrong" in err
    code, _, err = compcomm("calibrate", "--runs", runs, "--extends", "h100", "-o", "mine.yaml")
    assert (code, "left out: runs.csv:3: dp 2 is not gpus" in err) == (0, True)


def test_the_shipped_runs_have_as_many_replicas_as_devices_leave():
    for path in (None, shipped(LATER)):
        _, reasons = points_of(read_runs(path), Silent())
        assert not [reason for reason in reasons.values() if reason.startswith("dp ")]


SIZES = "layers,hidden,ffn_hidden,heads,kv_heads,vocab"


@pytest.mark.parametrize(("name", "sizes", "said"), [
    ("llama-3-8bb", "32,4096,14336,32,8,128256", "did you mean 'llama-3-8b'? It has these dimensions"),
    ("Lama3-8B", "36,4096,14336,32,8,128256", "did you mean 'llama-3-8b'? It has other dimensions"),
    ("llama-3-9b", "36,4096,14336,32,8,128256", ""), ("llama-3-8b", "8,4096,14336,32,8,128256", ""),
    ("llama-3-8b", "40,5120,14336,40,8,128256", "whose hidden is 4096 and not 5120: taken for another"),
    ("llama-3-8b", "32,4096,14336,32,8,128256", ""), ("our-model", "32,4096,14336,32,8,128256", ""),
    ("", "32,4096,14336,32,8,128256", ""), ("GPT-39.1B", "48,8192,32768,64,64,51200", ""),
])  # fmt: skip
def test_a_name_that_is_nearly_a_model_is_told(compcomm, table, name, sizes, said):
    runs = table(f"{name}{ROW.removeprefix('llama-3-8b')},{sizes}", head=f"{HEAD},{SIZES}")
    code, _, err = compcomm("validate", "--runs", runs)
    assert code == 0, err
    assert (f"note: runs.csv:2: model: '{name}'" in err) == bool(said)
    assert said in err
    assert (said in compcomm("calibrate", "--runs", runs, "--extends", "h100")[2]) or not said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["runs.csv", LATER])
def test_a_copy_of_a_shipped_table_is_predicted_as_it_is(name, tmp_path):
    (tmp_path / "copy.csv").write_bytes(shipped(name).read_bytes())
    copied, own = validate(tmp_path / "copy.csv"), validate(shipped(name))
    assert [one.predicted_s for one in copied.predictions] == [one.predicted_s for one in own.predictions]
    assert not copied.doubtful or name != LATER


@pytest.mark.parametrize("name", ["runs.csv", LATER])
def test_words_of_a_shipped_table_are_taken_in_a_copy(name):
    runs = read_runs(shipped(name))
    check_words(runs)
    assert not doubtful_names(runs)


# -- the device a profile is of ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "extends"), [
    ("l40s", "h100"), ("MI300X", "h100"), ("h100", "mi300x"), ("h100", "h200-sxm"), ("h200", "h100-sxm"),
    ("a100", "a100-sxm-40gb"), ("h800", "h100"),
])  # fmt: skip
def test_runs_on_another_device_are_not_calibrated_on(compcomm, table, device, extends):
    runs = table(ROW, ROW.replace("h100", device), ROW) if extends == "h100" else table(ROW.replace("h100", device))
    code, out, err = compcomm("calibrate", "--runs", runs, "--extends", extends, "-o", "mine.yaml")
    line = 3 if extends == "h100" else 2
    assert (code, out) == (2, "")
    assert f"runs.csv:{line}: gpu: '{device}' is " in err
    assert "--extends" in err
    assert "remove the row" in err


@pytest.mark.slow
def test_a_cluster_and_a_profile_of_ones_own_are_their_device(compcomm, table):
    runs = table(ROW)
    assert compcomm("calibrate", "--runs", runs, "--extends", "h100", "-o", "mine.yaml")[0] == 0
    assert compcomm("calibrate", "--runs", runs, "--extends", "mine.yaml")[0] == 0
    own = table(f"{ROW},mine.yaml", head=f"{HEAD},machine")
    assert compcomm("calibrate", "--runs", own, "--extends", "h100")[0] == 0
    assert compcomm("calibrate", "--runs", table(ROW.replace("h100", "gh200")), "--extends", "alps")[0] == 0
    other = table(f"{ROW},b200", head=f"{HEAD},machine")
    code, _, err = compcomm("calibrate", "--runs", other, "--extends", "h100")
    assert (code, "runs.csv:2: machine: 'b200' is b200-sxm" in err) == (2, True)


# -- cells ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cells", "metric", "words"), [
    ("43", "mfu", "runs.csv:3: mfu: 43 is above 1, and mfu is a share: write 43% or 0.43"),
    ("150%", "mfu", "runs.csv:3: mfu: 1.5 is above 1"), ("1e300", "mfu", "runs.csv:3: mfu: 1e300 is above 1"),
    ("1e300", "step_s", "runs.csv:3: step_s: 1e300 is out of range; must be from 1e-06 to 1e+06 s"),
    ("1e-30", "step_s", "runs.csv:3: step_s: 1e-30 is out of range"),
    ("1e300", "tflops_per_gpu", "runs.csv:3: tflops_per_gpu: 1e300 is out of range"),
    ("nan", "tokens_per_s_per_gpu", "runs.csv:3: tokens_per_s_per_gpu: must be a finite number, not nan"),
    ("inf", "step_s", "runs.csv:3: step_s: must be a finite number, not inf"),
    ("-1", "step_s", "runs.csv:3: step_s: must be above 0, not -1"),
    ("6 s", "step_s", "runs.csv:3: step_s: '6 s' is not a number"),
    ("43%", "step_s", "runs.csv:3: step_s: '43%' is not a number"),
])  # fmt: skip
def test_a_number_that_no_run_has_is_refused_under_the_name_in_the_head(compcomm, table, cells, metric, words):
    good = {"mfu": "0.4", "tflops_per_gpu": "400", "tokens_per_s_per_gpu": "9e3"}.get(metric, "6.1")
    runs = table(ROW.replace("6.1", good), ROW.replace("6.1", cells), head=HEAD.replace("step_s", metric))
    for command in (("validate",), ("calibrate", "--extends", "h100")):
        code, _, err = compcomm(*command, "--runs", runs)
        assert code == 2
        assert words in err


@pytest.mark.parametrize(("head", "row", "words"), [
    (HEAD, ROW.replace("64", "sixty"), "runs.csv:2: gpus: 'sixty' is not a number"),
    (HEAD, ROW.replace("8192", "8k"), "runs.csv:2: seq_len: '8k' is not a number: write 8K; must be a whole number"),
    (HEAD, ROW.replace("64", '"1,024"'), "runs.csv:2: gpus: '1,024' is not a number: write 1024; must be"),
    (HEAD, ROW.replace("64", "6.5"), "runs.csv:2: gpus: must be a whole number"),
    (HEAD.replace("step_s", "tokens"), ROW, "runs.csv:1: measured_metric, measured_value: the columns are missing"),
    (f"{HEAD},tokens", f"{ROW},nan", "runs.csv:2: tokens: 'nan' is not a number"),
    (f"{HEAD},tokens", f"{ROW},inf", "runs.csv:2: tokens: 'inf' is not a number"),
])  # fmt: skip
def test_columns_go_by_the_names_that_they_have_in_the_table(compcomm, table, head, row, words):
    code, _, err = compcomm("validate", "--runs", table(row, head=head))
    assert code == 2
    assert words in err


def test_a_metric_goes_by_either_of_its_names(table):
    (short,) = read_runs(table(ROW))
    head, row = HEAD.replace("step_s", "measured_metric,measured_value"), ROW.replace("6.1", "step_s,6.1")
    (long,) = read_runs(table(row, head=head))
    assert long.cells == short.cells


@pytest.mark.parametrize(("old", "new", "words"), [
    ("step_s", "step_time", "step_time: unknown column; did you mean 'iter_time_s'? (allowed: model, gpu, gpus, tp,"),
    ("model", "Model", "Model: unknown column; did you mean 'model'?"),
    ("tp", "schedul", "schedul: unknown column; did you mean 'schedule'?"),
])  # fmt: skip
def test_of_a_column_that_is_unknown_the_nearest_that_tables_have_is_named(compcomm, table, old, new, words):
    code, _, err = compcomm("validate", "--runs", table(ROW, head=HEAD.replace(old, new)))
    assert (code, f"runs.csv:1: {words}" in err) == (2, True)


def test_suffixes_are_read_as_flags_read_them(table):
    (plain,), (short,) = read_runs(table(ROW)), read_runs(table(ROW.replace("8192", "8K")))
    assert short.cells == plain.cells
    head = HEAD.replace("step_s", "mfu")
    (share,), (percent,) = (read_runs(table(ROW.replace("6.1", text), head=head)) for text in ("0.43", "43%"))
    assert percent.cells == share.cells


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "word", "said"), [
    ("precision", "bf15", "'bf15' is not understood; did you mean 'bf16'? (allowed: fp32, tf32, fp16, bf16, fp8,"),
    ("recompute", "ful", "'ful' is not understood; did you mean 'full'? (allowed: none, selective, full, per_op,"),
    ("attention_kernel", "flsh_3", "'flsh_3' is not understood; did you mean 'flash_3'? (allowed: flash_causal,"),
    ("cuda_graph", "ful", "did you mean 'full'? (allowed: none, attention, router"),
    ("zero_stage", "4", "'4' is not understood (allowed: 0, 1, 2, 3, ddp, dist-opt, fsdp, hsdp)"),
    ("sequence_parallel", "2", "(allowed: 1, 0); empty is the default"), ("gated_mlp", "swiglu", "(allowed: 1, 0)"),
    ("dp_overlap", "yess", "did you mean 'yes'?"), ("grad_precision", "fp31", "did you mean 'fp32'?"),
    ("schedule", "gpip", "'gpip' is not allowed; did you mean 'gpipe'?"),
])  # fmt: skip
def test_a_word_that_is_not_understood_is_no_default(compcomm, table, column, word, said):
    there = column in HEAD
    head = HEAD if there else f"{HEAD},{column}"
    rows = [ROW.replace("bf16", text) if there else f"{ROW},{text}" for text in ("", word)]
    runs = table(*rows, head=head)
    for command in (("validate",), ("calibrate", "--extends", "h100")):
        code, _, err = compcomm(*command, "--runs", runs)
        assert code == 2
        assert f"runs.csv:3: {column}: '{word}' is not " in err
        assert said in err


@pytest.mark.parametrize(("column", "word", "field", "value"), [
    ("attention_kernel", "flash_3", "attention_kernel", "flash_3"), ("sequence_parallel", "True", "sp", "on"),
    ("cuda_graph", "attention_router", "cuda_graph", "attention_router"),
    ("recompute", "mlp+core_attn", "recompute", "core_attn+mlp"), ("recompute", "Full", "recompute", "full"),
    ("zero_stage", "fsdp", "zero", 3), ("attention_kernel", "flash 2", "attention_kernel", "flash_2"),
    ("attention_kernel", "flash_attn v3", "attention_kernel", "flash_3"),
    ("attention_kernel", "FlashAttention-2", "attention_kernel",
    "flash_2"),
])  # fmt: skip
def test_words_of_a_study_and_of_the_shipped_table_are_both_understood(table, column, word, field, value):
    runs = read_runs(table(f"{ROW},{word}", head=f"{HEAD},{column}"))
    check_words(runs)
    (point,), reasons = points_of(runs, Silent())
    assert not reasons
    assert point.fields[field] == value


# -- runs that cannot be predicted ------------------------------------------------------------------------------------

BAD = [
    ("llama-3-8b", "lama-3-8b", "layers, hidden not stated, and the catalogue has no model 'lama-3-8b'; did you mean "
                                "'llama-3-8b'?"),
    ("h100", "h101", "gpu: no profile for 'h101'; did you mean 'h100'? Give one in the column 'machine'"),
    (",8,2,1,", ",3,2,1,", "tp x cp x pp does not divide gpus: tp is 3, pp is 2, gpus is 64; tp does not divide heads"),
    # 64 devices in TP 8 and PP 2 are 4 replicas: 252 and 256 are the multiples of 4 about 255
    ("256", "255", "dp x micro_batch does not divide global_batch: 4 x 1 is no part of 255; the nearest are 252 "
                   "and 256"),
    ("llama-3-8b", "", "model not stated, nor all dimensions (layers, hidden)"),
    ("llama-3-8b", "./mine.yaml", "model: ./mine.yaml: there is no such file"),
    ("bf16", "fp32", "h100-sxm has no fp32 peak"), (",64,", ",,", "gpus not stated"), ("6.1", "", "step_s not stated"),
]  # fmt: skip


COMMANDS = [("validate",), ("calibrate", "--extends", "h100")]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("old", "new", "words"), BAD)
def test_a_run_that_cannot_be_predicted_is_said_with_its_line(compcomm, table, command, old, new, words):
    code, _, err = compcomm(*command, "--runs", table(ROW.replace(old, new)))
    assert code == 2
    assert f"runs.csv:2: {words}" in err


@pytest.mark.a_third
@pytest.mark.parametrize("command", [COMMANDS[0], pytest.param(COMMANDS[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize(("old", "new", "words"), BAD)
def test_beside_a_run_that_can_be_predicted_one_that_cannot_is_said(compcomm, table, command, old, new, words):
    """The other is on another device: rules are of all machines of a table."""
    others = (ROW, ROW.replace("h100", "b200") if command[0] == "validate" else ROW)
    code, _, err = compcomm(*command, "--runs", table(*others, ROW.replace(old, new)))
    assert code == 0
    assert f"runs.csv:4: {words}" in err


def test_a_machine_of_no_profile_is_said_with_the_nearest(compcomm, table):
    code, _, err = compcomm("validate", "--runs", table(f"{ROW},h101", head=f"{HEAD},machine"))
    assert code == 2
    assert "runs.csv:2: machine: no hardware is called 'h101'; did you mean 'h100'?" in err


def test_of_many_runs_without_a_prediction_the_first_is_said(compcomm, table):
    _, _, err = compcomm("validate", "--runs", table(ROW, *[ROW.replace("h100", "h9")] * 6))
    assert "6 of 7 runs could not be predicted (reasons: --format json; the first: runs.csv:3: gpu: no profile" in err


# -- flags ------------------------------------------------------------------------------------------------------------


def test_an_error_of_five_is_asked_back(compcomm, table):
    """A step that is predicted 8 % too slow: within 10 % and 500 %, whichever is written as a share."""
    runs = table(ROW)
    code, _, err = compcomm("validate", "--runs", runs, "--max-error", "5")
    assert code == 2
    assert "--max-error" in err
    assert "5 is 500 %: write 5%, or 500% if that is meant" in err
    ends = [compcomm("validate", "--runs", runs, "--max-error", text)[0] for text in ("5%", "0.05", "500%", "1")]
    assert ends == [1, 1, 0, 0]


@pytest.mark.slow
def test_runs_that_are_all_left_out_are_said_to_be(compcomm):
    """Every run of the shipped table on an MI300X is set aside, for what its source says."""
    mine = [one for one in read_runs() if "MI300X" in one["gpu"]]
    assert mine
    assert all(one["excluded"] for one in mine)
    code, _, err = compcomm("validate", "--gpu", "mi300x")
    assert code == 2
    assert f"all {len(mine)} runs are left out of the errors, as their source is wrong" in err
    assert f"runs.csv:{mine[0].line}: {mine[0]['excluded']}" in err


@pytest.mark.slow
def test_a_run_that_a_filter_leaves_out_is_not_unknown(compcomm):
    (run,) = (one for one in read_runs() if one.run_id == "r0032")
    code, _, err = compcomm("validate", "--explain", "r0032", "--gpu", "b200")
    assert code == 2
    assert f"the run 'r0032' is left out by --gpu b200: its gpu is '{run['gpu']}'" in err
    code, _, err = compcomm("validate", "--explain", "r003", "--gpu", "b200")
    assert "there is no run 'r003'" in err


# -- standard input, and what is written ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_table_may_come_by_standard_input(compcomm, table, monkeypatch):
    """As ``explain -`` reads a study."""

    def piped(*rows):
        text = "\n".join([HEAD, *rows]) + "\n"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    flags = ("--format", "jsonl")
    of_file = compcomm("validate", "--runs", table(ROW), *flags)
    piped(ROW)
    assert compcomm("validate", "--runs", "-", *flags) == of_file
    piped(ROW.replace("8192", "8k tokens"))
    code, _, err = compcomm("validate", "--runs", "-")
    assert (code, "standard input:2: seq_len: '8k tokens' is not a number" in err) == (2, True)
    piped(ROW)
    assert compcomm("calibrate", "--runs", "-", "--extends", "h100", "-o", "mine.yaml")[0] == 0
    assert "1 measured run of standard input" in load_profile("mine.yaml").numbers["timing.sustained"].source
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input: is closed" in compcomm("validate", "--runs", "-")[2]


def test_an_answer_does_not_take_the_place_of_the_measurements(compcomm, table, tmp_path):
    runs = table(ROW)
    before = (tmp_path / runs).read_bytes()
    code, _, err = compcomm("validate", "--runs", runs, "-o", runs)
    assert (code, "is an input of this command" in err) == (2, True)
    assert (tmp_path / runs).read_bytes() == before

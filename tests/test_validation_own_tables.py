"""Tables of a user's own runs: what is wrong with one is said with its file, line and column, and what to do."""

from __future__ import annotations

import pytest

from comp_comm.validation.table import read_runs

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
    (HEAD, ROW.replace("64", "6.5"), "runs.csv:2: gpus: must be a whole number"),
    (HEAD.replace("step_s", "tokens"), ROW, "runs.csv:1: measured_metric, measured_value: the columns are missing"),
    (f"{HEAD},tokens", f"{ROW},nan", "runs.csv:2: tokens: 'nan' is not a number"),
    (f"{HEAD},tokens", f"{ROW},inf", "runs.csv:2: tokens: 'inf' is not a number"),
])  # fmt: skip
def test_columns_go_by_the_names_that_they_have_in_the_table(compcomm, table, head, row, words):
    code, _, err = compcomm("validate", "--runs", table(row, head=head))
    assert code == 2
    assert words in err


def test_suffixes_are_read_as_flags_read_them(table):
    (plain,), (short,) = read_runs(table(ROW)), read_runs(table(ROW.replace("8192", "8K")))
    assert short.cells == plain.cells
    head = HEAD.replace("step_s", "mfu")
    (share,), (percent,) = (read_runs(table(ROW.replace("6.1", text), head=head)) for text in ("0.43", "43%"))
    assert percent.cells == share.cells

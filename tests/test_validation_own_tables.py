"""Tables of a user's own runs: what is wrong with one is said with its file, line and column, and what to do."""

from __future__ import annotations

import pytest

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

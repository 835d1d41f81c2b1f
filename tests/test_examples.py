"""The examples run: users copy them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile
from comp_comm.hardware.lint import lint
from comp_comm.sweeps.result import sweep

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TESTED = {"my-cluster.yaml", "evolve_hardware.yaml", "layouts.yaml", "sweep_from_python.py", "explain_the_best.py",
          "questions.sh", "check_this_machine.py"}  # fmt: skip


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == TESTED


def test_my_cluster_changes_one_number():
    mine, parent = load_profile(str(EXAMPLES / "my-cluster.yaml")), load_profile("h100-sxm")
    changed = {key for key, number in mine.numbers.items() if number.value != parent.numbers[key].value}
    assert changed == {"network.scale-out.bandwidth"}
    assert mine.value("network.scale-out.bandwidth") == 100e9
    assert mine.name == "my-cluster"
    assert lint(mine, [parent]) == []


def test_my_cluster_on_the_command_line(capsys):
    assert run(["hardware", "lint", str(EXAMPLES / "my-cluster.yaml")]) == 0
    assert run(["sweep", "future", "--set", f"hardware={EXAMPLES / 'my-cluster.yaml'}", "--top", "1"]) == 0
    assert "my-cluster" in capsys.readouterr().out


def test_evolve_hardware(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the profile beside the study is found from any directory
    rows = sweep(str(EXAMPLES / "evolve_hardware.yaml")).to_records()
    assert len(rows) == 2 * 2 * 5  # hardware x the models that pass `where` x flop_vs_bw
    assert {row["hidden"] for row in rows} == {16384, 65536}
    assert [round(row["flop_vs_bw"], 3) for row in rows[:5]] == [1.0, 1.414, 2.0, 2.828, 4.0]
    by_device = {name: [r for r in rows if r["hardware"] == name] for name in ("h100-sxm", "my-cluster")}
    for slow, fast in zip(by_device["h100-sxm"], by_device["my-cluster"], strict=True):
        assert fast["visible_comm_fraction"] < slow["visible_comm_fraction"]


def test_layouts():
    rows = sweep(str(EXAMPLES / "layouts.yaml")).to_records()
    assert len(rows) == 3 * 4 * 2
    assert all(row["dp"] == 256 // (row["tp"] * row["pp"]) for row in rows)
    assert {row["reason"] for row in rows} == {None, "does not fit: memory exceeds that of the device"}


def test_layouts_on_the_command_line(capsys):
    study = str(EXAMPLES / "layouts.yaml")
    assert run(["sweep", study]) == 0
    pivot = capsys.readouterr().out
    assert "pp  micro_batch  tp 2  tp 4  tp 8" in pivot
    assert run(["sweep", study, "--top", "3", "--columns", "tp,pp,dp,micro_batch,step_s,memory_gib"]) == 0
    assert run(["explain", study, "--tp", "8", "--pp", "2", "--micro-batch", "1"]) == 0


def python(name, folder):
    """Run an example in a folder; return what it prints."""
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_sweep_from_python(tmp_path):
    assert "64K wide: TP 256 today, TP 64 at flop-vs-bw 4" in python("sweep_from_python.py", tmp_path)


@pytest.mark.slow
def test_explain_the_best(tmp_path):
    lines = python("explain_the_best.py", tmp_path).splitlines()
    best = sweep(str(EXAMPLES / "layouts.yaml"), top=1, by="tokens_per_s").to_records()[0]
    assert lines[0].startswith(f"TP {best['tp']}, PP {best['pp']}, DP {best['dp']}, micro-batch {best['micro_batch']}:")
    shares = [float(line.split()[-2]) for line in lines if line.startswith("  ")]
    assert len(shares) == 6
    assert abs(sum(shares) - 100) < 0.5
    assert lines[-1].startswith("twice the ")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_questions(tmp_path):
    tools = Path(sys.executable).parent
    if not (tools / "compcomm").exists():
        pytest.skip("the compcomm command is not installed beside this Python")
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", EXAMPLES / "questions.sh"], cwd=tmp_path, env=environment, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3.659" in done.stdout


@pytest.mark.slow
def test_check_this_machine(capsys):
    """Two processes run layers that were predicted from kernels measured just before: minutes, and PyTorch."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run([sys.executable, str(EXAMPLES / "check_this_machine.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "mean error" in done.stdout

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
from comp_comm.sweep import sweep

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TESTED = {"my-cluster.yaml", "evolve_hardware.yaml", "sweep_from_python.py", "questions.sh"}


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
        assert fast["exposed_comm_fraction"] < slow["exposed_comm_fraction"]


def test_sweep_from_python(tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / "sweep_from_python.py"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "64K wide: TP 256 today, TP 64 at flop-vs-bw 4" in done.stdout


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

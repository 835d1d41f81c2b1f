"""Start-up of the command line, beside the imports it cannot do without. Run with ``--benchmark-enable``."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from comp_comm.cli.main import main; main()"]
RUNS = {
    "help": ("import click", [*COMMAND, "--help"]),
    "sweep": ("import numpy, yaml, click, tabulate", [*COMMAND, "sweep", "future"]),
}


def run(command):
    return subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("which", ["imports", "compcomm"])
def test_cold_start(benchmark, name, which):
    imports, command = RUNS[name]
    benchmark.group = f"cold start: {name}"
    argv = command if which == "compcomm" else [sys.executable, "-c", imports]
    done = benchmark.pedantic(run, args=(argv,), rounds=10, iterations=1, warmup_rounds=2)
    assert done.returncode == 0


def test_help_imports_nothing_heavy():
    """What --help may not cost: numpy, yaml and tabulate are imported by the commands that use them."""
    code = "import sys; from comp_comm.cli.main import run; run(['--help']); print(*sys.modules)"
    loaded = set(run([sys.executable, "-c", code]).stdout.decode().splitlines()[-1].split())
    assert "click" in loaded
    assert not loaded & {"numpy", "yaml", "tabulate", "comp_comm.fields"}

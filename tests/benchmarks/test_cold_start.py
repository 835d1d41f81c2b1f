"""Start-up of the command line, beside the imports it cannot do without. Run with ``--benchmark-enable``."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import pytest

from comp_comm.cli.main import THREADS

COMMAND = [sys.executable, "-c", "from comp_comm.cli.main import main; main()"]
IMPORTS = [sys.executable, "-c", "import numpy, yaml, click, tabulate"]
RUNS = {
    "help": (["--help"], 0.4),
    "help of a command": (["search", "--help"], 1.5),
    "explain": (["explain", "llama-step"], 1.75),
    "sweep": (["sweep", "future"], 1.6),
}  # what each command is, and how many times the imports' seconds it may take: what was measured, and room


def user_s(command):
    import resource  # POSIX has it: to the microsecond, where os.times counts hundredths

    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


@pytest.mark.parametrize("name", RUNS)
def test_cold_start(name, pytestconfig):
    """Processor seconds of whole commands, in pairs with the imports: the medians' ratio, where it is asked for."""
    if pytestconfig.option.benchmark_disable:
        pytest.skip("a time: --benchmark-enable")
    arguments, most = RUNS[name]
    pairs = [(user_s([*COMMAND, *arguments]), user_s(IMPORTS)) for _ in range(11)]
    took, imports = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name}: {took:.3f} s, imports {imports:.3f} s, ratio {took / imports:.2f}")
    assert took < most * imports


@pytest.mark.parametrize(("arguments", "unneeded"), [
    (["--help"], {"numpy", "yaml", "tabulate", "comp_comm.fields"}),
    pytest.param(
        ["explain", "llama-step"],
        {"numpy.ma", "matplotlib", "difflib", "comp_comm.searches", "comp_comm.trends", "comp_comm.validation",
         "comp_comm.reproduce", "comp_comm.calibration", "comp_comm.configs.importers", "comp_comm.configs.exporters",
         "comp_comm.costmodels.amped", "comp_comm.costmodels.foundation_models", "comp_comm.costmodels.timeline",
         "comp_comm.sweeps.result"}, marks=pytest.mark.slow),
    pytest.param(["search", "llama-search", "--gpus", "8"], {"numpy.ma", "matplotlib", "comp_comm.trends",
                  "comp_comm.searches.parallel", "comp_comm.searches.crossover"}, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_command_imports_nothing_it_does_not_need(arguments, unneeded):
    code = f"import sys; from comp_comm.cli.main import run; run({arguments!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "click" in loaded
    assert not loaded & unneeded


@pytest.mark.parametrize(("command", "threads"), [("explain", "1"), ("validate", "None"), ("measure", "None")])
def test_commands_that_multiply_no_matrices_start_no_threads_for_that(command, threads):
    code = ("import os, comp_comm.cli.main as main;"
            "main.run = lambda arguments: print(os.environ.get(main.THREADS)) or 0;"
            f"main.main([{command!r}])")  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != THREADS}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == [threads]

"""What tests share: a command line in this process.

Benchmarks run once, as tests, unless they are asked for (``--benchmark-only`` or ``--benchmark-enable``).
"""

from __future__ import annotations

import gc
import json
import signal

import pytest
from hypothesis import settings

from comp_comm.cli.main import run

collect_ignore = ["reference"]  # a program in PyTorch, which is no library of tests

# A shell ignores Ctrl-C in what it runs in the background, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("few", max_examples=20, deadline=None)
settings.register_profile("many", max_examples=200, deadline=None)
settings.load_profile("few")


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Give every test a terminal of one width, whatever runs the tests."""
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def compcomm(capsys):
    """Run a command; return its exit code, stdout and stderr."""

    def call(*arguments):
        code = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def log(tmp_path):
    """Write a log, of text, of bytes or of what JSON holds; return its path."""

    def write(content, name="run.log"):
        path = tmp_path / name
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    option = config.option
    if not (getattr(option, "benchmark_only", False) or getattr(option, "benchmark_enable", False)):
        option.benchmark_disable = True


def pytest_collection_finish():
    """Keep the collector from going through ten thousand tests again whenever it looks for what is no longer used."""
    gc.freeze()

"""What tests share: a command line in this process, and which cases of a family are quick.

Benchmarks run once, as tests, unless they are asked for (``--benchmark-only`` or ``--benchmark-enable``).
"""

from __future__ import annotations

import gc
import json
import signal

import pytest
from hypothesis import settings

from comp_comm.cli.main import OBJECTS, run

collect_ignore = ["reference"]  # a program in PyTorch, which is no library of tests

# A shell ignores Ctrl-C in what it runs in the background, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("few", max_examples=20, deadline=None)
settings.register_profile("many", max_examples=200, deadline=None)
settings.load_profile("few")

gc.set_threshold(OBJECTS)  # as a command does: there is hardly a circle to be found

# Of no common ratio with each other or with 1: their multiples, taken modulo 1, fill the unit interval evenly.
STEPS = (2**0.5, 3**0.5, 5**0.5, 7**0.5)


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


def pytest_itemcollected(item):
    """Make two of three cases of a test marked ``a_third`` slow: which ones, their places in its lists say alone.

    However many lists there are and however long, the quick cases are spread over each of them; the first is one.
    """
    if item.get_closest_marker("a_third"):
        names = [mark.args[0] for mark in item.iter_markers("parametrize")]
        first = [each.split(",")[0] if isinstance(each, str) else each[0] for each in names]
        places = (item.callspec.indices[name.strip()] for name in first)
        if sum(step * place for step, place in zip(STEPS, places, strict=False)) % 1 > 1 / 3:
            item.add_marker("slow")


def pytest_collection_finish():
    """Keep the collector from going through ten thousand tests again whenever it looks for what is no longer used."""
    gc.freeze()

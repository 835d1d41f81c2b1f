"""Benchmarks run once, as tests, unless they are asked for (``--benchmark-only`` or ``--benchmark-enable``)."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    option = config.option
    if not (getattr(option, "benchmark_only", False) or getattr(option, "benchmark_enable", False)):
        option.benchmark_disable = True

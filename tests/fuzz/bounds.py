"""How much of random inputs is tried, and what each of them may take."""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("FUZZ_CASES", "150"))
SECONDS, MEGABYTES = 5, 500
# The same cases each time, unless more are asked for: a case that fails is printed as Python that gives it again.
TRIED = settings(max_examples=CASES, deadline=None, derandomize=CASES <= 150, database=None, print_blob=True,
                 suppress_health_check=list(HealthCheck))  # fmt: skip


def most_memory():
    """Return the most memory this process had, in megabytes."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (2**20 if sys.platform == "darwin" else 2**10)


@contextmanager
def bounded():
    """Fail where what is within takes long, or much memory."""
    begin, before = time.process_time(), most_memory()
    yield
    assert time.process_time() - begin < SECONDS
    assert most_memory() - before < MEGABYTES

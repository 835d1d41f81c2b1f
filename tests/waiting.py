"""Waiting for what happens, not for a time: a condition, a word on standard error, workers, seconds of computing.

Machines differ, and are busy: what a process has done by now is known from what it has said, written or computed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

PATIENCE = 120  # seconds after which a condition is taken never to come
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def until(holds, process=None):
    """Wait until a condition holds, or a process has ended; return whether it holds."""
    last = time.monotonic() + PATIENCE
    while not holds():
        if process is not None and process.poll() is not None:
            return bool(holds())
        assert time.monotonic() < last, "it never came"
        time.sleep(0.002)
    return True


def said(process, word):
    """Wait until a process says a word on standard error; return all it has said so far.

    What it says later is read too, so that it never waits for a reader: `rest_of` has that.
    """
    lines = []
    for line in process.stderr:
        lines.append(line)
        if word in line:
            break
    else:
        raise AssertionError(f"it ended without '{word}': {''.join(lines)}")
    process.later = []
    process.reader = threading.Thread(target=lambda: process.later.extend(process.stderr), daemon=True)
    process.reader.start()
    return "".join(lines)


def rest_of(process):
    """Wait until a process that `said` something has ended; return what else it said, and its standard output."""
    out = process.stdout.read() if process.stdout else ""
    process.wait(PATIENCE)
    process.reader.join(PATIENCE)
    return out, "".join(process.later)


def children(process):
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(pid) for pid in tasks.read_text().split()]
    except OSError:  # it has ended
        return []


def runs(pid):
    """Return whether a process is there, and is not only waiting to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def computed(process):
    """Return the seconds that a process and its children have computed."""
    return sum(map(_computed, (process.pid, *children(process))))


def _computed(pid):
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(numbers[11]) + int(numbers[12])) / TICKS


def written(folder, beside=()):
    """Return how many bytes the files of a folder have, but for some that were there before."""
    total = 0
    for path in Path(folder).iterdir():
        with contextlib.suppress(OSError):  # it has just been renamed
            total += 0 if path.name in beside else path.stat().st_size
    return total

"""Cells of a table of runs: numbers as people write them, and what is wrong with one that no run has."""

from __future__ import annotations

from math import inf, isfinite

from comp_comm.fields import FIELDS

COUNTS = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "seq_len", "gpus_per_node", "n_gpus", "tp",
          "cp", "pp", "vpp", "ep", "dp", "micro_batch", "global_batch")  # fmt: skip
NUMBERS = ("measured_value", "peak_mem_GiB", "node_gbit_s", "published_parameters", "published_active")
# What is measured is within these, whatever the machine; a share is at most 1.
LIMITS = {"iter_time_s": (1e-6, 1e6, " s"), "tokens_per_s_per_gpu": (1e-6, 1e9, " tokens/s"),
          "tflops_per_gpu": (1e-6, 1e6, " TFLOP/s"), "mfu": (1e-6, 1.0, "")}  # fmt: skip


def plain(name: str, text: str, metric: str) -> str:
    """Return a cell without the suffix that its number may have: ``8K`` of a count, ``43%`` of a share.

    >>> plain("seq_len", "8K", "mfu"), plain("measured_value", "43%", "mfu")
    ('8192', '0.43')
    """
    counts = name in COUNTS and text.endswith(("K", "M"))
    if not counts and not (name == "measured_value" and metric == "mfu" and text.endswith("%")):
        return text
    try:
        return f"{FIELDS['seq_len' if counts else 'sustained'].number(text):.15g}"
    except ValueError:
        return text


def number_fault(name: str, text: str) -> str:
    """Return what is wrong with a cell of a column of numbers, nothing for a number above 0, or none.

    >>> number_fault("tp", "0"), number_fault("tp", "1.5"), number_fault("tp", "8"), number_fault("tp", "")
    ('must be above 0, not 0', 'must be a whole number, not 1.5', '', '')
    """
    if not text:
        return ""
    try:
        number = float(text)
    except ValueError:
        return _no_number(name, text)
    if not isfinite(number):
        return f"must be a finite number, not {text}"
    if number <= 0:
        return f"must be above 0, not {text}"
    return f"must be a whole number, not {text}" if name in COUNTS and number != int(number) else ""


def _no_number(name: str, text: str) -> str:
    """Return what is wrong with a cell that is no number, and how it is written if it means one (8k is 8K)."""
    field = FIELDS.get("gpus" if name == "n_gpus" else name)
    if name in COUNTS and field is not None:
        try:
            field.number(text)
        except ValueError as error:
            return str(error)
    return f"'{text}' is not a number"


def measured_fault(text: str, metric: str) -> str:
    """Return why no run can have measured a number: a share above 1, a step of no time or of weeks.

    >>> measured_fault("43", "mfu"), measured_fault("6.1", "iter_time_s")
    ('43 is above 1, and mfu is a share: write 43% or 0.43', '')
    """
    low, high, unit = LIMITS[metric]
    try:
        number = float(text or "nan")
    except ValueError:
        return ""
    if metric == "mfu" and 1 < number < inf:
        meant = f": write {number:g}% or {number / 100:g}" if 2 < number <= 100 else ""
        return f"{text} is above 1, and mfu is a share{meant}"
    out = 0 < number < low or high < number < inf
    return f"{text} is out of range; must be from {low:g} to {high:g}{unit}" if out else ""


def parsed(text: str) -> object:
    """Return a cell as YAML would have it: a number where it is one."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not isfinite(number):
        return text
    return int(number) if number == int(number) and abs(number) < 2**53 else number

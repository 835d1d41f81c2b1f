"""Which peak of memory a run states: of tensors, of PyTorch's allocator, or what nvidia-smi shows."""

from __future__ import annotations

import re

from comp_comm.validation.table import MeasuredRun

COLUMN = "peak_mem_kind"
# What says it, first the run itself; torchtitan's programs print `max_memory_reserved`.
SAID = (
    ("notes", r"nvidia-smi", "nvidia-smi"), ("notes", r"max(_memory_|imum |[_ ])reserved", "reserved"),
    ("notes", r"max(_memory_|imum |[_ ])allocated", "allocated"), ("source", r"torchtitan", "reserved"),
)  # fmt: skip
COLUMNS = {"allocated": "allocated_gib", "reserved": "reserved_gib", "nvidia-smi": "nvidia_smi_mib",
           "": "memory_gib"}  # fmt: skip


def kind_of_peak(run: MeasuredRun) -> str:
    """Return ``allocated``, ``reserved`` or ``nvidia-smi``; nothing where the source does not say.

    >>> kind_of_peak(MeasuredRun("a", {"notes": "peak_mem = torch max_memory_allocated"}, "runs.csv", 2))
    'allocated'
    """
    if run[COLUMN]:
        return run[COLUMN]
    return next((kind for column, said, kind in SAID if re.search(said, run[column])), "")

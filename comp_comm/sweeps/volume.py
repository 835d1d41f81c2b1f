"""What a device sends in a step: by group, by message, by size; over the axes of a study; and beside what was measured.

The view of "Demystifying the Communication Characteristics for Distributed Transformer Models" (arXiv:2408.10197). All
bytes are those of `explain`: both are made of the same calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from comp_comm.configs.study import Study
from comp_comm.costmodels.records import BYTES, GROUP_TITLES, MessageRecord
from comp_comm.records import Record, Records
from comp_comm.sweeps.engine import row_blocks
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import FEASIBLE, REASON, make_plan
from comp_comm.sweeps.point import check_explains, explained, point_meta
from comp_comm.sweeps.result import check_size, records

UNLIMITED_GIB = 1e9  # of memory: everything fits
COUNTED = (*BYTES, "calls")


def volume(study: Study) -> Record:
    """Return what a device of the slowest stage sends in the step of a study's one point.

    Returns
    -------
    dict
        ``groups``: calls and bytes by group, with the smallest and the largest message; ``messages``: each collective
        with its calls, the size of one message, and its bytes in a step; ``distribution``: calls and bytes by powers of
        two of the message's size.

    Examples
    --------
    >>> from comp_comm.configs.study import study_from
    >>> point = {"layers": 40, "hidden": 5120, "heads": 40, "vocab": 50304, "seq_len": 2048, "micro_batch": 4, "dp": 8,
    ...          "zero": 0}
    >>> answer = volume(study_from({"hardware": "h100-sxm", "set": point}))
    >>> round(answer["groups"]["dp"]["volume_bytes"] / 1e9, 1)
    52.4
    """
    plan = make_plan(study)
    step = explained(plan)
    messages = step.message_records()
    groups: dict[str, Record] = {}
    for group, record in step.group_records().items():
        sizes = [row["message_bytes"] for row in messages if row["group"] == group]
        groups[group] = {**record, "smallest_message_bytes": min(sizes), "largest_message_bytes": max(sizes)}
    about = {"meta": point_meta(plan, "volume"), "groups": groups, "messages": messages}
    return {**about, "distribution": distribution(messages)}


def distribution(messages: Sequence[MessageRecord]) -> Records:
    """Return calls and bytes of each group by the size of the message, in powers of two.

    >>> row = {"group": "tp", "message_bytes": 3.0, "calls": 2.0, "volume_bytes": 12.0, "wire_bytes": 9.0}
    >>> distribution([row])
    [{'group': 'tp', 'from_bytes': 2, 'to_bytes': 4, 'calls': 2.0, 'volume_bytes': 12.0, 'wire_bytes': 9.0}]
    """
    bins: dict[tuple[str, int], Record] = {}
    for row in messages:
        power = math.floor(math.log2(max(row["message_bytes"], 1.0)))
        empty = {"group": row["group"], "from_bytes": 2**power, "to_bytes": 2 ** (power + 1), "calls": 0.0,
                 "volume_bytes": 0.0, "wire_bytes": 0.0}  # fmt: skip
        sums = bins.setdefault((row["group"], power), empty)
        for name in ("calls", "volume_bytes", "wire_bytes"):
            sums[name] += row[name]
    return [bins[key] for key in sorted(bins, key=lambda key: (list(GROUP_TITLES).index(key[0]), key[1]))]


def volume_over(study: Study) -> tuple[Records, Record]:
    """Return a row for each point of a study and each group that communicates there, and the meta data.

    ``mean_message_bytes`` is the message of an average call. A point that breaks a rule has one row with the reason.
    """
    plan = make_plan(study)
    check_explains(plan)
    check_size(plan, None)
    inputs = plan.grid.moving
    wanted = [
        *inputs,
        "parameters",
        *(f"{group}_{name}" for group in GROUP_TITLES for name in COUNTED),
        FEASIBLE,
        REASON,
    ]
    # Whether it fits is another question: bytes on the wire are there all the same.
    unlimited = replace(plan, grid=replace(plan.grid, fixed={**plan.grid.fixed, "memory_capacity": UNLIMITED_GIB}))
    points = (point for block in row_blocks(unlimited, wanted) for point in records(block))
    rows = [row for point in points for row in _by_group(point, inputs)]
    about = meta(plan)
    return rows, {**about, "command": "volume", "units": dict.fromkeys(BYTES, "B")}


def _by_group(point: Record, inputs: Sequence[str]) -> Iterable[Record]:
    place = {name: point[name] for name in (*inputs, "parameters")}
    groups = [group for group in GROUP_TITLES if point[f"{group}_calls"]]
    for group in groups:
        counted = {name: point[f"{group}_{name}"] for name in COUNTED}
        mean = counted["message_bytes"] / counted["calls"]
        yield {**place, "group": group, **counted, "mean_message_bytes": mean, REASON: point[REASON]}
    if not groups:
        empty = dict.fromkeys(COUNTED, None if point[REASON] else 0.0)
        yield {**place, "group": None, **empty, "mean_message_bytes": None, REASON: point[REASON]}


def beside_measured(messages: Sequence[MessageRecord], measured: Sequence[Record], steps: int) -> Records:
    """Return what a log counted of each kind of collective in a step, beside what is predicted.

    ``measured`` are rows of ``collective``, ``message_bytes`` and ``calls`` over ``steps`` steps.
    """
    rows = []
    for kind in dict.fromkeys([*(row["collective"] for row in measured), *(row["collective"] for row in messages)]):
        seen = [row for row in measured if row["collective"] == kind]
        made = [row for row in messages if row["collective"] == kind]
        calls = sum(row["calls"] for row in seen) / steps
        total = sum(row["calls"] * row["message_bytes"] for row in seen) / steps
        predicted = float(np.sum([row["total_message_bytes"] for row in made]))
        rows.append({
            "collective": kind, "measured_calls": calls,
            "predicted_calls": float(np.sum([row["calls"] for row in made])),
            "measured_message_bytes": total, "predicted_message_bytes": predicted,
            "ratio": predicted / total if total else None,
        })  # fmt: skip
    return rows

"""The paper's case study (Fig 12): what is on the critical path when both kinds of communication are there.

Three scenarios of one set-up: all links intra-node; data parallelism over slower inter-node links; the same, slowed
further by interference with the compute it runs beside.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.overrides import Overrides
from comp_comm.configs.study import Study, load_study
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.plan_notes import notes
from comp_comm.sweeps.result import sweep

INFERRED = (
    "inferred: the paper's Table 3 is not in its text. Its shares, 48 % serialized and 9 % overlapped, fix TP x SL x B "
    "= 256 x 4K at H = 64K in the complete count, whatever the hardware"
)
GIVEN = "given: not the set-up inferred for the paper"
COLUMNS = (
    "scenario", "source", "inter_node_slowdown", "interference", "step_s", "compute_s", "serialized_comm_s",
    "overlappable_comm_s", "hidden_comm_s", "exposed_comm_s", "serialized_comm_fraction", "hidden_comm_fraction",
    "visible_comm_fraction",
)  # fmt: skip
SETTABLE = (
    "hidden", "seq_len", "micro_batch", "tp", "dp", "flop_vs_bw", "flops", "network", "memory_bandwidth", "precision",
    "count", "timing",
)  # fmt: skip
SLOWDOWN, INTERFERENCE = 8.0, 1.2
UNITS = {name: "s" if name.endswith("_s") else "1" for name in COLUMNS if name not in ("scenario", "source")}


def case_study(
    overrides: Overrides = (), inter_node_slowdown: float = SLOWDOWN, interference: float = INTERFERENCE
) -> tuple[Records, Record]:
    """Return the three scenarios as records, and their meta data.

    The three fractions are of the scenario's own step; ``visible_comm_fraction`` is serialized and exposed
    communication together, as everywhere. ``overrides`` are ``"key=value"``, as ``--set`` takes them.

    Examples
    --------
    >>> rows, _ = case_study()
    >>> [round(row["visible_comm_fraction"], 3) for row in rows]
    [0.478, 0.618, 0.655]
    """
    study = load_study("case-study", overrides)
    _refuse_axes(study)
    slowdowns, interferences = (1.0, inter_node_slowdown, inter_node_slowdown), (1.0, 1.0, interference)
    moving = {"inter_node_slowdown": slowdowns, "interference": interferences}
    first, *others = study.axes
    values = {name: tuple(_checked(name, value) for value in numbers) for name, numbers in moving.items()}
    study = replace(study, axes=(Axis({**first.values, **values}), *others))
    result = sweep(study)
    rows = _rows(result.columns, inter_node_slowdown, interference)
    label = INFERRED if _is_default(study) else GIVEN
    said = ["the paper's text describes the first and the third scenario; the second is ours", *notes(make_plan(study))]
    return rows, {**result.meta, "setup": label, "notes": said, "units": UNITS}


def _refuse_axes(study: Study) -> None:
    study.problems.raise_if_any()
    if len(study.axes) != 1 or study.hardware_axis:
        raise ConfigError("the case study takes one value a field; sweep the study 'case-study' for axes")


def _checked(name: str, value: float) -> float | int | str:
    try:
        return FIELDS[name].parse(value)
    except ValueError as error:
        raise ConfigError(f"{FIELDS[name].flag}: {error}") from None


def _is_default(study: Study) -> bool:
    default = load_study("case-study")
    same_hardware = [p.sha256 for p in study.profiles] == [p.sha256 for p in default.profiles]
    return same_hardware and study.fixed == default.fixed


def _rows(columns: Record, slowdown: float, interference: float) -> Records:
    step = columns["step_s"]
    shares = {
        "serialized_comm_fraction": columns["serialized_comm_s"] / step,
        "hidden_comm_fraction": columns["hidden_comm_s"] / step,
        "visible_comm_fraction": columns["visible_comm_fraction"],
    }
    apart = f"inter-node DP, {slowdown:g}x slower"
    labels = {
        "scenario": ["all intra-node", apart, f"{apart}, {interference:g}x interference"],
        "source": ["paper", "ours", "paper"],
    }
    given = {**columns, "overlappable_comm_s": columns["overlapped_comm_s"], **shares, **labels}
    lists = [np.asarray(given[name], dtype=object).tolist() for name in COLUMNS]
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*lists, strict=True)]

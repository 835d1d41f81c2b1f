"""What-ifs of the paper's sections 5 and 6: the case study before and after each of them."""

from __future__ import annotations

from dataclasses import dataclass

from comp_comm.configs.overrides import Overrides, parsed
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.sweeps.case_study import INTERFERENCE, SLOWDOWN, case_study

ALL = "all"


@dataclass(frozen=True)
class Technique:
    """A what-if: the fields it sets, what it does as a formula, and where that is from."""

    settings: tuple[str, ...]
    formula: str
    source: str


TECHNIQUES = {
    "offload": Technique(
        ("comm_offload=on",),
        "a co-processor communicates: overlapped communication is not slowed (interference 1)",
        "arXiv:2302.02825, section 5.1, technique 1",
    ),
    "in-network": Technique(
        ("in_network_reduction=on",),
        "switches reduce: a device sends m, not 2 m (n - 1) / n, and memory is accessed 2 times a byte, not "
        "5 (n - 1) / n",
        "arXiv:2302.02825, section 5.1, technique 2; Klenk et al., ISCA 2020; accesses counted by us",
    ),
    "in-memory": Technique(
        ("in_memory_reduction=on",),
        "memory adds up what arrives: 4 accesses a byte, not 5; interference falls in proportion",
        "arXiv:2302.02825, section 5.1, processing in memory (in words); accesses counted by us",
    ),
    "fused": Technique(
        ("fused_comm=on",),
        "a GEMM's output is reduced tile by tile: max(0, c - g) + min(g, c) / k of c shows",
        "arXiv:2302.02825, section 5.2 (in words); the formula of a pipeline of two stages and k tiles",
    ),
    "fp8-messages": Technique(
        ("comm_precision=fp8",),
        "messages have 8 bits an element: half of the bytes, and a latency that stays",
        "arXiv:2302.02825, section 6.1 (number formats)",
    ),
}
TOGETHER = "all together"


def choose(asked: tuple[str, ...]) -> dict[str, Technique]:
    """Return the what-ifs asked for by name; ``all`` means each of them, and all together."""
    for name in asked:
        if name != ALL and name not in TECHNIQUES:
            known = [*TECHNIQUES, ALL]
            raise ConfigError(f"--what-if: there is no '{name}'{nearest(name, known)} ({one_of(known)})")
    chosen = {name: technique for name, technique in TECHNIQUES.items() if name in asked or ALL in asked}
    if len(chosen) > 1:
        settings = tuple(setting for technique in chosen.values() for setting in technique.settings)
        chosen[TOGETHER] = Technique(settings, "the techniques above at once", "")
    return chosen


def what_if(
    asked: tuple[str, ...],
    overrides: Overrides = (),
    inter_node_slowdown: float = SLOWDOWN,
    interference: float = INTERFERENCE,
) -> tuple[Records, Record]:
    """Return the case study's scenarios before and after what-ifs, and the meta data of the case study.

    Examples
    --------
    >>> rows, _ = what_if(("in-network",))
    >>> [round(row["serialized_ratio"], 3) for row in rows]  # preset A takes a ring's factor of very many devices
    [0.5, 0.5, 0.5]
    """
    said = parsed(overrides)
    given = {each.key for each in said}
    before, meta = case_study(said, inter_node_slowdown, interference)
    rows = []
    for name, technique in choose(asked).items():
        settings = parsed(technique.settings)
        clash = sorted({each.key for each in settings} & given)
        if clash:
            raise ConfigError(f"--what-if {name} sets {', '.join(clash)}; leave out {FIELDS[clash[0]].flag}")
        after, _ = case_study([*said, *settings], inter_node_slowdown, interference)
        rows += [_row(name, technique, old, new) for old, new in zip(before, after, strict=True)]
    notes = [*meta["notes"]]
    for name, technique in choose(asked).items():
        notes += [f"{name}: {technique.formula} ({technique.source})"] if technique.source else []
    return rows, {**meta, "notes": notes}


def _row(name: str, technique: Technique, old: Record, new: Record) -> Record:
    pairs = (("step", "step_s", "s"), ("serialized", "serialized_comm_s", "s"),
             ("overlappable", "overlappable_comm_s", "s"),
             ("visible", "visible_comm_fraction", "fraction"))  # fmt: skip
    row: Record = {"what_if": name, "scenario": old["scenario"]}
    for short, key, unit in pairs:
        row |= {f"{short}_before_{unit}": old[key], f"{short}_after_{unit}": new[key]}
    ratios = {"speedup": old["step_s"] / new["step_s"],
              "serialized_ratio": new["serialized_comm_s"] / old["serialized_comm_s"]}  # fmt: skip
    return {**row, **ratios, "formula": technique.formula, "source": technique.source}

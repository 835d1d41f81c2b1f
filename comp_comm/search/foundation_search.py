"""The fastest layouts of a problem that fit: all of them are timed, on what many of them share.

Memory first: it depends on neither the network nor the placement, so what does not fit is never timed. A layer is timed
once for each way to split it and to put it on a domain; stages and replicas are then a few operations a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.foundation_layer import LayerHeld, LayerTimes
from comp_comm.costmodels.foundation_models import FoundationStep
from comp_comm.costmodels.mesh import Mesh
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.search.foundation_space import GROUPS, Numbers, Problem, Space, make_space, placements
from comp_comm.sweep.distinct import distinct_rows
from comp_comm.transformer import Transformer

BLOCK = 2**15
Record = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """The best layouts, best first, each with its seconds and bytes; layouts looked at, and those of them that fit."""

    rows: list[Record]
    candidates: int
    feasible: int


def scenario_of(problem: Problem, hardware: Hardware, **numbers: Any) -> Scenario:
    """Return the scenario of layouts of a problem: degrees, micro-batches and places are numbers or arrays."""
    p = problem
    layout = {name: numbers.pop(name) for name in ("micro_batch", "pp", "dp") if name in numbers}
    mesh = Mesh(strategy=p.strategy, formulas=p.formulas, **numbers)
    transformer = Transformer(p.hidden, p.seq_len, layers=p.layers, heads=p.heads)
    return Scenario(transformer, Layout(global_batch=p.global_batch, **layout), hardware, mesh=mesh)


def best_layouts(problem: Problem, machines: Sequence[tuple[Hardware, int]], top: int = 1) -> list[Found]:
    """Return the best layouts of a problem on each machine: hardware, and how many devices a domain has.

    Examples
    --------
    GPT-3 175B on 512 A100, four to a domain, 1,024 sequences a step.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.costmodels.mesh import ONE_D
    >>> a100 = load_profile("papers/hardware/foundation-models-a100").hardware("fp16")
    >>> best = best_layouts(Problem(ONE_D, 2048, 12288, 96, 96, 512, 1024), [(a100, 4)])[0].rows[0]
    >>> [best[name] for name in ("tp1", "pp", "dp", "micro_batch")], round(best["step_s"], 3)
    ([4, 16, 8, 1], 22.469)
    """
    space = make_space(problem)
    rows = _columns(space)
    held = FoundationStep(scenario_of(problem, machines[0][0], **rows))
    return [_best(space, rows, held, hardware, nvs, top) for hardware, nvs in machines]


def _columns(space: Space) -> dict[str, Array]:
    """Return the layouts of a space as columns."""
    degree = space.layouts["degree"]
    return {**{name: to_float(column[degree]) for name, column in space.degrees.items()},
            "micro_batch": to_float(space.layouts["micro_batch"])}  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """Candidates with the seconds of their steps: each is a row of ``layouts``, cut into ``panels``, put on domains in
    one of ``ways``. ``memory_bytes`` are those of the layouts."""

    layouts: dict[str, Array]
    memory_bytes: Array
    row: Numbers
    panels: Array
    ways: Numbers
    way: Numbers
    seconds: Array

    def at(self, place: int) -> Record:
        """Return one candidate with its seconds and bytes."""
        row = int(self.row[place])
        degrees = {name: int(column[row]) for name, column in self.layouts.items()}
        inside = {f"nv_{name}": int(part) for name, part in zip(GROUPS, self.ways[self.way[place]], strict=True)}
        return {**degrees, "summa_panels": int(self.panels[place]), **inside, "step_s": float(self.seconds[place]),
                "memory_bytes": float(self.memory_bytes[row])}  # fmt: skip


def every_layout(problem: Problem, hardware: Hardware, nvs: int) -> Timed:
    """Return every layout of a problem with its seconds, whether it fits or not.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.costmodels.mesh import ONE_D
    >>> a100 = load_profile("papers/hardware/foundation-models-a100").hardware("fp16")
    >>> found = every_layout(Problem(ONE_D, 2048, 12288, 96, 96, 512, 1024), a100, 4)
    >>> len(found.seconds), round(float(found.seconds.min()), 3)
    (1118, 18.294)
    """
    space = make_space(problem)
    rows = _columns(space)
    held = FoundationStep(scenario_of(problem, hardware, **rows))
    ways, valid = placements(space, nvs)
    return _timed(space, rows, held, hardware, (ways, valid), np.ones(len(space.layouts["degree"]), bool))


def _best(space: Space, rows: dict[str, Array], held: FoundationStep, hardware: Hardware, nvs: int, top: int) -> Found:
    ways, valid = placements(space, nvs)
    count = valid.sum(axis=1)[space.layouts["degree"]] * space.cuts
    fits = held.memory_bytes <= to_float(hardware.memory_capacity)
    found = Found([], int(count.sum()), int(count[fits].sum()))
    if not found.feasible:
        return found
    timed = _timed(space, rows, held, hardware, (ways, valid), fits)
    seconds = timed.seconds
    best = np.argsort(seconds, kind="stable")[:top] if top > 1 else [int(seconds.argmin())]
    found.rows.extend(timed.at(int(place)) for place in best)
    return found


def _timed(space: Space, rows: dict[str, Array], held: FoundationStep, hardware: Hardware,
           placed: tuple[Numbers, NDArray[np.bool_]], wanted: NDArray[np.bool_]) -> Timed:  # fmt: skip
    """Return the candidates of those rows that are wanted, with their seconds."""
    (ways, valid), degree = placed, space.layouts["degree"]
    row, cut = np.nonzero(space.panels[degree] * wanted[:, None])
    panels = to_float(space.panels[degree[row], cut])
    each, way = np.nonzero(valid[degree[row]])
    seconds = np.empty(each.size)
    if each.size:
        layer, near, pair = _layers(space, rows, hardware, (row, panels), ways)
    for start in range(0, each.size, BLOCK):
        block = slice(start, start + BLOCK)
        code = near[each[block]] * (pair.max() + 1) + pair[way[block]]
        times = LayerTimes(*(part.take(code) for part in layer))
        seconds[block] = _seconds(space, rows, held, hardware, row[each[block]], ways[way[block]], times)
    return Timed(rows, held.memory_bytes, row[each], panels[each], ways, way, seconds)


def _layers(space: Space, rows: dict[str, Array], hardware: Hardware, cut: tuple[Numbers, Array], ways: Numbers
            ) -> tuple[LayerTimes, Numbers, Numbers]:  # fmt: skip
    """Return the times of a layer for each distinct split of it and each distinct placement of its two groups; and
    which split each row, which placement each way has."""
    row, panels = cut
    columns = [rows[name][row] for name in ("tp1", "tp2", "micro_batch")]
    splits = distinct_rows([*columns, panels], row.size)
    pairs = distinct_rows([to_float(ways[:, 0]), to_float(ways[:, 1])], len(ways))
    tp1, tp2, batch, panels = (column[splits.first][:, None] for column in (*columns, panels))
    inside = to_float(ways[pairs.first].T)[:, None, :]
    step = FoundationStep(scenario_of(
        space.problem, hardware, tp1=tp1, tp2=tp2, micro_batch=batch, summa_panels=panels,
        nv_tp1=inside[0], nv_tp2=inside[1], nv_dp=1.0, nv_pp=1.0,
    ))  # fmt: skip
    shape = (splits.first.size, pairs.first.size)
    return LayerTimes(*(np.broadcast_to(part, shape).reshape(-1) for part in step.layer)), splits.row, pairs.row


def _seconds(space: Space, rows: dict[str, Array], held: FoundationStep, hardware: Hardware, row: Numbers,
             inside: Numbers, times: LayerTimes) -> Array:  # fmt: skip
    """Return the seconds of a step of some candidates."""
    picked = {name: column.take(row) for name, column in rows.items()}
    places = {f"nv_{name}": to_float(inside[:, number]) for number, name in enumerate(GROUPS)}
    holds = LayerHeld(*(part.take(row) for part in held.held))
    return FoundationStep(scenario_of(space.problem, hardware, **picked, **places), times, holds).step_s

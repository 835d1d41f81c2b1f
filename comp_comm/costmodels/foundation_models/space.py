"""The layouts that the foundation-models paper searches: groups, micro-batches and SUMMA panels, put on domains."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from comp_comm.choices import Formulas, Strategy
from comp_comm.costmodels.layout_space import (
    Columns,
    Degrees,
    LayoutQuestion,
    LayoutSpace,
    Whole,
    allowed_values,
    divisors,
    join,
    rows_of,
)
from comp_comm.field import Value
from comp_comm.formulas.arrays import Mask

LEAST_WIDTH = 128  # a device has at least so many columns of a GEMM, or tokens
LEAST_PANEL = 512  # and a SUMMA panel so many rows, unless the first choice has fewer already
GROUPS = ("tp1", "tp2", "dp", "pp")
PLACES = tuple(f"nv_{name}" for name in GROUPS)
TABLE = ("strategy", "tp1", "tp2", "pp", "dp", "micro_batch", "summa_panels", *PLACES)


@dataclass(frozen=True)
class ModelOnDevices:
    """What is searched: a model on so many devices under one strategy.

    ``only`` are columns with the values to try; the others have all that the rules allow.
    """

    strategy: int
    seq_len: int
    hidden: int
    heads: int
    layers: int
    gpus: int
    global_batch: int
    formulas: int = Formulas.AS_PUBLISHED
    only: tuple[tuple[str, tuple[Value, ...]], ...] = field(default=())

    def tries(self, name: str, values: Whole) -> Mask:
        """Return which values of a column are to be tried.

        >>> few = ModelOnDevices(Strategy.ONE_D, 2048, 12288, 96, 96, 8, 8, only=(("pp", (2, 4)),))
        >>> few.tries("pp", np.array([1, 2]))
        array([False,  True])
        """
        return allowed_values(dict(self.only).get(name, ()), values)


@lru_cache(maxsize=64)
def layouts(problem: ModelOnDevices) -> Columns:
    """Return every layout of a problem, before its groups are put on domains.

    >>> table = layouts(ModelOnDevices(Strategy.ONE_D, 2048, 12288, 96, 96, 512, 1024))
    >>> sorted(set(table["tp1"].tolist()))
    [1, 2, 4, 8, 16, 32]
    """
    p, sizes = problem, _degrees(problem)

    def divides(table: Columns, batch: Whole) -> Mask:
        parts = {
            Strategy.ONE_D: table["tp1"],
            Strategy.SUMMA: table["tp2"],
            Strategy.SEQUENCE: table["tp1"] * table["tp2"],
        }
        tokens = np.full_like(batch, p.seq_len) if p.formulas == Formulas.CORRECTED else batch * p.seq_len
        kept: Mask = (p.global_batch // table["dp"] % batch == 0) & (tokens % parts[Strategy.at(p.strategy)] == 0)
        return kept

    batches = divisors(p.global_batch)
    table = join(sizes, "micro_batch", batches[p.tries("micro_batch", batches)], divides)
    panels = panel_choices(p, table)
    row, place = np.nonzero(panels)
    return {**{name: column[row] for name, column in table.items()}, "summa_panels": panels[row, place]}


def _degrees(p: ModelOnDevices) -> Columns:
    """Return the sizes of the groups that divide the devices, the model and the batch."""
    sizes = divisors(p.gpus)
    # One dimension splits the three matrices of attention together, two split each.
    wide = (3 * p.hidden if p.strategy == Strategy.ONE_D else p.hidden) // sizes >= LEAST_WIDTH
    fits = (p.heads % sizes == 0) & (p.hidden % sizes == 0)
    table: Columns = {"tp1": sizes[fits & wide]}
    second = sizes if p.strategy != Strategy.ONE_D else sizes[:1]
    if p.strategy != Strategy.ONE_D:
        second = second[p.seq_len // second >= LEAST_WIDTH]
    if p.strategy == Strategy.SUMMA:
        second = second[p.hidden % second == 0]
    if p.formulas == Formulas.CORRECTED:
        second = second[p.seq_len % second == 0]
    table = join(table, "tp2", second, lambda t, m2: p.gpus // t["tp1"] % m2 == 0)
    table = join(table, "pp", divisors(p.layers), lambda t, pp: p.gpus // (t["tp1"] * t["tp2"]) % pp == 0)
    table["dp"] = p.gpus // (table["tp1"] * table["tp2"] * table["pp"])
    fits = p.global_batch % table["dp"] == 0
    for name, column in table.items():
        fits = fits & p.tries(name, column)
    return {name: column[fits] for name, column in table.items()}


def panel_choices(p: ModelOnDevices, table: Columns) -> Whole:
    """Return the panels of a SUMMA GEMM to try for each row: doubled from the larger group on; 1 for other strategies.

    >>> problem = ModelOnDevices(Strategy.SUMMA, 2048, 25600, 160, 128, 8, 4096)
    >>> panel_choices(problem, {"tp1": np.array([8]), "tp2": np.array([1])}).tolist()
    [[8, 16, 32, 0, 0, 0]]
    """
    first = np.maximum(table["tp1"], table["tp2"])
    if p.strategy != Strategy.SUMMA:
        return np.ones((len(first), 1), np.int64)
    given = dict(p.only).get("summa_panels", ())
    if given:
        panels = np.asarray([int(value) for value in given], np.int64)[None, :]
        return np.where((p.hidden % panels == 0) & (panels % first[:, None] == 0), panels, 0)
    panels = first[:, None] * 2 ** np.arange(max(1, (p.hidden // LEAST_PANEL).bit_length()))[None, :]
    fine = (p.hidden % panels == 0) & (p.hidden // panels >= LEAST_PANEL)
    fine[:, 0] = True
    return np.where(fine, panels, 0)


@lru_cache(maxsize=64)
def products(sizes: tuple[int, ...], most: int) -> Whole:
    """Return all ways to take a factor for each of four groups, from ``sizes``, whose product is at most ``most``.

    >>> products((1, 2), 2).tolist()
    [[1, 1, 1, 1], [1, 1, 1, 2], [1, 1, 2, 1], [1, 2, 1, 1], [2, 1, 1, 1]]
    """
    table = np.ones((1, 0), np.int64)
    factors = np.asarray(sizes, np.int64)
    for _ in GROUPS:
        table = np.column_stack([np.repeat(table, factors.size, axis=0), np.tile(factors, len(table))])
        table = table[table.prod(axis=1) <= most]
    return table


def placed(problem: ModelOnDevices, table: Columns, domain: int) -> Columns:
    """Return layouts with every way to put their groups on domains of so many devices.

    Where all devices fit into a domain, all are inside. As published, a domain is filled exactly; corrected, as far as
    the sizes of the groups allow.
    """
    ways, degree = _ways(problem, min(domain, problem.gpus)), {name: table[name] for name in GROUPS}
    size, rows = ways.prod(axis=1), rows_of(table)
    valid = np.ones((rows, len(ways)), bool)
    for number, name in enumerate(GROUPS):
        valid &= degree[name][:, None] % ways[None, :, number] == 0
    if problem.formulas == Formulas.CORRECTED:
        most = np.where(valid, size, 0).max(axis=1, initial=0)
        valid &= size == most[:, None]
    for number, name in enumerate(PLACES):
        valid &= problem.tries(name, ways[:, number])
    row, way = np.nonzero(valid)
    inside = {name: ways[way, number] for number, name in enumerate(PLACES)}
    return {**{name: column[row] for name, column in table.items()}, **inside}


def _ways(problem: ModelOnDevices, domain: int) -> Whole:
    ways = products(tuple(divisors(problem.gpus, domain).tolist()), domain)
    return ways if problem.formulas == Formulas.CORRECTED else ways[ways.prod(axis=1) == domain]


def degrees(question: LayoutQuestion) -> Degrees:
    """Return every layout of every strategy that is tried, put on domains in every way."""
    fixed, allowed = question.fixed, question.allowed
    words = tuple(map(str, allowed.get("strategy", ()) or (fixed.get("strategy", Strategy.ONE_D.word),)))
    numbers = (int(fixed[name]) for name in ("seq_len", "hidden", "heads", "layers"))
    seq_len, hidden, heads, layers = numbers
    formulas = Formulas.of(str(fixed.get("formulas", Formulas.AS_PUBLISHED.word)))
    tables = []
    for code, word in enumerate(words):
        strategy = Strategy.of(word)
        others = {"strategy"} if strategy == Strategy.SUMMA else {"strategy", "summa_panels"}
        only = tuple((name, tuple(values)) for name, values in sorted(allowed.items()) if values and name not in others)
        problem = ModelOnDevices(
            strategy, seq_len, hidden, heads, layers, question.gpus, int(fixed["global_batch"]), formulas, only
        )
        table = placed(problem, layouts(problem), int(min(question.domain, question.gpus)))
        tables.append({"strategy": np.full(rows_of(table), code), **table})
    columns = {name: np.concatenate([table[name] for table in tables]) for name in TABLE}
    return Degrees(columns, {}, {"strategy": words})


SPACE = LayoutSpace(
    coupled=TABLE,
    degrees=degrees,
    every_row_valid=True,
    searched={},
    searched_if_listed=(),
    simplest={"gpus": 1, "dp": 1, "tp1": 1, "tp2": 1, "pp": 1, "micro_batch": 1},
    derived={"accumulation": "pin dp or micro_batch instead"},
    needs_word={"summa_panels": ("strategy", "2d")},
    words_of_rules="keeps every rule of the paper (groups divide the devices, the model and the batch; a domain is "
                   "filled exactly unless 'formulas: corrected')",
    layout_columns=("gpus", "strategy", "tp1", "tp2", "pp", "dp", "micro_batch", "accumulation", "summa_panels",
                    *PLACES, "global_batch"),
    result_columns=("step_s", "tokens_per_s", "memory_gib", "visible_comm_fraction", "bubble_fraction", "compute_s",
                    "memory_bound_s", "tp_comm_s", "pp_comm_s", "dp_comm_s", "bubble_s"),
    time_columns={"compute": "compute_s", "HBM beyond compute": "memory_bound_s",
                  "tensor-parallel communication": "tp_comm_s", "pipeline sends": "pp_comm_s",
                  "data-parallel communication": "dp_comm_s", "pipeline bubble": "bubble_s"},
    objectives=("step", "tokens_per_s", "cost", "energy", "days", "gpu-hours"),
)  # fmt: skip

"""The layouts that the foundation-models paper searches, as tables: joined column by column, rule by rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.mesh import CORRECTED, ONE_D, SEQUENCE, SUMMA

Numbers = NDArray[np.int64]
Table = dict[str, Numbers]
LEAST_WIDTH = 128  # a device has at least so many columns of a GEMM, or tokens
LEAST_PANEL = 512  # and a SUMMA panel so many rows, unless the first choice has fewer already
GROUPS = ("tp1", "tp2", "dp", "pp")


@dataclass(frozen=True)
class Problem:
    """What is searched: a model on so many devices under one strategy. ``formulas`` is a code.

    ``only`` are columns with the values to try; the others have all that the rules allow.
    """

    strategy: int
    seq_len: int
    hidden: int
    heads: int
    layers: int
    gpus: int
    global_batch: int
    formulas: int = 0
    only: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def tries(self, name: str, values: Numbers) -> NDArray[np.bool_]:
        """Return which values of a column are to be tried.

        >>> Problem(ONE_D, 2048, 12288, 96, 96, 8, 8, only=(("pp", (2, 4)),)).tries("pp", np.array([1, 2]))
        array([False,  True])
        """
        wanted = dict(self.only).get(name)
        return np.ones(values.shape, bool) if wanted is None else np.isin(values, wanted)


def divisors(number: int, most: int) -> Numbers:
    """Return the divisors of a number up to ``most``, in their order.

    >>> divisors(12, 6).tolist()
    [1, 2, 3, 4, 6]
    """
    low = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return np.asarray(sorted(n for n in {*low, *(number // n for n in low)} if n <= most), np.int64)


def join(table: Table, name: str, values: Numbers, keeps: Callable[[Table, Numbers], NDArray[np.bool_]]) -> Table:
    """Return ``table`` with every value of another column beside each row, where ``keeps`` allows it.

    >>> join({"a": np.array([2, 3])}, "b", np.array([4, 6]), lambda t, b: b % t["a"] == 0)
    {'a': array([2, 2, 3]), 'b': array([4, 6, 6])}
    """
    wide = {other: column[:, None] for other, column in table.items()}
    row, place = np.nonzero(np.broadcast_to(keeps(wide, values[None, :]), (_rows(table), values.size)))
    return {**{other: column[row] for other, column in table.items()}, name: values[place]}


def _rows(table: Table) -> int:
    return len(next(iter(table.values())))


@dataclass(frozen=True)
class Space:
    """Layouts of a problem. ``degrees`` are the distinct sizes of the groups; a row of ``layouts`` has the ``degree``
    row it is of, its micro-batch, and how many ways there are to cut its SUMMA panels."""

    problem: Problem
    degrees: Table
    layouts: Table
    cuts: Numbers

    @cached_property
    def panels(self) -> Numbers:
        """The panels to try: a row for each of ``degrees``, 0 where there are no more."""
        return panel_choices(self.problem, self.degrees)


@lru_cache(maxsize=64)
def make_space(problem: Problem) -> Space:
    """Return every layout of a problem, before its groups are put on domains.

    >>> space = make_space(Problem(ONE_D, 2048, 12288, 96, 96, 512, 1024))
    >>> sorted(set(space.degrees["tp1"].tolist()))
    [1, 2, 4, 8, 16, 32]
    """
    degrees = _degrees(problem)
    index = {"degree": np.arange(_rows(degrees))}
    replicas = problem.global_batch // degrees["dp"]

    def divides(table: Table, batch: Numbers) -> NDArray[np.bool_]:
        row = table["degree"]
        parts = {ONE_D: degrees["tp1"], SUMMA: degrees["tp2"], SEQUENCE: degrees["tp1"] * degrees["tp2"]}
        right = problem.formulas == CORRECTED
        tokens = np.full_like(batch, problem.seq_len) if right else batch * problem.seq_len
        kept: NDArray[np.bool_] = (replicas[row] % batch == 0) & (tokens % parts[problem.strategy][row] == 0)
        return kept

    batches = divisors(problem.global_batch, problem.global_batch)
    layouts = join(index, "micro_batch", batches[problem.tries("micro_batch", batches)], divides)
    cuts = (panel_choices(problem, degrees) > 0).sum(axis=1)[layouts["degree"]]
    return Space(problem, degrees, layouts, cuts)


def _degrees(p: Problem) -> Table:
    """Return the sizes of the groups that divide the devices, the model and the batch."""
    found = divisors(p.gpus, p.gpus)
    # One dimension splits the three matrices of attention together, two split each.
    wide = (3 * p.hidden if p.strategy == ONE_D else p.hidden) // found >= LEAST_WIDTH
    fits = (p.heads % found == 0) & (p.hidden % found == 0)
    table: Table = {"tp1": found[fits & wide]}
    second = found if p.strategy != ONE_D else found[:1]
    if p.strategy != ONE_D:
        second = second[p.seq_len // second >= LEAST_WIDTH]
    if p.strategy == SUMMA:
        second = second[p.hidden % second == 0]
    if p.formulas == CORRECTED:
        second = second[p.seq_len % second == 0]
    table = join(table, "tp2", second, lambda t, m2: p.gpus // t["tp1"] % m2 == 0)
    stages = divisors(p.layers, p.layers)
    table = join(table, "pp", stages, lambda t, pp: p.gpus // (t["tp1"] * t["tp2"]) % pp == 0)
    replicas = p.gpus // (table["tp1"] * table["tp2"] * table["pp"])
    table["dp"] = replicas
    fits = p.global_batch % replicas == 0
    for name, column in table.items():
        fits = fits & p.tries(name, column)
    return {name: column[fits] for name, column in table.items()}


def panel_choices(p: Problem, degrees: Table) -> Numbers:
    """Return the panels of a SUMMA GEMM to try for each row: doubled from the larger group on; 1 for other strategies.

    >>> problem = Problem(SUMMA, 2048, 25600, 160, 128, 8, 4096)
    >>> panel_choices(problem, {"tp1": np.array([8]), "tp2": np.array([1])}).tolist()
    [[8, 16, 32, 0, 0, 0]]
    """
    first = np.maximum(degrees["tp1"], degrees["tp2"])
    if p.strategy != SUMMA:
        return np.ones((len(first), 1), np.int64)
    if "summa_panels" in dict(p.only):
        given = np.asarray(dict(p.only)["summa_panels"], np.int64)[None, :]
        return np.where((p.hidden % given == 0) & (given % first[:, None] == 0), given, 0)
    panels = first[:, None] * 2 ** np.arange(max(1, (p.hidden // LEAST_PANEL).bit_length()))[None, :]
    fine = (p.hidden % panels == 0) & (p.hidden // panels >= LEAST_PANEL)
    fine[:, 0] = True
    return np.where(fine, panels, 0)


@lru_cache(maxsize=64)
def products(sizes: tuple[int, ...], most: int) -> Numbers:
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


def placements(space: Space, nvs: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return ways to put the groups on domains of ``nvs`` devices, and which row of ``degrees`` has which.

    Where all devices fit into a domain, all are inside. As published, a domain is filled exactly; corrected, as far as
    the sizes of the groups allow.
    """
    p, degrees = space.problem, space.degrees
    domain = min(nvs, p.gpus)
    ways = products(tuple(divisors(p.gpus, domain).tolist()), domain)
    size = ways.prod(axis=1)
    if p.formulas != CORRECTED:
        ways, size = ways[size == domain], size[size == domain]
    valid = np.ones((_rows(degrees), len(ways)), bool)
    for number, name in enumerate(GROUPS):
        valid &= degrees[name][:, None] % ways[None, :, number] == 0
    if p.formulas == CORRECTED:
        most = np.where(valid, size, 0).max(axis=1, initial=0)
        valid &= size == most[:, None]
    for number, name in enumerate(GROUPS):
        valid &= p.tries(f"nv_{name}", ways[:, number])
    used = valid.any(axis=0)
    return ways[used], valid[:, used]

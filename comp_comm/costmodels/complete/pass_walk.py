"""The passes of a pipeline in an order in which each comes after what it needs; the steady part of it only once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.pass_order import Pass, Work, ends_of, order
from comp_comm.dataclass import dataclass, replace
from comp_comm.errors import ConfigError


class Took(NamedTuple):
    """What one thing that a stage does takes: the kinds of its passes, and which chunk of the model each is of."""

    kinds: tuple[str, ...]
    chunks: tuple[int, ...]


class Node(NamedTuple):
    """One thing that a stage does: what it takes (a number), the node before it on its stage (-1: none), and those of
    other stages that it waits for. ``done`` are nodes that nothing later asks for."""

    stage: int
    work: Work
    took: int
    before: int
    needs: tuple[int, ...]
    done: tuple[int, ...]


@dataclass(frozen=True)
class Walk:
    """The nodes of a step or of several, one right after the other.

    ``ends`` are the last nodes of every stage in each step. ``alike`` has for nodes of the steady part that which does
    the same a period before; where all of these are as far apart, ``left_out`` more periods would be, too.
    """

    nodes: tuple[Node, ...]
    took: tuple[Took, ...]
    ends: tuple[tuple[int, ...], ...]
    alike: dict[int, int]
    left_out: int


class PassSchedule(NamedTuple):
    """Which passes: a schedule, stages, chunks of a stage (of ``vpp``), and micro-batches of a step."""

    schedule: Schedule
    stages: int
    chunks: int
    steps: int

    @property
    def period(self) -> int:
        """Micro-batches after which a stage does the same again."""
        return {Schedule.INTERLEAVED: self.stages, Schedule.DUALPIPE: 2}.get(self.schedule, 1)

    def works(self) -> list[list[Work]]:
        """Return what every stage does, in order."""
        return [order(self.schedule, self.stages, self.chunks, self.steps, stage) for stage in range(self.stages)]


class _Steady(NamedTuple):
    """Where on each stage the steady part begins, how many things a period of it has, and how many periods are seen."""

    begin: list[int]
    length: int
    periods: int


@lru_cache(maxsize=64)
def whole_walk(passes: PassSchedule, repeats: int = 1) -> Walk:
    """Return the walk through all passes of so many steps.

    Raises ``ConfigError`` where passes wait for each other in a circle: there are too few micro-batches.

    >>> len(whole_walk(PassSchedule(Schedule.ONE_F_ONE_B, 4, 1, 8)).nodes)
    64
    """
    return _walk(passes, passes.works(), repeats, None)


def short_walk(passes: PassSchedule, repeats: int, settled: int) -> Walk:
    """Return a walk that leaves periods of the steady part out, the whole one where there are none to leave out.

    A larger ``settled`` has the seconds more time to become steady.

    >>> walk = short_walk(PassSchedule(Schedule.ONE_F_ONE_B, 4, 1, 1000), 1, 0)
    >>> len(walk.nodes) // 8 + walk.left_out
    1000
    """
    unit = passes.period * -(-passes.stages // (2 * passes.period))
    for begin, tail, periods in _sizes(unit, settled):
        steps = begin + (periods + 1) * passes.period + tail
        steps += (passes.steps - steps) % passes.period
        if steps >= passes.steps or passes.schedule is Schedule.GPIPE:  # which has no part that is steady
            break
        walk = _steady_walk(passes._replace(steps=steps), begin, periods, repeats)
        if walk is not None:
            return replace(walk, left_out=(passes.steps - steps) // passes.period)
    return whole_walk(passes, repeats)


@lru_cache(maxsize=512)
def _steady_walk(passes: PassSchedule, begin: int, periods: int, repeats: int) -> Walk | None:
    """Return the walk of few micro-batches, None where so many periods are not steady from ``begin`` on."""
    works = passes.works()
    steady = _steady(passes, works, begin, periods)
    return None if steady is None else _walk(passes, works, repeats, steady)


def _sizes(unit: int, settled: int) -> Iterator[tuple[int, int, int]]:
    """Yield where the steady part may begin, micro-batches after it, and periods of it, the fewest first."""
    for size in count(1):
        for tail in range(size + 1):
            for periods in (2, 3):
                yield (size + 4 * (2**settled - 1)) * unit, tail * unit, periods


def _steady(passes: PassSchedule, works: list[list[Work]], begin: int, periods: int) -> _Steady | None:
    """Return the steady part from the forward pass of micro-batch ``begin`` on, None where it is not steady there."""
    starts, length = [], 0
    for listed in works:
        places = [place for place, work in enumerate(listed) if any(each.kind == "F" for each in work)]
        first, later = (next(p for p in places if any(each.kind == "F" and each.micro_batch >= j for each in listed[p]))
                        for j in (begin, begin + passes.period))  # fmt: skip
        length = length or later - first
        end = first + periods * length
        if later - first != length or end + length > len(listed):
            return None
        shifted = [tuple(each._replace(micro_batch=each.micro_batch + passes.period) for each in work)
                   for work in listed[first:end]]  # fmt: skip
        if shifted != listed[first + length : end + length]:
            return None
        starts.append(first)
    return _Steady(starts, length, periods) if _reaches(passes, works, starts, length, periods) else None


def _reaches(passes: PassSchedule, works: list[list[Work]], starts: list[int], length: int, periods: int) -> bool:
    """Return whether what the last of some periods needs of other stages is in them, or after them."""
    firsts, lasts = ends_of(passes.schedule, passes.stages, passes.chunks)
    place = {each: (stage, number) for stage, listed in enumerate(works)
             for number, work in enumerate(listed) for each in work}  # fmt: skip
    for stage, listed in enumerate(works):
        last = starts[stage] + periods * length
        for work in listed[last : last + length]:
            for need in _needs(work, firsts, lasts):
                other, number = place[need]
                if other != stage and number < starts[other]:
                    return False
    return True


def _needs(work: Work, firsts: set[int], lasts: set[int]) -> list[Pass]:
    """Return what must be done before a work: passes of this stage or of others."""
    needed = []
    for kind, j, chunk in work:
        if kind == "W":
            needed.append(Pass("B", j, chunk))
        elif kind == "B":
            needed.append(Pass("F", j, chunk) if chunk in lasts else Pass("B", j, chunk + 1))
        elif chunk not in firsts:
            needed.append(Pass("F", j, chunk - 1))
    return [each for each in needed if each not in work]


class _Placed(NamedTuple):
    """Nodes as they are found: their stage, work, and the nodes of other stages that they wait for."""

    stage: int
    work: Work
    before: int
    needs: tuple[int, ...]


def _walk(passes: PassSchedule, works: list[list[Work]], repeats: int, steady: _Steady | None) -> Walk:
    placed, at = _placed(passes, works, repeats)
    alike: dict[int, int] = {}
    for stage, begin in enumerate(steady.begin if steady else ()):
        for again in range(repeats):
            first = again * len(works[stage]) + begin
            for place in range(first + steady.length, first + (steady.periods + 1) * steady.length):  # type: ignore[union-attr]
                alike[at[stage][place]] = at[stage][place - steady.length]  # type: ignore[union-attr]
    ends = tuple(tuple(at[stage][(again + 1) * len(each) - 1] for stage, each in enumerate(works))
                 for again in range(repeats))  # fmt: skip
    numbers: dict[Took, int] = {}
    took = [numbers.setdefault(Took(*zip(*((kind, chunk) for kind, _, chunk in node.work), strict=True)), len(numbers))
            for node in placed]  # fmt: skip
    done = _done(placed, alike, {end for each in ends for end in each})
    nodes = (Node(node.stage, node.work, kind, node.before, node.needs, gone)
             for node, kind, gone in zip(placed, took, done, strict=True))  # fmt: skip
    return Walk(tuple(nodes), tuple(numbers), ends, alike, 0)


def _placed(passes: PassSchedule, works: list[list[Work]], repeats: int) -> tuple[list[_Placed], list[list[int]]]:
    """Return nodes, and the number of each of them by stage and place."""
    firsts, lasts = ends_of(passes.schedule, passes.stages, passes.chunks)
    where: dict[tuple[int, Pass], int] = {}
    placed: list[_Placed] = []
    at: list[list[int]] = [[] for _ in works]
    while any(len(numbers) < len(listed) * repeats for numbers, listed in zip(at, works, strict=True)):
        before = len(placed)
        for stage, (numbers, listed) in enumerate(zip(at, works, strict=True)):
            while len(numbers) < len(listed) * repeats:
                again, place = divmod(len(numbers), len(listed))
                found = [where.get((again, need)) for need in _needs(listed[place], firsts, lasts)]
                if None in found:
                    break
                others = tuple(number for number in found if number is not None and placed[number].stage != stage)
                where.update({(again, each): len(placed) for each in listed[place]})
                placed.append(_Placed(stage, listed[place], numbers[-1] if numbers else -1, others))
                numbers.append(len(placed) - 1)
        if len(placed) == before:
            raise ConfigError("the passes of this schedule wait for each other: it needs more micro-batches")
    return placed, at


def _done(placed: list[_Placed], alike: dict[int, int], kept: set[int]) -> list[tuple[int, ...]]:
    """Return for every node those that it is the last to ask for."""
    last = dict(enumerate(range(len(placed))))
    for number, node in enumerate(placed):
        asked = (*node.needs, node.before, alike.get(number, -1))
        last.update({each: number for each in asked if each >= 0})
    done: list[list[int]] = [[] for _ in placed]
    for number, user in last.items():
        if number not in kept:
            done[user].append(number)
    return [tuple(each) for each in done]

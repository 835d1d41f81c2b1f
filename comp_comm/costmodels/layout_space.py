"""Which layouts a search of a cost model tries: degrees that are tied to each other, and choices that go with any."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.answer import Answer
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array
from comp_comm.violation import Mask, Violation

Whole = NDArray[np.int64]
Columns = dict[str, Whole]


class Bound(Enum):
    """What the least that a step can take is made of: the sooner it is known, the less there is in it."""

    AVERAGE = auto()  # the passes of an average stage
    SLOWEST = auto()  # the passes of the slowest stage
    UNWALKED = auto()  # all but what is only known by going through all passes of a pipeline


class SearchableAnswer(Answer):
    """An answer that a search can rank: it has a step's seconds and memory, and tells layouts from what they lack."""

    @property
    @abstractmethod
    def step_s(self) -> Array:
        """Seconds of a step."""

    def least_step_s(self, bound: Bound) -> Array | None:
        """Return the seconds that a step takes at least, where that is known without timing all of it; else None."""
        return None

    @property
    def takes_long(self) -> bool:
        """Whether the step of some point is only known by going through all passes of a pipeline."""
        return False

    def step_where(self, wanted: Mask) -> Array:
        """Return the seconds of a step where they are wanted; elsewhere perhaps infinity, if they take long to know."""
        return self.step_s

    @property
    @abstractmethod
    def memory_bytes(self) -> Array:
        """Bytes of memory of the stage that needs most."""

    @property
    @abstractmethod
    def memory_capacity(self) -> Array:
        """Bytes of memory of a device."""

    @property
    @abstractmethod
    def layout_violations(self) -> Sequence[Violation]:
        """The rules of model and layout that points break."""

    @property
    @abstractmethod
    def shape_violations(self) -> Sequence[Violation]:
        """The rules that points break, but for that of memory."""

    @abstractmethod
    def memory_record(self) -> Mapping[str, object]:
        """Return the bytes of the stage that needs most at one point, by part, in all, and what the device has."""

    def notes(self) -> list[str]:
        """Return what a reader should know of the numbers of one point."""
        return []

    @property
    def may_lack(self) -> bool:
        """Whether something of the hardware may be missing for some point, wherever its groups are placed."""
        return False

    def idle_choices(self) -> Mapping[str, Mask]:
        """Return where each choice of a layout has no effect, by the field it is about."""
        return {}


Tried = Mapping[str, tuple[Value, ...]]


class LayoutQuestion(NamedTuple):
    """What a search is about: fixed values, devices, the values allowed of each field (all where none), and domains.

    ``domain`` are the devices of the innermost network domain.
    """

    fixed: Mapping[str, Value]
    gpus: int
    allowed: Mapping[str, tuple[Value, ...]]
    domain: float


class Degrees(NamedTuple):
    """Rows of tied fields, numbers or codes of ``words``; and how many rows were dropped, by the rule they broke."""

    columns: Columns
    dropped: dict[str, int]
    words: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class LayoutSpace:
    """The layouts a search of a cost model tries.

    ``table`` are fields tied to each other, whose rows ``degrees`` makes; ``open`` are choices that are tried unless a
    study fixes them, ``of_mixtures`` those that are too (or take their place) where the model has experts, with latent
    attention ``of_latent_mixtures`` as well, ``choices`` those that are tried where it gives a list. ``placed``
    says whether rows go with every placement of groups on the network, which memory does not depend on, ``lawful`` that
    every row keeps every rule.
    ``of_others`` fit some layouts only, so that no simple one has them. ``derived``
    follow from others: a study that gives them is told what to pin instead. ``alone`` is the simplest layout, of which
    is said what is wrong with model or hardware. ``layout`` and ``results`` are the columns of a row, ``parts`` those
    that say where the time of the best goes; ``objectives`` can be asked for. ``needs_word`` names for a field the one
    of which a certain word must be tried, so that it means something. ``worthwhile`` leaves out of
    the choices those that cost something, and change nothing else. ``recipes`` are choices
    of what is trained as much as of software, tried where a study gives a list; ``helpful`` those of them that a
    scenario's formats and dispatchers allow, and that can only help. ``headroom`` is the share of the memory that is
    left free unless a search is told.
    """

    table: tuple[str, ...]
    degrees: Callable[[LayoutQuestion], Degrees]
    open: Mapping[str, tuple[Value, ...]]
    choices: tuple[str, ...]
    alone: Mapping[str, Value]
    derived: Mapping[str, str]
    layout: tuple[str, ...]
    results: tuple[str, ...]
    objectives: tuple[str, ...]
    of_mixtures: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    of_latent_mixtures: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    placed: bool = False
    lawful: bool = False
    of_others: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    needs_word: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    worthwhile: Callable[[Tried], Tried] | None = None
    recipes: tuple[str, ...] = ()
    helpful: Callable[[Scenario, Iterable[Value]], Tried] | None = None
    why_none: str = "keeps every rule"
    headroom: float = 0.0


def divisors(number: int, most: int | None = None) -> Whole:
    """Return the divisors of a number, up to ``most``, in their order.

    >>> divisors(12).tolist(), divisors(12, 5).tolist()
    ([1, 2, 3, 4, 6, 12], [1, 2, 3, 4])
    """
    low = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    both = sorted({*low, *(number // n for n in low)})
    return np.asarray([n for n in both if most is None or n <= most], np.int64)


def join(table: Columns, name: str, values: Whole, keeps: Callable[[Any, Whole], Mask]) -> Columns:
    """Return ``table`` with every value of another column beside each row, where ``keeps`` allows it.

    >>> join({"a": np.array([2, 3])}, "b", np.array([4, 6]), lambda t, b: b % t["a"] == 0)
    {'a': array([2, 2, 3]), 'b': array([4, 6, 6])}
    """
    wide = {other: column[:, None] for other, column in table.items()}
    row, place = np.nonzero(np.broadcast_to(keeps(wide, values[None, :]), (rows_of(table), values.size)))
    return {**{other: column[row] for other, column in table.items()}, name: values[place]}


def rows_of(table: Columns) -> int:
    """Return how many rows a table has."""
    return len(next(iter(table.values())))


def tries(allowed: Iterable[Value], values: Whole) -> Mask:
    """Return which values are to be tried: all, where none are named."""
    wanted = [int(value) for value in allowed]
    return np.isin(values, wanted) if wanted else np.ones(values.shape, bool)

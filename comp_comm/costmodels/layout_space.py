"""What a cost model tells a search: which layouts there are, and the answer that layouts can be ranked by.

The only link between the two: `searches` knows no cost model by name, and a cost model knows nothing of searches. A
model with a `LayoutSpace` and answers that are `SearchableAnswer` can be searched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.answer import Answer
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, Mask
from comp_comm.structs import struct
from comp_comm.violation import Violation

Whole = NDArray[np.int64]
Columns = dict[str, Whole]


class Bound(Enum):
    """Lower bounds of the seconds of a step, the loosest and cheapest first: what each is made of.

    A search asks for a closer one only of the layouts that the one before left over.
    """

    AVERAGE = auto()  # the passes of an average stage
    SLOWEST = auto()  # the passes of the slowest stage
    CLOSED_FORMS = auto()  # all that closed forms tell; what only a longest path through all passes tells is left out


class SearchableAnswer(Answer):
    """An answer that a search can rank: it has a step's seconds and memory, bounds of them, and the rules it breaks."""

    @property
    @abstractmethod
    def step_s(self) -> Array:
        """Seconds of a step."""

    def least_step_s(self, bound: Bound) -> Array | None:
        """Return a lower bound of the seconds of a step that costs less than ``step_s``; None where there is none."""
        return None

    @property
    def needs_longest_path(self) -> bool:
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


ChoiceValues = Mapping[str, tuple[Value, ...]]  # the values that are tried of each choice, by its field


class LayoutQuestion(NamedTuple):
    """What the table of degrees of a search is asked for."""

    fixed: Mapping[str, Value]  # fields that have one value, those of the model among them
    gpus: int
    allowed: Mapping[str, tuple[Value, ...]]  # the values that a study lists of a field; none where all may be tried
    domain: float  # devices of the innermost network domain


class Degrees(NamedTuple):
    """A table of coupled fields: each row is a combination that keeps the rules about them."""

    columns: Columns  # numbers, or codes of ``words``
    dropped: dict[str, int]  # how many rows each rule cost
    words: Mapping[str, tuple[str, ...]] = {}  # of the columns that are choices


@struct
class LayoutSpace:
    """What a cost model says about its layouts, for a search to try them: which there are, what of them is reported.

    Two kinds of fields make a layout. *Coupled* fields (degrees, micro-batch) must divide the devices, the batch and
    the model together; only ``degrees`` knows which combinations do. *Choices* (ZeRO, recomputation, overlaps) are
    independent: each of their values goes with every row of degrees, but where a rule says otherwise. A study may fix
    any of them, or list the values to try.
    """

    _: KW_ONLY
    # -- the table of degrees: coupled fields, and what makes their rows
    coupled: tuple[str, ...]
    degrees: Callable[[LayoutQuestion], Degrees]
    # Whether every row keeps every rule with every choice, so that a search need not evaluate the rules.
    every_row_valid: bool = False
    # Whether each row goes with every order of groups on the network. Memory must not depend on the order: a search
    # evaluates it once for all of them.
    placed: bool = False

    # -- choices
    # Those that are tried with these values unless the study gives others.
    searched: ChoiceValues
    # Tried as well, or in the place of the same field above, where the model has experts; and where it has latent
    # attention (MLA) besides.
    searched_with_experts: ChoiceValues = field(default_factory=dict)
    searched_with_experts_and_mla: ChoiceValues = field(default_factory=dict)
    # Those that have their default unless the study lists values: to try all of them would multiply the space.
    searched_if_listed: tuple[str, ...]
    # The same for number formats, which change what is trained and not only how fast: never tried unasked.
    formats_if_listed: tuple[str, ...] = ()
    # Leaves out values that are dominated: given the other choices, they cost time and save nothing.
    without_dominated: Callable[[ChoiceValues], ChoiceValues] | None = None
    # Values that dominate all others, by a scenario's formats and the dispatchers of tokens: chosen unasked.
    dominant: Callable[[Scenario, Iterable[Value]], ChoiceValues] | None = None

    # -- what is wrong with a study
    # A layout that every model and machine allows: what is wrong with any layout is found, and told, at this one.
    simplest: Mapping[str, Value]
    # Fields that the simplest layout cannot have, and others can (a list of layers by stage, say): not checked there.
    not_in_simplest: tuple[str, ...] = ()
    # Fields that follow from others: a study that gives one is refused, with these words on what to pin instead.
    derived: Mapping[str, str]
    # Fields that mean something only where another has a certain word, which must be tried then.
    needs_word: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # What no layout does where there is none, to end the sentence "no layout on 8 devices ...".
    words_of_rules: str = "keeps every rule"

    # -- what is reported
    # Columns of a row of the answer: of the layout, then of its results.
    layout_columns: tuple[str, ...]
    result_columns: tuple[str, ...]
    # Where the step of the best goes: columns by what they are called.
    time_columns: Mapping[str, str] = field(default_factory=dict)
    # What can be optimised, by the names of ``--objective``: not all models have all columns.
    objectives: tuple[str, ...]
    # The share of the memory that is left free unless a search is told.
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
    """Return ``table`` with another column: each row with every value of it that ``keeps`` allows there.

    >>> join({"a": np.array([2, 3])}, "b", np.array([4, 6]), lambda t, b: b % t["a"] == 0)
    {'a': array([2, 2, 3]), 'b': array([4, 6, 6])}
    """
    wide = {other: column[:, None] for other, column in table.items()}
    row, place = np.nonzero(np.broadcast_to(keeps(wide, values[None, :]), (rows_of(table), values.size)))
    return {**{other: column[row] for other, column in table.items()}, name: values[place]}


def rows_of(table: Columns) -> int:
    """Return how many rows a table has."""
    return len(next(iter(table.values())))


def allowed_values(allowed: Iterable[Value], values: Whole) -> Mask:
    """Return which values may be tried, of those ``allowed``: all, where none are named."""
    wanted = [int(value) for value in allowed]
    return np.isin(values, wanted) if wanted else np.ones(values.shape, bool)

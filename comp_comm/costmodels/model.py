"""What a cost model is: the function, and everything about it that others ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from comp_comm.costmodels.answer import Answer, Columns
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import Array

if TYPE_CHECKING:
    from comp_comm.costmodels.layout_space import LayoutSpace
    from comp_comm.group import Group
    from comp_comm.hardware.numbers import Timing
    from comp_comm.layout import Layout
    from comp_comm.transformer import Transformer

Parts = Mapping[str, object]
NO_PARTS: Parts = {}


@dataclass(frozen=True)
class SharedPart:
    """A part of a cost model's arithmetic that many layouts of a table have in common.

    It is made of a scenario, and of other parts as its own rows share them; it does not depend on the fields it
    ``ignores``. Of where devices are on the network it depends on how many members of some ``groups`` share a domain:
    those of a resolved layout, of a model that has experts or not. It is shared where the fields it ``needs`` are
    given; ``by_block`` says to make it for the points of a block alone, where those that share it are near each other
    and it is large.
    """

    make: Callable[[Scenario, Parts], object]
    ignores: tuple[str, ...]
    groups: Callable[[Layout, bool], Sequence[Group]] | None = None
    needs: tuple[str, ...] = ()
    by_block: bool = False


class Asked(Protocol):
    """What a cost model may know of a study, to say what a reader should know."""

    @property
    def names(self) -> Sequence[str]:
        """Fields that have a value."""

    @property
    def given(self) -> Mapping[str, object]:
        """Fields and keys that the study itself gives."""

    @property
    def model_name(self) -> str | None:
        """The name of the study's model, if it has one."""

    @property
    def model_fields(self) -> Mapping[str, Value]:
        """What that model says."""

    @property
    def names_no_model(self) -> bool:
        """Whether the study leaves it open which cost model is meant."""

    def words(self, name: str) -> Sequence[str]:
        """Return the words that a choice has in the study, its default where it is not given."""

    @property
    def transformer(self) -> Transformer:
        """The study's transformer at the two ends of every axis."""

    @property
    def timings(self) -> Sequence[Timing]:
        """How work becomes time on the study's devices."""

    @property
    def memory_scalings(self) -> Sequence[float]:
        """Where TP follows from Eq 10 of arXiv:2302.02825: the scalings of memory it follows from. Else none."""


def _nothing(asked: Asked) -> list[str]:
    return []


def _unclaimed(given: Mapping[str, Value], stated: frozenset[str], suffices: bool) -> bool:
    return False


@dataclass(frozen=True)
class CostModel:
    """A cost model: its function, the fields it models, those it cannot do without, and the columns it gives.

    ``ranking`` is the column rows are ranked by, ``headline`` the one a table shows, ``shown`` the inputs a row always
    has, ``derived`` those of them that the answer gives, since they follow from others. ``defaults`` are its own,
    ``needs`` names for a field the one without which it means nothing, and ``needs_word`` the one that must have a
    certain word. ``plain_gpt`` says that it takes any model for one, and that its notes say so; else a model with
    an essential field that it does not take is refused. ``for_required_tp`` are fields it reads only to derive
    ``tp: required``; ``base_timing`` says that presets of a profile are not for it, ``own_hardware`` that it has a
    device where a study names none, ``explains`` that its answers are `ExplainedAnswer`.

    ``parts`` are the costly parts of its arithmetic that many layouts have in common, ``space`` the layouts that a
    search of it tries. ``phases`` are cost models of their own for a word of the field ``phase``. ``claims`` says of
    a study that names no cost model whether it is this one's: of the values it has, of the fields that it states
    itself, and whether its values suffice for the default cost model.
    """

    name: str
    summary: str
    evaluate: Callable[[Scenario, Parts], Answer]
    fields: tuple[str, ...]
    required: tuple[str, ...]
    columns: Columns[Any]
    ranking: str
    headline: str
    shown: tuple[str, ...]
    derived: Mapping[str, Callable[[Any], Array]] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    needs_word: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    for_required_tp: tuple[str, ...] = ()
    plain_gpt: bool = False
    base_timing: bool = False
    own_hardware: bool = False
    explains: bool = False
    parts: Mapping[str, SharedPart] = field(default_factory=dict)
    space: LayoutSpace | None = None
    phases: Mapping[str, CostModel] = field(default_factory=dict)
    claims: Callable[[Mapping[str, Value], frozenset[str], bool], bool] = _unclaimed
    notes: Callable[[Asked], list[str]] = _nothing

    def default(self, name: str) -> Value | None:
        """Return what a field is where a study does not give it (None: it follows from others, or is not needed)."""
        return self.defaults.get(name, FIELDS[name].default)

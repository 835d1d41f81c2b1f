"""What a cost model is: the function, and everything about it that others ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from comp_comm.costmodels.answer import Answer, Columns
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import Array
from comp_comm.structs import struct

if TYPE_CHECKING:
    from comp_comm.costmodels.layout_space import LayoutSpace
    from comp_comm.group import Group
    from comp_comm.hardware.numbers import Timing
    from comp_comm.layout import Layout
    from comp_comm.transformer import Transformer

Parts = Mapping[str, object]
NO_PARTS: Parts = {}


@struct
class SharedPart:
    """A part of a cost model's arithmetic that many layouts of a table have in common (see `sweeps.shared_parts`)."""

    # Makes it of a scenario, and of other parts as its own rows share them.
    make: Callable[[Scenario, Parts], object]
    # Fields that it does not depend on: layouts that differ in these alone share it.
    ignores: tuple[str, ...]
    # The groups, of a resolved layout and a model that has experts or not, whose place on the network matters: of that
    # it depends only on how many of their members share a domain.
    groups: Callable[[Layout, bool], Sequence[Group]] | None = None
    needs: tuple[str, ...] = ()  # fields that must be given for it to be shared
    # Whether to make it for the points of a block alone: where layouts that share it are neighbours, and it is large.
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


def _unclaimed(given: Mapping[str, Value], stated: frozenset[str]) -> bool:
    return False


@struct
class CostModel:
    """A cost model, as the rooms above it use one: its function, and what they have to know to call it.

    Sweeps, searches and commands ask these fields and never the model's name: a model is added without a change to
    them.
    """

    name: str
    summary: str
    # The answer for a scenario. Parts that many points share are given where they are known; else it makes them.
    evaluate: Callable[[Scenario, Parts], Answer]
    fields: tuple[str, ...]  # those it models: any other that a study gives is refused
    required: tuple[str, ...]  # those it cannot do without
    columns: Columns[Any]  # the columns it gives, by name
    ranking: str  # the column that rows are ranked by where nothing is said
    headline: str  # the column that a table shows
    shown: tuple[str, ...]  # inputs that a row always has
    # Inputs that follow from others, where the study does not give them: how they are taken from an answer.
    derived: Mapping[str, Callable[[Any], Array]] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)  # where they differ from the table of fields
    # For a field, another without which it means nothing, or which must have a certain word.
    needs: Mapping[str, str] = field(default_factory=dict)
    needs_word: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    for_required_tp: tuple[str, ...] = ()  # fields that are read only to derive ``tp: required``
    # Whether it takes any model for a plain GPT, and says so in its notes. Otherwise a model with an essential field
    # that it does not model is refused.
    plain_gpt: bool = False
    base_timing: bool = False  # whether presets of a profile are not for it
    own_hardware: bool = False  # whether it has a device where a study names none
    explains: bool = False  # whether its answers are `ExplainedAnswer`
    measured: bool = False  # whether the seconds of its steps have an interval, found on published runs
    # The costly parts of its arithmetic that many layouts have in common (`sweeps.shared_parts`).
    parts: Mapping[str, SharedPart] = field(default_factory=dict)
    space: LayoutSpace | None = None  # the layouts that a search tries; None where it has no search
    phases: Mapping[str, str] = field(default_factory=dict)  # cost models of their own, by word of the field ``phase``
    # Whether a study that names no cost model, and cannot be of the default one, is this one's: by the values it has,
    # and the fields that it states itself.
    claims: Callable[[Mapping[str, Value], frozenset[str]], bool] = _unclaimed
    notes: Callable[[Asked], list[str]] = _nothing  # what a reader should know of a study's answers

    def default(self, name: str) -> Value | None:
        """Return what a field is where a study does not give it (None: it follows from others, or is not needed)."""
        return self.defaults.get(name, FIELDS[name].default)

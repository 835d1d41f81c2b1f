"""Answers that can be explained: operation by operation, message by message."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.costmodels.records import GroupRecord, MemoryRecord, MessageRecord, StepRecord
from comp_comm.hardware.numbers import Hardware

if TYPE_CHECKING:
    from comp_comm.costmodels.timeline import Timeline


class ExplainedAnswer(SearchableAnswer):
    """An answer at one point that says where everything in it comes from."""

    @property
    @abstractmethod
    def hardware(self) -> Hardware:
        """The hardware asked for."""

    @abstractmethod
    def record(self) -> StepRecord:
        """Return everything about the step."""

    @abstractmethod
    def timeline(self) -> Timeline:
        """Return what every stage does when. Raises ``ConfigError`` for a schedule whose passes are not known."""

    @abstractmethod
    def memory_record(self) -> MemoryRecord:
        """Return the bytes of the stage that needs most, by part."""

    @abstractmethod
    def group_records(self) -> Mapping[str, GroupRecord]:
        """Return the communication of every parallel group."""

    @abstractmethod
    def message_records(self) -> Sequence[MessageRecord]:
        """Return every collective with its calls and bytes."""

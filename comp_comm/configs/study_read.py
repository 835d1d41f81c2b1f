"""A study as it was read, with what was wrong so far."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from comp_comm.configs.axes import Axis
from comp_comm.configs.batch import BATCH
from comp_comm.configs.model_file import Model
from comp_comm.configs.model_names import DIMENSIONS
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.configs.study_title import COMMAND_LINE
from comp_comm.errors import Problem, Problems
from comp_comm.fields import FIELDS, Value
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record

BRINGS = "; --model NAME gives what a model is ('compcomm models list')"


@dataclass
class Study:
    """A study as read. ``fixed`` and ``axes`` hold parsed values; ``origins`` says where each field was given.

    ``hardware_assumed`` says that a command took a device that nobody gave.

    ``stacked`` are fields that are fixed because its stack, or the file that a search is written as, says so, with all
    values that a search tries. ``problems`` is what was wrong so far: planning adds to it and raises everything
    together. ``notes`` are what a reader should know of how it was read: which device a short name was taken for, what
    a new model left behind.
    """

    title: str
    cost_model: str | None
    profiles: tuple[Profile, ...]
    hardware_axis: bool
    hardware_given: bool
    hardware_assumed: bool = field(default=False, kw_only=True)
    model: Model | None
    model_failed: bool
    fixed: dict[str, Value]
    axes: tuple[Axis, ...]
    where: tuple[str, ...]
    table: Record
    plot: Record
    origins: dict[str, tuple[Document, Path]]
    document: Document
    problems: Problems = field(default_factory=Problems)
    notes: tuple[str, ...] = ()
    stacked: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    def problem(self, name: str, message: str) -> None:
        """Note a problem with a field, at the place where it was given, or where the stack was that gives it."""
        if name in self.stacked and "stack" in self.fixed:
            message, name = f"{message} (stack {self.fixed['stack']} gives {name} {self.stacked[name][0]})", "stack"
        document, path = self.origins.get(name, (self.document, (name,) if name in self.document.data else ()))
        self.problems.add(document.problem(path, message) if path else Problem(message, file=self.document.file))

    def missing(self, *names: str, hint: str = "") -> None:
        """Note that fields are missing, and how they are given: by flags alone to who gave flags alone."""
        for number, name in enumerate(names):
            flags = f"{FIELDS[name].flag}{' or --batch-tokens' if name == BATCH else ''}"
            how = flags if self.document.file == COMMAND_LINE else f"it under 'set' or 'sweep', or {flags}"
            brings = BRINGS if not number and name in DIMENSIONS and self.model is None else ""
            self.problem(name, f"'{name}' is missing: give {how} ({FIELDS[name].help}){hint}{brings}")

    def problem_at(self, path: Path, message: str) -> None:
        """Note a problem at a key of the study itself."""
        self.problems.add(self.document.problem(path, message))

    def resolved(self) -> Record:
        """Return everything that decides the answer, in a fixed form (for digests)."""
        return {
            "cost_model": self.cost_model,
            "hardware": [profile.sha256 for profile in self.profiles],
            "fixed": dict(sorted(self.fixed.items())),
            "axes": [{name: list(values) for name, values in axis.values.items()} for axis in self.axes],
            "where": list(self.where),
        }

    def sha256(self) -> str:
        """Return the digest of `resolved`."""
        return hashlib.sha256(json.dumps(self.resolved(), sort_keys=True).encode()).hexdigest()

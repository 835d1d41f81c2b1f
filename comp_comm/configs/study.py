"""Reading a study: what is fixed, what is swept, on which hardware, and how the answer is shown.

Here a study is checked against the field table; what only its cost model knows (which fields it models, which
columns it gives) is checked where the study is planned, and shown together with what was found here.
"""

from __future__ import annotations

from typing import Any

from comp_comm.configs import catalogue
from comp_comm.configs.axes import Axis, is_range, read_axis, read_table, read_value, without
from comp_comm.configs.batch import BATCH, LENGTH, TOKENS, BatchReader, doubtful
from comp_comm.configs.file_kinds import STUDY, check_kind
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.model_file import Model, load_model
from comp_comm.configs.overrides import TOP_LEVEL_SETS, Overrides, read_overrides
from comp_comm.configs.reader import Reader
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.configs.study_read import Study
from comp_comm.configs.study_title import COMMAND_LINE, title_of
from comp_comm.errors import ConfigError, Problems
from comp_comm.fields import FIELDS, Value, unknown_field
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record

KEYS = ("title", "cost_model", "hardware", "model", "set", "sweep", "zip", "where", "table", "plot")
TABLE_KEYS = ("rows", "columns", "value", "per")
PLOT_KEYS = ("kind", "x", "y", "lines", "value", "per", "only")
DEFAULT_HARDWARE = "mi210"
__all__ = ["Study", "as_study", "load_study", "read_study", "study_from"]


def load_study(reference: str, overrides: Overrides = ()) -> Study:
    """Return the study a path or a catalogue name means, with ``overrides`` applied.

    An override is ``"tp=16"``, as ``--set`` takes it, or ``"--tp=16"`` where it came from a flag of its own.

    Raises ``ConfigError`` where the file cannot be read; problems inside it are kept in the study.
    """
    document = catalogue.read("study", reference)
    check_kind(STUDY, document)
    return read_study(document, overrides)


def study_from(data: Record, name: str = COMMAND_LINE, overrides: Overrides = ()) -> Study:
    """Return the study that a mapping of the same form means."""
    return read_study(Document(data, name), overrides)


def as_study(study: str | Record | Study, overrides: Overrides = ()) -> Study:
    """Return a study from a path, a catalogue name, a mapping, or one already read."""
    if isinstance(study, Study):
        return study
    return load_study(study, overrides) if isinstance(study, str) else study_from(study, "study", overrides)


def read_study(document: Document, overrides: Overrides = ()) -> Study:
    """Return the study in a parsed document (see `load_study`)."""
    return _Reader(document, overrides).study()


class _Reader(Reader):
    def __init__(self, document: Document, overrides: Overrides) -> None:
        super().__init__(document, Problems())
        self.origins: dict[str, tuple[Document, Path]] = {}
        self.overrides = read_overrides(overrides)
        self.fixed: dict[str, Value] = {}
        self.axes: list[Axis] = []
        self.notes: list[str] = []
        self.model_failed = False

    def study(self) -> Study:
        data = self.document.data
        for name in data.keys() & FIELDS.keys():
            self._problem((name,), "is a field: it goes under 'set', or with several values under 'sweep'")
        self._known((), {name: value for name, value in data.items() if name not in FIELDS}, KEYS)
        profiles, many = self._profiles()
        model = self._model()
        self.model_failed = model is None and ("model" in self.document.data or "model" in self.overrides)
        if model:
            self.fixed |= model.fields
        self._fixed()
        self._zip()
        for name, raw in self._mapping(("sweep",)).items():
            values = self._axis(("sweep", name), name, raw)
            if values:
                self.axes.append(Axis({name: values}))
        self._apply_overrides()
        self._batch()
        for axis in self.axes:
            for name in axis.values:
                self.fixed.pop(name, None)
        return Study(
            title=title_of(self._text("title", ""), self.document.file, self.overrides, model, profiles, self.fixed),
            cost_model=self._cost_model(),
            profiles=profiles,
            hardware_axis=many,
            hardware_given=self.hardware_given,
            model=model,
            model_failed=self.model_failed,
            fixed=self.fixed,
            axes=tuple(self.axes),
            where=self._where(),
            table=self._view("table", TABLE_KEYS),
            plot=self._view("plot", PLOT_KEYS),
            origins=self.origins,
            document=self.document,
            problems=self.problems,
            notes=tuple(self.notes),
        )

    def _given(self, key: str) -> tuple[Any, Document]:
        """Return a top-level value and the document it is from, ``--set`` first."""
        document = self.overrides.get(key, self.document)
        if key in self.overrides:
            self.origins[key] = (document, (key,))
        if document.data.get(key, "") in (None, "") and key in document.data:
            self.problems.add(document.problem((key,), "is empty; leave it out for the default"))
        return document.data.get(key), document

    def _cost_model(self) -> str | None:
        given, document = self._given("cost_model")
        if given is not None and not isinstance(given, str):
            self.problems.add(document.problem(("cost_model",), "must be text"))
            return None
        return given

    def _profiles(self) -> tuple[tuple[Profile, ...], bool]:
        given, document = self._given("hardware")
        self.hardware_given = given not in (None, "")
        given = given if self.hardware_given else DEFAULT_HARDWARE
        references = given if isinstance(given, list) else [given]
        profiles = []
        for index, reference in enumerate(references):
            path: Path = ("hardware", index) if isinstance(given, list) else ("hardware",)
            if not isinstance(reference, str):
                self.problems.add(document.problem(path, "must be a catalogue name or a path"))
                continue
            profile = self._from_file(document, path, load_profile, reference)
            if profile is not None:
                profiles.append(profile)
                others = catalogue.variants(reference)
                if others:
                    self.notes.append(f"{reference} is {profile.name} (others: {', '.join(others)})")
        if not references:
            self.problems.add(document.problem(("hardware",), "is empty: an axis needs at least one value"))
        if len({profile.name for profile in profiles}) < len(profiles):
            self.problems.add(document.problem(("hardware",), "names the same profile twice"))
        return tuple(profiles), isinstance(given, list)

    def _model(self) -> Model | None:
        given, document = self._given("model")
        if given is None or given == "":
            return None
        if not isinstance(given, str):
            self.problems.add(document.problem(("model",), "must be a catalogue name or a path"))
            return None
        model: Model | None = self._from_file(document, ("model",), load_model, given)
        if model and model.study:  # a file of another tool: what was assumed of it
            known = {*self._mapping(("set",)), *self._mapping(("sweep",)), *self.overrides}
            self.notes += [text for text in model.notes if not (text.startswith(LENGTH) and LENGTH in known)]
        return model

    def _from_file(self, document: Document, path: Path, loader: Any, reference: str) -> Any:
        """Load another file; its own problems keep their place, an unknown name gets the place it is used at."""
        try:
            return loader(reference, self.document.file)
        except ConfigError as error:
            for problem in error.problems:
                self.problems.add(problem if problem.file else document.problem(path, problem.message))
            return None

    def _field(self, document: Document, path: Path, name: str) -> bool:
        if name in FIELDS:
            if name in self.origins:
                other, place = self.origins[name]
                line = f" (line {other.lines[place]})" if place in other.lines else ""
                self.problems.add(document.problem(path, f"{name} is already given under '{place[0]}'{line}"))
                return False
            self.origins[name] = (document, path)
            return True
        at_top = name in TOP_LEVEL_SETS and name != TOKENS
        own = f"is no field but a key of its own: '{name}:' beside '{path[0]}'" if at_top else unknown_field(name)
        self.problems.add(document.problem(path, own))
        return False

    def _fixed(self) -> None:
        for name, raw in self._mapping(("set",)).items():
            if self._field(self.document, ("set", name), name):
                value = read_value(self.document, ("set", name), raw, FIELDS[name], self.problems)
                if value is not None:
                    self.fixed[name] = value

    def _axis(self, path: Path, name: str, raw: Any) -> tuple[Value, ...]:
        if not self._field(self.document, path, name):
            return ()
        return read_axis(self.document, path, raw, FIELDS[name], self.problems)

    def _zip(self) -> None:
        document = self.document
        columns = read_table(document, lambda name: self._field(document, ("zip", 0, name), name), self.problems)
        if columns:
            self.axes.append(Axis(columns))

    def _apply_overrides(self) -> None:
        if {"model", "tokens"} & set(self.overrides) == {"model"} and self.fixed.pop("tokens", None) is not None:
            self.origins.pop("tokens")
            self.notes.append("the study's tokens are of another model's run, and left out (--tokens gives them)")
        for name, document in self.overrides.items():
            if name in TOP_LEVEL_SETS:
                continue
            self._forget(name)
            self.origins[name] = (document, (name,))
            raw = document.data[name]
            if isinstance(raw, (list, dict)) or is_range(raw, FIELDS[name]):
                values = read_axis(document, (name,), raw, FIELDS[name], self.problems)
                if values:
                    self.axes.append(Axis({name: values}))
                continue
            value = read_value(document, (name,), raw, FIELDS[name], self.problems)
            if value is not None:
                self.fixed[name] = value

    def _batch(self) -> None:
        """Put a batch in tokens in the place of one in sequences; say where one in sequences is absurd."""
        if TOKENS in self.overrides:
            document = self.overrides[TOKENS]
            if BATCH in self.overrides:
                self.problems.add(
                    document.problem((TOKENS,), "stands in the place of --global-batch: give one of them")
                )
            self._forget(BATCH)
            self.origins[BATCH] = (document, (TOKENS,))
            reader = BatchReader(document, self.problems, self.model_failed)
            value, self.axes = reader.read(self.fixed, self.axes)
            self.fixed |= {} if value is None else {BATCH: value}
            return
        given = self.overrides[BATCH].data[BATCH] if BATCH in self.overrides else None
        said = doubtful(self.fixed, self.axes, given) if BATCH in self.origins else None
        self.notes += [said] if said else []

    def _forget(self, name: str) -> None:
        """Drop what the study says of a field: ``--set`` replaces it."""
        self.fixed.pop(name, None)
        self.axes = without(self.axes, name)

    def _where(self) -> tuple[str, ...]:
        given = self.document.data.get("where", [])
        conditions = [given] if isinstance(given, str) else given
        if not isinstance(conditions, list) or not all(isinstance(text, str) for text in conditions):
            self._problem(("where",), 'must be a list of comparisons, such as "tp <= 64"')
            return ()
        return tuple(conditions)

    def _view(self, key: str, allowed: tuple[str, ...]) -> Record:
        view = self._mapping((key,))
        self._known((key,), view, allowed)
        return view

"""Reading a model (its published dimensions) from YAML."""

from __future__ import annotations

from dataclasses import dataclass

from comp_comm.configs import catalogue
from comp_comm.configs.axes import read_value
from comp_comm.configs.reader import Reader
from comp_comm.errors import Problems
from comp_comm.fields import FIELDS, Value

DIMENSIONS = tuple(name for name, field in FIELDS.items() if field.group == "transformer")
KEYS = ("name", "title", "source", "year", "notes", *DIMENSIONS)


@dataclass(frozen=True)
class Model:
    """A published model: its fields, and where they are from. ``notes`` say what the source has wrong."""

    name: str
    title: str
    year: int
    source: str
    fields: dict[str, Value]
    notes: tuple[str, ...] = ()


def load_model(reference: str, beside: str = "") -> Model:
    """Return the model a catalogue name or a path means. Raises ``ConfigError`` with every problem in it."""
    reader = _Reader(catalogue.read("model", reference, beside), Problems())
    model = reader.model()
    reader.problems.raise_if_any()
    return model


class _Reader(Reader):
    def model(self) -> Model:
        self._known((), self.document.data, KEYS)
        name = self.document.file.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return Model(
            name=self._text("name", name),
            title=self._text("title", name),
            year=self._whole("year"),
            source=self._text("source", ""),
            fields=self._fields(),
            notes=self._notes(),
        )

    def _fields(self) -> dict[str, Value]:
        found = {}
        for key in (key for key in DIMENSIONS if key in self.document.data):
            value = read_value(self.document, (key,), self.document.data[key], FIELDS[key], self.problems)
            if value is not None:
                found[key] = value
        return found

    def _whole(self, key: str) -> int:
        value = self.document.data.get(key, 0)
        if key in self.document.data and (type(value) is not int or value < 1):
            self._problem((key,), "must be a whole number of at least 1")
            return 0
        return int(value)

    def _notes(self) -> tuple[str, ...]:
        notes = self.document.data.get("notes", [])
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            self._problem(("notes",), "must be a list of texts")
            return ()
        return tuple(notes)

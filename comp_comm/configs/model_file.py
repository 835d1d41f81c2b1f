"""Reading a model (its published dimensions) from YAML."""

from __future__ import annotations

from dataclasses import dataclass

from comp_comm.configs import catalogue
from comp_comm.configs.axes import read_value
from comp_comm.configs.reader import Reader
from comp_comm.errors import Problems
from comp_comm.fields import FIELDS, Value

# Dimensions of a model that are published but that no cost model here reads as a field of a study.
DIMENSIONS = ("heads", "ffn_hidden")
KEYS = (
    "name", "title", "architecture", "source", "year", "notes", "layers", "hidden", "seq_len", "parameters", *DIMENSIONS
)  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A published model: its fields, and where they are from. ``notes`` say what the source has wrong."""

    name: str
    title: str
    year: int
    architecture: str
    source: str
    fields: dict[str, Value]
    dimensions: dict[str, int]
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
            architecture=self._text("architecture", ""),
            source=self._text("source", ""),
            fields=self._fields(),
            dimensions={key: self._whole(key) for key in DIMENSIONS if key in self.document.data},
            notes=self._notes(),
        )

    def _fields(self) -> dict[str, Value]:
        found = {}
        for key in (key for key in KEYS if key in FIELDS and key in self.document.data):
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

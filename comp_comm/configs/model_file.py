"""Reading a model (its published dimensions) from YAML, or from a file of another kind that describes one."""

from __future__ import annotations

from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.configs import catalogue, model_names, strict_yaml
from comp_comm.configs.axes import read_value
from comp_comm.configs.file_kinds import MODEL, check_kind
from comp_comm.configs.model_names import ABOUT, DIMENSIONS
from comp_comm.configs.reader import Reader
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import ConfigError, Problem, Problems
from comp_comm.fields import FIELDS, Value
from comp_comm.model_rules import model_rules
from comp_comm.records import Record
from comp_comm.structs import struct
from comp_comm.texts import Texts
from comp_comm.transformer import Transformer, resolved

if TYPE_CHECKING:
    from comp_comm.configs.importers.imported import Imported

KEYS = (*ABOUT, *DIMENSIONS)
COUNTED = ("hidden", "layers", "heads")  # what parameters cannot be counted without


@struct
class Model:
    """A published model: its fields, and where they are from. ``notes`` say what the source has wrong.

    ``published_parameters`` is what its publishers say (a whole number where it is exact). ``study`` is the study that
    a file of another kind means, ``layout`` what that says beside the model.
    """

    name: str
    title: str
    year: int
    source: str
    fields: dict[str, Value]
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    published_parameters: float | None = None
    layout: dict[str, Value] = field(default_factory=dict)
    study: Record = field(default_factory=dict)

    def transformer(self) -> Transformer:
        """Return the model with every dimension that follows from the others.

        Raises ``ConfigError`` where one is missing that nothing follows from, or the dimensions do not fit together.

        >>> float(load_model("llama-2-7b").transformer().head_dim)
        128.0
        """
        missing = [name for name in COUNTED if name not in self.fields]
        if missing:
            raise ConfigError(Problem(f"'{name}' is missing", file=self.name) for name in missing)
        given = _as_transformer(self.fields)
        complete = resolved(given)
        broken = [rule for rule in model_rules(given, complete) if rule.broken.any()]
        if broken:
            raise ConfigError(Problem(rule.reason, key=rule.fields[0], file=self.name) for rule in broken)
        return complete


def _as_transformer(fields: dict[str, Value]) -> Transformer:
    """Return fields as the numbers and codes that a transformer has of them."""
    numbers: Record = {"seq_len": 1, "vocab": 0}
    for name, value in fields.items():
        if FIELDS[name].kind == "text":
            numbers[name] = Texts(np.asarray(0, np.intp), (str(value),))
        elif name != "parameters":
            numbers[name] = FIELDS[name].words.index(str(value)) if FIELDS[name].kind == "choice" else value
    return Transformer(**numbers)


def load_model(reference: str, beside: str = "") -> Model:
    """Return the model that a catalogue name, an alias or a path means; a Hugging Face config.json is one, too.

    Raises ``ConfigError`` with every problem in it, and for a file that describes a layout beside the model.
    """
    model = load_any(reference, beside)
    if model.layout:
        names = ", ".join(model.layout)
        raise ConfigError(f"'{reference}' describes a layout beside the model ({names}): make it a study with "
                          f"'compcomm import {reference}'")  # fmt: skip
    return model


def load_any(reference: str, beside: str = "") -> Model:
    """Return the model in a file, whatever else that describes."""
    known = model_names.resolve(reference, beside)
    content, shown = catalogue.content("model", known, beside)
    if known in catalogue.names("model"):
        return _shipped(content, shown)
    # The readers of other tools' files are many: they are imported where there is such a file.
    from comp_comm.configs.importers.reading import import_text, is_own_model, text_of

    text = text_of(content, shown)
    return (
        _read(strict_yaml.load(text, shown))
        if is_own_model(text, shown)
        else model_of(import_text(text, shown), beside)
    )


@lru_cache(maxsize=64)
def _shipped(content: bytes, shown: str) -> Model:
    """Return a model of the catalogue, the same object where it was asked for before."""
    return _read(strict_yaml.load_shared(content, shown))


def _read(document: Document) -> Model:
    check_kind(MODEL, document)
    reader = _Reader(document, Problems())
    model = reader.model()
    reader.problems.raise_if_any()
    return model


def model_of(imported: Imported, beside: str = "") -> Model:
    """Return the model that an import describes, or names."""
    from comp_comm.configs.importers.study_text import study_of

    own = {name: value for name, value in imported.fields.items() if name in DIMENSIONS}
    layout = {name: value for name, value in imported.fields.items() if name not in DIMENSIONS}
    model = Model(imported.name, imported.title, imported.year, imported.source, own, imported.notes)
    if imported.model:
        base = load_model(imported.model, beside)
        model = replace(base, fields={**base.fields, **own}, notes=(*base.notes, *imported.notes))
    elif imported.needs_model:
        raise ConfigError([Problem("has no model: 'compcomm import FILE --model NAME' adds one", file=imported.source)])
    return replace(model, layout=layout, study=study_of(imported))


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
            notes=self._texts("notes"),
            aliases=self._texts("aliases"),
            published_parameters=self._published(),
        )

    def _fields(self) -> dict[str, Value]:
        fields = {}
        for key in (key for key in DIMENSIONS if key in self.document.data):
            value = read_value(self.document, (key,), self.document.data[key], FIELDS[key], self.problems)
            if value is not None:
                fields[key] = value
        return fields

    def _whole(self, key: str) -> int:
        value = self.document.data.get(key, 0)
        if key in self.document.data and (type(value) is not int or value < 1):
            self._problem((key,), "must be a whole number of at least 1")
            return 0
        return int(value)

    def _published(self) -> float | None:
        value = self.document.data.get("published_parameters")
        if value is None:
            return None
        if type(value) not in (int, float) or not 1 <= value <= 1e16:
            self._problem(("published_parameters",), "must be a number from 1 to 1e16")
            return None
        return float(value) if type(value) is float else int(value)

    def _texts(self, key: str) -> tuple[str, ...]:
        texts = self.document.data.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            self._problem((key,), "must be a list of texts")
            return ()
        return tuple(texts)

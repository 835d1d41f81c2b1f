"""The nouns of a scenario (transformer, layout, ...) made of values that are fixed: once, for all grids over them.

Validation and design spaces make many plans of one model, each of which would look up the words and numbers of all its
fields again. So what is fixed is cached by its values; `Grid.noun` puts the arrays of what moves in its place.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.mesh import Mesh
from comp_comm.costmodels.scenario import WhatIf
from comp_comm.fields import FIELDS, Value
from comp_comm.formulas.arrays import AnyArray, Array, to_float
from comp_comm.layout import Layout
from comp_comm.records import Record
from comp_comm.texts import Texts
from comp_comm.transformer import Transformer

Noun = TypeVar("Noun", Transformer, Layout, WhatIf, Mesh)
NOUNS: Record = {noun.__name__: noun for noun in (Transformer, Layout, WhatIf, Mesh)}
REQUIRED = "required"  # a field that follows from others
NOT_GIVEN_WORD = "not given"  # a choice at points of an axis that do not give it


def attributes(noun: type[Noun], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the attributes of a noun that are among the ``known`` fields.

    >>> attributes(Mesh, ("tp", "tp1", "tp2"))
    ('tp1', 'tp2')
    """
    return _attributes(noun.__name__, known)


@lru_cache(maxsize=64)
def _attributes(noun: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(NOUNS[noun]) if item.name in known)


def constant(noun: type[Noun], values: tuple[tuple[str, Value | None], ...]) -> Noun:
    """Return a noun whose attributes are these values, None where they are not given.

    >>> constant(Mesh, (("tp1", 4), ("strategy", "2d"))).strategy
    np.int64(1)
    """
    made: Noun = _constant(noun.__name__, values)
    return made


@lru_cache(maxsize=256)
def _constant(noun: str, values: tuple[tuple[str, Value | None], ...]) -> Any:
    return NOUNS[noun](**{name: _number(name, value) for name, value in values})


def _number(name: str, value: Value | None) -> AnyArray | Texts:
    """Return a value of a field as a formula takes it: its number, the code of its word, or its text."""
    field = FIELDS[name]
    if field.kind == "text":
        return Texts(np.asarray(0), ("" if value is None else str(value),))
    return fixed_number(value) if field.choice is None else fixed_code(name, value)


def label_numbers(labels: tuple[Value, ...], known: tuple[Value, ...]) -> Array:
    """Return the place of each label among the distinct ones that are known.

    >>> label_numbers(("b", "a", "b"), ("b", "a", "b"))
    array([0., 1., 0.])
    """
    place = {label: number for number, label in enumerate(dict.fromkeys(known))}
    return to_float([place[label] for label in labels])


@lru_cache(maxsize=1024)
def fixed_number(value: Value | None) -> Array:
    """Return the number of a field that is fixed, NaN where it is not given."""
    return to_float(np.nan if value is None or value == REQUIRED else float(value))


@lru_cache(maxsize=1024)
def fixed_code(name: str, word: Value | None) -> NDArray[np.intp]:
    """Return the code of the word of a choice that is fixed, -1 where it is not given.

    >>> fixed_code("placement", "tp-cp-dp-pp")
    np.int64(0)
    """
    choice = FIELDS[name].choice
    return cast(NDArray[np.intp], np.intp(-1 if word is None or choice is None else int(choice.of(str(word)))))

"""Views of objects whose arrays are cut, or picked, when they are asked for.

An answer has many arrays, of which a column needs two: so an answer's block is a view of the answer, and what many
points share is seen by each of them through a view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

Viewed = TypeVar("Viewed")
Pick = Callable[["np.ndarray"], "np.ndarray"]
PLAIN = (str, bytes, int, float, bool, type(None), np.generic)


def view_of(value: Viewed, pick: Pick) -> Viewed:
    """Return a value with ``pick`` applied to its arrays: those of an object when they are asked for.

    >>> from types import SimpleNamespace
    >>> view_of(SimpleNamespace(name="a", parts={"b": np.arange(4)}), lambda array: array[2:]).parts["b"]
    array([2, 3])
    """
    made: object = value
    if isinstance(value, np.ndarray):
        made = pick(value)
    elif isinstance(value, dict):
        made = {key: view_of(part, pick) for key, part in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        made = type(value)(*(view_of(part, pick) for part in value))
    elif isinstance(value, (tuple, list)):
        made = type(value)(view_of(part, pick) for part in value)
    elif not isinstance(value, PLAIN):
        made = _View(lambda: (value, pick))
    return cast(Viewed, made)


def later(make: Callable[[], tuple[object, Pick]]) -> object:
    """Return a view of an object that is made, with how it is seen, when something of it is asked for.

    >>> from types import SimpleNamespace
    >>> view = later(lambda: (SimpleNamespace(array=np.arange(4)), lambda array: array[2:]))
    >>> view.array
    array([2, 3])
    """
    return _View(make)


class _View:
    """A view of an object: its attributes, each seen when it is asked for."""

    def __init__(self, make: Callable[[], tuple[object, Pick]]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> object:
        if name == "_seen":
            self._seen = self._make()
            return self._seen
        viewed, pick = self._seen
        value = getattr(viewed, name)
        if callable(value):
            raise TypeError(f"a view of {type(viewed).__name__} has no methods; ask the object for {name}")
        made = view_of(value, pick)
        self.__dict__[name] = made
        return made

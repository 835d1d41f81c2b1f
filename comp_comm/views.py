"""Lazy views of objects: their arrays are cut, or gathered, when they are asked for.

An answer has many arrays, of which a column needs two. So a tile of an answer is a view of it (`Answer.at`), which cuts
those two; and a part that many points share is a view (`sweeps.shared_parts`), which gathers what is asked of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from comp_comm.lazy import cached_property

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


def lazy_view(make: Callable[[], tuple[object, Pick]]) -> object:
    """Return a view of an object that does not exist yet: ``make`` returns it, and the ``pick`` of its arrays.

    It is called when something of the view is asked for, and once.

    >>> from types import SimpleNamespace
    >>> view = lazy_view(lambda: (SimpleNamespace(array=np.arange(4)), lambda array: array[2:]))
    >>> view.array
    array([2, 3])
    """
    return _View(make)


class _View:
    """A view of an object: each attribute is picked when it is asked for, and kept.

    It has the object's attributes and properties alone: no methods, whose arguments would be arrays over other points
    than the object's; and it is no instance of the object's class, has no length, is not iterated over nor compared.
    """

    def __init__(self, make: Callable[[], tuple[object, Pick]]) -> None:
        self._make = make

    @cached_property
    def _viewed(self) -> tuple[object, Pick]:
        return self._make()

    def __getattr__(self, name: str) -> object:
        viewed, pick = self._viewed
        value = getattr(viewed, name)
        if callable(value):
            raise TypeError(f"a view of {type(viewed).__name__} has no methods; ask the object for {name}")
        made = view_of(value, pick)
        self.__dict__[name] = made
        return made

"""Values that are made when they are first asked for, and kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801
        """`functools.cached_property` as it is from Python 3.12 on: without the lock, which costs more than it guards.

        Two threads that ask at once may both make the value, which is the same.

        >>> class Box:
        ...     @cached_property
        ...     def held(self):
        ...         return [1]
        >>> box = Box()
        >>> box.held is box.held
        True
        """

        def __init__(self, make: Callable[[object], object]) -> None:
            """Hold what makes the value."""
            self.make, self.__doc__ = make, make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            """Learn the name the value is kept under."""
            self.name = name

        def __get__(self, held: object, owner: type | None = None) -> object:
            """Return the value, made at the first call: from then on the object has it under this name."""
            if held is None:
                return self
            made = held.__dict__[self.name] = self.make(held)
            return made

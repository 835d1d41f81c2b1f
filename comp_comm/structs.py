"""Structs: classes of named fields that are made, read and passed on."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """Return what marks a decorator for type checkers, which Python itself has from 3.11 on: here, nothing."""
        return lambda decorator: decorator


Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def struct(cls: type[Class]) -> type[Class]:
    """Make a class a dataclass that is compared and hashed as the one object it is, and that type checkers hold frozen.

    It is for what holds arrays, which have no ``==`` that is true or false and no hash, and for parts of a computation,
    which nobody compares. Values that are compared, or are keys, are ``dataclass(frozen=True)``.

    Nothing but ``__init__`` is compiled for it. A frozen dataclass that compares has six methods compiled whenever it
    is imported, a third of a millisecond to one and a half: a command imports a hundred of them.

    >>> @struct
    ... class Size:
    ...     rows: int
    ...     columns: int = 1
    >>> Size(3), Size(3) == Size(3)
    (Size(rows=3, columns=1), False)
    """
    made = dataclass(eq=False, repr=False)(cls)
    made.__repr__ = _shown  # type: ignore[method-assign]
    return made


def _shown(self: object) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))  # type: ignore[arg-type]
    return f"{type(self).__qualname__}({', '.join(values)})"

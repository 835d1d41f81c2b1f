"""`dataclasses.dataclass`, at a fifth of its cost at import: there are some 120 of them between a user and an answer.

The standard decorator compiles each method of each class by itself, six of them for a frozen one: a quarter of the
start of a command. Here one is compiled, ``__init__``; the others need no code of their own.
"""

from __future__ import annotations

from dataclasses import asdict as asdict
from dataclasses import field as field
from dataclasses import fields as fields
from dataclasses import replace as replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, frozen=False, eq=True, kw_only=False):
        """Make a dataclass of a class, as the standard decorator of this name does; `fields` and `replace` know it.

        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: float
        ...     y: float = 0.0
        >>> Point(1.0), Point(1.0) == Point(1.0, 0.0), dataclasses.replace(Point(1.0), y=2.0)
        (Point(x=1.0, y=0.0), True, Point(x=1.0, y=2.0))
        >>> Point(1.0).x = 2.0
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """

        def make(cls):
            dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)  # fields, and no code
            own = dataclasses.fields(cls)
            methods = {"__init__": _init(cls, own), "__repr__": _repr([item.name for item in own if item.repr])}
            if eq:
                values = _values([item.name for item in own if item.compare])
                methods["__eq__"] = _eq(values)
                if "__eq__" not in cls.__dict__:
                    methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
            if frozen:
                methods |= {"__setattr__": _refuse("assign to"), "__delattr__": _refuse("delete")}
            for name, method in methods.items():
                if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
                    setattr(cls, name, method)
            return cls

        return make if cls is None else make(cls)

    def _init(cls, own):
        taken = sorted((item for item in own if item.init), key=lambda item: item.kw_only)
        known, told, lines = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}, ["self"], []
        for item in taken:
            if item.kw_only and "*" not in told:
                told.append("*")
            given = item.name
            if item.default is not dataclasses.MISSING:
                known[f"_of_{given}"] = item.default
                told.append(f"{given}=_of_{given}")
            elif item.default_factory is not dataclasses.MISSING:
                told.append(f"{given}=_missing")
            else:
                told.append(given)
        for item in own:
            name = item.name
            if item.default_factory is not dataclasses.MISSING:
                known[f"_make_{name}"] = item.default_factory
                value = f"_make_{name}() if {name} is _missing else {name}" if item.init else f"_make_{name}()"
                lines.append(f" _set(self, {name!r}, {value})")
            elif item.init:
                lines.append(f" _set(self, {name!r}, {name})")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        exec(f"def __init__({', '.join(told)}):\n" + "\n".join(lines or [" pass"]), known)
        known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return known["__init__"]

    def _values(names):
        return attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)

    def _eq(values):
        def equal(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        return equal

    def _repr(names):
        @recursive_repr()
        def told(self):
            fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{self.__class__.__qualname__}({fields})"

        return told

    def _refuse(what):
        def refuse(self, name, *_):
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")

        return refuse

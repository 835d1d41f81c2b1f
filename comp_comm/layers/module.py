"""A part of a layer that the backward pass can recompute, and which parts an option of recomputation means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol, TypeVar

from comp_comm.choices import Recompute
from comp_comm.formulas.arrays import Array, Numeric
from comp_comm.structs import struct


@struct
class Module:
    """What making a part of a layer again costs and frees, on one device and for one micro-batch.

    ``freed`` are bytes that are not kept then. ``operations`` and ``collectives`` say, by name, which share of a
    layer's operations and how many calls of its collectives are done again; ``splits`` how many of the layer's gathers
    and reductions over TP, besides. The host sees to it in the time of so many ``launches``, beside those of its
    kernels. A module ``within`` another one is nothing of its own where both are recomputed.
    """

    name: str
    freed: Array
    operations: Mapping[str, Numeric]
    collectives: Mapping[str, Numeric] = field(default_factory=dict)
    splits: Numeric = 0.0
    launches: Numeric = 0.0
    within: str = ""


class Named(Protocol):
    """What has a module's name and that of the one around it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def within(self) -> str:
        """The name of the module around it."""


Part = TypeVar("Part", bound=Named)


def selected_modules(parts: Iterable[Part], code: int) -> Sequence[Part]:
    """Return the parts of a layer that an option recomputes: those it names, but for parts of others it names.

    >>> from comp_comm.formulas.arrays import to_float
    >>> parts = [Module(name, to_float(1.0), {}, within=around) for name, around in (("moe", ""), ("moe_act", "moe"))]
    >>> [part.name for part in selected_modules(parts, Recompute.of("moe_act+moe"))]
    ['moe']
    """
    named = Recompute.at(code).modules
    return [part for part in parts if part.name in named and part.within not in named]

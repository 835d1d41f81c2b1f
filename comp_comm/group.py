"""Devices that communicate with each other."""

from __future__ import annotations

from comp_comm.formulas.arrays import Numeric
from comp_comm.structs import struct


@struct
class Group:
    """The members of a collective: how many, and every how-many-th device is one of them.

    Tensor parallelism takes neighbours (stride 1), data parallelism every TP-th device. A group that lies on several
    degrees of a layout, with others between them, is a product of such progressions: ``parts`` are their sizes and
    strides, and ``size`` is all of it. A size of infinity means many devices on the innermost tier, the optimistic
    convention of arXiv:2302.02825: (n - 1) / n is 1, and bytes outweigh hops.
    """

    size: Numeric
    stride: Numeric = 1.0
    parts: tuple[tuple[Numeric, Numeric], ...] = ()

    @property
    def progressions(self) -> tuple[tuple[Numeric, Numeric], ...]:
        """Sizes and strides whose product the group is."""
        return self.parts or ((self.size, self.stride),)

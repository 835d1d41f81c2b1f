"""Seconds of an operation by pass."""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.formulas.arrays import Array


class Passes(NamedTuple):
    """Seconds of an operation's forward pass, of its backward pass, and of the part of that for weights alone."""

    forward: Array
    backward: Array
    for_weights: Array

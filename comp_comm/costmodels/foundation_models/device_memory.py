"""What a device of the cost model `foundation_models` holds, by what it is for."""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.formulas.arrays import Array


class DeviceMemory(NamedTuple):
    """Bytes of a device of the first stage."""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array

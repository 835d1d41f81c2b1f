"""A timeline of a step, whatever model made it: slices of streams of stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.structs import struct

COMPUTE, COMM, SENDS, STATES = "compute", "communication of layers", "sends between stages", "gradients and weights"
STREAMS = (COMPUTE, COMM, SENDS, STATES)


class Slice(NamedTuple):
    """Something that takes ``seconds`` from ``start`` on, on a stream of a stage; ``about`` it is told beside."""

    stage: int
    stream: str
    name: str
    start: float
    seconds: float
    about: dict[str, object]


@struct
class Timeline:
    """The slices of a step of ``stages`` stages, the last of which ends at ``end`` seconds.

    ``stretch`` is how many times as long its passes are drawn as they take on their own, so that the whole is as long
    as the model says: 1 but for sends that do not fit beside compute, and DualPipe with stages that are not alike.
    """

    slices: Sequence[Slice]
    stages: int
    end: float
    stretch: float

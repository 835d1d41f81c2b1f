"""What stacked bars show: the parts of a step's seconds, or of a device's memory, of one point or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from comp_comm.costmodels.records import MEMORY_PARTS, STEP_PARTS
from comp_comm.records import Record
from comp_comm.units import GIB


@dataclass(frozen=True)
class Stacks:
    """Bars of parts: ``parts`` by name, each with a value for each of ``bars``, in ``unit``.

    A bar whose values are None is not there (it is infeasible, say). ``limit`` is a value to be drawn as a line, with
    its words: the memory that a device has.
    """

    what: str
    unit: str
    bars: tuple[str, ...]
    parts: dict[str, tuple[float | None, ...]]
    limit: tuple[float, str] | None = None

    def total(self, bar: int) -> float:
        """Return the length of a bar, 0 of one that is not there."""
        return sum(values[bar] or 0.0 for values in self.parts.values())


def step_stacks(bars: Sequence[str], rows: Sequence[Record]) -> Stacks:
    """Return the seconds of steps by part, in ms where they are short.

    >>> row = {"forward_s": 1.0, "backward_s": 2.0, "serialized_comm_s": 0.5, "exposed_comm_s": 0.0}
    >>> made = step_stacks(["tp=8"], [row])
    >>> made.unit, made.parts["backward compute"], made.total(0)
    ('s', (2.0,), 3.5)
    """
    most = max((sum(row.get(name) or 0.0 for name in STEP_PARTS) for row in rows), default=0.0)
    scale, unit = (1.0, "s") if most >= 1 else (1e-3, "ms")
    parts = {words: tuple(_over(row.get(name), scale) for row in rows) for name, words in STEP_PARTS.items()}
    return Stacks("time of a step", unit, tuple(bars), _shown(parts))


def memory_stacks(bars: Sequence[str], memories: Sequence[Record]) -> Stacks:
    """Return the memory of the fullest stage by part, in GiB, with what the devices have where it is the same for all.

    >>> made = memory_stacks(["tp=8"], [{"weights_bytes": 2.0**31, "capacity_bytes": 2.0**33}])
    >>> made.parts, made.limit
    ({'weights': (2.0,)}, (8.0, 'the device has 8 GiB'))
    """
    parts = {name: tuple(_over(memory.get(f"{name}_bytes"), GIB) for memory in memories) for name in MEMORY_PARTS}
    has = {memory["capacity_bytes"] / GIB for memory in memories}
    limit = (next(iter(has)), f"the device has {next(iter(has)):.4g} GiB") if len(has) == 1 else None
    return Stacks("memory of the fullest stage", "GiB", tuple(bars), _shown(parts), limit)


def _over(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _shown(parts: dict[str, tuple[float | None, ...]]) -> dict[str, tuple[float | None, ...]]:
    """Leave out parts that no bar has."""
    return {name: values for name, values in parts.items() if any(values)}

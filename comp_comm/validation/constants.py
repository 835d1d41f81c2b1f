"""The constants that were chosen on published runs, in one place: their values, and what they were chosen on.

All other numbers of a prediction are data sheets, measured kernels and collectives, or counts. `Refit` chooses these
again without a group of runs, and predicts that group by what the others say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from comp_comm.choices import TensorOverlap
from comp_comm.costmodels import layer_times
from comp_comm.hardware.numbers import KEPT, POWER_RATIO, Timing
from comp_comm.timing import kernels
from comp_comm.validation.predict import Point

SUSTAINED, POWER = "timing.sustained", "timing.power_ratio"
LAUNCH, NETWORK = "timing.launch_latency", "timing.network_sustained"
DEFAULTS = Timing()


@dataclass(frozen=True)
class Constant:
    """A constant that runs were used for: its value, what it was chosen on, and what it would be had no run been seen.

    ``applies`` is whether a run's machine and layout have it; ``at`` is the run with another value of it (None: an
    attribute of `kernels` has it, ``attribute``). It is chosen between ``lowest`` and ``highest``; ``outside`` ones
    were chosen on runs that the table does not have, and stay as they are. ``level`` ones are of what machines keep.
    """

    name: str
    value: float
    chosen_on: str
    lowest: float
    highest: float
    untold: float
    applies: Callable[[Point], bool]
    at: Callable[[Point, float], Point] | None = None
    attribute: str = ""
    outside: bool = False
    level: bool = False


def _number(key: str) -> Callable[[Point, float], Point]:
    return lambda point, value: replace(
        point, machine=replace(point.machine, numbers=(*point.machine.numbers, (key, value)))
    )


def _kept(point: Point, value: float) -> Point:
    return _number(SUSTAINED)(point, value / point.machine.profile().value(POWER, POWER_RATIO))


def _asynchronous(point: Point, value: float) -> Point:
    """Return a run with TP that gains all (1) or nothing (0) of what it could hide: other words of the field."""
    if value == TensorOverlap.ASYNC.gained:
        return point
    word = TensorOverlap.ON.word if value == 1 else TensorOverlap.OFF.word
    return replace(point, fields={**point.fields, "overlap_tp": word})


def _has(name: str, word: str) -> Callable[[Point], bool]:
    return lambda point: point.fields.get(name) == word


def _on(device: str) -> Callable[[Point], bool]:
    return lambda point: point.machine.reference.startswith(device)


def _always(point: Point) -> bool:
    return True


def _by_power(point: Point) -> bool:
    return point.machine.profile().value(SUSTAINED, 0.0) == 0


# In the order they are set in: what a machine keeps is divided by its power ratio. Untold: a machine keeps all, a
# library hides all, a device is as the usual one.
CONSTANTS = (
    Constant("power ratio of A100", 1.0, "groups on A100", 1.0, 1.15, POWER_RATIO, _on("a100"), _number(POWER),
             level=True),
    Constant("kept", KEPT, "all groups: the middle of what their machines ask for", 0.65, 1.05, 1.0, _by_power, _kept,
             level=True),
    Constant("sustained of MI250X", 0.63, "lumi_mi250x, frontier_torchtitan", 0.3, 1.1, KEPT / POWER_RATIO,
             _on("mi250x"), _number(SUSTAINED), level=True),
    Constant("sustained of V100", 0.95, "megatron_2020, oneflow_v100", 0.3, 1.1, KEPT / POWER_RATIO, _on("v100"),
             _number(SUSTAINED), level=True),
    Constant("launch latency, us", 1e6 * float(DEFAULTS.launch_latency), "mixtures of nemo_megatron_bridge, runs with "
             "launch blocking", 0.0, 80.0, 10.0, _always, lambda point, value: _number(LAUNCH)(point, value / 1e6)),
    Constant("network sustained", float(DEFAULTS.network_sustained), "all groups", 0.4, 1.0, 1.0, _always,
             _number(NETWORK)),
    Constant("gained by asynchronous TP", TensorOverlap.ASYNC.gained, "torchtitan: pairs of runs", 0.0, 1.0, 1.0,
             _has("overlap_tp", "async"), _asynchronous),
    Constant("hidden of exchanges", layer_times.EXCHANGE_HIDDEN, "four seconds of Qwen3-30B that Megatron-LM "
             "publishes, none of the table", 0.3, 1.0, layer_times.EXCHANGE_HIDDEN, _has("overlap_ep", "on"),
             outside=True),
)  # fmt: skip


def with_values(point: Point, values: Mapping[str, float]) -> Point:
    """Return a run with other values of constants, by name; those of `kernels` are set by `attributes`."""
    for constant in CONSTANTS:
        if constant.name in values and constant.at and constant.applies(point):
            point = constant.at(point, values[constant.name])
    return point


@contextmanager
def attributes(values: Mapping[str, float]) -> Iterator[None]:
    """Set the constants of `kernels` to other values, and back again."""
    chosen = [one for one in CONSTANTS if one.attribute and one.name in values]
    before = {one.attribute: getattr(kernels, one.attribute) for one in chosen}
    try:
        for one in chosen:
            setattr(kernels, one.attribute, values[one.name])
        yield
    finally:
        for name, value in before.items():
            setattr(kernels, name, value)

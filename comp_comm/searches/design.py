"""A design space: axes that are no part of a layout (hardware, devices, batch), with a search at each of their points.

The best layout changes with the hardware: more memory makes room for one with less communication, a larger domain of
fast links for more tensor parallelism. So each point of such axes is a search of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.fields import FIELDS, Value
from comp_comm.structs import struct
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import FEASIBLE

GPUS, BATCH = "gpus", "global_batch"
FACTORS = tuple(name for name, field in FIELDS.items() if field.group == "evolution")
WORK = ("global_batch", "seq_len", "precision", "stack")  # of the same model: tokens a second can be compared
OUTER = (*FACTORS, *WORK, GPUS)


@struct
class Case:
    """One search of a design space: a study of one device and one value of each factor, and how many devices.

    ``place`` is where it is: the device, and the values of the fields that move from case to case.
    """

    study: Study
    gpus: int
    place: dict[str, Value]

    @property
    def name(self) -> str:
        """What is special about it, for messages."""
        factors = [f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in self.place.items()
                   if name not in (HARDWARE, GPUS)]  # fmt: skip
        return ", ".join([str(self.place[HARDWARE]), *factors, f"{self.gpus:,} devices"])


@struct
class Design:
    """The searches to do, and the axes with several values that they are the points of."""

    cases: tuple[Case, ...]
    axes: tuple[Axis, ...]


def make_design(studies: Sequence[Study]) -> Design:
    """Return the searches that studies ask for: one for each device, hardware factor, number of devices and batch.

    Studies differ in their devices only. Those that ask for what no search can do have the problems noted in them.

    >>> from comp_comm.configs.study import study_from
    >>> given = {"hardware": "h100-sxm", "sweep": {"gpus": [8, 16], "network": [1, 2], "tp": [1, 2]}}
    >>> design = make_design([study_from(given)])
    >>> [case.name for case in design.cases][1:3]
    ['h100-sxm, network 2, 8 devices', 'h100-sxm, network 1, 16 devices']
    """
    cases = tuple(case for study in studies for case in _cases(study))
    names = tuple(dict.fromkeys(case.place[HARDWARE] for case in cases))
    axes = [Axis({HARDWARE: names}), *(axis for axis in studies[0].axes if _is_outer(axis))]
    return Design(cases, tuple(axis for axis in axes if len(axis) > 1))


def _cases(study: Study) -> Iterator[Case]:
    inner = tuple(axis for axis in study.axes if not _is_outer(axis))
    _check(study, inner)
    points = list(_points([axis for axis in study.axes if _is_outer(axis)]))
    for profile, point in itertools.product(study.profiles, points):
        fixed = {**study.fixed, **point}
        one = replace(study, profiles=(profile,), hardware_axis=False, axes=inner, fixed=fixed)
        yield Case(one, int(fixed.get(GPUS, 1)), {HARDWARE: profile.name, **point})
    if not study.profiles:  # what is wrong with them is noted
        yield Case(replace(study, hardware_axis=False, axes=inner), 1, {HARDWARE: ""})


def _is_outer(axis: Axis) -> bool:
    return set(axis.values) <= set(OUTER)


def _check(study: Study, inner: Sequence[Axis]) -> None:
    """Note what a study asks for that a search has not."""
    for axis in inner:
        if len(axis.values) > 1:
            name = next(iter(axis.values))
            study.problem(name, f"{', '.join(axis.values)} are tied by 'zip', and a search tries every combination of "
                          "a layout's fields; give each a list of its own")  # fmt: skip
    if GPUS not in {*study.fixed, *study.origins} and not any(GPUS in axis.values for axis in study.axes):
        study.missing(GPUS)
    if BATCH not in {*study.fixed, *study.origins} and not any(BATCH in axis.values for axis in study.axes):
        study.missing(BATCH)
    for number, text in enumerate(study.where):
        if text.strip() != FEASIBLE:
            listed = isinstance(study.document.data.get("where"), list)
            study.problem_at(("where", number) if listed else ("where",), f"'{text}' is no condition of a search: give "
                             "the fields of a layout the values to try")  # fmt: skip


def _points(axes: Sequence[Axis]) -> Iterator[dict[str, Value]]:
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        yield {name: values[i] for axis, i in zip(axes, places, strict=True) for name, values in axis.values.items()}

"""A study with what its stack gives: fields that it does not give itself, fixed or along the axis they depend on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels import CostModel
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.stacks import Given, Stack
from comp_comm.sweeps.nouns import NOT_GIVEN_WORD

STACK = "stack"


def with_stack(study: Study, model: CostModel, free: Collection[str] | None = None) -> Study:
    """Return a study with the fields that its stack gives, where the cost model has them.

    What depends on a field that moves goes along its axis. ``free`` are the fields that a search tries: what depends on
    them is left out, to be settled row by row (`row_givens`), and all values of the others are kept. A field that no
    value can be told of is noted as a problem of the study.

    >>> from comp_comm.configs.study import study_from
    >>> from comp_comm.costmodels import default_model
    >>> given = {"stack": "torchtitan", "pp": 2, "grad_precision": "bf16"}
    >>> found = with_stack(study_from({"set": given}), default_model())
    >>> found.fixed["zero"], found.fixed["kernels"], found.fixed["grad_precision"]
    (1, 'compiled', 'bf16')
    """
    if STACK not in model.fields or not _stacks(study):
        return study
    done = replace(study, fixed=dict(study.fixed), stacked=dict(study.stacked))
    for name in dict.fromkeys(each.field for stack in _stacks(study) for each in stack.given):
        if name in model.fields and not _given(study, name):
            done = _with(done, model, name, None if free is None else _open(done, free))
    return done


def row_givens(study: Study, free: Collection[str]) -> list[Given]:
    """Return what a study's stack gives that depends on ``free`` fields, in the order in which they can be settled."""
    stacks = _stacks(study)
    return [each for each in (stacks[0].given if len(stacks) == 1 else ())
            if not _given(study, each.field) and set(each.needs) & _open(study, free)]  # fmt: skip


def _open(study: Study, free: Collection[str]) -> set[str]:
    """Return which of ``free`` fields are not given one value by the study's stack."""
    return {name for name in free if len(study.stacked.get(name, ())) != 1}


def stack_notes(study: Study) -> list[str]:
    """Return what came of a study's stack, in words."""
    stack = study.fixed.get(STACK)
    if stack is None:
        return []
    told = [f"{name} {' or '.join(map(str, values))}" for name, values in study.stacked.items()]
    others = [each.field for each in Stack.of(str(stack)).given if each.field in study.origins]
    own = f"; given, and not its own: {', '.join(others)}" if others else ""
    return [f"stack {stack} ({Stack.of(str(stack)).title}) gives {', '.join(told) or 'nothing here'}{own}"]


def _stacks(study: Study) -> list[Stack]:
    """Return the stacks that a study has: one, or those along an axis."""
    moving = next((axis.values[STACK] for axis in study.axes if STACK in axis.values), ())
    return [Stack.of(str(word)) for word in (moving or (study.fixed.get(STACK),)) if word is not None]


def _given(study: Study, name: str) -> bool:
    """Return whether a study gives a field itself, with its model or along an axis."""
    own = name in study.fixed and name not in study.stacked
    return own or name in study.origins or any(name in axis.values for axis in study.axes)


def _with(study: Study, model: CostModel, name: str, free: Collection[str] | None) -> Study:
    """Return a study with one field of its stacks."""
    needs = {STACK, *(need for each in _rules(study, name).values() for need in each.needs)}
    if needs & set(free or ()):
        return study
    moving = [number for number, axis in enumerate(study.axes) if needs & axis.values.keys()]
    if len(moving) > 1:
        named = ", ".join(sorted(needs & {each for axis in study.axes for each in axis.values}))
        study.problem(STACK, f"{name} follows from {named}, which move along several axes: give {name} too")
        return study
    known = {need: study.fixed.get(need, model.default(need)) for need in needs}
    if not moving:
        values = _at(study, name, known)
        return _fixed(study, name, values if free is not None else values[:1])
    axis = study.axes[moving[0]]
    points = [known | {need: axis.values[need][i] for need in needs & axis.values.keys()} for i in range(len(axis))]
    settled = [_at(study, name, point)[:1] for point in points]
    if not any(settled):
        return study
    default = model.default(name)
    usual = default if default is not None else _unsaid(name)
    values = tuple(each[0] if each else usual for each in settled)
    wider = Axis({**axis.values, name: values})
    axes = tuple(wider if number == moving[0] else each for number, each in enumerate(study.axes))
    return replace(study, axes=axes, fixed={each: value for each, value in study.fixed.items() if each != name})


def _rules(study: Study, name: str) -> dict[str, Given]:
    return {stack.word: each for stack in _stacks(study) for each in stack.given if each.field == name}


def _at(study: Study, name: str, point: Mapping[str, Value | None]) -> tuple[Value, ...]:
    """Return the values of a field at a point: of those that the file of a search can say, where it has a say."""
    rule = _rules(study, name).get(str(point[STACK]))
    values = rule.at(point) if rule else ()
    limits = study.stacked.get(name, values)
    return tuple(value for value in values if value in limits) or limits


def _fixed(study: Study, name: str, values: tuple[Value, ...]) -> Study:
    if values:
        study.stacked[name], study.fixed[name] = values, values[0]
    return study


def _unsaid(name: str) -> Value:
    """Return what stands for a field that is not given at some points of an axis, and is at others."""
    kind = FIELDS[name].kind
    return NOT_GIVEN_WORD if kind == "choice" else "" if kind == "text" else math.nan

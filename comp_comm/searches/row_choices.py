"""Choices that a framework makes by the degrees: columns of the table of degrees.

Most choices of a stack are the same for every layout. Some are not: torchtitan with ZeRO 3, say, reduces gradients
after each micro-batch where there is no pipeline, and after the last where there is one. An axis of its own would pair
such a choice with all degrees; so it becomes a column, with the value that the framework has at each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels import CostModel
from comp_comm.costmodels.layout_space import Degrees, rows_of
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.stacks import Given, Values

Listed = Mapping[str, tuple[Value, ...]]


def join_choices(
    degrees: Degrees, givens: Sequence[Given], fixed: Mapping[str, Value], listed: Listed, model: CostModel
) -> Degrees:
    """Return a table of degrees with a column for each choice that follows from others, a row for each of its values.

    A choice that others follow from, and that a search tries, is joined first: with the values ``listed``.

    >>> from comp_comm.costmodels import default_model
    >>> sync = Given("gradient_sync", (Values(("micro_batch",), {"pp": (1,)}), Values(("last",))), "")
    >>> table = Degrees({"pp": np.array([1, 4])}, {})
    >>> found = join_choices(table, [sync], {}, {}, default_model())
    >>> [found.words["gradient_sync"][code] for code in found.columns["gradient_sync"]]
    ['micro_batch', 'last']
    """
    own = {each.field for each in givens}
    for each in givens:
        for name in each.needs:
            if name not in degrees.columns and name not in own and len(listed.get(name, ())) > 1:
                degrees = _joined(degrees, Given(name, (Values(listed[name]),), ""), fixed, model)
        degrees = _joined(degrees, each, fixed, model)
    return degrees


def _joined(degrees: Degrees, given: Given, fixed: Mapping[str, Value], model: CostModel) -> Degrees:
    """Return a table with one more column: each row as often as the first case that is true of it has values."""
    left, rows, codes = np.ones(rows_of(degrees.columns), bool), [], []
    words = FIELDS[given.field].words
    for case in (*given.cases, Values(())):  # the last is true of all that is left: they have the default
        matches = left & _matches(degrees, case, fixed, model)
        left &= ~matches
        for value in case.listed or _default(model, given.field):
            matching = np.flatnonzero(matches)
            rows.append(matching)
            codes.append(np.full(matching.size, words.index(str(value)) if words else int(value)))
    order = np.argsort(np.concatenate(rows), kind="stable")
    taken, column = np.concatenate(rows)[order], np.concatenate(codes)[order].astype(np.int64)
    columns = {name: values[taken] for name, values in degrees.columns.items()}
    if not words:
        return Degrees({**columns, given.field: column}, degrees.dropped, {**degrees.words})
    used, column = np.unique(column, return_inverse=True)
    with_words = {**degrees.words, given.field: tuple(words[code] for code in used)}
    return Degrees({**columns, given.field: column}, degrees.dropped, with_words)


def _default(model: CostModel, name: str) -> tuple[Value, ...]:
    default = model.default(name)
    return () if default is None else (default,)


def _matches(degrees: Degrees, case: Values, fixed: Mapping[str, Value], model: CostModel) -> NDArray[np.bool_]:
    """Return at which rows a case is true, of the degrees there and of what is fixed."""
    matches = np.ones(rows_of(degrees.columns), bool)
    for name, allowed in case.when.items():
        if name not in degrees.columns:
            matches &= fixed.get(name, model.default(name)) in allowed
            continue
        words = degrees.words.get(name, ())
        numbers = [words.index(str(value)) if words else int(value or 0) for value in allowed]
        matches &= np.isin(degrees.columns[name], numbers)
    return matches

"""What a search covered: the choices it gave one value itself, those it did not try, and values in few words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.records import Record
from comp_comm.searches.answer_rows import model_and_layouts
from comp_comm.searches.space import SearchSpace

LISTED = 16  # values that are told one by one


def chosen_by_search(space: SearchSpace) -> dict[str, Value]:
    """Return the choices that the search gave one value itself, since that is what stacks use or it can only help.

    >>> from comp_comm.configs.study import study_from
    >>> from comp_comm.searches.build_space import make_space
    >>> given = {"model": "mixtral-8x7b", "hardware": "h100-sxm", "set": {"global_batch": 8, "overlap_ep": "off"}}
    >>> chosen_by_search(make_space(study_from(given), 8))
    {'ep_dispatch': 'deepep'}
    """
    return {name: values[0] for name, values in space.choices.items()
            if len(values) == 1 and name not in space.study.fixed}  # fmt: skip


def not_tried(space: SearchSpace) -> dict[str, Record]:
    """Return the choices of a layout of which one value was tried, that value, and the others there are."""
    model, layouts = model_and_layouts(space)
    left: dict[str, Record] = {}
    choices = (*layouts.searched, *layouts.searched_if_listed)
    formats = (name for name in layouts.formats_if_listed if name in space.choices)
    for name in (*choices, *formats, *(("placement",) if space.placements else ())):
        if name in space.table:
            continue
        choice = FIELDS[name].choice
        tried = list(space.placements) if name == "placement" else [*space.choices.get(name, ())]
        value = tried[0] if tried else space.plan.grid.fixed.get(name, model.default(name))
        if choice is None or len(tried) > 1:
            continue
        left[name] = {"value": value, "others": [word for word in choice.words() if word != str(value)]}
    return left


def in_no_layout(space: SearchSpace) -> list[str]:
    """Return which values that a study lists of a degree or a batch no layout has, in words.

    >>> from comp_comm.configs.study import study_from
    >>> from comp_comm.searches.build_space import make_space
    >>> given = {"model": "llama-3-8b", "hardware": "h100-sxm", "set": {"global_batch": 8}, "sweep": {"tp": [1, 3]}}
    >>> in_no_layout(make_space(study_from(given), 8))
    ['tp 3: no layout has it, as degrees and batches have to divide devices, heads, layers and the batch']
    """
    tried = space.tried
    listed = {name: values for axis in space.study.axes for name, values in axis.values.items() if name in tried}
    left = {name: [value for value in values if value not in tried[name]] for name, values in listed.items()}
    return [f"{name} {', '.join(map(str, values))}: no layout has it, as degrees and batches have to divide devices, "
            "heads, layers and the batch" for name, values in left.items() if values]  # fmt: skip


def span(values: Sequence[object]) -> str:
    """Return values in few words, so that one can tell which they are.

    >>> span([1, 2, 4, 8]), span(["off", "on"]), span([0, 1, 2, 3]), span([1, 2, 4, 5, 8, 10])
    ('1 to 8 doubling', 'off, on', '0 to 3', '1, 2, 4, 5, 8, 10')
    >>> span([*range(1, 40, 2)])
    '20 values from 1 to 39'
    """
    known = list(values)
    numbers = [value for value in known if isinstance(value, (int, float))]
    if len(numbers) != len(known) or len(known) < 3:
        return ", ".join(map(str, known)) if len(known) <= 4 else f"all {len(known)}"
    for factor, more, said in ((1, 1, ""), (2, 0, " doubling")):
        if all(factor * a + more == b for a, b in pairwise(numbers)):
            return f"{known[0]} to {known[-1]}{said}"
    return ", ".join(map(str, known)) if len(known) <= LISTED else f"{len(known)} values from {known[0]} to {known[-1]}"

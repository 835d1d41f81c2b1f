"""Two studies side by side: the fields in which they differ, and what that makes of their names."""

from __future__ import annotations

from comp_comm.configs.study import Study
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records

MOST_NAMED = 2  # fields that a side is named by
DEFAULT = "default"


def differing(left: Study, right: Study) -> Records:
    """Return the fields in which two studies of one point differ: what each side has.

    What a model brings is not said beside its name; a field that a side does not give has its default there.

    >>> from comp_comm.configs.study import load_study
    >>> differing(load_study("llama-step"), load_study("llama-step", ["tp=4"]))
    [{'differs': 'tp', 'a': '8', 'b': '4'}]
    """
    pairs = [("hardware", *(", ".join(p.name for p in study.profiles) for study in (left, right))),
             ("model", *(study.model.name if study.model else DEFAULT for study in (left, right)))]  # fmt: skip
    same_model = pairs[1][1] == pairs[1][2]
    for name in FIELDS:
        if same_model or name in {*left.origins, *right.origins}:
            pairs.append((name, _given(left, name), _given(right, name)))
    return [{"differs": name, "a": a, "b": b} for name, a, b in pairs if a != b]


def _given(study: Study, name: str) -> str:
    value = study.fixed.get(name, FIELDS[name].default)
    return DEFAULT if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def sides(left: Study, right: Study, changed: Records) -> tuple[str, str]:
    """Return the names of two sides: what each has of the first fields that differ; A and B where none does.

    >>> from comp_comm.configs.study import load_study
    >>> one, two = load_study("llama-step"), load_study("llama-step", ["tp=4", "hardware=b200"])
    >>> sides(one, two, differing(one, two))
    ('h100-sxm tp=8', 'b200-sxm tp=4')
    """
    said = [" ".join(_word(row, side) for row in changed[:MOST_NAMED]) for side in ("a", "b")]
    if not changed or said[0] == said[1]:
        return "A", "B"
    return said[0], said[1]


def _word(row: Record, side: str) -> str:
    plain = row["differs"] in ("hardware", "model")
    return str(row[side]) if plain else f"{row['differs']}={row[side]}"

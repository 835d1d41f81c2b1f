"""Two studies side by side: the fields in which they differ, and what that makes of their names."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.configs.study import Study
from comp_comm.costmodels.model import CostModel
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import ComparedTerm

MOST_NAMED = 2  # fields that a side is named by
DEFAULT = "default"
PARTS = {"compute_s": "compute", "recompute_s": "recomputation", "optimizer_s": "optimizer",
         "host_s": "waiting for the host", "bubble_s": "pipeline bubble"}  # fmt: skip
MOST_PARTS, SMALL = 4, 0.1  # parts of a difference that are told, and of the largest the share that is too small


def differing_fields(left: Study, right: Study) -> Records:
    """Return the fields in which two studies of one point differ: what each side has.

    What a model brings is not said beside its name; a field that a side does not give has its default there.

    >>> from comp_comm.configs.study import load_study
    >>> differing_fields(load_study("llama-step"), load_study("llama-step", ["tp=4"]))
    [{'differs': 'tp', 'a': '8', 'b': '4'}]
    """
    pairs = [("hardware", *(", ".join(p.name for p in study.profiles) for study in (left, right))),
             ("model", *(study.model.name if study.model else DEFAULT for study in (left, right)))]  # fmt: skip
    same_model = pairs[1][1] == pairs[1][2]
    models = [(study, make_plan(study).model) for study in (left, right)]
    for name in FIELDS:
        if same_model or name in {*left.origins, *right.origins}:
            pairs.append((name, *(_given(study, model, name) for study, model in models)))
    return [{"differs": name, "a": a, "b": b} for name, a, b in pairs if a != b]


def _given(study: Study, model: CostModel, name: str) -> str:
    """Return a value as a study gives it, else the default that its cost model has."""
    value = study.fixed.get(name, model.default(name))
    return DEFAULT if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def side_names(left: Study, right: Study, changed: Records) -> tuple[str, str]:
    """Return the names of two sides: what each has of the first fields that differ; A and B where none does.

    >>> from comp_comm.configs.study import load_study
    >>> one, two = load_study("llama-step"), load_study("llama-step", ["tp=4", "hardware=b200"])
    >>> side_names(one, two, differing_fields(one, two))
    ('h100-sxm tp=8', 'b200-sxm tp=4')
    """
    said = [" ".join(_word(row, side) for row in changed[:MOST_NAMED]) for side in ("a", "b")]
    if not changed or said[0] == said[1]:
        return "A", "B"
    return said[0], said[1]


def why_faster(rows: Sequence[ComparedTerm], names: tuple[str, str]) -> str:
    """Return in a sentence which of two steps is the faster, and the largest parts of the difference.

    >>> terms = [("step_s", 10.0, 8.0), ("compute_s", 6.0, 6.5), ("comm.tp.serialized_s", 4.0, 1.5)]
    >>> rows = [{"term": term, "a": a, "b": b, "difference": b - a, "ratio": b / a} for term, a, b in terms]
    >>> why_faster(rows, ("tp=8", "tp=4"))
    'tp=4 is 25 % faster than tp=8: 2.5 s less serialized tp communication, against 0.5 s more compute'
    """
    changes = {row["term"]: row for row in rows}
    if "step_s" not in changes:
        return ""
    step = changes["step_s"]
    sign = 1 if step["difference"] <= 0 else -1  # of what the faster one has more of
    faster, slower = names[::-1] if sign > 0 else names
    parts = sorted(((sign * row["difference"], words) for term, row in changes.items() if (words := _part(term))),
                   key=lambda part: abs(part[0]), reverse=True)  # fmt: skip
    told = [(change, words) for change, words in parts[:MOST_PARTS] if abs(change) >= SMALL * abs(parts[0][0]) > 0]
    less, more = ([f"{abs(change):.3g} s {word} {words}" for change, words in told if change * side > 0]
                  for side, word in ((-1, "less"), (1, "more")))  # fmt: skip
    balance = ", against ".join(", ".join(some) for some in (less, more) if some)
    percent = 100 * (max(step["a"], step["b"]) / min(step["a"], step["b"]) - 1) if min(step["a"], step["b"]) else 0.0
    verdict = (
        f"{faster} is {percent:.3g} % faster than {slower}" if percent else f"{names[0]} and {names[1]} are as fast"
    )
    return verdict + (f": {balance}" if balance else "")


def _part(term: str) -> str:
    """Return what a term is called that is a part of the step; nothing for any other: parts add up to the step."""
    if term in PARTS:
        return PARTS[term]
    comm, _, rest = term.partition(".")
    group, _, kind = rest.partition(".")
    return f"{kind[:-2]} {group} communication" if comm == "comm" and kind in ("serialized_s", "exposed_s") else ""


def _word(row: Record, side: str) -> str:
    plain = row["differs"] in ("hardware", "model")
    return str(row[side]) if plain else f"{row['differs']}={row[side]}"

"""Runs that cannot be predicted: what to say of them."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.errors import Problem
from comp_comm.validation.predict import Prediction

MOST_SAID = 5  # reasons of runs, where none can be predicted


def nothing_predicted(predictions: Sequence[Prediction]) -> list[Problem]:
    """Return what to say where no run is compared: the reasons, each with the line of the first run that has it.

    Runs whose source is wrong are left out of the errors, predicted or not: the reason is then that.
    """
    firsts = {_reason(one): one for one in reversed(predictions)}
    problems = [one.problem._replace(message=_reason(one)) for one in firsts.values()]
    problems.sort(key=lambda problem: problem.line or 0)
    more = [Problem(f"and {len(problems) - MOST_SAID} more reasons")] if len(problems) > MOST_SAID else []
    return [Problem(_what(predictions)), *problems[:MOST_SAID], *more]


def _reason(one: Prediction) -> str:
    return one.run["excluded"] or one.reason


def _what(predictions: Sequence[Prediction]) -> str:
    count, left = len(predictions), sum(bool(one.run["excluded"]) for one in predictions)
    if not left:
        return "no run could be predicted:"
    also = f", and {count - left} could not be predicted" if count > left else ""
    those = f"all {count} runs" if count == left else f"{left} of {count} runs"
    return f"{those} are left out of the errors, as their source is wrong or says too little{also}:"

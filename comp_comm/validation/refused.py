"""Runs that cannot be predicted: what to say of them."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.errors import Problem
from comp_comm.validation.predict import Prediction

MOST_SAID = 5  # reasons of runs, where none can be predicted


def nothing_predicted(predictions: Sequence[Prediction]) -> list[Problem]:
    """Return what to say where no run can be predicted: the reasons, each with the line of the first run that has it.

    (A run may also be predicted, and left out of the errors, as its source is wrong: its reason is that.)
    """
    firsts = {one.reason: one for one in reversed(predictions)}
    problems = [one.problem for one in sorted(firsts.values(), key=lambda one: one.run.line)]
    more = [Problem(f"and {len(problems) - MOST_SAID} more reasons")] if len(problems) > MOST_SAID else []
    return [Problem("no run could be predicted:"), *problems[:MOST_SAID], *more]

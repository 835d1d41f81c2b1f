"""The passes of every stage, one by one: DualPipe's in the order of its published code, others as papers draw them."""

from __future__ import annotations

import passes
import pytest

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.schedule.pass_order import order


def works(schedule, p, v, m, stage):
    """Return passes as `comp_comm` numbers them: micro-batches of two directions in turn, the second copy's chunks
    after the first's. Gradients of inputs and weights that are made in one go are one pass but in DualPipe."""
    two = schedule == "dualpipe"
    for done in passes.order(schedule, p, v, m, stage):
        yield tuple((kind, 2 * j[1] + j[0], chunk + p * j[0]) if two else (kind, j, chunk) for kind, j, chunk in done
                    if two or len(done) == 1 or kind != "W")  # fmt: skip


@pytest.mark.parametrize(("schedule", "p", "v", "m"), [
    ("1f1b", 4, 1, 9), ("gpipe", 3, 1, 4), ("interleaved", 4, 3, 12), ("zero_bubble", 4, 1, 7), ("zb_h2", 4, 1, 9),
    ("zb_v", 4, 1, 9), ("dualpipe", 2, 1, 6), ("dualpipe", 4, 1, 8), ("dualpipe", 6, 1, 14), ("dualpipe", 8, 1, 20),
])  # fmt: skip
def test_a_stage_does_its_passes_in_this_order(schedule, p, v, m):
    for stage in range(p):
        found = [tuple(map(tuple, work)) for work in order(Schedule.of(schedule), p, v, m, stage)]
        assert found == list(works(schedule, p, v, m, stage))

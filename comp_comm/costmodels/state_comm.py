"""Communication of gradients and weights: what of it the backward and the forward pass hide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comp_comm.costmodels.layer_times import ZERO, Call, Spent, overlapped
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.operations.context import Context

USABLE = 0.85  # of the compute beside which states are sent: before it begins and after it ends nothing overlaps
CONTENTION = 0.1  # of hidden communication that shows all the same: it takes compute units and memory bandwidth


def state_spent(c: Context, calls: Sequence[Call], windows: Sequence[Array], scenario: Scenario) -> Spent:
    """Return the seconds of all collectives of states in a step, and what of them is hidden.

    Gradients are reduced while the last micro-batch goes backward, weights gathered while the first goes forward; under
    ZeRO 3 both go on all the time.
    """
    reduced, gathered = ZERO, ZERO
    for call in calls:
        seconds = to_float(call.message.count) * call.seconds
        if call.message.kind == "all_gather":
            gathered = gathered + seconds
        else:
            reduced = reduced + seconds
    overlaps, zero = np.asarray(c.layout.overlap_dp) > 0, to_float(c.layout.zero)
    if not overlaps.any():
        return Spent(reduced + gathered, ZERO, ZERO)
    slowed = np.where(overlaps, scenario.interference, 1.0)
    reduced, gathered = reduced * slowed, gathered * slowed
    forward, backward, everything = (USABLE * window for window in windows)
    # ZeRO 2 reduces after every micro-batch, beside its backward pass.
    backward = np.where(zero >= 2, backward * c.layout.accumulation, backward)
    hidden = np.minimum(reduced, backward) + np.minimum(gathered, forward)
    if (zero >= 3).any():
        hidden = np.where(zero >= 3, np.minimum(reduced + gathered, everything), hidden)
    return overlapped(reduced + gathered, (1 - CONTENTION) * hidden, overlaps)

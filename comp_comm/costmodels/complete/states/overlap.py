"""What of the collectives of gradients and weights compute hides."""

from __future__ import annotations

from comp_comm.choices import Switch
from comp_comm.costmodels.comm_seconds import CommSeconds, overlapped
from comp_comm.costmodels.complete.states.muon import gathers_of_shards
from comp_comm.costmodels.complete.states.stage_states import StateSeconds
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, add_up, by_code, minimum, somewhere, to_float, where

USABLE = 0.85  # of the compute beside which states are sent: before it begins and after it ends nothing overlaps
CONTENTION = 0.1  # of hidden communication that shows all the same: it takes compute units and memory bandwidth


def state_comm(work: Work, costs: StateSeconds, windows: tuple[Array, Array]) -> CommSeconds:
    """Return the seconds of all collectives of states in a step, and what of them is hidden.

    Gradients are reduced while the last micro-batch goes backward, weights gathered while the first goes forward; ZeRO
    2 reduces after every micro-batch, beside its backward pass; under ZeRO 3 all goes on all the time. ``windows`` are
    the compute of one micro-batch forward and backward.
    """
    layout = work.layout
    overlaps, zero = Switch.ON.where(layout.overlap_dp), to_float(layout.zero)
    micro_batches = layout.stage_micro_batches
    reduced = costs.per_occasion
    if somewhere(zero >= 2):
        reduced = reduced * where(zero >= 2, micro_batches, 1.0)
    reduced = add_up((reduced, costs.reductions_once))
    total = reduced + costs.gathers_once
    muon_s = costs.muon_over_dp
    muon = CommSeconds(muon_s if muon_s is ZERO else muon_s * gathers_of_shards(layout), ZERO, ZERO)
    if not somewhere(overlaps):
        return muon.plus(CommSeconds(total, ZERO, ZERO))
    forward, window = (USABLE * each for each in windows)
    if somewhere(zero >= 2):
        backward = window
        window = by_code(zero, lambda code: (
            backward if code < 2 else micro_batches * (backward if code == 2 else forward + backward)
        ))  # fmt: skip
    hidden = minimum(reduced, window) + minimum(costs.gathers_once, forward)
    return muon.plus(overlapped(total, (1 - CONTENTION) * hidden, overlaps))

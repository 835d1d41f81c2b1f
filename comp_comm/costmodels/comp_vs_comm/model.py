"""The cost model of "Computation vs. Communication Scaling for Future Transformers on Future Hardware".

One transformer layer, one micro-batch, forward and backward, per device, under tensor and data parallelism: compute,
the all-reduces of tensor parallelism on the critical path (*serialized*), and the all-reduce of the weight gradients
that may run beside the backward pass (*overlapped*). What the paper leaves out (embedding, other parallelisms,
optimizer) is left out here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comp_comm.costmodels.comp_vs_comm.breakdown import COLUMNS, Breakdown
from comp_comm.costmodels.comp_vs_comm.fields import FIELDS, FOR_REQUIRED_TP, REQUIRED
from comp_comm.costmodels.model import NO_PARTS, Asked, CostModel, Parts
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value


def evaluate(scenario: Scenario, parts: Parts = NO_PARTS) -> Breakdown:
    """Return the breakdown of one layer's forward and backward pass.

    Parameters
    ----------
    scenario : Scenario
        H, SL, micro-batch, TP, DP, hardware and conventions, numbers or arrays that broadcast.

    Returns
    -------
    Breakdown
        Seconds per device, each array with only the axes it depends on; broken rules are listed, not raised.

    References
    ----------
    .. [1] S. Pati et al., arXiv:2302.02825: Eqs 1-9 and section 4.3.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> mi210 = load_profile("mi210").hardware("fp16")
    >>> b = evaluate(Scenario(Transformer(65536, 4096), Layout(micro_batch=1, tp=256), mi210))
    >>> round(float(b.serialized_comm_s / (b.compute_s + b.serialized_comm_s)), 3)
    0.478
    """
    from comp_comm.costmodels.comp_vs_comm.one_layer import breakdown_of

    return breakdown_of(scenario)


def _claims(given: Mapping[str, Value], stated: frozenset[str]) -> bool:
    """Return whether a study is about one layer: a whole model cannot be made of what it gives."""
    return given.get("tp") == "required" or (set(REQUIRED) <= given.keys() and stated <= set(FIELDS))


def _notes(asked: Asked) -> list[str]:
    notes = []
    placed = any(np.any(timing.use_tiers) for timing in asked.timings)
    if asked.names_no_model:
        notes.append("cost_model is not given: comp_vs_comm, of one layer; a whole step needs layers, heads and vocab")
    if "dp" in asked.given and not placed:
        notes.append("dp above 1 has no effect: this timing ignores network tiers and takes the ring factor of many")
    if "memory_bandwidth" in asked.given and not any(timing.memory_bound for timing in asked.timings):
        notes.append("memory_bandwidth has no effect: this timing has no memory-bound work")
    if scaling := asked.memory_scalings:
        shown = ", ".join(f"{value:g}" for value in scaling[:5]) + (", ..." if len(scaling) > 5 else "")
        notes.append(f"tp is the required TP of Eq 10 at memory scaling {shown}, rounded up to a divisor of hidden")
    if "dp" not in asked.names and placed:
        notes.append("dp is not given: gradients are reduced on intra-node links, as the paper estimates; "
                     "give dp to place them on the network tiers")  # fmt: skip
    ffn, hidden = (float(asked.model_fields.get(name, 0)) for name in ("ffn_hidden", "hidden"))
    if asked.model_name and ffn not in (0, 4 * hidden):
        notes.append(f"comp_vs_comm takes an FC dimension of 4 x hidden; {asked.model_name} has {ffn:.0f}")
    for name in ("layer_pattern", "index_heads"):
        if name in asked.model_fields:
            had = f"{name} {asked.model_fields[name]}"
            notes.append(f"comp_vs_comm times a layer of attention and a network; {asked.model_name} has {had}")
    return notes


MODEL = CostModel(
    "comp_vs_comm",
    "one layer under tensor and data parallelism, as in arXiv:2302.02825",
    evaluate,
    FIELDS,
    REQUIRED,
    COLUMNS,
    ranking="serialized_comm_fraction",
    headline="serialized_comm_fraction",
    shown=(*REQUIRED, "flop_vs_bw"),
    for_required_tp=FOR_REQUIRED_TP,
    own_hardware=True,
    claims=_claims,
    notes=_notes,
    plain_gpt=True,
)

"""Fields of a run beside each other: what means nothing there is taken out, and what follows is added."""

from __future__ import annotations

from comp_comm.fields import Value
from comp_comm.validation.measured import counts_causal
from comp_comm.validation.table import MeasuredRun


def settle(run: MeasuredRun, fields: dict[str, Value]) -> None:
    """Take out what means nothing beside the rest, and add what follows from the run."""
    for name in _meaningless(fields):
        fields.pop(name, None)
    if fields.get("experts") and int(fields.get("tp", 1)) > 1:
        fields.setdefault("etp", 1)  # what recipes of mixtures set, whatever Megatron-LM does without one
    if "micro_batch" not in fields and int(fields.get("pp", 1)) > 1 and "FSDP2" in run["fsdp"]:
        # What torchtitan does unless told otherwise: as many micro-batches as stages.
        replicas = float(run["dp"] or 1) * int(fields["pp"])
        fields["micro_batch"] = max(1, int(float(run["global_batch"] or 1) // replicas))
    heads = int(fields.get("kv_heads", fields["heads"]))
    if int(fields.get("tp", 1)) > heads:
        fields["kv_replication"] = "on"
    if counts_causal(run):
        fields["count_attention"] = "causal"


def _meaningless(fields: dict[str, Value]) -> list[str]:
    """Return names of fields that mean nothing beside the others, or that a study would refuse there."""
    names = []
    if fields.get("pp", 1) == 1:
        names += ["vpp", "pp_layout", "overlap_pp", "schedule"]
    if fields.get("tp", 1) == 1:
        names += ["sp", "overlap_tp"]
    if fields.get("sp") == "off":
        names.append("sequence_inputs")
    if not fields.get("experts"):
        names += ["capacity_factor", "overlap_ep", "mtp_layers"]
    if fields.get("zero") != 3:
        names.append("master_weights")
    if int(fields.get("zero", 0)) >= 2:
        names.append("gradient_accumulation_fusion")  # there are no whole gradients to sum
    if fields.get("position") != "learned":
        names.append("max_positions")  # where a column of the run has another position than its family
    return names

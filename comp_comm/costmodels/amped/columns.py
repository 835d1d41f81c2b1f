"""Columns of the cost model `amped`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.units import DAY_S, HOUR_S

if TYPE_CHECKING:
    from comp_comm.costmodels.amped.step import AmpedStep


def _run_s(step: AmpedStep) -> Array:
    return to_float(step.work.scenario.tokens) / step.work.step_tokens * step.step_s


def _share(flops: Array, step: AmpedStep) -> Array:
    return to_float(flops / (step.work.gpus * step.work.scenario.hardware.peak_flops * step.step_s))


_COLUMNS: tuple[Column[AmpedStep], ...] = (
    Column("step_s", "s", "one training step", lambda b: b.step_s),
    Column("compute_s", "s", "compute of a device, repeated and of the update too", lambda b: b.compute_s),
    Column("tp_comm_s", "s", "all-reduces of tensor parallelism", lambda s: s.comm.tp_intra + s.comm.tp_inter),
    Column("pp_comm_s", "s", "sends between pipeline stages", lambda s: s.comm.pp),
    Column("ep_comm_s", "s", "all-to-alls to experts and back", lambda s: s.comm.ep),
    Column("dp_comm_s", "s", "all-reduce of the gradients", lambda b: b.dp_comm_s),
    Column("bubble_s", "s", "waiting for other pipeline stages", lambda b: b.bubble_s),
    Column("visible_comm_fraction", "", "communication / step time", lambda b: b.comm_s / b.step_s),
    Column("bubble_fraction", "", "waiting for other stages / step time", lambda b: b.bubble_s / b.step_s),
    Column("mfu", "", "model FLOP / what all devices could do at their peak in a step",
           lambda s: _share(s.model_flops, s)),
    Column("hfu", "", "hardware FLOP (recomputation) / what all devices could do at their peak in a step",
           lambda s: _share(s.hardware_flops, s)),
    Column("tokens_per_s", "tokens/s", "tokens of a step / its seconds", lambda s: s.work.step_tokens / s.step_s),
    Column("days", "days", "days of the whole run", lambda s: _run_s(s) / DAY_S, needs="tokens"),
    Column("gpu_hours", "h", "GPU-hours of the whole run", lambda s: _run_s(s) / HOUR_S * s.work.gpus, needs="tokens"),
    Column("model_flops", "FLOP", "FLOP the model needs in a step, over all devices", lambda s: s.model_flops,
           extra=True),
    Column("hardware_flops", "FLOP", "FLOP done in a step, recomputation too", lambda s: s.hardware_flops,
           extra=True),
    Column("parameters", "", "weights of the layers", lambda s: s.parameters, extra=True),
    Column("tp_intra_comm_s", "s", "all-reduces of tensor parallelism within nodes", lambda s: s.comm.tp_intra,
           extra=True),
    Column("tp_inter_comm_s", "s", "all-reduces of tensor parallelism between nodes", lambda s: s.comm.tp_inter,
           extra=True),
)  # fmt: skip
COLUMNS = table_of(_COLUMNS)
# Inputs that follow from others where they are not given.
DERIVED: dict[str, Callable[[AmpedStep], Array]] = {
    "gpus": lambda step: step.work.gpus,
    "dp": lambda step: step.work.dp,
    "nv_tp1": lambda step: step.nodes.inside.tp1,
    "nv_dp": lambda step: step.nodes.inside.dp,
    "nv_pp": lambda step: step.nodes.inside.pp,
}

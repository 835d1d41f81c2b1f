"""What the cost model `amped` takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comp_comm.costmodels.amped import AmpedStep
from comp_comm.costmodels.answer import Column, table_of
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, to_float

DAY_S, HOUR_S = 86400.0, 3600.0
FIELDS = (
    "hidden", "seq_len", "layers", "heads", "ffn_hidden", "vocab", "experts", "top_k", "moe_ffn_hidden", "moe_every",
    "gpus", "micro_batch", "global_batch", "tp", "pp", "vpp", "dp", "ep", "recompute", "nvs", "nv_tp1", "nv_dp",
    "nv_pp", "flop_vs_bw", "flops", "network", "latency", "precision", "timing", "bubble_ratio", "zero_overhead",
    "tokens",
)  # fmt: skip
REQUIRED = ("hidden", "layers", "heads", "seq_len", "global_batch")
DEFAULTS: dict[str, Value] = {"micro_batch": 1, "tp": 1}
NEEDS = {"top_k": "experts", "moe_ffn_hidden": "experts", "moe_every": "experts"}
SHOWN = ("hidden", "layers", "seq_len", "gpus", "tp", "pp", "dp", "micro_batch", "global_batch", "nv_tp1", "nv_dp",
         "nv_pp")  # fmt: skip


def _of(what: Callable[[AmpedStep], Array]) -> Callable[[Any], Array]:
    return lambda answer: to_float(answer.part(what))


def _run_s(step: AmpedStep) -> Array:
    return to_float(step.scenario.tokens) / step.step_tokens * step.step_s


def _share(flops: Array, step: AmpedStep) -> Array:
    return to_float(flops / (step.gpus * step.scenario.hardware.peak_flops * step.step_s))


_COLUMNS = (
    Column("step_s", "s", "one training step", lambda b: b.step_s),
    Column("compute_s", "s", "compute of a device, repeated and of the update too", lambda b: b.compute_s),
    Column("tp_comm_s", "s", "all-reduces of tensor parallelism", _of(lambda s: s.comm.tp_intra + s.comm.tp_inter)),
    Column("pp_comm_s", "s", "sends between pipeline stages", _of(lambda s: s.comm.pp)),
    Column("ep_comm_s", "s", "all-to-alls to experts and back", _of(lambda s: s.comm.ep)),
    Column("dp_comm_s", "s", "all-reduce of the gradients", lambda b: b.dp_comm_s),
    Column("bubble_s", "s", "waiting for other pipeline stages", lambda b: b.bubble_s),
    Column("exposed_comm_fraction", "", "communication / step time", lambda b: b.comm_s / b.step_s),
    Column("bubble_fraction", "", "waiting for other stages / step time", lambda b: b.bubble_s / b.step_s),
    Column("mfu", "", "model FLOP / what all devices could do at their peak in a step",
           _of(lambda s: _share(s.model_flops, s))),
    Column("hfu", "", "hardware FLOP (recomputation) / what all devices could do at their peak in a step",
           _of(lambda s: _share(s.hardware_flops, s))),
    Column("tokens_per_s", "tokens/s", "tokens of a step / its seconds", _of(lambda s: s.step_tokens / s.step_s)),
    Column("days", "days", "days of the whole run", _of(lambda s: _run_s(s) / DAY_S), needs="tokens"),
    Column("gpu_hours", "h", "GPU-hours of the whole run", _of(lambda s: _run_s(s) / HOUR_S * s.gpus), needs="tokens"),
    Column("model_flops", "FLOP", "FLOP the model needs in a step, over all devices", _of(lambda s: s.model_flops),
           extra=True),
    Column("hardware_flops", "FLOP", "FLOP done in a step, recomputation too", _of(lambda s: s.hardware_flops),
           extra=True),
    Column("parameters", "", "weights of the layers", _of(lambda s: s.parameters), extra=True),
    Column("tp_intra_comm_s", "s", "all-reduces of tensor parallelism within nodes", _of(lambda s: s.comm.tp_intra),
           extra=True),
    Column("tp_inter_comm_s", "s", "all-reduces of tensor parallelism between nodes", _of(lambda s: s.comm.tp_inter),
           extra=True),
)  # fmt: skip
COLUMNS = table_of(_COLUMNS)
# Inputs that follow from others where they are not given.
DERIVED: dict[str, Callable[[Any], Array]] = {
    "gpus": lambda step: step.gpus,
    "dp": lambda step: step.dp,
    "nv_tp1": _of(lambda step: step.inside.tp1),
    "nv_dp": _of(lambda step: step.inside.dp),
    "nv_pp": _of(lambda step: step.inside.pp),
}

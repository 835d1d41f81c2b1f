"""Columns of the cost model `complete`."""

from __future__ import annotations

from typing import Any

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.formulas.arrays import Array, to_float

GIB = 2.0**30
DAY_S, HOUR_S = 86400.0, 3600.0


def busy_s(step: Any) -> Array:
    """Return the seconds of forward, backward and repeated compute."""
    return to_float(step.compute_s + step.recompute_s)


def visible_comm_s(step: Any) -> Array:
    """Return the seconds of communication on the critical path."""
    return to_float(step.serialized_comm_s + step.exposed_comm_s)


def run_s(step: Any) -> Array:
    """Return the seconds of a run over so many tokens."""
    return to_float(step.run_tokens / step.step_tokens * step.step_s)


def _peak_s(step: Any, flops: Array) -> Array:
    return to_float(flops / (step.gpus * step.peak_flops * step.step_s))


_COLUMNS = (
    Column("step_s", "s", "one training step", lambda b: b.step_s),
    Column("compute_s", "s", "forward and backward compute of the slowest stage", lambda b: b.compute_s),
    Column("recompute_s", "s", "compute that makes activations again", lambda b: b.recompute_s),
    Column("optimizer_s", "s", "gradient norm and optimizer step", lambda b: b.optimizer_s),
    Column("bubble_s", "s", "waiting for other pipeline stages", lambda b: b.bubble_s),
    Column("serialized_comm_s", "s", "communication that cannot overlap", lambda b: b.serialized_comm_s),
    Column("hidden_comm_s", "s", "communication that ran under compute", lambda b: b.hidden_comm_s),
    Column("exposed_comm_s", "s", "communication that could overlap but did not fit", lambda b: b.exposed_comm_s),
    Column("serialized_comm_fraction", "", "serialized communication / (compute + serialized communication)",
           lambda b: b.serialized_comm_s / (busy_s(b) + b.serialized_comm_s)),
    Column("overlap_ratio", "", "overlappable communication / the compute that may hide it",
           lambda b: (b.hidden_comm_s + b.exposed_comm_s) / busy_s(b)),
    Column("exposed_comm_fraction", "", "(serialized + exposed communication) / step time",
           lambda b: visible_comm_s(b) / b.step_s),
    Column("bubble_fraction", "", "waiting for other stages / step time", lambda b: b.bubble_s / b.step_s),
    Column("mfu", "", "model FLOP / what all devices could do at their peak in a step",
           lambda b: _peak_s(b, b.model_flops)),
    Column("hfu", "", "hardware FLOP (recomputation, padding) / what all devices could do at their peak in a step",
           lambda b: _peak_s(b, b.hardware_flops)),
    Column("tflops_per_gpu", "TFLOP/s", "model FLOP of a device and second",
           lambda b: b.model_flops / (1e12 * b.gpus * b.step_s)),
    Column("tokens_per_s", "tokens/s", "tokens of a step / its seconds", lambda b: b.step_tokens / b.step_s),
    Column("model_flops", "FLOP", "FLOP the model needs in a step, over all devices", lambda b: b.model_flops),
    Column("hardware_flops", "FLOP", "FLOP done in a step, recomputation and padding too", lambda b: b.hardware_flops),
    Column("parameters", "", "parameters of the model", lambda b: b.parameters),
    Column("active_parameters", "", "parameters a token uses", lambda b: b.active_parameters),
    Column("memory_gib", "GiB", "memory of the stage that needs most", lambda b: b.memory_bytes / GIB),
    Column("days", "days", "days of the whole run", lambda b: run_s(b) / DAY_S, needs="tokens"),
    Column("gpu_hours", "h", "GPU-hours of the whole run", lambda b: run_s(b) / HOUR_S * b.gpus, needs="tokens"),
)  # fmt: skip

COLUMNS = table_of(_COLUMNS)
# Inputs that follow from others where they are not given.
DERIVED = {
    "gpus": lambda step: step.gpus,
    "dp": lambda step: step.dp,
    "global_batch": lambda step: step.global_batch,
    "accumulation": lambda step: step.accumulation,
}

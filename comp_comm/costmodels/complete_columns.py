"""Columns of the cost model `complete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.costmodels.footprint import PARTS
from comp_comm.costmodels.traffic import Traffic
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

GROUPS = {"tp": "tensor parallelism", "cp": "context parallelism", "ep": "expert parallelism",
          "pp": "pipeline stages", "dp": "data parallelism", "world": "all devices"}  # fmt: skip
SECONDS = {
    "serialized": "cannot overlap", "hidden": "ran under compute", "exposed": "could overlap but did not fit"
}  # fmt: skip
BYTES = {"message_bytes": "bytes of the messages", "volume_bytes": "bytes, those of an all-reduce twice",
         "wire_bytes": "bytes a device sends"}  # fmt: skip
NOTHING = Traffic(*(to_float(0.0) for _ in Traffic.__dataclass_fields__))


def _seconds(group: str, kind: str) -> Callable[[Any], Array]:
    def of(step: Any) -> Array:
        return to_float(getattr(step.comm[group], kind)) if group in step.comm else to_float(0.0)

    return lambda answer: to_float(answer.part(of))


def _bytes(group: str, kind: str) -> Callable[[Any], Array]:
    return lambda answer: to_float(answer.part(lambda step: getattr(step.traffic.get(group, NOTHING), kind)))


def _memory(name: str) -> Callable[[Any], Array]:
    return lambda answer: to_float(answer.part(lambda step: getattr(step.footprint.parts, name))) / GIB


_EXTRA = (
    Column("forward_s", "s", "forward compute of the slowest stage", lambda b: b.forward_s, extra=True),
    Column("backward_s", "s", "backward compute of the slowest stage", lambda b: b.backward_s, extra=True),
    *(Column(f"{group}_{kind}_s", "s", f"communication of {what} that {meaning}", _seconds(group, kind), extra=True)
      for group, what in GROUPS.items() for kind, meaning in SECONDS.items()),
    *(Column(f"{group}_{kind}", "B", f"{meaning} in a step, for {what}", _bytes(group, kind), extra=True)
      for group, what in GROUPS.items() for kind, meaning in BYTES.items()),
    *(Column(f"{group}_calls", "", f"collectives of {what} in a step", _bytes(group, "calls"), extra=True)
      for group, what in GROUPS.items()),
    *(Column(f"{name}_gib", "GiB", f"memory of {name}, of the stage that needs most", _memory(name), extra=True)
      for name in PARTS),
)  # fmt: skip

COLUMNS = table_of((*_COLUMNS, *_EXTRA))
# Inputs that follow from others where they are not given.
DERIVED = {
    "gpus": lambda step: step.gpus,
    "dp": lambda step: step.dp,
    "global_batch": lambda step: step.global_batch,
    "accumulation": lambda step: step.accumulation,
}

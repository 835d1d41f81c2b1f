"""Columns of the cost model `complete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.costmodels.records import BYTES, GROUP_TITLES, MEMORY_PARTS
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.units import DAY_S, GIB, HOUR_S, MIB

if TYPE_CHECKING:
    from comp_comm.costmodels.complete.step import Step


def busy_s(step: Step) -> Array:
    """Return the seconds of forward, backward and repeated compute."""
    return to_float(step.compute_s + step.recompute_s)


def visible_comm_s(step: Step) -> Array:
    """Return the seconds of communication on the critical path."""
    return to_float(step.serialized_comm_s + step.exposed_comm_s)


def run_s(step: Step) -> Array:
    """Return the seconds of a run over so many tokens."""
    return to_float(step.work.run_tokens / step.work.step_tokens * step.step_s)


def _peak_s(step: Step, flops: Array) -> Array:
    return to_float(flops / (step.work.gpus * step.work.peak_flops * step.step_s))


_COLUMNS: tuple[Column[Step], ...] = (
    Column("step_s", "s", "one training step", lambda b: b.step_s),
    Column("compute_s", "s", "forward and backward compute of the slowest stage", lambda b: b.compute_s),
    Column("recompute_s", "s", "recomputation of activations", lambda b: b.recompute_s),
    Column("optimizer_s", "s", "gradient norm, optimizer step, and quantising of weights", lambda b: b.optimizer_s),
    Column("host_s", "s", "waiting for the host to launch kernels", lambda b: b.host_s),
    Column("bubble_s", "s", "waiting for other pipeline stages", lambda b: b.bubble_s),
    Column("serialized_comm_s", "s", "communication that cannot overlap", lambda b: b.serialized_comm_s),
    Column("hidden_comm_s", "s", "communication that ran under compute", lambda b: b.hidden_comm_s),
    Column("exposed_comm_s", "s", "communication that could overlap but did not fit", lambda b: b.exposed_comm_s),
    Column("serialized_comm_fraction", "", "serialized communication / (compute + serialized communication)",
           lambda b: b.serialized_comm_s / (busy_s(b) + b.serialized_comm_s)),
    Column("overlap_ratio", "", "overlappable communication / the compute that may hide it",
           lambda b: (b.hidden_comm_s + b.exposed_comm_s) / busy_s(b)),
    Column("visible_comm_fraction", "", "(serialized + exposed communication) / step time",
           lambda b: visible_comm_s(b) / b.step_s),
    Column("bubble_fraction", "", "waiting for other stages / step time", lambda b: b.bubble_s / b.step_s),
    Column("mfu", "", "model FLOP, attention as count_attention says / what all devices could do at their peak",
           lambda b: _peak_s(b, b.work.model_flops)),
    Column("hfu", "", "executed FLOP (recomputation, padding, no skipped scores) / what all devices could do",
           lambda b: _peak_s(b, b.work.hardware_flops)),
    Column("tflops_per_gpu", "TFLOP/s", "model FLOP of a device and second",
           lambda b: b.work.model_flops / (1e12 * b.work.gpus * b.step_s)),
    Column("tokens_per_s", "tokens/s", "tokens of a step / its seconds", lambda b: b.work.step_tokens / b.step_s),
    Column("model_flops", "FLOP", "FLOP the model needs in a step, over all devices", lambda b: b.work.model_flops),
    Column("hardware_flops", "FLOP", "FLOP executed in a step, recomputation and padding too",
           lambda b: b.work.hardware_flops),
    Column("parameters", "", "parameters of the model", lambda b: b.work.parameters),
    Column("trained_parameters", "", "parameters that are trained: with lora_rank those of adapters",
           lambda b: b.work.trained_parameters),
    Column("active_parameters", "", "parameters a token uses", lambda b: b.work.active_parameters),
    Column("memory_gib", "GiB", "memory of the stage that needs most", lambda b: b.memory_bytes / GIB),
    Column("days", "days", "days of the whole run", lambda b: run_s(b) / DAY_S, needs="tokens"),
    Column("gpu_hours", "h", "GPU-hours of the whole run", lambda b: run_s(b) / HOUR_S * b.work.gpus, needs="tokens"),
)  # fmt: skip

SECONDS = {
    "serialized": "cannot overlap", "hidden": "ran under compute", "exposed": "could overlap but did not fit"
}  # fmt: skip


def _seconds(group: str, kind: str) -> Callable[[Step], Array]:
    return lambda step: to_float(getattr(step.comm[group], kind)) if group in step.comm else to_float(0.0)


def _bytes(group: str, kind: str) -> Callable[[Step], Array]:
    return lambda step: to_float(getattr(step.traffic[group], kind)) if group in step.traffic else to_float(0.0)


def _memory(name: str) -> Callable[[Step], Array]:
    return lambda step: to_float(getattr(step.footprint.parts, name)) / GIB


_EXTRA: tuple[Column[Step], ...] = (
    Column("forward_s", "s", "forward compute of the slowest stage", lambda b: b.forward_compute_s, extra=True),
    Column("backward_s", "s", "backward compute of the slowest stage", lambda b: b.backward_compute_s, extra=True),
    *(Column(f"{group}_{kind}_s", "s", f"communication of {what} that {meaning}", _seconds(group, kind), extra=True)
      for group, what in GROUP_TITLES.items() for kind, meaning in SECONDS.items()),
    *(Column(f"{group}_{kind}", "B", f"{meaning} in a step, for {what}", _bytes(group, kind), extra=True)
      for group, what in GROUP_TITLES.items() for kind, meaning in BYTES.items()),
    *(Column(f"{group}_calls", "", f"collectives of {what} in a step", _bytes(group, "calls"), extra=True)
      for group, what in GROUP_TITLES.items()),
    *(Column(f"{name}_gib", "GiB", f"memory of {name}, of the stage that needs most", _memory(name), extra=True)
      for name in MEMORY_PARTS),
    Column("allocated_gib", "GiB", "tensors at the peak (torch.cuda.max_memory_allocated) of the fullest stage",
           lambda b: b.footprint.allocated / GIB, extra=True),
    Column("reserved_gib", "GiB", "what the caching allocator holds for them (torch.cuda.max_memory_reserved)",
           lambda b: b.footprint.reserved / GIB, extra=True),
    Column("nvidia_smi_mib", "MiB", "what nvidia-smi shows: reserved memory and the framework",
           lambda b: (b.footprint.reserved + b.work.scenario.framework_bytes) / MIB, extra=True),
)  # fmt: skip

COLUMNS = table_of((*_COLUMNS, *_EXTRA))
# Inputs that follow from others where they are not given.
DERIVED: dict[str, Callable[[Step], Array]] = {
    "gpus": lambda step: step.work.gpus,
    "dp": lambda step: step.work.dp,
    "global_batch": lambda step: step.work.global_batch,
    "accumulation": lambda step: step.work.accumulation,
}

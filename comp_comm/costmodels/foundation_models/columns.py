"""Columns of the cost model `foundation_models`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.costmodels.foundation_models.device_memory import DeviceMemory
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.units import DAY_S, GIB, HOUR_S

if TYPE_CHECKING:
    from comp_comm.costmodels.foundation_models.step import FoundationStep


def _inside(name: str) -> Callable[[FoundationStep], Array]:
    return lambda step: to_float(getattr(step.mesh.inside, name))


def _memory(name: str) -> Callable[[FoundationStep], Array]:
    return lambda step: to_float(getattr(step.memory, name)) / GIB


def _run_s(step: FoundationStep) -> Array:
    return to_float(step.scenario.tokens) / step.step_tokens * step.step_s


_COLUMNS: tuple[Column[FoundationStep], ...] = (
    Column("step_s", "s", "one training step", lambda b: b.step_s),
    Column("compute_s", "s", "compute of a stage, with the start of every operation", lambda b: b.compute_s),
    Column("memory_bound_s", "s", "what HBM takes beyond compute", lambda b: b.memory_bound_s),
    Column("tp_comm_s", "s", "communication of tensor (and context) parallelism that shows", lambda b: b.tp_comm_s),
    Column("pp_comm_s", "s", "sends between pipeline stages", lambda b: b.pp_comm_s),
    Column("dp_comm_s", "s", "communication of data parallelism that shows", lambda b: b.dp_comm_s),
    Column("bubble_s", "s", "waiting for other pipeline stages", lambda b: b.bubble_s),
    Column("visible_comm_fraction", "", "communication that shows / step time", lambda b: b.comm_s / b.step_s),
    Column("bubble_fraction", "", "waiting for other stages / step time", lambda b: b.bubble_s / b.step_s),
    Column("tokens_per_s", "tokens/s", "tokens of a step / its seconds", lambda b: b.step_tokens / b.step_s),
    Column("memory_gib", "GiB", "memory of a device of the first stage", lambda b: b.memory_bytes / GIB),
    Column("days", "days", "days of the whole run", lambda b: _run_s(b) / DAY_S, needs="tokens"),
    Column("gpu_hours", "h", "GPU-hours of the whole run",
           lambda b: _run_s(b) / HOUR_S * b.mesh.gpus, needs="tokens"),
    *(Column(f"{name}_gib", "GiB", f"memory of {name}", _memory(name), extra=True) for name in DeviceMemory._fields),
)  # fmt: skip
COLUMNS = table_of(_COLUMNS)
# Inputs that follow from others where they are not given.
DERIVED: dict[str, Callable[[FoundationStep], Array]] = {
    "gpus": lambda step: step.mesh.gpus,
    "dp": lambda step: step.mesh.dp,
    "accumulation": lambda step: step.mesh.accumulation,
    "summa_panels": lambda step: step.mesh.panels,
    **{f"nv_{name}": _inside(name) for name in ("tp1", "tp2", "dp", "pp")},
}

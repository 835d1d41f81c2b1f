"""What the cost model `foundation_models` takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.costmodels.foundation_models import FoundationStep, Memory
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, to_float

GIB = 2.0**30
DAY_S, HOUR_S = 86400.0, 3600.0
FIELDS = (
    "hidden", "seq_len", "layers", "heads", "gpus", "micro_batch", "global_batch", "pp", "dp", "strategy", "tp1", "tp2",
    "summa_panels", "nvs", "nv_tp1", "nv_tp2", "nv_dp", "nv_pp", "flop_vs_bw", "flops", "network", "memory_bandwidth",
    "memory_capacity", "latency", "formulas", "tokens",
)  # fmt: skip
REQUIRED = ("hidden", "layers", "heads", "seq_len", "global_batch")
DEFAULTS: dict[str, Value] = {"micro_batch": 1}
SHOWN = ("hidden", "layers", "seq_len", "gpus", "strategy", "tp1", "tp2", "pp", "dp", "micro_batch", "global_batch",
         "nv_tp1", "nv_tp2", "nv_dp", "nv_pp")  # fmt: skip


def _inside(name: str) -> Callable[[Any], Array]:
    return lambda answer: to_float(answer.part(lambda step: getattr(step.inside, name)))


def _memory(name: str) -> Callable[[Any], Array]:
    return lambda answer: to_float(answer.part(lambda step: getattr(step.memory, name))) / GIB


def _run(seconds: float) -> Callable[[Any], Array]:
    def of(step: FoundationStep) -> Array:
        return to_float(step.scenario.tokens) / step.step_tokens * step.step_s / seconds

    return lambda answer: to_float(answer.part(of))


_COLUMNS = (
    Column("step_s", "s", "one training step", lambda b: b.step_s),
    Column("compute_s", "s", "compute of a stage, with the start of every operation", lambda b: b.compute_s),
    Column("memory_bound_s", "s", "what HBM takes beyond compute", lambda b: b.memory_bound_s),
    Column("tp_comm_s", "s", "communication of tensor (and context) parallelism that shows", lambda b: b.tp_comm_s),
    Column("pp_comm_s", "s", "sends between pipeline stages", lambda b: b.pp_comm_s),
    Column("dp_comm_s", "s", "communication of data parallelism that shows", lambda b: b.dp_comm_s),
    Column("bubble_s", "s", "waiting for other pipeline stages", lambda b: b.bubble_s),
    Column("exposed_comm_fraction", "", "communication that shows / step time", lambda b: b.comm_s / b.step_s),
    Column("bubble_fraction", "", "waiting for other stages / step time", lambda b: b.bubble_s / b.step_s),
    Column("tokens_per_s", "tokens/s", "tokens of a step / its seconds", lambda b: b.step_tokens / b.step_s),
    Column("memory_gib", "GiB", "memory of a device of the first stage", lambda b: b.memory_bytes / GIB),
    Column("days", "days", "days of the whole run", _run(DAY_S), needs="tokens"),
    Column("gpu_hours", "h", "GPU-hours of the whole run",
           lambda answer: _run(HOUR_S)(answer) * to_float(answer.gpus), needs="tokens"),
    *(Column(f"{name}_gib", "GiB", f"memory of {name}", _memory(name), extra=True) for name in Memory._fields),
)  # fmt: skip
COLUMNS = table_of(_COLUMNS)
# Inputs that follow from others where they are not given.
DERIVED: dict[str, Callable[[Any], Array]] = {
    "gpus": lambda step: step.gpus,
    "dp": lambda step: step.dp,
    "accumulation": lambda step: step.accumulation,
    "summa_panels": lambda step: step.panels,
    **{f"nv_{name}": _inside(name) for name in ("tp1", "tp2", "dp", "pp")},
}

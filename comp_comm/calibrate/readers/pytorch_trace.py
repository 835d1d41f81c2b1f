"""PyTorch profiler traces: kernels with the shapes of the operators that launched them, where those were recorded."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from typing import Any

from comp_comm.calibrate.measurements import AttentionRow, CollectiveRow, GemmRow, Log, Row
from comp_comm.calibrate.readers.kernel_names import operator_of_kernel
from comp_comm.calibrate.readers.kernel_sums import kernel_rows
from comp_comm.calibrate.readers.kernel_tables import collective_kind, number_format
from comp_comm.calibrate.readers.text import refuse

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
# Operators whose operands have the shapes of one product; where the first operand is a bias, they come after it.
PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::_scaled_mm": 0}
SOFT = ("aten::_flash_attention_forward", "aten::_efficient_attention_forward",
        "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention")  # fmt: skip
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp64": 8, "int8": 1, "uint8": 1, "long": 8, "int": 4}


def read(file: str, text: str) -> Log:
    """Return GEMMs, attention and collectives with their shapes, every other kernel by name."""
    try:
        trace = json.loads(text)
    except json.JSONDecodeError as error:
        cut = "; it ends early: the profiler was stopped, or the copy was cut off" if error.pos >= len(text) - 2 else ""
        raise refuse(file, f"is not whole JSON: {error.msg}{cut}", error.lineno) from None
    except RecursionError:
        raise refuse(file, "is JSON nested too deeply to be a trace") from None
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise refuse(file, "is JSON, but not a profiler trace: it has no list 'traceEvents'")
    kernels = [e for e in events if str(e.get("cat", "")).lower() in DEVICE and _seconds(e) > 0]
    if not kernels:
        raise refuse(file, "has no GPU kernels: profile with ProfilerActivity.CUDA (it covers AMD GPUs too)")
    return _kernels(Log(file, "PyTorch profiler trace"), events, kernels)


def _kernels(log: Log, events: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> Log:
    launched = {}
    for event in events:
        args = event.get("args")
        if event.get("cat") == "cpu_op" and isinstance(args, dict) and "External id" in args:
            launched[args["External id"]] = event
    shaped: dict[Row, list[float]] = defaultdict(list)
    totals: dict[str, tuple[float, int, int]] = {}
    for event in kernels:
        name, args = str(event.get("name", "")), event.get("args")
        args = args if isinstance(args, dict) else {}
        row = _shape(name, args, launched.get(args.get("External id")))
        log.totals[operator_of_kernel(name)] = log.totals.get(operator_of_kernel(name), 0.0) + _seconds(event)
        if row is None:
            seconds, calls, _ = totals.get(name, (0.0, 0, 0))
            totals[name] = (seconds + _seconds(event), calls + 1, 0)
        else:
            shaped[row].append(_seconds(event))
    log.rows = [_with_seconds(row, statistics.median(times)) for row, times in shaped.items()] + kernel_rows(totals)
    calls = sum(len(times) for times in shaped.values())
    if calls:
        log.notes.append(f"{log.file}: {calls} calls of kernels with shapes; each shape is the median of its calls")
    else:
        log.notes.append(f"{log.file}: no kernel has a shape: record_shapes=True gives them, with CPU activity")
    return log


def _seconds(event: dict[str, Any]) -> float:
    duration = event.get("dur")
    number = isinstance(duration, (int, float)) and not isinstance(duration, bool)
    return float(duration) * 1e-6 if number and 0 < duration < float("inf") else 0.0  # type: ignore[arg-type,operator]


def _with_seconds(row: Row, seconds: float) -> Row:
    return type(row)(**{**row.__dict__, "seconds": seconds})


def _shape(name: str, args: dict[str, Any], launcher: dict[str, Any] | None) -> Row | None:
    """Return the measurement a kernel is, its seconds left open; None where its shape is not known."""
    operator = operator_of_kernel(name)
    if operator == "collective":
        return _collective(args)
    given = launcher.get("args") if launcher else None
    if launcher is None or not isinstance(given, dict):
        return None
    dims, types = given.get("Input Dims"), given.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list) or not types:
        return None
    if operator == "gemm" and launcher.get("name") in PRODUCTS:
        return _product(dims[PRODUCTS[launcher["name"]] :], number_format(str(types[-1 if len(types) < 2 else 1])))
    if operator == "attention" and launcher.get("name") in SOFT:
        return _attention(str(launcher["name"]), dims, given, number_format(str(types[0])))
    return None


def _is_shape(value: Any, rank: int) -> bool:
    return isinstance(value, list) and len(value) == rank and all(isinstance(n, int) and n > 0 for n in value)


def _product(dims: list[Any], dtype: str) -> Row | None:
    if len(dims) >= 2 and _is_shape(dims[0], 2) and _is_shape(dims[1], 2) and dims[0][1] == dims[1][0]:
        return GemmRow(0.0, dtype, 0, dims[0][0], dims[1][1], dims[0][1])
    if len(dims) >= 2 and _is_shape(dims[0], 3) and _is_shape(dims[1], 3) and dims[0][2] == dims[1][1]:
        return GemmRow(0.0, dtype, 0, dims[0][1], dims[1][2], dims[0][2], dims[0][0])
    return None


def _attention(name: str, dims: list[Any], given: dict[str, Any], dtype: str) -> Row | None:
    if len(dims) < 2 or not (_is_shape(dims[0], 4) and _is_shape(dims[1], 4)):
        return None
    heads_first = "scaled_dot_product" in name  # (batch, heads, tokens, dim), the others (batch, tokens, heads, dim)
    batch, first, second, dim = dims[0]
    heads, tokens = (first, second) if heads_first else (second, first)
    key_heads, keys = (dims[1][1], dims[1][2]) if heads_first else (dims[1][2], dims[1][1])
    if tokens != keys:
        return None
    place = 4 if heads_first else 8
    concrete = given.get("Concrete Inputs")
    said = concrete[place] if isinstance(concrete, list) and len(concrete) > place else ""
    return AttentionRow(0.0, dtype, 0, batch, tokens, heads, key_heads, dim, str(said) == "True")


def _collective(args: dict[str, Any]) -> Row | None:
    kind = collective_kind(str(args.get("Collective name", "")).removeprefix("_").removesuffix("_base"))
    sizes = [args.get(name) for name in ("In msg nelems", "Out msg nelems")]
    group, dtype = args.get("Group size"), number_format(str(args.get("dtype", "")))
    counts = [size for size in sizes if isinstance(size, int)]
    if kind is None or not isinstance(group, int) or group < 2 or not counts:
        return None
    each, elements = BYTES.get(dtype, 0), max(counts)
    return CollectiveRow(0.0, dtype, 0, kind, elements * each, group) if elements and each else None

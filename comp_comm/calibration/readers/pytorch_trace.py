"""PyTorch profiler traces: kernels with the shapes of the operators that launched them, where those were recorded."""

from __future__ import annotations

import statistics
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from comp_comm.calibration.measurements import Log, Row
from comp_comm.calibration.readers.json_events import events
from comp_comm.calibration.readers.kernel_names import MOST_READ, operator_of_kernel
from comp_comm.calibration.readers.kernel_sums import MOST_NAMES, kernel_rows
from comp_comm.calibration.readers.text import LogSource, refuse
from comp_comm.calibration.readers.trace_links import KernelIdentity, Launches, ShapedOperator, Together
from comp_comm.calibration.readers.trace_shapes import PRODUCTS, SOFT, collective_shape, operator_shape
from comp_comm.errors import so_many
from comp_comm.records import Record

Event = Record
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
OPERATOR = ("cpu_op", "operator")
CALL = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "xpu_runtime")
LINKED = ("gemm", "attention")  # what an operator's operands give a shape
LONGEST = 86_400e6  # microseconds: no kernel takes a day
LARGEST = 2**63 - 1
MOST_KEPT = 500_000  # operators with a shape, and twice as many calls of the runtime: some hundred bytes each
MOST_KERNELS = 5_000_000
BEYOND = 1e300
STEP = "ProfilerStep#"


def read(source: LogSource) -> Log:
    """Return GEMMs, attention and collectives with their shapes, every other kernel by name."""
    gathered = _Gathered(source.file)
    for number, event in enumerate(events(source)):
        gathered.take(number, event)
    if not gathered.log.totals:
        raise refuse(source.file, "has no GPU kernels: profile with ProfilerActivity.CUDA (it covers AMD GPUs too)")
    return gathered.finish()


class _Gathered:
    """What the events of a trace say, one after the other: kernels may come before what launched them."""

    def __init__(self, file: str) -> None:
        self.log = Log(file, "PyTorch profiler trace")
        self.links = Launches()
        self.shapes: list[Row] = []
        self.places: dict[Row, int] = {}
        self.names: dict[str, int] = {}
        self.totals: dict[str, tuple[float, int, int]] = {}
        self.collectives: dict[Row, list[float]] = defaultdict(list)
        self.steps: set[str] = set()
        self._kernels = array("q")  # name, external identity and correlation of each kernel that may have a shape
        self._seconds = array("d")
        self._count = 0

    def take(self, number: int, event: Event) -> None:
        category = event.get("cat")
        if not isinstance(category, str):
            return
        kind = category.lower()
        if kind in DEVICE:
            self._kernel(number, event)
        elif kind in OPERATOR:
            self._operator(number, event)
        elif kind in CALL:
            self._call(number, event)
        elif kind == "user_annotation" and str(event.get("name", "")).startswith(STEP):
            self.steps.add(str(event["name"])[:40])

    def _kernel(self, number: int, event: Event) -> None:
        duration = self._number(number, event, event, "dur")
        name, args = event.get("name", ""), self._args(number, event)
        if not isinstance(name, str):
            raise self._wrong(number, event, "name", "a word")
        name = name[:MOST_READ]
        if duration > LONGEST:
            raise refuse(self.log.file, f"event {number} ('{name[:60]}'): a duration of {duration:.4g} us is none")
        if duration <= 0:
            self.log.skipped["kernels without a duration"] += 1
            return
        self._count += 1
        if self._count > MOST_KERNELS or max(len(self.totals), len(self.names)) > MOST_NAMES:
            raise refuse(self.log.file, f"has more than {MOST_KERNELS:,} kernels, or {MOST_NAMES:,} of other names")
        seconds, operator = duration * 1e-6, operator_of_kernel(name)
        self.log.totals[operator] = self.log.totals.get(operator, 0.0) + seconds
        external, correlation = (self._identity(number, event, args, key) for key in ("External id", "correlation"))
        if operator in LINKED:
            self._kernels.extend((self.names.setdefault(name, len(self.names)), external, correlation))
            self._seconds.append(seconds)
            return
        shape = collective_shape(args) if operator == "collective" else None
        if shape is None:
            self._unshaped(name, seconds, 1)
        else:
            self.collectives[shape].append(seconds)

    def _operator(self, number: int, event: Event) -> None:
        name = event.get("name")
        if not isinstance(name, str) or (name not in PRODUCTS and name not in SOFT):
            return
        args = self._args(number, event)
        shape = operator_shape(name, args)
        if shape is None:
            return
        place = self.places.setdefault(shape, len(self.shapes))
        if place == len(self.shapes):
            self.shapes.append(shape)
        if len(self.links.operators) >= MOST_KEPT:
            raise refuse(self.log.file, f"has more than {MOST_KEPT:,} operators with shapes; profile fewer steps")
        begin = self._number(number, event, event, "ts")
        end = begin + self._number(number, event, event, "dur")
        self.links.add_operator(
            ShapedOperator(_thread(event), begin, end, place), self._identity(number, event, args, "External id")
        )

    def _call(self, number: int, event: Event) -> None:
        correlation = self._identity(number, event, self._args(number, event), "correlation")
        if self.links.calls > 2 * MOST_KEPT:
            raise refuse(self.log.file, f"has more than {2 * MOST_KEPT:,} calls of the runtime; profile fewer steps")
        if correlation >= 0 and "ts" in event:
            self.links.add_call(correlation, _thread(event), self._number(number, event, event, "ts"))

    def finish(self) -> Log:
        """Return the rows: the median of the calls of each shape, and all calls of every other kernel."""
        shaped: dict[int, Together] = defaultdict(Together)
        names = list(self.names)
        for place, seconds in enumerate(self._seconds):
            name, external, correlation = self._kernels[3 * place : 3 * place + 3]
            launcher = self.links.launcher(KernelIdentity(external, correlation))
            shape = self.links.operators[launcher].shape if launcher is not None else None
            if launcher is None or shape is None or not _is_of(self.shapes[shape], names[name]):
                self._unshaped(names[name], seconds, 1)
            else:
                shaped[shape].add(launcher, names[name], seconds)
        calls = {self.shapes[shape]: kernels.calls() for shape, kernels in shaped.items()}
        calls.update(self.collectives)
        log = self.log
        log.rows = [replace(row, seconds=statistics.median(times)) for row, times in calls.items()]
        log.rows += kernel_rows(self.totals)
        count = sum(len(times) for times in calls.values())
        if count:
            log.notes.append(f"{log.file}: {count} calls of kernels with shapes; each shape is the median of its calls")
        else:
            log.notes.append(f"{log.file}: no kernel has a shape: record_shapes=True gives them, with CPU activity")
        if self.collectives:
            log.notes.append(f"{log.file}: {_waiting(self.collectives)}")
        if len(self.steps) > 1:
            log.notes.append(f"{log.file}: is of {len(self.steps)} steps of the profiler; sums are of all of them")
        return log

    def _unshaped(self, name: str, seconds: float, calls: int) -> None:
        before, times, _ = self.totals.get(name, (0.0, 0, 0))
        self.totals[name] = (before + seconds, times + calls, 0)

    def _args(self, number: int, event: Event) -> Event:
        args = event.get("args")
        if args is None:
            return {}
        if not isinstance(args, dict):
            raise self._wrong(number, event, "args", "an object")
        return args

    def _number(self, number: int, event: Event, among: Event, key: str) -> float:
        value = among.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise self._wrong(number, event, key, "a number")
        return float(max(min(value, BEYOND), -BEYOND))  # a whole number may have more digits than a float

    def _identity(self, number: int, event: Event, args: Event, key: str) -> int:
        """Return an identity, -1 where there is none."""
        value = args.get(key)
        if value is None:
            return -1
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
        if isinstance(value, float) and abs(value) < LARGEST and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
            raise self._wrong(number, event, key, "a number")
        return max(value, -1)

    def _wrong(self, number: int, event: Event, key: str, what: str) -> Exception:
        name = event.get("name")
        called = f" ('{name[:60]}')" if isinstance(name, str) else ""
        value = event.get(key, (event.get("args") or {}).get(key) if isinstance(event.get("args"), dict) else None)
        shown = {list: "a list", dict: "an object", str: "text", bool: "true or false"}.get(type(value), "that")
        return refuse(self.log.file, f"event {number}{called}: '{key}' must be {what}, not {shown}")


def _waiting(collectives: Mapping[Row, Sequence[float]]) -> str:
    """Return what to say of the durations of collectives, which have waiting in them that one trace cannot tell apart.

    NCCL's kernel begins when its rank calls it and ends when the last rank has: only on the rank that comes last is it
    the transfer alone.
    """
    shares = [min(times) / statistics.median(times) for times in collectives.values()]
    count, quickest = sum(map(len, collectives.values())), f"{100 * statistics.median(shares):.0f} %"
    return (f"{count} calls of {so_many(len(shares), 'collective')}: a kernel of NCCL lasts until all ranks have "
            "called it and all is sent, so that waiting for others is in the median of its calls; the quickest took "
            f"{quickest} of it. Where that is little, calibrate on nccl-tests, or the trace of the rank that comes "
            "last")  # fmt: skip


def _thread(event: Event) -> tuple[str, str]:
    """Return the process and thread of an event."""
    process, thread = event.get("pid"), event.get("tid")
    return (str(process)[:40] if isinstance(process, (int, str)) else "",
            str(thread)[:40] if isinstance(thread, (int, str)) else "")  # fmt: skip


def _is_of(shape: Row, kernel: str) -> bool:
    """Return whether a kernel is of the kind that a shape is of: an attention operator launches GEMMs of its own."""
    return (operator_of_kernel(kernel) == "gemm") == (type(shape).__name__ == "GemmRow")

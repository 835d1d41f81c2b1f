"""Which operator launched a kernel: by its correlation with a call of the runtime, and where that lies in time.

A kernel's ``External id`` is the operator's in some traces, and the call's in others: it is believed where the call it
is correlated with lies within that operator, or where nothing else is said.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_OUTWARD = 64  # operators that enclose one another, of those that matter


class ShapedOperator(NamedTuple):
    """A recorded operator whose operands say something: its thread and time (microseconds), and which shape it has."""

    thread: tuple[str, str]
    begin: float
    end: float
    shape: int


class KernelIdentity(NamedTuple):
    """What a kernel says of its launch: both identities, -1 where there is none."""

    external: int
    correlation: int


@dataclass
class Launches:
    """Operators and calls of the runtime, in the order of the trace."""

    operators: list[ShapedOperator] = field(default_factory=list)
    externals: dict[int, int] = field(default_factory=dict)  # -2 where several operators have it
    _calls: dict[int, int] = field(default_factory=dict)
    _times: array[float] = field(default_factory=lambda: array("d"))
    _threads: array[int] = field(default_factory=lambda: array("l"))
    _names: dict[tuple[str, str], int] = field(default_factory=dict)
    _sorted: dict[int, tuple[list[float], list[int]]] | None = None

    def add_operator(self, operator: ShapedOperator, external: int) -> None:
        """Note an operator, under its identity where it has one (not below 0)."""
        number = len(self.operators)
        self.operators.append(operator)
        if external >= 0:
            self.externals[external] = -2 if external in self.externals else number

    def add_call(self, correlation: int, thread: tuple[str, str], begin: float) -> None:
        """Note a call of the runtime that may have launched something."""
        self._calls[correlation] = -2 if correlation in self._calls else len(self._times)
        self._times.append(begin)
        self._threads.append(self._thread(thread))

    @property
    def calls(self) -> int:
        """Calls of the runtime that were noted."""
        return len(self._times)

    def launcher(self, kernel: KernelIdentity) -> int | None:
        """Return which operator launched a kernel, None where that is not known."""
        call = self._calls.get(kernel.correlation, -1) if kernel.correlation >= 0 else -1
        named = self.externals.get(kernel.external, -1) if kernel.external >= 0 else -1
        if call == -2:  # several calls have this identity: the trace is of several processes
            return None
        if call >= 0:
            thread, time = self._threads[call], self._times[call]
            if named >= 0 and self._encloses(named, thread, time):
                return named
            return self._innermost(thread, time)
        # Without its call, an identity that is also the correlation is the call's own, not an operator's.
        return named if named >= 0 and kernel.external != kernel.correlation else None

    def _thread(self, name: tuple[str, str]) -> int:
        return self._names.setdefault(name, len(self._names))

    def _encloses(self, number: int, thread: int, time: float) -> bool:
        one = self.operators[number]
        return self._thread(one.thread) == thread and one.begin <= time <= one.end

    def _innermost(self, thread: int, time: float) -> int | None:
        """Return the operator that began last of those of a thread that are still going on."""
        if self._sorted is None:
            self._sorted = self._by_thread()
        begins, numbers = self._sorted.get(thread, ([], []))
        place = bisect_right(begins, time)
        for number in reversed(numbers[max(place - MOST_OUTWARD, 0) : place]):
            if self.operators[number].end >= time:
                return number
        return None

    def _by_thread(self) -> dict[int, tuple[list[float], list[int]]]:
        numbers_of: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(self.operators):
            numbers_of[self._thread(one.thread)].append(number)
        for numbers in numbers_of.values():
            numbers.sort(key=lambda number: (self.operators[number].begin, -self.operators[number].end))
        return {thread: ([self.operators[n].begin for n in numbers], numbers) for thread, numbers in numbers_of.items()}


@dataclass
class Together:
    """The kernels of one kind that operators of one shape launched, so that an operator's are counted together.

    A product may be made by two kernels (one adds up the parts of the other); the same kernel twice under one operator
    is two calls of it (a graph that was replayed).
    """

    seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    names: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, operator: int, name: str, seconds: float) -> None:
        """Note a kernel of an operator."""
        self.seconds[operator] += seconds
        self.names[operator][name] += 1

    def calls(self) -> list[float]:
        """Return the seconds of each call."""
        times = []
        for operator, seconds in self.seconds.items():
            count = max(self.names[operator].values())
            times += [seconds / count] * count
        return times

"""What a line of nccl-tests or rccl-tests says, whatever stands before it: a rank, a header, a row.

Ranks of mpirun and srun, names of pods and times may begin any line, and a message of the library may share one with a
row. So lines are taken apart into words, in time that grows with their length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from comp_comm.calibration.readers.text import number_of

RANK = re.compile(
    r"Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+(\d{1,12})\s+on\s+(\S+)\s+device\s+(\d{1,6})(?:\s+\[([^\]]*)\])?"
)
PROGRAM = re.compile(r"_perf(?:_mpi)?(?![A-Za-z0-9])")
NAME_BEFORE = re.compile(r"[A-Za-z_]+$")
OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})")
# Number formats, and the bytes of one number.
WIDTHS = {"int8": 1, "uint8": 1, "char": 1, "half": 2, "bfloat16": 2, "float": 4, "double": 8, "int": 4, "int32": 4,
          "uint32": 4, "int64": 8, "uint64": 8, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}  # fmt: skip
TIMES = ("time", "cputime")
CHECKS = ("#wrong", "error")  # columns that some versions leave out of their rows
AGREE = 0.02  # how far size over time may be from the bandwidth, beyond rounding
GLUE = (">", ":", "]", "|", ",")  # what a prefix can end with right before a number
MOST_DIGITS = 18
LARGEST = 1e12  # microseconds, or GB/s: no row has more
LEAST_WORDS = 6  # of a row: size, count, type, time and two bandwidths


class Rank(NamedTuple):
    """A line of the list of devices: its rank, its group (0 where none is said), its host and what it runs on."""

    rank: int
    group: int
    process: int
    host: str
    device: str


@dataclass(frozen=True)
class Header:
    """The columns of a run: those after the number format, up to the first time, and those of each side.

    A side is what was measured out of place, or in place.
    """

    before: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...]
    commas: bool = False  # made a table with commas, as scripts do

    @property
    def width(self) -> int:
        """Cells of both sides."""
        return sum(map(len, self.sides))

    @property
    def lengths(self) -> frozenset[int]:
        """How many cells a row may have: of both sides or of one, with and without checks."""
        full = [len(side) for side in self.sides]
        bare = [sum(name not in CHECKS for name in side) for side in self.sides]
        return frozenset((*map(sum, (full, bare)), full[0], bare[0]))


@dataclass(frozen=True)
class Side:
    """Microseconds and bandwidths (GB/s) as printed, and how far each may be off for being rounded."""

    time: float
    algorithm: float
    bus: float
    time_off: float
    algorithm_off: float
    bus_off: float
    wrong: float = 0.0

    def agrees(self, size: int) -> bool:
        """Return whether bytes over the time are the bandwidth, as far as the printed digits tell.

        >>> Side(309.4, 3.39, 5.93, 0.05, 0.005, 0.005).agrees(2**20), Side(0, 3.4, 5.9, 0, 0, 0).agrees(2**20)
        (True, False)
        """
        if self.time <= 0:
            return self.algorithm <= self.algorithm_off
        slowest, fastest = self.time + self.time_off, max(self.time - self.time_off, 1e-9)
        least, most = size / slowest / 1e3 * (1 - AGREE), size / fastest / 1e3 * (1 + AGREE)
        return self.algorithm + self.algorithm_off >= least and self.algorithm - self.algorithm_off <= most


@dataclass(frozen=True)
class Cells:
    """A row as it stands in the file."""

    line: int
    size: int
    count: int
    dtype: str
    operation: str
    root: int
    sides: tuple[Side, ...]
    mixed: bool = False  # with the text of something else on the same line
    half: bool = False  # one side where the header has two: the other was not measured, or cut off


class CutError(Exception):
    """A row lacks cells: the file was cut off in it, or other output runs through it."""


def rank_of(line: str) -> Rank | None:
    """Return the device that a line lists, None where it lists none.

    >>> rank_of("[1,0]<stdout>:#  Rank  3 Group  0 Pid 9 on node-1 device  3 [0000:19:00] NVIDIA A100")
    Rank(rank=3, group=0, process=9, host='node-1', device='3 0000:19:00')
    """
    listed = RANK.search(line)
    if listed is None:
        return None
    rank, group, process, host, device, bus = listed.groups()
    return Rank(int(rank), int(group or 0), int(process), host, f"{int(device)} {bus or ''}".strip())


def header_of(line: str) -> Header | None:
    """Return the columns that a line names, None where it is no header.

    >>> header_of("#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong").sides[0]
    ('time', 'algbw', 'busbw', '#wrong')
    """
    if "busbw" not in line or "size" not in line:
        return None
    commas = line.count(",") >= LEAST_WORDS - 1
    words = _spaced(line, commas).replace("#wrong", " #wrong ").replace("#", " #").split()
    words = [word for word in words if word != "#"]
    start = next((i for i in range(len(words) - 2) if words[i + 1 : i + 3] == ["count", "type"]), None)
    if start is None or words[start].lstrip("#") != "size":
        return None
    names = words[start + 3 :]
    first = next((i for i, name in enumerate(names) if name in TIMES), None)
    if first is None:
        return None
    sides: list[list[str]] = []
    for name in names[first:]:
        if name in TIMES:
            sides.append([])
        if name.lower() != "timestamp":
            sides[-1].append(name)
    usable = tuple(tuple(side) for side in sides if side[1:3] == ["algbw", "busbw"])
    return Header(tuple(names[:first]), usable, commas) if usable and len(usable) == len(sides) else None


def _spaced(line: str, commas: bool) -> str:
    return line.replace(",", " ").replace('"', " ") if commas else line


def programs_in(line: str) -> list[str]:
    """Return the names of the tests that a line names.

    >>> programs_in("srun ./build/all_reduce_perf -b 8 && alltoall_perf_mpi")
    ['all_reduce', 'alltoall']
    """
    if "_perf" not in line:
        return []
    names = []
    for match in PROGRAM.finditer(line):
        before = NAME_BEFORE.search(line[max(match.start() - 24, 0) : match.start()])
        if before:
            names.append(before.group().strip("_"))
    return names


def row_of(line: str, number: int, header: Header) -> Cells | None:
    """Return the row that a line has, None where it has none. Raises `CutError` for a part of one."""
    words = _spaced(line, header.commas).split()
    start = _first_word(words)
    if start is None:
        return None
    size, count = int(_last_digits(words[start])), int(words[start + 1])
    rest = words[start + 3 :]
    operation = rest[0] if rest and "redop" in header.before and not is_number(rest[0]) else ""
    rest = rest[1:] if operation else rest
    root = -1
    if "root" in header.before and re.match(r"-?\d{1,9}$", "".join(rest[:1])) and _has_root(header, rest):
        root, rest = int(rest[0]), rest[1:]
    try:
        sides, used = _sides(header, rest, size)
        if not sides:
            raise CutError
    except CutError:
        if words[start + 2] in WIDTHS:
            raise
        return None  # two numbers and a word, of something else
    glued = words[start].removesuffix(str(_last_digits(words[start])))
    mixed = start > 3 or _is_text(rest[used:]) or (glued != "" and not glued.endswith(GLUE))
    half = len(sides) < len(header.sides) and used == len(rest)
    return Cells(number, size, count, words[start + 2], operation, root, sides, mixed, half)


def _has_root(header: Header, cells: Sequence[str]) -> bool:
    """Return whether a root stands before what was measured, where some versions leave columns out."""
    return len(cells) > header.width or (len(cells) not in header.lengths and len(cells) - 1 in header.lengths)


def _sides(header: Header, cells: Sequence[str], size: int) -> tuple[tuple[Side, ...], int]:
    """Return what was measured out of place and in place, and how many cells say that."""
    columns: Sequence[tuple[str, ...]] = header.sides
    if len(columns) == 2 and len(cells) == len(columns[0]):  # one side only
        columns = columns[:1]
    width = sum(map(len, columns))
    unchecked = [tuple(name for name in side if name not in CHECKS) for side in columns]
    short = len(cells) == sum(map(len, unchecked)) < width
    if len(cells) < width and not short:
        raise CutError
    sides, at = [], 0
    for names in unchecked if short else columns:
        sides.append(_side(names, cells[at : at + len(names)]))
        at += len(names)
    measured = tuple(side for side in sides if side is not None)
    if short and not all(side.agrees(size) for side in measured):
        raise CutError
    return measured, at


def _first_word(words: Sequence[str]) -> int | None:
    """Return where a row begins: two whole numbers and a number format."""
    for at in range(len(words) - 3):
        kind = words[at + 2]
        if kind[:1].isalpha() and kind.isascii() and kind.replace("_", "").isalnum() and len(kind) <= 12:
            first, second = _last_digits(words[at]), words[at + 1]
            if _is_digits(first) and _is_digits(second) and kind == kind.lower():
                return at
    return None


def _last_digits(word: str) -> str:
    """Return the digits that a word ends with: what is before them is a prefix, or a message that ran into a row.

    >>> _last_digits("[1,0]<stdout>:1048576"), _last_digits("1048576"), _last_digits("none")
    ('1048576', '1048576', '')
    """
    return word[len(word.rstrip("0123456789")) :]


def _is_digits(word: str) -> bool:
    return 0 < len(word) <= MOST_DIGITS and word.isascii() and word.isdigit()


def is_number(word: str) -> bool:
    """Return whether a word is a number, an asterisk (an error above what is allowed) after it or not."""
    return number_of(word.rstrip("*")) is not None


def _is_text(words: Sequence[str]) -> bool:
    """Return whether something follows a row that is no time of day."""
    return any(not re.fullmatch(r"[\d:./TZ+-]{1,40}", word) for word in words)


def _side(names: Sequence[str], cells: Sequence[str]) -> Side | None:
    """Return what was measured in or out of place, None where the program left it out."""
    said = dict(zip(names, cells, strict=True))
    shown = [cells[0], said["algbw"], said["busbw"]]
    if all(cell in ("N/A", "-") for cell in shown):
        return None
    values = [number_of(cell) for cell in shown]
    time, algorithm, bus = values
    if time is None or algorithm is None or bus is None:
        raise CutError
    if min(time, algorithm, bus) < 0 or max(time, algorithm, bus) > LARGEST:
        raise CutError
    wrong = number_of(said.get("#wrong", "").rstrip("*"))
    time_off, algorithm_off, bus_off = map(rounding, shown)
    return Side(time, algorithm, bus, time_off, algorithm_off, bus_off, wrong or 0.0)


def rounding(cell: str) -> float:
    """Return by how much a number may be off for being printed so.

    >>> rounding("38.13"), rounding("1.1e+03"), rounding("912")
    (0.005, 50.0, 0.5)
    """
    digits, _, power = cell.lower().partition("e")
    places = len(digits.partition(".")[2])
    return float(f"{0.5 * 10.0 ** max(int(power or 0) - places, -300):.6g}")

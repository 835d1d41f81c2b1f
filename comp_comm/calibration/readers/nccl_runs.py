"""The runs in a log of nccl-tests: collective, devices and hosts belong to each header, not to the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from comp_comm.calibration.readers.kernel_tables import collective_kind
from comp_comm.calibration.readers.nccl_broken import begun_row, joined_row, with_first_side
from comp_comm.calibration.readers.nccl_lines import (
    LEAST_WORDS,
    OUT_OF_BOUNDS,
    Cells,
    CutError,
    Header,
    Rank,
    header_of,
    programs_in,
    rank_of,
    row_of,
)

# Tests of nccl-tests whose collectives are no part of a training step that we time.
UNTIMED = ("broadcast", "reduce", "gather", "scatter", "hypercube", "alltoallv")
MOST_ROWS, MOST_RANKS, MOST_RUNS = 100_000, 200_000, 10_000
STARTED, ENDED = "Collective test starting", "Collective test concluded"


class RunError(Exception):
    """Why a run cannot be used."""


@dataclass
class NcclRun:
    """One table: the line of its header, its columns, and the ranks and collectives that were named before it."""

    line: int
    header: Header
    ranks: list[Rank]
    named: set[str]
    rows: list[Cells] = field(default_factory=list)
    cut: int = 0
    last_cut: int = 0  # the line of the last row that lacks cells, where nothing of the run follows it
    out_of_bounds: int = 0
    ended: bool = False  # its last line was there
    begun: str = ""  # the columns before the times, of a row that a message broke off


def name_of(program: str) -> str:
    """Return our name of what a test runs, its own where we do not time it, nothing where it is no test.

    >>> name_of("all_reduce"), name_of("alltoall"), name_of("broadcast"), name_of("kernel")
    ('all_reduce', 'all_to_all', 'broadcast', '')
    """
    return collective_kind(program) or (program if program in UNTIMED else "")


def runs_in(lines: Iterable[tuple[int, str]]) -> Iterator[NcclRun]:
    """Yield each run of a log with its rows."""
    current: NcclRun | None = None
    ranks: dict[Rank, None] = {}
    named: set[str] = set()
    begun, rows = False, 0
    for number, line in lines:
        header = header_of(line)
        if header is not None:
            if current is not None:
                yield _without_halves(current)
                if not (begun or ranks or named):  # the same run goes on: another cycle
                    ranks, named = dict.fromkeys(current.ranks), current.named
            current = NcclRun(number, header, list(ranks), named)
            ranks, named, begun = {}, set(), False
        elif (rank := rank_of(line)) is not None:
            ranks[rank] = None
            if len(ranks) > MOST_RANKS:
                raise RunError(f"lists more than {MOST_RANKS:,} ranks")
        elif line:
            begun = begun or "nThread" in line
            if "_perf" in line and ENDED not in line:
                names = {name_of(program) for program in programs_in(line)} - {""}
                named = names if STARTED in line else named | names
            if current is not None:
                rows += _take(current, number, line)
                if rows > MOST_ROWS:
                    raise RunError(f"has more than {MOST_ROWS:,} rows")
    if current is not None:
        yield _without_halves(current)


def _without_halves(run: NcclRun) -> NcclRun:
    """Return a run without the rows of one side, where others have both: those were cut off."""
    halves = [row for row in run.rows if row.half]
    if halves and len(halves) < len(run.rows):
        if run.rows[-1].half and not run.ended:
            run.last_cut = run.rows[-1].line
        run.rows = [row for row in run.rows if not row.half]
        run.cut += len(halves)
    return run


def _take(run: NcclRun, number: int, line: str) -> bool:
    """Take what a line says of a run; return whether it is a row."""
    counted = OUT_OF_BOUNDS.search(line) if "Out of bounds" in line else None
    if counted:
        run.out_of_bounds, run.last_cut, run.ended = int(counted.group(1)), 0, True
        return False
    try:
        row = row_of(line, number, run.header) if len(line) >= 2 * LEAST_WORDS else None
    except CutError:
        run.cut, run.last_cut, run.begun = run.cut + 1, number, begun_row(line, run.header)
        return False
    if row is None:
        row = joined_row(run.begun, line, number, run.header) if run.begun else None
        if row is None:
            run.begun = with_first_side(run.begun, line, run.header) if run.begun else ""
            return False
        run.cut -= 1
    run.rows.append(row)
    run.last_cut, run.begun = 0, ""
    return True


def wrong_results(rows: Iterable[Cells]) -> Counter[str]:
    """Return how many rows had wrong results, and how many stood on a line with other text."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts["wrong"] += any(side.wrong > 0 for side in row.sides)
        counts["mixed"] += row.mixed
    return +counts

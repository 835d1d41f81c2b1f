"""Output of nccl-tests and rccl-tests, also behind the prefixes of srun and mpirun: a list of runs."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterable
from pathlib import Path

from comp_comm.calibration.measurements import CollectiveRow, Log, Placement
from comp_comm.calibration.readers import nccl_json
from comp_comm.calibration.readers.kernel_tables import KINDS, collective_kind, number_format
from comp_comm.calibration.readers.nccl_lines import Cells, header_of
from comp_comm.calibration.readers.nccl_runs import MOST_RUNS, NcclRun, RunError, runs_in, wrong_results
from comp_comm.calibration.readers.nccl_usable import UsableRun, measured
from comp_comm.calibration.readers.tables import LogTable
from comp_comm.calibration.readers.text import LogSource, refuse

MOST_NOTES = 12
# Collectives in the name of a file, as programs and people write them; alltoallv is another.
IN_NAME = re.compile(r"(?<![a-z])(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv)(?![a-z])")
VERBS = ("has", "is", "does", "lists")


def recognise(line: str) -> bool:
    """Return whether a line is the header of a table of nccl-tests.

    >>> recognise("#       size         count      type   redop    root     time   algbw   busbw #wrong")
    True
    """
    return header_of(line) is not None


def read(source: LogSource, kind: str = "", devices: int = 0, per_node: int = 0, table: LogTable | None = None) -> Log:
    """Return the rows of every run; what the log does not say (collective, devices) must be given.

    ``table`` is what it holds where that is CSV of rccl-tests.
    """
    log = Log(source.file, "nccl-tests output")
    try:
        runs = list(itertools.islice(_runs(source, table), MOST_RUNS + 1))
        if len(runs) > MOST_RUNS:
            raise RunError(f"has more than {MOST_RUNS:,} runs")
    except RunError as error:
        raise refuse(source.file, str(error)) from None
    if runs and runs[-1].last_cut:
        raise refuse(source.file, "is cut off in the middle of a row", runs[-1].last_cut)
    busy = [run for run in runs if run.rows]
    if not busy and any(run.cut for run in runs):
        raise refuse(source.file, "has rows of nccl-tests without all of their numbers: cut short, or blotted out")
    if not busy:
        raise refuse(source.file, "has the header of nccl-tests and no rows: the run stopped, or the file is cut off")
    of_file = _kind_of_file(source.file, runs)
    failed: list[tuple[int, str]] = []
    for run in busy:
        empty = sum(row.size == 0 for row in run.rows)
        log.skipped["size 0"] += empty
        if empty == len(run.rows):
            failed.append((run.line, "has only rows of size 0"))
            continue
        try:
            usable = measured(run, kind, of_file, devices, per_node)
        except RunError as error:
            failed.append((run.line, str(error)))
            log.skipped[str(error)] += len(run.rows) - empty
            continue
        _add(log, run, usable)
    log.skipped = +log.skipped
    if not log.rows:
        line, why = failed[0] if failed else (0, "no row has a time")
        raise refuse(source.file, why, line if len(runs) > 1 else None)
    for line, why in failed:
        it = "it " if why.split(" ", 1)[0] in VERBS else ""
        log.notes.append(f"{_at(source.file, line)}this run is left out: {it}{why}")
    if len(log.notes) > MOST_NOTES:
        log.notes[MOST_NOTES:] = [f"{source.file}: and {len(log.notes) - MOST_NOTES} more notes"]
    return log


def _runs(source: LogSource, table: LogTable | None) -> Iterable[NcclRun]:
    if table is not None:
        return nccl_json.runs_of_records(row for _, row in table.rows)
    return nccl_json.runs_of(source) if nccl_json.looks_like(source.head()) else runs_in(source.lines())


def _at(file: str, line: int) -> str:
    return f"{file}:{line}: " if line else f"{file}: "


def _add(log: Log, run: NcclRun, usable: UsableRun) -> None:
    """Add the rows of a run, and say what is odd about them."""
    largest = max(usable.rows, key=lambda row: row.size)
    rate = 1e9 * max(side.bus for side in largest.sides)
    place = Placement(usable.hosts, usable.stride, usable.groups, rate, largest.size)
    for row in usable.rows:
        log.rows.append(CollectiveRow(_seconds(row), number_format(row.dtype), row.line, usable.kind, row.size,
                                      usable.devices, usable.each, place))  # fmt: skip
    times = sum(not any(side.time for side in row.sides) and row.size > 0 for row in run.rows)
    log.skipped["a time of 0"] += times
    log.skipped["size, time and bandwidth that do not fit together"] += usable.disagreeing
    log.skipped["rows that other output runs through"] += run.cut
    where = _at(log.file, run.line) if log.file else ""
    said = f"{usable.kind} on {usable.devices} devices" + (f", {usable.each} a node" if usable.each else "")
    said += f", {usable.groups} groups at once" if usable.groups > 1 else ""
    log.notes.append(where + said)
    log.notes += [where + note for note in usable.notes]
    odd = wrong_results(usable.rows)
    if odd["wrong"]:
        log.notes.append(f"{where}{odd['wrong']} rows had wrong results (#wrong above 0): the machine may be faulty")
    elif run.out_of_bounds:
        log.notes.append(f"{where}{run.out_of_bounds} values were out of bounds: the machine may be faulty")
    if odd["mixed"]:
        log.notes.append(f"{where}{odd['mixed']} rows share a line with other output; they are read, check them")
    if run.cut:
        log.notes.append(f"{where}other output runs through {run.cut} rows: they are left out")


def _seconds(row: Cells) -> float:
    """Return the mean of what was measured out of place and in place."""
    return statistics.fmean(side.time for side in row.sides if side.time > 0) * 1e-6


def _kind_of_file(file: str, runs: list[NcclRun]) -> str:
    """Return the collective that the whole file is of, by the one that its runs name, else by its name."""
    named = {name for run in runs for name in run.named}
    if named:
        return named.pop() if len(named) == 1 else ""
    called = {collective_kind(name) for name in IN_NAME.findall(Path(file).name.lower().replace("-", "_"))}
    return str(called.pop()) if len(called) == 1 else ""


__all__ = ["KINDS", "read", "recognise"]

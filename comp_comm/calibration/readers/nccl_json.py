"""What nccl-tests writes with ``-J``, and rccl-tests with ``-Z json`` or ``-Z csv``: the same runs as in their tables.

nccl-tests (2.17 on) writes one object: ``args``, ``config`` with the list of ``devices``, and ``results``, each with
``out_of_place`` and ``in_place``. rccl-tests writes a record for each size and side, a list of them or one a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from comp_comm.calibration.readers.nccl_lines import LARGEST, Cells, Header, Rank, Side, programs_in, rounding
from comp_comm.calibration.readers.nccl_runs import MOST_RANKS, NcclRun, RunError, name_of
from comp_comm.calibration.readers.text import LogSource, number_of, refuse

MOST_BYTES = 2**26
OBJECT = re.compile(r'\{\s*"version"\s*:\s*\d+\s*,\s*"start_time"\s*:')
RECORDS = re.compile(r'\[?\s*\{[^{}\[\]]{0,2000}"busBw"\s*:')
COLUMNS = frozenset(("name", "size", "time", "algbw", "busbw"))
SIDE = ("time", "algbw", "busbw", "#wrong")
HEADER = Header(("redop", "root"), (SIDE, SIDE))
NO_BLANK = re.compile(r"[^ \t\r\n,]")
LARGEST_SIZE = 2**62
MOST_OF_A_RUN = 100_000


def looks_like(head: str) -> bool:
    """Return whether JSON that begins so is of these tests.

    >>> looks_like('{"version":3,"start_time":"2026"'), looks_like('[{"numCycle":0, "busBw":1}]'), looks_like('{"a":1}')
    (True, True, False)
    """
    return OBJECT.match(head) is not None or RECORDS.match(head) is not None


def is_table(header: Iterable[str]) -> bool:
    """Return whether the columns of a table are those that rccl-tests writes.

    >>> is_table(("numcycle", "name", "size", "type", "redop", "inplace", "time", "algbw", "busbw", "wrong"))
    True
    """
    return COLUMNS.issubset(header)


def runs_of(source: LogSource) -> list[NcclRun]:
    """Return the runs of a file of JSON. Raises ``ConfigError`` for one that is not whole, or lacks what they have."""
    text = "".join(source.blocks(MOST_BYTES))
    try:
        content = _documents(text)
    except json.JSONDecodeError as error:
        what = f"is not whole JSON: {error.msg}; it ends early, or is another file"
        raise refuse(source.file, what, text.count("\n", 0, error.pos) + 1) from None
    except (RecursionError, ValueError):
        raise refuse(
            source.file, "is JSON that no test of NCCL writes: nested too deeply, or a number too long"
        ) from None
    runs = [_run(source.file, one) for one in content if "config" in one]
    return runs or runs_of_records(content)


def _documents(text: str) -> list[dict[str, Any]]:
    """Return the objects of a text: of one list, or one after the other."""
    decoder, at, found = json.JSONDecoder(parse_float=str), 0, []  # the digits say how exact a number is
    while begin := NO_BLANK.search(text, at):
        value, at = decoder.raw_decode(text, begin.start())
        found += value if isinstance(value, list) else [value]
    return [value for value in found if isinstance(value, dict)]


def _run(file: str, content: Mapping[str, Any]) -> NcclRun:
    """Return the run of nccl-tests that an object is of."""
    config, args = _object(content, "config"), content.get("args")
    said = " ".join(map(str, args)) if isinstance(args, list) else ""
    run = NcclRun(0, HEADER, _ranks(config), {name_of(name) for name in programs_in(said)} - {""})
    results = content.get("results")
    if not isinstance(results, list):
        raise refuse(file, "is of nccl-tests, but 'results' is no list: the run stopped before it measured anything")
    for result in results:
        row = _cells(result, [result.get("out_of_place"), result.get("in_place")]) if isinstance(result, dict) else None
        _add(run, row)
    run.out_of_bounds = _whole(_object(content, "out_of_bounds").get("count"))
    return run


def _ranks(config: Mapping[str, Any]) -> list[Rank]:
    """Return the list of devices. Of a process with several, only the first is listed."""
    each = max(_whole(config.get("nthreads"), 1) * _whole(config.get("ngpus"), 1), 1)
    listed = config.get("devices")
    ranks: list[Rank] = []
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or "rank" not in one:
            return []
        if len(ranks) + each > MOST_RANKS:
            raise RunError(f"lists more than {MOST_RANKS:,} ranks")
        rank, group, process, device = (_whole(one.get(name)) for name in ("rank", "group", "pid", "device"))
        host, bus = str(one.get("hostname", ""))[:256], str(one.get("device_hex", "")) if each == 1 else ""
        ranks += [Rank(rank + place, group, process, host, f"{device + place} {bus}".strip()) for place in range(each)]
    return ranks


def runs_of_records(records: Iterable[Mapping[str, Any]]) -> list[NcclRun]:
    """Return the runs that records of rccl-tests are of: those of one cycle, collective and number format."""
    runs = []
    lowered = ({str(name).lower(): value for name, value in record.items()} for record in records)
    measured = (record for record in lowered if record.keys() >= COLUMNS)
    for _, same in groupby(
        measured, lambda r: tuple(str(r.get(name)) for name in ("numcycle", "name", "type", "ranks"))
    ):
        group = list(same)
        ranks, each = _whole(group[0].get("ranks")), _whole(group[0].get("gpusperrank"), 1)
        node = _whole(group[0].get("rankspernode")) * each
        places = [Rank(place, 0, place, str(place // node), str(place % node))
                  for place in range(ranks * each)] if node and ranks * each <= MOST_RANKS else []  # fmt: skip
        run = NcclRun(0, HEADER, places, {name_of(str(group[0]["name"]).lower())} - {""})
        for row in _rows_of(group):
            _add(run, row)
        runs.append(run)
    return runs


def _rows_of(records: Iterable[Mapping[str, Any]]) -> Iterator[Cells | None]:
    """Yield a row for each size: its sides, out of place and in place, are records that follow each other."""
    for _, sides in groupby(records, lambda record: record["size"]):
        both = list(sides)
        yield _cells(both[0], both)


def _add(run: NcclRun, row: Cells | None) -> None:
    if len(run.rows) >= MOST_OF_A_RUN:
        raise RunError(f"has more than {MOST_OF_A_RUN:,} rows")
    if row is None:
        run.cut += 1
    else:
        run.rows.append(row)


def _cells(row: Mapping[str, Any], sides: Iterable[object]) -> Cells | None:
    """Return a row, None where it lacks numbers."""
    size = _whole(row.get("size"), -1)
    measured = tuple(side for side in map(_side, sides) if side is not None)
    if size < 0 or not measured:
        return None
    operation = str(row.get("redop", ""))[:12]
    root = str(row.get("root", "")).strip()
    return Cells(0, size, _whole(row.get("count")), str(row.get("type", ""))[:12], operation,
                 int(root) if re.match(r"\d{1,9}$", root) else -1, measured)  # fmt: skip


def _side(said: object) -> Side | None:
    """Return what was measured out of place or in place, by the names of either program; None where nothing was."""
    if not isinstance(said, dict):
        return None
    names = {str(name).lower().replace("_", ""): value for name, value in said.items()}
    values = [number_of(str(names.get(name))) for name in ("time", "algbw", "busbw")]
    if values[0] is None:
        values[0] = number_of(str(names.get("cputime")))
    time, algorithm, bus = values
    if time is None or algorithm is None or bus is None:
        return None
    if min(time, algorithm, bus) < 0 or max(time, algorithm, bus) > LARGEST:
        return None
    wrong = number_of(str(names.get("nwrong", names.get("wrong", names.get("#wrong")))))
    time_off, algorithm_off, bus_off = (
        rounding(str(names.get(name))) for name in ("time" if "time" in names else "cputime", "algbw", "busbw")
    )
    return Side(time, algorithm, bus, time_off, algorithm_off, bus_off, wrong or 0.0)


def _object(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _whole(value: object, otherwise: int = 0) -> int:
    """Return a whole number that is not negative, as it is or in digits."""
    number = number_of(str(value)) if not isinstance(value, bool) else None
    return int(number) if number is not None and 0 <= number <= LARGEST_SIZE else otherwise

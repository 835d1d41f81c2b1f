"""What a run of nccl-tests measured: its collective and devices, as its name, columns, ranks and bandwidths agree."""

from __future__ import annotations

from dataclasses import dataclass

from comp_comm.calibration.readers.nccl_devices import (
    SHARING,
    Listed,
    agrees,
    common_factor,
    devices_range,
    each_by_blocks,
    listed,
    shares_of,
    whole_between,
)
from comp_comm.calibration.readers.nccl_lines import Cells
from comp_comm.calibration.readers.nccl_runs import UNTIMED, NcclRun, RunError

SLACK = 1e-4
LEAST_FACTOR = 0.1  # of bus over algorithm bandwidth: two devices have a half
ALONE = "is of one device: nothing was sent (was nccl-tests built without MPI?)"
ROOTED = "is of a collective with a root (a broadcast, say), which has no timing here"


@dataclass(frozen=True)
class UsableRun:
    """A run that can be used: its collective, devices, those on each host (0 unknown), and the rows that fit together.

    ``stride`` is how many ranks lie from one of a group to the next; ``hosts`` is 0 where they are not listed.
    """

    kind: str
    devices: int
    each: int
    hosts: int
    stride: int
    groups: int
    rows: list[Cells]
    notes: list[str]
    disagreeing: int = 0


def measured(run: NcclRun, kind: str, file_kind: str, devices: int, per_node: int) -> UsableRun:
    """Return what a run measured. Raises `RunError` where something is not said, or is contradicted.

    ``kind``, ``devices`` and ``per_node`` are what a user says of logs that do not; ``file_kind`` what the file does.
    """
    rows = [row for row in run.rows if row.size > 0 and max(side.time for side in row.sides) > 0]
    fitting = [row for row in rows if agrees(row)]
    if not rows:
        raise RunError("no row has a time")
    if not fitting:
        raise RunError("sizes, times and bandwidths do not fit together (times in microseconds are expected)")
    notes: list[str] = []
    seats = listed(run.ranks)
    factor = common_factor(fitting)
    if factor is None:
        raise RunError("bus over algorithm bandwidth differs from row to row: not the output of one run")
    if factor[1] < LEAST_FACTOR:
        raise RunError(ALONE)
    shares = {shares_of(row) for row in fitting} - {0}
    collective = _kind(run, fitting, shares, factor, kind, file_kind, seats, notes)
    if collective in UNTIMED:
        raise RunError(f"{collective}: such collectives have no timing here")
    number = _devices(collective, factor, shares, seats, devices, notes)
    if number < 2:
        raise RunError(ALONE)
    if seats.devices != number or not seats.certain:
        seats = _placed(run, seats, number, per_node)
    if seats.shared:
        notes.append("several ranks share a device")
    if seats.alone:
        notes.append(f"{seats.groups} processes ran it side by side, each by itself (built without MPI?)")
    return UsableRun(collective, number, per_node or seats.each, seats.hosts, seats.stride, seats.groups, fitting,
                     notes, len(rows) - len(fitting))  # fmt: skip


def _placed(run: NcclRun, seats: Listed, number: int, per_node: int) -> Listed:
    """Return where the devices of a run are whose list of ranks is not of them: cut short, or of several groups."""
    if seats.certain and number < seats.devices and seats.hosts > 1 and not per_node:
        raise RunError(f"lists {seats.devices} ranks and its bandwidths are of {number} devices, as of a communicator "
                       "that was split: say how many of them are on one node (--gpus-per-node)")  # fmt: skip
    if seats.certain and number < seats.devices:
        return Listed(number, seats.hosts, 0 if seats.hosts > 1 else number, 1, seats.devices // number, True)
    return Listed(number, 0, each_by_blocks(run.ranks, number), 1, 1, False)


def _kind(
    run: NcclRun, rows: list[Cells], shares: set[int], factor: tuple[float, float], asked: str, of_file: str,
    seats: Listed, notes: list[str],
) -> str:  # fmt: skip
    """Return the collective that a run is of: as it is named, if its columns allow that, else as they tell."""
    possible = _possible(rows, shares, factor, seats)
    named = run.named
    if len(named) == 1:
        name = next(iter(named))
        if possible and name not in possible:
            raise RunError(f"is named {name}, and its columns are of {' or '.join(sorted(possible))}")
        return name
    narrowed = (possible & named) or possible
    if len(narrowed) == 1:
        told = next(iter(narrowed))
        if asked and asked != told:
            notes.append(f"is {told}, whatever --collective says")
        return told
    for name, how in ((asked, ""), (of_file, "taken for {} by the file's name, or by other runs of it")):
        if name and (name in possible or not possible):
            if how:
                notes.append(how.format(name) + "; the run does not say (--collective)")
            return name
        if name and not how:
            raise RunError(f"--collective {name}: its columns are of {' or '.join(sorted(possible))}")
    if possible and possible <= set(UNTIMED):
        raise RunError(ROOTED)
    several = f" (named are {', '.join(sorted(named))})" if named else ""
    raise RunError(f"does not say which collective it is of{several}; give --collective, for instance all_gather")


def _possible(rows: list[Cells], shares: set[int], factor: tuple[float, float], seats: Listed) -> set[str]:
    """Return the collectives that the columns of a run allow, nothing where they do not tell."""
    if max(row.root for row in rows) >= 0:
        return set(UNTIMED)
    if max(shares, default=1) > 1 or factor[1] < 1 - SLACK:  # a share is counted, or less than the message is sent
        sums = {row.operation for row in rows} - {"", "none"}
        blank = any(row.operation == "" for row in rows)
        shared = {"reduce_scatter"} if sums or blank else set()
        return shared if sums and not blank else shared | {"all_gather", "all_to_all", "alltoallv"}
    if factor[0] > 1 + SLACK:
        return {"all_reduce"}
    if factor[0] > 1 - SLACK:  # two devices reduce, or messages go one way
        return {"send", "hypercube", *(["all_reduce"] if seats.devices in (0, 2) else [])}
    return set()


def _devices(
    kind: str, factor: tuple[float, float], shares: set[int], seats: Listed, asked: int, notes: list[str]
) -> int:
    """Return how many devices took part: by all that is said, which has to agree."""
    low, high = devices_range(kind, factor)
    first, last = whole_between(low, high)
    told = kind in ("all_reduce", *SHARING)
    if kind in SHARING and len(shares) == 1 and max(shares) > 1:
        if not low <= max(shares) <= high:
            raise RunError(f"counts are of {max(shares)} devices, bandwidths of {_between(low, high)}")
        first = last = max(shares)
        low = high = float(first)

    def fits(number: int) -> bool:
        return low <= number <= high

    if seats.devices and fits(seats.devices) and (seats.certain or (told and not asked)):
        return seats.devices
    if asked and not fits(asked):
        raise RunError(f"--devices {asked}: its bandwidths are of {_between(low, high)}")
    if asked:
        return asked
    if first == last and told and (first > seats.devices or (seats.groups == 1 and seats.devices % first == 0)):
        if seats.devices:
            notes.append(f"bandwidths are of {first} devices, the ranks listed are {seats.devices}: taken for {first}")
        return first
    if seats.devices and not fits(seats.devices):
        raise RunError(f"lists {seats.devices} ranks, and its bandwidths are of {_between(low, high)}; give --devices")
    some = f" ({_between(low, high)})" if told else ""
    raise RunError(f"does not say how many devices took part{some}; give --devices")


def _between(low: float, high: float) -> str:
    """Return a range of devices in words.

    >>> _between(7.97, 8.03), _between(2.1, 2.9), _between(90.2, float("inf"))
    ('8 devices', 'no whole number of devices', 'at least 91 devices')
    """
    first, last = whole_between(low, high)
    if last == 0:
        return f"at least {max(first, 1)} devices"
    if last < first:
        return "no whole number of devices"
    return f"{first} devices" if first == last else f"{first} to {last} devices"

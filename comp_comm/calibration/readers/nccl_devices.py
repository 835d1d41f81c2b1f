"""How many devices a run of nccl-tests is of, and where they are: from the list of ranks, counts, and bandwidths.

All of them have to agree. Bus over algorithm bandwidth is 2 (n - 1) / n for an all-reduce, (n - 1) / n for a gather, a
scatter or an all-to-all, so that every row says how many took part, as well as its printed digits tell.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from comp_comm.calibration.readers.nccl_lines import WIDTHS, Cells, Rank, Side

SHARING = ("all_gather", "reduce_scatter", "all_to_all")  # their bus factor is (n - 1) / n, their count one share's
MOST_OF_A_HOST = 16  # devices: no server has more
LEAST_BANDWIDTH = 0.05  # GB/s below which two decimals say too little


@dataclass(frozen=True)
class Listed:
    """What the list of ranks says of one group: devices, hosts, devices on each host (0 where they differ).

    ``stride`` is how many ranks lie from one of the group to the next; ``groups`` run at once.
    """

    devices: int
    hosts: int
    each: int
    stride: int
    groups: int
    certain: bool  # every rank is listed
    shared: bool = False  # ranks that share one device
    alone: bool = False  # every process ran the whole test by itself


NOTHING = Listed(0, 0, 0, 1, 1, False)


def listed(ranks: Sequence[Rank]) -> Listed:
    """Return what a list of ranks says.

    >>> two = [Rank(r, 0, r, f"node-{r // 2}", str(r % 2)) for r in range(4)]
    >>> listed(two).devices, listed(two).each, listed(two[:1] + two[3:]).certain
    (4, 2, False)
    """
    if not ranks:
        return NOTHING
    numbers = Counter(rank.rank for rank in ranks)
    places = Counter((rank.host, rank.device) for rank in ranks)
    if max(numbers.values()) > 1:  # each process printed a list of its own
        copies = max(numbers.values())
        size = max(numbers) + 1
        each = size if all(count == size for count in Counter(rank.host for rank in ranks).values()) else 0
        return Listed(size, 1 if each else 0, each, 1, copies, True, alone=True)
    groups: dict[int, list[Rank]] = defaultdict(list)
    for rank in ranks:
        groups[rank.group].append(rank)
    certain = len(numbers) == max(numbers) + 1
    sizes = {len(group) for group in groups.values()}
    if not certain or len(sizes) > 1:
        return Listed(max(numbers) + 1 if len(groups) == 1 else 0, 0, 0, 1, len(groups), False)
    on_hosts = [Counter(rank.host for rank in group) for group in groups.values()]
    counts = {count for hosts in on_hosts for count in hosts.values()}
    # Where every process sees one device, all are number 0; some machines give all of them one bus, too ([0x01]).
    several = any(count > 1 and ":" in device for (_, device), count in places.items())
    return Listed(sizes.pop(), len(on_hosts[0]), counts.pop() if len(counts) == 1 else 0, _stride(groups),
                  len(groups), True, several)  # fmt: skip


def each_by_blocks(ranks: Sequence[Rank], devices: int) -> int:
    """Return the devices of each host by a list of which ranks are missing, 0 where it does not tell.

    Ranks lie in blocks, one a host: rank 7 on device 3 says that its host begins with rank 4. That has to leave one
    size of a block only, and no host with two of them.

    >>> each_by_blocks([Rank(0, 0, 1, "a", "0"), Rank(7, 0, 1, "b", "3")], 8)
    4
    >>> each_by_blocks([Rank(0, 0, 1, "a", "0"), Rank(1, 0, 1, "a", "1")], 8)
    0
    """
    places = [int(rank.device.split(" ", 1)[0]) for rank in ranks]
    begins = {(rank.host, rank.rank - place) for rank, place in zip(ranks, places, strict=True)}
    if not ranks or max(places) < 1 or len({host for host, _ in begins}) != len(begins):
        return 0
    common = math.gcd(*(begin for _, begin in begins))
    sizes = [size for size in range(max(places) + 1, min(common, MOST_OF_A_HOST) + 1)
             if common % size == 0 and devices % size == 0]  # fmt: skip
    return sizes[0] if len(sizes) == 1 else 0


def _stride(groups: dict[int, list[Rank]]) -> int:
    """Return how far apart the ranks of each group are; 1 where that is not the same throughout."""
    steps = set()
    for group in groups.values():
        numbers = sorted(rank.rank for rank in group)
        steps |= {after - before for before, after in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 else 1


def agrees(row: Cells) -> bool:
    """Return whether size, count, times and bandwidths of a row fit together."""
    width = WIDTHS.get(row.dtype)
    if width and row.count and row.size % (row.count * width):
        return False
    return all(side.agrees(row.size) for side in row.sides)


def shares_of(row: Cells) -> int:
    """Return how many times the count of elements the size is: 1, or the devices of a gather or a scatter; 0 unknown.

    >>> shares_of(Cells(1, 8192, 256, "float", "", -1, ()))
    8
    """
    width = WIDTHS.get(row.dtype, 0)
    return row.size // (row.count * width) if width and row.count else 0


def factor_range(side: Side) -> tuple[float, float]:
    """Return between which numbers bus over algorithm bandwidth is, as the printed digits tell."""
    if side.algorithm < LEAST_BANDWIDTH:
        return 0.0, math.inf
    low = (side.bus - side.bus_off) / (side.algorithm + side.algorithm_off)
    return low, (side.bus + side.bus_off) / max(side.algorithm - side.algorithm_off, 1e-9)


def common_factor(rows: Sequence[Cells]) -> tuple[float, float] | None:
    """Return the range of bus over algorithm bandwidth that all rows have in common, None where they have none."""
    ranges = [factor_range(row.sides[0]) for row in rows]
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    slack = 1e-6
    return (low - slack, high + slack) if low <= high + slack else None


def devices_range(kind: str, factor: tuple[float, float]) -> tuple[float, float]:
    """Return between how many and how many devices a bus factor is of; all numbers where it says nothing.

    >>> low, high = devices_range("all_reduce", (1.749, 1.751))
    >>> round(low, 2), round(high, 2)
    (7.97, 8.03)
    """
    if kind not in ("all_reduce", *SHARING):
        return 0.0, math.inf
    least, most = ((end / 2 if kind == "all_reduce" else end) for end in factor)
    low = 1 / (1 - least) if least < 1 else math.inf
    return max(low, 0.0), (1 / (1 - most) if most < 1 else math.inf)


def whole_between(low: float, high: float) -> tuple[int, int]:
    """Return the first and the last whole number in a range of devices, the last 0 where it has no end.

    >>> whole_between(7.97, 8.03), whole_between(2.1, 2.9), whole_between(90.0, float("inf"))
    ((8, 8), (3, 2), (90, 0))
    """
    if math.isinf(low):
        return 1, 0
    return math.ceil(low), 0 if math.isinf(high) else math.floor(high)

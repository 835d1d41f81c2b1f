"""Logs as nccl-tests writes them, from what was run: bandwidths by the definitions of its documentation."""

from __future__ import annotations

WIDTH = {"float": 4, "half": 2, "bfloat16": 2, "double": 8}
# Bus over algorithm bandwidth, and how many times its share a device counts, of n devices.
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
           "reduce_scatter": lambda n: (n - 1) / n, "alltoall": lambda n: (n - 1) / n,
           "sendrecv": lambda n: 1.0, "broadcast": lambda n: 1.0}  # fmt: skip
SHARED = ("all_gather", "reduce_scatter", "alltoall")
REDUCTIONS = {"all_gather": "none", "alltoall": "none", "broadcast": "none"}
SIZES = tuple(2**power for power in range(20, 31))


def ranks(hosts, each, group=lambda rank: 0, old=False):
    """Return the list of devices: so many hosts of so many devices."""
    lines = ["# Using devices"]
    for rank in range(hosts * each):
        host, device = divmod(rank, each)
        of = "" if old else f"Group {group(rank):2d} "
        lines.append(f"#  Rank {rank:2d} {of}Pid {1000 + rank:6d} on {f'node-{host}':>10} device {device:2d} "
                     f"[0000:{device:02x}:00] NVIDIA H100 80GB HBM3")  # fmt: skip
    return lines


def table(kind, devices, sizes=SIZES, rate=50e9, dtype="float", wrong="0", root=-1):
    """Return a header and rows of which each moves at ``rate`` bytes/s on the bus after 20 us."""
    lines = [
        "#                                                              out-of-place                       in-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
        "#wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    factor = FACTORS[kind](devices)
    for wanted in sizes:
        shares = devices if kind in SHARED else 1
        count = wanted // WIDTH[dtype] // shares // 4 * 4  # so that each share is aligned
        size = count * WIDTH[dtype] * shares
        seconds = 20e-6 + size * factor / rate
        algorithm = size / seconds / 1e9
        cell = f"{seconds * 1e6:8.2f} {algorithm:7.2f} {algorithm * factor:7.2f} {wrong:>6}"
        lines.append(f"{size:12d} {count:13d} {dtype:>9} {REDUCTIONS.get(kind, 'sum'):>7} {root:7d} {cell} {cell}")
    return [*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 100", "#"]


def seconds(kind, devices, size, rate=50e9):
    """Return what `table` says that a size takes, to the digits that it prints."""
    return round(20 + size * FACTORS[kind](devices) / rate * 1e6, 2) * 1e-6


def run(kind, hosts, each, named=True, group=lambda rank: 0, devices=None, old=False, **more):
    """Return one run: what calls it, its devices, its table."""
    number = devices or hosts * each
    begin = [f"mpirun -np {hosts * each} ./build/{kind}_perf -b 1M -e 1G -f 2 -g 1"] if named else []
    begin.append("# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20")
    return [*begin, *ranks(hosts, each, group, old), *table(kind, number, **more)]


def text(*runs):
    """Return runs as a file."""
    return "".join(f"{line}\n" for one in runs for line in one)

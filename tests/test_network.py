"""Collectives on network tiers: hand arithmetic, limits that no network can beat, and published measurements."""

import csv
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from comp_comm.choices import CollectiveAlgorithm
from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.sweeps.machines import BLANK_TIER, build_machines
from comp_comm.timing.network import KINDS, available, blanks, collective_seconds
from comp_comm.timing.paths import path_of

DATA = Path(__file__).parent / "data"
US = 1e-6
M = 1.6e9  # bytes, for round numbers

# Eight to a node at 200 GB/s achieved, 50 GB/s each to the others. 8 us to start, of which 3 overlap with nothing.
NODE = Tier(8, 400e9, 1 * US, 0.5, key="network.node")
FABRIC = Tier(np.inf, 50e9, 5 * US, 1.0, entry_latency=10 * US, tree_latency=20 * US, key="network.fabric")
DEVICE = Hardware(1, 1, 1, (NODE, FABRIC), Timing(collective_latency=8 * US, own_shard=0.4))


def device(*tiers, start=8 * US, own=0.4):
    return Hardware(1, 1, 1, tiers, Timing(collective_latency=start, own_shard=own))


def code(algorithm):
    return CollectiveAlgorithm.of(algorithm)


def seconds(kind, message, size, stride=1, algorithm="best", hardware=DEVICE):
    return float(collective_seconds(hardware, kind, message, Group(size, stride), code(algorithm)))


def leg(start, latency, transfer):
    """In microseconds."""
    return (start + latency + transfer + math.sqrt(latency * transfer)) * US


# --- by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_ring_in_a_node(kind):
    """8 devices: 7/8 of 1.6 GB and 0.4 of the own 0.2 GB at 200 GB/s are 7.4 ms; protocol 5 us and 7 hops of 1 us."""
    assert seconds(kind, M, 8) == pytest.approx(leg(3, 5 + 7, 7400), rel=1e-12)
    assert seconds(kind, M, 8) == pytest.approx(7.712993e-3, rel=1e-6)


def test_ring_across_nodes():
    """16 devices bring 8 links of 50 GB/s, so that the node's 200 GB/s set the pace; 14 hops inside, 1 between."""
    assert seconds("all_reduce", M, 16, algorithm="ring") == pytest.approx(leg(3, 5 + 28 + 10 + 10, 15000), rel=1e-12)
    assert seconds("all_gather", M, 16) == pytest.approx(leg(3, 5 + 14 + 5 + 10, 7500), rel=1e-12)


@pytest.mark.parametrize(("stride", "gigabytes_per_second"), [(1, 200), (2, 200), (4, 100), (8, 50), (16, 50)])
def test_groups_that_share_a_node_share_its_links(stride, gigabytes_per_second):
    """Of a group with stride s, 8/s are in a node, and each brings 50 GB/s; 200 GB/s are what its ring has inside."""
    hardware = device(replace(NODE, latency=0.0), replace(FABRIC, latency=0.0, entry_latency=0.0), start=0.0)
    wire = 2 * M * 31 / 32
    expected = wire / (gigabytes_per_second * 1e9)
    assert seconds("all_reduce", M, 32, stride, "ring", hardware) == pytest.approx(expected, rel=1e-12)


def test_double_binary_tree():
    """4 nodes: 7 hops to the end of a chain and 2 levels of 20 us, both ways; the chain sends the message twice."""
    assert seconds("all_reduce", M, 32, algorithm="tree") == pytest.approx(leg(3, 5 + 14 + 80 + 10, 16000), rel=1e-12)


@pytest.mark.parametrize(("nodes", "passes"), [(2, 1), (3, 2), (4, 2), (16, 2)])
def test_tree_between_nodes_with_a_slow_network(nodes, passes):
    """One link of 5 GB/s a device: 40 GB/s a node, which sends the message once if there are two, else twice."""
    hardware = device(NODE, replace(FABRIC, bandwidth=5e9))
    expected = leg(3, 5 + 14 + 2 * math.log2(nodes) * 20 + 10, passes * 40000)
    assert seconds("all_reduce", M, 8 * nodes, 1, "tree", hardware) == pytest.approx(expected, rel=1e-12)
    mesh = device(replace(NODE, mesh=1.0), replace(FABRIC, bandwidth=5e9))
    assert seconds("all_reduce", M, 16, 1, "tree", mesh) == pytest.approx(leg(3, 5 + 14 + 40 + 10, 80000), rel=1e-12)


def test_hierarchical():
    """Scatter and gather in a node (7 ms each), and between two nodes an all-reduce of each shard (4 ms)."""
    expected = 2 * leg(3, 5 + 7, 7000) + leg(3, 5 + 10 + 10, 4000)
    assert seconds("all_reduce", M, 16, algorithm="hierarchical") == pytest.approx(expected, rel=1e-12)
    for size, stride in [(8, 1), (4, 8)]:  # one level only
        ring = seconds("all_reduce", M, size, stride, "ring")
        assert seconds("all_reduce", M, size, stride, "hierarchical") == ring
        beside = Group(np.array([size, 16]), np.array([stride, 1]))  # a group with two levels
        assert collective_seconds(DEVICE, "all_reduce", M, beside, code("hierarchical"))[0] == ring


def test_reduction_in_the_switch():
    """Half of 400 GB/s: 8 ms for the message, 25 us for the switch, whatever the number of devices."""
    hardware = device(replace(NODE, reduction=0.5, reduction_latency=25 * US, reduction_members=8), FABRIC)
    assert seconds("all_reduce", M, 8, 1, "in_network", hardware) == pytest.approx(leg(3, 5 + 25, 8000), rel=1e-12)
    assert seconds("all_reduce", M, 8, 1, "best", hardware) == seconds("all_reduce", M, 8, 1, "in_network", hardware)
    assert seconds("all_reduce", M, 4, 1, "in_network", hardware) == math.inf
    assert seconds("all_reduce", M, 4, 1, "best", hardware) == seconds("all_reduce", M, 4)
    assert seconds("all_gather", M, 8, 1, "in_network", hardware) == seconds("all_gather", M, 8)
    # Across nodes it replaces the tree's chain, which sent 16 ms: now 8 in a node, at 4 ms between four of them.
    tree = seconds("all_reduce", M, 32, 1, "tree", hardware)
    assert tree == pytest.approx(leg(3, 5 + 14 + 80 + 10, 8000), rel=1e-12)


def test_reduction_in_the_fabric():
    """80 % of 8 links of 50 GB/s between nodes; the chain in each node sends the message twice, 16 ms."""
    hardware = device(NODE, replace(FABRIC, reduction=0.8, reduction_latency=7 * US))
    in_network = seconds("all_reduce", M, 32, 1, "in_network", hardware)
    assert in_network == pytest.approx(leg(3, 5 + 14 + 10 + 7, 16000), rel=1e-12)
    slow = device(NODE, replace(FABRIC, bandwidth=5e9, reduction=0.8, reduction_latency=7 * US))
    assert seconds("all_reduce", M, 32, 1, "in_network", slow) == pytest.approx(leg(3, 36, 50000), rel=1e-12)
    assert seconds("all_reduce", M, 8, 1, "in_network", hardware) == math.inf  # in a node nothing reduces


def test_all_to_all():
    """8 devices: (7/8 + 0.4/8) of 1.6 GB at 200 GB/s. 16: half of it goes to the other node, at 50 GB/s each."""
    assert seconds("all_to_all", M, 8) == pytest.approx(leg(3, 5 + 1.13 * 3, 7400), rel=1e-12)
    assert seconds("all_to_all", M, 16) == pytest.approx(leg(3, 5 + 1.13 * 3 + 5 + 10, 16000), rel=1e-12)
    assert seconds("all_to_all", M, 2, 8) == pytest.approx(leg(3, 5 + 5 + 10, 16000), rel=1e-12)


@pytest.mark.parametrize(("kilobytes", "exchange"), [(8.5, 0.5), (34, 2.0), (85, 5.0), (850, 5.0)])
def test_devices_agree_on_a_large_share_before_they_exchange_it(kilobytes, exchange):
    """Two devices: half a message is 4.25 KB, 0.5 us at 8.5 GB/s; 42.5 KB and more take 5 us, behind which they move.

    The transfer is (1/2 + 0.4/2) of the message at 200 GB/s, at most 3 us.
    """
    hardware = device(replace(NODE, exchange_latency=5 * US), FABRIC)
    transfer = 0.7 * kilobytes / 200
    assert transfer < exchange
    expected = leg(3, 5 + 1.13, transfer) + (exchange - transfer) * US
    assert seconds("all_to_all", kilobytes * 1e3, 2, hardware=hardware) == pytest.approx(expected, rel=1e-12)
    assert seconds("all_to_all", M, 2, hardware=hardware) == seconds("all_to_all", M, 2)
    assert seconds("all_to_all", kilobytes * 1e3, 2, 8, hardware=hardware) == seconds(
        "all_to_all", kilobytes * 1e3, 2, 8
    )


def test_send():
    """8 ms at 200 GB/s in a node, 32 ms at 50 GB/s as soon as some stage is in another node."""
    for size, stride, expected in [(2, 1, leg(3, 5, 8000)), (4, 2, leg(3, 5, 8000)), (16, 1, leg(3, 15, 32000)),
                                   (4, 4, leg(3, 15, 32000)), (2, 8, leg(3, 15, 32000))]:  # fmt: skip
        assert seconds("send", M, size, stride) == pytest.approx(expected, rel=1e-12), (size, stride)


def test_mesh():
    """7 links of 64 GB/s: a ring over 4 has 3 of them, a pair and a send one."""
    hardware = device(Tier(8, 448e9, 0.0, 1.0, mesh=1.0), start=0.0, own=0.0)
    assert seconds("all_gather", M, 4, 1, "best", hardware) == pytest.approx(0.75 * M / 192e9)
    assert seconds("all_gather", M, 2, 1, "best", hardware) == pytest.approx(0.5 * M / 64e9)
    assert seconds("all_to_all", M, 8, 1, "best", hardware) == pytest.approx(0.875 * M / 448e9)
    assert seconds("send", M, 8, 1, "best", hardware) == pytest.approx(M / 64e9)


def test_torus_uses_one_axis():
    hardware = device(Tier(64, 300e9, 0.0, 1.0, axes=3.0), start=0.0, own=0.0)
    assert seconds("all_gather", M, 4, 1, "best", hardware) == pytest.approx(0.75 * M / 100e9)


def test_three_tiers():
    """2 of 4 in a node, 8 nodes to a rack: 4 hops in nodes, 3 to other nodes, none beyond: 2 x 50 GB/s."""
    rack = Tier(32, 50e9, 2 * US, 1.0, entry_latency=4 * US, tree_latency=3 * US)
    spine = Tier(np.inf, 10e9, 9 * US, 1.0, entry_latency=11 * US, tree_latency=6 * US)
    hardware = device(Tier(4, 450e9, 1 * US, 1.0), rack, spine, start=0.0, own=0.0)
    assert seconds("all_gather", M, 8, 2, "best", hardware) == pytest.approx(leg(0, 4 + 3 * 2 + 4, 14000), rel=1e-12)
    # 64 of stride 2 fill 4 racks of 16, each with 16 links of 10 GB/s; a node has 2 of 50, which is less.
    latency = 32 * 1 + (32 - 4) * 2 + 3 * 9 + 11
    expected = leg(0, latency, 63 / 64 * M / 100e9 / US)
    assert seconds("all_gather", M, 64, 2, "best", hardware) == pytest.approx(expected, rel=1e-12)
    expected = leg(0, 2 * 1 + 2 * (3 * 3 + 2 * 6) + 11, 2 * M / 100e9 / US)
    assert seconds("all_reduce", M, 64, 2, "tree", hardware) == pytest.approx(expected, rel=1e-12)


def test_a_group_that_does_not_fill_its_nodes():
    """12 on nodes of 8 lie between 8 and 16; the ring has 11 hops in all."""
    quick = replace(FABRIC, latency=1 * US, entry_latency=0.0)
    assert float(path_of(device(NODE, quick), Group(12)).ring[0]) == pytest.approx(11 * US)
    for algorithm in ("ring", "tree", "hierarchical"):
        times = [seconds("all_reduce", 1e6, size, 1, algorithm) for size in (9, 12, 16)]
        assert times == sorted(times)
    slow = device(NODE, replace(FABRIC, bandwidth=5e9))  # the message once through 8 links, as if there were two nodes
    expected = leg(3, 5 + 14 + 2 * math.log2(1.5) * 20 + 10, 40000)
    assert seconds("all_reduce", M, 12, 1, "tree", slow) == pytest.approx(expected, rel=1e-12)


# --- published numbers -------------------------------------------------------------------------------


def test_known_ring_all_reduce_of_a_gigabyte():
    """Ring, n = 8, 1e9 B at 210 GB/s without latency: 8.3333 ms."""
    hardware = device(Tier(8, 210e9, 0.0, 1.0), start=0.0, own=0.0)
    assert seconds("all_reduce", 1e9, 8, 1, "ring", hardware) == pytest.approx(8.3333e-3, rel=1e-3)
    assert seconds("all_reduce", 1e9, 8, 1, "best", hardware) == pytest.approx(8.3333e-3, rel=1e-3)


@pytest.mark.parametrize(("kind", "factor"), [("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875),
                                              ("all_to_all", 0.875), ("send", 1.0)])  # fmt: skip
def test_bus_factors(kind, factor):
    """nccl-tests doc/PERFORMANCE.md at n = 8: bus bandwidth over message bytes per second."""
    hardware = device(Tier(8, 480e9, 0.0, 1.0), start=0.0, own=0.0)
    assert seconds(kind, 1e9, 8, 1, "ring", hardware) == pytest.approx(factor * 1e9 / 480e9, rel=1e-12)


def measured(system, kind):
    """Return devices, those of a node, bytes and seconds of a system's collectives from 1 MiB up, as arrays."""
    with (DATA / "collectives.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["system"], row["collective"]) == (system, kind)]
    columns = (np.array([float(row[name]) for row in rows]) for name in ("n_gpus", "gpus_per_node", "size_bytes",
                                                                         "time_us"))  # fmt: skip
    devices, local, message, time = columns
    large = message >= 2**20
    return devices[large], local[large], message[large], time[large] * US


def median_error(predicted, actual):
    return float(np.median(np.abs(predicted / actual - 1)))


RINGS = ("all_reduce", "all_gather", "reduce_scatter")
IN_ONE_DOMAIN = {
    "a100_sxm": ("a100-sxm-80gb", (*RINGS, "all_to_all")), "h100_sxm": ("h100-sxm", (*RINGS, "all_to_all")),
    "h200_sxm": ("h200-sxm", ("all_reduce", "all_gather", "all_to_all")), "gb200": ("gb200-nvl72", RINGS),
    "b200_sxm": ("b200-sxm", (*RINGS, "all_to_all")), "b300_sxm": ("b300-sxm", (*RINGS, "all_to_all")),
    "gb300": ("gb300-nvl72", (*RINGS, "all_to_all")),
}  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize(("system", "kind"), [(s, k) for s, (_, kinds) in IN_ONE_DOMAIN.items() for k in kinds])
def test_measured_in_one_domain(system, kind):
    """Public nccl-tests runs on 2, 4 and 8 GPUs, from 1 MiB up, with the shipped profile."""
    devices, _, message, seconds_taken = measured(f"{system}/comm", kind)
    predicted = collective_seconds(
        load_profile(IN_ONE_DOMAIN[system][0]).hardware("bf16"), kind, message, Group(devices)
    )
    assert len(message) >= 5
    assert median_error(predicted, seconds_taken) < 0.115


@pytest.mark.parametrize("kind", RINGS)
def test_measured_across_nodes(kind):
    """Perlmutter, up to 256 nodes with 1, 2 or 4 of their A100s, from 1 MiB up: meshes, and Slingshot between them."""
    devices, local, message, seconds_taken = measured("perlmutter", kind)
    across = devices > local
    # One GPU a node sends and receives through the same adapter.
    efficiency = np.where(local == 1, 0.84, 1.0) * 0.68
    mesh = Tier(4, 300e9, 0.8 * US, 0.81, mesh=1.0)
    slingshot = Tier(np.inf, 25e9, 5 * US, efficiency, entry_latency=13 * US, tree_latency=24 * US)
    predicted = collective_seconds(device(mesh, slingshot, start=9.1 * US), kind, message, Group(devices, 4 / local))
    assert across.sum() > 200
    assert median_error(predicted[across], seconds_taken[across]) < 0.1


# --- properties --------------------------------------------------------------------------------------

SHARES = st.floats(0.1, 1.0)
LATENCIES = st.sampled_from([0.0, 1e-6, 2e-5])


@st.composite
def tiers(draw):
    domains = draw(st.sampled_from([(np.inf,), (8, np.inf), (4, 64, np.inf), (1, np.inf)]))
    return tuple(
        Tier(domain, draw(st.floats(1e9, 1e12)), draw(LATENCIES), draw(SHARES), draw(st.sampled_from([0.0, 1.0])),
             draw(st.sampled_from([1.0, 3.0])), f"network.{number}", draw(LATENCIES), draw(LATENCIES),
             draw(st.sampled_from([0.0, 0.6])), draw(LATENCIES), draw(st.sampled_from([2.0, 8.0])),
             exchange_latency=draw(LATENCIES), side=draw(st.sampled_from([np.inf, 2.0, 4.0])))
        for number, domain in enumerate(domains)
    )  # fmt: skip


@st.composite
def machines(draw):
    return Hardware(1, 1, 1, draw(tiers()), Timing(collective_latency=draw(LATENCIES), own_shard=draw(SHARES)))


GROUPS = st.builds(Group, st.integers(1, 300), st.sampled_from([1, 2, 3, 8, 16, 64]), st.just(()))
MESSAGES = st.floats(1.0, 1e11)
KIND = st.sampled_from(KINDS)
CODE = st.sampled_from(list(CollectiveAlgorithm))


def locals_of(hardware, group):
    """Members below each tier and in it, by plain arithmetic."""
    members = [1]
    for tier in hardware.tiers:
        fit = math.inf if math.isinf(tier.domain) else max(1, int(tier.domain) // group.stride)
        members.append(min(group.size, fit))
    return list(itertools.pairwise(members))


@given(machines(), KIND, MESSAGES, GROUPS, CODE)
def test_time_grows_with_bytes(hardware, kind, message, group, algorithm):
    less, more = (float(collective_seconds(hardware, kind, m, group, algorithm)) for m in (message, 1.01 * message))
    assert less < more or group.size == 1 or less == more == math.inf


# Links between nodes as fast as in them: a hierarchical all-reduce sends 1 by the inner, 0.6 by the outer ones.
EVEN = Hardware(1, 1, 1, (Tier(8, 1e9, 0.0, 1.0), Tier(np.inf, 1.000000003e9, 0.0, 1.0)), Timing(collective_latency=0))


@given(machines(), KIND, MESSAGES, GROUPS, CODE)
@example(EVEN, "all_reduce", 1.0, Group(5, 3), code("hierarchical"))
@example(replace(EVEN, tiers=(EVEN.tiers[0], replace(FABRIC, bandwidth=1e12))), "all_reduce", 1.0, Group(5, 3), 0)
def test_no_network_is_faster_than_its_links(hardware, kind, message, group, algorithm):
    """What has to leave a domain leaves it by the links of its members, at their peak bandwidth, after the start.

    Those are links to the next tier, or to one further out: a device has links of its own to each. One step of an
    algorithm uses one kind of them, so all that leaves takes at least the time of the fastest kind.
    """
    taken = float(collective_seconds(hardware, kind, message, group, algorithm))
    start = float(hardware.timing.collective_latency)
    fastest = 0.0
    for tier, (below, members) in reversed(list(zip(hardware.tiers, locals_of(hardware, group), strict=True))):
        if members > below:
            n, domains, fastest = group.size, group.size / below, max(fastest, tier.bandwidth)
            leaving = {
                "all_gather": (1 - 1 / domains) * message / below,
                "reduce_scatter": (1 - 1 / domains) * message / below,
                "all_reduce": (1 if tier.reduction else 2) * (1 - 1 / domains) * message / below,
                "all_to_all": (n - below) / n * message,
                "send": message,
            }[kind]
            assert taken >= (start + leaving / fastest) * (1 - 1e-9)


# Algorithms that no library takes by itself: only where they are asked for.
FORCED = ()


@given(machines(), MESSAGES, GROUPS)
def test_best_is_the_best_available(hardware, message, group):
    times = {}
    for algorithm in CollectiveAlgorithm.words()[1:]:
        taken = float(collective_seconds(hardware, "all_reduce", message, group, code(algorithm)))
        exists = bool(available(hardware, "all_reduce", group, code(algorithm)))
        assert exists == math.isfinite(taken)
        times[algorithm] = taken
    best = float(collective_seconds(hardware, "all_reduce", message, group))
    assert best == pytest.approx(min(times[name] for name in times if name not in FORCED), rel=1e-12)


@given(machines(), KIND, st.floats(0, 1e11), CODE)
def test_a_group_of_one_takes_no_time(hardware, kind, message, algorithm):
    blank = tuple(replace(tier, bandwidth=np.nan, latency=np.nan) for tier in hardware.tiers)
    for machine in (hardware, replace(hardware, tiers=blank)):
        for size in (1, np.array([1, 1])):
            taken = collective_seconds(machine, kind, message, Group(size, 4), algorithm)
            assert np.all(taken == 0.0)
            assert np.all(available(machine, kind, Group(size, 4), algorithm))
            assert blanks(machine, Group(size, 4), kind) == []


@given(machines(), KIND, GROUPS, CODE)
def test_an_empty_message_takes_no_time(hardware, kind, group, algorithm):
    assert float(collective_seconds(hardware, kind, 0.0, group, algorithm)) == 0.0


@pytest.mark.slow
@given(st.lists(st.tuples(machines(), MESSAGES, GROUPS, CODE), min_size=2, max_size=5), KIND)
def test_arrays_are_loops(points, kind):
    """Hardware, sizes, strides, bytes and algorithms as arrays, against one point after the other."""
    length = max(len(hardware.tiers) for hardware, *_ in points)
    padded = [replace(h, tiers=h.tiers + (BLANK_TIER,) * (length - len(h.tiers))) for h, *_ in points]

    def column(values):
        return np.array(values, dtype=np.float64)

    together = tuple(
        Tier(**{name: column([getattr(h.tiers[i], name) for h in padded]) for name in Tier.__dataclass_fields__
                if name != "key"}, key="network.any")
        for i in range(length)
    )  # fmt: skip
    timing = Timing(**{name: column([getattr(h.timing, name) for h in padded])
                       for name in ("collective_latency", "own_shard")})  # fmt: skip
    group = Group(np.array([g.size for *_, g, _ in points]), np.array([g.stride for *_, g, _ in points]))
    codes = np.array([algorithm for *_, algorithm in points])
    all_at_once = collective_seconds(Hardware(1, 1, 1, together, timing), kind, column([p[1] for p in points]), group,
                                     codes)  # fmt: skip
    one_by_one = [collective_seconds(hardware, kind, *rest) for hardware, *rest in points]
    assert np.allclose(all_at_once, np.array(one_by_one), rtol=1e-12, atol=0)


def test_an_open_grid_has_an_axis_for_each_argument():
    sizes, messages = np.array([1, 4, 8, 64])[:, None, None], np.array([1e3, 1e9])[None, :, None]
    codes = np.arange(4)[None, None, :]
    times = collective_seconds(DEVICE, "all_reduce", messages, Group(sizes), codes)
    assert times.shape == (4, 2, 4)
    assert times[3, 1, 2] == seconds("all_reduce", 1e9, 64, 1, CollectiveAlgorithm.at(2).word)


@given(machines(), KIND, MESSAGES, GROUPS)
def test_a_span_serves_for_its_group(hardware, kind, message, group):
    span = path_of(hardware, group)
    assert collective_seconds(hardware, kind, message, span) == collective_seconds(hardware, kind, message, group)


@given(machines(), KIND, MESSAGES, GROUPS)
def test_padding_tiers_change_nothing(hardware, kind, message, group):
    padded = replace(hardware, tiers=(*hardware.tiers, BLANK_TIER, BLANK_TIER))
    assert collective_seconds(padded, kind, message, group) == collective_seconds(hardware, kind, message, group)
    assert blanks(padded, group, kind) == []


# --- blank numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["bandwidth", "efficiency", "latency", "entry_latency", "tree_latency"])
def test_blank_numbers_matter_where_they_are_needed(kind, part):
    sizes = np.array([1, 4, 8, 16, 64])
    hardware = device(NODE, replace(FABRIC, **{part: np.nan}))
    times = collective_seconds(hardware, kind, M, Group(sizes))
    unneeded = (part == "latency" and kind == "send") or (part == "tree_latency" and kind != "all_reduce")
    expected = np.zeros(5, bool) if unneeded else sizes > 8
    assert np.array_equal(np.isnan(times), expected)
    found = blanks(hardware, Group(sizes), kind)
    assert [key for key, _ in found] == ([] if unneeded else [f"network.fabric.{part}"])
    assert all(np.array_equal(mask, expected) for _, mask in found)
    assert np.array_equal(times[:3], collective_seconds(DEVICE, kind, M, Group(sizes))[:3])


def test_a_blank_exchange_matters_to_an_all_to_all_alone():
    hardware = device(replace(NODE, exchange_latency=np.nan), FABRIC)
    sizes, strides = np.array([1, 8, 16, 8]), np.array([1, 1, 1, 8])
    for kind in KINDS:
        expected = [False, True, True, False] if kind == "all_to_all" else [False] * 4
        times = collective_seconds(hardware, kind, 1e4, Group(sizes, strides))
        assert np.isnan(times).tolist() == expected
        found = blanks(hardware, Group(sizes, strides), kind)
        assert [(key, mask.tolist()) for key, mask in found] == (
            [("network.node.exchange_latency", expected)] if any(expected) else []
        )


def test_a_blank_inner_tier_does_not_matter_to_groups_beyond_it():
    blank = replace(NODE, bandwidth=np.nan, latency=np.nan, efficiency=np.nan)
    sizes, strides = np.array([8, 8, 4]), np.array([1, 8, 16])
    for kind in KINDS:
        times = collective_seconds(device(blank, FABRIC), kind, M, Group(sizes, strides))
        assert np.array_equal(np.isnan(times), [True, False, False]), kind
        assert np.array_equal(times[1:], collective_seconds(DEVICE, kind, M, Group(sizes, strides))[1:])


def test_what_no_tier_connects():
    for hardware in (device(NODE), device(NODE, BLANK_TIER)):
        times = collective_seconds(hardware, "all_gather", M, Group(np.array([8, 16])))
        assert np.array_equal(np.isnan(times), [False, True])
        ((key, mask),) = blanks(hardware, Group(np.array([8, 16])))
        assert key == ""
        assert mask.tolist() == [False, True]


def test_blank_start_and_reduction():
    hardware = device(replace(NODE, reduction=0.5, reduction_latency=np.nan), FABRIC, start=np.nan)
    assert [key for key, _ in blanks(hardware, Group(8))] == [
        "timing.collective_latency", "network.node.reduction_latency"
    ]  # fmt: skip
    unable = device(replace(NODE, reduction=np.nan), FABRIC)
    assert seconds("all_reduce", M, 8, hardware=unable) == seconds("all_reduce", M, 8)
    assert not available(unable, "all_reduce", Group(8), code("in_network"))


# --- profiles ----------------------------------------------------------------------------------------


def test_defaults_of_a_profile():
    """What a file leaves out: 13 us to enter, 24 us a tree level beyond the innermost tier, 5 us to exchange in it."""
    v100 = load_profile("v100-sxm-32gb").hardware("fp16")
    inner, outer = v100.tiers
    assert (inner.entry_latency, inner.tree_latency, inner.reduction) == (0.0, 0.0, 0.0)
    assert (outer.entry_latency, outer.tree_latency, outer.reduction) == (13e-6, 24e-6, 0.0)
    assert (inner.exchange_latency, outer.exchange_latency) == (5e-6, 0.0)
    assert v100.timing.collective_latency == 9.5e-6
    assert v100.timing.own_shard == 0.4
    gb200 = load_profile("gb200-nvl72").hardware("bf16").tiers[0]
    assert (gb200.reduction, gb200.reduction_latency, gb200.reduction_members) == (0.54, 25e-6, 8)


def test_profiles_as_rows_of_a_sweep():
    """An A100 and an MI210, whose node has no network, in one array."""
    profiles = (load_profile("a100-sxm-80gb"), load_profile("mi210"))
    rows = build_machines(profiles, ("bf16",), (None,))
    hardware = rows.pick(np.array([0, 1, 0, 1]))
    times = collective_seconds(hardware, "all_reduce", M, Group(np.array([4, 4, 16, 16])))
    assert np.isnan(times).tolist() == [False, False, False, True]
    for number, profile in enumerate(profiles):
        alone = collective_seconds(profile.hardware("bf16"), "all_reduce", M, Group(4))
        assert times[number] == pytest.approx(float(alone), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.names("hardware"))
def test_a_group_takes_as_long_alone_as_in_a_table(name):
    """What other groups cross is nobody else's business, whatever the message."""
    profile, messages = load_profile(name), np.geomspace(8, 1e9, 40)
    hardware = profile.hardware("bf16" if "bf16" in profile.precisions else "fp16")
    sizes, strides = (axis.reshape(-1) for axis in np.meshgrid([1.0, 2, 4, 8, 12, 16, 64, 512], [1.0, 2, 8, 64]))
    with np.errstate(invalid="ignore"):
        for kind in KINDS:
            table = collective_seconds(hardware, kind, messages[:, None], Group(sizes, strides))
            for number, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
                alone = collective_seconds(hardware, kind, messages, Group(size, stride))
                np.testing.assert_allclose(alone, table[:, number], rtol=1e-12)

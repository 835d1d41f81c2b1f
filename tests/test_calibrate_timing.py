"""The timing forms that a calibration fits: kernels in tiles, and collectives with two protocols."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from comp_comm.choices import CollectiveAlgorithm
from comp_comm.formulas.kernels import fused_attention_seconds, gemm_seconds, lone_tile_steps, tile_steps
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.timing.network import KINDS, collective_seconds

US = 1e-6
NODE = Tier(8, 400e9, 1 * US, 0.5)
FABRIC = Tier(np.inf, 50e9, 5 * US, 1.0, entry_latency=10 * US, tree_latency=20 * US)
sizes = st.integers(1, 65536)


@given(sizes, st.floats(0.0, 1e5))
def test_a_lone_tile_takes_no_more_steps_than_unsplit(k, cost):
    assert 0 <= lone_tile_steps(k, cost) <= k


@given(st.floats(0.01, 1e5), sizes, st.floats(0.0, 1e4), st.sampled_from([1.0, 108.0, 216.0]))
def test_waves_only_add(tiles, steps, cost, wave):
    """At least the work, at most whole waves of uncut tiles."""
    found = tile_steps(tiles, steps, cost, wave)
    assert tiles * steps * (1 - 1e-12) <= found <= np.ceil(tiles / wave) * wave * steps * (1 + 1e-12)


def test_a_gemm_by_hand():
    """m = n = 1024 and k = 512: 64 tiles of 512 + 88 steps, on a device that 100 tiles fill; split beyond 200 steps."""
    flops, moved = 2 * 1024 * 1024 * 512, 4e6
    busy = 64 * 600 * 2 * 128**2 * 1e-14
    idle = 100 * (2 * np.sqrt(512 * 200) - 200 + 88) * 2 * 128**2 * 1e-14
    want = 3e-6 + np.sqrt(busy**2 + idle**2 + (4e6 * 1e-12) ** 2)
    assert gemm_seconds(flops, 512, moved, 1e-14, 1e-12, 3e-6, 88, 100, 200) == pytest.approx(want, rel=1e-12)


@settings(max_examples=examples())
@given(sizes, sizes, sizes, st.sampled_from([0.0, 216.0]))
def test_a_larger_gemm_takes_longer(m, n, k, wave):
    def seconds(m, n, k):
        return gemm_seconds(2.0 * m * n * k, k, 2 * (m * k + k * n + m * n), 1e-14, 1e-12, 1e-6, 100, 45, 500, wave)

    now = seconds(m, n, k)
    assert seconds(2 * m, n, k) >= now * (1 - 1e-12)
    assert seconds(m, n, 2 * k) >= now * (1 - 1e-12)


def test_arrays_of_devices_are_loops():
    waves = np.array([0.0, 216.0])
    both = gemm_seconds(1e10, 512, 1e6, 1e-14, 1e-12, 1e-6, 100, 45, 500, waves)
    each = [float(gemm_seconds(1e10, 512, 1e6, 1e-14, 1e-12, 1e-6, 100, 45, 500, wave)) for wave in waves]
    assert both.tolist() == pytest.approx(each, rel=1e-12)


def test_attention_is_a_sum():
    assert fused_attention_seconds(1e9, 1e6, 1e8, 1e-12, 1e-11, 1e-5, 10) == pytest.approx(1e-3 + 1e-5 + 1e-3 + 1e-5)


# --- two protocols ----------------------------------------------------------------------------------------------------


def device(*tiers):
    return Hardware(1, 1, 1, tiers, Timing(collective_latency=5 * US, own_shard=0.0))


def seconds(hardware, message, kind="all_reduce", size=8):
    return float(collective_seconds(hardware, kind, message, Group(size)))


def test_large_messages_take_the_other_protocol():
    """Ring of 8: 14 hops. Small: 5 + 14 + X + ramp; large, from 1 MiB a device: 5 + 14 x 6 + X, without a ramp."""
    node = replace(NODE, bulk_latency=6 * US, switch_size=2.0**20)
    transfer = 1.75 * 2**24 / 200e9
    assert seconds(device(node), 2**24) == pytest.approx(5 * US + 84 * US + transfer)
    small = 1.75 * 2**20 / 200e9
    assert seconds(device(node), 2**20) == pytest.approx(19 * US + small + np.sqrt(19 * US * small))


def test_without_a_size_the_faster_protocol_is_taken():
    node = replace(NODE, bulk_latency=6 * US)
    for message in 2.0 ** np.arange(10, 34):
        transfer = 1.75 * message / 200e9
        want = min(19 * US + transfer + np.sqrt(19 * US * transfer), 89 * US + transfer)
        assert seconds(device(node), message) == pytest.approx(want)


def test_small_messages_can_be_limited():
    """A device handles 50 GB/s of small messages between nodes: 2 x 15/16 of each byte cost 20 ps more."""
    limited = device(NODE, replace(FABRIC, eager=1.0))
    message, bare = 2.0**22, device(NODE, FABRIC)
    latency = 5 * US + 10 * US + (14 + 14) * US + 2 * 5 * US
    transfer = 1.875 * message * (1 / 200e9 + 1 / 50e9)
    ring = latency + transfer + np.sqrt(latency * transfer)
    assert seconds(limited, message, "all_reduce", 16) <= ring
    assert seconds(limited, message, "all_reduce", 16) > seconds(bare, message, "all_reduce", 16)


def test_one_device_a_domain_shares_its_link_with_itself():
    alone = device(NODE, replace(FABRIC, alone=0.5))
    one_each, message = Group(4, stride=8), 2.0**33
    slow = float(collective_seconds(alone, "all_gather", message, one_each))
    fast = float(collective_seconds(device(NODE, FABRIC), "all_gather", message, one_each))
    assert slow == pytest.approx(2 * fast, rel=0.01)
    assert seconds(alone, message, "all_gather", 16) == seconds(device(NODE, FABRIC), message, "all_gather", 16)


def test_hops_between_domains_hide_behind_a_large_transfer():
    """Ring of 32: 28 hops of 6 us in nodes and 3 of 20 us between are 228 us, of which all but a third can hide."""
    hardware = device(replace(NODE, bulk_latency=6 * US), replace(FABRIC, bulk_latency=20 * US))
    message = 2.0**26
    transfer = 31 / 32 * message / 200e9
    want = 15 * US + 228 * US + transfer - 152 * US * transfer / (152 * US + transfer)
    assert seconds(hardware, message, "all_gather", 32) == pytest.approx(want, rel=1e-12)
    # In one node and in two nothing hides, beside a larger group too.
    alone = 5 * US + 42 * US + 7 / 8 * message / 200e9
    two = 15 * US + 104 * US + 15 / 16 * message / 200e9
    assert seconds(hardware, message, "all_gather", 16) == pytest.approx(two, rel=1e-12)
    found = collective_seconds(hardware, "all_gather", message, Group(np.array([8, 16, 32])))
    assert found.tolist() == pytest.approx([alone, two, want], rel=1e-12)


@pytest.mark.parametrize(("kilobytes", "filled"), [(40, 0.1), (200, 0.5), (400, 1), (40_000, 1)])
def test_a_tree_forwards_chunks(kilobytes, filled):
    """4 nodes of 8: a chunk of 50 KB a device is full at 400 KB, and adds 15 us to each of 2 levels, up and down."""
    chunked = device(NODE, replace(FABRIC, chunk_latency=15 * US, chunk_size=50e3))
    latency = (5 + 10 + 14 + 80 + 4 * 15 * filled) * US
    transfer = 2 * kilobytes * 1e3 / 200e9
    found = float(collective_seconds(chunked, "all_reduce", kilobytes * 1e3, Group(32), CollectiveAlgorithm.TREE))
    assert found == pytest.approx(latency + transfer + np.sqrt(latency * transfer), rel=1e-12)


tiers = st.builds(
    lambda bulk, tree, switch, eager, chunk: (
        replace(NODE, bulk_latency=bulk, switch_size=switch),
        replace(FABRIC, bulk_latency=bulk, bulk_tree_latency=tree, eager=eager, chunk_latency=chunk, chunk_size=5e4),
    ),
    st.sampled_from([0.0, 2 * US, 20 * US]), st.sampled_from([0.0, 30 * US]),
    st.sampled_from([0.0, 2.0**17, 2.0**21]), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.0, 15 * US]),
)  # fmt: skip


@given(tiers, st.sampled_from(KINDS), st.sampled_from([2, 8, 16, 64]), st.floats(1e3, 1e10))
def test_time_grows_with_bytes(pair, kind, size, message):
    hardware = device(*pair)
    now, more = (seconds(hardware, m, kind, size) for m in (message, 1.1 * message))
    assert np.isfinite(now)
    assert now <= more * (1 + 1e-12)


@given(tiers, st.sampled_from(KINDS))
def test_arrays_are_loops(pair, kind):
    hardware, sizes = device(*pair), np.array([1.0, 2.0, 8.0, 16.0, 64.0])
    messages = 2.0 ** np.arange(10, 34, 4)
    table = collective_seconds(hardware, kind, messages[:, None], Group(sizes))
    for i, message in enumerate(messages):
        for j, size in enumerate(sizes):
            assert table[i, j] == pytest.approx(
                float(collective_seconds(hardware, kind, message, Group(size))), rel=1e-12
            )

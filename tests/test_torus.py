"""Collectives on a torus, against links counted one by one and the times of "How to Scale Your Model"."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from comp_comm.choices import CollectiveAlgorithm
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.formulas.torus import torus_axes, torus_exchange_share, torus_hops
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.hardware.stacked import stacked
from comp_comm.timing.members import filled_axes
from comp_comm.timing.network import collective_seconds

LINK = 45e9  # bytes/s of one link, one way
MESSAGE = 1e12


def pod(**numbers):
    """A cube of a 3D torus whose collectives start at once."""
    tier = Tier(4096, 6 * LINK, 0.0, 1.0, axes=3.0, side=4.0, **numbers)
    return Hardware(1, 1, 1, (tier, Tier(np.inf, 1e9, 0.0, 1.0)), Timing(collective_latency=0.0, own_shard=0.0))


def busiest_link(shape, closed):
    """Return the messages of an all-to-all over the busiest link: each goes along one axis after the other, the short
    way around where the axis is a ring, half of them each way where both are as long."""
    loads = {}
    for start, end in itertools.product(itertools.product(*map(range, shape)), repeat=2):
        at = list(start)
        for axis, size in enumerate(shape):
            forward = (end[axis] - at[axis]) % size
            ways = [(1, forward), (-1, size - forward)]
            if not closed:
                ways = [(1, forward)] if end[axis] >= at[axis] else [(-1, at[axis] - end[axis])]
            least = min(hops for _, hops in ways)
            ways = [way for way in ways if way[1] == least]
            for sign, hops in ways:
                for hop in range(hops):
                    link = (*at[:axis], (at[axis] + sign * hop) % size, *at[axis + 1 :], axis, sign)
                    loads[link] = loads.get(link, 0.0) + 1 / len(ways)
            at[axis] = end[axis]
    return max(loads.values())


SHAPES = [((8,), 8), ((4, 4), 4), ((4, 4, 4), 4), ((8, 8), 8), ((4, 4), 16), ((6, 6), 16)]


@pytest.mark.parametrize(("shape", "side"), SHAPES)
def test_an_all_to_all_takes_what_its_busiest_link_carries(shape, side):
    n = int(np.prod(shape))
    carried = busiest_link(shape, closed=side <= shape[0]) / n  # of a device's message, over one link
    assert float(torus_exchange_share(n, len(shape), side)) / 2 == pytest.approx(carried)  # an axis has two links


@pytest.mark.parametrize(("n", "axes"), [(4, 1), (8, 1), (16, 2), (32, 2), (64, 3), (256, 3), (4096, 3)])
def test_a_gather_runs_along_all_axes_that_its_group_fills(n, axes):
    """V / (W axes), with W of both directions of an axis."""
    found = collective_seconds(pod(), "all_gather", MESSAGE, Group(n))
    assert float(found) == pytest.approx(MESSAGE * (n - 1) / n / (axes * 2 * LINK))
    assert float(collective_seconds(pod(), "all_reduce", MESSAGE, Group(n), 1)) == pytest.approx(2 * float(found))


def test_hops_of_a_gather_are_half_of_each_axis():
    """T_min times the sum of |X_i| / 2, the book's latency of an AllGather: 6 hops of 4 x 4 x 4, 32 of a ring of 64."""
    hardware = Hardware(1, 1, 1, (Tier(4096, np.inf, 1e-6, 1.0, axes=3.0, side=4.0),), Timing(collective_latency=0.0))
    assert float(collective_seconds(hardware, "all_gather", 1.0, Group(64))) == pytest.approx(6e-6)
    assert torus_hops([8, 64, 64], [1, 3, 1]).tolist() == pytest.approx([4, 6, 32])


SLICE, HOP, ENTRY = 64, 1e-6, 20e-6  # of 4 x 4 x 4 chips


def slices(each, out, hop=HOP):
    """Cubes of ``each`` chips, joined by links of ``out`` bytes/s a chip, as TPUs' slices are by a data centre's."""
    tiers = (Tier(each, 6 * LINK, hop, 1.0, axes=3.0, side=4.0), Tier(np.inf, out, 5 * hop, 1.0, entry_latency=ENTRY))
    return Hardware(1, 1, 1, tiers, Timing(collective_latency=0.0, own_shard=0.0))


def overlapped(latency, transfer):
    return latency + transfer + np.sqrt(latency * transfer)


@pytest.mark.parametrize("out", [1e9, 1e12])
def test_slices_of_a_torus_gather_at_the_pace_of_the_slowest_link(out):
    """The ring goes through both cubes along three axes, then by the links of all 64 chips to the other cube."""
    found = collective_seconds(slices(SLICE, out), "all_gather", MESSAGE, Group(2 * SLICE))
    moving = MESSAGE * 127 / 128 / min(3 * 2 * LINK, SLICE * out)
    assert float(found) == pytest.approx(overlapped(ENTRY + 2 * 6 * HOP + 5 * HOP, moving))


def test_slices_of_a_torus_reduce_in_three_legs():
    """Scattered in a cube, summed between two of them a 64th each, and gathered in the cube."""
    found = collective_seconds(
        slices(SLICE, 1e9), "all_reduce", MESSAGE, Group(2 * SLICE), int(CollectiveAlgorithm.HIERARCHICAL)
    )
    inside = overlapped(6 * HOP, MESSAGE * 63 / 64 / (3 * 2 * LINK))
    assert float(found) == pytest.approx(2 * inside + overlapped(ENTRY + 2 * 5 * HOP, MESSAGE / SLICE / 1e9))


@pytest.mark.parametrize(("each", "out"), [(64, 1e12), (4096, 1e12), (4096, 1e9)])
def test_an_all_to_all_of_slices_crosses_the_middle_of_each_with_its_part(each, out):
    """Of two slices half of a message stays inside, and crosses the middle of 16 x 16 x 16 at 4 times its size."""
    found = collective_seconds(slices(each, out, 0.0), "all_to_all", MESSAGE, Group(2 * each))
    n = 2 * each
    inside = max(0.5 * each ** (1 / 3) / 4, (n - 1) / n) / (2 * LINK)
    moving = MESSAGE * max(inside, 0.5 / out)
    assert float(found) == pytest.approx(overlapped(ENTRY, moving))


def test_a_group_with_others_between_its_members_fills_what_they_leave():
    tier = pod().tiers[0]
    assert float(filled_axes(tier, Group(16, stride=4))) == 2
    assert float(filled_axes(tier, Group(64, stride=16))) == 1
    assert float(filled_axes(tier, Group(4, stride=256))) == 1  # none whole: it has the share of one
    assert float(filled_axes(tier, Group(64, parts=((4, 1), (16, 16))))) == 2
    assert torus_axes(64, 1, [4, 8, 64, np.inf], 3).tolist() == [3, 2, 1, 0]


def test_without_a_known_side_a_torus_is_one_axis():
    old = Hardware(1, 1, 1, (Tier(4096, 6 * LINK, 1e-6, 1.0, axes=3.0),), Timing(collective_latency=0.0, own_shard=0.0))
    found = collective_seconds(old, "all_gather", MESSAGE, Group(64))
    moving, hops = MESSAGE * 63 / 64 / (2 * LINK), 63e-6
    assert float(found) == pytest.approx(moving + hops + np.sqrt(moving * hops))


def test_one_table_of_a_torus_and_a_switch_has_the_numbers_of_each():
    switch = Hardware(1, 1, 1, (Tier(8, 450e9, 1e-6, 0.8), Tier(np.inf, 50e9, 5e-6, 0.9)), Timing())
    torus = Hardware(
        1, 1, 1, (Tier(4096, 270e9, 1e-6, 0.8, axes=3.0, side=4.0), Tier(np.inf, 6e9, 5e-6, 0.9)), Timing()
    )
    for kind in ("all_gather", "all_reduce", "all_to_all", "send"):
        for group in (Group(8), Group(64), Group(16, stride=4)):
            both = collective_seconds(stacked((switch, torus)), kind, 1e8, group).reshape(-1)
            alone = [float(collective_seconds(each, kind, 1e8, group)) for each in (switch, torus)]
            assert both.tolist() == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("name", ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7"])
def test_a_pod_gathers_along_all_its_axes(name):
    hardware = load_profile(name).hardware("bf16")
    tier = hardware.tiers[0]
    assert float(filled_axes(tier, Group(256))) == tier.axes
    assert float(filled_axes(tier, Group(2))) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "extends: tpu-v4\nnetwork: {scale-up: {side: 1}}\n",
            "profile.yaml:2: network.scale-up.side: '1' is out of range",
        ),
        (
            "extends: h100-sxm\nnetwork: {scale-up: {side: 4}}\n",
            "network.scale-up.side: is of a torus; the tier is a switch",
        ),
        (
            "extends: mi210\nnetwork: {scale-up: {axes: 2}}\n",
            "network.scale-up.axes: is of a torus; the tier is a mesh",
        ),
        ("extends: tpu-v4\nnetwork: {scale-up: {side: null}}\n", "give the devices from which on an axis is a ring"),
    ],
)
def test_what_is_no_torus_has_no_axes(tmp_path, text, said):
    (tmp_path / "profile.yaml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_profile(str(tmp_path / "profile.yaml"))


def test_a_switch_that_takes_the_place_of_a_torus_has_all_of_its_bandwidth(tmp_path):
    (tmp_path / "profile.yaml").write_text("extends: tpu-v4\nnetwork: {scale-up: {topology: switch}}\n")
    tier = load_profile(str(tmp_path / "profile.yaml")).hardware("bf16").tiers[0]
    assert (tier.axes, tier.side) == (1.0, np.inf)

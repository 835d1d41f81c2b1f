"""Where groups sit on the network: every placement against its ranks written out one by one."""

from __future__ import annotations

import itertools

import pytest

from comp_comm.configs.study import study_from
from comp_comm.placement import GROUPS, Placement
from comp_comm.sweeps.plan import make_plan

MODEL = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 51200, "seq_len": 1024}
SIZES = {"tp": 2, "cp": 2, "dp": 4, "pp": 4}


def step(**more):
    return make_plan(study_from({"hardware": "h100-sxm", "set": {**MODEL, **SIZES, **more}})).evaluate(())


def ranks(placement, moving):
    """Return the devices of the group of device 0: those that differ from it in ``moving`` only, written out."""
    names = placement.split("-")
    found = []
    for places in itertools.product(*(range(SIZES[name]) for name in names)):
        place = dict(zip(names, places, strict=True))
        if all(place[name] == 0 for name in names if name not in moving):
            number, width = 0, 1
            for name in names:
                number, width = number + place[name] * width, width * SIZES[name]
            found.append(number)
    return sorted(found)


def inside(devices):
    """Return how many of a group's devices are in the domain of the first one, for domains of 1, 2, 4 .. devices."""
    return [sum(device < domain for device in devices) for domain in (1, 2, 4, 8, 16, 32, 64)]


def of(group):
    steps = [[int(stride) * i for i in range(int(size))] for size, stride in group.progressions]
    return sorted(map(sum, itertools.product(*steps)))


def placed(placement, **more):
    """Return the devices of each group as the cost model has them."""
    answer = step(accumulation=4, placement=placement, **more)
    counted = [item.call.collective for item in answer.communication.counted_collectives]
    return {collective.name: of(collective.group) for collective in counted}


@pytest.mark.a_third
@pytest.mark.parametrize("placement", Placement.words())
def test_groups_are_the_ranks_of_a_placement(placement):
    found = placed(placement)
    assert found["layer all-gather"] == ranks(placement, ("tp",))
    assert found["pass keys and values"] == ranks(placement, ("cp",))
    assert found["stage boundary"] == ranks(placement, ("pp",))
    layout = step(placement=placement).work.layout
    for name in GROUPS:
        assert [int(layout.stride(name)) * i for i in range(SIZES[name])] == ranks(placement, (name,))


@pytest.mark.a_third
@pytest.mark.parametrize("placement", Placement.words())
def test_states_are_shared_by_the_replicas_of_a_placement(placement):
    """Replicas are devices of DP and of CP: as many of them in each domain as there are."""
    assert inside(placed(placement)["gradient reduce-scatter"]) == inside(ranks(placement, ("dp", "cp")))


@pytest.mark.a_third
@pytest.mark.parametrize("placement", Placement.words())
def test_experts_take_the_nearest_devices_of_a_stage(placement):
    """Of the devices of a stage in the order of the placement, TP inside an expert takes neighbours, EP the next."""
    stage = ranks(placement, ("tp", "cp", "dp"))
    found = placed(placement, experts=8, top_k=2, moe_ffn_hidden=512, ep=4, etp=2, cp_comm="all_gather")
    assert inside(found["expert all-gather"]) == inside(stage[:2])
    assert inside(found["expert dispatch"]) == inside(stage[: 2 * 4 : 2])


@pytest.mark.parametrize("shard", [2, 4])
def test_hsdp_shards_over_neighbours_and_reduces_over_the_rest(shard):
    found, replicas = placed(Placement.words()[0], dp_shard=shard), ranks(Placement.words()[0], ("cp", "dp"))
    assert found["gradient reduce-scatter"] == found["weight all-gather"] == replicas[:shard]
    assert found["all-reduce over replicas"] == replicas[::shard]


@pytest.mark.parametrize(("ep", "etp"), [(4, 2), (2, 2), (8, 1)])
def test_replicas_of_experts_are_what_is_left_of_a_stage(ep, etp):
    found = placed(Placement.words()[0], experts=8, top_k=2, moe_ffn_hidden=512, ep=ep, etp=etp)
    stage = ranks(Placement.words()[0], ("tp", "cp", "dp"))
    assert found["expert gradient reduce-scatter"] == stage[:: ep * etp]

"""Which rows are inside a domain: what a log says of hosts is not what a profile says of domains."""

from __future__ import annotations

import json
import math
from pathlib import Path

import nccl_log
import pytest
from nccl_log import run, text

from comp_comm.calibration.measurements import CollectiveRow, Placement
from comp_comm.calibration.placement import DomainTiers, place_rows, tiers_of
from comp_comm.calibration.readers import read_log
from comp_comm.calibration.samples import make_samples
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError

INPUTS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "inputs"
RACK = DomainTiers(72.0, 900e9, 50e9)
NODE = DomainTiers(8.0, 450e9, 50e9)


def inside(content, tmp_path, tiers):
    """Return how many rows of a log are in one domain, how many are not, and what is said of that."""
    path = tmp_path / "run.log"
    path.write_text(content)
    notes = []
    samples, _ = make_samples(read_log(str(path)).rows, "bf16", tiers.domain, tiers, notes)
    count = {True: 0, False: 0}
    for sample in samples:
        for name, mask in sample.sizes.items():
            count["in a domain" in name] += int(mask.sum())
    return count[True], count[False], notes


@pytest.mark.parametrize(("hosts", "each", "rate", "expected"), [
    (18, 4, 700e9, (11, 0)),  # a rack
    (2, 4, 700e9, (11, 0)),  # a part of one
    (36, 4, 700e9, (0, 11)),  # two racks
    (2, 4, 90e9, (0, 11)),  # two hosts that NVLink does not connect
])  # fmt: skip
def test_a_domain_that_spans_hosts(tmp_path, hosts, each, rate, expected):
    content = text(run("all_reduce", hosts, each, rate=rate))
    *counts, notes = inside(content, tmp_path, RACK)
    assert tuple(counts) == expected
    assert bool(notes) == (rate < 100e9)


def test_groups_that_were_split_across_a_rack(tmp_path):
    """Every fourth device of 72, on 18 hosts: one domain has them all; of 144, it has 18 of 36."""
    for hosts, expected in ((18, (11, 0)), (36, (0, 11))):
        content = text(run("all_reduce", hosts, 4, group=lambda rank: rank % 4, devices=hosts, rate=700e9))
        assert inside(content, tmp_path, RACK)[:2] == expected


@pytest.mark.parametrize(("hosts", "each", "expected"), [(1, 8, (11, 0)), (2, 8, (0, 11)), (2, 4, (0, 11))])
def test_a_domain_of_one_host(tmp_path, hosts, each, expected):
    """Four devices of each of two hosts are eight, and not of one node."""
    assert inside(text(run("all_reduce", hosts, each, rate=150e9)), tmp_path, NODE)[:2] == expected


def test_bandwidth_that_leaves_no_host_is_of_one_domain(tmp_path):
    """Four devices with 50 GB/s each send 200 GB/s: what shows 800 on the bus did not go that way."""
    *counts, notes = inside(text(run("all_reduce", 2, 4, rate=800e9)), tmp_path, NODE)
    assert tuple(counts) == (11, 0)
    assert "one domain spans hosts" in notes[0]
    with pytest.raises(ConfigError, match=r"the profile's has 8 devices: extend a profile with network\.\*\.domain"):
        inside(text(run("all_reduce", 4, 4, rate=800e9)), tmp_path, NODE)


def test_small_messages_say_nothing_of_where_devices_are():
    slow = CollectiveRow(1e-3, "", 0, "all_reduce", 8, 72, 4, Placement(18, 1, 1, 1e6, 2**20))
    (row,), notes = place_rows([slow], RACK)
    assert (row.per_node, notes) == (72, [])


def test_profiles_say_what_their_tiers_are():
    assert tiers_of(load_profile("h100-sxm")) == NODE
    assert tiers_of(load_profile("gb200-nvl72")) == RACK
    assert math.isnan(tiers_of(load_profile("mi210")).outside)


@pytest.mark.slow
@pytest.mark.skipif(not INPUTS.is_dir(), reason="the inputs of the project are not beside the checkout")
def test_inputs_of_a_rack_and_of_split_groups(compcomm, tmp_path):
    """A rack: 27 % off, where hosts as domains are 679 %. Pairs across nodes: an efficiency of 0.855, not 0.145."""
    code, out, _ = compcomm("calibrate", "--check", INPUTS / "nccl-nvl72.txt", "--hardware", "gb200-nvl72", "--format",
                            "json")  # fmt: skip
    answer = json.loads(out)
    assert code == 0
    assert [row["size"] for row in answer["by_size"]] == [">= 1 MiB in a domain"]
    assert answer["rows"][0]["median_abs_error"] < 0.4
    code, out, _ = compcomm("calibrate", INPUTS / "nccl-split-groups.txt", "--extends", "h100-sxm", "--format", "json")
    fitted = json.loads(out)["meta"]["fitted"]["network.scale-out.efficiency"]["value"]
    assert (code, fitted) == (0, pytest.approx(0.855, abs=0.01))


@pytest.mark.slow
def test_a_fit_of_pairs_across_nodes_has_the_efficiency_they_were_made_with(compcomm, tmp_path):
    """40 GB/s of 50 on the bus between two nodes, eight pairs at once."""
    path = tmp_path / "pairs.log"
    path.write_text(text(run("all_reduce", 2, 8, group=lambda rank: rank % 8, devices=2, rate=40e9)))
    code, out, _ = compcomm("calibrate", path, "--extends", "h100-sxm", "--format", "json")
    fitted = json.loads(out)["meta"]["fitted"]["network.scale-out.efficiency"]["value"]
    assert (code, fitted) == (0, pytest.approx(0.8, rel=0.1))


def test_times_are_those_that_the_log_was_made_with(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(text(run("all_gather", 1, 8)))
    for row in read_log(str(path)).rows:
        assert row.seconds == pytest.approx(nccl_log.seconds("all_gather", 8, row.size))

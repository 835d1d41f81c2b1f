"""JSON of nccl-tests (-J), records of rccl-tests (-Z json, -Z csv): what they say is what their tables say."""

from __future__ import annotations

import json

import pytest
from nccl_log import REDUCTIONS, SHARED, run, seconds, table, text
from test_logs_nccl import places

from comp_comm.calibration.readers import read_log
from comp_comm.errors import ConfigError

SIZES = [2**power for power in range(20, 31)]


def measured(kind, devices, **more):
    """Return size, count, number format, time and bandwidths of each row of a table."""
    return [line.split()[:3] + line.split()[5:8] for line in table(kind, devices, **more) if line.split()[0].isdigit()]


def of_nccl(kind, hosts, each, processes_of=1, **more):
    """Return what nccl-tests writes: of a process with several devices, its list has the first."""
    results = []
    for size, count, dtype, time, algorithm, bus in measured(kind, hosts * each, **more):
        side = {"time": float(time), "alg_bw": float(algorithm), "bus_bw": float(bus), "nwrong": 0.0}
        results.append({"size": int(size), "count": int(count), "type": dtype,
                        "redop": REDUCTIONS.get(kind, "sum"), "root": "    -1",
                        "out_of_place": side, "in_place": {**side, "nwrong": None},
                        "actual_iterations": 20, "experiment_name": ""})  # fmt: skip
    devices = [{"rank": rank, "group": 0, "pid": 100 + rank, "hostname": f"node-{rank // each}", "device": rank % each,
                "device_hex": f"0000:{rank % each:02x}:00", "device_info": "NVIDIA H100 80GB HBM3"}
               for rank in range(0, hosts * each, processes_of)]  # fmt: skip
    config = {"nthreads": 1, "ngpus": processes_of, "minimum_bytes": 2**20, "devices": devices}
    return {"version": 3, "start_time": "2026-03-01 10:00:00", "args": [f"./build/{kind}_perf", "-J", "out.json"],
            "env": ["PATH=/usr/bin", "RUN=all_gather_perf"], "nccl_version": 22807, "config": config,
            "results": results, "out_of_bounds": {"count": 0, "okay": "true"}, "errors": []}  # fmt: skip


def of_rccl(kind, devices, name, sides=(0, 1), **more):
    """Return what rccl-tests writes: a record for each size and side."""
    return [{"numCycle": 0, "name": name, "size": int(size), "type": dtype, "redop": REDUCTIONS.get(kind, "sum"),
             "inPlace": side, "time": float(time), "algBw": float(algorithm), "busBw": float(bus),
             "wrong": "N/A" if side else 0, **more}
            for size, _, dtype, time, algorithm, bus in measured(kind, devices) for side in sides]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [("all_reduce", "all_reduce"), ("alltoall", "all_to_all"),
                                            ("sendrecv", "send"), ("reduce_scatter", "reduce_scatter")])  # fmt: skip
@pytest.mark.parametrize("processes_of", [1, 4])
def test_json_of_nccl_tests(log, kind, name, processes_of):
    found = read_log(log(of_nccl(kind, 2, 4, processes_of)))
    assert places(found) == {(name, 8, 4): 11}
    assert {row.dtype for row in found.rows} == {"fp32"}
    assert [row.seconds for row in found.rows] == pytest.approx([seconds(kind, 8, row.size) for row in found.rows])
    whole = 4 * (8 if kind in SHARED else 1)  # as many bytes as a whole number for each share
    assert [row.size for row in found.rows] == [size // whole // 4 * 4 * whole for size in SIZES]


def test_one_side_is_null_where_it_was_not_measured(log):
    content = of_nccl("all_reduce", 1, 8)
    for result in content["results"]:
        result["out_of_place"] = None
    assert places(read_log(log(content))) == {("all_reduce", 8, 8): 11}


@pytest.mark.parametrize(("kind", "name", "ours"), [
    ("all_reduce", "AllReduce", "all_reduce"), ("alltoall", "AlltoAll", "all_to_all"),
    ("reduce_scatter", "ReduceScatter", "reduce_scatter"),
])  # fmt: skip
def test_records_of_rccl_tests(log, kind, name, ours):
    """Devices are told by the bandwidths, or by the records of a run on several nodes."""
    records = of_rccl(kind, 8, name)
    found = read_log(log(records))
    assert places(found) == {(ours, 8, 0): 11}
    assert [row.seconds for row in found.rows] == pytest.approx([seconds(kind, 8, row.size) for row in found.rows])
    lines = "".join(json.dumps(record) + "\n" for record in records)
    assert read_log(log(lines, "lines.json")).rows == found.rows
    columns = ",".join(records[0])
    rows = "".join(",".join(map(str, record.values())) + "\n" for record in records)
    assert read_log(log(f"{columns}\n{rows}", "run.csv")).rows == found.rows
    on_nodes = of_rccl(kind, 16, name, nodes=2, ranks=16, ranksPerNode=8, gpusPerRank=1)
    assert places(read_log(log(on_nodes))) == {(ours, 16, 8): 11}
    in_twos = of_rccl(kind, 16, name, nodes=2, ranks=8, ranksPerNode=4, gpusPerRank=2)
    assert places(read_log(log(in_twos))) == {(ours, 16, 8): 11}


def test_two_cycles_and_collectives_are_runs_of_their_own(log):
    again = [{**record, "numCycle": 1} for record in of_rccl("all_reduce", 8, "AllReduce")]
    found = read_log(log([*of_rccl("alltoall", 4, "AlltoAll"), *of_rccl("all_reduce", 8, "AllReduce"), *again]))
    assert places(found) == {("all_reduce", 8, 0): 22, ("all_to_all", 4, 0): 11}
    assert len(found.notes) == 3


def test_zeros_behind_the_point_are_digits_too(log):
    """Of 4.0 and 7.0 GB/s, rounded, 7 to 9 devices are possible."""
    record = '[{"numCycle":0,"name":"AllReduce","size":4000000,"type":"float","redop":"sum","inPlace":0,'
    found = read_log(log(record + '"time":1000.000000,"algBw":4.000000,"busBw":7.000000,"wrong":0}]'))
    assert places(found) == {("all_reduce", 8, 0): 1}


def test_out_of_place_and_in_place_are_one_row(log):
    records = of_rccl("all_reduce", 8, "AllReduce")
    for record in records[1::2]:  # twice as long in place
        record.update(time=2 * record["time"], algBw=record["algBw"] / 2, busBw=record["busBw"] / 2)
    found = read_log(log(records))
    assert [row.seconds for row in found.rows] == pytest.approx([1.5 * seconds("all_reduce", 8, s) for s in SIZES])


@pytest.mark.parametrize(("change", "said"), [
    (lambda c: c.update(results=None), "'results' is no list"),
    (lambda c: c.update(results=[]), "no rows: the run stopped"),
    (lambda c: c["results"][0]["out_of_place"].update(time=1.0) or c["results"][0].update(in_place=None), None),
    (lambda c: [r["out_of_place"].update(time="nan") or r.update(in_place=None) for r in c["results"]],
     "without all of their numbers"),
    (lambda c: c.update(args=["./build/broadcast_perf"]), "is named broadcast, and its columns are of"),
    (lambda c: [r["out_of_place"].update(bus_bw=-1) or r.update(in_place=3) for r in c["results"]],
     "without all of their numbers"),
])  # fmt: skip
def test_json_that_says_too_little(log, change, said):
    content = of_nccl("all_reduce", 1, 8)
    change(content)
    if said is None:  # a time that its bandwidth is not: that row alone is left out
        found = read_log(log(content))
        assert (len(found.rows), sum(found.skipped.values())) == (10, 1)
        return
    with pytest.raises(ConfigError, match=said):
        read_log(log(content))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_json_cut_off_anywhere(log, share):
    content = json.dumps(of_nccl("all_reduce", 1, 8), indent=1)
    with pytest.raises(ConfigError, match="is not whole JSON"):
        read_log(log(content[: int(len(content) * share)]))


def test_json_of_others_stays_what_it_was(log):
    with pytest.raises(ConfigError, match="no list 'traceEvents'"):
        read_log(log({"version": 3, "results": []}))
    assert places(read_log(log(text(run("all_reduce", 1, 8)), "plain.log"))) == {("all_reduce", 8, 8): 11}

"""A log of nccl-tests is a list of runs; what its columns, ranks and bandwidths say has to agree."""

from __future__ import annotations

from pathlib import Path

import nccl_log
import pytest
from nccl_log import run, text

from comp_comm.calibration.measurements import CollectiveRow
from comp_comm.calibration.readers import read_log
from comp_comm.errors import ConfigError

INPUTS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "inputs"
needs_inputs = pytest.mark.skipif(not INPUTS.is_dir(), reason="the inputs of the project are not beside the checkout")
MIB = 2**20


def places(found):
    """Return how many rows there are of each collective, number of devices, and devices of a host."""
    counts = {}
    for row in found.rows:
        counts[row.kind, row.devices, row.per_node] = counts.get((row.kind, row.devices, row.per_node), 0) + 1
    return counts


def test_each_run_has_its_own_devices_and_collective(log):
    found = read_log(log(text(run("all_reduce", 1, 8), run("all_reduce", 2, 8), run("all_gather", 2, 4),
                              run("alltoall", 1, 4), run("sendrecv", 1, 2))))  # fmt: skip
    assert places(found) == {("all_reduce", 8, 8): 11, ("all_reduce", 16, 8): 11, ("all_gather", 8, 4): 11,
                             ("all_to_all", 4, 4): 11, ("send", 2, 2): 11}  # fmt: skip
    first = found.rows[0]
    assert first == CollectiveRow(pytest.approx(nccl_log.seconds("all_reduce", 8, MIB)), "fp32", 15, "all_reduce", MIB,
                                  8, 8)  # fmt: skip


def test_the_number_format_is_that_of_each_row(log):
    found = read_log(log(text(run("all_reduce", 1, 8), run("all_reduce", 1, 8, dtype="bfloat16"))))
    assert [row.dtype for row in found.rows] == ["fp32"] * 11 + ["bf16"] * 11


def test_a_run_that_is_not_named_is_not_the_one_before(log):
    """A gather after an all-reduce: what is not said is not taken from another run, and that is said."""
    found = read_log(log(text(run("all_reduce", 1, 8), run("all_gather", 1, 8, named=False))))
    assert places(found) == {("all_reduce", 8, 8): 11}
    assert any("give --collective" in note for note in found.notes)
    assert sum(found.skipped.values()) == 11
    both = read_log(log(text(run("all_reduce", 1, 8), run("all_gather", 1, 8, named=False))), collective="all_gather")
    assert set(places(both)) == {("all_reduce", 8, 8), ("all_gather", 8, 8)}


def test_what_its_columns_tell_needs_no_name(log):
    """Sums of more than the message are an all-reduce; sums of a share are a reduce-scatter."""
    found = read_log(log(text(run("all_reduce", 1, 8, named=False), run("reduce_scatter", 1, 8, named=False))))
    assert set(places(found)) == {("all_reduce", 8, 8), ("reduce_scatter", 8, 8)}


def test_a_name_that_the_columns_contradict_is_refused(log):
    lines = run("all_reduce", 1, 8)
    lines[0] = lines[0].replace("all_reduce", "all_gather")
    with pytest.raises(ConfigError, match="named all_gather, and its columns are of all_reduce"):
        read_log(log(text(lines)))


def test_the_line_that_ends_a_run_names_no_other(log):
    one = ["# Collective test starting: all_gather_perf", *run("all_gather", 1, 4, named=False),
           "# Collective test concluded: all_gather_perf"]  # fmt: skip
    two = ["# Collective test starting: alltoall_perf", *run("alltoall", 1, 4, named=False)]
    assert set(places(read_log(log(text(one, two))))) == {("all_gather", 4, 4), ("all_to_all", 4, 4)}


@pytest.mark.parametrize(("group", "devices", "each", "stride"), [
    (lambda rank: rank % 8, 2, 1, 8), (lambda rank: rank // 4, 4, 4, 1), (lambda rank: rank % 4, 4, 2, 4),
    (lambda rank: rank % 2, 8, 4, 2),
])  # fmt: skip
def test_communicators_that_were_split(log, group, devices, each, stride):
    found = read_log(log(text(run("all_reduce", 2, 8, group=group, devices=devices))))
    assert places(found) == {("all_reduce", devices, each): 11}
    assert found.rows[0].place.stride == stride
    assert found.rows[0].place.groups == 16 // devices
    assert f"{16 // devices} groups at once" in "".join(found.notes)


def test_a_split_that_the_ranks_do_not_show(log):
    """Without groups, 16 ranks at the bandwidth of two: where the two are has to be said."""
    content = text(run("all_reduce", 2, 8, devices=2, old=True))
    with pytest.raises(ConfigError, match=r"of 2 devices.*--gpus-per-node"):
        read_log(log(content))
    assert places(read_log(log(content), per_node=1)) == {("all_reduce", 2, 1): 11}
    assert places(read_log(log(text(run("all_reduce", 1, 8, devices=2, old=True))))) == {("all_reduce", 2, 2): 11}


@pytest.mark.parametrize("devices", [2, 3, 8, 16, 96])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_bandwidths_and_counts_tell_the_devices(log, kind, devices):
    lines = [f"./build/{kind}_perf", *nccl_log.table(kind, devices, rate=200e9)]
    assert places(read_log(log(text(lines)))) == {(kind, devices, 0): 11}


def test_bandwidths_that_do_not_tell_how_many(log):
    """1440 devices: 2 (n - 1) / n is 1.9986, which two decimals leave open."""
    lines = nccl_log.table("all_reduce", 1440, rate=200e9)
    with pytest.raises(ConfigError, match=r"does not say how many devices.*give --devices"):
        read_log(log(text(lines)))
    assert places(read_log(log(text(lines)), devices=1440)) == {("all_reduce", 1440, 0): 11}
    with pytest.raises(ConfigError, match="--devices 8: its bandwidths are of"):
        read_log(log(text(lines)), devices=8)


@pytest.mark.parametrize(("shown", "devices", "each"), [
    (range(4), 16, 0), (range(12), 16, 8), ((0, 15), 16, 8), ((15,), 16, 8), ((0, 3, 9), 16, 0),
])  # fmt: skip
def test_a_list_of_ranks_that_is_cut_short(log, shown, devices, each):
    """All 16 took part, whatever is listed; how many are on a host is known where one size of a block fits alone."""
    lines = run("all_reduce", 2, 8)
    kept = [line for line in lines if "Rank" not in line or int(line.split()[2]) in shown]
    assert places(read_log(log(text(kept)))) == {("all_reduce", devices, each): 11}


def test_ranks_that_cannot_be_those_of_the_bandwidths(log):
    with pytest.raises(ConfigError, match="lists 12 ranks, and its bandwidths are of 8 devices"):
        read_log(log(text(run("all_reduce", 3, 4, devices=8))))


def test_rows_of_two_runs_without_a_header_between_them_are_refused(log):
    rows = nccl_log.table("all_reduce", 8) + nccl_log.table("all_reduce", 16)[3:]
    with pytest.raises(ConfigError, match="differs from row to row"):
        read_log(log(text(["all_reduce_perf", *rows])))


def test_times_in_other_units_are_refused(log):
    content = text(run("all_reduce", 1, 8))
    with pytest.raises(ConfigError, match="do not fit together"):
        read_log(log("\n".join(_in_milliseconds(line) for line in content.splitlines())))


def _in_milliseconds(line):
    words = line.split()
    if line.startswith("#") or len(words) != 13 or not words[0].isdigit():
        return line
    return " ".join(f"{float(word) / 1e3:.6f}" if place in (5, 9) else word for place, word in enumerate(words))


def test_a_run_of_one_device_sends_nothing(log):
    lines = run("all_reduce", 1, 1)
    with pytest.raises(ConfigError, match="one device"):
        read_log(log(text(lines)))


def test_collectives_without_a_timing_are_left_out_and_said(log):
    found = read_log(log(text(run("broadcast", 1, 8, root=0), run("all_reduce", 1, 8))))
    assert places(found) == {("all_reduce", 8, 8): 11}
    assert any("broadcast" in reason for reason in found.skipped)
    with pytest.raises(ConfigError, match="broadcast: such collectives have no timing"):
        read_log(log(text(run("broadcast", 1, 8, root=0))))
    with pytest.raises(ConfigError, match="with a root"):
        read_log(log(text(run("broadcast", 1, 8, root=0, named=False))))


@pytest.mark.parametrize("prefix", [
    "[rank0]: ", "[0] ", "[1,0]<stdout>:", "0: ", "nccl-test-worker-0: ", "2026-03-01T10:00:00.123Z ",
    "[2026-03-01 10:00:00] ", "\x1b[36m(pid=42)\x1b[0m ", "pod/nccl-0 | ", "\x1b[0;32m",
    "Mar  1 10:00:00 node-1 job[7]: ",
])  # fmt: skip
def test_prefixes_change_nothing(log, prefix):
    content = text(run("all_reduce", 2, 8))
    behind = "".join(f"{prefix}{line}\n" for line in content.splitlines())
    assert read_log(log(behind)).rows == read_log(log(content, "plain.log")).rows


def test_rows_on_a_line_with_a_message_are_read_and_said(log):
    lines = run("all_reduce", 1, 8)
    first = next(place for place, line in enumerate(lines) if line.split()[:1] == ["1048576"])
    lines[first] = "node-0:12:34 [0] NCCL INFO Connected all rings" + lines[first]
    lines[first + 1] += "node-0:12:34 [0] NCCL INFO Connected all trees"
    found = read_log(log(text(lines)))
    assert places(found) == {("all_reduce", 8, 8): 11}
    assert any("2 rows share a line" in note for note in found.notes)


@pytest.mark.parametrize("line", ["Channel 00 02 ring of 8", "srun: 0 0 nodes failed", "12 34 tests passed in 5 s"])
def test_numbers_and_a_word_are_no_row(log, line):
    found = read_log(log(text(run("all_reduce", 1, 8), [line])))
    assert (len(found.rows), found.skipped) == (11, {})


def test_rows_that_a_message_runs_through_are_left_out_and_said(log):
    lines = run("all_reduce", 1, 8)
    first = next(place for place, line in enumerate(lines) if line.split()[:1] == ["1048576"])
    lines[first] = lines[first][:60] + "node-0:12:34 [0] NCCL INFO Connected all rings"
    found = read_log(log(text(lines)))
    assert places(found) == {("all_reduce", 8, 8): 10}
    assert any("runs through 1 rows" in note for note in found.notes)


def test_wrong_results_are_said(log):
    found = read_log(log(text(run("all_reduce", 1, 8, wrong="7"))))
    assert len(found.rows) == 11
    assert any("11 rows had wrong results" in note for note in found.notes)
    out_of_bounds = text(run("all_reduce", 1, 8)).replace("values : 0 OK", "values : 3 FAILED")
    assert any("3 values were out of bounds" in note for note in read_log(log(out_of_bounds)).notes)


def test_ranks_that_share_a_device_are_said(log):
    lines = [line.replace("device  1 [0000:01:00]", "device  0 [0000:00:00]") for line in run("all_reduce", 1, 2)]
    assert any("share a device" in note for note in read_log(log(text(lines))).notes)


def test_processes_that_ran_side_by_side_are_said(log):
    """Built without MPI, each process prints a list of its own, from rank 0 on."""
    lines = run("all_reduce", 1, 4)
    other = [line.replace("node-0", "node-1") for line in lines if "Rank" in line]
    found = read_log(log(text([*lines[:1], *other, *lines[1:]])))
    assert places(found) == {("all_reduce", 4, 4): 11}
    assert any("side by side" in note for note in found.notes)


def test_columns_of_newer_and_older_versions(log):
    """Per-iteration numbers, a time of day, in-place alone, and columns that are left blank."""
    lines = run("all_reduce", 1, 8)
    plain = read_log(log(text(lines))).rows
    extra = [_with_iterations(line) for line in lines]
    assert read_log(log(text(extra))).rows == plain
    stamped = [f"{line} 2026-03-01 10:00:00" if line.split()[:1] == ["1048576"] else line for line in lines]
    stamped = [line + "  timestamp" if "busbw" in line else line for line in stamped]
    found = read_log(log(text(stamped)))
    assert (found.rows, [note for note in found.notes if "share a line" in note]) == (plain, [])
    old = [line.replace("   redop    root", "   redop").replace("#wrong", " error") for line in lines]
    old = [line.replace("    sum      -1", "    sum").replace("      0 ", "  0e+00 ") for line in old]
    assert read_log(log(text(old))).rows == plain


def _with_iterations(line):
    if "busbw" in line:
        return line.replace("#wrong", "#wrong  i_min  i_max  i_p99  i_cv%")
    words = line.split()
    if line.startswith("#") or len(words) != 13 or not words[0].isdigit():
        return line
    return " ".join([*words[:9], "1.0", "2.0", "2.0", "5.1", *words[9:], "1.0", "2.0", "2.0", "5.1"])


def test_more_runs_than_one_log_has(log, monkeypatch):
    monkeypatch.setattr("comp_comm.calibration.readers.nccl_runs.MOST_ROWS", 20)
    with pytest.raises(ConfigError, match="more than 20 rows"):
        read_log(log(text(run("all_reduce", 1, 8), run("all_reduce", 1, 8))))


@needs_inputs
def test_the_inputs_of_the_project():
    read = {name: read_log(str(INPUTS / f"nccl-{name}.txt")) for name in ("split-groups", "two-runs", "rank-prefix",
                                                                          "nvl72")}  # fmt: skip
    assert places(read["split-groups"]) == {("all_reduce", 2, 1): 11}
    assert places(read["two-runs"]) == {("all_reduce", 8, 8): 11, ("all_reduce", 16, 8): 11}
    assert places(read["rank-prefix"]) == {("all_reduce", 8, 8): 6}
    assert places(read["nvl72"]) == {("all_reduce", 72, 4): 6}


@pytest.mark.a_third
@pytest.mark.parametrize("cell", range(13))
@pytest.mark.parametrize("digit", ["0", "7"])
def test_a_digit_that_went_wrong_is_found_or_makes_no_difference(log, cell, digit):
    """Size, count, time and both bandwidths tell one another's errors: no row of other numbers is taken for one."""
    content = text(run("all_reduce", 1, 8, sizes=(2**24, 2**26, 2**28, 2**30)))
    lines = content.splitlines()
    plain = {row.line: row for row in read_log(log(content)).rows}
    number = min(plain) + 1
    words = lines[number - 1].split()
    for place, letter in enumerate(words[cell]):
        if not letter.isdigit() or letter == digit:
            continue
        changed = [*words[:cell], words[cell][:place] + digit + words[cell][place + 1 :], *words[cell + 1 :]]
        try:
            found = read_log(log("\n".join([*lines[: number - 1], " ".join(changed), *lines[number:]])))
        except ConfigError:
            continue
        for row in found.rows:
            assert (row.size, row.devices, row.kind) == (plain[row.line].size, 8, "all_reduce")
            assert row.seconds == pytest.approx(plain[row.line].seconds, rel=0.03)

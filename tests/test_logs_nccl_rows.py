"""Rows and runs of nccl-tests as logs of others have them: broken by messages, of one side, unnamed, with commas."""

from __future__ import annotations

import re

import pytest
from nccl_log import run, text
from test_logs_nccl import places

from comp_comm.calibration.readers import read_log
from comp_comm.errors import ConfigError


def broken(line, after, message="node-0:12:34 [0] NCCL INFO AllReduce: opCount 0 count 16 datatype 7 op 0 root 0"):
    """Return a row as it stands where the library wrote its messages before the collective had ended."""
    return [line[:after] + message, message, line[after:]]


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:"])
def test_rows_that_messages_broke_off_are_joined(log, prefix):
    lines = run("all_reduce", 2, 8)
    plain = read_log(log(text(lines), "plain.log"))
    end = lines[next(place for place, line in enumerate(lines) if "#wrong" in line)].index("time") - 5
    rows = [broken(line, end) if line.split()[:1] != ["#"] and "float" in line else [line] for line in lines]
    found = read_log(log(text([prefix + line for row in rows for line in row])))
    assert [(row.size, row.seconds) for row in found.rows] == [(row.size, row.seconds) for row in plain.rows]
    assert (places(found), found.skipped, found.notes[1:]) == ({("all_reduce", 16, 8): 11}, {}, [])


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:"])
def test_rows_that_were_broken_off_twice_have_both_sides(log, prefix):
    """Messages come before each of both is measured; here, what is in place takes twice as long."""
    lines = run("all_reduce", 2, 8)
    message = "node-0:12:34 [0] NCCL INFO AllReduce: opCount 0 count 16 datatype 7 op 0 root 0"
    broken_twice = []
    for line in lines:
        cells = line.split()
        if len(cells) != 13 or not cells[0].isdigit():
            broken_twice.append(line)
            continue
        slow = f"{2 * float(cells[9]):8.2f} {float(cells[10]) / 2:7.2f} {float(cells[11]) / 2:7.2f}      0"
        broken_twice += [f"  {'   '.join(cells[:5])}{message}", message, f"    {'   '.join(cells[5:9])}{message}",
                         message, slow]  # fmt: skip
    found = read_log(log(text([prefix + line for line in broken_twice])))
    plain = read_log(log(text(lines), "plain.log"))
    assert [row.seconds for row in found.rows] == pytest.approx([1.5 * row.seconds for row in plain.rows])
    assert (places(found), found.skipped) == ({("all_reduce", 16, 8): 11}, {})


def test_numbers_that_are_not_the_rest_of_a_broken_row_are_not_joined(log):
    """The rest of another row: size over time is not its bandwidth."""
    lines = run("all_reduce", 1, 8)
    first = next(place for place, line in enumerate(lines) if line.split()[:1] == ["1048576"])
    end = lines[first].index("-1") + 2
    lines[first : first + 2] = [broken(lines[first], end)[0], lines[first + 1][end:], *lines[first + 1 : first + 2]]
    found = read_log(log(text(lines)))
    assert [row.size for row in found.rows] == [2**power for power in range(21, 31)]
    assert any("runs through 1 rows" in note for note in found.notes)


def out_of_place(lines):
    """Return a run without what was measured in place, its header left as it was."""
    return [" ".join(line.split()[:9]) if len(line.split()) == 13 and line.split()[0].isdigit() else line
            for line in lines]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected"), [("all_reduce", ("all_reduce", 16, 8)), ("alltoall", ("all_to_all", 16, 8))]
)
def test_one_side_where_the_header_has_two(log, kind, expected):
    lines = run(kind, 2, 8)
    plain = read_log(log(text(lines), "plain.log"))
    found = read_log(log(text(out_of_place(lines))))
    assert places(found) == {expected: 11}
    assert [row.seconds for row in found.rows] == [row.seconds for row in plain.rows]


def test_one_side_of_a_row_is_a_row_cut_off_where_others_have_both(log):
    lines = run("all_reduce", 1, 8)
    last = max(place for place, line in enumerate(lines) if line.split()[:1] == ["1073741824"])
    short = " ".join(lines[last].split()[:9])
    with pytest.raises(ConfigError, match="cut off in the middle of a row"):
        read_log(log(text([*lines[:last], short])))
    found = read_log(log(text([*lines[:last], short, *lines[last + 1 :]])))
    assert (len(found.rows), found.skipped["rows that other output runs through"]) == (10, 1)


@pytest.mark.parametrize(("name", "kind"), [
    ("alltoall_output.dat.1", "all_to_all"), ("nccl_alltoall.log", "all_to_all"), ("AllGather-16.txt", "all_gather"),
    ("small_reduce_scatter_perf.txt", "reduce_scatter"), ("n2-all-gather.log", "all_gather"),
])  # fmt: skip
def test_names_of_files_tell_the_collective_where_nothing_else_does(log, name, kind):
    """The columns of an all-gather and an all-to-all are the same."""
    program = {"all_to_all": "alltoall"}.get(kind, kind)
    found = read_log(log(text(run(program, 2, 8, named=False)), name))
    assert places(found) == {(kind, 16, 8): 11}


@pytest.mark.parametrize("name", ["run.log", "alltoallv_perf.log", "all_gather_and_alltoall.log", "small_gather.log"])
def test_names_of_files_that_tell_nothing(log, name):
    with pytest.raises(ConfigError, match="give --collective"):
        read_log(log(text(run("all_gather", 2, 8, named=False)), name))


def test_markdown_that_begins_with_brackets_is_no_json(log):
    content = "[](){#nccl}\n# A page\n```\n" + text(run("all_reduce", 1, 8)) + "```\n"
    assert places(read_log(log(content, "page.md"))) == {("all_reduce", 8, 8): 11}


def test_a_table_with_commas_that_a_script_made_of_the_rows(log):
    lines = run("all_reduce", 1, 8)
    plain = read_log(log(text(lines), "plain.log"))
    rows = [line.strip("#").split() for line in lines if "busbw" in line or "float" in line]
    found = read_log(log("".join(",".join(cells) + "\r\n" for cells in rows)))
    assert [(row.size, row.seconds, row.devices) for row in found.rows] == [
        (row.size, row.seconds, 8) for row in plain.rows
    ]


def test_processes_that_see_one_device_each_do_not_share_it(log):
    """All of them call it 0, and where it is the only one of its bus, that is [0x01] on every one (Grace Hopper)."""
    lines = [re.sub(r"device +\d+ \[[0-9a-f:]+\]", "device  0 [0x01]", line) for line in run("all_reduce", 2, 4)]
    found = read_log(log(text(lines)))
    assert (places(found), len(found.notes)) == ({("all_reduce", 8, 4): 11}, 1)


def test_what_is_left_out_is_said_in_a_sentence(log):
    found = read_log(log(text(run("all_reduce", 1, 8), run("broadcast", 1, 8, root=0), run("all_gather", 1, 1))))
    left = [note.partition("left out: ")[2] for note in found.notes if "left out: " in note]
    assert left[0].startswith("broadcast: such collectives have no timing")
    assert left[1].startswith("it is of one device")

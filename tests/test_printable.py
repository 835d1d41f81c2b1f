"""What is written is shown by a terminal, and not obeyed; what a spreadsheet would run can be marked as text."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from comp_comm.printable import CONTROL, as_data, visible, visible_bytes
from comp_comm.report import machine

INPUTS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "inputs"
STUDY = "cost_model: comp_vs_comm\nset: {seq_len: 4K, micro_batch: 1}\nsweep: {hidden: [1024, 2048], tp: [1, 2]}\n"
TITLE = "evil \x1b]0;pwn\x07 \x9b2J \u202e end"
PROFILE = """\
name: mine
title: a GPU
vendor: x
year: 2020
sources: {sheet: {text: "=HYPERLINK(1)", date: 2026-11-28}}
peak: {fp16: {value: 100 TFLOP/s, source: sheet}}
memory: {capacity: 8 GiB, bandwidth: 200 GB/s}
network: {host: {domain: 2, bandwidth: 10 GB/s}}
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(f"title: {json.dumps(TITLE)}\nplot: {{x: tp, y: step_s}}\n{STUDY}")
    return path


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand tabs", "na\u00efve \u4e2d\u6587 \U0001f600", ""])
def test_what_is_no_control_character_stays(text):
    assert visible(text) == text
    assert visible_bytes(text.encode()) == text.encode()


@pytest.mark.a_third
@pytest.mark.parametrize("number", [*range(9), 11, 12, 13, *range(14, 32), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028])
def test_every_control_character_is_an_escape(number):
    shown = visible(f"a{chr(number)}b")
    assert shown in (f"a\\x{number:02x}b", f"a\\u{number:04x}b")
    assert visible_bytes(f"a{chr(number)}b".encode()) == shown.encode()


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json", "jsonl"])
def test_titles_reach_neither_terminal_nor_file_as_they_are(compcomm, study, tmp_path, form):
    code, out, err = compcomm("sweep", study, "--format", form)
    assert code == 0
    assert not re.search(CONTROL, out + err)
    assert compcomm("sweep", study, "--format", form, "-o", tmp_path / "answer")[0] == 0
    written = (tmp_path / "answer").read_text(encoding="utf-8")
    assert not re.search(CONTROL, written)
    assert written == out
    if form in ("table", "markdown"):
        assert "evil \\x1b]0;pwn\\x07 \\x9b2J \\u202e end" in out
    if form == "json":
        assert json.loads(out)["meta"]["title"] == TITLE


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures_have_no_control_characters(compcomm, study, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    target = tmp_path / f"picture.{suffix}"
    assert compcomm("sweep", study, "-q", "--plot", target)[0] == 0
    if suffix == "svg":
        content = target.read_text(encoding="utf-8")
        assert not re.search(CONTROL, content)
        ElementTree.fromstring(content)


def test_keys_and_names_of_files_in_messages(compcomm, tmp_path):
    path = tmp_path / "s\x1b[31m.yaml"
    path.write_text(f'{STUDY}"hid\\e]0;pwn\\aden": 3\n')
    code, out, err = compcomm("sweep", path)
    assert (code, out) == (2, "")
    assert "hid\\x1b]0;pwn\\x07den: unknown key" in err
    assert "s\\x1b[31m.yaml" in err
    code, _, err = compcomm("calibrate", tmp_path / "no\x07thing.csv", "--extends", "h100-sxm")
    assert (code, "no\\x07thing.csv" in err) == (2, True)
    code, _, err = compcomm("sw\x1b[2Jeep")
    assert (code, "\x1b" in err) == (2, False)


@pytest.mark.skipif(not INPUTS.is_dir(), reason="the inputs of the project are not beside the checkout")
def test_the_input_of_the_project(compcomm):
    code, out, err = compcomm("sweep", INPUTS / "escape-in-key.yaml")
    assert (code, out) == (2, "")
    assert "hid\\x1b]0;pwn\\x07den: unknown key" in err


@pytest.mark.slow
def test_a_name_of_a_file_never_becomes_yaml(compcomm, tmp_path, monkeypatch):
    """A profile is called by its file, whatever that is called."""
    from comp_comm.configs.hardware_file import load_profile

    monkeypatch.chdir(tmp_path)
    sizes = [2**power for power in range(7, 13)]
    log = tmp_path / 'g"]: {x.csv'
    log.write_text("m,n,k,time_us\n" + "".join(f"{m},{n},4096,{9 + m * n / 1e5:.3f}\n" for m in sizes for n in sizes))
    for name in ('a: {b}"\\', "x\x85y\x1b", "a\nname: b"):
        target = tmp_path / f"{name}.yaml"
        assert compcomm("calibrate", log, "--extends", "h100-sxm", "-o", target)[0] == 0
        assert load_profile(str(target)).title == "NVIDIA H100 SXM5 80 GB, calibrated"


def test_formulas_are_marked_where_that_is_asked_for(compcomm, tmp_path):
    assert [as_data(cell) for cell in ("=1", "+1", "-1", "@x", "\t1", "tp", "", -1.5, None, True)] == [
        "'=1", "'+1", "'-1", "'@x", "'\t1", "tp", "", -1.5, None, True]  # fmt: skip
    profile = tmp_path / "mine.yaml"
    profile.write_text(PROFILE)
    plain, marked = (list(csv.reader(io.StringIO(compcomm("hardware", "show", profile, "--format", "csv", *more)[1])))
                     for more in ((), ("--spreadsheet",)))  # fmt: skip
    cells = [cell for row in plain for cell in row]
    assert "=HYPERLINK(1)" in cells
    assert [f"'{cell}" if cell.startswith("=") else cell for cell in cells] == [cell for row in marked for cell in row]


def test_marked_cells_of_rows_and_of_pieces(compcomm, study, tmp_path, monkeypatch):
    """The same bytes from one process and from workers; what was kept without marks is not gone on with."""
    study.write_text(study.read_text().replace("tp: [1, 2]", "tp: [1, 2], timing: [A, B]"))
    monkeypatch.setattr(machine, "as_data", lambda cell: f"<{cell}>" if isinstance(cell, str) else cell)
    code, out, _ = compcomm("sweep", study, "--format", "csv", "--spreadsheet", "-q")
    assert (code, "<" in out) == (0, True)
    for more in ((), ("--resume",)):
        assert compcomm("sweep", study, "-o", tmp_path / "rows.csv", "--spreadsheet", "-q", *more)[0] == 0
        assert (tmp_path / "rows.csv").read_text() == out
    assert "<" not in compcomm("sweep", study, "--format", "csv", "-q")[1]

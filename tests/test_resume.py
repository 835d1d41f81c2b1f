"""What is gone on with after a kill ends in the bytes of a run that nobody disturbed."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import computed, until

from comp_comm.cli.main import run
from comp_comm.sweeps import engine, ranking, resume
from comp_comm.sweeps.parallel import Piece
from comp_comm.version import __version__

MAIN = [sys.executable, "-m", "comp_comm"]
STUDY = """\
cost_model: comp_vs_comm
set: {micro_batch: 1, seq_len: 4K}
sweep:
  hidden: {from: 1024, to: 32768, step: 1024}
  tp: [1, 2, 3, 4, 8, 16, 32, 64]
  flop_vs_bw: {from: 1, to: 4, steps: 800}
"""
SMALL = STUDY.replace("steps: 800", "steps: 40")
TINY = SMALL.replace("to: 32768", "to: 4096")
SEARCH = ["search", "--model", "gpt3-175b", "--hardware", "a100-sxm-80gb", "--gpus", "[256,512]", "--global-batch",
          "512", "--top", "30", "--overlap-dp", "[off,on]", "--overlap-tp", "[off,on]", "--overlap-pp", "[off,on]",
          "--kernels", "[fused,eager]", "-q"]  # fmt: skip


@pytest.fixture
def study(tmp_path):
    def write(text=STUDY, name="study.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Do not wait for the disk: a process that ends loses nothing of what it has written, only a machine does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def small(study, monkeypatch):
    """A study of many small blocks, evaluated in this process."""
    monkeypatch.setattr(engine, "TILE_POINTS", 700)
    monkeypatch.setattr(ranking, "BOX_POINTS", 700)
    return study(SMALL)


def left(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".yaml")


# -- killed, again and again ------------------------------------------------------------------------------------------


def killed_until_done(arguments, chance, most, rounds=4):
    """Run a command, killing it after it has computed for random times, and then to its end; return how many kills.

    The first one comes as soon as something is kept, however fast the machine is.
    """
    killed = 0
    manifest = resume.manifest_path(Path(arguments[arguments.index("-o") + 1]))
    for attempt in range(rounds + 1):
        process = subprocess.Popen([*MAIN, *map(str, arguments)], stderr=subprocess.PIPE, start_new_session=True)
        moment = chance.uniform(0.2, most)
        if attempt == 0:
            until(manifest.exists, process)
        elif attempt < rounds:
            until(lambda: computed(process) > moment, process)  # noqa: B023 - of this round
        if attempt < rounds and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        _, err = process.communicate()
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, err.decode()
            return killed
    raise AssertionError("it never ended")


needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="it looks at /proc for what a process has computed")
TWO = ("--executor", "processes", "--jobs", "2")


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize(("name", "more"), [
    ("rows.csv", ()), ("rows.jsonl", TWO), ("rows.json", ("--columns", "tp,step_s")), ("rows.parquet", ()),
])  # fmt: skip
def test_a_killed_sweep_ends_in_the_same_bytes(study, tmp_path, name, more):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    whole, target = tmp_path / f"whole-{name}", tmp_path / name
    assert run(["sweep", study(), *map(str, more), "-o", str(whole)]) == 0
    chance = random.Random(name)
    call = ["sweep", tmp_path / "study.yaml", *more, "-o", target, "--resume"]
    assert killed_until_done(call, chance, 1.5) > 0
    assert target.read_bytes() == whole.read_bytes()
    assert left(tmp_path) == sorted([name, whole.name])


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("more", [(), TWO], ids=["one", "two"])
def test_a_killed_ranking_ends_in_the_same_bytes(study, tmp_path, monkeypatch, more):
    text = STUDY + "  seq_len: {from: 1, to: 600, step: 1}\n"
    path = study(text.replace(", seq_len: 4K", ""))
    call = ["sweep", path, "--top", "50", "--by", "step_s", "-q", *more]
    assert run([*map(str, call), "-o", str(tmp_path / "whole.json")]) == 0
    assert killed_until_done([*call, "-o", tmp_path / "best.json", "--resume"], random.Random(4), 3.5) > 0
    assert (tmp_path / "best.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert left(tmp_path) == ["best.json", "whole.json"]


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("more", [(), TWO], ids=["one", "two"])
def test_a_killed_search_ends_in_the_same_bytes(tmp_path, more):
    assert run([*SEARCH, *more, "-o", str(tmp_path / "whole.json")]) == 0
    call = [*SEARCH, *more, "-o", tmp_path / "found.json", "--resume"]
    assert killed_until_done(call, random.Random(8), 2.5) > 0
    assert (tmp_path / "found.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert left(tmp_path) == ["found.json", "whole.json"]


class StopError(Exception):
    """The power goes."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), [
    ("rows.csv", TINY), ("rows.json", TINY), ("rows.parquet", TINY),
    *(pytest.param(name, SMALL, marks=pytest.mark.slow) for name in ("rows.csv", "rows.json", "rows.parquet")),
])  # fmt: skip
def test_every_moment_of_writing_can_be_the_last(small, tmp_path, monkeypatch, name, text):
    """Stopped at each call to the disk in turn, with what was being written torn at a random byte."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    Path(small).write_text(text)
    whole, target, chance = tmp_path / f"whole-{name}", tmp_path / name, random.Random(1)
    assert run(["sweep", small, "-o", str(whole), "-q"]) == 0
    calls = {"left": 0}
    write_all, fsync, replace, unlink = resume._write_all, os.fsync, os.replace, Path.unlink

    def due():
        calls["left"] -= 1
        return calls["left"] < 0

    def torn(file, content):
        if due():
            file.write(content[: chance.randint(0, len(content))])
            raise StopError
        write_all(file, content)

    def stopping(function):
        def call(*arguments, **more):
            if due():
                raise StopError
            return function(*arguments, **more)

        return call

    moments = stopped = 0
    while True:
        for first in range(3):  # up to three stops, one after the other, before the run that ends
            calls["left"] = moments if first == 0 else chance.randint(0, 60)
            with monkeypatch.context() as patch:
                patch.setattr(resume, "_write_all", torn)
                patch.setattr(os, "fsync", stopping(fsync))
                patch.setattr(os, "replace", stopping(replace))
                patch.setattr(Path, "unlink", stopping(unlink))
                try:
                    assert run(["sweep", small, "-o", str(target), "--resume", "-q"]) == 0
                except StopError:
                    stopped += 1
                    continue
            break
        calls["left"] = 10**9
        assert run(["sweep", small, "-o", str(target), "--resume", "-q"]) == 0
        assert target.read_bytes() == whole.read_bytes()
        assert left(tmp_path) == sorted([name, whole.name])
        target.unlink()
        if not stopped:
            break
        moments, stopped = moments + chance.choice([1, 1, 7]), 0
    assert moments > (30 if text == SMALL else 8)


@pytest.mark.slow
def test_rows_reach_the_disk_before_the_line_that_counts_them(small, tmp_path, monkeypatch):
    """Where a machine ends, a line in the manifest may not be there before its rows are; nor the answer before all."""
    done = []
    write_all, replace = resume._write_all, os.replace
    names = {}

    def wrote(file, content):
        names[file.fileno()] = "line" if content.startswith(b"{") else "rows"
        done.append((names[file.fileno()], "written"))
        write_all(file, content)

    def renamed(source, target):
        done.append((Path(target).name, "renamed"))
        replace(source, target)

    monkeypatch.setattr(resume, "_write_all", wrote)
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append((names.get(descriptor, "folder"), "on disk")))
    monkeypatch.setattr(os, "replace", renamed)
    assert run(["sweep", small, "-o", str(tmp_path / "rows.csv"), "--resume", "-q"]) == 0
    end = done.index(("rows.csv", "renamed"))
    for number, (what, how) in enumerate(done[:end]):
        if how == "written":
            assert done[number + 1] == (what, "on disk")
    kinds = [what for what, how in done[:end] if how == "written"]
    lines = [number for number, kind in enumerate(kinds) if kind == "line"]
    assert len(lines) > 10
    assert all(kinds[number - 1] == "rows" for number in lines[1:])


# -- what is on the disk ----------------------------------------------------------------------------------------------


def half_done(study, target, monkeypatch, blocks=5):
    """Run a sweep that fails after so many blocks."""
    append, count = resume.RowFile.append, [0]

    def few(self, piece):
        count[0] += 1
        if count[0] > blocks:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, piece)

    with monkeypatch.context() as patch:
        patch.setattr(resume.RowFile, "append", few)
        assert run(["sweep", study, "-o", str(target), "--resume", "-q"]) == 2
    manifest = target.with_name(target.name + ".manifest")
    return target.with_name(f"{target.stem}.partial{target.suffix}"), manifest


@pytest.fixture
def begun(small, tmp_path, monkeypatch):
    """A sweep that is half done: its study, target, whole answer, partial file and manifest."""
    whole, target = tmp_path / "whole.csv", tmp_path / "rows.csv"
    assert run(["sweep", small, "-o", str(whole), "-q"]) == 0
    return small, target, whole.read_bytes(), *half_done(small, target, monkeypatch)


@pytest.mark.slow
def test_a_full_disk_is_one_message_and_gone_on_with(small, tmp_path, monkeypatch, capsys):
    target, whole = tmp_path / "rows.csv", tmp_path / "whole.csv"
    assert run(["sweep", small, "-o", str(whole), "-q"]) == 0
    write_all, written = resume._write_all, [0]

    def full(file, content):
        written[0] += len(content)
        if written[0] > 500_000:
            file.write(content[:1000])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(resume, "_write_all", full)
        assert run(["sweep", small, "-o", str(target), "--resume", "-q"]) == 2  # where all is slow, progress is shown
    assert capsys.readouterr().err == "Error: output: No space left on device\n"
    assert not target.exists()
    assert run(["sweep", small, "-o", str(target), "--resume"]) == 0
    assert "going on after" in capsys.readouterr().err
    assert target.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_the_manifest_tells_what_is_done(begun):
    _, _, whole, partial, manifest = begun
    first, *lines = map(json.loads, manifest.read_text().splitlines())
    assert {"study_sha256", "columns", "format", "version", "blocks"} <= set(first["identity"])
    assert [line["blocks"] for line in lines] == list(range(6))
    assert partial.stat().st_size == lines[-1]["bytes"]
    assert whole.startswith(partial.read_bytes())


def cut_lines(path, count):
    path.write_text("".join(path.read_text().splitlines(True)[:-count]))


DAMAGES = {
    "a torn last line of rows": lambda partial, manifest: partial.write_bytes(partial.read_bytes() + b"1024,4096,1,"),
    "rows without a line": lambda partial, manifest: cut_lines(manifest, 2),
    "a manifest cut short": lambda partial, manifest: manifest.write_bytes(manifest.read_bytes()[:-17]),
    "a manifest cut to its beginning": lambda partial, manifest: manifest.write_bytes(manifest.read_bytes()[:40]),
    "an empty manifest": lambda partial, manifest: manifest.write_bytes(b""),
    "no manifest": lambda partial, manifest: manifest.unlink(),
    "no rows": lambda partial, manifest: partial.unlink(),
    "rows that did not reach the disk": lambda partial, manifest: os.truncate(partial, 1000),
    "rows that were changed": lambda partial, manifest: partial.write_text(partial.read_text().replace("2048", "4096")),
    "a manifest with words in it": lambda partial, manifest: manifest.write_text(manifest.read_text() + "hello\n"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(begun, damage):
    study, target, whole, partial, manifest = begun
    DAMAGES[damage](partial, manifest)
    assert run(["sweep", study, "-o", str(target), "--resume", "-q"]) == 0
    assert target.read_bytes() == whole
    assert not partial.exists()
    assert not manifest.exists()


def test_done_blocks_are_not_made_again(begun, monkeypatch):
    study, target, whole, *_ = begun
    made, evaluate = [], engine.nth_rows
    monkeypatch.setattr("comp_comm.sweeps.parallel.nth_rows", lambda *a: made.append(a[2]) or evaluate(*a))
    assert run(["sweep", study, "-o", str(target), "--resume", "-q"]) == 0
    assert made[0] == 5
    assert target.read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize(("more", "said"), [
    (("--set", "micro_batch=2"), "the study's digest is"), (("--columns", "tp,step_s"), "columns is tp,step_s"),
    (("--spreadsheet",), "spreadsheet is True, was None"), (("--set", "tp=[1,2]"), "grid is 32,40,2"),
])  # fmt: skip
def test_another_run_is_refused(begun, more, said, capsys):
    study, target, _, partial, _ = begun
    before = partial.read_bytes()
    capsys.readouterr()
    assert run(["sweep", study, *more, "-o", str(target), "--resume", "-q"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "delete it to begin again" in err
    assert partial.read_bytes() == before


@pytest.mark.a_third
@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])  # what is above rows of JSON has the version, too
def test_another_version_is_refused(name, small, tmp_path, monkeypatch, capsys):
    half_done(small, tmp_path / name, monkeypatch)
    monkeypatch.setattr("comp_comm.sweeps.meta.__version__", "99.0")
    capsys.readouterr()
    assert run(["sweep", small, "-o", str(tmp_path / name), "--resume", "-q"]) == 2
    err = capsys.readouterr().err
    assert f"was begun by version {__version__} of compcomm, and this is 99.0" in err
    assert "give another -o FILE, or delete it" in err


@pytest.mark.slow
def test_another_title_is_refused_where_it_is_written(small, tmp_path, monkeypatch, capsys):
    half_done(small, tmp_path / "rows.json", monkeypatch)
    Path(small).write_text("title: another\n" + SMALL)
    assert run(["sweep", small, "-o", str(tmp_path / "rows.json"), "--resume", "-q"]) == 2
    assert "the title, or a note, above the rows is" in capsys.readouterr().err


def test_another_question_of_a_ranking_or_search_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(resume, "KEEP_SECONDS", 0)
    monkeypatch.setattr(resume.Checkpoint, "remove", lambda self: None)  # killed just before it
    best, found = str(tmp_path / "best.json"), str(tmp_path / "found.json")
    assert run(["sweep", "future", "--top", "3", "-o", best, "--resume", "-q"]) == 0
    assert run(["sweep", "future", "--top", "4", "-o", best, "--resume", "-q"]) == 2
    assert "top is 4, was 3" in capsys.readouterr().err
    call = [
        "search",
        "--model",
        "llama-3-8b",
        "--hardware",
        "h100-sxm",
        "--global-batch",
        "64",
        "-o",
        found,
        "--resume",
    ]
    assert run([*call, "--gpus", "8"]) == 0
    first = Path(found).read_bytes()
    assert run([*call, "--gpus", "8"]) == 0
    assert Path(found).read_bytes() == first
    assert run([*call, "--gpus", "16"]) == 2
    assert "gpus is 16, was 8" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_is_going_on_keeps_others_away(begun, capsys):
    pytest.importorskip("fcntl")
    study, target, *_, partial, _ = begun
    with resume._open_locked(partial):
        capsys.readouterr()
        assert run(["sweep", study, "-o", str(target), "--resume", "-q"]) == 2
        assert "another run is writing to it" in capsys.readouterr().err


def test_nothing_feasible_leaves_nothing(study, tmp_path, capsys):
    path = study("cost_model: comp_vs_comm\nset: {hidden: 1000, seq_len: 1K, micro_batch: 1}\nsweep: {tp: [3, 7]}\n")
    assert run(["sweep", path, "-o", str(tmp_path / "rows.csv"), "--resume", "-q"]) == 3
    assert left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX's")
def test_ctrl_c_is_gone_on_with(study, tmp_path):
    path, target, manifest = study(STUDY.replace("800", "9600")), tmp_path / "rows.csv", tmp_path / "rows.csv.manifest"
    process = subprocess.Popen([*MAIN, "sweep", path, "-o", str(target), "--resume"], stderr=subprocess.PIPE, text=True)
    assert until(lambda: manifest.exists() and manifest.read_bytes().count(b"\n") > 2, process)  # a block is done
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same call goes on with it" in err
    assert not target.exists()
    assert run(["sweep", path, "-o", str(target), "--resume", "-q"]) == 0
    assert run(["sweep", path, "-o", str(tmp_path / "whole.csv"), "-q"]) == 0
    assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize(("arguments", "said"), [
    (["sweep", "future", "--resume"], "--resume goes with -o FILE"),
    (["sweep", "future", "--resume", "-o", "rows.md"], "goes on with rows, not a markdown"),
    (["sweep", "future", "--resume", "-o", "rows.json", "--elapsed"], "--elapsed"),
    (["sweep", "future", "--resume", "-o", "/dev/null", "--format", "csv"], "--resume goes with -o FILE"),
    ([*SEARCH, "--resume"], "--resume goes with -o FILE"),
])  # fmt: skip
def test_what_cannot_be_gone_on_with_is_refused(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    assert said in capsys.readouterr().err
    assert left(tmp_path) == []


def test_a_piece_counts_when_its_line_is_there(tmp_path):
    target, partial = tmp_path / "a.csv", tmp_path / "a.partial.csv"
    rows = resume.RowFile(target, partial, {"of": "me"}, b"head\n")
    rows.append(Piece(b"one\n", 1, 1, 10))
    rows.close()
    again = resume.RowFile(target, partial, {"of": "me"}, b"head\n")
    assert (again.done.blocks, again.done.rows, again.done.bytes) == (1, 1, 9)
    again.finish(b"")
    assert target.read_bytes() == b"head\none\n"
    assert left(tmp_path) == ["a.csv"]


# -- Parquet ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parquet_holds_the_rows_and_the_meta_block(study, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = study(SMALL)
    assert run(["sweep", path, "-o", str(tmp_path / "rows.parquet"), "-q"]) == 0
    assert run(["sweep", path, "--format", "json", "-q"]) == 0
    answer = json.loads(capsys.readouterr().out)
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.to_pylist() == answer["rows"]
    assert json.loads(table.schema.metadata[b"compcomm"]) == answer["meta"]
    kinds = {name: str(table.schema.field(name).type) for name in ("tp", "step_s", "feasible", "reason")}
    assert kinds == {"tp": "int64", "step_s": "double", "feasible": "bool", "reason": "string"}


@pytest.mark.slow
def test_parquet_of_the_best_and_of_the_complete_model(study, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = study(
        "hardware: [h100-sxm, a100-sxm-80gb]\nmodel: llama-3-8b\nset: {gpus: 64, global_batch: 256, pp: 2}\n"
        "sweep: {tp: [1, 2, 3, 8], zero: [0, 1, 2], recompute: [none, full], precision: [bf16, fp8]}\n"
    )
    for more in ((), ("--top", "5"), ("--jobs", "1")):
        assert run(["sweep", path, *more, "-o", str(tmp_path / "rows.parquet"), "-q"]) == 0
        assert run(["sweep", path, *more, "--format", "json", "-q"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert parquet.read_table(tmp_path / "rows.parquet").to_pylist() == rows


def test_parquet_needs_its_extra_and_a_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(["sweep", "future", "-o", str(tmp_path / "rows.parquet")]) == 2
    assert "pip install 'compcomm[parquet]'" in capsys.readouterr().err
    monkeypatch.undo()
    pytest.importorskip("pyarrow")
    assert run(["sweep", "future", "--format", "parquet"]) == 2
    assert "-o FILE.parquet" in capsys.readouterr().err

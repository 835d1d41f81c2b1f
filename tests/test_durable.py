"""Whatever moment a run ends at, the answer that was there is there, or the new one: never neither, never half."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from comp_comm import durable
from comp_comm.cli.main import run
from comp_comm.sweeps import engine, ranking, resume

MAIN = [sys.executable, "-m", "comp_comm"]
SMALL = """\
cost_model: comp_vs_comm
set: {micro_batch: 1, seq_len: 4K}
sweep:
  hidden: {from: 1024, to: 3072, step: 1024}
  tp: [1, 2, 4, 8]
  flop_vs_bw: {from: 1, to: 4, steps: 12}
"""
OLD = b"the answer of last week\n"
posix = pytest.mark.skipif(os.name != "posix", reason="signals, locks and rights of POSIX")


class EndError(BaseException):
    """The process is killed here: nothing of it runs any more."""


class Disk:
    """A disk that forgets: calls are counted, and one of them is the last.

    ``power`` says that what was not synced is lost with the power: files go back to what they were when they were last
    synced, and names to what they were when their folder was.
    """

    def __init__(self, folder, monkeypatch, last, power=False, error=EndError, chance=None):
        self.folder, self.left, self.power, self.error = folder, last, power, error
        self.chance = chance or random.Random(last)
        self.names = {}  # what the disk says of each name: an identity
        self.contents = {}  # what the disk has of each identity: bytes
        self.calls = 0
        self.real = {name: getattr(os, name) for name in ("fsync", "replace", "unlink", "rename")}
        self.write_all = durable.write_all
        self.note_all()
        monkeypatch.setattr(durable, "write_all", self.written)
        monkeypatch.setattr(resume, "_write_all", self.written)
        monkeypatch.setattr(os, "fsync", self.synced)
        monkeypatch.setattr(os, "replace", self.stopping(self.real["replace"]))
        monkeypatch.setattr(os, "unlink", self.stopping(self.real["unlink"]))
        unlink = Path.unlink
        monkeypatch.setattr(Path, "unlink", self.stopping(unlink))

    def note_all(self):
        for path in self.folder.iterdir():
            if path.is_file() and not path.is_symlink():
                self.names[path.name] = path.stat().st_ino
                self.contents[path.stat().st_ino] = path.read_bytes()

    def due(self):
        self.calls += 1
        self.left -= 1
        if self.left == 0:
            raise self.error
        return self.left < 0 and self.error is EndError

    def stopping(self, function):
        def call(*arguments, **more):
            if self.due():
                raise self.error  # a killed process removes nothing either
            return function(*arguments, **more)

        return call

    def written(self, file, content):
        self.calls += 1
        self.left -= 1
        if self.left == 0 or (self.left < 0 and self.error is EndError):
            if self.left == 0:
                file.write(content[: self.chance.randint(0, len(content))])
            raise self.error
        self.write_all(file, content)

    def synced(self, handle):
        if self.due():
            raise self.error
        self.real["fsync"](handle)
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            self.names = {path.name: path.stat().st_ino for path in self.folder.iterdir()
                          if path.is_file() and not path.is_symlink()}  # fmt: skip
        else:
            size = about.st_size
            self.contents[about.st_ino] = os.pread(handle, size, 0) if size else b""

    def lose(self):
        """Lose what was not synced; some of it may have reached the disk all the same."""
        if not self.power:
            return
        there = {path.name: path for path in self.folder.iterdir() if path.is_file() and not path.is_symlink()}
        now = {name: path.stat().st_ino for name, path in there.items()}
        data = {path.stat().st_ino: path.read_bytes() for path in there.values()}
        kept = {name: self.chance.choice([now.get(name), self.names.get(name)]) for name in {*now, *self.names}}
        for path in there.values():
            self.real["unlink"](path)
        for name, number in kept.items():
            if number is None:
                continue
            content = self.contents.get(number, b"")
            if number in data and self.chance.random() < 0.5:  # it reached the disk, or a part of it did
                content = data[number][: self.chance.randint(len(content), max(len(data[number]), len(content)))]
            (self.folder / name).write_bytes(content)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A study of some small blocks, evaluated in this process, and its folder of answers."""
    monkeypatch.setattr(engine, "TILE_POINTS", 40)
    monkeypatch.setattr(ranking, "BOX_POINTS", 40)
    monkeypatch.setattr(resume, "KEEP_SECONDS", 0)
    path = tmp_path / "study.yaml"
    path.write_text(SMALL)
    folder = tmp_path / "answers"
    folder.mkdir()
    return str(path), folder


def fresh(folder, old, link):
    """Begin with an empty folder: with an old answer, and a link to where it is."""
    shutil.rmtree(folder)
    folder.mkdir()
    if old:
        (folder / "rows").write_bytes(OLD)
    if link:
        (folder / "link").symlink_to("rows")


CALLS = {
    "rows": ["sweep", "STUDY", "--format", "csv"], "resumed": ["sweep", "STUDY", "--format", "csv", "--resume"],
    "json": ["sweep", "STUDY", "--format", "json", "--resume"],
    "best": ["sweep", "STUDY", "--format", "json", "--top", "5", "--by", "step_s", "--resume"],
    "parquet": ["sweep", "STUDY", "--format", "parquet"],
    "parquet-resumed": ["sweep", "STUDY", "--format", "parquet", "--resume"],
}  # fmt: skip


def call_of(kind, study, target):
    if "parquet" in kind:
        pytest.importorskip("pyarrow")
    return [study if part == "STUDY" else part for part in CALLS[kind]] + ["-q", "-o", str(target)]


LINKED = ("rows", "resumed", "best")
ENDS = [(kind, old, link, power) for kind in CALLS
        for old, link, power in ((False, False, False), (True, False, False), (True, False, True), (True, True, False))
        if not link or kind in LINKED]  # fmt: skip


@pytest.mark.slow
@posix
@pytest.mark.parametrize(("kind", "old", "link", "power"), ENDS)
def test_the_old_answer_or_the_new_one_at_every_call_to_the_disk(small, monkeypatch, kind, old, link, power):
    """Ended at each call in turn; then the same call once more, to its end."""
    study, folder = small
    target = folder / ("link" if link else "rows")
    fresh(folder, False, False)
    assert run(call_of(kind, study, folder / "rows")) == 0
    new = (folder / "rows").read_bytes()
    last, moments = 0, 0
    while True:
        last += 1 if last < 30 else 4
        fresh(folder, old, link)
        with monkeypatch.context() as patch:
            disk = Disk(folder, patch, last, power)
            try:
                ended = run(call_of(kind, study, target)) == 0 and disk.left > 0
            except EndError:
                ended = False
            if disk.left <= 0:
                disk.lose()
        found = (folder / "rows").read_bytes() if (folder / "rows").exists() else None
        assert found in ((OLD if old else None), new), last
        assert link is (folder / "link").is_symlink()
        if ended:
            break
        moments += 1
        assert run(call_of(kind, study, target)) == 0
        assert (folder / "rows").read_bytes() == new, last
        names = {path.name for path in folder.iterdir()}
        assert names <= {"rows", "rows.partial", *(["link"] if link else [])}, (last, names)
    assert moments >= 4


@pytest.mark.slow
@posix
@pytest.mark.parametrize(("kind", "link"), [*((kind, False) for kind in CALLS), ("rows", True), ("resumed", True)])
def test_ctrl_c_at_every_call_to_the_disk(small, monkeypatch, kind, link):
    """KeyboardInterrupt out of each call in turn: 130, what was there stays, and what is left is cleared away."""
    study, folder = small
    target = folder / ("link" if link else "rows")
    fresh(folder, False, False)
    assert run(call_of(kind, study, folder / "rows")) == 0
    new, last, moments = (folder / "rows").read_bytes(), 0, 0
    while True:
        last += 1
        fresh(folder, True, link)
        with monkeypatch.context() as patch:
            disk = Disk(folder, patch, last, error=KeyboardInterrupt)
            code = run(call_of(kind, study, target))
        assert (folder / "rows").read_bytes() in (OLD, new)
        assert link is (folder / "link").is_symlink()
        if disk.left > 0:
            break
        assert code == 130
        moments += 1
    assert moments >= 4
    assert run(call_of(kind, study, target)) == 0
    assert (folder / "rows").read_bytes() == new


# -- Ctrl-C, as a user presses it -------------------------------------------------------------------------------------

LONG = """\
cost_model: comp_vs_comm
set: {micro_batch: 1, seq_len: 4K}
sweep:
  hidden: {from: 1024, to: 65536, step: 64}
  tp: [1, 2, 4, 8, 16, 32, 64]
  flop_vs_bw: {from: 1, to: 4, steps: 1000}
"""


def interrupted(arguments, folder, after=1.0):
    """Press Ctrl-C once a file beside the answer has been there for a while."""
    process = subprocess.Popen([*MAIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if any(path.name.startswith(".") or "manifest" in path.name for path in folder.iterdir()):
            break
        time.sleep(0.05)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@posix
@pytest.mark.slow
@pytest.mark.parametrize("link", [False, True], ids=["plain", "link"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_an_interrupted_answer_lies_beside_the_old_one(tmp_path, name, link):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    study, real, there = tmp_path / "study.yaml", tmp_path / "real", tmp_path / "there"
    study.write_text(LONG)
    real.mkdir()
    there.mkdir()
    target = real / name
    target.write_bytes(OLD)
    if link:
        (there / name).symlink_to(target)
    code, err = interrupted(["sweep", study, "-q", "-o", there / name if link else target], real)
    assert code == 130, err
    assert target.read_bytes() == OLD
    partial = target.with_name(target.name.replace(".", ".partial.", 1))
    assert partial.stat().st_size > 1000
    assert str(partial) in err
    assert sorted(path.name for path in real.iterdir()) == sorted([name, partial.name])
    study.write_text(SMALL)
    assert run(["sweep", str(study), "-q", "-o", str(target)]) == 0
    assert sorted(path.name for path in real.iterdir()) == [name]  # what was interrupted is no longer needed


@pytest.mark.slow
@posix
def test_a_second_ctrl_c_leaves_what_was_there(tmp_path):
    study, target = tmp_path / "study.yaml", tmp_path / "rows.csv"
    study.write_text(LONG)
    target.write_bytes(OLD)
    process = subprocess.Popen([*MAIN, "sweep", str(study), "-o", str(target)], stderr=subprocess.PIPE)
    time.sleep(2.0)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert target.read_bytes() == OLD


@pytest.mark.slow
@posix
def test_killed_runs_leave_nothing_that_stays(tmp_path):
    """What a killed run was writing is removed by the next one, and what another run is writing is not."""
    study, target = tmp_path / "study.yaml", tmp_path / "rows.csv"
    study.write_text(LONG)
    for _ in range(2):
        process = subprocess.Popen([*MAIN, "sweep", str(study), "-q", "-o", str(target)])
        while not any(path.name.startswith(".rows.csv") for path in tmp_path.iterdir()):
            time.sleep(0.02)
        process.kill()
        process.wait()
    study.write_text(SMALL)
    with durable.replacement(target) as other:
        assert run(["sweep", str(study), "-q", "-o", str(target)]) == 0
        assert other.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "study.yaml"]


# -- rights, links, locks ---------------------------------------------------------------------------------------------


@pytest.mark.a_third
@posix
@pytest.mark.parametrize("more", [[], ["--resume"], ["--top", "3", "--resume"]])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_rights_are_those_of_the_file_that_was_there(small, mode, more):
    study, folder = small
    target = folder / "rows.csv"
    target.write_bytes(OLD)
    target.chmod(mode)
    assert run(["sweep", study, "-q", "-o", str(target), *more]) == 0
    assert (stat.S_IMODE(target.stat().st_mode), target.read_bytes() != OLD) == (mode, True)


@posix
def test_rights_of_what_is_being_made_are_not_wider(small, monkeypatch):
    """A partial file of an answer that only its owner reads is no way around that."""
    study, folder = small
    target, seen = folder / "rows.csv", []
    target.write_bytes(OLD)
    target.chmod(0o600)
    append = resume.RowFile.append
    monkeypatch.setattr(resume.RowFile, "append", lambda self, piece: (
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()), append(self, piece)))  # fmt: skip
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 0
    assert set(seen) == {0o600}


@posix
@pytest.mark.parametrize("name", ["rows.partial.csv", "rows.csv.manifest"])
@pytest.mark.parametrize("more", [["--resume"], ["--top", "3", "--resume"]])
def test_links_at_our_own_names_are_not_followed(small, name, more, capsys):
    study, folder = small
    precious = folder / "precious"
    precious.write_bytes(OLD)
    (folder / name).symlink_to(precious)
    code = run(["sweep", study, "-q", "-o", str(folder / "rows.csv"), *more])
    if name == "rows.partial.csv" and "--top" in more:
        assert code == 0  # a ranking has no partial file
    else:
        assert (code, "is a symbolic link, which is not followed" in capsys.readouterr().err) == (2, True)
    assert precious.read_bytes() == OLD
    assert (folder / name).is_symlink()


@posix
def test_an_interrupted_answer_does_not_go_through_a_link(small, monkeypatch):
    study, folder = small
    precious, target = folder / "precious", folder / "rows.csv"
    precious.write_bytes(OLD)
    (folder / "rows.partial.csv").symlink_to(precious)
    monkeypatch.setattr("comp_comm.cli.options.Progress.__call__", lambda self, points: True)
    assert run(["sweep", study, "-q", "-o", str(target)]) == 130
    assert precious.read_bytes() == OLD
    assert (folder / "rows.partial.csv").read_text().startswith("hidden,")
    assert not (folder / "rows.partial.csv").is_symlink()


@posix
@pytest.mark.parametrize("more", [["-o", "LOOP"], ["-o", "LOOP", "--resume"], ["-o", "LOOP/rows.csv"]])
def test_a_link_to_itself_is_one_message(small, more, capsys):
    study, folder = small
    (folder / "a.csv").symlink_to(folder / "b.csv")
    (folder / "b.csv").symlink_to(folder / "a.csv")
    assert run(["sweep", study, *(part.replace("LOOP", str(folder / "a.csv")) for part in more)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@posix
def test_two_rankings_on_one_file_see_each_other(small, monkeypatch, capsys):
    study, folder = small
    target = folder / "best.json"
    kept = resume.Checkpoint(target, {"of": "another"})
    call = ["sweep", study, "-q", "--top", "3", "-o", str(target), "--resume"]
    assert run(call) == 2
    assert "another run is writing to it" in capsys.readouterr().err
    kept.keep(lambda: {"boxes": 1}, now=True)  # it is another file now, and still locked
    assert run(call) == 2
    assert "another run is writing to it" in capsys.readouterr().err
    kept.remove()
    assert run(call) == 0
    assert [path.name for path in folder.iterdir()] == ["best.json"]


@posix
def test_a_ranking_and_rows_on_one_file_see_each_other(small, capsys):
    study, folder = small
    target = folder / "rows.csv"
    kept = resume.Checkpoint(target, {"of": "another"})
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 2
    assert "another run is writing to it" in capsys.readouterr().err
    kept.close()
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 0


@posix
def test_what_begins_nothing_leaves_nothing(small, capsys):
    """A question that cannot be answered, on a file that is not there yet."""
    study, folder = small
    Path(study).write_text(SMALL.replace("hidden: {from: 1024, to: 3072, step: 1024}", "hidden: [1000]").replace(
        "tp: [1, 2, 4, 8]", "tp: [3, 7]"))  # fmt: skip
    for more in (["--resume"], ["--top", "3", "--resume"], []):
        assert run(["sweep", study, "-q", "-o", str(folder / "rows.csv"), *more]) == 3
        assert list(folder.iterdir()) == []


# -- what is on the disk ----------------------------------------------------------------------------------------------


@pytest.fixture
def begun(small, monkeypatch):
    """Rows that are half done: study, target, what the whole answer is, partial file, manifest."""
    study, folder = small
    target = folder / "rows.csv"
    assert run(["sweep", study, "-q", "-o", str(target)]) == 0
    new = target.read_bytes()
    target.unlink()
    append, count = resume.RowFile.append, [0]

    def few(self, piece):
        count[0] += 1
        if count[0] > 2:
            raise EndError
        append(self, piece)

    with monkeypatch.context() as patch, contextlib.suppress(EndError):
        patch.setattr(resume.RowFile, "append", few)
        run(["sweep", study, "-q", "-o", str(target), "--resume"])
    return study, target, new, folder / "rows.partial.csv", folder / "rows.csv.manifest"


def test_a_changed_heading_is_made_again_and_leaves_no_hole(begun):
    study, target, new, partial, _ = begun
    partial.write_bytes(partial.read_bytes().replace(b"hidden,", b"HIDDEN,", 1))
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 0
    assert target.read_bytes() == new


def tampered(manifest, change):
    first, *lines = map(json.loads, manifest.read_text().splitlines())
    manifest.write_text("".join(json.dumps(line) + "\n" for line in [first, *change(lines)]))


CHANGES = {
    "words": lambda lines: [{**line, "bytes": "many"} for line in lines],
    "lists": lambda lines: [{**line, "crc32": [1]} for line in lines],
    "nothing": lambda lines: [{**line, "rows": None} for line in lines],
    "less than nothing": lambda lines: [{**line, "bytes": -1} for line in lines],
    "too much": lambda lines: [{**line, "bytes": 10**30} for line in lines],
    "floats": lambda lines: [{**line, "blocks": float(line["blocks"])} for line in lines],
    "truth": lambda lines: [{**line, "blocks": bool(line["blocks"])} for line in lines],
    "other keys": lambda lines: [{"a": 1} for _ in lines],
    "backwards": lambda lines: lines[::-1],
    "twice": lambda lines: [*lines, *lines],
    "finished": lambda lines: [*lines, {"finished": True, "size": 5, "crc32": 7}],
    "finished with words": lambda lines: [*lines, {"finished": "yes"}],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_that_was_tampered_with_is_made_again(begun, change):
    study, target, new, _, manifest = begun
    tampered(manifest, CHANGES[change])
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 0
    assert target.read_bytes() == new


@pytest.mark.a_third
@pytest.mark.parametrize("content", [
    b"my notes\n", b"[1, 2]\n", b"\xff\xfe\x00", b'{"study": 1}\n', b'{"identity": 5}\n' + b"x" * 50,
    b'{"identity": {"version": [1, {"a": 2}]}}\n', b'{"identity": ' + b"[" * 100_000,
    b'{"identity": {"a": ' + b"9" * 6000 + b"}}\n",
])  # fmt: skip
def test_what_is_no_manifest_is_left_alone(begun, content, capsys):
    study, target, new, _, manifest = begun
    manifest.write_bytes(content)
    code = run(["sweep", study, "-q", "-o", str(target), "--resume"])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    if code == 0:  # torn in its first line, which is ours
        assert target.read_bytes() == new
    else:
        assert (code, manifest.read_bytes()) == (2, content)
        assert "is no manifest of an interrupted run" in err or "is of another run" in err


def test_an_old_answer_does_not_pass_for_a_finished_one(begun):
    """All that led to the new answer was done, but for its taking its place; then its file was removed by hand."""
    study, target, new, partial, manifest = begun
    target.write_bytes(OLD)
    tampered(manifest, lambda lines: [*lines, {"finished": True, "size": len(new), "crc32": 1}])
    partial.unlink()
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 0
    assert target.read_bytes() == new


@pytest.mark.a_third
@pytest.mark.parametrize("change", [
    lambda state: {**state, "boxes": "many"}, lambda state: {"a": 1}, lambda state: {**state, "values": "!"},
    lambda state: [state], lambda state: None, lambda state: {**state, "boxes": state["boxes"] + 1},
])  # fmt: skip
def test_a_state_that_was_tampered_with_is_begun_again(small, monkeypatch, change):
    study, folder = small
    target = folder / "best.json"
    call = ["sweep", study, "-q", "--top", "5", "--by", "step_s", "-o", str(target)]
    assert run(call) == 0
    new = target.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(resume.Checkpoint, "remove", lambda self: None)
        assert run([*call, "--resume"]) == 0
    manifest = folder / "best.json.manifest"
    first, line = map(json.loads, manifest.read_text().splitlines())
    manifest.write_text(json.dumps(first) + "\n" + json.dumps({**line, "state": change(line["state"])}) + "\n")
    assert run([*call, "--resume"]) == 0
    assert target.read_bytes() == new
    assert not manifest.exists()


@posix
def test_a_removed_partial_file_of_a_run_that_goes_on_elsewhere_stays(begun):
    """A plain run on the same file does not clear away what --resume can go on with."""
    study, target, new, partial, manifest = begun
    assert run(["sweep", study, "-q", "-o", str(target)]) == 0
    assert partial.exists()
    assert manifest.exists()
    assert run(["sweep", study, "-q", "-o", str(target), "--resume"]) == 0
    assert (target.read_bytes(), partial.exists(), manifest.exists()) == (new, False, False)

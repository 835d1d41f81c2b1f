"""No log, trace, table, manifest or title, whatever is in it, is a traceback, takes long, or takes the machine down.

Cases are drawn from seeds that are kept (``derandomize``): the same ones each time. A few hundred are drawn in each run
of the tests, ten thousand in the slow part: ``pytest -m slow``.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import resource
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from comp_comm.calibration.measurements import CollectiveRow, KernelTime
from comp_comm.calibration.readers import read_log
from comp_comm.calibration.readers.comms_logger import read_summary
from comp_comm.calibration.readers.text import open_source
from comp_comm.calibration.samples import make_samples
from comp_comm.cli.main import run
from comp_comm.errors import CompcommError
from comp_comm.printable import CONTROL
from comp_comm.sweeps import engine, ranking, resume

from .seeds import EVENTS, NASTY, SEEDS

LONGEST = 5.0  # seconds
MOST_MEMORY = 500 * 2**20
FEW = {"derandomize": True, "deadline": None, "max_examples": 150, "print_blob": True,
       "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}  # fmt: skip
MANY = {**FEW, "max_examples": 3000}
SOME = {**FEW, "max_examples": 500}


@st.composite
def mutated(draw, seeds=SEEDS):
    """Return a seed with some of it replaced, left out, doubled, or taken from another."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.sampled_from((0, 0, 1, 2, 5, 40, 400))))
        kind = draw(st.sampled_from(("put", "word", "word", "cut", "double", "other", "lines", "end")))
        if kind == "put":
            text = text[:begin] + draw(st.sampled_from(NASTY)) + text[end:]
        elif kind == "word":
            words = re.split(r"([\s,;:\"]+)", text)
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(NASTY))
            text = "".join(words)
        elif kind == "cut":
            text = text[:begin] + text[end:]
        elif kind == "double":
            text = text[:end] + text[begin:]
        elif kind == "other":
            other = draw(st.sampled_from(SEEDS))
            text = text[:begin] + other[draw(st.integers(0, len(other))) :] + text[end:]
        elif kind == "lines":
            lines = text.splitlines(keepends=True) or [""]
            draw(st.randoms(use_true_random=False)).shuffle(lines)
            text = "".join(lines)
        else:
            text = text[:begin]
    return text


def packed(text, how):
    content = text.encode("utf-8", "surrogatepass")
    return {"plain": content, "gzip": gzip.compress(content, mtime=0), "utf-16": text.encode("utf-16", "replace"),
            "cut gzip": gzip.compress(content, mtime=0)[:-9], "bytes": content[::-1]}[how]  # fmt: skip


WAYS = st.sampled_from(("plain", "plain", "plain", "plain", "gzip", "utf-16", "cut gzip", "bytes"))


class Bounded:
    """Fails where what is within takes long, or much memory."""

    def __enter__(self):
        self.begin, self.before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __exit__(self, kind, *_):
        if kind is None:
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.before) * 1024
            assert time.monotonic() - self.begin < LONGEST
            assert grown < MOST_MEMORY


def check_message(error):
    """Fail where an error is not a few lines for a person."""
    assert 0 < len(str(error)) < 20_000
    assert "Traceback" not in str(error)


def read_anything(path):
    """Read a file with every reader; what is read is whole, what is not has a reason."""
    with Bounded():
        try:
            found = read_log(path)
        except CompcommError as error:
            check_message(error)
        else:
            assert found.rows
            assert all(row.seconds > 0 and math.isfinite(row.seconds) for row in found.rows)
            assert all(row.devices > 1 and row.size > 0 for row in found.rows if isinstance(row, CollectiveRow))
            assert all(math.isfinite(seconds) for seconds in found.totals.values())
            if not all(isinstance(row, KernelTime) for row in found.rows):
                predict(found)
        try:
            rows = read_summary(open_source(path), path, 8)
        except CompcommError as error:
            check_message(error)
        else:
            assert all(row["calls"] >= 0 and math.isfinite(row["message_bytes"]) for row in rows)


def predict(found):
    try:
        samples, _ = make_samples(found.rows, "bf16", 8)
    except CompcommError as error:
        check_message(error)
        return
    assert all(len(sample.seconds) == len(sample.fitted) for sample in samples)


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "log"
        path.write_bytes(content)
        return str(path)

    return write


@given(mutated(), WAYS)
@settings(**{**FEW, "max_examples": 50})
def test_a_few_mutated_logs(file, text, how):
    read_anything(file(packed(text, how)))


@pytest.mark.slow
@given(mutated(), WAYS)
@example("\n" * 4000 + SEEDS[0], "plain")
@example('{"traceEvents": [' + "[" * 5000, "plain")
@example(SEEDS[0].replace("25.59      0", "1e308      0"), "plain")
@settings(**{**MANY, "max_examples": 6000})
def test_mutated_logs(file, text, how):
    read_anything(file(packed(text, how)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=8)
    | st.sampled_from([*NASTY[:20], 0, 1, 5, 8, 11, 64]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.sampled_from((
    "ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "External id", "correlation", "Input Dims", "Input type",
    "Concrete Inputs", "Collective name", "In msg nelems", "Group size", "dtype",
))  # fmt: skip


@st.composite
def traces(draw):
    """Return events of which some members are anything."""
    events = [json.loads(json.dumps(event)) for event in EVENTS]
    for _ in range(draw(st.integers(1, 5))):
        event = draw(st.sampled_from(events))
        key, value = draw(KEYS), draw(VALUES)
        place = event["args"] if draw(st.booleans()) and isinstance(event.get("args"), dict) else event
        place[key] = value
    return json.dumps(draw(st.sampled_from(({"traceEvents": events}, events, {"a": events[0], "traceEvents": events}))))


@pytest.mark.slow
@given(traces())
@settings(**FEW)
def test_a_few_traces_of_anything(file, text):
    read_anything(file(text.encode()))


@pytest.mark.slow
@given(traces())
@settings(**MANY)
def test_traces_of_anything(file, text):
    read_anything(file(text.encode()))


def commands(path, out):
    """Return what a user may run on a log."""
    sizes = "hidden=1024,seq_len=512,micro_batch=4,tp=2"
    return (["calibrate", "--check", path, "--hardware", "h100-sxm", "--format", "json"],
            ["project", path, "--baseline", sizes, "--hidden", "2048", "--format", "csv"],
            ["project", path], ["volume", "llama-step", "--log", path, "--format", "csv", "-o", out])  # fmt: skip


def run_anything(capfd, path, out):
    for arguments in commands(path, out):
        with Bounded():
            code = run(arguments)
        shown, err = capfd.readouterr()
        assert code in (0, 2), arguments
        assert "Traceback" not in err
        assert "nan" not in shown.lower().replace("nano", "")
        assert not re.search(CONTROL, shown + err)
        assert (code == 0) or shown == ""


@given(mutated(), WAYS)
@settings(**{**FEW, "max_examples": 8})
def test_a_few_commands_on_mutated_logs(file, tmp_path, capfd, text, how):
    run_anything(capfd, file(packed(text, how)), str(tmp_path / "out.csv"))


@pytest.mark.slow
@given(mutated(), WAYS)
@settings(**SOME)
def test_commands_on_mutated_logs(file, tmp_path, capfd, text, how):
    run_anything(capfd, file(packed(text, how)), str(tmp_path / "out.csv"))


# -- the side that writes ---------------------------------------------------------------------------------------------

STUDY = "cost_model: comp_vs_comm\nset: {seq_len: 4K, micro_batch: 1}\nsweep: {hidden: [1024, 2048], tp: [1, 2, 4]}\n"
TITLES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\x1b]0;pwn\x07", "\x9b2J", "\x85", "\u202egnp.exe", "=cmd|' /C calc'!A0", "a\nb", "-1+1", "@x", "\t", "\r\n"]
)
FORMS = st.sampled_from(("table", "markdown", "csv", "json", "jsonl"))


def write_anything(capfd, tmp_path, title, form, key):
    study = tmp_path / "study.yaml"
    study.write_text(f"title: {json.dumps(title)}\n{STUDY}" + (f"{json.dumps(title)}: 3\n" if key else ""))
    for more in ([], ["-o", str(tmp_path / "answer")], ["--long"]):
        with Bounded():
            code = run(["sweep", str(study), "--format", form, "-q", *more])
        shown, err = capfd.readouterr()
        assert code in (0, 2)
        assert "Traceback" not in err
        assert not re.search(CONTROL, shown + err)
        if code == 0 and more[:1] == ["-o"]:
            assert not re.search(CONTROL, (tmp_path / "answer").read_text(encoding="utf-8"))


@pytest.mark.slow
@given(TITLES, FORMS, st.booleans())
@settings(**{**FEW, "max_examples": 60})
def test_a_few_titles_and_keys_of_anything(capfd, tmp_path, title, form, key):
    write_anything(capfd, tmp_path, title, form, key)


@pytest.mark.slow
@given(TITLES, FORMS, st.booleans())
@settings(**SOME)
def test_titles_and_keys_of_anything(capfd, tmp_path, title, form, key):
    write_anything(capfd, tmp_path, title, form, key)


@pytest.fixture
def half_done(tmp_path, monkeypatch):
    """What a killed sweep left: study, target, the whole answer, and bytes of its partial file and its manifest."""
    monkeypatch.setattr(engine, "TILE_POINTS", 2)
    monkeypatch.setattr(ranking, "BOX_POINTS", 2)
    study, target = tmp_path / "study.yaml", tmp_path / "rows.csv"
    study.write_text(STUDY)
    assert run(["sweep", str(study), "-q", "-o", str(target)]) == 0
    answer = target.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(resume.RowFile, "finish", lambda self, ending, assemble: None)
        assert run(["sweep", str(study), "-q", "-o", str(target), "--resume"]) == 0
    partial, manifest = tmp_path / "rows.partial.csv", tmp_path / "rows.csv.manifest"
    return study, target, answer, (partial, partial.read_bytes()), (manifest, manifest.read_bytes())


@st.composite
def damages(draw):
    """Return how to change a file: what of it is replaced by what."""
    change = st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(NASTY))
    return draw(st.lists(change, min_size=1, max_size=3))


def damaged(content, changes):
    for place, length, new in changes:
        begin = int(place * len(content))
        content = content[:begin] + new.encode("utf-8", "surrogatepass") + content[begin + length :]
    return content


def go_on_from_anything(half_done, capfd, changes, which):
    study, target, answer, (partial, rows), (manifest, lines) = half_done
    partial.write_bytes(damaged(rows, changes) if which != "manifest" else rows)
    manifest.write_bytes(damaged(lines, changes) if which != "rows" else lines)
    target.write_bytes(b"old")
    with Bounded():
        code = run(["sweep", str(study), "-q", "-o", str(target), "--resume"])
    _, err = capfd.readouterr()
    assert "Traceback" not in err
    assert (code, target.read_bytes()) in ((0, answer), (2, b"old"))


@pytest.mark.slow
@given(damages(), st.sampled_from(("rows", "manifest", "both")))
@settings(**FEW)
def test_a_few_damages_of_what_is_gone_on_with(half_done, capfd, changes, which):
    go_on_from_anything(half_done, capfd, changes, which)


@pytest.mark.slow
@given(damages(), st.sampled_from(("rows", "manifest", "both")))
@settings(**{**FEW, "max_examples": 1500})
def test_damages_of_what_is_gone_on_with(half_done, capfd, changes, which):
    go_on_from_anything(half_done, capfd, changes, which)

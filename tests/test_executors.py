"""Many workers give what one gives, to the last byte: processes, threads, a Dask cluster, MPI ranks."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from waiting import PATIENCE, children, rest_of, runs, said, until

from comp_comm.cli.main import run
from comp_comm.configs.study import study_from
from comp_comm.errors import CompcommError, ConfigError, MissingExtraError
from comp_comm.searches import partition, search
from comp_comm.searches.near_optimal import NearOptimal
from comp_comm.searches.pareto_front import ParetoFront
from comp_comm.sweeps import engine, executors, parallel, ranking
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import stream_rows, sweep

STUDY = """\
cost_model: comp_vs_comm
set: {micro_batch: 1, seq_len: 4K}
sweep:
  hidden: {from: 1024, to: 65536, step: 3072}
  tp: [1, 2, 3, 4, 8, 16, 32, 64]
  flop_vs_bw: {from: 1, to: 4, steps: 750}
"""
LONG = STUDY.replace("seq_len: 4K", "precision: fp16") + "  seq_len: {from: 1, to: 100000, step: 1}\n"
MAIN = [sys.executable, "-m", "comp_comm"]
TWO = ("--executor", "processes", "--jobs", "2")
SEARCH = ["search", "--model", "gpt3-175b", "--hardware", "a100-sxm-80gb", "--gpus", "64", "--global-batch", "64", "-q"]
TABLED = {"set": {"layers": 4, "hidden": 512, "heads": 4, "vocab": 1000, "seq_len": 256}, "hardware": "h100-sxm"}


@pytest.fixture(scope="module")
def processes():
    """Two processes, shared by the tests of this module: they start slowly."""
    with executors.processes(2) as pool:
        yield pool


@pytest.fixture(params=["threads", pytest.param("processes", marks=pytest.mark.slow)])
def two(request, monkeypatch):
    """Two workers: threads of this process, with small blocks; or processes, with blocks as they are."""
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    monkeypatch.setattr(engine, "TILE_POINTS", 3000)
    monkeypatch.setattr(ranking, "BOX_POINTS", 3000)
    monkeypatch.setattr(partition, "BLOCK_POINTS", 2**12)
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def with_two(two, monkeypatch):
    """Run a command line whose --jobs are two workers."""

    class Lent(Executor):
        num_workers = 2
        submit = staticmethod(two.submit)

    monkeypatch.setattr(executors, "processes", lambda count: Lent())
    return lambda *arguments: run([*map(str, arguments), *TWO])


@pytest.fixture
def study(two, tmp_path):
    """A study whose rows are several blocks, for either kind of workers."""
    path = tmp_path / "study.yaml"
    path.write_text(STUDY if not isinstance(two, ThreadPoolExecutor) else STUDY.replace("750", "75"))
    return path


@pytest.fixture
def whole_study(tmp_path):
    """A study whose rows are several blocks as they are."""
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def long(tmp_path):
    """A study that is not done before somebody has had enough of it."""
    path = tmp_path / "long.yaml"
    path.write_text(LONG)
    return path


# -- the same bytes ---------------------------------------------------------------------------------------------------

QUESTIONS = {
    "csv": (), "json": (), "jsonl": (), "columns": ("--columns", "tp,feasible,hidden"),
    "top": ("--top", 7, "--by", "overlap_ratio"), "ties": ("--top", 50, "--by", "tp", "--ascending"),
    "where": ("--set", "tp=[16,32]", "--top", 3),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_sweep_by_two_is_that_of_one(with_two, study, tmp_path, name):
    suffix = name if name in ("csv", "json", "jsonl") else "csv"
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
    assert run(["sweep", str(study), *map(str, QUESTIONS[name]), "-o", str(one)]) == 0
    assert with_two("sweep", study, *QUESTIONS[name], "-o", other) == 0
    assert one.read_bytes() == other.read_bytes()
    assert len(one.read_bytes()) > 100


@pytest.mark.slow
def test_conditions_and_infeasible_rows_by_two(with_two, study, tmp_path, capsys):
    given = study.with_name("where.yaml")
    given.write_text(study.read_text() + 'where: ["tp != 8", "flop_vs_bw < 2"]\n')
    for form in ("json", "csv"):
        assert run(["sweep", str(given), "--format", form]) == 0
        one = capsys.readouterr().out
        assert with_two("sweep", given, "--format", form) == 0
        assert capsys.readouterr().out == one
        assert "does not divide" in one


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", *(pytest.param(form, marks=pytest.mark.slow) for form in ("csv", "table"))])
def test_a_search_by_two_is_that_of_one(with_two, form, capsys):
    assert run([*SEARCH, "--format", form, "--top", "40"]) == 0
    one = capsys.readouterr().out
    assert with_two(*SEARCH, "--format", form, "--top", 40) == 0
    assert capsys.readouterr().out == one


@pytest.mark.slow
def test_the_python_interface_takes_any_executor(monkeypatch, study, two):
    one = sweep(str(study), top=20, by="tp")
    for pool in (two, ThreadPoolExecutor(3)):
        many = sweep(str(study), top=20, by="tp", executor=pool)
        assert many.meta == one.meta
        assert many.to_records() == one.to_records()
    whole, shared = (
        sweep(str(study), columns=["tp", "step_s"]),
        sweep(str(study), columns=["tp", "step_s"], executor=two),
    )
    assert all(np.array_equal(whole.columns[name], shared.columns[name], equal_nan=True) for name in whole.columns)
    given = study_from({**TABLED, "set": {**TABLED["set"], "global_batch": 8}})
    assert search(given, 8, top=30, executor=two) == search(given, 8, top=30)
    with monkeypatch.context() as patch:
        patch.setattr(partition, "BLOCK_POINTS", 2**7)
        assert search(given, 8, top=30, executor=ThreadPoolExecutor(3)) == search(given, 8, top=30)


@pytest.mark.slow
def test_equal_values_are_told_apart_by_their_rows(monkeypatch):
    chance = random.Random(5)
    for _ in range(20):
        moving = {"hidden": [1024 * n for n in range(1, chance.randint(2, 9))], "tp": [1, 2, 4, 8],
                  "flop_vs_bw": {"from": 1, "to": 2, "steps": chance.randint(2, 9)}, "micro_batch": [1, 2]}  # fmt: skip
        names = list(moving)
        chance.shuffle(names)
        plan = make_plan(study_from({"cost_model": "comp_vs_comm", "set": {"seq_len": 1024},
                                     "sweep": {name: moving[name] for name in names}}))  # fmt: skip
        by, count, sign = (
            chance.choice(["hidden", "tp", "overlap_ratio"]),
            chance.randint(1, 60),
            chance.choice([1, -1]),
        )
        values = np.concatenate([rows.columns[by] for rows in engine.row_blocks(plan, [by])]) * sign
        expected = np.lexsort((np.arange(values.size), -values))[:count]
        with monkeypatch.context() as patch:
            for room, name in ((engine, "TILE_POINTS"), (engine, "SAMPLE_POINTS"), (ranking, "SAMPLE_POINTS"),
                               (ranking, "BLOCK_NUMBERS"), (ranking, "BOX_POINTS")):  # fmt: skip
                patch.setattr(room, name, chance.randint(1, 100))
            ranked = parallel.Ranked(ranking.Ranking(plan, by, count, ascending=sign < 0))
            pool = chance.choice([None, ThreadPoolExecutor(2)])
            assert sum(ranked.steps(pool)) == plan.grid.points
        assert ranked.best.flat.tolist() == expected.tolist()


def test_near_optimal_layouts_are_counted_part_by_part():
    scores = np.random.default_rng(2).integers(100, 300, 5000) / 100
    counts = np.random.default_rng(3).integers(1, 4, 5000)
    whole = NearOptimal()
    for part in np.array_split(np.arange(5000), 13):
        one = NearOptimal()
        one.add(scores[part], counts[part])
        whole.merge(one)
    for percent in (0, 1, 5, 10):
        assert whole.within(scores.min(), percent) == counts[scores <= scores.min() * (1 + percent / 100) + 1e-12].sum()


def test_a_pareto_front_is_what_no_other_beats_part_by_part():
    chance = np.random.default_rng(2)
    memory = chance.integers(1, 200, 5000) / 1.0
    scores = np.round(100 / memory, 1) + chance.integers(0, 30, 5000) / 10  # less memory, more time: a long front
    whole, at_once = ParetoFront(), ParetoFront()  # of fronts of parts; of parts
    for part in np.array_split(np.arange(5000), 13):
        one = ParetoFront()
        one.add(scores[part], memory[part], lambda i, part=part: (int(part[i]),))
        whole.merge(one)
        at_once.add(scores[part], memory[part], lambda i, part=part: (int(part[i]),))
    assert at_once.places == whole.places
    assert len(whole.places) > 30
    points = set(zip(scores, memory, strict=True))
    front = {(s, m) for s, m in points if not any(a <= s and b <= m and (a, b) != (s, m) for a, b in points)}
    assert set(zip(whole.scores, whole.memory, strict=True)) == front
    assert [(scores[i], memory[i]) for (i,) in whole.places] == list(zip(whole.scores, whole.memory, strict=True))
    for room in (0.0, 1.0, 7.5, 100.0, 500.0):
        assert whole.best_score(np.array([room]))[0] == scores[memory <= room].min(initial=np.inf)


# -- in order, a few at a time ----------------------------------------------------------------------------------------


class Watching(Executor):
    """Does the work where it is asked for, and counts what nobody has taken yet."""

    num_workers = 2

    def __init__(self):
        self.out, self.most = 0, 0

    def submit(self, function, *arguments):
        self.out += 1
        self.most = max(self.most, self.out)
        future = Future()
        future.set_result(function(*arguments))
        return future


def test_only_a_few_tasks_are_out_at_once():
    pool = Watching()
    for number, result in enumerate(executors.in_order(pool, abs, ((-n,) for n in range(100)))):
        pool.out -= 1
        assert result == number
    assert pool.most <= executors.AHEAD * 2


def fail(number):
    if number == 3:
        raise ZeroDivisionError("three")
    if number == 5:
        raise ConfigError("five")
    return number


def end(number):
    os._exit(number)


def test_what_a_worker_raises_is_one_message():
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(executors.WorkerError, match="a worker failed: ZeroDivisionError: three"):
            list(executors.in_order(pool, fail, [(3,)]))
        with pytest.raises(ConfigError, match="five"):
            list(executors.in_order(pool, fail, [(5,)]))


@pytest.mark.slow
def test_a_worker_that_ends_is_one_message():
    with executors.processes(1) as pool, pytest.raises(CompcommError, match="ended before its work was done"):
        list(executors.in_order(pool, end, [(7,)] * 20))


def test_a_worker_of_another_version_refuses():
    job = parallel.job_of(study_from(TABLED))
    with pytest.raises(CompcommError, match=r"has compcomm .*, this is 0\.0"):
        parallel.study_of(parallel.Job(job.study, job.digest, "0.0"))


def test_progress_stops_workers(two):
    plan = make_plan(study_from({"cost_model": "comp_vs_comm", "set": {"micro_batch": 1, "seq_len": 1024}, "sweep": {
        "hidden": {"from": 1024, "to": 65536, "step": 1024}, "tp": [1, 2], "flop_vs_bw": {"from": 1, "to": 2,
        "steps": 4000}}}))  # fmt: skip
    stream = stream_rows(plan, ["tp"], progress=lambda points: True, executor=two)
    assert 0 < sum(len(rows) for rows in stream) < plan.grid.points
    assert stream.interrupted


@pytest.mark.parametrize(("name", "jobs", "said"), [
    ("bla", None, "allowed: processes, dask:tcp://HOST:PORT, mpi"), (None, 0, "at least 1"), ("dask", None, "allowed"),
    ("dask:tcp://localhost:1", 2, "--jobs has no effect"),
])  # fmt: skip
def test_wrong_executors_are_refused(name, jobs, said):
    with pytest.raises(ConfigError, match=said), executors.open_executor(name, jobs):
        pass


@pytest.mark.parametrize(("name", "module"), [("dask:tcp://localhost:1", "distributed"), ("mpi", "mpi4py.futures")])
def test_a_missing_extra_says_what_to_install(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    extra = name.partition(":")[0]
    with (
        pytest.raises(MissingExtraError, match=rf"pip install 'compcomm\[{extra}\]'"),
        executors.open_executor(name, None),
    ):
        pass


@pytest.mark.slow
def test_nothing_is_imported_for_workers_nobody_asked_for():
    code = "import sys; from comp_comm.cli.main import run; run({}); print(*sys.modules, file=sys.stderr)"
    for arguments in (["--help"], ["sweep", "future", "-q"], [*SEARCH, "--cp", "1", "--tp", "8"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)], capture_output=True, text=True, check=True
        )
        loaded = set(done.stderr.splitlines()[-1].split())
        assert not loaded & {"multiprocessing", "concurrent.futures", "comp_comm.sweeps.executors", "pyarrow"}


# -- processes of their own -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("call", "points"), [
    (["sweep", "llama-step", "--tp", "4,8"], "2"),
    (SEARCH, "[0-9,]+"),
])  # fmt: skip
def test_jobs_alone_are_not_used_where_they_do_not_pay(call, points, compcomm, monkeypatch):
    def refuse(*call):
        raise AssertionError("workers are started")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", refuse)
    code, alone, _ = compcomm(*call, "--format", "json")
    assert code == 0
    code, out, err = compcomm(*[part for part in call if part != "-q"], "--format", "json", "--jobs", "2")
    assert (code, out) == (0, alone)
    assert re.search(f"--jobs 2 is not used: one process is sooner done with {points} points", err)


def started(arguments):
    """Start a command in a group of its own, as a terminal does."""
    return subprocess.Popen([*MAIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals to a group of processes are POSIX's")
def test_ctrl_c_with_workers_keeps_the_best_so_far(long):
    process = started(["sweep", long, "--top", 3, "--format", "json", *TWO])
    said(process, "points")  # some are done
    os.killpg(process.pid, signal.SIGINT)  # every process of the group gets it
    out, err = rest_of(process)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert json.loads(out)["interrupted"] is True
    assert len(json.loads(out)["rows"]) == 3


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it looks at /proc for the workers")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_ctrl_c_while_workers_start_is_no_traceback(long, count):
    """As soon as there are so many processes; the first is Python's own, which looks after the others."""
    nine_million_rows = "seq_len={from: 1, to: 70, step: 1}"
    process = started(["sweep", long, "--set", nine_million_rows, "--format", "csv", *TWO])
    reader = threading.Thread(target=process.stdout.read, daemon=True)
    reader.start()
    assert until(lambda: len(children(process)) >= count, process)
    os.killpg(process.pid, signal.SIGINT)
    err = process.stderr.read()
    assert process.wait(PATIENCE) == 130
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it looks at /proc for the workers")
def test_workers_end_with_a_parent_that_was_killed(long):
    process = started(["sweep", long, "--top", 3, *TWO])
    said(process, "points")
    workers = children(process)
    process.kill()
    process.communicate()
    assert len(workers) >= 2
    assert until(lambda: not any(map(runs, workers)))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX's")
def test_ctrl_c_in_a_search_gives_what_was_found(tmp_path):
    many = [part for name in ("dp", "tp", "pp") for part in (f"--overlap-{name}", "[off,on]")]
    many += ["--kernels", "[fused,eager]", "--attention-kernel", "[flash_causal,flash,unfused]"]
    call = [*(part.replace("64", "16384") for part in SEARCH if part != "-q"), *many]  # some 400 million layouts
    process = started([*call, "-o", tmp_path / "best.json"])
    said(process, "points")
    process.send_signal(signal.SIGINT)
    _, err = rest_of(process)
    assert process.returncode == 130, err
    assert json.loads((tmp_path / "best.partial.json").read_text())["meta"]["interrupted"] is True


@pytest.mark.slow
def test_a_dask_cluster(whole_study, tmp_path):
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("dask")
    study = str(whole_study)
    calls = {"rows.csv": ["sweep", study], "best.json": ["sweep", study, "--top", "9"], "found.json": SEARCH}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster:
        for name, call in calls.items():
            assert run([*call, "-o", str(tmp_path / f"one-{name}")]) == 0
            there = f"dask:{cluster.scheduler_address}"
            assert run([*call, "-o", str(tmp_path / name), "--executor", there]) == 0
            assert (tmp_path / name).read_bytes() == (tmp_path / f"one-{name}").read_bytes()


@pytest.mark.slow
def test_a_dask_scheduler_that_is_not_there(monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 0.5)
    assert run(["sweep", "future", "--executor", "dask:tcp://127.0.0.1:1"]) == 2
    assert "no scheduler answers" in capsys.readouterr().err


# Open MPI starts nothing for root (a container's only user, often) unless it is told to, and on few cores too.
AS_ROOT = {f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}
AS_ROOT |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def launcher():
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@pytest.mark.slow
@pytest.mark.skipif(launcher() is None, reason="there is no mpiexec, which starts ranks")
def test_two_mpi_ranks(whole_study, tmp_path):
    pytest.importorskip("mpi4py")
    study = str(whole_study)
    calls = {"rows.csv": ["sweep", study], "best.json": ["sweep", study, "--top", "9"], "found.json": SEARCH}
    for name, call in calls.items():
        ranks = [launcher(), "-n", "2", sys.executable, "-m", "mpi4py.futures", "-m", "comp_comm"]
        done = subprocess.run(
            [*ranks, *call, "-o", str(tmp_path / name), "--executor", "mpi"],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **AS_ROOT},
        )
        assert done.returncode == 0, done.stderr
        assert run([*call, "-o", str(tmp_path / f"one-{name}")]) == 0
        assert (tmp_path / name).read_bytes() == (tmp_path / f"one-{name}").read_bytes()


@pytest.mark.slow
def test_mpi_without_ranks_says_how_to_start_them(capsys):
    pytest.importorskip("mpi4py")
    if launcher() is None:
        pytest.skip("there is no mpiexec, which starts ranks")
    assert run(["sweep", "future", "--executor", "mpi"]) == 2
    assert "mpiexec -n RANKS python -m mpi4py.futures -m comp_comm" in capsys.readouterr().err

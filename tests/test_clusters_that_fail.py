"""Clusters that are not there, or go away: one message, and none of Dask's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from comp_comm.cli.main import run
from comp_comm.sweeps import executors

MAIN = [sys.executable, "-m", "comp_comm"]


@pytest.mark.slow
@pytest.mark.parametrize("address", [
    "foo", "tcp://", "tcp://HOST", "tcp://[::1", "inproc://1", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:0", "foo://x:1",
    "tcp://a b:1", "tls://127.0.0.1:1", "tcp://127.0.0.1:" + "9" * 5000,
])  # fmt: skip
def test_what_is_no_address_is_refused_at_once(address, capsys):
    pytest.importorskip("distributed")
    begin = time.monotonic()
    assert run(["sweep", "future", "--executor", f"dask:{address}"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert err.startswith("Error: --executor dask:")
    assert time.monotonic() - begin < 5


class Gone(ThreadPoolExecutor):
    """An executor whose cluster went away: it never answers, and says that it is not there."""

    def is_there(self):
        return False

    def shutdown(self, wait=True):
        """Take no flag to cancel, as Dask's does not."""
        super().shutdown(wait=wait)


@pytest.mark.slow
def test_a_cluster_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(executors, "LOOK_SECONDS", 0.02)
    with Gone(1) as gone, pytest.raises(executors.WorkerError, match="the cluster went away"):
        list(executors.in_order(gone, time.sleep, [(1.0,)]))


def test_work_that_itself_timed_out_is_its_own_error():
    def late():
        raise TimeoutError("too late")

    with Gone(1) as gone, pytest.raises(executors.WorkerError, match="too late"):
        list(executors.in_order(gone, late, [()]))


def test_an_executor_without_a_flag_to_cancel_is_shut_down():
    gone = Gone(1)
    executors._abandon(gone)
    with pytest.raises(RuntimeError):
        gone.submit(print)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_scheduler_that_is_killed(tmp_path):
    pytest.importorskip("distributed")
    study = tmp_path / "study.yaml"
    study.write_text(
        "cost_model: comp_vs_comm\nset: {micro_batch: 1, seq_len: 4K}\nsweep:\n  tp: [1, 2, 4, 8, 16]\n"
        "  hidden: {from: 1024, to: 65536, step: 64}\n  flop_vs_bw: {from: 1, to: 4, steps: 1000}\n"
    )
    code = ("import time\nfrom distributed import LocalCluster\nif __name__ == '__main__':\n"
            "    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)\n"
            "    print(cluster.scheduler_address, flush=True)\n    time.sleep(600)\n")  # fmt: skip
    (tmp_path / "cluster.py").write_text(code)
    cluster = subprocess.Popen([sys.executable, str(tmp_path / "cluster.py")], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
    there = cluster.stdout.readline().strip()
    call = [*MAIN, "sweep", str(study), "-q", "-o", str(tmp_path / "rows.csv"), "--executor", f"dask:{there}"]
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    while not any(path.name.startswith(".rows.csv") for path in tmp_path.iterdir()):
        time.sleep(0.1)
    time.sleep(1.0)
    os.killpg(cluster.pid, signal.SIGKILL)
    cluster.wait()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err == "Error: the cluster went away before its work was done\n"
    assert not (tmp_path / "rows.csv").exists()

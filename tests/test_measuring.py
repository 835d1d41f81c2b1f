"""Timing kernels and collectives: what is timed, by whom, and how often."""

from __future__ import annotations

import sys
import time
import types

import pytest

from comp_comm.calibration.measuring import collectives
from comp_comm.calibration.measuring.run import measure_kernels
from comp_comm.calibration.measuring.timer import LEAST, median_seconds, trimmed_mean
from comp_comm.calibration.measuring.together import measure_together
from comp_comm.calibration.readers import read_log


class Recorded:
    """A backend that does nothing but keep a record."""

    name, dtype, streams = "recorded", "fp32", ("add",)

    def __init__(self):
        self.done = []

    def gemm(self, m, n, k):
        return lambda: self.done.append("product")

    def settle(self):
        pass

    def scrub(self, size):
        return lambda: self.done.append(size)


def test_what_is_done_before_a_call_is_not_timed():
    assert median_seconds(lambda: None, 0.0, before=lambda: time.sleep(0.02)) < 0.01
    assert median_seconds(lambda: time.sleep(0.02), 0.0, before=lambda: None) >= 0.02


def test_memory_is_overwritten_before_every_timed_call():
    backend = Recorded()
    measure_kernels(backend, "gemm", 1, 64, 0.0, cold=1024.0)
    assert backend.done == ["product", *[1024.0, "product"] * LEAST]
    backend = Recorded()
    measure_kernels(backend, "gemm", 1, 64, 0.0)
    assert backend.done == ["product"] * (1 + LEAST)


def test_processes_meet_at_every_shape():
    backend = Recorded()
    measure_kernels(backend, "gemm", 3, 64, 0.0, meet=lambda: backend.done.append("met"))
    assert backend.done == ["met", *["product"] * (1 + LEAST)] * 3


@pytest.mark.slow
def test_two_processes_measure_the_same_shapes(compcomm, tmp_path):
    flags = ("--kernel", "gemm", "--shapes", 5, "--largest", 64, "--seconds", 0, "--cold", 1)
    assert compcomm("measure", "--processes", 2, "-o", tmp_path / "two", *flags)[0] == 0
    assert compcomm("measure", "-o", tmp_path / "one", *flags)[0] == 0
    together, alone = (read_log(str(tmp_path / name / "gemms.csv")).rows for name in ("two", "one"))
    assert len(together) == 5
    assert [(r.m, r.n, r.k) for r in together] == [(r.m, r.n, r.k) for r in alone]
    assert all(row.seconds > 0 for row in together)


@pytest.mark.slow
def test_a_process_that_fails_does_not_keep_the_others_waiting():
    start = time.perf_counter()
    with pytest.raises(TypeError):
        measure_together(2, "numpy", "cpu", "fp32", "gemm", "no number", 64, 0.0)
    assert time.perf_counter() - start < 60


@pytest.fixture
def lone_process():
    """A stand-in for PyTorch: a group of one process, whose sums are its own numbers."""
    group = types.SimpleNamespace(
        barrier=lambda: None, all_reduce=lambda x, op: None, get_world_size=lambda: 1,
        ReduceOp=types.SimpleNamespace(MAX="max", SUM="sum"),
    )  # fmt: skip
    return types.SimpleNamespace(distributed=group, tensor=lambda x, device: types.SimpleNamespace(item=lambda: x[0]))


def test_a_collective_takes_what_it_takes_on_average(lone_process):
    """One call of three is slow: the median would not know."""
    calls = []

    def call():
        calls.append(None)
        if len(calls) % 3 == 0:
            time.sleep(0.006)

    found = collectives._seconds(lone_process, call, "cpu", lambda: None, 0.1, lambda: None)
    assert 0.001 < found < 0.005
    assert len(calls) <= collectives.MOST


def test_computing_before_a_collective_is_not_timed(lone_process):
    done = []

    def work():
        done.append("work")
        time.sleep(0.005)

    found = collectives._seconds(lone_process, lambda: done.append("call"), "cpu", lambda: None, 0.0, work)
    assert done == ["work", "call"] * (collectives.LEAST + 1)
    assert found < 0.003


def test_collectives_between_computing(compcomm, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    flags = ("--busy", 0.001, "--seconds", 0, "--largest", 64, "-o", tmp_path)
    assert compcomm("measure", "--collectives", *flags)[0] == 0
    rows = read_log(str(tmp_path / "collectives.csv")).rows
    assert {(row.kind, row.size) for row in rows} == {(k, s) for k in ("all_reduce", "all_gather")
                                                      for s in (1024, 2048, 4096)}  # fmt: skip
    assert all(row.seconds < 1 for row in rows)


def test_a_trimmed_mean_forgets_interruptions():
    assert trimmed_mean([*[1.0] * 19, 100.0]) == 1.0
    assert trimmed_mean([1.0, 3.0]) == 2.0


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--collectives", "--processes", 1), "a collective is between two"),
        (("--collectives", "--cold", 16), "--cold: of kernels, and --collectives measures none"),
        (("--collectives", "--kernel", "gemm", "--shapes", 9), "--kernel and --shapes: of kernels"),
        (("--collectives", "--backend", "numpy"), "--backend numpy: collectives are PyTorch's"),
        (("--busy", 0.1), "--busy: of collectives; give --collectives"),
        (("--kernel", "attention"), "NumPy has no fused kernel of it; --backend torch has"),
        (("--kernel", "gem"), "--kernel: there is no 'gem'; did you mean 'gemm'?"),
        (("--device", "cuda", "--dtype", "bf16"), "--device and --dtype: of --backend torch"),
        (("--largest", 65_536), "16384"),
        (("--seconds", "nan"), "--seconds: must be a finite number"),
        (("--collectives", "--busy", "nan"), "--busy: must be a finite number"),
    ],
)
def test_options_of_kernels_and_of_collectives(compcomm, tmp_path, flags, why):
    code, _, err = compcomm("measure", "-o", tmp_path / "here", *flags)
    assert (code, why in err) == (2, True), err
    assert not (tmp_path / "here").exists()


def torch_with(devices):
    """A stand-in for PyTorch that finds so many GPUs, and can send nothing."""
    return types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: devices > 0,
                                                            device_count=lambda: devices))  # fmt: skip


@pytest.mark.parametrize(("devices", "flags"), [(0, ("--library", "nccl")), (1, ()), (3, ("--processes", 4))])
def test_nccl_has_a_gpu_for_each_process(compcomm, tmp_path, monkeypatch, devices, flags):
    monkeypatch.setitem(sys.modules, "torch", torch_with(devices))
    code, _, err = compcomm("measure", "--collectives", "-o", tmp_path / "here", *flags)
    assert (code, f"PyTorch finds {devices} GPUs here" in err) == (2, True), err
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(("rank", "wrote"), [("0", True), ("1", False)])
def test_one_process_of_a_launcher_writes(compcomm, tmp_path, monkeypatch, rank, wrote):
    monkeypatch.setitem(sys.modules, "torch", torch_with(0))
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(collectives, "_rank", lambda *_: [("all_reduce", 2, 2, 1024, "fp32", 0.001)])
    assert compcomm("measure", "--collectives", "-o", tmp_path / "here")[0] == 0
    assert (tmp_path / "here" / "collectives.csv").exists() == wrote


def test_help_of_measure_has_its_flags_in_their_groups(compcomm):
    shown = compcomm("measure", "--help")[1]
    asked, output = shown.split("\nOutput:")
    assert "Layout:" not in shown
    assert "--kernel" in asked
    assert "--help" in output


def test_a_kernel_named_twice_is_measured_once(compcomm, tmp_path):
    flags = ("--shapes", 5, "--largest", 64, "--seconds", 0, "-q", "-o", tmp_path / "a" / "b")
    code, _, err = compcomm("measure", "--kernel", "gemm", "--kernel", "gemm", *flags)
    assert (code, err.count("wrote")) == (0, 1)

"""Logs as users have them: read whole, or refused with a reason; never a traceback, never half."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, GemmRow, KernelTime
from comp_comm.calibration.readers import read_log
from comp_comm.errors import ConfigError

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
USER_FILES = SHARED / "user_files"
needs_user_files = pytest.mark.skipif(
    not USER_FILES.is_dir(), reason="files that users hold are not beside the checkout (data/user_files)"
)

NCCL = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid 1 on node-0 device  0 [0000:19:00] NVIDIA A100
#  Rank  7 Group  0 Pid 1 on node-1 device  3 [0000:19:00] NVIDIA A100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     0.10    0.00    0.00      0     0.10    0.00    0.00      0
     1048576        262144     float     sum      -1    309.4    3.39    5.93      0    310.6    3.41    5.97      0
    33554432       8388608     float     sum      -1   1540.0   21.79   38.13      0   1541.0   21.78   38.11    N/A
"""
GEMMS = "m,n,k,time_us\n64,128,256,10\n128,128,128,20\n"


def prefixed(text, prefix):
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("prefix", ["", "0: ", " 3:", "[1,0]<stdout>:", "node-1: ", "    "])
def test_nccl_tests_behind_prefixes(log, prefix):
    found = read_log(log(prefixed(NCCL, prefix)))
    assert found.rows == [
        CollectiveRow(pytest.approx(310e-6), "fp32", 7, "all_reduce", 2**20, 8, 4),
        CollectiveRow(pytest.approx(1540.5e-6), "fp32", 8, "all_reduce", 2**25, 8, 4),
    ]
    assert found.skipped == {"size 0": 1}


@pytest.mark.parametrize("wrong", [False, True])
def test_nccl_tests_with_and_without_checks(log, wrong):
    """Older versions print an error instead of a count, and -c 0 prints N/A."""
    lines = NCCL.splitlines()[:5]
    check = " 0e+00" if wrong else ""
    lines.append(f"  1048576  262144  float  sum  309.4  3.39  5.93{check}  310.6  3.41  5.97{check}")
    assert [row.seconds for row in read_log(log("\n".join(lines))).rows] == [pytest.approx(310e-6)]


def test_devices_are_told_by_the_bus_factor(log):
    """2 (n - 1) / n = 1.75 is 8 devices; where the ranks are not listed their nodes are not known."""
    lines = [line for line in NCCL.splitlines() if "Rank" not in line]
    rows = read_log(log("\n".join(lines))).rows
    assert {(row.devices, row.per_node) for row in rows} == {(8, 0)}


def test_a_log_that_does_not_say_its_collective(log):
    text = NCCL.replace(" sum", "none").replace("38.13", "19.07").replace("5.93", "2.97")
    with pytest.raises(ConfigError, match="--collective"):
        read_log(log(text))
    assert {row.kind for row in read_log(log(text), collective="all_gather").rows} == {"all_gather"}
    assert {row.kind for row in read_log(log(text, "all_gather_8.log")).rows} == {"all_gather"}
    assert {row.kind for row in read_log(log("# ./alltoall_perf -b 8\n" + text)).rows} == {"all_to_all"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\x00\x01\x02\xff", "is not text"),
        (b"text\x00text", "is binary"),
        (b"\x7fELF\x02\x01" + bytes(range(128, 256)), "is not text"),
        ("hello\nworld\n", "no known kind"),
        ("a,b,c\n1,2,3\n", "columns say nothing to us"),
        (NCCL[: NCCL.index("1048576")], "has only rows of size 0"),
        ("\n".join(NCCL.splitlines()[:5]), "no rows"),
        (NCCL[:-60], "cut off in the middle of a row"),
        ("m,n,k,time_s\n", "no rows"),
        ("m,n,k\n1,2,3\n", "no column has the time"),
        (GEMMS[:-8], "cells? where the header has 4"),
        (GEMMS.replace("256", "-256"), "must not be negative"),
        (GEMMS.replace("256", "2.5"), "must be a whole number"),
        (GEMMS.replace("256", "nan"), "must not be negative or infinite|is not a number"),
        (GEMMS.replace("256", "many"), "is not a number"),
        (GEMMS.replace(",10", ",").replace(",20", ","), "no row is usable"),
        ("m,n,k,m,time_s\n1,2,3,4,5\n", "two columns are called 'm'"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "na', "is not whole JSON"),
        ('{"hidden_size": 4096}', "no list 'traceEvents'"),
        ('{"traceEvents": []}', "no GPU kernels"),
        ('{"traceEvents": [1, 2]}', "no list 'traceEvents'"),
        ("[" * 100_000, "JSON"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "cut off"),
        (b"\x1f\x8b not gzip at all", "not whole gzip|cut off"),
        ('Name,Calls,TotalDurationNs,AverageNs,Percentage\n"gemm",0,0,0,0\n', "no kernel with a time"),
        ('Name,Calls,TotalDurationNs\n"unfinished,1,2\n', "cell"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(log, content, why):
    with pytest.raises(ConfigError, match=why):
        read_log(log(content))


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_log(str(tmp_path / "nothing.csv"))
    with pytest.raises(ConfigError, match="is a directory"):
        read_log(str(tmp_path))


def test_tables_of_several_devices(log):
    text = "gpu,m,n,k,time_us\nA,64,64,64,5\nB,64,64,64,7\n"
    with pytest.raises(ConfigError, match="--only gpu=NAME: A, B"):
        read_log(log(text))
    assert read_log(log(text), {"gpu": ["B"]}).rows == [GemmRow(pytest.approx(7e-6), "", 3, 64, 64, 64)]
    with pytest.raises(ConfigError, match="it has: A, B"):
        read_log(log(text), {"gpu": ["C"]})


def trace(tmp_path, packed=False):
    launch = {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 0, "dur": 9,
              "args": {"External id": 5, "Input Dims": [[64], [32, 16], [16, 64], [], []],
                       "Input type": [*["c10::BFloat16"] * 3, "Scalar", "Scalar"]}}  # fmt: skip
    soft = {"ph": "X", "cat": "cpu_op", "name": "aten::_flash_attention_forward",
            "args": {"External id": 6, "Input Dims": [[2, 128, 8, 64]] * 3, "Input type": ["c10::Half"] * 3,
                     "Concrete Inputs": [""] * 7 + ["0.", "True"]}}  # fmt: skip
    nccl = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "dur": 40.0,
            "args": {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,
                     "Group size": 8, "dtype": "BFloat16"}}  # fmt: skip
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bjlk_BBS", "dur": 12.5, "args": {"External id": 5}},
        {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bjlk_BBS", "dur": 13.5, "args": {"External id": 5}},
        {
            "ph": "X",
            "cat": "kernel",
            "name": "pytorch_flash::flash_fwd_kernel<64>",
            "dur": 20,
            "args": {"External id": 6},
        },
        {"ph": "X", "cat": "kernel", "name": "vectorized_elementwise_kernel<4, add>", "dur": 3.0, "args": {}},
        nccl,
    ]
    content = json.dumps({"traceEvents": [launch, soft, *kernels]}).encode()
    path = tmp_path / ("trace.json.gz" if packed else "trace.json")
    path.write_bytes(gzip.compress(content) if packed else content)
    return str(path)


@pytest.mark.parametrize("packed", [False, True])
def test_profiler_traces(tmp_path, packed):
    found = read_log(trace(tmp_path, packed))
    assert found.rows == [
        GemmRow(pytest.approx(13e-6), "bf16", 0, 32, 64, 16),
        AttentionRow(pytest.approx(20e-6), "fp16", 0, 2, 128, 8, 8, 64, True),
        CollectiveRow(pytest.approx(40e-6), "bf16", 0, "all_reduce", 2048, 8),
        KernelTime(pytest.approx(3e-6), "", 0, "elementwise", "vectorized_elementwise_kernel<4, add>", 1),
    ]
    assert found.totals == {"gemm": pytest.approx(26e-6), "attention": pytest.approx(20e-6),
                            "elementwise": pytest.approx(3e-6), "collective": pytest.approx(40e-6)}  # fmt: skip


NSYS = """\
Processing [report.sqlite] with [cuda_gpu_kern_sum.py]...
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,6000,3,2000.0,2000.0,1000,3000,1.0,"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>"
40.0,4000,2,2000.0,2000.0,1000,3000,1.0,"ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long)"
"""
ROCPROF3 = 'Kernel_Name,Start_Timestamp,End_Timestamp\n"Cijk_a",100,400\n"Cijk_a",500,600\n'


def test_kernels_by_name(log):
    found = read_log(log(NSYS))
    assert [(row.operator, row.calls, row.seconds) for row in found.rows] == [
        ("gemm", 3, pytest.approx(6e-6)), ("collective", 2, pytest.approx(4e-6))]  # fmt: skip
    assert [(r.operator, r.calls, r.seconds) for r in read_log(log(ROCPROF3)).rows] == [
        ("gemm", 2, pytest.approx(4e-7))
    ]


@needs_user_files
@pytest.mark.parametrize("folder", ["nccl_tests_logs", "rocprof", "pytorch_profiler"])
def test_files_of_users(folder):
    for path in sorted((USER_FILES / folder).iterdir()):
        found = read_log(str(path))
        assert found.rows, path.name
        assert all(row.seconds > 0 for row in found.rows)


@needs_user_files
def test_what_the_files_of_users_say():
    logs = {path.name: path for path in (USER_FILES / "nccl_tests_logs").iterdir()}
    said = {name: read_log(str(path)).rows[-1] for name, path in logs.items()}
    assert {(row.kind, row.devices) for name, row in said.items() if "16gpu" in name} == {
        ("all_reduce", 16), ("all_gather", 16)}  # fmt: skip
    assert said["oci_a100_16gpu_all_reduce.txt"].per_node == 8
    assert said["h100_8gpu_all_reduce.txt"].size == 2**34
    assert said["n1_32gb_all_reduce_bench.txt"].devices == 4


@needs_user_files
@pytest.mark.parametrize("folder", ["hf_config", "torchtitan_toml", "training_logs", "nemo_yaml", "deepspeed_json"])
def test_other_files_of_users_are_refused(folder):
    for path in sorted((USER_FILES / folder).iterdir()):
        with pytest.raises(ConfigError, match=path.name):
            read_log(str(path))


@needs_user_files
@pytest.mark.parametrize("folder", ["nccl_tests_logs", "rocprof", "pytorch_profiler"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.93])
def test_files_cut_off_anywhere(folder, share, tmp_path):
    for path in sorted((USER_FILES / folder).iterdir()):
        content = path.read_bytes()
        cut = tmp_path / path.name
        cut.write_bytes(content[: int(share * len(content))])
        try:
            rows = read_log(str(cut)).rows
        except ConfigError:
            continue  # refused; that the file is named is tested above
        assert rows  # between two lines of a log: what is there is whole
        assert all(row.seconds > 0 for row in rows)

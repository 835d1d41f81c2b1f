"""Tables as spreadsheets, pandas and profilers write them; what is no kernel; summaries of DeepSpeed; projections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comp_comm.calibration.measurements import GemmRow
from comp_comm.calibration.projection import Iteration, project
from comp_comm.calibration.readers import read_log
from comp_comm.calibration.readers.comms_logger import read_summary
from comp_comm.calibration.readers.text import open_source
from comp_comm.errors import ConfigError

INPUTS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "inputs"
needs_inputs = pytest.mark.skipif(not INPUTS.is_dir(), reason="the inputs of the project are not beside the checkout")
MIB = 2**20


# -- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [
    "m,n,k,time_us\n64,128,256,10\n", ",m,n,k,time_us\n0,64,128,256,10\n",
    "Unnamed: 0,m,n,k,time_us\n3,64,128,256,10\n",
    "m\tn\tk\ttime_us\n64\t128\t256\t10\n", "m;n;k;time_us\n64;128;256;10\n", ";m;n;k;time_us\n0;64;128;256;10\n",
    '"M", "N" ,K,time_us\n64,128,256,10\n', "sep=;\nm;n;k;time_us\n64;128;256;10\n",
    "\ufeffm,n,k,time_us\n64,128,256,10\n",
    "m,n,k,time_us\r\n64,128,256,10\r\n", "m,n,k,time_us,note\n64,128,256,10,\"a, b\"\n",
    "# made by hand\n\nm,n,k,time_us\n\n64,128,256,10\n",
    "M,N,K,Time (us),GFLOPS\n64,128,256,10,419\n", "M,N,K,Time[ms]\n64,128,256,0.01\n",
    "m,n,k,time (s)\n64,128,256,1e-5\n", "trans,M,N,K,TFLOPS,us\nTN,64,128,256,0.4,10\n",
    "label,m,n,k,iters,avg_ms,p50_ms,p99_ms\na,64,128,256,9,3,0.01,4\n",
])  # fmt: skip
def test_one_table_in_many_dialects(log, content):
    (row,) = read_log(log(content)).rows
    assert (row.m, row.n, row.k, row.seconds) == (64, 128, 256, pytest.approx(10e-6))


@pytest.mark.parametrize("name", ["dtype", "dtype_in", "precision", "data_type", "datatype", "a_type"])
def test_columns_with_the_number_format(log, name):
    """Rows that do not say it are taken for the one that is fitted."""
    (row,) = read_log(log(f"m,n,k,{name},time_us\n64,128,256,float16,10\n")).rows
    assert row.dtype == "fp16"


def test_a_table_in_utf_16_as_spreadsheets_save_it(log):
    (row,) = read_log(log("m\tn\tk\ttime_us\n64\t128\t256\t10\n".encode("utf-16"))).rows
    assert isinstance(row, GemmRow)


@pytest.mark.parametrize(("row", "said"), [
    ("0x40,128,256,10", "is not a number: '0x40'"), ("1_0,128,256,10", "is not a number"),
    ("1e300,128,256,10", "is larger than any can be"), (f"{'9' * 5000},128,256,10", "is not a number"),
    ("64,128,256,1e300", "is larger than any can be"), ("64,128,256,1e999", "must not be negative or infinite"),
    ("64,128,256,NaN", "is not a number"), ("[64],128,256,10", "is not a number"), ("64,128,256,5,", "5 cells where"),
])  # fmt: skip
def test_numbers_that_are_none(log, row, said):
    with pytest.raises(ConfigError, match=said):
        read_log(log(f"m,n,k,time_us\n{row}\n"))


# -- kernels by name --------------------------------------------------------------------------------------------------

STATS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
HOST = ("hipMemcpy", "hipLaunchKernel", "hipMemcpyWithStream", "hsa_queue_create", "cudaLaunchKernel", "cuLaunchKernel",
        "ncclAllReduce", "roctxRangePushA", "__hipPushCallConfiguration")  # fmt: skip
KERNELS = ("Cijk_Ailk_Bjlk_BBS", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "ncclKernel_AllReduce_RING",
           "cuApplyLayerNorm", "__amd_rocclr_copyBuffer", "void cutlass::Kernel2<x>", "hipkernel_gemm",
           "elementwise_kernel")  # fmt: skip


@pytest.mark.parametrize("name", HOST)
def test_calls_of_the_host_are_no_kernels(log, name):
    found = read_log(log(STATS + f'"{name}",6,663000000000,1,90\n"Cijk_A",1,5000,1,10\n'))
    assert [(row.name, row.seconds) for row in found.rows] == [("Cijk_A", pytest.approx(5e-6))]
    assert "no kernels" in found.notes[0]
    with pytest.raises(ConfigError, match=r"calls of the host, no kernels; give the table of kernels"):
        read_log(log(STATS + f'"{name}",6,663000000000,1,90\n'))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_kernels(log, name):
    assert [row.name for row in read_log(log(STATS + f'"{name}",1,5000,1,10\n')).rows] == [name]


@pytest.mark.parametrize("name", ["HIP_API", "KERNEL_DISPATCH", "HSA_API", "MEMORY_COPY", "MARKER_API", "RCCL_API"])
def test_sums_over_all_records_are_no_kernels(log, name):
    with pytest.raises(ConfigError, match="sums over a kind of record"):
        read_log(log(STATS + f'"{name}",24044,1660103043,1,100\n'))


def test_timestamps_since_1970_keep_their_nanoseconds(log):
    """19 digits: as floats, they are 256 ns apart."""
    begin = 1_764_300_000_000_000_001
    found = read_log(log(f"Kernel_Name,Start_Timestamp,End_Timestamp\nCijk_A,{begin},{begin + 777}\n"))
    assert found.rows[0].seconds == pytest.approx(777e-9, rel=1e-12)
    with pytest.raises(ConfigError, match="a kernel that takes -5 ns is none"):
        read_log(log(f"Kernel_Name,Start_Timestamp,End_Timestamp\nCijk_A,{begin},{begin - 5}\n"))


@pytest.mark.parametrize(("header", "row", "seconds"), [
    ("Time (%),Total Time (ns),Instances,Name", '60,"6,000",3,gemm', 6e-6),
    ("Time(%),Total Time (us),Instances,Name", "60,6,3,gemm", 6e-6),
    ("Time(%),Total Time,Instances,Average,Name", "60,6000,3,2000,gemm", 6e-6),
    ("Time (%),Total Time (ns),Instances,Category,Operation", "60,6000,3,CUDA_KERNEL,gemm", 6e-6),
    ("Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Name", "100,6000,3,1,1,1,gemm", 6e-6),
])  # fmt: skip
def test_tables_of_nsight_systems(log, header, row, seconds):
    assert read_log(log(f"{header}\n{row}\n")).rows[0].seconds == pytest.approx(seconds)


SEVERAL = """\
Processing [run.sqlite] with [cuda_api_sum.py]...

Time (%),Total Time (ns),Num Calls,Avg (ns),Name
90.0,77000,11,7000.0,cudaLaunchKernel

Processing [run.sqlite] with [cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Name
60.0,1200,2,600.0,Cijk_A
40.0,800,4,200.0,"void at::native::vectorized_elementwise_kernel<4, x>(int)"

Processing [run.sqlite] with [cuda_gpu_mem_time_sum.py]...

Time (%),Total Time (ns),Count,Avg (ns),Operation
100.0,500,1,500.0,[CUDA memcpy HtoD]
"""


CHANGES = (lambda t: t, lambda t: t.replace("\n\n", "\n"), lambda t: t.replace("\n", "\r\n"),
           lambda t: "\n".join(line for line in t.split("\n") if not line.startswith("Processing")))  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_of_several_tables_in_one_file_the_kernels_are_read(log, change):
    """As ``nsys stats --format csv`` prints all its reports; the same times stand in more than one of them."""
    found = read_log(log(change(SEVERAL)))
    assert [(row.operator, row.calls, row.seconds) for row in found.rows] == [
        ("gemm", 2, pytest.approx(1.2e-6)), ("elementwise", 4, pytest.approx(0.8e-6))]  # fmt: skip
    with pytest.raises(ConfigError, match="the file is cut off, or not one table"):
        read_log(log(change(SEVERAL[: SEVERAL.index("40.0,800") + 8])))


OTHERS = {
    " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total Time (ns)  Instances\n": "--format csv",
    "==77== NVPROF is profiling process 77\n": "is of nvprof",
    "srun: job 1\n# OSU MPI-ROCM Allreduce Latency Test v7.0\n# Size  Avg Latency(us)\n4  1.98\n":
        r"other:2: is of the OSU micro-benchmarks, which do not say how many ranks.*columns collective, n_gpus",
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n": "is of perftest",
    "#bytes  #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]  stddev[%]\n": "is of the benchmark of oneCCL",
    "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n": "is of nccom-test",
    "| size(B)  | count | type | redop | scope | latency(us) | algbw(GB/s) | busbw(GB/s) |\n":
        "is of the tests of NVSHMEM",
    "[1,0]<stdout>:  1048576   512   float   2542.6   0.41   0.41  0e+00   2712.3   0.39   0.39  1e+00\n":
        r"other:1: has rows of nccl-tests without their header: keep the line",
    '{"rocprofiler-sdk-tool": [{"metadata": {}}]}': "is JSON of rocprofv3: give its CSV",
    '{"schema": "1.1.0-chakra.0.0.4", "nodes": []}': "is an execution trace",
    "SQLite format 3\0\x10\0": "is an SQLite export of Nsight Systems: give the CSV",
}  # fmt: skip


@pytest.mark.parametrize("content", OTHERS)
def test_what_is_not_read_is_named_with_what_to_give_instead(tmp_path, content):
    path = tmp_path / "other"
    path.write_text(content)
    with pytest.raises(ConfigError, match=OTHERS[content]):
        read_log(str(path))


def test_traces_of_the_cuda_api_are_no_kernels(log):
    with pytest.raises(ConfigError, match="columns say nothing to us"):
        read_log(log("Start (ns),Duration (ns),Name,Result,CorrID\n100,6000,cudaLaunchKernel,0,3\n"))


def test_project_does_not_take_a_copy_of_the_host_for_a_kernel(compcomm, log):
    table = log(STATS + '"hipMemcpy",1005,663355080000,1,75\n"Cijk_A",1,4000000,1,10\n')
    flags = ("--baseline", "hidden=1024,seq_len=512,micro_batch=1,tp=2", "--hidden", "2048", "--format", "json")
    code, out, err = compcomm("project", table, *flags)
    (row,) = json.loads(out)["rows"]
    assert (code, row["total_s"]) == (0, pytest.approx(4 * 4e-3))
    assert "no kernels" in err


# -- summaries of DeepSpeed -------------------------------------------------------------------------------------------

HEADING = "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     "
STRAGGLER = "Comm. Op            Message Size        Count               Total comm lat(ms)  Total straggler(ms) "


def summary(calls, heading=HEADING, name="all_reduce", prefix=""):
    lines = [heading, name, f"                    80.0 MB             {calls}                 400.0               2.5"]
    return "".join(f"{prefix}{line}\n" for line in lines)


def counted(text, devices=8, path=None):
    if path is not None:
        path.write_text(text)
    rows = read_summary(text if path is None else open_source(str(path)), "x", devices)
    return [(row["collective"], row["message_bytes"] / MIB, row["calls"]) for row in rows]


@pytest.mark.parametrize("text", [
    summary(160) + summary(160), summary(40) + summary(80) + "a line\n" + summary(160), summary(160),
    summary(160) + "____\nBreakdown with straggler effect\n----\n" + summary(160, STRAGGLER),
    summary(160, name="all_reduce | [Caller Func: _reduce_grads]"),
    summary(160, prefix="[2026-03-01] [INFO] [Rank 0] "),
    summary(160, prefix="0: "), summary(160, prefix="[1,0]<stdout>:"), summary(160, prefix="\x1b[32m"),
    summary(160) + "some_function\nall_gather\n[INFO] step 7\n", "    " + summary(160),
])  # fmt: skip
def test_a_summary_is_of_all_calls_so_far(text, tmp_path):
    assert counted(text, path=tmp_path / "run.log") == [("all_reduce", 80.0, 160.0)]


def test_several_summaries_are_said(tmp_path):
    notes = []
    read_summary(summary(80) + summary(160), "run.log", 8, notes)
    assert notes == ["run.log: 2 summaries, each of all calls up to it: the last one counts"]


@pytest.mark.parametrize("text", [
    summary(160) + summary(40), summary(160) + HEADING + "\nbroadcast\n      2.0 KB      7      1.0    0.1\n",
])  # fmt: skip
def test_a_last_summary_that_counts_less_is_refused(text):
    with pytest.raises(ConfigError, match="fewer calls of all_reduce than the one of line 1"):
        counted(text)


def test_operations_of_a_summary():
    text = HEADING + "\n"
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "log_summary_barrier"):
        text += f"{name}\n                    0B                  2                   0.19                0.10\n"
        text += "                    1.5 MB              3                   -259904.95          0.10\n"
    found = counted(text, devices=4)
    assert [row for row in found if row[1]] == [
        ("all_gather", 6.0, 3.0), ("reduce_scatter", 1.5, 3.0), ("all_to_all", 1.5, 3.0), ("barrier", 1.5, 3.0)
    ]  # fmt: skip
    assert len(found) == 8


@needs_inputs
def test_a_summary_printed_twice(compcomm):
    flags = ("--log", INPUTS / "deepspeed-comms-twice.log", "--format", "json")
    code, out, err = compcomm("volume", "llama-step", *flags)
    measured = {row["collective"]: row for row in json.loads(out)["measured"]}["all_reduce"]
    assert (code, measured["measured_calls"], measured["measured_message_bytes"]) == (0, 160, 160 * 80 * MIB)
    assert "2 summaries" in err


def test_calibrate_says_what_reads_a_summary(log):
    with pytest.raises(ConfigError, match="compcomm volume --log reads it"):
        read_log(log(summary(160)))


# -- projections ------------------------------------------------------------------------------------------------------

ONE = "hidden,seq_len,micro_batch,tp,operator,time_us\n1024,512,1,1,gemm,10\n1024,512,1,1,all_reduce,5\n"
ANOTHER = "2048,512,1,1,gemm,40\n2048,512,1,1,all_reduce,10\n"


def test_a_baseline_of_one_device_has_no_all_reduce_to_scale(compcomm, log):
    code, out, err = compcomm("project", log(ONE + ANOTHER), "--format", "json")
    answer = json.loads(out)
    assert code == 0
    assert [(row["operator"], row["projected_s"]) for row in answer["rows"]] == [("gemm", pytest.approx(40e-6))]
    assert "'all_reduce' of the baseline at TP 1 is no all-reduce of tensor parallelism: it is left out" in err
    code, out, err = compcomm("project", log(ONE), "--hidden", "2048", "--format", "json")
    (row,) = json.loads(out)["rows"]
    assert (row["total_s"], row["serialized_comm_fraction"]) == (pytest.approx(40e-6), None)
    code, out, err = compcomm("project", log(ONE), "--tp", "4")
    assert (code, out) == (2, "")
    assert "profile it with TP of at least 2" in err


@pytest.mark.parametrize("degree", [1, 2])
def test_communication_that_a_baseline_lacks_is_missing_and_not_zero(compcomm, log, degree):
    """At TP 1 there is none to lack."""
    table = log(f"hidden,seq_len,micro_batch,tp,operator,time_us\n1024,512,1,{degree},gemm,10\n")
    code, out, err = compcomm("project", table, "--tp", "1", "--tp", "8", "--format", "json")
    shares = {row["tp"]: row["serialized_comm_fraction"] for row in json.loads(out)["rows"]}
    assert (code, shares) == (0, {1: 0.0, 8: None})
    assert "communication at TP 8 is missing" in err
    code, out, _ = compcomm("project", table, "--tp", "8")
    assert " -" in out.splitlines()[-1]


def test_an_all_reduce_alone_goes_to_nothing_at_tp_1(compcomm, log):
    table = log("hidden,seq_len,micro_batch,tp,operator,time_us\n1024,512,1,4,all_reduce,10\n")
    code, out, _ = compcomm("project", table, "--tp", "1", "--format", "json")
    (row,) = json.loads(out)["rows"]
    assert (code, row["total_s"], row["serialized_comm_fraction"]) == (0, 0.0, None)


def test_a_ring_of_one_is_refused_by_name():
    base = Iteration({"hidden": 1, "seq_len": 1, "micro_batch": 1, "tp": 1}, {"collective": 1.0})
    with pytest.raises(ConfigError, match="profile it with TP of at least 2"):
        project(base, {"hidden": 1, "seq_len": 1, "micro_batch": 1, "tp": 2})


@needs_inputs
def test_the_inputs_of_the_project(compcomm):
    flags = ("--baseline", "hidden=1024,seq_len=512,micro_batch=1,tp=1")
    code, out, err = compcomm("project", INPUTS / "project-baseline-tp1.csv", *flags)
    assert (code, "all_reduce" in out, "left out" in err) == (0, False, True)
    assert [row.m for row in read_log(str(INPUTS / "gemm-pandas-index.csv")).rows] == [4096, 1024]

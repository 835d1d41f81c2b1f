"""Output that is often tried and is not read: what it is, and what to give instead."""

from __future__ import annotations

import re

_TABLE = "write a table (CSV) with the columns collective, n_gpus, size_bytes, latency_us (and gpus_per_node)"
_LINK = "it measures a link, and no collective: what it found belongs into a profile (network.*.bandwidth, latency)"
_OTHERS = (
    (r"\*\* (?:CUDA|NVTX|OS Runtime) .{0,60}Summary|Time \(%\) {2,}Total Time \(ns\)",
     "is text of Nsight Systems: give the CSV (nsys stats --report cuda_gpu_kern_sum --format csv)"),
    (r"==\d{1,9}== (?:NVPROF|Profiling)", "is of nvprof: profile with Nsight Systems, and give its CSV (nsys stats)"),
    (r"# OSU [\w/-]{2,20} ", f"is of the OSU micro-benchmarks, which do not say how many ranks took part: {_TABLE}"),
    (r"#bytes +#repetitions +t_(?:min|avg)", f"is of the benchmark of oneCCL, or of Intel MPI: {_TABLE}"),
    (r"time(?::avg)?\(us\) +algbw\(GB/s\)", f"is of nccom-test (AWS Neuron): {_TABLE}"),
    (r"latency\(us\)[ |]+algbw\(GB/s\)", f"is of the tests of NVSHMEM: {_TABLE}"),
    (r"\d +\d+ +(?:float|double|half|bfloat16|u?int\d+) +(?:[a-z]+ +)?(?:-?\d+ +)?(?:[\d.]+ +){3}\S+ +(?:[\d.]+ +){3}",
     "has rows of nccl-tests without their header: keep the line '# size count type ...', which says what they are"),
    (r"#bytes +#iterations +(?:BW |t_)", f"is of perftest (ib_write_bw and its kin): {_LINK}"),
    (r"nvbandwidth Version|memcpy CE CPU\(row\)", f"is of nvbandwidth: {_LINK}"),
)  # fmt: skip
OTHERS = tuple((re.compile(pattern), what) for pattern, what in _OTHERS)
# Members that other files of JSON have, at the top.
JSON_MEMBERS = {
    "rocprofiler-sdk-tool": "is JSON of rocprofv3: give its CSV (rocprofv3 --kernel-trace --output-format csv)",
    "nodes": "is an execution trace, which has no times of kernels: give what export_chrome_trace writes",
}
SQLITE = "is an SQLite export of Nsight Systems: give the CSV (nsys stats --report cuda_gpu_kern_sum --format csv)"


def other_kind(line: str) -> str:
    """Return what output a line is of that is not read, and what to give instead; nothing where it is not known.

    >>> other_kind("# OSU MPI-CUDA Allreduce Latency Test v7.0")[:33]
    'is of the OSU micro-benchmarks, w'
    """
    return next((what for pattern, what in OTHERS if pattern.search(line)), "") if len(line) < 1000 else ""

"""What fuzzing begins with: one small file of each kind that is read, and what may be put into them."""

from __future__ import annotations

import json

NCCL_HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
)
NCCL = (
    "mpirun -np 2 ./build/all_reduce_perf -b 1M -e 64M\n# nThread 1 nGpus 1 minBytes 1048576\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   1000 on     node-0 device  0 [0000:00:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1001 on     node-1 device  0 [0000:00:00] NVIDIA H100 80GB HBM3\n"
    + NCCL_HEADER
    + "     1048576        262144     float     sum      -1    40.97   25.59   25.59      0"
    "    40.97   25.59   25.59      0\n"
    "    67108864      16777216     float     sum      -1  1362.18   49.27   49.27      0"
    "  1362.18   49.27   49.27    N/A\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100\n"
)
CHANGES = (("all_reduce", "all_gather"), ("  sum ", " none "), ("262144 ", "131072 "), ("16777216 ", " 8388608 "),
           ("  25.59      0", "  12.80      0"), ("  49.27      0", "  24.64      0"),
           ("  49.27    N/A", "  24.64    N/A"))  # fmt: skip
GATHER = NCCL
for old, new in CHANGES:
    GATHER = GATHER.replace(old, new)
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 0, "dur": 9,
     "args": {"External id": 5, "Input Dims": [[64], [32, 16], [16, 64]], "Input type": ["c10::BFloat16"] * 3}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::_flash_attention_forward", "pid": 1, "tid": 1, "ts": 20, "dur": 9,
     "args": {"External id": 6, "Input Dims": [[2, 128, 8, 64]] * 3, "Input type": ["c10::Half"] * 3,
              "Concrete Inputs": [""] * 7 + ["0.", "True"]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 1,
     "args": {"correlation": 11}},
    {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bjlk_BBS", "ts": 30, "dur": 12.5, "args": {"correlation": 11}},
    {"ph": "X", "cat": "kernel", "name": "flash_fwd_kernel<64>", "ts": 50, "dur": 20, "args": {"External id": 6}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "dur": 40.0,
     "args": {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 8,
              "dtype": "BFloat16"}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "dur": 3.0, "args": {}},
]  # fmt: skip
COMMS = (
    "[2026-03-01 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] comm op: broadcast | time (ms): 9.95\n"
    "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg\n"
    "broadcast\n                    2.0 KB              146                 11.12               0.08         0.43\n"
    "all_gather_into_tensor\n                    10.0 MB             40                  602.29              9.69\n"
)
BENCH = (
    "0 data size: 4.0 GB\n1 data size: 4.0 GB\n duration: 0.0479 sec\n algo throughput: 1337346013047.7 bps, 1.3\n"
    " busbw: 668.673  Gbps\n duration: 0.0482 sec\n algo throughput: 1328071705904.8 bps, 1.3\n busbw: 664.036  Gbps\n"
)
TABLES = (
    "m,n,k,batch,dtype,time_us,gpu\n64,128,256,1,bf16,10,A\n128,128,128,2,fp16,20,A\n",
    ",batch,seq_len,heads,head_dim,kv_heads,causal,time_ms\n0,2,1024,8,64,2,true,1.5\n1,1,512,8,128,8,no,0.5\n",
    "op;rows;cols;dtype;time_us\nsoftmax;1024;4096;bf16;12\nlayernorm;1;8;fp32;2\n",
    "collective\tn_gpus\tsize_bytes\tgpus_per_node\ttime_s\nall_reduce\t16\t1048576\t8\t0.0001\nbroadcast\t2\t8\t\t1e-5\n",
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"Cijk_A",3,"6,000",2000,60\n"hipMemcpy",1,663000000000,1,9\n',
    '"Index","KernelName","gpu-id","DurationNs"\n0,"void at::native::elementwise_kernel<4>",1,5280\n',
    'Kernel_Name,Start_Timestamp,End_Timestamp\n"Cijk_a",1764300000000000100,1764300000000000400\n',
    'Kernel_Name,Count,Sum(ns),Mean(ns)\n"batched_gemm(int, int)",150,4358035.07,29053.5\n',
    "Processing [x.sqlite]...\nTime (%),Total Time (ns),Instances,Avg (ns),Name\n60.0,6000,3,2000.0,cutlass_gemm\n",
    "hidden,seq_len,micro_batch,tp,operator,time_us\n1024,512,4,2,gemm,1000\n1024,512,4,2,all_reduce,200\n"
    "2048,512,4,2,gemm,4000\n2048,512,4,2,all_reduce,380\n",
)  # fmt: skip
SIDE = {"time": 40.97, "alg_bw": 25.59, "bus_bw": 25.59, "nwrong": 0.0}
RANKS = [{"rank": rank, "group": 0, "pid": 9, "hostname": f"node-{rank}", "device": 0, "device_hex": "0000:00:00"}
         for rank in range(2)]  # fmt: skip
NCCL_JSON = json.dumps({
    "version": 3, "start_time": "2026", "args": ["all_reduce_perf"], "config": {"nthreads": 1, "ngpus": 1,
    "devices": RANKS}, "results": [{"size": 2**20, "count": 2**18, "type": "float", "redop": "sum", "root": "    -1",
    "out_of_place": SIDE, "in_place": None}], "out_of_bounds": {"count": 0, "okay": "true"},
})  # fmt: skip
RCCL_JSON = json.dumps([
    {"numCycle": 0, "name": "AllReduce", "ranks": 2, "ranksPerNode": 1, "gpusPerRank": 1, "size": 2**20,
     "type": "float", "redop": "sum", "inPlace": side, "time": 40.97, "algBw": 25.59, "busBw": 25.59, "wrong": "N/A"}
    for side in (0, 1)])  # fmt: skip
BROKEN = NCCL.replace(
    "    40.97   25.59   25.59      0    40.97", "n-0:1:2 [0] NCCL INFO x\n  40.97  25.59  25.59  0    40.97"
)
PRODUCTS = (
    "hipBLASLt version: 1\n[0]:transA,batch_count,m,n,k,a_type,d_type,hipblaslt-Gflops,us\n"
    "    T,1,64,64,64,bf16_r,bf16_r,131.072,4\n    --Solution index: 3\n"
    "rocblas-bench -f gemm -r s\ntransA,M,N,K,rocblas-Gflops,us,CPU-Gflops,us\nN,64,64,64,131.072,4,1,9\n"
)
SEEDS = (NCCL, NCCL + GATHER, json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}), json.dumps(EVENTS), COMMS,
         COMMS + COMMS, BENCH, *TABLES, NCCL_JSON, RCCL_JSON, BROKEN, PRODUCTS)  # fmt: skip
# What is put into them: numbers that are none or too large, words where numbers belong, marks, what ends a line.
NASTY = (
    "", "0", "-1", "1e308", "1e999", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "NaN", "Infinity", "-Infinity", "1_000",
    "0.0000001", "[1]", "{}", "null", "true", '"', "'", ",", ";", "\t", "\r", "\n", "\r\n", "\x00", "\x1b[2J", "\x7f",
    "\x85", "\u2028", "\ufeff", "\ufffd", "\U0001f600", "\\ud800", "=1+1", "#", ":", "|", "_perf", "all_gather_perf",
    "nThread", "Rank", "Rank 7 Group 1 Pid 1 on node-9 device 3 [0x0] X", "data size: 4.0 GB", "busbw: 1 Gbps",
    "size count type busbw", NCCL_HEADER, COMMS.splitlines()[1],
    "traceEvents", '{"cat": "kernel", "name": ["x"], "dur": [1]}', " " * 5000, "[" * 2000, "a" * 5000, '{"a":' * 500,
    "\u0663", "\uff11\uff12", "1,5", "1e", "--", "%", "$(x)", "../../x", "N/A", "-",
)  # fmt: skip

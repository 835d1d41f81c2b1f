"""How the speed of a search scales with its size and with processes, as a table.

Run it with: python tests/benchmarks/search_scaling.py [EXPONENT] [JOBS]

Spaces grow up to about 10^EXPONENT layouts (8 if not given; 9 takes minutes), each searched from the study to the best
layouts, by this process alone and by JOBS of them (2 if not given). Ratios to the first row are what to compare
between machines.
"""

from __future__ import annotations

import sys
import time

from comp_comm.configs.study import study_from
from comp_comm.searches import search
from comp_comm.sweeps.executors import processes

GPUS = 4096
MORE = {
    "overlap_dp": ["on", "off"], "overlap_tp": ["off", "on"], "overlap_pp": ["off", "on"],
    "kernels": ["fused", "eager", "compiled"], "attention_kernel": ["flash_causal", "flash", "unfused"],
    "offload_optimizer": ["off", "on"], "cp_comm": ["p2p", "all_gather", "all_to_all"],
}  # fmt: skip


def spaces(largest: float):
    """Yield studies that double or treble in size, up to ``largest`` layouts."""
    for count in range(len(MORE) + 1):
        given = {"hardware": "h100-sxm", "model": "gpt3-175b", "set": {"global_batch": GPUS}}
        layouts = 4.3e6
        for values in list(MORE.values())[:count]:
            layouts *= len(values)
        if layouts <= largest:
            yield study_from({**given, "sweep": dict(list(MORE.items())[:count])})


def main(exponent: float = 8, jobs: int = 2) -> None:
    """Print the table."""
    print(f"| layouts | feasible | seconds | million a second | ratio | with {jobs} processes | speed-up |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    first = None
    with processes(jobs) as executor:
        search(study_from({"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 64}}), 64,
               executor=executor)  # fmt: skip
        for study in spaces(10**exponent * 1.1):
            took = []
            for each in (None, executor):
                start = time.perf_counter()
                found = search(study, GPUS, executor=each)
                took.append(time.perf_counter() - start)
            meta, (alone, shared) = found["meta"], took
            rate = meta["candidates"] / alone / 1e6
            first = first or rate
            print(f"| {meta['candidates']:,} | {meta['feasible']:,} | {alone:.2f} | {rate:.1f} | {rate / first:.2f} | "
                  f"{shared:.2f} | {alone / shared:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))

"""How long a shopping list takes: twenty models searched on ten machines, one search each, as a table.

Run it with: python tests/benchmarks/models_by_machines.py [GPUS]

Each model is searched on GPUS devices (512 if not given) of each machine at its published sequence length, 1,024
sequences a step, from the study to the best layouts, in this process alone. Seconds are those of a CPU.
"""

from __future__ import annotations

import sys
import time

from comp_comm.configs.study import study_from
from comp_comm.errors import InfeasibleError
from comp_comm.searches import search

MODELS = (
    "gpt3-13b", "gpt3-175b", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b",
    "mistral-7b", "qwen2.5-7b", "qwen2.5-72b", "gemma-2-9b", "gemma-2-27b", "bloom-176b", "mt-nlg-530b", "palm-540b",
    "mixtral-8x7b", "mixtral-8x22b", "deepseek-v3", "qwen3-235b-a22b", "nemotron-h-8b",
)  # fmt: skip
MACHINES = (
    "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "mi250x", "mi300x", "mi355x", "gaudi3",
    "tpu-v5p",
)  # fmt: skip
BATCH = 1024


def main(gpus: int = 512) -> None:
    """Print the table: a row a model, over all machines."""
    print("| model | layouts | machines where it fits | CPU seconds | million a second |")
    print("|---|---:|---:|---:|---:|")
    total = [0, 0, 0.0]
    for model in MODELS:
        layouts, fits, begun = 0, 0, time.process_time()
        for machine in MACHINES:
            study = study_from({"hardware": machine, "model": model, "set": {"global_batch": BATCH}})
            try:
                found = search(study, gpus)
            except InfeasibleError:
                continue
            layouts, fits = layouts + found["meta"]["candidates"], fits + 1
        took = time.process_time() - begun
        total = [total[0] + layouts, total[1] + fits, total[2] + took]
        print(f"| {model} | {layouts:,} | {fits} | {took:.2f} | {layouts / took / 1e6:.1f} |", flush=True)
    layouts, fits, took = total
    print(f"| all | {layouts:,} | {fits} | {took:.2f} | {layouts / took / 1e6:.1f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))

"""Make the published training runs that `compcomm validate` predicts: the compilation, checked and corrected.

``python tests/data/clean_runs.py FOLDER`` reads ``train_runs.csv`` and ``comm_breakdown.csv`` of the project's
compilation of published measurements in FOLDER, and writes ``configs/validation``. No measured value is changed. Rows
whose source is wrong, or says too little for a prediction to mean anything, stay in the table and are ``excluded`` with
the reason; what was corrected is said in ``corrected``; ``not_stated`` lists what a prediction needs to be of the same
run and the source does not say: what the framework does by default is taken for it.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from comp_comm.validation.machines import words_of_network

OUT = Path(__file__).resolve().parents[2] / "configs" / "validation"
DROPPED_COLUMNS = ("sanity", "implied_model_tflops")
ADDED_COLUMNS = ("release", "node_gbit_s", "not_stated", "corrected", "excluded", "machine")

LORA = "LoRA: the table has no rank of adapters"
PACKED = "fine-tuning on packed sequences: the tokens of a step are not those of its sequences"
NO_DP = "the table's DP and CP do not make its GPUs; with DP from the GPUs a replica has less than one sequence a step"
THIN = "the source does not say the model's dimensions, sequence, batch or layout"
NOISE = "the source itself warns of +-40 % (network); the same configuration took 125, 217 and 225 s"
NOT_SAID = "micro-batch not stated, and a pipeline's time depends on it"
SLOW_RELEASE = "1.8 to 2.0 times slower than the neighbouring release of the same layout: a fault of that release"
NO_ORDER = "up to a third slower than neighbours, in no order of the micro-batch: measured beside something else"
EXCLUDED = {
    LORA: "r0219",
    PACKED: "r0214 r0454 r0456 r0457 r0458",
    NO_DP: "r0461 r0463 r0465 r0466",
    NOISE: "r0877 r0879 r0881 r0882 r0884 r0886 r0888 r0890 r0892 r0894 r0895 r0896 r0897 r0900",
    NOT_SAID: "r0970 r0972 r0974 r0977",
    NO_ORDER: "r0052 r0080 r0086 r0089 r0119",
    "the same row as r0794": "r0807",
    "the same row as r0791": "r0809",
    "20 to 40 % slower than its neighbours: micro-batch 1 or 4 against 2": "r0834 r0845",
    "a known regression of the flash-attention backward of that PyTorch build": "r1019",
    "no RDMA plugin; 95 s where the same configuration took 61 s": "r1025",
    "approximate, and 46 % above what the same stack does elsewhere": "r1027",
    "read off a sentence: about a minute an update": "r1020 r1023",
    "the batch (1538) is recalled, and not a multiple of the 12 replicas": "r0935",
    "a report of a performance bug": "r1036 r1037",
    SLOW_RELEASE: "r0375 r0405 r0411",
    THIN: "r0902 r0903 r0904 r0906 r0934 r0998 r0999 r1028 r1029 r1031 r1032 r1033 r1034 r1035",
    "an accelerator and a model family of another kind; layout recalled": "r0995",
}  # fmt: skip
WHY = {run: why for why, runs in EXCLUDED.items() for run in runs.split()}

# Facts beside the table, with the reason. 14336 / 96 is no whole head; sibling rows of the same page have 64 heads.
HEADS = "heads: 96 does not divide 14336; the sibling rows of the same page have 64"
CORRECTED = {
    run: ({"heads": "64", "kv_heads": "64"}, HEADS)
    for run in ("r0774", "r0775", "r0777", "r0778", "r0779", "r0786", "r0787", "r0788")
}
CORRECTED["r0773"] = ({"hidden": "13824", "ffn_hidden": "55296"}, "hidden: 13824 as the page has in this row; 14400, "
                      "which the compilation has, is 203 B and not the 187 B of its label")  # fmt: skip
CORRECTED["r0420"] = ({"pp": "4", "vpp": "4", "dp": "64"}, "PP 4 and VP 4 as the recipe has: with PP 8 there are "
                      "32 replicas, too few for EP 64")  # fmt: skip
CORRECTED["r0404"] = ({"ep": "64"}, "EP 64 as the recipe of that release has: the next release's run at EP 64 has the "
                      "same tokens/s (8,047 for 8,213), and EP 8 leaves a third of them in gradients")  # fmt: skip
ONEFLOW = ({"dp_overlap": "yes"}, "dp_overlap: OneFlow's runtime moves data while it computes (arXiv:2110.15032); 'no' "
           "was inferred of Megatron-LM, beside which it ran")  # fmt: skip
CORRECTED |= {
    run: ({"recompute": "full", "recompute_modules": "full per block"}, "recompute: all blocks, whole, as " + why)
    for run, why in (
        ("r0942", "HFU 0.74 of MFU 0.55 says, and the repository's scripts/train.sh has"),
        ("r1020", "the repository's train_configs/llama3_8b.toml has at that commit (1d2ae85: mode full)"),
        ("r1023", "the repository's train_configs/llama3_8b.toml has at that commit (1760ff2: mode full)"),
    )
}
# Data parallelism of torch, which reduces gradients beside the backward pass.
OVERLAPPED = ({"dp_overlap": "yes"}, "dp_overlap: run_table_1.sh of Megatron-LM's academic_paper_scripts/sc21 has "
              "DDP=torch up to 18B; 'no' was inferred")  # fmt: skip
CORRECTED |= dict.fromkeys(("r0000", "r0001", "r0002", "r0003"), OVERLAPPED)
# What adds up the gradients of micro-batches. Megatron-LM's GEMMs do since 2022 (83b1e42f30: sums in 32 bit).
UNFUSED = {
    "megatron_sc21": "no gradient accumulation fusion (2021; --fp16 alone in the paper's CONFIG.sh: summed in fp16)",
    "megatron_2020": "no gradient accumulation fusion (2020)",
}
ROUNDED = "measured in TFLOP/s, as the tokens/s are rounded and disagree with them by 1.3 to 2.3 %"
NEEDED = ("vocab", "heads", "micro_batch", "precision", "zero_stage", "recompute")


# Machines whose own kernels were published beside their runs: profiles beside the table.
MACHINES = {"simumax_b200": "validation/simumax.yaml"}
# How the loss is made where a source does not say: what its framework does by default. Others follow from `kernels`.
MEGATRON = "vocab-parallel unfused (the default of Megatron-LM; not stated)"
LOSSES = {
    **dict.fromkeys(("megatron_2020", "megatron_sc21", "korthikanti2022", "megatron_h100_2024", "megascale",
                     "lumi_mi250x", "bigscience_v100"), MEGATRON),
    "nemo_long_context": "native fused (the default of NeMo 2; not stated)",
}  # fmt: skip


def cleaned(row: dict[str, str]) -> dict[str, str]:
    """Return a row of the compilation as the package has it."""
    kept = {name: text for name, text in row.items() if name not in DROPPED_COLUMNS}
    usual = MEGATRON if "(Megatron-LM)" in row["model_name"] else LOSSES.get(row["group"], "")
    kept["ce_fusion"] = kept["ce_fusion"] or usual
    others = (kept["software_other"], UNFUSED.get(row["group"], ""))
    kept["software_other"] = "; ".join(each for each in others if each)
    changes, why = ONEFLOW if "(OneFlow)" in row["model_name"] else CORRECTED.get(row["run_id"], ({}, ""))
    kept.update(changes)
    if row["run_id"] in ("r0227", "r0231", "r0232"):
        kept |= {"measured_metric": row["metric2"], "measured_value": row["value2"], "metric2": row["measured_metric"],
                 "value2": row["measured_value"]}  # fmt: skip
        why = ROUNDED
    release = re.search(r"release ([\d.]+\d)", row["notes"])
    texts = f"{row['notes']}; {row['software_other']}; {row['source']}"
    network = words_of_network(texts)
    silent = [name for name in NEEDED if not kept[name] and not said_elsewhere(kept, name)]
    return {
        **kept, "release": release[1] if release else "", "node_gbit_s": f"{network:g}" if network else "",
        "not_stated": " ".join(silent), "corrected": why, "excluded": WHY.get(row["run_id"], ""),
        "machine": MACHINES.get(row["group"], ""),
    }  # fmt: skip


def said_elsewhere(row: dict[str, str], name: str) -> bool:
    """Return whether the columns about software say what a column of the layout does not."""
    others = {"recompute": "recompute_modules", "zero_stage": "fsdp"}
    return bool(row[others[name]]) if name in others else False


def write(name: str, rows: list[dict[str, str]]) -> None:
    """Write a table of the package."""
    with (OUT / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(folder: Path) -> None:
    """Write both tables."""
    for name, out, of in (("train_runs.csv", "runs.csv", cleaned), ("comm_breakdown.csv", "communication.csv", dict)):
        with (folder / name).open(encoding="utf-8", newline="") as file:
            write(out, [of(row) for row in csv.DictReader(file)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What a checkout says of the net: run as ``python run.py TREE POINTS OUT`` with that checkout first on the path.

Every study is swept with every column it has; every command is run on the catalogue's studies in every format.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

FORMATS = ("table", "csv", "json", "jsonl", "markdown")
LAYOUTS = ("--gpus", "64", "--global-batch", "128")


def commands(tree):
    """Return the command lines of the net: those that say something of a study, a model, a machine."""
    sweeps = [
        ["sweep", name]
        for name in (
            "future",
            "case-study",
            "llama-step",
            "demystifying",
            "papers/amped-low-end",
            "papers/amped-mappings",
            "papers/amped-optical",
            "papers/foundation-models-gpt3",
        )
    ]
    sweeps += [
        ["sweep", "future", "--top", "7", "--by", "overlap_ratio"],
        ["sweep", "future", "--long", "--set", "timing=[A, B]"],
    ]
    moe = ["--hardware", "h100-sxm", "--model", "mixtral-8x7b", *LAYOUTS, "--ep", "8", "--tp", "2"]
    steps = [
        ["llama-step"],
        ["llama-step", "--tp", "4", "--recompute", "full", "--zero", "3"],
        moe,
        ["--hardware", "b200-sxm", "--model", "deepseek-v3", "--gpus", "256", "--global-batch", "512", "--ep", "32"],
        ["--hardware", "a100-sxm-80gb", "--model", "t5-11b", *LAYOUTS, "--tp", "8"],
        ["--hardware", "h100-sxm", "--model", "gemma-2-9b", *LAYOUTS],
        ["--hardware", "mi300x", "--model", "gpt3-175b", *LAYOUTS],
    ]
    lines = [*sweeps, *([word, *step] for word in ("explain", "memory", "volume") for step in steps)]
    lines += [
        ["volume", "demystifying"],
        ["compare", "llama-step", "llama-step", "--set-b", "tp=4"],
        ["compare", "llama-step", "llama-step", "--set-b", "hardware=b200-sxm"],
        ["columns"],
        ["search", "llama-search", "--cp", "1"],
        ["search", "llama-search", "--gpus", "64,128", "--cp", "1", "--top", "3"],
        ["search", "--hardware", "h100-sxm", "--model", "mixtral-8x7b", *LAYOUTS, "--top", "5"],
        ["search", "--hardware", "h100-sxm", "--model", "llama-3-8b", *LAYOUTS, "--objective", "memory"],
        ["search", "papers/foundation-models-gpt3"],
        ["search", "gpt3-design-space", "--set", "tp=8"],
        ["case-study"],
        ["case-study", "--what-if", "all"],
        ["edge"],
        ["edge", "--tp", "8", "--count", "paper_exact"],
        ["required-tp"],
        ["solve", "future", "--target", "overlap_ratio=1", "--for", "seq_len", "--set", "tp=16"],
        [
            "solve",
            "--target",
            "serialized_comm_fraction=0.2",
            "--for",
            "network",
            "--hidden",
            "64K",
            "--seq-len",
            "4K",
            "--micro-batch",
            "1",
            "--tp",
            "256",
        ],
        ["solve", "llama-step", "--target", "mfu=0.5", "--for", "network"],
        ["reproduce", "foundation-models"],
        ["reproduce", "amped"],
        ["models", "list"],
        ["hardware", "list"],
        ["hardware", "lint"],
        ["hardware", "ratio", "a100-sxm-80gb", "h100-sxm"],
    ]
    lines += [
        ["models", "show", name]
        for name in ("llama-3-8b", "deepseek-v3", "t5-11b", "gpt2", "vit-era5")
        if _has(tree, "models", name)
    ]
    lines += [["hardware", "show", name] for name in ("mi210", "h100-sxm", "gb200-nvl72", "perlmutter", "tpu-v4")]
    plain = [[*line, "--format", form] for line in lines for form in FORMATS]
    return [
        *plain,
        ["--help"],
        *([word, "--help"] for word in ("sweep", "explain", "search", "solve", "volume", "memory")),
    ]


def _told(study, fields):
    """Return a study in the words of a revision: stages were uneven where that was asked for, and are where need be."""
    given, *points = (
        {name: value for name, value in each.items() if name != "uneven_stages"}
        for each in (study["set"], *study.get("zip", []))
    )
    if "uneven_stages" in fields and study["cost_model"] == "complete":
        given["uneven_stages"] = "on"
    return {**study, "set": given, **({"zip": points} if points else {})}


def _has(tree, folder, name):
    return (tree / "configs" / folder / f"{name}.yaml").exists()


def called(run, arguments):
    """Return exit code, stdout and stderr of a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(arguments)
        except Exception as error:  # a traceback is an answer to compare, too
            code, out = f"{type(error).__name__}: {error}", io.StringIO()
    return code, out.getvalue(), err.getvalue()


def main(tree, points, target, part, parts, commands_too):
    sys.path.insert(0, str(tree))
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    import comp_comm
    from comp_comm.cli.main import run
    from comp_comm.fields import FIELDS

    if Path(comp_comm.__file__).resolve().parent != (tree / "comp_comm").resolve():
        raise SystemExit(f"runs {comp_comm.__file__}, not {tree}")
    answers = {}
    with open(points, encoding="utf-8") as lines, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.yaml"
        for number, line in enumerate(lines):
            if number % parts != part:
                continue
            name, study = json.loads(line)
            first = study["zip"][0]
            if name.endswith("-alone"):
                study = {**study, "set": {**study["set"], **first}}
                del study["zip"]
            study, first = _told(study, FIELDS), _told({**study, "set": first, "zip": []}, FIELDS)["set"]
            file.write_text(json.dumps(study), encoding="utf-8")
            model = "inference" if name.startswith("inference") else study["cost_model"]
            columns = ",".join([*first, *COLUMNS[model], "feasible", "reason"])
            code, out, err = called(run, ["sweep", str(file), "--format", "json", "--columns", columns])
            err = err.replace(str(file), "study.yaml").replace(str(tree), "")
            answers[name] = {"code": code, "err": err, "rows": json.loads(out)["rows"] if out else []}
    target.write_text(json.dumps(answers), encoding="utf-8")
    if part == 0 and commands_too:
        said = {" ".join(line): called(run, line) for line in commands(tree)}
        target.with_suffix(".commands.json").write_text(json.dumps(said), encoding="utf-8")


SECONDS, BYTES = ("serialized_s", "hidden_s", "exposed_s"), ("message_bytes", "volume_bytes", "wire_bytes", "calls")
COMPLETE = (
    "step_s",
    "compute_s",
    "recompute_s",
    "optimizer_s",
    "bubble_s",
    "serialized_comm_s",
    "hidden_comm_s",
    "exposed_comm_s",
    "serialized_comm_fraction",
    "overlap_ratio",
    "visible_comm_fraction",
    "bubble_fraction",
    "mfu",
    "hfu",
    "tflops_per_gpu",
    "tokens_per_s",
    "model_flops",
    "hardware_flops",
    "parameters",
    "active_parameters",
    "memory_gib",
    "forward_s",
    "backward_s",
    *(f"{group}_{kind}" for group in ("tp", "cp", "ep", "pp", "dp", "world") for kind in (*SECONDS, *BYTES)),
    *(f"{part}_gib" for part in ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")),
)
COLUMNS = {
    "complete": COMPLETE,
    "inference": (
        "ttft_s",
        "tpot_s",
        "request_s",
        "tokens_per_s",
        "prefill_compute_s",
        "prefill_comm_s",
        "decode_compute_s",
        "decode_comm_s",
        "prefill_comm_fraction",
        "decode_comm_fraction",
        "prefill_flops",
        "decode_flops_per_token",
        "kv_cache_bytes_per_token",
        "decode_message_bytes_per_token",
        "decode_wire_bytes_per_token",
        "weights_gib",
        "kv_cache_gib",
        "memory_gib",
        "parameters",
        "active_parameters",
    ),
    "comp_vs_comm": (
        "compute_s",
        "serialized_comm_s",
        "overlapped_comm_s",
        "serialized_comm_fraction",
        "overlap_ratio",
        "amdahl_edge_flop_per_byte",
        "slack_flop_per_byte",
        "step_s",
        "hidden_comm_s",
        "exposed_comm_s",
        "visible_comm_fraction",
    ),
    "foundation_models": (
        "step_s",
        "compute_s",
        "memory_bound_s",
        "tp_comm_s",
        "pp_comm_s",
        "dp_comm_s",
        "bubble_s",
        "visible_comm_fraction",
        "bubble_fraction",
        "tokens_per_s",
        "memory_gib",
    ),
    "amped": (
        "step_s",
        "compute_s",
        "tp_comm_s",
        "pp_comm_s",
        "ep_comm_s",
        "dp_comm_s",
        "bubble_s",
        "visible_comm_fraction",
        "bubble_fraction",
        "mfu",
        "hfu",
        "tokens_per_s",
        "model_flops",
        "hardware_flops",
        "parameters",
        "tp_intra_comm_s",
        "tp_inter_comm_s",
    ),
}

if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        Path(sys.argv[3]),
        int(sys.argv[4]),
        int(sys.argv[5]),
        "commands" in sys.argv,
    )

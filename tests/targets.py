"""What the predictions are held to, and whether they reach it: a table of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

import numpy as np
from test_train_runs import BREAKDOWN, SHARE, lumi

from comp_comm.records import Records
from comp_comm.validation.held_out import Responses, calibration_records
from comp_comm.validation.layouts import RANKED, layout_sets
from comp_comm.validation.predict import Prediction
from comp_comm.validation.run import Validation
from comp_comm.validation.summary import arch_of, is_complete

Line = tuple[str, float, float]  # what, its goal and its figure, of which less is better


def sizes(predictions: Sequence[Prediction], group: str, least_tokens: int = 1) -> list[float]:
    """Return the sizes of the errors of a group's dense runs, with sequences of at least so many tokens."""
    return [abs(one.error) for one in predictions if one.counted and one.error is not None
            and one.run["group"] == group and one.run["arch"] == "dense"
            and int(one.run["seq_len"]) >= least_tokens]  # fmt: skip


def pooled(predictions: Sequence[Prediction], arch: str, goals: tuple[float, float], words: str) -> list[Line]:
    """Return median, 90th percentile and, of dense runs, bias of complete configurations."""
    errors = [one.error for one in predictions if one.error is not None and arch_of(one) == arch
              and one.counted and is_complete(one)]  # fmt: skip
    size = np.abs(errors)
    kind = "dense" if arch == "dense" else "mixtures"
    lines = [(f"{kind}, complete, {words}: median", goals[0], float(np.median(size))),
             (f"{kind}, complete, {words}: 90th percentile", goals[1], float(np.percentile(size, 90)))]  # fmt: skip
    if arch == "dense" and words == "held out":
        lines.append((f"{kind}, complete, {words}: size of the bias", 0.03, abs(float(np.median(errors)))))
    return lines


def after(records: Records, by: str, value: str, goals: tuple[float, float]) -> list[Line]:
    """Return median and 90th percentile after calibration."""
    row = next(one for one in records if one["by"] == by and one["value"] == value)
    return [(f"{by}, calibrated on {value}: median", goals[0], float(row["median_abs_error"])),
            (f"{by}, calibrated on {value}: 90th percentile", goals[1], float(row["p90_abs_error"]))]  # fmt: skip


def shares() -> list[float]:
    """Return errors of the measured shares of communication that a step ends with (LUMI, 128 to 2048 devices)."""
    errors = []
    for row in BREAKDOWN:
        if row["quantity"] == SHARE:
            step = lumi(row["n_gpus"])
            spent = sum(step["comm"]["dp"][name] for name in ("serialized_s", "exposed_s"))
            errors.append(abs(spent / step["step_s"] - float(row["value"])))
    return errors


def lines(found: Validation, judged: Sequence[Prediction], responses: Responses) -> list[Line]:
    """Return all targets with their figures."""
    seen, records = found.predictions, calibration_records(responses)
    memory = {str(row["value"]): row for row in found.memory if row["value"] in ("dense", "moe")}
    sets = layout_sets(seen, RANKED)
    named = (("Megatron SC'21 Table 1: mean", 0.04, mean(sizes(seen, "megatron_sc21"))),
             ("Korthikanti Table 5: mean", 0.05, mean(sizes(seen, "korthikanti2022"))),
             ("vTrain's multi-node runs: mean", 0.08, mean(sizes(seen, "vtrain_multi"))),
             ("llm-foundry, 4K tokens and more: median", 0.10, median(sizes(seen, "llm_foundry", 4096))),
             ("share of communication, points: median", 0.05, median(shares())))  # fmt: skip
    return [
        *pooled(judged, "dense", (0.065, 0.16), "held out"), *pooled(judged, "moe", (0.12, 0.25), "held out"),
        *pooled(seen, "dense", (0.045, 0.125), "all constants"), *pooled(seen, "moe", (0.075, 0.20), "all constants"),
        *after(records, "dense", "1 run", (0.05, 0.16)), *after(records, "dense", "3 runs", (0.05, 0.15)),
        *after(records, "moe, of the same model", "1 run", (0.05, 0.15)), *named,
        *((f"peak memory, {arch}: {words}", goal, float(row[key])) for arch, row in memory.items()
          for words, goal, key in (("median", 0.07, "median_abs_error"), ("90th percentile", 0.15, "p90_abs_error"))),
        ("order of layouts: 1 less the median of Spearman's rho", 0.1, 1 - median(one.spearman for one in sets)),
        ("the layout predicted best: mean time above the best", 0.03, mean(one.cost for one in sets)),
    ]  # fmt: skip


def targets_table(found: Validation, judged: Sequence[Prediction], responses: Responses) -> str:
    """Return the targets, what they are at, and by how much those that are not reached are missed."""
    text = "| target | at most | is | |\n| --- | ---: | ---: | --- |\n"
    for what, goal, figure in lines(found, judged, responses):
        verdict = "met" if figure <= goal else f"missed by {100 * (figure - goal):.1f}"
        text += f"| {what} | {100 * goal:.3g} % | {100 * figure:.1f} % | {verdict} |\n"
    return text

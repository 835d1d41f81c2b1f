"""Our predictions beside those of other models, on the runs that they validate on: a table of docs/accuracy.md."""

from __future__ import annotations

import csv
from statistics import mean, median

from comp_comm.validation.predict import Prediction
from comp_comm.validation.run import Validation
from comp_comm.validation.table import shipped

# Sets of runs that others publish measurements of, and whose predictions are not public or need their tool to be run.
SETS = (
    ("Megatron-LM, SC'21 Table 1", "megatron_sc21", "dense", ""),
    ("Korthikanti et al. Table 5", "korthikanti2022", "dense", ""),
    ("vTrain's multi-node runs", "vtrain_multi", "dense", ""),
    ("SimuMax's B200 runs, dense", "simumax_b200", "dense", ""),
    ("SimuMax's B200 runs, mixtures", "simumax_b200", "moe", ""),
    ("llm-foundry, 4K tokens and more", "llm_foundry", "dense", "long"),
)


def percent(share: float) -> str:
    """Return a signed share in percent."""
    return f"{100 * share:+.1f} %"


def peer_rows() -> list[dict[str, str]]:
    """Return the predictions of others that are shipped."""
    with shipped("peers.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def peer_error(row: dict[str, str], one: Prediction) -> float:
    """Return a peer's error in step time: predicted over measured, less 1."""
    predicted = float(row["predicted"])
    if row["unit"] == "TFLOP/s":  # the run's own metric: the FLOP are the same, and seconds go as their inverse
        return float(one.run["measured_value"]) / predicted - 1
    return predicted / float(one.measured_s or 0) - 1


def peers_table(found: Validation) -> str:
    """Return one row a run that a peer predicted, and one a set of runs that none has published predictions for."""
    known = {one.run.run_id: one for one in found.predictions}
    lines = ["| runs | rows | ours: mean | median | bias | theirs |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    for title, group, arch, more in SETS:
        errors = [one.error for one in found.counted if one.error is not None and one.run["group"] == group
                  and one.run["arch"] == arch and (more != "long" or int(one.run["seq_len"]) >= 4096)]  # fmt: skip
        if errors:
            sizes = [abs(error) for error in errors]
            lines.append(f"| {title} | {len(errors)} | {100 * mean(sizes):.1f} % | {100 * median(sizes):.1f} % | "
                         f"{percent(median(errors))} | {theirs(group, arch, known)} |")  # fmt: skip
    lines += ["", "| run | model | recomputed | measured | ours | theirs | by |",
              "| --- | --- | --- | ---: | ---: | ---: | --- |"]  # fmt: skip
    for row in peer_rows():
        one = known[row["run_id"]]
        if one.error is not None:
            lines.append(f"| {row['run_id']} | {one.run['model_name']} | {one.run['recompute']} | "
                         f"{one.measured_s:.4g} s | {percent(one.error)} | {percent(peer_error(row, one))} | "
                         f"{row['peer']} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def theirs(group: str, arch: str, known: dict[str, Prediction]) -> str:
    """Return the mean error of the peers that predicted runs of a group, in words."""
    said = []
    rows = [row for row in peer_rows() if known[row["run_id"]].run["group"] == group and arch == "dense"]
    for peer in dict.fromkeys(row["peer"] for row in rows):
        errors = [abs(peer_error(row, known[row["run_id"]])) for row in rows if row["peer"] == peer]
        ours = [abs(known[row["run_id"]].error or 0.0) for row in rows if row["peer"] == peer]
        said.append(f"{peer}: {100 * mean(errors):.1f} % in the mean of {len(errors)}, ours of those "
                    f"{100 * mean(ours):.1f} %")  # fmt: skip
    return "; ".join(said) or "not published row by row"

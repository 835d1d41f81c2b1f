"""The intervals of predictions, and the tables of docs/accuracy.md: published runs, predicted and compared.

``python tests/validation_page.py`` makes both again from the shipped runs, in two minutes or so: most of them go to
predicting every run at several values of each constant that runs were used for. Run it whenever a change
of the model moves predictions; `test_validation` says when they are no longer what the model gives.
"""

from __future__ import annotations

import csv
import re
import textwrap
from pathlib import Path

from comp_comm.validation.constants import CONSTANTS
from comp_comm.validation.held_out import Responses, calibration_records, intervals
from comp_comm.validation.layouts import apart_interval, layout_records
from comp_comm.validation.predict import Prediction
from comp_comm.validation.refit import Refit, held_out_records
from comp_comm.validation.run import Validation, validate
from comp_comm.validation.table import LATER, shipped

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
PART = re.compile(r"(<!-- validated: (\w+) -->\n)(.*?)(<!-- end validated -->)", re.DOTALL)


def write_intervals(found: Validation, responses: Responses) -> None:
    """Write the table of intervals that explain and search show."""
    later = validate(shipped(LATER)).predictions
    made = (*intervals(found.predictions, responses, later), apart_interval(found.predictions))
    rows = [each.record() for each in made]
    with shipped("intervals.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def percent(value: object, sign: bool = False) -> str:
    """Return a share in percent."""
    return f"{100 * value:{'+' if sign else ''}.1f} %" if isinstance(value, float) else str(value)


def table(head: tuple[str, ...], rows: list[list[str]], words: int = 1) -> str:
    """Return a Markdown table; all but the first columns are numbers."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "".join(f"| {' | '.join(line)} |\n" for line in (list(head), rule, *rows))


def summary_table(found: Validation, kinds: tuple[str, ...]) -> str:
    """Return errors by some kinds."""
    rows = [[f"{row['value']}", *_errors(row)] for row in found.summary if row["by"] in kinds]
    return table(("runs", "rows", "median error", "mean", "90th percentile", "bias"), rows)


def _errors(row: dict[str, object]) -> list[str]:
    return [f"{row['n']}", percent(row["median_abs_error"]), percent(row["mean_abs_error"]),
            percent(row["p90_abs_error"]), percent(row["bias"], True)]  # fmt: skip


# Runs that were found later, of which nothing was looked at before their errors were counted: groups, devices.
UNSEEN = (("maxtext", "TPU v4"), ("maxtext", "TPU v7"), ("maxtext_v5p", ""), ("primus", "MI355X"), ("nemo_auto", ""),
          ("halo", ""), ("alps", ""), ("aws_efa", "B300"))  # fmt: skip


def later_table() -> str:
    """Return errors of the runs that were found when the model was made."""
    found, rows = validate(shipped(LATER)), []
    unseen = [any(one.run["group"].startswith(group) and one.run["gpu"].startswith(device) for group, device in UNSEEN)
              for one in found.predictions]  # fmt: skip
    for which, name in ((False, "looked into"), (True, "not looked into")):
        part = [one for one, each in zip(found.predictions, unseen, strict=True) if each is which]
        summary = Validation(part, found.silent).summary
        rows += [[f"{name}: {row['value']}", *_errors(row)] for row in summary if row["by"] in ("all", "arch")]
    rows += [[row["value"], *_errors(row)] for row in found.summary if row["by"] == "group"]
    return table(("runs", "rows", "median error", "mean", "90th percentile", "bias"), rows)


def calibration_table(responses: Responses) -> str:
    """Return errors after calibration on a few runs."""
    rows = [[f"{row['by']}, {row['value']}", percent(row["median_abs_error"]), percent(row["p90_abs_error"]),
             percent(row["bias"], True)] for row in calibration_records(responses)]  # fmt: skip
    return table(("calibrated on", "median error", "90th percentile", "bias"), rows)


def held_out_table(found: Validation, judged: list[Prediction]) -> str:
    """Return errors by constants of all groups and, for every group, of all others."""
    rows = [[f"{row['by']}", f"{row['value']}", f"{row['n']}", percent(row["median_abs_error"]),
             percent(row["p90_abs_error"]), percent(row["bias"], True)]
            for row in held_out_records(found.counted, judged)]  # fmt: skip
    return table(("runs", "constants", "rows", "median error", "90th percentile", "bias"), rows, 2)


def constants_table(chosen: dict[str, dict[str, float]]) -> str:
    """Return every constant that was chosen on runs, and between which values it is without one of the groups."""
    rows = []
    for constant in CONSTANTS:
        values = [values[constant.name] for values in chosen.values() if constant.name in values]
        without = f"{min(values):.3g} to {max(values):.3g}" if values else "the same"
        rows.append([constant.name, constant.chosen_on, f"{constant.value:.3g}", without])
    return table(("constant", "chosen on", "value", "without one group"), rows, 2)


def layouts_table(found: Validation) -> str:
    """Return how layouts of one model are put in order."""
    rows = [[row["group"], row["model"], row["device"], f"{row['devices']}", f"{row['layouts']}",
             f"{row['slowest']:.2f}", f"{row['spearman']:.2f}", f"{row['attainable']:.2f}", percent(row["cost"])]
            for row in layout_records(found.predictions)]  # fmt: skip
    head = ("runs", "model", "device", "devices", "layouts", "slowest over fastest", "Spearman", "without any error",
            "cost of the choice")  # fmt: skip
    return table(head, rows, 3)


def interval_table() -> str:
    """Return the shipped intervals."""
    with shipped("intervals.csv").open(encoding="utf-8", newline="") as file:
        rows = [[f"{row['arch']}, {row['machine']}", f"x {float(row['low']):.2f}", f"x {float(row['high']):.2f}",
                 percent(float(row["held"])), row["rows"], row["groups"]] for row in csv.DictReader(file)]  # fmt: skip
    return table(("model, machine", "low", "high", "held", "runs", "groups"), rows)


def worst_table(found: Validation) -> str:
    """Return the rows with the largest errors, and where their time goes."""
    rows = [[row["run_id"], row["group"], row["model"], row["gpu"], row["layout"], row["of the predicted step"],
             percent(row["error"], True)] for row in found.worst(25)]  # fmt: skip
    return table(("run", "group", "model", "device", "layout", "of the predicted step", "error"), rows, 6)


def bullet(text: str) -> str:
    """Return an item of a list, in lines of the page's width."""
    return textwrap.fill(text, 118, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) + "\n"


def excluded_list(found: Validation) -> str:
    """Return the rows that are left out, by reason."""
    why: dict[str, list[str]] = {}
    for one in found.predictions:
        if one.run["excluded"]:
            why.setdefault(one.run["excluded"], []).append(one.run.run_id)
    return "".join(bullet(f"{reason}: {', '.join(runs)}") for reason, runs in why.items())


def memory_table(found: Validation) -> str:
    """Return errors of peaks of memory."""
    rows = [[f"{row['value']}", f"{row['n']}", percent(row["median_abs_error"]), percent(row["p90_abs_error"]),
             percent(row["bias"], True)] for row in found.memory]  # fmt: skip
    return table(("runs", "rows", "median error", "90th percentile", "bias"), rows)


WHY = {
    "r0941": "what was recomputed is stated only as a share of the blocks",
    **dict.fromkeys(("r0931", "r0932"), "5 % too much; micro-batches and chunks are not stated, and what stages take "
                    "in and give out was freed early"),
    **dict.fromkeys(("r0450", "r0451"), "whether weights are in fp8 alone is not stated; without 16-bit ones it fits"),
    "r0439": "4 % too much if weights are in fp8 alone, which is not stated",
    "r0406": "1 % too much; the recipe has 4 chunks a stage where the row has 2, and fits (167 GiB)",
    "r0410": "the row has micro-batches of 4, the recipe of 1, which fits (56 GiB)",
    "r0416": "the row is of two recipes: that of MXFP8 has micro-batches of 1, not 2, and fits (149 GiB, step -2 %)",
    "r0411": "4 % too much, within the error of a peak",
}  # fmt: skip


def infeasible_list(found: Validation) -> str:
    """Return the runs that ran and do not fit, with what is known of the reason."""
    told = (f"{one.run.run_id} ({one.run['group']}, {one.run['model_name']}, {one.run['gpu']}): "
            f"{(one.memory_bytes or 0) / 2**30:.0f} GiB; {WHY.get(one.run.run_id, 'the reason is not known')}"
            for one in found.infeasible)  # fmt: skip
    return "".join(map(bullet, told)) or "- none\n"


def not_predicted_list(found: Validation) -> str:
    """Return the rows that are not excluded and yet have no prediction."""
    left = [one for one in found.predictions if one.error is None and not one.run["excluded"]]
    told = (f"{one.run.run_id} ({one.run['group']}, {one.run['model_name']}): {one.reason}" for one in left)
    return "".join(map(bullet, told))


def parts(found: Validation, responses: Responses) -> dict[str, str]:
    """Return every generated part of the page."""
    from side_by_side import peers_table
    from targets import targets_table

    judged, chosen = Refit(found.predictions).judged()
    return {
        "heldout": held_out_table(found, judged), "constants": constants_table(chosen),
        "layouts": layouts_table(found), "targets": targets_table(found, judged, responses),
        "overall": summary_table(found, ("arch", "configuration")), "groups": summary_table(found, ("group",)),
        "devices": summary_table(found, ("gpu",)), "kinds": summary_table(found, ("parallelism", "precision",
                                                                                 "attention", "parameters", "gpus")),
        "releases": summary_table(found, ("release",)), "calibration": calibration_table(responses),
        "intervals": interval_table(), "worst": worst_table(found), "excluded": excluded_list(found),
        "memory": memory_table(found), "infeasible": infeasible_list(found),
        "silent": not_predicted_list(found) or "- none\n", "peers": peers_table(found), "later": later_table(),
    }  # fmt: skip


def main() -> None:
    """Write the intervals, and what of the page is of whole steps."""
    found = validate()
    responses = Responses(found.predictions)
    write_intervals(found, responses)
    made = parts(found, responses)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PART.sub(lambda m: f"{m[1]}\n{made[m[2]]}\n{m[4]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()

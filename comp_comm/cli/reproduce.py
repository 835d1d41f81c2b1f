"""``compcomm reproduce``: other papers' published values beside ours, made with their own models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from comp_comm.cli import help_text, options
from comp_comm.cli.speech import tell
from comp_comm.errors import CheckFailedError, ConfigError
from comp_comm.report.answer import write_answer
from comp_comm.reproduce import amped, foundation_models

UNCHECKED = "note: --set changes what was published, so that nothing is checked (--tolerance checks it)"
PEOPLE = ("table", "markdown")
SHOWN = ("strategy", "model", "gpu", "nvs", "n_gpus", "published_iter_time_s", "ours_iter_time_s", "published_mem_gb",
         "ours_mem_gb", "dp", "tp1", "tp2", "pp", "mbs", "nv_tp1", "nv_tp2", "nv_dp", "nv_pp",
         "same_layout")  # fmt: skip


@click.group(
    cls=help_text.Commands,
    epilog="Examples: compcomm reproduce foundation-models | compcomm reproduce amped --format json",
)
def command() -> None:
    """Published values of other papers beside ours: made by their models as we wrote them, nothing looked up.

    Ends with 1 where ours is further from the published value than the tolerance.
    """


def _check_tolerance(tolerance: float | None) -> None:
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigError(f"--tolerance: must be a number of at least 0, not {tolerance}")


def _set_option(what: str, names: Sequence[str]) -> Callable[[Any], Any]:
    text = f"Change {what}: {', '.join(names)}. May be repeated."
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=text)


def _cell_options(given: Any) -> Any:
    for name, text in (("n_gpus", "number of GPUs"), ("nvs", "NVLink domain size"), ("gpu", "GPU"),
                       ("model", "model"), ("strategy", "strategy")):  # fmt: skip
        given = click.option(f"--{name.replace('_', '-')}", name, multiple=True, metavar="VALUE",
                             help=f"Only cells of this {text}; may be repeated.")(given)  # fmt: skip
    return given


@command.command("foundation-models", epilog="Examples: compcomm reproduce foundation-models | "
                 "compcomm reproduce foundation-models --set formulas=corrected --set network=2 -o out.csv | "
                 "compcomm reproduce foundation-models --strategy 1d --gpu A100 --nvs 8 --long")  # fmt: skip
@_set_option("the systems or the formulas", foundation_models.SETTABLE)
@_cell_options
@click.option("--tolerance", type=float, help="Largest relative error of a cell's time and memory. "
              f"[default: {foundation_models.TOLERANCE:g}; with --set nothing is checked]")  # fmt: skip
@click.option("--long", "long_form", is_flag=True, help="A table with one row a cell, not a summary.")
@click.option("--timing", "timed", is_flag=True, help="Put the seconds it took into the meta block.")
@options.format_options
def foundation(
    overrides: tuple[str, ...],
    tolerance: float | None,
    long_form: bool,
    timed: bool,
    path: str | None,
    form: str | None,
    **only: tuple[str, ...],
) -> int:
    """The best layouts of arXiv:2410.00273: all 360 published cells, each found again by searching every layout.

    A cell is a strategy (1D TP, 2D SUMMA, 2D with the sequence split), a model, a GPU, an NVLink domain and a number of
    GPUs; its row has the published and our time and memory, and our layout and placement.
    """
    form = options.prepare(form, path)
    _check_tolerance(tolerance)
    rows, meta = foundation_models.reproduce(overrides, only, timed)
    checks = tolerance is not None or not meta["given"]
    limit = foundation_models.TOLERANCE if tolerance is None else tolerance
    wrong = [row for row in rows if foundation_models.missed(row, limit)]
    meta |= {"tolerance": limit if checks else None, "missed": len(wrong) if checks else None}
    changed = ", ".join(f"{name} {value}" for name, value in meta["given"].items())
    verdict = (f"{len(rows) - len(wrong)} of {len(rows)} cells as published within {limit:g} (time, memory, layout and "
               "placement)" if checks else f"{len(rows)} cells with {changed}, not checked")  # fmt: skip
    heading = [meta["title"], f"{verdict}; {meta['candidates']:,} layouts searched"]
    if timed:
        heading.append(f"{meta['seconds']:.2f} s, {meta['candidates_per_s'] / 1e6:.1f} M layouts/s")
    brief = form in PEOPLE and not long_form
    records = foundation_models.summary(rows) if brief else rows
    code = options.write(path, lambda out: write_answer(out, form, records, meta, () if brief else SHOWN, heading))
    if not checks:
        tell(UNCHECKED)
    elif wrong:
        first = ", ".join(str(wrong[0][name]) for name in foundation_models.CELL)
        raise CheckFailedError(f"{len(wrong)} of {len(rows)} cells are not as published within {limit:g}: {first}, ...")
    return code


@command.command("amped", epilog="Examples: compcomm reproduce amped | compcomm reproduce amped --set "
                 "timing=micro-batch | compcomm sweep papers/amped-mappings")  # fmt: skip
@_set_option("the systems or the model", amped.SETTABLE)
@click.option("--tolerance", type=float, help="Largest relative error of the runs the paper validates with. "
              f"[default: {amped.TOLERANCE:g}, the paper's; with --set nothing is checked]")  # fmt: skip
@options.format_options
def amped_command(overrides: tuple[str, ...], tolerance: float | None, path: str | None, form: str | None) -> int:
    """AMPeD (ISPASS 2023): published runs of Megatron-LM beside ours, and what its three case studies conclude.

    The model is put together again from its abstract, its inputs and outputs, and memory; what is from memory says so.
    """
    form = options.prepare(form, path)
    _check_tolerance(tolerance)
    rows, meta = amped.reproduce(overrides)
    claims = amped.case_studies(overrides)
    limit = amped.TOLERANCE if tolerance is None else tolerance
    wrong = [row for row in rows if row["checked"] and abs(row["error"]) > limit]
    checks = tolerance is not None or not meta["given"]
    meta |= {"tolerance": limit if checks else None, "missed": len(wrong) if checks else None, "case_studies": claims}
    heading = [meta["title"], f"TFLOP/s of a GPU; runs: {amped.SOURCE}"]
    said = [f"{one['claim']} ({one['source']}): {one['ours']} ({one['study']})" for one in claims]
    notes = [*("note: " + text for text in amped.NOTES), "", "case studies, as published and ours:", *said]
    code = options.write(path, lambda out: write_answer(out, form, rows, meta, amped.SHOWN, heading, notes))
    if not checks:
        tell(UNCHECKED)
    elif wrong or any(one["holds"] is False for one in claims):
        failed = [*(row["model"] for row in wrong), *(one["claim"] for one in claims if one["holds"] is False)]
        raise CheckFailedError(f"not as published within {limit:g}: {'; '.join(failed)}")
    return code

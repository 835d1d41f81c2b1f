"""``compcomm validate``: published runs, and a user's own, predicted and compared with what was measured."""

from __future__ import annotations

from typing import IO

import click

from comp_comm.cli import completion, help_text, options, values
from comp_comm.cli.speech import tell
from comp_comm.errors import CheckFailedError, ConfigError
from comp_comm.records import Record, Records
from comp_comm.report import machine, table
from comp_comm.report.answer import basic_meta
from comp_comm.validation.refused import nothing_predicted
from comp_comm.validation.run import Validation, validate
from comp_comm.validation.table import LATER, shipped

SIGNED, SIZES = ("error", "bias"), ("median_abs_error", "mean_abs_error", "p90_abs_error")


EXAMPLES = (
    "Examples: compcomm validate | compcomm validate --gpu h100 --format json | "
    "compcomm validate --later | compcomm validate --runs my_runs.csv --max-error 0.1 | "
    "compcomm validate --explain r0032"
)


@click.command(cls=help_text.Grouped, epilog=EXAMPLES)
@click.option("--runs", metavar="FILE", help="Measured runs of your own, as CSV (- is standard input): a "
              "row a run, with the columns model, gpu, gpus, tp, pp, micro_batch, global_batch, seq_len, precision, "
              "step_s and others (docs/accuracy.md).")  # fmt: skip
@click.option("--later", is_flag=True, help="The runs that were found when the model was made, and that nothing of it "
              "was chosen on.")  # fmt: skip
@click.option("--hardware", metavar="NAME|FILE", help="Predict all runs on this profile: their machine's own.",
              shell_complete=completion.names("hardware"))  # fmt: skip
@click.option("--gpu", "devices", multiple=True, metavar="WORD", help="Only runs on a device with this in its name.")
@click.option("--group", "groups", multiple=True, metavar="WORD", help="Only runs of a group with this in its name.")
@click.option("--max-error", type=values.Share(most=1), metavar="SHARE",
              help="Exit 1 where the median size of the errors is above this (10% or 0.1).")  # fmt: skip
@click.option("--worst", type=click.IntRange(0, 10_000), default=12, show_default=True,
              help="Rows shown with the largest errors.")  # fmt: skip
@click.option("--explain", "run_id", metavar="RUN", help="Explain one run: every term of its step.")
@click.option("--plot", "picture", metavar="FILE", help="Also draw predicted against measured (.png or .svg).")
@options.quiet_option
@options.format_options
def command(
    runs: str | None, later: bool, hardware: str | None, devices: tuple[str, ...], groups: tuple[str, ...],
    max_error: float | None, worst: int, run_id: str | None, picture: str | None, path: str | None, form: str | None,
) -> int:  # fmt: skip
    """Predict every published run, or those of a table of your own, and compare with what was measured.

    An error is predicted over measured seconds of a step, less 1, whatever the source gives; the bias is the median
    with its sign (negative: predicted too fast). csv and jsonl give the runs, json their summary as well.
    """
    form = options.prepare(form, path)
    if max_error is not None and not max_error > 0:
        raise ConfigError(f"--max-error must be above 0, not {max_error:g}")
    if picture:
        from comp_comm.report.plot import check_plot

        check_plot(picture)
    if later and runs:
        raise ConfigError("--later and --runs: one or the other")
    result = validate(shipped(LATER) if later else runs, devices, groups, hardware or "")
    if run_id is not None:
        return _explain(result, run_id, form, path)
    if not result.counted:
        raise ConfigError(nothing_predicted(result.predictions))
    if hardware:
        options.note([f"all runs are predicted on {hardware}, whatever they ran on: what another device's run is "
                      "off by says nothing; --gpu keeps the runs of a device, each on its own profile"])  # fmt: skip
    options.note(result.notes())
    code = options.write(path, lambda out: _write(out, form, result, worst))
    if picture:
        from comp_comm.report.validation_plot import save_validation

        save_validation(picture, result, _meta(result))
        tell(f"wrote {picture}")
    if max_error is not None and result.largest() > max_error:
        raise CheckFailedError(f"the median error is {100 * result.largest():.1f} %, above {100 * max_error:g} %")
    return code


def _meta(result: Validation) -> Record:
    return basic_meta("validate", runs=len(result.predictions), counted=len(result.counted), notes=result.notes())


def _write(out: IO[str], form: str, result: Validation, worst: int) -> None:
    if form in machine.WRITERS:
        rows, ending = result.rows, {"summary": result.summary, "memory": result.memory, "worst": result.worst(worst)}
        machine.WRITERS[form](out, [machine.as_columns(rows)], list(rows[0]), _meta(result), lambda: ending)
        return
    count = f"{len(result.counted)} of {len(result.predictions)} runs"
    table.write_line(out, f"{count}: predicted over measured seconds of a step, less 1; the bias is the median", form)
    _section(out, [_shown(row) for row in result.summary], form)
    if result.memory:
        _section(out, [_shown(row) for row in result.memory], form)
    if worst:
        _section(out, [_shown(row) for row in result.worst(worst)], form)


def _section(out: IO[str], rows: Records, form: str) -> None:
    out.write("\n")
    table.write_records(out, rows, list(rows[0]), form)


def _shown(row: Record) -> Record:
    return {
        name: f"{100 * value:+.1f} %" if name in SIGNED else f"{100 * value:.1f} %" if name in SIZES else value
        for name, value in row.items()
    }  # fmt: skip


def _explain(result: Validation, run_id: str, form: str, path: str | None) -> int:
    from comp_comm.report import explain_table
    from comp_comm.sweeps.point import explain

    one = result.one(run_id)
    if one.point is None:
        raise ConfigError([one.problem])
    explanation = explain(one.point.study())
    options.note(explanation["meta"]["notes"])
    if one.error is not None:
        options.note([f"{run_id}: measured {one.measured_s:.4g} s, predicted {one.predicted_s:.4g} s: "
                      f"{100 * one.error:+.1f} %"])  # fmt: skip
    if form == "json":
        more = {"run_id": run_id, "measured_step_s": one.measured_s, "error": one.error, "assumed": one.point.assumed}
        return options.write(path, lambda out: machine.write_record(out, {**more, **explanation}))
    if form in machine.WRITERS:
        return options.write(path, lambda out: machine.write_rows(out, explanation["operations"], form))
    return options.write(path, lambda out: explain_table.write_explanation(out, explanation, form))

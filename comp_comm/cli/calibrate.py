"""``compcomm calibrate``: a profile from logs, or a profile against logs."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import IO, Any

import click

from comp_comm.calibration.measurements import OPERATORS, Log
from comp_comm.calibration.readers import read_logs
from comp_comm.calibration.readers.kernel_tables import KINDS, collective_kind
from comp_comm.calibration.run import Calibration, calibrate_logs, check_logs, number_rows, select
from comp_comm.choices import Precision
from comp_comm.cli import completion, help_text, options, values
from comp_comm.cli.speech import tell
from comp_comm.configs import catalogue
from comp_comm.errors import ConfigError, one_of
from comp_comm.records import Record
from comp_comm.report import machine, output, table
from comp_comm.report.answer import basic_meta

EXAMPLES = (
    "Examples: compcomm calibrate all_reduce.log gemms.csv --extends a100-sxm-80gb -o my-cluster.yaml | "
    "compcomm calibrate --check all_reduce.log --hardware my-cluster.yaml --format json | "
    "compcomm calibrate --runs my_runs.csv --extends h100-sxm -o my-cluster.yaml"
)
MOST_DEVICES = 10_000_000
FRACTIONS = ("mean_abs_error", "median_abs_error", "p90_abs_error", "bias")


@click.command(cls=help_text.Grouped, epilog=EXAMPLES)
@click.argument("logs", nargs=-1, metavar="[LOG...]")
@click.option("--runs", metavar="FILE", help="Instead of logs: measured training steps, one or more, "
              "as CSV (columns: 'compcomm validate --help'); fits what the machine sustains, the less far from the "
              "profile the fewer the runs.")  # fmt: skip
@click.option("--extends", metavar="NAME|FILE", help="The profile to start from: what is not fitted stays as it is.",
              shell_complete=completion.names("hardware"))  # fmt: skip
@click.option("--check", is_flag=True, help="Only measure the error of --hardware, fit nothing.")
@click.option("--hardware", metavar="NAME|FILE", help="With --check: the profile to measure.",
              shell_complete=completion.names("hardware"))  # fmt: skip
@click.option("-o", "--output", "path", metavar="FILE",
              help="The profile, as YAML (with --check: the answer, in the format of its extension).")  # fmt: skip
@click.option("--format", "form", type=values.Word(output.FORMATS), help="Of the errors. [default: table]")
@click.option("--precision", type=values.Word(Precision.words()), help="[default: 16 bit]")
@click.option("--operator", "operators", multiple=True, type=values.Word(OPERATORS[:4]),
              help="Only rows of this operator. May be repeated.")  # fmt: skip
@click.option("--attention-kernel", metavar="NAME", help="What ran the attention of the logs, one that the profile has "
              "numbers of. [default: what the device's stacks run]")  # fmt: skip
@click.option("--only", multiple=True, metavar="COLUMN=VALUE", help="Only rows of tables with this value.")
@click.option("--collective", metavar="NAME", help="What logs of nccl-tests are of, where they do not say.")
@click.option(
    "--devices", type=click.IntRange(2, MOST_DEVICES), help="How many devices took part, where logs do not say."
)
@click.option(
    "--gpus-per-node", "per_node", type=click.IntRange(1, MOST_DEVICES), help="How many of them are on one node."
)
@click.option("--train", type=values.Share(), metavar="SHARE",
              help="Fit on this share of the rows (80% or 0.8); errors are of the others.")  # fmt: skip
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Of the draw of rows that are held out.",
)
@click.option("--date", metavar="YYYY-MM-DD", help="Of the measurements, for the profile. [default: today]")
@click.option("--timing", "timing", metavar="NAME", help="With --check: a timing preset of the profile.")
@click.option("--plot", "picture", metavar="FILE", help="Also draw predicted against measured (.png or .svg).")
def command(logs: tuple[str, ...], path: str | None, form: str | None, check: bool, **given: Any) -> int:
    """Fit a profile's timing to measured kernels and collectives, or check a profile against them.

    LOGs are nccl-tests and rccl-tests output (or their JSON), rocblas-bench and hipblaslt-bench output, tables (CSV) of
    GEMMs, attention, element-wise kernels or collectives, and PyTorch profiler traces with shapes; what each is, is
    told from its content. Errors are of rows that the fit did not see. A number that the rows do not tell stays as it
    is, and is named.
    """
    runs = given.pop("runs")
    _check_source(logs, runs, check, given)
    form = _prepare(path, form, check, given)
    if runs is not None:
        from comp_comm.cli.calibrate_runs import calibrate_runs

        return calibrate_runs(runs, given["extends"], path, form, given["date"])
    if given["picture"]:
        from comp_comm.report.plot import check_plot

        check_plot(given["picture"])
    read = _read(logs, given)
    chosen = {name: given[name] for name in ("precision", "operators", "attention_kernel")}
    if check:
        calibration = check_logs(read, given["hardware"], timing=given["timing"], **chosen)
    else:
        calibration = calibrate_logs(read, given["extends"], train=given["train"], seed=given["seed"], **chosen)
    options.note(calibration.notes)
    output.check_not_read(path)
    options.write(path if check else None, lambda out: _write(out, form, calibration, read))
    if path and not check:
        _save(path, calibration, given, logs)
    if given["picture"]:
        from comp_comm.report.calibration_plot import save_calibration

        save_calibration(given["picture"], calibration, _meta(calibration, read))
        tell(f"wrote {given['picture']}")
    return 0


def _check_source(logs: Sequence[str], runs: str | None, check: bool, given: Record) -> None:
    """Refuse a command without logs and without runs, with both, and with flags that are for logs alone."""
    if runs is None:
        if not logs:
            raise ConfigError("give LOGs of kernels or collectives, or --runs FILE with measured training steps")
        return
    if logs:
        raise ConfigError(
            "give LOGs or --runs, not both: a profile that was fitted to logs can be extended with --runs"
        )
    if check:
        raise ConfigError("--check is for LOGs; 'compcomm validate --runs' measures the error on runs")
    of_logs = ("precision", "operators", "attention_kernel", "only", "collective", "devices", "per_node", "train")
    for flag in (*of_logs, "picture"):
        if given[flag]:
            name = {"operators": "operator", "per_node": "gpus-per-node", "picture": "plot"}.get(flag, flag)
            raise ConfigError(f"--{name.replace('_', '-')} is for LOGs, not for --runs")


def _prepare(path: str | None, form: str | None, check: bool, given: Record) -> str:
    """Refuse flags that do not go together, before anything is read."""
    if check and not given["hardware"]:
        raise ConfigError("--check needs --hardware NAME|FILE: the profile to measure")
    if not check and not given["extends"]:
        raise ConfigError("--extends NAME|FILE is missing: the profile to start from (or --check with --hardware)")
    flags = ("extends", "train", "date") if check else ("hardware", "timing")
    for flag in flags:
        if given[flag] is not None:
            raise ConfigError(f"--{flag} goes {'without' if check else 'with'} --check")
    if given["train"] is not None and not 0 < given["train"] < 1:
        raise ConfigError(f"--train: must be between 0 and 1, not {given['train']:g}")
    if given["date"] is not None:
        try:
            datetime.date.fromisoformat(given["date"])
        except ValueError:
            raise ConfigError(f"--date {given['date']}: write it as 2026-11-28") from None
    if given["collective"] is not None and collective_kind(given["collective"]) is None:
        raise ConfigError(f"--collective: there is no '{given['collective']}' ({one_of(sorted(set(KINDS.values())))})")
    if check:
        return options.prepare(form, path)
    output.check_ending("-o", path, "the profile is YAML (--format is of the errors)", catalogue.SUFFIXES)
    return options.prepare(form, None)


def _read(logs: Sequence[str], given: Record) -> list[Log]:
    only, kind = select(given["only"]), collective_kind(given["collective"] or "") or ""
    read = read_logs(logs, only, kind, given["devices"] or 0, given["per_node"] or 0)
    for log in read:
        tell(log.summary())
        options.note(log.notes)
    return read


def _meta(calibration: Calibration, read: Sequence[Log]) -> Record:
    logs = [{"file": log.file, "kind": log.kind, "rows": len(log.rows), "skipped": dict(log.skipped)} for log in read]
    return basic_meta("calibrate", **calibration.meta(), logs=logs, profile_sha256=calibration.profile.sha256)


def _write(out: IO[str], form: str, calibration: Calibration, read: Sequence[Log]) -> None:
    if form in machine.WRITERS:
        columns = list(calibration.rows[0])
        ending = {"by_size": calibration.by_size}
        machine.WRITERS[form](
            out, [machine.as_columns(calibration.rows)], columns, _meta(calibration, read), lambda: ending
        )
        return
    name = calibration.profile.name
    table.write_line(out, f"{name}: predicted over measured seconds, less 1; {calibration.how}", form)
    out.write("\n")
    for rows in (calibration.rows, calibration.by_size):
        table.write_records(out, [_percent(row) for row in rows], list(rows[0]), form)
        out.write("\n")
    numbers = number_rows(calibration)
    if calibration.fit is not None and numbers:
        table.write_records(out, numbers, list(numbers[0]), form)
        out.write("\n" + "".join(f"left as it is: {key}: {why}\n" for key, why in calibration.fit.left.items()))


def _percent(row: Record) -> Record:
    return {name: f"{100 * value:.1f} %" if name in FRACTIONS else value for name, value in row.items()}


def _save(path: str, calibration: Calibration, given: Record, logs: Sequence[str]) -> None:
    text = calibration.profile_file(path, given["extends"], logs, given["date"])
    with output.open_output(path) as out:
        out.write(text)
    tell(f"wrote {path}")

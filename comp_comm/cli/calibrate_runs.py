"""``compcomm calibrate --runs``: a machine's profile from a few measured training steps."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import IO

from comp_comm.calibration.fit import Fit, Fitted
from comp_comm.calibration.parameters import with_numbers
from comp_comm.calibration.profile_file import profile_text
from comp_comm.cli import options
from comp_comm.cli.speech import tell
from comp_comm.configs.catalogue import STDIN, STDIN_SHOWN
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.records import Record, Records
from comp_comm.report import machine, output, table
from comp_comm.report.answer import basic_meta
from comp_comm.validation.machine_fit import MachineFit, fit_machine, one_mixture
from comp_comm.validation.machines import check_devices
from comp_comm.validation.predict import Prediction, points_of
from comp_comm.validation.readings import Silent
from comp_comm.validation.refused import nothing_predicted
from comp_comm.validation.table import read_runs
from comp_comm.validation.words import check_words, doubtful_names

OPERATOR = "runs"


def calibrate_runs(runs: str, extends: str, path: str | None, form: str, date: str | None) -> int:
    """Fit a machine's numbers to measured runs, show what came of it, and write the profile."""
    silent = Silent()
    table_of_runs = read_runs(runs)
    check_words(table_of_runs)
    points, reasons = points_of(table_of_runs, silent)
    refused = [Prediction(run, reason=reasons[run.run_id]) for run in table_of_runs if run.run_id in reasons]
    if not points:
        raise ConfigError(nothing_predicted(refused))
    profile = load_profile(extends)
    check_devices([(point.run, point.machine) for point in points], profile)
    result = fit_machine([point.on(extends) for point in points], profile)
    options.note(
        [
            *doubtful_names(table_of_runs),
            *(f"left out: {one.problem}" for one in [*refused, *result.refused]),
            *silent.notes(),
        ]
    )
    output.check_not_read(path)
    options.write(None, lambda out: _write(out, form, result, profile.name))
    if path:
        numbers = {each.key: each.value for each in result.numbers}
        fitted = {each.key: Fitted(each.value, each.value / each.low, OPERATOR) for each in result.numbers}
        fit = Fit(with_numbers(profile, numbers), fitted, dict(result.left))
        text = profile_text(fit, extends, path, {OPERATOR: _source(result, runs)}, date or
                            datetime.date.today().isoformat())  # fmt: skip
        kinds = ", ".join(f"{kind}: {count}" for kind, count in result.counts.items())
        model = one_mixture(points)
        about = f'notes: ["calibrated for {model} alone: of other models its runs say little"]\n' if model else ""
        with output.open_output(path) as out:
            out.write(f"{text}calibrated_on: {{{kinds}}}\n{about}")
        tell(f"wrote {path}")
    return 0


def _source(result: MachineFit, runs: str) -> str:
    ranges = "; ".join(
        f"{each.key.split('.')[-1]} {each.low:.3g} to {each.high:.3g} at 80 %" for each in result.numbers
    )
    count = len(result.after)
    many = f"{count} measured run{'s' if count > 1 else ''} of {STDIN_SHOWN if runs == STDIN else Path(runs).name}"
    return f"compcomm calibrate on {many}, shrunk towards the profile it extends ({ranges})"


def _rows(result: MachineFit) -> Records:
    return [
        {"run_id": old.run.run_id, "measured_step_s": old.measured_s, "predicted_step_s": new.predicted_s,
         "error_before": old.error, "error": new.error}
        for old, new in zip(result.before, result.after, strict=True)
    ]  # fmt: skip


def _write(out: IO[str], form: str, result: MachineFit, name: str) -> None:
    rows, numbers = _rows(result), [each.record() for each in result.numbers]
    meta = basic_meta("calibrate", hardware=name, runs=len(rows), left=result.left)
    if form in machine.WRITERS:
        machine.WRITERS[form](out, [machine.as_columns(rows)], list(rows[0]), meta, lambda: {"numbers": numbers})
        return
    table.write_line(out, f"{name}: {len(rows)} measured steps; a number's range holds it at 80 %", form)
    for records in (numbers, [_shown(row) for row in rows]):
        out.write("\n")
        table.write_records(out, records, list(records[0]), form)
    out.write("\n" + "".join(f"left as it is: {key}: {why}\n" for key, why in result.left.items()))


def _shown(row: Record) -> Record:
    return {name: f"{100 * value:+.1f} %" if name.startswith("error") else value for name, value in row.items()}

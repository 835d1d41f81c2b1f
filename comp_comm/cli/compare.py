"""``compcomm compare``: two steps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import click

from comp_comm.cli import completion, help_text, options
from comp_comm.configs.overrides import Override, parse_override
from comp_comm.configs.study import Study, load_study, study_from
from comp_comm.records import Record
from comp_comm.report import output
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.report.stacks import Stacks, memory_stacks, step_stacks
from comp_comm.report.table import write_line, write_records
from comp_comm.sweeps.differences import differing_fields, side_names, why_faster
from comp_comm.sweeps.point import ComparedTerm, compared, point_of, verdict


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm compare llama-step --set-b tp=4 | "
               "compcomm compare llama-step --set-b hardware=b200 | "
               "compcomm compare --model llama-2-7b --hardware h100 --set gpus=64 --set global_batch=1024 "
               "--set-b optimizer=muon | "
               "compcomm compare llama-step --set-b zero=3 --plot sides.png")  # fmt: skip
@click.argument("a", required=False, shell_complete=completion.names("study"))
@click.argument("b", required=False, shell_complete=completion.names("study"))
@options.model_option
@click.option("--hardware", metavar="NAME|FILE", help="Hardware profile.", shell_complete=completion.names("hardware"))
@options.set_option
@click.option("--set-a", multiple=True, metavar="KEY=VALUE",
              help="As --set, for the first only, in place of --set. May be repeated.",
              shell_complete=completion.settings)  # fmt: skip
@click.option("--set-b", multiple=True, metavar="KEY=VALUE",
              help="As --set, for the second only, in place of --set. May be repeated.",
              shell_complete=completion.settings)  # fmt: skip
@options.plot_option("both steps and what their devices hold, as stacked bars,")
@options.format_options
def command(a: str | None, b: str | None, model: str | None, hardware: str | None, overrides: tuple[str, ...],
            path: str | None, form: str | None, picture: str | None, **given: tuple[str, ...]) -> int:  # fmt: skip
    """Two studies of one point each, A and B, side by side: every term of the step, its memory and communication.

    B may be left out: it is A with other values (--set-b). A may be, too: both are then what flags and --set say. The
    sides are named by the fields in which they differ.
    """
    form = options.prepare(form, path)
    in_file = options.check_picture(picture, form)
    both = [*map(parse_override, overrides), *options.given_flags(model=model), *options.hardware_override(hardware)]
    if a is None and not both:
        raise click.UsageError("A is missing: a study, or --model llama-3-8b --hardware h100 --set gpus=64",
                               click.get_current_context())  # fmt: skip
    if b is None and not (given["set_a"] or given["set_b"]):
        raise click.UsageError("B is missing: another study, or --set-b KEY=VALUE", click.get_current_context())
    left, right = (_study(reference, both, [parse_override(text, flag) for text in own]) for reference, flag, own
                   in ((a, "--set-a", given["set_a"]), (b or a, "--set-b", given["set_b"])))  # fmt: skip
    steps = [point_of(study)[1] for study in (left, right)]
    rows, changed = compared(*steps), differing_fields(left, right)
    names = side_names(left, right, changed)
    reason = why_faster(rows, names)
    broken = [verdict(step).reason for step in steps]
    warnings = [f"{name} is not feasible: {why_not}" for name, why_not in zip(names, broken, strict=True) if why_not]
    meta = basic_meta("compare", a=_about(left, broken[0]), b=_about(right, broken[1]), differs=changed, why=reason,
                      notes=warnings)  # fmt: skip
    options.note(warnings)
    for target in (path, picture):
        output.check_not_read(target)

    def write(out: IO[str]) -> None:
        if form not in ("table", "markdown"):
            write_answer(out, form, rows, meta)
            return
        for name, study in zip(names, (left, right), strict=True):
            write_line(out, f"{name}: {study.title}", form)
        for line in (reason, *warnings):
            write_line(out, line, form)
        out.write("\n" if changed else "\nThe two are the same.\n")
        if changed:
            write_records(out, [_named(row, names) for row in changed], ["differs", *names], form)
        out.write("\n")
        write_records(out, [_named({**row}, names) for row in rows], ["term", *names, "difference", "ratio"], form)
        if picture == "-":
            from comp_comm.report.terminal_plot import write_stacks

            write_stacks(out, _stacks(names, rows))

    code = options.write(path, write)
    if in_file:
        from comp_comm.report.stacks_plot import draw_stacks

        drawn = {"title": " and ".join(names)}
        options.draw(str(picture), draw_stacks(_stacks(names, rows), drawn, [left.title, right.title]), drawn)
    return code


def _study(reference: str | None, both: Sequence[Override], own: Sequence[Override]) -> Study:
    """Return a side's study: what is its own takes the place of what is said for both."""
    keys = {each.key for each in own}
    overrides = (*(each for each in both if each.key not in keys), *own)
    return load_study(reference, overrides) if reference else study_from({}, overrides=overrides)


def _stacks(names: tuple[str, str], rows: Sequence[ComparedTerm]) -> list[Stacks]:
    """Return the bars of both steps, and those of their memory."""
    terms = [{row["term"]: row["a"] for row in rows}, {row["term"]: row["b"] for row in rows}]
    memory = [{name.removeprefix("memory."): value for name, value in side.items() if name.startswith("memory.")}
              for side in terms]  # fmt: skip
    return [step_stacks(names, terms), memory_stacks(names, memory)]


def _named(row: Record, names: tuple[str, str]) -> Record:
    """Return a row whose two sides go by their names."""
    return {names[0] if name == "a" else names[1] if name == "b" else name: value for name, value in row.items()}


def _about(study: Study, broken: str | None) -> Record:
    hardware = {profile.name: {"sha256": profile.sha256} for profile in study.profiles}
    return {"title": study.title, "study_sha256": study.sha256(), "hardware": hardware,
            "fixed": dict(sorted(study.fixed.items())), "feasible": broken is None, "reason": broken}  # fmt: skip

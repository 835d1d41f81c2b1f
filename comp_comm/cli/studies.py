"""``compcomm studies``: the catalogue's studies."""

from __future__ import annotations

import click

from comp_comm.cli import help_text, options, values
from comp_comm.configs import catalogue
from comp_comm.configs.study import load_study
from comp_comm.records import Record
from comp_comm.report.answer import basic_meta, write_answer


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm studies | compcomm studies llama")
@click.argument("word", required=False)
@options.format_options
def command(word: str | None, path: str | None, form: str | None) -> int:
    """List the catalogue's studies: title, cost model, model, hardware, and what moves in each.

    With WORD only those whose name or title has it. Any of them is a STUDY for sweep, explain, search and the others,
    and 'compcomm init --like NAME' writes one to a file.
    """
    form = options.prepare(form, path)
    rows = values.with_word([_row(name) for name in catalogue.names("study")], word, ("name", "title"))
    return options.write(path, lambda out: write_answer(out, form, rows, basic_meta("studies")))


def _row(name: str) -> Record:
    study = load_study(name)
    return {
        "name": name, "title": study.title, "cost_model": study.cost_model,
        "model": study.model.name if study.model else None,
        "hardware": ", ".join(profile.name for profile in study.profiles),
        "axes": ", ".join(name for axis in study.axes for name in axis.values) or None,
    }  # fmt: skip

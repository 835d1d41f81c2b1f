"""``compcomm columns``: the dictionary of fields and columns."""

from __future__ import annotations

import click

from comp_comm.cli import help_text, options, values
from comp_comm.costmodels import COST_MODELS
from comp_comm.fields import FIELDS
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.searches.columns import COLUMNS


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm columns memory | compcomm columns --format markdown")
@click.argument("word", required=False)
@options.format_options
def command(word: str | None, path: str | None, form: str | None) -> int:
    """What may be set or swept (fields), and what comes out (columns): units, bounds, meaning.

    With WORD only those whose name or meaning has it.
    """
    form = options.prepare(form, path)
    fields = [
        {"name": f.name, "kind": f.group, "unit": f.unit, "allowed": f.allowed(),
         "default": None if f.default is None else str(f.default), "meaning": f.help}
        for f in FIELDS.values()
    ]  # fmt: skip
    outputs = [
        {"name": c.name, "kind": f"output of {model.name}", "unit": c.unit, "allowed": None, "default": None,
         "meaning": c.help}
        for model in COST_MODELS.values() for c in model.columns.values()
    ]  # fmt: skip
    outputs += [
        {"name": name, "kind": "output of search", "unit": unit, "allowed": None, "default": None, "meaning": about}
        for name, (unit, about) in COLUMNS.items()
    ]
    rows = values.with_word([*fields, *outputs], word, ("name", "kind", "meaning"))
    return options.write(path, lambda out: write_answer(out, form, rows, basic_meta("columns")))

"""``compcomm solve``: the inverse question."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from comp_comm.cli import completion, help_text, options
from comp_comm.costmodels import COST_MODELS, default_model
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS, solvable
from comp_comm.report.answer import write_answer
from comp_comm.report.table import setup_line
from comp_comm.searches.objectives import OBJECTIVES
from comp_comm.sweeps.solve import ask, solve


def _solvable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return completion.last(incomplete, solvable(FIELDS))


DEVICES = ("gpus", "dp")
LAYER = next(each.name for each in COST_MODELS.values() if each.own_hardware)  # its fields alone ask about one layer


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm solve --target serialized_comm_fraction=20% --for network "
               "--hidden 64K --seq-len 4K --micro-batch 1 --tp 256 | compcomm solve llama-step --target mfu=50% --for "
               "network | compcomm solve future --target overlap_ratio=1 --for seq_len")  # fmt: skip
@partial(options.point_options, fields=FIELDS)
@click.option("--target", required=True, metavar="COLUMN=VALUE", shell_complete=completion.columns,
              help="The column and the value it shall have (0.3 or 30%). Needed.")  # fmt: skip
@click.option("--for", "wanted", required=True, metavar="FIELD", shell_complete=_solvable,
              help=f"The field to choose: {', '.join(solvable(FIELDS))}. Needed.")  # fmt: skip
@click.option("--between", nargs=2, type=float, metavar="LOW HIGH", help="Where to look for it.")
@options.quiet_option
@options.format_options
def command(target: str, wanted: str, between: tuple[float, float] | None, path: str | None, form: str | None,
            **given: Any) -> int:  # fmt: skip
    """Find the value of a field at which a column meets a target, given the rest: a STUDY, flags, or both.

    Where the study has axes, each of their points is solved; a point with several solutions has a row for each. For a
    whole-number field the value is real, and the valid neighbours are shown with the column at them.
    """
    form = options.prepare(form, path)
    column, equals, number = (part.strip() for part in target.partition("="))
    if column in OBJECTIVES and not OBJECTIVES[column].needs:  # as in --crossover: comm is visible_comm_fraction
        column = OBJECTIVES[column].column
    with options.naming("--target"):
        if not equals:
            raise ValueError(f"'{target}' must be COLUMN=VALUE")
        share = number.endswith("%")
        goal = options.parse_number(number.removesuffix("%")) / (100 if share else 1)
    if goal >= 2 and column.endswith(("mfu", "hfu", "_fraction")):
        hint = "" if share else f": write {number}%"
        raise ConfigError(f"--target: {column} is a share, at most {'100%' if share else '1'}{hint}")
    if wanted in DEVICES:
        raise ConfigError(f"--for: '{wanted}' cannot be solved for: each number of devices has a best layout of its "
                          f"own. 'compcomm search --gpus 64,128,256 --crossover {target}' says between which two "
                          "the best passes the value")  # fmt: skip
    question = ask(column, goal, wanted, between)
    if given.get(question.field) is not None:
        raise ConfigError(f"{FIELDS[question.field].flag} is what is solved for; leave it out")
    chosen = options.point_study(given)
    known = {*chosen.fixed, wanted}
    if not given["study"] and chosen.cost_model is None and not set(default_model().required) <= known:
        chosen.cost_model = LAYER
    rows, meta = solve(chosen, question)
    options.note(chosen.notes)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in columns} for row in rows]
    shown = [n for n in columns if n not in ("solved_for", "column", "target", "value", "achieved", "reason")]
    shown = [name for name in shown if any(row[name] is not None for row in rows)]
    shown += ["achieved"] + (["reason"] if any(row["reason"] for row in rows) else [])
    heading = [f"{question.field} at which {question.column} = {question.target:g}", setup_line(meta)]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading))

"""``compcomm solve``: the inverse question."""

from __future__ import annotations

import click

from comp_comm.cli import options
from comp_comm.configs.study import load_study, study_from
from comp_comm.costmodels import MODELS
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS, solvable
from comp_comm.report.answer import write_answer
from comp_comm.report.table import setup_line
from comp_comm.sweeps.solve import ask, solve

FLAGS = ("hidden", "seq_len", "micro_batch", "tp", "dp", "flop_vs_bw", "flops", "network", "memory_bandwidth",
         "precision", "count", "timing")  # fmt: skip
# Without a study the question is about one layer, as these flags are.
FLAGS_ALONE = {"title": "Command line", "cost_model": next(each.name for each in MODELS if each.own_hardware)}


@click.command(epilog="Examples: compcomm solve --target serialized_comm_fraction=0.2 --for network --hidden 64K "
               "--seq-len 4K --micro-batch 1 --tp 256 | "
               "compcomm solve future --target overlap_ratio=1 --for seq_len")  # fmt: skip
@click.argument("study", required=False, shell_complete=options.complete_names("study"))
@click.option("--target", required=True, metavar="COLUMN=VALUE", help="The column and the value it shall have.")
@click.option("--for", "wanted", required=True, metavar="FIELD",
              help=f"The field to choose: {', '.join(solvable(FIELDS))}.")  # fmt: skip
@click.option("--between", nargs=2, type=float, metavar="LOW HIGH", help="Where to look for it.")
@click.option("--hardware", metavar="NAME|FILE", help="Hardware profile. [default: the study's, or mi210]",
              shell_complete=options.complete_names("hardware"))  # fmt: skip
@options.field_options(FLAGS)
@options.set_option
@options.format_options
def command(
    study: str | None,
    target: str,
    wanted: str,
    between: tuple[float, float] | None,
    hardware: str | None,
    overrides: tuple[str, ...],
    path: str | None,
    form: str | None,
    **fields: object,
) -> int:
    """Find the value of a field at which a column meets a target, given the rest: a study, flags, or both.

    Where the study has axes, each of their points is solved; a point with several solutions has a row for each. For a
    whole-number field the value is real, and the valid neighbours are shown with the column at them.
    """
    form = options.prepare(form, path)
    column, equals, number = target.partition("=")
    with options.naming("--target"):
        if not equals:
            raise ValueError(f"'{target}' must be COLUMN=VALUE")
        goal = options.parse_number(number)
    question = ask(column.strip(), goal, wanted, between)
    if fields.get(question.field) is not None:
        raise ConfigError(f"{FIELDS[question.field].flag} is what is solved for; leave it out")
    given = (*overrides, *options.given_flags(**fields, hardware=hardware))
    chosen = load_study(study, given) if study else study_from(FLAGS_ALONE, overrides=given)
    rows, meta = solve(chosen, question)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in columns} for row in rows]
    shown = [n for n in columns if n not in ("solved_for", "column", "target", "value", "achieved", "reason")]
    shown += ["achieved"] + (["reason"] if any(row["reason"] for row in rows) else [])
    heading = [f"{question.field} at which {question.column} = {question.target:g}", setup_line(meta)]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading))

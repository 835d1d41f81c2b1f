"""``compcomm compare``: two steps side by side."""

from __future__ import annotations

from typing import Any

import click

from comp_comm.cli import options
from comp_comm.configs.study import load_study
from comp_comm.records import Record
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.sweeps.point import compare


@click.command(epilog="Examples: compcomm compare llama-step llama-step --set-b tp=4 | "
               "compcomm compare a.yaml b.yaml --set hardware=b200-sxm --format json")  # fmt: skip
@click.argument("a", shell_complete=options.complete_names("study"))
@click.argument("b", shell_complete=options.complete_names("study"))
@options.set_option
@click.option("--set-a", multiple=True, metavar="KEY=VALUE", help="As --set, for the first only. May be repeated.")
@click.option("--set-b", multiple=True, metavar="KEY=VALUE", help="As --set, for the second only. May be repeated.")
@options.format_options
def command(a: str, b: str, overrides: tuple[str, ...], path: str | None, form: str | None, **given: Any) -> int:
    """Two studies of one point each, A and B, side by side: every term of the step, its memory and communication.

    B may be the same study as A, with another value (--set-b).
    """
    form = options.prepare(form, path)
    left, right = load_study(a, (*overrides, *given["set_a"])), load_study(b, (*overrides, *given["set_b"]))
    rows = compare(left, right)
    meta = basic_meta("compare", a=_about(left), b=_about(right))
    heading = [f"A: {left.title}", f"B: {right.title}"]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, heading=heading))


def _about(study: Any) -> Record:
    hardware = {profile.name: {"sha256": profile.sha256} for profile in study.profiles}
    return {"title": study.title, "study_sha256": study.sha256(), "hardware": hardware,
            "fixed": dict(sorted(study.fixed.items()))}  # fmt: skip

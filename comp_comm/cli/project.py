"""``compcomm project``: other sizes from one measured iteration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import IO, Any

import click

from comp_comm.calibration.projection import (
    SIZES,
    Iteration,
    compare,
    error_summary,
    from_logs,
    from_table,
    law_of,
    projection_notes,
    projection_rows,
)
from comp_comm.calibration.readers import is_json, read_logs
from comp_comm.calibration.readers.tables import header_of, parse
from comp_comm.calibration.readers.text import open_source
from comp_comm.cli import help_text, options
from comp_comm.cli.speech import tell
from comp_comm.configs.overrides import listed_value
from comp_comm.configs.strict_yaml import load_value
from comp_comm.errors import ConfigError, one_of
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.report import table
from comp_comm.report.answer import basic_meta, write_answer

MOST = 100_000
TABLE = {"operator", *SIZES}


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm project trace.json.gz --baseline hidden=1024,seq_len=512,micro_batch=4,tp=2 "
               "--hidden 4K,16K --tp 8 | compcomm project iterations.csv --format json")  # fmt: skip
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option("--baseline", metavar="NAME=SIZE,...", help="Sizes of the measured iteration: hidden, seq_len, "
              "micro_batch and tp. With a table: which of its iterations it is. [default: its first]")  # fmt: skip
@click.option("--hidden", multiple=True, metavar="H[,H]", help="To project to; several with commas. "
              "[default: the baseline's]")  # fmt: skip
@click.option("--seq-len", multiple=True, metavar="SL[,SL]", help="To project to; several with commas.")
@click.option("--micro-batch", multiple=True, metavar="B[,B]", help="To project to; several with commas.")
@click.option("--tp", multiple=True, metavar="TP[,TP]", help="To project to; several with commas.")
@options.format_options
def command(logs: tuple[str, ...], baseline: str | None, path: str | None, form: str | None, **given: Any) -> int:
    """Scale each operator of one measured iteration by its own law to other H, SL, B and TP.

    LOG is a profile of kernels (rocprof, nsys, a PyTorch trace), or a table with the columns hidden, seq_len,
    micro_batch, tp, operator and time_us. A table of several iterations gives the error of projecting its first one
    (or --baseline) to the others.
    """
    form = options.prepare(form, path)
    asked = {name: [size for text in given[name] for size in _several(name, text)] for name in SIZES}
    iterations = _iterations(logs)
    if iterations:
        base = _chosen(iterations, baseline)
    else:
        if baseline is None:
            raise ConfigError("--baseline is missing: a profile of kernels does not say its sizes, for instance "
                              "--baseline hidden=1024,seq_len=512,micro_batch=4,tp=2")  # fmt: skip
        base = from_logs(_read(logs), _sizes(baseline))
    laws = {name: law_of(name).words for name in base.seconds}
    meta = basic_meta("project", baseline={**base.sizes}, laws=laws)
    if any(asked.values()):
        targets = _targets(base, asked)
        rows = projection_rows(base, targets)
        options.note(projection_notes(base, targets))
        heading = [f"projected from {_shown(base)}"]
        return options.write(path, lambda out: write_answer(out, form, rows, meta, (), heading))
    rows = compare(base, iterations)
    options.note(projection_notes(base, [one.sizes for one in iterations if one.sizes != base.sizes]))
    if not rows:
        raise ConfigError("nothing to project to: give sizes (--hidden, --seq-len, --micro-batch, --tp), or a table of "
                          "several iterations to compare with")  # fmt: skip
    meta["errors"] = error_summary(rows)
    return options.write(path, lambda out: _write_comparison(out, form, rows, meta, base))


def _write_comparison(out: IO[str], form: str, rows: Records, meta: Record, base: Iteration) -> None:
    heading = [f"projected from {_shown(base)}, against what was measured"]
    write_answer(out, form, rows, meta, (), heading)
    if form in table.STYLES:
        out.write("\n")
        table.write_records(out, meta["errors"], list(meta["errors"][0]), form)


def _iterations(logs: tuple[str, ...]) -> list[Iteration]:
    """Return the iterations of a table of them; none where the logs are profiles of kernels."""
    source = open_source(logs[0])
    if is_json(source):
        return []
    first = next((line for _, line in source.lines() if line.strip()), "")
    if not set(header_of(first)) >= TABLE:
        return []
    if len(logs) > 1:
        raise ConfigError("one table of iterations at a time, please")
    return from_table(parse(logs[0], source.lines()))


def _read(logs: tuple[str, ...]) -> list[Any]:
    read = read_logs(logs)
    for log in read:
        tell(log.summary())
        options.note(log.notes)
    return read


def _several(name: str, text: str) -> list[int]:
    """Return the sizes that a flag gives: one, or several with commas between them."""
    flag = FIELDS[name].flag
    given = load_value(listed_value(name, text, flag), flag, name).data[name]
    return [_size(name, raw, flag) for raw in (given if isinstance(given, list) else [given])]


def _size(name: str, raw: object, flag: str) -> int:
    with options.naming(flag):
        value = FIELDS[name].parse(raw)
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{flag}: must be one whole number of at least 1, not '{raw}'")
    return value


def _sizes(text: str) -> dict[str, int]:
    sizes = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip() not in SIZES:
            raise ConfigError(f"--baseline: there is no size '{name.strip()}' ({one_of(SIZES)})")
        name, flag = name.strip(), f"--baseline {name.strip()}"
        sizes[name] = _size(name, load_value(value, flag, name).data[name], flag)
    missing = [name for name in SIZES if name not in sizes]
    if missing:
        raise ConfigError(f"--baseline: {', '.join(missing)} missing; all of {', '.join(SIZES)} are needed")
    return sizes


def _chosen(iterations: list[Iteration], baseline: str | None) -> Iteration:
    if baseline is None:
        return iterations[0]
    sizes = _sizes(baseline)
    chosen = next((one for one in iterations if one.sizes == sizes), None)
    if chosen is None:
        raise ConfigError(f"--baseline {baseline}: the table has no iteration of these sizes")
    return chosen


def _targets(base: Iteration, asked: Mapping[str, list[int]]) -> list[dict[str, int]]:
    axes = [asked[name] or [base.sizes[name]] for name in SIZES]
    targets = [dict(zip(SIZES, values, strict=True)) for values in itertools.product(*axes)]
    if len(targets) > MOST:
        raise ConfigError(f"{len(targets):,} sets of sizes are more than {MOST:,}")
    return targets


def _shown(base: Iteration) -> str:
    return ", ".join(f"{name} {value}" for name, value in base.sizes.items())

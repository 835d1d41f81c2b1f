"""``compcomm models``: list and show."""

from __future__ import annotations

import click
import numpy as np

from comp_comm.cli import completion, help_text, options, values
from comp_comm.configs import catalogue
from comp_comm.configs.model_file import Model, load_any, load_model
from comp_comm.configs.model_names import DIMENSIONS
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.fields import FIELDS
from comp_comm.records import Record
from comp_comm.report import machine
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.transformer import Transformer

names = completion.names("model")
SHAPE = ("architecture", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "experts", "top_k", "vocab", "seq_len")
IN_TABLE = ("name", "title", "year", "parameters", "active (1e9)", *SHAPE[1:])
# Dimensions that a table shows though nobody gave them; the others follow, or are off.
ALWAYS = ("architecture", "kv_heads", "head_dim", "ffn_hidden", "gated", "norm", "bias", "position", "tied", "seq_len")


@click.group(
    cls=help_text.Commands,
    epilog="Examples: compcomm models list | compcomm models show llama-3-8b | compcomm models show config.json",
)
def command() -> None:
    """Models: their dimensions, parameters and where these are from; a file of your own is shown as well."""


@command.command("list", epilog="Examples: compcomm models list llama | compcomm models list --format csv")
@click.argument("word", required=False)
@options.format_options
def list_command(word: str | None, path: str | None, form: str | None) -> int:
    """List the catalogue: parameters, those a token uses, and dimensions. With WORD only models whose name has it."""
    form = options.prepare(form, path)
    models = [load_model(name) for name in catalogue.names("model")]
    named = [{"name": model.name, "title": model.title, "model": model} for model in models]
    rows = [_row(each["model"]) for each in values.with_word(named, word, ("name", "title"))]
    meta = basic_meta("models list")
    if form in machine.WRITERS:
        return options.write(path, lambda out: write_answer(out, form, rows, meta))
    shown = [{**row, "active (1e9)": f"{row['active_parameters'] / 1e9:.4g}"} for row in rows]
    return options.write(path, lambda out: write_answer(out, form, shown, meta, IN_TABLE))


def _row(model: Model) -> Record:
    transformer = model.transformer()
    total, active, apart = (int(count) for count in model_parameters(transformer))
    about = {"name": model.name, "title": model.title, "year": model.year or None, "parameters": total,
             "active_parameters": active, "mtp_parameters": apart}  # fmt: skip
    return about | {name: _dimension(model, transformer, name) for name in SHAPE} | {"source": model.source}


def _short(count: int) -> str:
    """Return a count as people write it.

    >>> _short(6738415616), _short(124439808)
    ('6.738 B', '124.4 M')
    """
    return f"{count / 1e9:,.4g} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


# Dimensions that mean nothing where the model does not have another one.
FOLLOWS = {"index_dim": "index_heads", "index_topk": "index_heads"}


def _dimension(model: Model, transformer: Transformer, name: str) -> object:
    """Return a dimension as it follows from what is given: a word, a number, or None where there is none."""
    if name == "parameters" or (name == "seq_len" and name not in model.fields):
        return None
    value = getattr(transformer, name)
    if FIELDS[name].kind == "choice":
        return FIELDS[name].words[int(value)]
    if FIELDS[name].kind == "text":
        return model.fields.get(name)
    if name in FOLLOWS and FOLLOWS[name] not in model.fields:
        return None
    number = float(np.asarray(value))
    if not np.isfinite(number):
        return None
    return int(number) if number == int(number) and FIELDS[name].kind == "int" else number


@command.command(
    "show", epilog="Examples: compcomm models show deepseek-v3 | compcomm models show config.json --format json"
)
@click.argument("name", metavar="NAME|FILE", shell_complete=names)
@options.format_options
def show_command(name: str, path: str | None, form: str | None) -> int:
    """Show a model: exact parameters, every dimension, and its source. FILE may be anything that 'import' takes."""
    form = options.prepare(form, path)
    description = describe(load_any(name))
    if form == "json":
        return options.write(path, lambda out: machine.write_record(out, description))
    given = {**description["study"].get("set", {}), **description["fields"]}
    counts = {"parameters", *(key for key in description if key not in DIMENSIONS)}
    rows = [{"key": key, "value": value, "given": None if key in counts else key in given}
            for key, value in description.items() if not isinstance(value, (dict, list))]  # fmt: skip
    if form in machine.WRITERS:
        return options.write(path, lambda out: write_answer(out, form, rows, description["meta"]))
    shown = [{"key": row["key"], "value": _cell(row), "": _remark(row)} for row in rows if _is_shown(row)]
    heading = [f"{description['name']}: {description['title']}", f"source: {description['source']}"]
    notes = [f"also called: {', '.join(description['aliases'])}"] * bool(description["aliases"])
    notes += [f"{key}: {value}" for key, value in description["layout"].items()]
    notes += [f"note: {text}" for text in description["notes"]]
    columns = ("key", "value", "")
    return options.write(path, lambda out: write_answer(out, form, shown, description["meta"], columns, heading, notes))


def _is_shown(row: Record) -> bool:
    if row["key"] in ("name", "title", "source") or row["value"] in (None, ""):
        return False
    return row["given"] is not False or row["key"] in ALWAYS


def _cell(row: Record) -> str:
    value = row["value"]
    return f"{value:,.0f}" if row["given"] is None and row["key"] != "year" else str(value)


def _remark(row: Record) -> str:
    """Return a count as people say it; that a dimension is not given but follows from others, or is the usual one."""
    if row["given"] is None:
        return _short(row["value"]) if row["key"] != "year" else ""
    return "" if row["given"] else "not given"


def describe(model: Model) -> Record:
    """Return everything about a model: exact counts of parameters, every dimension, and what it is made of.

    ``fields`` are the dimensions that are given, ``layout`` what a file says beside the model; ``study`` is all of it
    as a study, which 'import' takes as it is.

    >>> found = describe(load_model("gpt2"))
    >>> found["parameters"], found["head_dim"], found["study"]["set"]["hidden"]
    (124439808, 64, 768)
    """
    transformer = model.transformer()
    total, active, apart = (int(count) for count in model_parameters(transformer))
    vocab = int(float(np.asarray(transformer.vocab))) * int(float(np.asarray(transformer.hidden)))
    study = model.study or {"title": model.title, "set": dict(model.fields)}
    return {
        "meta": basic_meta("models show"),
        "name": model.name,
        "title": model.title,
        "year": model.year or None,
        "source": model.source,
        "parameters": total,
        "active_parameters": active,
        "mtp_parameters": apart,
        "embedding_parameters": vocab,
        "published_parameters": model.published_parameters,
        "nominal_parameters": model.fields.get("parameters"),
        **{name: _dimension(model, transformer, name) for name in DIMENSIONS if name != "parameters"},
        "aliases": list(model.aliases),
        "notes": list(model.notes),
        "fields": dict(model.fields),
        "layout": model.layout,
        "study": study,
    }

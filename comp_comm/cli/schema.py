"""``compcomm schema``: JSON Schemas, so that editors complete studies, profiles and models."""

from __future__ import annotations

import click

from comp_comm.cli import help_text, options, values
from comp_comm.configs.schemas import hardware_schema, model_schema, study_schema
from comp_comm.costmodels import COST_MODELS
from comp_comm.records import Record
from comp_comm.report import machine, output

KINDS = ("study", "hardware", "model")


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm schema study -o study.schema.json | compcomm schema "
               "hardware -o hardware.schema.json")  # fmt: skip
@click.argument("kind", type=values.Word(KINDS), default="study")
@click.option("-o", "--output", "path", metavar="FILE", help="Write to FILE, whole or not at all.")
def command(kind: str, path: str | None) -> int:
    """JSON Schema of a kind of YAML file: study (if not said), hardware profile, or model.

    An editor with a YAML language server completes keys, words and names by it, and marks what is wrong. In VS Code
    with the YAML extension, settings.json: "yaml.schemas": {"./study.schema.json": "studies/*.yaml"}; or the first line
    of a study: # yaml-language-server: $schema=study.schema.json
    """
    output.check_ending("-o", path, "a schema is JSON", (".json",))
    return options.write(path, lambda out: machine.write_record(out, made(kind)))


def made(kind: str) -> Record:
    """Return the schema of a kind of file."""
    if kind == "study":
        return study_schema(tuple(COST_MODELS))
    return hardware_schema() if kind == "hardware" else model_schema()

"""``compcomm import``: a file that people hold, as a study."""

from __future__ import annotations

from dataclasses import replace
from typing import IO

import click

from comp_comm.cli import completion, help_text, options
from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.importers.imported import Imported
from comp_comm.configs.importers.reading import import_text, text_of
from comp_comm.configs.importers.study_text import study_text
from comp_comm.configs.model_file import load_model, model_of
from comp_comm.configs.overrides import read_settings
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS, Value
from comp_comm.report import output


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm import config.json --hardware h100-sxm -o study.yaml | compcomm import "
               "pretrain.sh --set gpus=1024 | compcomm import ds_config.json --model llama-2-7b")  # fmt: skip
@click.argument("file")
@click.option("--hardware", metavar="NAME|FILE", help="Hardware profile of the study.",
              shell_complete=completion.names("hardware"))  # fmt: skip
@click.option("--model", metavar="NAME|FILE", help="Model of the study, for a file that has none.",
              shell_complete=completion.names("model"))  # fmt: skip
@click.option("--recipe", default="", metavar="NAME",
              help="Which of several recipes of a Python file: the function that makes it.")  # fmt: skip
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE",
              help="Give a field that the file leaves open, or another value. May be repeated.")  # fmt: skip
@click.option("-o", "--output", "path", metavar="FILE", help="Write the study to FILE, whole or not at all.")
def command(
    file: str, hardware: str | None, model: str | None, recipe: str, overrides: tuple[str, ...], path: str | None
) -> int:
    """Make a study of a file you hold.

    FILE (- for standard input) is a Hugging Face config.json; a launch script of Megatron-LM (or its arguments),
    MaxText, ms-swift or a program on Hugging Face's Trainer; a DeepSpeed JSON, a torchtitan TOML, an
    adapter_config.json of PEFT; a YAML of NeMo, nanotron, LLM Foundry, GPT-NeoX, Primus, FlagScale, MaxText, Axolotl,
    LLaMA-Factory, torchtune, accelerate or of TrainingArguments; or a recipe in Python of Megatron-Bridge, NeMo 2 or
    torchtitan. Its kind is told by what it holds. A script or a program is read, never run; shell scripts need the
    extra 'import'. If anything is not understood, all of it is named and nothing is written; what is approximated is
    said, and is a comment of the study.
    """
    catalogue.FILES_READ.clear()
    output.check_ending("-o", path, "a study is YAML", catalogue.SUFFIXES)
    given = read_settings(overrides, list(FIELDS))
    content, shown = catalogue.content("model", file if file == catalogue.STDIN else _as_path(file))
    imported = import_text(text_of(content, shown), shown, given, model or "", recipe)
    imported = _completed(imported, given, hardware, model)
    options.note(imported.notes)
    text = study_text(imported)

    def write(out: IO[str]) -> None:
        out.write(text)

    return options.write(path, write)


def _as_path(file: str) -> str:
    """Return a file as a path: a name of the catalogue is none."""
    return file if "/" in file else f"./{file}"


def _completed(imported: Imported, given: dict[str, Value], hardware: str | None, model: str | None) -> Imported:
    """Return an import with what the user gives beside it; what it then says is checked."""
    if model is not None and "hidden" in imported.fields:
        raise ConfigError(f"--model {model}: {imported.source} describes a model of its own; leave it out")
    fields = {**imported.fields, **given}
    imported = replace(imported, fields=fields, hardware=hardware or imported.hardware, model=model or imported.model)
    if imported.hardware:
        load_profile(imported.hardware)
    if imported.model:
        load_model(imported.model)
    if imported.model or not imported.needs_model:
        described = model_of(imported)
        replace(described, name=imported.source).transformer()
    return imported

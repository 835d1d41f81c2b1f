"""The catalogue's models by every name they go by: their own, and the aliases their files list."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from comp_comm.configs import catalogue, strict_yaml
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.fields import FIELDS

# What a model's file may hold: what is said about it, and its dimensions.
ABOUT = ("name", "title", "source", "year", "notes", "aliases", "published_parameters")
DIMENSIONS = tuple(name for name, field in FIELDS.items() if field.group == "transformer")


@cache
def aliases() -> dict[str, str]:
    """Return the catalogue's name for every alias, in lower case.

    >>> aliases()["meta-llama/llama-2-7b-hf"]
    'llama-2-7b'
    """
    known: dict[str, str] = {}
    for name in catalogue.names("model"):
        path = catalogue.root() / catalogue.FOLDERS["model"] / f"{name}.yaml"
        for alias in strict_yaml.load(path.read_bytes(), path.name).data.get("aliases", ()):
            known[str(alias).lower()] = name
    return known


def catalogue_name(reference: str) -> str | None:
    """Return the catalogue's name for a model, None where it has no such model.

    >>> catalogue_name("Qwen/Qwen3-32B"), catalogue_name("LLaMA-2-7b"), catalogue_name("gpt5")
    ('qwen3-32b', 'llama-2-7b', None)
    """
    name = reference.lower()
    return name if name in catalogue.names("model") else aliases().get(name)


def resolve(reference: str, beside: str = "") -> str:
    """Return what `catalogue.locate` is to find: a catalogue name for any alias, a path as it is.

    Raises ``ConfigError`` for an unknown name, with the nearest one.
    """
    if reference == catalogue.STDIN or Path(reference).is_file() or (Path(beside).parent / reference).is_file():
        shipped = catalogue_name(reference) if "/" not in reference and not Path(reference).suffix else None
        return shipped or reference
    name = catalogue_name(reference)
    if name is not None:
        return name
    suffixes = catalogue.SUFFIXES + catalogue.FOREIGN_SUFFIXES
    if "/" in reference or Path(reference).suffix in suffixes or Path(reference).is_dir():
        return reference
    known = catalogue.names("model")
    if "," in reference:
        raise ConfigError(f"'{reference}' is several models, and one is wanted (compcomm compare --set model=A --set-b "
                          "model=B puts two side by side)")  # fmt: skip
    guess = nearest(reference, known) or nearest(reference, aliases())
    raise ConfigError(f"no model is called '{reference}'{guess} ({one_of(known)}, or a path)")

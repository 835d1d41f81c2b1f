"""A Python file with recipes (Megatron-Bridge, NeMo 2, torchtitan, a program on the Trainer): which one, and whose."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from comp_comm.configs.importers import recipes_bridge, recipes_nemo, recipes_titan, trainer_code
from comp_comm.configs.importers.imported import NOTHING, Given, Imported
from comp_comm.configs.importers.python_code import Code, guarded, read_code
from comp_comm.configs.importers.python_values import Made
from comp_comm.errors import ConfigError, Problem, nearest

KINDS = "a recipe of Megatron-Bridge or NeMo 2, a torchtitan configuration, or TrainingArguments of a Trainer"
MOST_NAMED = 12  # recipes in a message


class FoundRecipe(NamedTuple):
    """A recipe of a file: the function or variable that holds it, what it makes, and what reads that."""

    name: str
    made: Made
    read: Callable[[Code, str, Made, str, Given, str], Imported]


READERS: tuple[tuple[Callable[[Made], bool], Callable[[Code, str, Made, str, Given, str], Imported]], ...] = (
    (recipes_titan.is_titan, recipes_titan.import_titan),
    (recipes_bridge.is_bridge, recipes_bridge.import_bridge),
    (recipes_nemo.is_nemo, recipes_nemo.import_nemo),
    (trainer_code.is_trainer, trainer_code.import_trainer_code),
)


def import_python(text: str, file: str, given: Given = NOTHING, model: str = "", recipe: str = "") -> Imported:
    """Return the study that a recipe of a Python file means: it is read as text, and never run.

    ``recipe`` is the function (or variable) that is meant, where a file has several. Raises ``ConfigError`` for a file
    that has none, or several and none is named, and with everything in it that is not literal and is needed.
    """
    code = read_code(text, file)
    found = recipes_of(code, file)
    if not found:
        message = f"is a program of Python in which nothing that is known is made ({KINDS}); it is read, and never run"
        raise ConfigError([Problem(_remedy(message), file=file)])
    names = list(found)
    if recipe and recipe not in found:
        raise ConfigError([Problem(f"has no recipe '{recipe}'{nearest(recipe, names)} ({_listed(names)})", file=file)])
    if not recipe and len(found) > 1:
        raise ConfigError([Problem(f"has {len(found)} recipes: give --recipe NAME ({_listed(names)})", file=file)])
    name = recipe or names[0]
    return found[name].read(code, name, found[name].made, file, given, model)


def recipes_of(code: Code, file: str) -> dict[str, FoundRecipe]:
    """Return the recipes of a file by the names of what makes them."""
    found: dict[str, FoundRecipe] = {}
    for name in list(code.functions):
        if not name.startswith("_"):
            made = guarded(lambda name=name: code.result(name), file)
            _add(found, name, made)
    for name, made in code.names.items():
        if not name.startswith("_") and not any(made is each.made for each in found.values()):
            _add(found, name, made)
    if not found:
        for made in code.made:
            if trainer_code.is_trainer(made):
                _add(found, made.last, made)
    return found


def _add(found: dict[str, FoundRecipe], name: str, made: object) -> None:
    if isinstance(made, Made):
        read = next((read for known, read in READERS if known(made)), None)
        if read is not None:
            found[name] = FoundRecipe(name, made, read)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"it has {', '.join(names[:MOST_NAMED])}{more}"


def _remedy(message: str) -> str:
    return f"{message}: import the config.json of its model, and give its layout with --set (gpus, tp, pp, cp, ep, ...)"

"""A file that was given for one of another kind, a hardware profile for a study say: refused in one sentence."""

from __future__ import annotations

from comp_comm.configs.catalogue import STDIN, STDIN_SHOWN
from comp_comm.configs.model_names import ABOUT, DIMENSIONS
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import ConfigError, Problem
from comp_comm.records import Record

STUDY, HARDWARE, MODEL, FOREIGN = "study", "hardware profile", "model", "config.json"
ONLY_A_STUDY = ("set", "sweep", "zip", "where", "table", "plot", "hardware")
ONLY_A_PROFILE = ("peak", "memory", "presets", "vendor", "extends", "default_timing", "devices_per_package")
ONLY_FOREIGN = ("model_type", "architectures", "hidden_size", "num_hidden_layers")
WHAT = {STUDY: "a study", HARDWARE: "a hardware profile", MODEL: "a model",
        FOREIGN: "a config.json of Hugging Face, which is a model"}  # fmt: skip
HOW = {STUDY: "give it alone, in the place of STUDY", HARDWARE: "--hardware {file} takes it",
       MODEL: "--model {file} takes it", FOREIGN: "--model {file} takes it"}  # fmt: skip


def kind_of(data: Record) -> str | None:
    """Return what a mapping is by its keys, None where they do not say.

    >>> kind_of({"title": "x", "set": {"tp": 8}}), kind_of({"peak": {}, "memory": {}}), kind_of({"tp": 8})
    ('study', 'hardware profile', None)
    >>> kind_of({"name": "x", "hidden": 64, "layers": 2}), kind_of({"model_type": "llama"})
    ('model', 'config.json')
    """
    for kind, keys in ((STUDY, ONLY_A_STUDY), (HARDWARE, ONLY_A_PROFILE), (FOREIGN, ONLY_FOREIGN)):
        if any(key in data for key in keys):
            return kind
    return MODEL if {"hidden", "layers"} <= data.keys() and data.keys() <= {*ABOUT, *DIMENSIONS} else None


def check_kind(wanted: str, document: Document) -> None:
    """Raise ``ConfigError`` where a document is not of the kind that is wanted but plainly of another one."""
    kind = kind_of(document.data)
    if kind in (None, wanted):
        return
    file = STDIN if document.file == STDIN_SHOWN else document.file
    how = HOW[str(kind)].format(file=file)
    raise ConfigError([Problem(f"is {WHAT[str(kind)]}, not {WHAT[wanted]}: {how}", file=document.file)])

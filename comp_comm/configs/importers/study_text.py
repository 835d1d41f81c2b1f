"""A study as a YAML text, from what was imported."""

from __future__ import annotations

import json
import re
import textwrap

from comp_comm.configs.importers.imported import Imported
from comp_comm.configs.strict_yaml import resolve_scalar
from comp_comm.errors import printable
from comp_comm.fields import FIELDS, Value
from comp_comm.records import Record

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+() -]*$")


def study_of(imported: Imported) -> Record:
    """Return the study that an import means, as the mapping that a study file holds."""
    study: Record = {"title": imported.title}
    for name in ("cost_model", "hardware", "model"):
        if getattr(imported, name):
            study[name] = getattr(imported, name)
    ordered = sorted(imported.fields, key=list(FIELDS).index)
    return {**study, "set": {name: imported.fields[name] for name in ordered}} if ordered else study


def study_text(imported: Imported) -> str:
    """Return a study file; notes, and what is still to be given, are comments in it.

    >>> found = Imported("DeepSpeed JSON", "ds", "ds", "ds.json", {"zero": 2}, model="gpt2", hardware="mi210")
    >>> print(study_text(found))
    # Imported from ds.json.
    title: ds
    hardware: mi210
    model: gpt2
    set:
      zero: 2
    <BLANKLINE>
    """
    study = study_of(imported)
    lines = [f"# Imported from {printable(imported.source)}."]
    for note in imported.notes:
        lines += textwrap.wrap(printable(f"note: {note}"), 110, initial_indent="# ", subsequent_indent="#   ")
    lines.append(f"title: {_scalar(study['title'])}")
    lines += [f"{name}: {_scalar(study[name])}" for name in ("cost_model", "hardware", "model") if name in study]
    if "hardware" not in study:
        lines.append("# hardware: give a profile ('compcomm hardware list'), or --set hardware=NAME")
    if imported.needs_model and "model" not in study:
        lines.append("# model: give one ('compcomm models list'), or --model NAME")
    if "set" in study:
        lines += ["set:", *(f"  {name}: {_scalar(value)}" for name, value in study["set"].items())]
    return "\n".join(lines) + "\n"


def _scalar(value: Value) -> str:
    """Return a value as YAML that is read back as the same: text that looks like something else is quoted."""
    if not isinstance(value, str):
        return repr(value)
    same = PLAIN.match(value) and value == value.strip() and resolve_scalar(value) == value
    return value if same else printable(json.dumps(value, ensure_ascii=False))

"""Our own files, taken like those of others: a study of fixed values, a model, and what ``models show`` prints."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys
from comp_comm.configs.model_names import ABOUT, DIMENSIONS
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import nearest
from comp_comm.fields import FIELDS
from comp_comm.records import Record

STUDY, MODEL, SHOWN = "study", "model", "answer of 'models show'"
STUDY_KEYS = ("title", "cost_model", "hardware", "model", "set")


def kind_of(data: Record) -> str | None:
    """Return which of our own files a mapping is, None where it is none of them.

    >>> kind_of({"title": "x", "set": {"tp": 8}}), kind_of({"hidden": 64, "layers": 2}), kind_of({"model": {}})
    ('study', 'model', None)
    """
    meta = data.get("meta")
    if isinstance(meta, dict) and "study" in data and meta.get("command") == "models show":
        return SHOWN
    if any(isinstance(data.get(key), (dict, list)) for key in ("set", "sweep", "zip")) or (
        isinstance(data.get("model"), str) and set(data) <= {*STUDY_KEYS, "sweep", "zip", "where", "table", "plot"}
    ):
        return STUDY
    return MODEL if set(data) & {"hidden", "layers", "heads"} else None


def import_native(document: Document, kind: str, given: Given = NOTHING) -> Imported:
    """Return what one of our own files says: nothing of it is changed or lost.

    >>> import_native(Document({"title": "x", "set": {"tp": 8, "hidden": "1K"}}, "x.yaml"), STUDY).fields
    {'tp': 8, 'hidden': 1024}
    """
    f = Findings(document, given, ours=True)
    if kind == MODEL:
        imported = _model(f)
    else:
        keys = Keys(f, document.data)
        study = keys.mapping_of("study") if kind == SHOWN else keys
        imported = _study(study or Keys(f, {}), f, kind)
    f.problems.raise_if_any()
    return imported


def _study(keys: Keys, f: Findings, kind: str) -> Imported:
    fixed = keys.mapping_of("set") or Keys(f, {})
    for name in fixed.mapping:
        _field(fixed, f, name)
    fixed.finish()
    texts = {name: _text(keys, name) for name in STUDY_KEYS[:-1]}
    for name in ("sweep", "zip", "where", "table", "plot"):
        if keys.has(name):
            keys.take(name)
            keys.wrong((name,), f"a study with '{name}' is one already: use it as it is")
    keys.finish()
    name = PurePath(f.document.file).stem
    return Imported(kind, name, texts["title"] or name, f.document.file, f.fields, tuple(f.notes), texts["model"],
                    texts["hardware"], texts["cost_model"])  # fmt: skip


def _model(f: Findings) -> Imported:
    keys = Keys(f, f.document.data)
    for name in keys.mapping:
        if name in DIMENSIONS:
            _field(keys, f, name)
    about = {name: keys.take(name) for name in ABOUT}
    keys.finish()
    name = str(about["name"] or PurePath(f.document.file).stem)
    return Imported(MODEL, name, str(about["title"] or name), str(about["source"] or f.document.file), f.fields)


def _field(keys: Keys, f: Findings, name: str) -> None:
    keys.take(name)
    if name not in FIELDS:
        f.wrong((*keys.path, name), f"unknown field{nearest(name, FIELDS)}")
    else:
        keys.set(name, name)


def _text(keys: Keys, name: str) -> str:
    value = keys.take(name, default="")
    if not isinstance(value, str):
        keys.wrong((name,), "must be text")
        return ""
    return value

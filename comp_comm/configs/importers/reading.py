"""Which kind of file a text is, by what it holds; and the study that it means."""

from __future__ import annotations

from typing import Any

from comp_comm.configs import strict_yaml
from comp_comm.configs.importers import deepspeed, hugging_face, megatron, native, nemo, torchtitan
from comp_comm.configs.importers.imported import NOTHING, Given, Imported
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import ConfigError, Problem

KINDS = (hugging_face.KIND, f"{megatron.KIND} (a launch script or a list)", nemo.KIND, torchtitan.KIND, deepspeed.KIND,
         "a study", "a model")  # fmt: skip
MEGATRON, TOML = "megatron", "toml"


def text_of(content: bytes, file: str) -> str:
    """Return the text in a file. Raises ``ConfigError`` where it is none, or too large."""
    if len(content) > strict_yaml.MAX_BYTES:
        raise ConfigError([Problem(f"is larger than {strict_yaml.MAX_BYTES // 2**20} MiB", file=file)])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError([Problem("is not text in UTF-8", file=file)]) from None


def import_text(text: str, file: str, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a text means, whatever kind of file it is from.

    ``given`` are fields the user gives beside it, ``model`` a model for files that have none. Raises ``ConfigError``
    with everything that is not understood, and for a text of no kind that is known.

    >>> import_text('{"zero_optimization": {"stage": 3}}', "ds.json").fields["zero"]
    3
    """
    if not text.lstrip().startswith("{"):
        if megatron.is_megatron(text):
            return megatron.import_arguments(text, file, given)
        if torchtitan.is_toml(text):
            return _import_toml(torchtitan.read_toml(text, file), given, model)
    document = read_mapping(text, file)
    own = native.kind_of(document.data)
    if own is not None:
        return native.import_native(document, own, given)
    if hugging_face.is_config(document.data) or "text_config" in document.data:
        return hugging_face.import_config(document, given)
    if deepspeed.is_deepspeed(document.data):
        return deepspeed.import_deepspeed(document, given)
    if nemo.is_nemo(document.data):
        return nemo.import_nemo(document, given)
    raise ConfigError([Problem(_unknown(document.data), file=file)])


def read_mapping(text: str, file: str) -> Document:
    """Return a YAML or JSON text as data; JSON is YAML, but for tabs between its values."""
    is_json = text.lstrip().startswith("{")
    try:
        return strict_yaml.load(text.replace("\t", " ") if is_json else text, file)
    except ConfigError as error:
        if is_json or file.endswith((".yaml", ".yml")):
            raise
        first = error.problems[0].message
        raise ConfigError(
            [Problem(f"is none of what can be imported: {', '.join(KINDS)} ({first})", file=file)]
        ) from None


def is_own_model(text: str, file: str) -> bool:
    """Return whether a text is a model as the catalogue writes one."""
    if text.lstrip().startswith("{") or megatron.is_megatron(text) or torchtitan.is_toml(text):
        return False
    return native.kind_of(read_mapping(text, file).data) in (native.MODEL, None) and not _is_foreign(text, file)


def _is_foreign(text: str, file: str) -> bool:
    data = read_mapping(text, file).data
    return hugging_face.is_config(data) or "text_config" in data or deepspeed.is_deepspeed(data) or nemo.is_nemo(data)


def _import_toml(document: Document, given: Given, model: str) -> Imported:
    if not torchtitan.is_torchtitan(document.data):
        raise ConfigError([Problem(_unknown(document.data), file=document.file)])
    return torchtitan.import_torchtitan(document, given, model)


def _unknown(data: dict[str, Any]) -> str:
    keys = ", ".join(list(data)[:8]) + (", ..." if len(data) > 8 else "")
    return f"is none of what can be imported: {', '.join(KINDS)}; its keys are {keys or 'none'}"

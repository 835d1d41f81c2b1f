"""Which kind of file a text is, by what it holds; and the study that it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from comp_comm.configs import strict_yaml
from comp_comm.configs.importers import (
    accelerate,
    deepspeed,
    finetuning,
    flagscale,
    gpt_neox,
    hugging_face,
    llm_foundry,
    maxtext,
    megatron,
    megatron_swift,
    nanotron,
    native,
    nemo,
    peft,
    primus,
    recipes,
    toml_text,
    torchtitan,
    torchtune,
    trainer,
    trainer_script,
)  # fmt: skip
from comp_comm.configs.importers.imported import NOTHING, Given, Imported
from comp_comm.configs.importers.named import named, named_program
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import ConfigError, Problem
from comp_comm.records import Record


class FileKind(NamedTuple):
    """A kind of mapping: its name, what tells it, and what imports it; whether of two equal keys the last counts.

    ``fits`` counts what speaks for the kind: 0 where nothing does, 2 and more to be taken before our own studies and
    models, and the largest count of all kinds wins.
    """

    name: str
    fits: Callable[[Record], int]
    read: Callable[[Document, Given, str], Imported]
    last_counts: bool = False


MAPPINGS = (
    FileKind(hugging_face.KIND, hugging_face.fits,
         lambda document, given, _: hugging_face.import_config(document, given)),
    FileKind(f"{megatron.KIND} (a launch script, a list or a mapping)", megatron.fits,
         lambda document, given, _: megatron.import_mapping(document, given), last_counts=True),
    FileKind(nemo.KIND, nemo.fits, lambda document, given, _: nemo.import_nemo(document, given)),
    FileKind(torchtitan.KIND, torchtitan.fits, torchtitan.import_torchtitan),
    FileKind(nanotron.KIND, nanotron.fits, lambda document, given, _: nanotron.import_nanotron(document, given),
         last_counts=True),
    FileKind(llm_foundry.KIND, llm_foundry.fits, llm_foundry.import_foundry),
    FileKind(gpt_neox.KIND, gpt_neox.fits, lambda document, given, _: gpt_neox.import_neox(document, given)),
    FileKind(primus.KIND, primus.fits, primus.import_primus),
    FileKind(peft.KIND, peft.fits, peft.import_peft),
    FileKind(torchtune.KIND, torchtune.fits, torchtune.import_torchtune),
    FileKind(finetuning.AXOLOTL, finetuning.fits_axolotl, finetuning.import_axolotl),
    FileKind(finetuning.FACTORY, finetuning.fits_factory, finetuning.import_factory),
    FileKind(flagscale.KIND, flagscale.fits,
         lambda document, given, _: flagscale.import_flagscale(document, given), last_counts=True),
    FileKind(maxtext.KIND, maxtext.fits, maxtext.import_maxtext),
    FileKind(trainer.KIND, trainer.fits, trainer.import_trainer),
    FileKind(accelerate.KIND, accelerate.fits,
         lambda document, given, _: accelerate.import_accelerate(document, given)),
    FileKind(deepspeed.KIND, deepspeed.fits, lambda document, given, _: deepspeed.import_deepspeed(document, given)),
)  # fmt: skip
KINDS = (*(kind.name for kind in MAPPINGS), "a study", "a model")
# What programs write before each line of their output: a rank, a time, the name of a pod.
PREFIX = re.compile(
    r"(?:\[?(?:rank|default)?\d+\]?:?[ \t]|\[rank\d+\]:[ \t]?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*Z?[ \t]+|"
    r"[a-z0-9]+(?:-[a-z0-9]+)+[ \t]*[:|][ \t]|[\w.-]+:[ \t])"
)
MOST_PREFIXES = 3
PYTHON = re.compile(r"^(?:from[ \t]+[\w.]+[ \t]+import[ \t]|import[ \t]+[\w.]+[ \t]*(?:as[ \t]+\w+[ \t]*)?$)", re.M)


def text_of(content: bytes, file: str) -> str:
    """Return the text in a file. Raises ``ConfigError`` where it is none, or too large."""
    if len(content) > strict_yaml.MAX_BYTES:
        raise ConfigError([Problem(f"is larger than {strict_yaml.MAX_BYTES // 2**20} MiB", file=file)])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError([Problem("is not text in UTF-8", file=file)]) from None


def import_text(text: str, file: str, given: Given = NOTHING, model: str = "", recipe: str = "") -> Imported:
    """Return the study that a text means, whatever kind of file it is from.

    ``given`` are fields the user gives beside it, ``model`` a model for files that have none, ``recipe`` which of
    several functions of a Python file is meant. Raises ``ConfigError`` with everything that is not understood, and for
    a text of no kind that is known.

    >>> import_text('{"zero_optimization": {"stage": 3}}', "ds.json").fields["zero"]
    3
    """
    if _is_python(text, file):
        return recipes.import_python(text, file, given, model, recipe)
    if recipe:
        raise ConfigError([Problem("is no Python file: leave --recipe out", file=file)])
    bare = without_prefixes(text)
    flaw: ConfigError | None = None
    for each in dict.fromkeys((text, bare)):
        document, flaw = _mapping(each, file)
        if document is not None:
            return _of_mapping(document, file, given, model)
    if megatron_swift.is_swift(bare) and megatron_swift.SOUGHT.has(bare):
        return megatron_swift.import_swift(bare, file, given, model)
    if megatron.is_megatron(bare):
        return megatron.import_arguments(bare, file, given)
    if maxtext.SOUGHT.has(bare):
        return maxtext.import_script(bare, file, given, model)
    if trainer.SOUGHT.has(bare):
        return trainer_script.import_script(bare, file, given, model)
    if told := named_program(bare):
        raise ConfigError([Problem(told, file=file)])
    raise flaw or ConfigError([Problem(_none_of_these(), file=file)])


def _is_python(text: str, file: str) -> bool:
    """Return whether a text is a Python file: by its name, or by what it imports where no shell would."""
    return file.endswith(".py") or (PYTHON.search(text) is not None and not text.startswith("#!") and (
        re.search(r"^(?:def|class|@)\b|^\w+(?:\.\w+)* = ", text, re.M) is not None))  # fmt: skip


def _of_mapping(document: Document, file: str, given: Given, model: str) -> Imported:
    own = native.kind_of(document.data)
    kind = best(document.data)
    if document.duplicates and (kind is None or not kind.last_counts):
        raise ConfigError(Problem(f"duplicate key {each}", file=file) for each in document.duplicates)
    if own is not None and (kind is None or kind.fits(document.data) < 2):
        return native.import_native(document, own, given)
    if kind is not None:
        return kind.read(document, given, model)
    raise ConfigError([Problem(_unknown(document.data), file=file)])


def best(data: Record) -> FileKind | None:
    """Return the kind that a mapping fits best, None where it fits none.

    >>> kind = best({"model_type": "llama", "hidden_size": 64})
    >>> kind.name if kind else None, best({"a": 1})
    ('Hugging Face config.json', None)
    """
    scores = [(kind.fits(data), kind) for kind in MAPPINGS]
    score, kind = max(scores, key=lambda pair: pair[0])
    return kind if score > 0 else None


def _mapping(text: str, file: str) -> tuple[Document | None, ConfigError | None]:
    """Return a text as a mapping, or what is wrong with it as one."""
    held = megatron.is_megatron(text) and not toml_text.has_sections(text)  # variables of a script look like TOML
    if toml_text.is_toml(text) and not held:
        try:
            return toml_text.read_toml(text, file), None
        except ConfigError as error:
            if file.endswith(".toml") or (toml_text.has_sections(text) and not megatron.is_megatron(text)):
                return None, error
    try:
        document = read_mapping(text, file)
    except ConfigError as error:
        return None, error
    looks_like = not megatron.is_megatron(text) or best(document.data) is not None or native.kind_of(document.data)
    return (document, None) if looks_like else (None, None)


def read_mapping(text: str, file: str) -> Document:
    """Return a YAML or JSON text as data; JSON is YAML, but for tabs between its values."""
    is_json = text.lstrip().startswith("{")
    try:
        return strict_yaml.load(text.replace("\t", " ") if is_json else text, file, foreign=True)
    except ConfigError as error:
        if is_json or file.endswith((".yaml", ".yml")):
            raise
        raise ConfigError([Problem(f"{_none_of_these()} ({error.problems[0].message})", file=file)]) from None


def is_own_model(text: str, file: str) -> bool:
    """Return whether a text is a model as the catalogue writes one."""
    document, flaw = _mapping(text, file)
    if document is None:
        if flaw is not None and not megatron.is_megatron(text):
            raise flaw
        return False
    return native.kind_of(document.data) in (native.MODEL, None) and best(document.data) is None


def without_prefixes(text: str) -> str:
    """Return a text without what stands before each of its lines: a rank, a time, the name of a pod.

    >>> without_prefixes("[rank0]: a: 1\\n[rank0]:   b: 2")
    'a: 1\\n  b: 2'
    """
    lines = text.split("\n")
    for _ in range(MOST_PREFIXES):
        filled = [line for line in lines if line.strip()]
        matches = [PREFIX.match(line) for line in filled]
        first = {match[0] if match else "" for match in matches}
        if not filled or "" in first or (len(first) > 1 and not all(re.search(r"\d", each) for each in first)):
            break
        lines = [line[match.end() :] if (match := PREFIX.match(line)) else line for line in lines]
    return "\n".join(lines)


def _none_of_these() -> str:
    return f"is none of what can be imported: {', '.join(KINDS)}"


def _unknown(data: Record) -> str:
    keys = ", ".join(list(map(str, data))[:8]) + (", ..." if len(data) > 8 else "")
    return named(data) or f"{_none_of_these()}; its keys are {keys or 'none'}"

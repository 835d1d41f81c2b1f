"""A Hugging Face config.json, or the text model in one of a larger model, as the fields of a transformer."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.hf_defaults import left_out
from comp_comm.configs.importers.hf_families import FAMILIES, Family
from comp_comm.configs.importers.hf_ignored import (
    BESIDE_TEXT,
    BIAS_KEYS,
    DROPOUTS,
    IGNORED,
    NESTED,
    OFF,
    QK_NORM_KEYS,
    SWITCHES,
    TOWERS,
    is_token,
)  # fmt: skip
from comp_comm.configs.importers.hf_parts import NEEDED, OPTIONAL, PERIOD, POSITIONS, UNDERSTOOD, nonlinearity, window
from comp_comm.configs.importers.hf_patterns import with_layers
from comp_comm.configs.importers.hf_refused import NOT_MODELLED, TEXT_OF
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, shown
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import nearest, one_of
from comp_comm.records import Record

KIND = "Hugging Face config.json"
TEXT_ALONE = "only the text model is imported, not what reads images or sound"
TEXT_CONFIGS = ("text_config", "language_config", "llm_config")


def fits(data: Record) -> int:
    """Return how well a mapping fits a config.json, which says what kind of model it is; 0 where it is none.

    >>> fits({"model_type": "llama"}), fits({"model": {}})
    (3, 0)
    """
    if isinstance(data.get("model_type"), str) and not {"model", "trainer"} & data.keys():
        return 3
    return 2 if "architectures" in data or isinstance(data.get("text_config"), dict) else 0


def import_config(document: Document, given: Given = NOTHING) -> Imported:
    """Return the model that a config.json describes.

    Raises ``ConfigError`` with everything in it that is not understood.

    >>> found = import_config(Document({"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2,
    ...     "num_attention_heads": 8, "intermediate_size": 1024, "vocab_size": 1000,
    ...     "max_position_embeddings": 256}, "config.json"))
    >>> found.fields["ffn_hidden"], found.fields["norm"], found.fields["seq_len"]
    (1024, 'rmsnorm', 256)
    """
    f = Findings(document, given)
    _refuse(f, document.data)
    data, path = _text_model(f, document.data)
    family = _family(f, data, path)
    data = with_layers(data)
    defaults = left_out(data, family.defaults) if family else {}
    keys = Keys(f, {**defaults, **data}, path)
    _read(keys, f, family or Family({}), set(defaults))
    _say_assumed(keys, f, defaults)
    keys.ignore(defaults)
    keys.ignore(IGNORED if family else (*IGNORED, *UNDERSTOOD))
    keys.ignore(tuple(filter(is_token, keys.mapping)))
    _switched_off(keys, f)
    if "quantization_config" in data:
        f.note("quantization_config is of the stored weights: number formats of training are the study's (precision)")
    keys.finish()
    f.problems.raise_if_any()
    name = str(document.data.get("_name_or_path") or "").strip("/").rsplit("/", 1)[-1] or _file_name(document.file)
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes))


def read_model(f: Findings, data: Record, path: Path, kind: str) -> Keys:
    """Set the fields of a model that another tool describes as a config.json of a kind does; return its keys.

    Whoever calls takes the keys that only that tool has, and finishes.
    """
    family = FAMILIES[kind]
    keys = Keys(f, {**family.defaults, **data}, path)
    notes = list(f.notes)
    _read(keys, f, family, set())
    f.notes[:] = [note for note in f.notes if note in notes or not note.startswith("seq_len")]
    keys.ignore((*IGNORED, *filter(is_token, data)))
    return keys


def _text_model(f: Findings, data: Record) -> tuple[Record, Path]:
    """Return what describes the text model: a nested ``text_config``, where there is one, with its place."""
    key = next((name for name in TEXT_CONFIGS if data.get(name)), None)
    outer = str(data.get("model_type"))
    if key is None and outer in TEXT_OF and any(data.get(name) for name in TOWERS):
        f.note(TEXT_ALONE)  # Qwen2-VL's files have the keys of the text model beside a vision_config
        return {name: value for name, value in data.items() if name not in NESTED} | {"model_type": TEXT_OF[outer]}, ()
    if key is None or not isinstance(data[key], dict):
        return data, ()
    around = Keys(f, data)
    around.ignore((*BESIDE_TEXT, key, "tie_word_embeddings", *filter(is_token, data)))
    for name in OFF:
        around.only(name, False, {}, None)
    if any(isinstance(value, dict) for name, value in data.items() if name.endswith("_config") and name != key):
        f.note(TEXT_ALONE)
        left = [name for name, value in data.items() if name not in around.used and value is not None]
        around.ignore(left)
        if left:
            f.note(f"beside {key}, of what is not imported: {', '.join(left[:8])}{', ...' if len(left) > 8 else ''}")
    around.finish()
    inner = dict(data[key])
    if data.get("tie_word_embeddings") is not None:
        inner.setdefault("tie_word_embeddings", data["tie_word_embeddings"])
    inner.setdefault("model_type", TEXT_OF.get(outer, outer))
    return inner, (key,)


def _refuse(f: Findings, data: Record) -> None:
    """Refuse a family whose layers are not modelled: whatever else is in the file does not matter then."""
    key = next((name for name in TEXT_CONFIGS if isinstance(data.get(name), dict)), None)
    for at, each in (((), data), ((key,), data.get(key))) if key else (((), data),):
        name = each.get("model_type") if isinstance(each, dict) else None
        if isinstance(name, str) and name in NOT_MODELLED:
            f.wrong((*at, "model_type"), f"{shown(name)} is not modelled: it has {NOT_MODELLED[name]}")
            f.problems.raise_if_any()


def _family(f: Findings, data: Record, path: Path) -> Family | None:
    name = data.get("model_type")
    if name is None:
        f.missing(f"'model_type' is missing ({one_of(sorted(FAMILIES))})")
        return None
    if not isinstance(name, str) or name not in FAMILIES:
        message = f"{shown(name)} is not understood{nearest(str(name), FAMILIES)} ({one_of(sorted(FAMILIES), 99)})"
        f.wrong((*path, "model_type"), message)
        return None
    return FAMILIES[name]


def _read(keys: Keys, f: Findings, family: Family, assumed: set[str]) -> None:
    for name, value in family.base.items():
        f.set(name, value)
    vit = family.base.get("architecture") == "vit"
    needed = NEEDED if vit else {**NEEDED, "vocab": ("vocab_size",)}
    for name, spellings in needed.items():
        if not keys.set(name, *spellings) and family.base:
            f.missing(f"'{spellings[0]}' is missing", name)
    for name, spellings in OPTIONAL.items():
        keys.set(name, *spellings)
    f.set("tied", keys.truth("tie_word_embeddings", default=family.tied), keys.place("tie_word_embeddings"))
    if vit:
        f.fields.pop("tied")
    else:
        _positions(keys, f, learned=family.base.get("position") == "learned", known=bool(family.base),
                   assumed=assumed)  # fmt: skip
    _dropout(keys, f)
    if f.fields.keys() >= needed.keys():
        for part in sorted(family.parts, key=lambda part: part is window):  # which asks where experts are
            part(keys, f)
    for name in OFF:
        if name not in keys.used:
            keys.only(name, False, {}, None)
    nonlinearity(keys, f)
    _always(keys, family)


def _always(keys: Keys, family: Family) -> None:
    """Take keys that say what every model of a family has, or has not."""
    biased, normed = family.base.get("bias", "off"), family.base.get("qk_norm", "off") != "off"
    for name in BIAS_KEYS:
        if name not in keys.used:
            ffn = biased in ("on", "ffn") if name == "mlp_bias" else None
            keys.only(name, biased in ("on", "qkv", "attention") if ffn is None else ffn)
    for name in QK_NORM_KEYS:
        if name not in keys.used:
            keys.only(name, normed)


def _say_assumed(keys: Keys, f: Findings, defaults: Record) -> None:
    """Say which numbers are not in the file, but in the family's class of configurations."""
    sizes = {name: value for name, value in defaults.items()
             if type(value) is int and value and name in keys.used
             and name not in (*IGNORED, *POSITIONS, *PERIOD)}  # fmt: skip
    if sizes:
        listed = ", ".join(f"{name} {value}" for name, value in sizes.items())
        f.note(f"not in the file, so the default of its model_type: {listed}")


def _switched_off(keys: Keys, f: Findings) -> None:
    """Take switches that are not known and are off, and say so."""
    left = [name for name, value in keys.mapping.items()
            if value is False and name not in keys.used and name.startswith(SWITCHES)]  # fmt: skip
    keys.ignore(left)
    if left:
        f.note(f"false, and taken to change nothing: {', '.join(left[:8])}")


def _positions(keys: Keys, f: Findings, learned: bool, known: bool, assumed: set[str]) -> None:
    """Set the sequence length: the longest a model takes, or that before its positions were stretched."""
    scaling = keys.take("rope_scaling", "rope_parameters")
    keys.take("rope_parameters")
    before = keys.take("original_max_position_embeddings", "initial_context_length")
    if isinstance(scaling, dict):
        nested = [value for value in scaling.values() if isinstance(value, dict)]
        for each in (scaling, *nested):
            before = each.get("original_max_position_embeddings") or before
    longest = keys.take(*POSITIONS)
    if before is None and longest is None and not known:
        return
    if before is None and longest is None:
        f.missing(f"'{POSITIONS[0]}' is missing: it gives seq_len", "seq_len")
        return
    f.set("seq_len", longest if before is None else before, keys.place(*POSITIONS))
    if known and "seq_len" in f.fields and "seq_len" not in f.given:
        name = keys.name_of(*POSITIONS) or ""
        source = (
            "what the model took before its positions were stretched"
            if before is not None
            else (
                f"the default of {name}, which is not in the file"
                if name in assumed
                else f"{name}, the longest it takes"
            )
        )
        f.note(f"seq_len {f.fields['seq_len']} is {source}: give --set seq_len=N for another")
    if learned and longest is not None:
        f.set("max_positions", longest, keys.place(*POSITIONS))


def _dropout(keys: Keys, f: Findings) -> None:
    """Set dropout: on where any of its probabilities is above 0."""
    rates = [keys.number(name, default=0.0) or 0.0 for name in DROPOUTS if keys.has(name)]
    keys.ignore(DROPOUTS)
    f.set("dropout", any(probability > 0 for probability in rates))


def _file_name(file: str) -> str:
    """Return a name for the model in a file.

    >>> _file_name("models/Qwen--Qwen3-32B_config.json"), _file_name("opt-125m/config.json"), _file_name("config.json")
    ('Qwen--Qwen3-32B', 'opt-125m', 'config')
    """
    path = PurePath(file)
    stem = path.stem.removesuffix("config").rstrip("_-.")
    return stem or path.parent.name or "config"

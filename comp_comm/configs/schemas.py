"""JSON Schemas of the files that people write: studies, hardware profiles, models. Editors complete and check by them.

They are made of the same tables that the readers use. A reader checks more: what fits together, what a cost model
takes, what a name means.
"""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.choices import Precision
from comp_comm.configs import catalogue
from comp_comm.configs.axes import MAX_AXIS, RANGE_KEYS, SCALES
from comp_comm.configs.hardware_file import KEYS as HARDWARE_KEYS
from comp_comm.configs.hardware_file import MEMORY_KINDS, NUMBER_KEYS, RUN_KINDS, SWITCH_KEYS
from comp_comm.configs.hardware_numbers import SWITCHES
from comp_comm.configs.model_names import DIMENSIONS
from comp_comm.configs.study import KEYS as STUDY_KEYS
from comp_comm.configs.study import PLOT_KEYS, TABLE_KEYS
from comp_comm.field import Field
from comp_comm.fields import FIELDS
from comp_comm.hardware.profile import ATTENTION_KINDS, CERTAINTIES, TIER_KINDS, TIMING_KINDS, TOPOLOGIES
from comp_comm.records import Record
from comp_comm.units import EXAMPLES

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TEXT: Record = {"type": "string"}
NAMES: Record = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
WHOLE_SUFFIX = r"^[-+]?[0-9]+(\.[0-9]+)?\s*[KM]$"
REAL_SUFFIX = r"^[-+]?[0-9]+(\.[0-9]+)?\s*[KMBGT%]$"


def study_schema(cost_models: tuple[str, ...]) -> Record:
    """Return the schema of a study. ``cost_models`` are the names of those there are.

    >>> made = study_schema(("complete",))
    >>> made["properties"]["set"]["properties"]["zero"]
    {'$ref': '#/$defs/zero'}
    >>> made["$defs"]["zero"]["anyOf"][0]
    {'type': 'integer', 'minimum': 0, 'maximum': 3}
    """
    values: Record = {name: {"$ref": f"#/$defs/{name}"} for name in FIELDS}
    axes = {name: _axis(field) for name, field in FIELDS.items()}
    hardware = _reference("hardware")
    known: Record = {
        "title": TEXT,
        "cost_model": {"enum": list(cost_models)},
        "hardware": {"anyOf": [*hardware["anyOf"], {"type": "array", "items": hardware, "minItems": 1}]},
        "model": _reference("model"),
        "set": _mapping(values, "What is fixed: one value each."),
        "sweep": _mapping(axes, "What is swept: lists or ranges; every combination is a point."),
        "zip": {"type": "array", "minItems": 1, "items": _mapping(values),
                "description": "Fields that move together: a list of points."},
        "where": {**NAMES, "description": 'Comparisons that a row must meet, such as "tp <= 64".'},
        "table": _mapping(dict.fromkeys(TABLE_KEYS, NAMES), "The pivot that a sweep shows."),
        "plot": _mapping({**dict.fromkeys(PLOT_KEYS, NAMES), "kind": {"enum": ["lines", "heatmap"]},
                          "only": {"type": "array", "items": _mapping(values)}}, "The picture of --plot."),
    }  # fmt: skip
    made = _schema("A compcomm study", {name: known[name] for name in STUDY_KEYS})
    return {**made, "$defs": {name: field_schema(field) for name, field in FIELDS.items()}}


def model_schema() -> Record:
    """Return the schema of a model's file."""
    about: Record = {
        **dict.fromkeys(("name", "title", "source"), TEXT), "year": {"type": "integer", "minimum": 1},
        **{key: {"type": "array", "items": TEXT} for key in ("notes", "aliases")},
        "published_parameters": {"type": "number", "minimum": 1},
    }  # fmt: skip
    return _schema("A compcomm model", {**about, **{name: field_schema(FIELDS[name]) for name in DIMENSIONS}})


def hardware_schema() -> Record:
    """Return the schema of a hardware profile."""
    timing = _numbers(TIMING_KINDS)
    tier = {**_numbers(TIER_KINDS), "topology": {"enum": list(TOPOLOGIES)}}
    source = _mapping({"text": TEXT, "date": TEXT})
    known: Record = {
        **dict.fromkeys(("name", "title", "vendor", "extends", "default_timing"), TEXT),
        "year": {"type": "integer", "minimum": 1990, "maximum": 2100},
        "devices_per_package": {"type": "integer", "minimum": 1, "maximum": 64},
        "sources": {"type": "object", "additionalProperties": source},
        "peak": _mapping({**{word: _number("FLOP/s") for word in Precision.words()}, "dense": {"type": "boolean"}}),
        "memory": _mapping({name: _number(kind) for name, kind in MEMORY_KINDS.items()}),
        "network": {"type": "object", "additionalProperties": _mapping(tier)},
        "timing": _mapping(timing),
        "attention": {"type": "object", "additionalProperties": _mapping(_numbers(ATTENTION_KINDS))},
        "presets": {"type": "object", "additionalProperties": _mapping({**timing, "title": TEXT})},
        "waivers": {"type": "object", "additionalProperties": TEXT},
        "notes": {"anyOf": [{"type": "array", "items": TEXT}, {"type": "object", "additionalProperties": TEXT}]},
        "aliases": {"type": "array", "items": TEXT},
        "calibrated_on": _mapping({kind: {"type": "integer", "minimum": 1} for kind in RUN_KINDS}),
    }  # fmt: skip
    return _schema("A compcomm hardware profile", {name: known[name] for name in HARDWARE_KEYS})


def field_schema(field: Field) -> Record:
    """Return the schema of one value of a field.

    >>> field_schema(FIELDS["recompute"])["anyOf"][0]["enum"][:4]
    ['none', 'selective', 'full', 'per_op']
    """
    if field.kind == "text" or (field.kind == "choice" and not field.words):
        kinds: list[Record] = [TEXT, {"type": "integer"}]
    elif field.kind == "choice":
        plain = [word for word in field.words if "+" not in word]
        kinds = [{"enum": plain}, *([{"type": "boolean"}] if "on" in plain else [])]
        if len(plain) < len(field.words):  # several of them, with + between, or as a list
            kinds += [{"type": "string", "pattern": r"^\w+(\+\w+)+$"}, {"type": "array", "items": {"enum": plain}}]
    else:
        integral = field.kind == "int"
        kinds = [{"type": "integer" if integral else "number", "minimum": field.low, "maximum": field.high},
                 {"type": "string", "pattern": WHOLE_SUFFIX if integral else REAL_SUFFIX},
                 *([{"enum": list(field.words)}] if field.words else [])]  # fmt: skip
    unit = f" ({field.unit})" if field.unit else ""
    return {"anyOf": kinds, "description": f"{field.help}{unit}: {field.allowed()}",
            **({} if field.default is None else {"default": field.default})}  # fmt: skip


def _axis(field: Field) -> Record:
    one: Record = {"$ref": f"#/$defs/{field.name}"}
    kinds: list[Record] = [{"type": "array", "items": {"anyOf": [one, *_spans(field)]}, "minItems": 1}]
    if field.kind in ("int", "float"):
        numbers = {key: {"type": ["number", "string"]} for key in RANGE_KEYS}
        span = _mapping({**numbers, "steps": {"type": "integer", "minimum": 1, "maximum": MAX_AXIS},
                         "scale": {"enum": list(SCALES)}})  # fmt: skip
        kinds += [{**span, "required": ["from", "to"]}, *_spans(field)]
    return {"anyOf": kinds, "description": field.help}


def _spans(field: Field) -> list[Record]:
    return [{"type": "string", "pattern": r"\.\."}] if field.kind in ("int", "float") else []


PLAIN = ("share", "count", "ratio", "exponent")


def _number(kind: str, words: Sequence[str] = ()) -> Record:
    """Return the schema of a number of a profile: bare, or with where it is from."""
    bare: Record = {"type": "number"} if kind in PLAIN else {"enum": list(words)} if words else {
        "type": "string", "examples": [EXAMPLES[kind]]}  # fmt: skip
    bare = {"anyOf": [bare, {"type": "null"}]}
    told = {"value": bare, "source": TEXT, "certainty": {"enum": list(CERTAINTIES)}}
    return {"anyOf": [bare, {**_mapping({name: told[name] for name in NUMBER_KEYS}), "required": ["value"]}]}


def _numbers(kinds: dict[str, str]) -> Record:
    words = {name: word for word, name in SWITCH_KEYS.items()}
    return {words.get(name, name): _number(kind, tuple(SWITCHES.get(name, ()))) for name, kind in kinds.items()}


def _reference(kind: str) -> Record:
    """Return the schema of a name of the catalogue, or a path."""
    return {"anyOf": [{"enum": catalogue.names(kind)}, TEXT], "description": f"A {kind} of the catalogue, or a path."}


def _mapping(properties: Record, description: str = "") -> Record:
    about = {"description": description} if description else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **about}


def _schema(title: str, properties: Record) -> Record:
    return {"$schema": DRAFT, "title": title, **_mapping(properties)}

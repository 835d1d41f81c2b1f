"""Reading a hardware profile from YAML, with ``extends`` and every number's source.

A number is a quantity with a unit (``181 TFLOP/s``) or a mapping ``{value: ..., source: ..., certainty: ...}``, where
``source`` is a key of the file's ``sources`` or words of its own, and a null value says that it is not known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from comp_comm.choices import Precision
from comp_comm.configs import catalogue
from comp_comm.configs.file_kinds import HARDWARE, check_kind
from comp_comm.configs.hardware_numbers import SWITCHES, parse_number
from comp_comm.configs.reader import Reader
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.configs.tier_names import wrong_tiers
from comp_comm.errors import ConfigError, Problems, nearest, one_of
from comp_comm.hardware.profile import (
    ATTENTION_KINDS,
    BASE_TIMING,
    CERTAINTIES,
    FP8_KERNEL,
    NAMED_KERNELS,
    TIER_KINDS,
    TIMING_KINDS,
    TOPOLOGIES,
    Number,
    Profile,
)
from comp_comm.records import Record

KEYS = (
    "name", "title", "vendor", "year", "extends", "devices_per_package", "sources", "peak", "memory", "network",
    "timing", "attention", "presets", "default_timing", "waivers", "notes", "aliases",
    "calibrated_on",
)  # fmt: skip
MEMORY_KINDS = {"capacity": "bytes", "bandwidth": "bytes/s", "host_bandwidth": "bytes/s"}
NUMBER_KEYS = ("value", "source", "certainty")
SWITCH_KEYS = {"tiers": "use_tiers", "ring": "ring_limit", "fp8_recipe": "fp8_recipe",
               "attention_kernel": "attention_kernel"}  # fmt: skip
# What decides who talks over what has to be known.
NEVER_BLANK = {
    "domain": "give the devices it connects, or leave it out for the outermost tier",
    "axes": "give the axes of the torus, or leave it out",
    "side": "give the devices from which on an axis is a ring, or leave it out",
    "exchange_latency": "leave it out for what is usual, or give 0",
    "use_tiers": "used or ignored",
    "ring_limit": "exact or limit",
    "fp8_recipe": "give a recipe, or leave it out for tensorwise",
    "attention_kernel": "give a kernel, or leave it out for that of the flash numbers",
}
OF_A_TORUS = ("axes", "side")
MAX_EXTENDS = 8
RUN_KINDS = ("dense", "moe")
MOST_MADE = 128
# Profiles by the document they were made of and the digest of what it extends, with that document.
_MADE: dict[tuple[int, str], tuple[Document, Profile]] = {}


def load_profile(reference: str, beside: str = "") -> Profile:
    """Return the profile a catalogue name or a path means. Raises ``ConfigError`` with every problem in it."""
    return _load(reference, beside, depth=0)


def _load(reference: str, beside: str, depth: int) -> Profile:
    document = catalogue.read("hardware", reference, beside)
    check_kind(HARDWARE, document)
    problems = Problems()
    parent = None
    if "extends" in document.data:
        extends = document.data["extends"]
        if not isinstance(extends, str) or depth >= MAX_EXTENDS:
            why = "must be one catalogue name or path" if depth < MAX_EXTENDS else "extends in a circle, or too deep"
            raise ConfigError([document.problem(("extends",), why)])
        parent = _load_parent(document, extends, str(catalogue.locate("hardware", reference, beside)), depth + 1)
    key = id(document), parent.sha256 if parent else ""
    if key not in _MADE or _MADE[key][0] is not document:  # many studies are about the same devices
        profile = _Reader(document, problems).profile(parent)
        problems.raise_if_any()
        if len(_MADE) >= MOST_MADE:
            _MADE.clear()
        _MADE[key] = document, profile
    return _MADE[key][1]


def _load_parent(document: Document, extends: str, beside: str, depth: int) -> Profile:
    """Return the profile that ``document`` extends; an unknown name is a problem of the line that names it."""
    try:
        return _load(extends, beside, depth)
    except ConfigError as error:
        raise ConfigError(p if p.file else document.problem(("extends",), p.message) for p in error.problems) from None


class _Reader(Reader):
    """Turns one document into a profile, noting problems as it goes."""

    def __init__(self, document: Document, problems: Problems) -> None:
        super().__init__(document, problems)
        self.sources: dict[str, tuple[str, str]] = {}

    def profile(self, parent: Profile | None) -> Profile:
        data = self.document.data
        self._known((), data, KEYS)
        self._texts("aliases")
        self._read_sources()
        tiers, topologies = self._tiers(parent)
        numbers = dict(parent.numbers) if parent else {}
        numbers |= self._block("peak", dict.fromkeys(Precision.words(), "FLOP/s"), skip=("dense",))
        numbers |= self._block("memory", MEMORY_KINDS)
        for tier in self._mapping(("network",)):
            numbers |= self._block(f"network.{tier}", TIER_KINDS, skip=("topology",))
        self._check_new_tiers(tiers, parent.tiers if parent else (), numbers)
        numbers |= self._block("timing", TIMING_KINDS)
        numbers |= self._kernels()
        presets, titles = self._presets(parent)
        for key in ("memory.capacity", "memory.bandwidth"):
            if key not in numbers:
                self._problem((key.split(".")[0],), f"'{key}' is missing (null says that it is not known)")
        if not any(key.startswith("peak.") for key in numbers):
            self._problem(("peak",), f"no peak is given; {one_of(Precision.words())}")
        base = parent or Profile("", "", "", 0, {}, (), {})
        return replace(
            base,
            name=self._text("name", self.document.file.rsplit("/", 1)[-1].rsplit(".", 1)[0]),
            title=self._text("title", base.title or self._text("name", "")),
            vendor=self._text("vendor", base.vendor),
            year=self._whole("year", base.year, 1990, 2100),
            devices_per_package=self._whole("devices_per_package", base.devices_per_package, 1, 64),
            dense=self._dense(base.dense),
            numbers=numbers,
            tiers=tiers,
            topologies=topologies,
            presets=presets,
            preset_titles=titles,
            default_timing=self._default_timing(base.default_timing, presets),
            waivers={**base.waivers, **self._texts("waivers")},
            notes=(*base.notes, *self._texts("notes").values()),
            sha256=_digest({key: value for key, value in data.items() if key != "aliases"}, base.sha256),
            lineage=(base.name, *base.lineage) if parent else (),
            calibrated_on={**base.calibrated_on, **self._counts(("calibrated_on",), RUN_KINDS)},
        )

    def _texts(self, key: str) -> dict[str, str]:
        value = self.document.data.get(key, {})
        items = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(items, dict) or not all(isinstance(item, str) for item in items.values()):
            self._problem((key,), "must be texts")
            return {}
        return {str(name): text for name, text in items.items()}

    def _whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self.document.data.get(key, default)
        if key in self.document.data and (type(value) is not int or not low <= value <= high):
            self._problem((key,), f"must be a whole number from {low} to {high}")
            return default
        return int(value)

    def _dense(self, default: bool | None) -> bool | None:
        value = self._mapping(("peak",)).get("dense", default)
        if value is not None and not isinstance(value, bool):
            self._problem(("peak", "dense"), "must be true or false")
            return None
        return value

    def _read_sources(self) -> None:
        for name, entry in self._mapping(("sources",)).items():
            if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
                self._problem(("sources", name), "must be {text: ..., date: ...}, both of them words")
                continue
            self._known(("sources", name), entry, ("text", "date"))
            self.sources[name] = (entry.get("text", ""), entry.get("date", ""))

    def _tiers(self, parent: Profile | None) -> tuple[tuple[str, ...], dict[str, str]]:
        tiers = list(parent.tiers) if parent else []
        topologies = dict(parent.topologies) if parent else {}
        network = self._mapping(("network",))
        for name, tier in network.items():
            if name not in tiers:
                tiers.append(name)
            given = tier if isinstance(tier, dict) else {}  # what is no mapping is told where its numbers are read
            topology = given.get("topology", topologies.get(name, "switch"))
            if topology not in TOPOLOGIES:
                self._problem(("network", name, "topology"), one_of(TOPOLOGIES))
                topology = "switch"
            topologies[name] = topology
            if topology != "torus":
                for key in OF_A_TORUS:
                    if key in given:
                        self._problem(("network", name, key), f"is of a torus; the tier is a {topology}")
        if not tiers:
            self._problem(("network",), "no network tier is given (innermost first)")
        return tuple(tiers), topologies

    def _check_new_tiers(self, tiers: Sequence[str], known: Sequence[str], numbers: dict[str, Number]) -> None:
        """Note tiers that no group can reach, or that have the name of another one, misspelt."""
        domains = {tier: number.value for tier in tiers if (number := numbers.get(f"network.{tier}.domain"))}
        for name, message in wrong_tiers(tiers, [tier for tier in tiers if tier not in known], domains).items():
            self._problem(("network", name), message)

    def _block(self, dotted: str, kinds: dict[str, str], skip: tuple[str, ...] = ()) -> dict[str, Number]:
        path: Path = tuple(dotted.split("."))
        return {f"{dotted}.{key}": number for key, number in self._numbers(path, kinds, skip).items()}

    def _numbers(self, path: Path, kinds: dict[str, str], skip: tuple[str, ...] = ()) -> dict[str, Number]:
        numbers = {}
        allowed = (*skip, *(k for k in kinds if k not in SWITCHES), *(SWITCH_KEYS if "use_tiers" in kinds else ()))
        for key, raw in self._mapping(path).items():
            name = SWITCH_KEYS.get(key, key)
            if key in skip:
                continue
            if key not in allowed:
                self._problem((*path, key), f"unknown key{nearest(key, allowed)} ({one_of(allowed)})")
                continue
            number = self._number((*path, key), raw, name, kinds[name])
            if number is not None:
                numbers[name] = number
        return numbers

    def _number(self, path: Path, raw: Any, name: str, kind: str) -> Number | None:
        entry = raw if isinstance(raw, dict) else {"value": raw}
        self._known(path, entry, NUMBER_KEYS)
        certainty = entry.get("certainty", "")
        if certainty and certainty not in CERTAINTIES:
            self._problem((*path, "certainty"), one_of(CERTAINTIES))
        source = str(entry.get("source", "" if isinstance(raw, dict) else f"given in {self.document.file}"))
        text, date = self.sources.get(source, (source, ""))
        if "value" not in entry:
            self._problem(path, "'value' is missing (null says that it is not known)")
            return None
        try:
            value = parse_number(entry["value"], name, kind)
            if value is None and name in NEVER_BLANK:
                raise ValueError(f"cannot be blank: {NEVER_BLANK[name]}")
        except ValueError as error:
            self._problem((*path, "value") if isinstance(raw, dict) else path, str(error))
            return None
        return Number(value, kind, text, date, str(certainty))

    def _kernels(self) -> dict[str, Number]:
        """Return the numbers of fused attention kernels."""
        allowed = [name for kernel in NAMED_KERNELS for name in (kernel.word, FP8_KERNEL.format(kernel.word))]
        numbers: dict[str, Number] = {}
        for name in self._mapping(("attention",)):
            if name not in allowed:
                self._problem(("attention", name), f"unknown key{nearest(name, allowed)} ({one_of(allowed)})")
                continue
            numbers |= self._block(f"attention.{name}", ATTENTION_KINDS)
        return numbers

    def _presets(self, parent: Profile | None) -> tuple[dict[str, dict[str, Number]], dict[str, str]]:
        presets = {name: dict(numbers) for name, numbers in parent.presets.items()} if parent else {}
        titles = dict(parent.preset_titles) if parent else {}
        for name, entry in self._mapping(("presets",)).items():
            if isinstance(entry, dict) and isinstance(entry.get("title"), str):
                titles[name] = entry["title"]
            if name == BASE_TIMING:
                self._problem(("presets", name), f"'{BASE_TIMING}' means the profile's own timing; choose another name")
            presets[name] = presets.get(name, {}) | self._numbers(("presets", name), TIMING_KINDS, skip=("title",))
        return presets, titles

    def _default_timing(self, default: str | None, presets: dict[str, dict[str, Number]]) -> str | None:
        name = self.document.data.get("default_timing", default)
        if name is not None and name not in presets:
            self._problem(("default_timing",), f"'{name}' is not a preset of this profile; {one_of(list(presets))}")
            return None
        return name


def _digest(data: Record, parent: str) -> str:
    text = json.dumps([data, parent], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()

"""References in a NeMo YAML: ``${.hidden_size}`` and the functions of its launcher, replaced by what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from comp_comm.configs.strict_yaml import Path
from comp_comm.errors import ConfigError, Problem
from comp_comm.records import Record

REFERENCE = re.compile(r"\$\{([^{}]{1,400})\}")
MISSING = "???"  # what Hydra has for a value that must be given
DEEPEST = 20  # references to references
MOST_TEXT = 2 * 2**20  # characters that all references of a file make together
FUNCTIONS: dict[str, Callable[[int, int], int | None]] = {
    "multiply": lambda a, b: a * b, "divide": lambda a, b: a // b if b else None,
    "divide_floor": lambda a, b: a // b if b else None, "divide_ceil": lambda a, b: -(-a // b) if b else None,
    "add": lambda a, b: a + b, "sum": lambda a, b: a + b,
}  # fmt: skip


def resolve(data: Record, file: str = "") -> Record:
    """Return a configuration with its references (``${.hidden_size}``, ``${multiply:4, ${.x}}``) resolved where it can.

    A value that must be given, and is not (``???``), is none. Raises ``ConfigError`` where references make too much.

    >>> resolve({"model": {"h": 8, "f": "${multiply:4, ${.h}}", "s": "${model.h}", "d": "${data_dir}/x"}})["model"]
    {'h': 8, 'f': 32, 's': 8, 'd': '${data_dir}/x'}
    """
    left = MOST_TEXT

    def value(raw: object, path: Path) -> object:
        nonlocal left
        if isinstance(raw, dict):
            return {key: value(inner, (*path, key)) for key, inner in raw.items()}
        if raw == MISSING:
            return None
        if not isinstance(raw, str) or "${" not in raw:
            return raw
        for _ in range(DEEPEST):
            pairs = ((each, _looked_up(each[1], data, path)) for each in REFERENCE.finditer(raw))
            match, meant = next((pair for pair in pairs if pair[1] is not None), (None, None))
            if match is None:
                return raw
            if match[0] == raw:
                if not isinstance(meant, str):
                    return meant
                raw = meant
            else:
                raw = raw[: match.start()] + str(meant) + raw[match.end() :]
            left -= len(raw)
            if left < 0:
                raise ConfigError(
                    [Problem(f"references make more than {MOST_TEXT // 2**20} million characters", file=file)]
                )
        return raw

    return {key: value(inner, (key,)) for key, inner in data.items()}


def _looked_up(text: str, data: Record, path: Path) -> Any:
    """Return what one reference means; None where it names nothing here."""
    name, colon, rest = text.partition(":")
    if colon and name in FUNCTIONS:
        numbers = [part.strip() for part in rest.split(",")]
        if len(numbers) != 2 or not all(re.fullmatch(r"-?[0-9]{1,18}", number) for number in numbers):
            return None
        return FUNCTIONS[name](int(numbers[0]), int(numbers[1]))
    dots = len(text) - len(text.lstrip("."))
    parts: list[Any] = [*path[:-dots], *text[dots:].split(".")] if dots else text.split(".")
    meant: Any = data
    for part in parts[1:] if parts and parts[0] == "training" and "training" not in data else parts:
        if not isinstance(meant, dict) or part not in meant:
            return None
        meant = meant[part]
    return None if meant == MISSING else meant

"""Where the shipped YAML files are, and how a name or a path becomes one of them."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from comp_comm.configs import strict_yaml
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import ConfigError, Problem, nearest, one_of

FOLDERS = {"study": ".", "hardware": "hardware", "model": "models"}
SUFFIXES = (".yaml", ".yml")
STDIN = "-"
# Files read since a command began, whatever they are (what a profile extends, a model): none may be written over.
FILES_READ: set[Path] = set()


@cache
def root() -> Path:
    """Return the folder of shipped configs: the wheel's copy, or the checkout's in an editable install."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


def names(kind: str) -> list[str]:
    """Return the catalogue's names of a kind: ``study``, ``hardware`` or ``model``.

    >>> "mi210" in names("hardware")
    True
    """
    return sorted(path.stem for path in (root() / FOLDERS[kind]).glob("*.yaml"))


def locate(kind: str, reference: str, beside: str = "") -> Path:
    """Return the file a reference means: a path (relative to ``beside``'s folder too), or a catalogue name.

    Raises ``ConfigError`` for a missing file, a directory, or an unknown name (with the nearest one).
    """
    path = Path(reference)
    if path.suffix in SUFFIXES or os.sep in reference or "/" in reference:
        candidates = [path, Path(beside).parent / path] if beside else [path]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        what = "is a directory" if path.is_dir() else "there is no such file"
        raise ConfigError([Problem(f"{what} ({kind})", file=str(reference))])
    shipped = root() / FOLDERS[kind] / f"{reference.lower()}.yaml"
    if reference and not reference.startswith(".") and shipped.is_file():
        return shipped
    if path.is_dir():
        raise ConfigError([Problem(f"is a directory, not a {kind} file", file=str(reference))])
    known = names(kind)
    raise ConfigError(f"no {kind} is called '{reference}'{nearest(reference, known)} ({one_of(known)}, or a path)")


def read(kind: str, reference: str, beside: str = "") -> Document:
    """Return the parsed file that a reference means (see `locate`); ``-`` is standard input."""
    if reference == STDIN:
        return strict_yaml.load(sys.stdin.buffer.read(strict_yaml.MAX_BYTES + 1), "standard input")
    path = locate(kind, reference, beside)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", file=str(path))]) from None
    FILES_READ.add(path.resolve())
    shown = path.name if root() in path.resolve().parents and str(path) != reference else str(path)
    return strict_yaml.load(content, shown)

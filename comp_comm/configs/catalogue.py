"""Where the shipped YAML files are, and how a name or a path becomes one of them."""

from __future__ import annotations

import os
import sys
from functools import cache, lru_cache
from pathlib import Path

from comp_comm.configs import strict_yaml
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import ConfigError, Problem, nearest, one_of

FOLDERS = {"study": ".", "hardware": "hardware", "model": "models"}
PAPERS, TRENDS = "papers", "trends"  # studies of other papers and of what became of one, named with their folder
SUFFIXES = (".yaml", ".yml")
FOREIGN_SUFFIXES = (".json", ".toml", ".sh", ".txt", ".args")  # of what else may describe a model
STDIN, STDIN_SHOWN = "-", "standard input"
# Files read since a command began, whatever they are (what a profile extends, a model): none may be written over.
FILES_READ: set[Path] = set()


@cache
def root() -> Path:
    """Return the folder of shipped configs: the wheel's copy, or the checkout's in an editable install."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


VENDORS = ("nvidia", "amd", "google", "intel", "aws", "instinct", "tesla", "gpu")


def names(kind: str) -> list[str]:
    """Return the catalogue's names of a kind: ``study``, ``hardware`` or ``model``.

    >>> "mi210" in names("hardware")
    True
    """
    more = (PAPERS, TRENDS) if kind == "study" else ()
    prefixes = {root() / FOLDERS[kind]: "", **{root() / folder: f"{folder}/" for folder in more}}
    return sorted(prefix + name for folder, prefix in prefixes.items() for name in _stems(folder, _changed(folder)))


def _changed(folder: Path) -> int:
    return folder.stat().st_mtime_ns if folder.is_dir() else 0


@lru_cache(maxsize=16)
def _stems(folder: Path, changed: int) -> tuple[str, ...]:
    """Return the names of the files of a folder, as it is since it was last changed."""
    return tuple(path.stem for path in folder.glob("*.yaml"))


@cache
def short_names() -> dict[str, str]:
    """Return the profile that a device's short name is taken for: the files' ``aliases``.

    >>> short_names()["a100"]
    'a100-sxm-80gb'
    """
    known: dict[str, str] = {}
    for name in names("hardware"):
        text = (root() / FOLDERS["hardware"] / f"{name}.yaml").read_bytes()
        if b"\naliases:" in text:
            known |= dict.fromkeys(map(str, strict_yaml.load(text, name).data["aliases"]), name)
    return known


def variants(reference: str) -> list[str]:
    """Return the other devices that a short name may stand for, none where it is no short name.

    >>> variants("A100"), variants("a100-sxm-40gb")
    (['a100-sxm-40gb'], [])
    """
    short = reference.lower()
    known = names("hardware")
    if short in known or short not in short_names():
        return []
    return [name for name in known if name.startswith(f"{short}-") and name != short_names()[short]]


def locate(kind: str, reference: str, beside: str = "") -> Path:
    """Return the file a reference means: a path, or a catalogue name.

    A path is relative to here, to ``beside``'s folder, or to the shipped configs: ``papers/amped-mappings``, say.

    Raises ``ConfigError`` for a missing file, a directory, or an unknown name (with the nearest one).
    """
    path = Path(reference)
    suffixes = SUFFIXES + FOREIGN_SUFFIXES if kind == "model" else SUFFIXES
    given_json = path.suffix == ".json" and path.is_file()  # which is YAML too
    if path.suffix in suffixes or given_json or os.sep in reference or "/" in reference:
        candidates = [path, *([Path(beside).parent / path] if beside else []), root() / path, root() / f"{path}.yaml"]
        for candidate in candidates:
            if candidate.is_file() or candidate.is_fifo():  # the latter is what a shell makes of <(a command)
                return candidate
        what = "is a directory" if path.is_dir() else "there is no such file"
        shipped_name = f"; the catalogue has '{path.stem}': give that name alone" if path.stem in names(kind) else ""
        raise ConfigError([Problem(f"{what} ({kind}){shipped_name}", file=str(reference))])
    shipped = root() / FOLDERS[kind] / f"{reference.lower()}.yaml"
    if reference and not reference.startswith(".") and shipped.is_file():
        return shipped
    if kind == "model" and path.is_file():  # a launch script, say, whatever it is called
        return path
    if path.is_file():
        how = f"'compcomm import {reference}' makes a study of another tool's file" if kind == "study" else "give YAML"
        raise ConfigError([Problem(f"is no {kind} file, whose name ends in .yaml: {how}", file=str(reference))])
    if path.is_dir():
        raise ConfigError([Problem(f"is a directory, not a {kind} file", file=str(reference))])
    if kind == "hardware" and reference.lower() in short_names():
        return root() / FOLDERS[kind] / f"{short_names()[reference.lower()]}.yaml"
    known = names(kind)
    guess = _nearest_device(reference) if kind == "hardware" else _other_kind(reference) or nearest(reference, known)
    raise ConfigError(f"no {kind} is called '{reference}'{guess} ({one_of(known)}, or a path)")


def _other_kind(reference: str) -> str:
    """Return what the name of a model or a device is that was given for a study, and the flag that takes it.

    >>> _other_kind("llama-3-8b"), _other_kind("H100")
    ('; it is a model: --model llama-3-8b', '; it is a device: --hardware H100')
    """
    if reference.lower() in names("model"):
        return f"; it is a model: --model {reference}"
    device = reference.lower() in {*names("hardware"), *short_names()}
    return f"; it is a device: --hardware {reference}" if device else ""


def _nearest_device(reference: str) -> str:
    """Return a hint at the device that is meant; its vendor is no part of its name here.

    >>> _nearest_device("NVIDIA H100"), _nearest_device("h101")
    ("; did you mean 'h100'?", "; did you mean 'h100'?")
    """
    known, short = names("hardware"), short_names()
    plain = "-".join(part for part in reference.lower().split() if part not in VENDORS)
    return f"; did you mean '{plain}'?" if plain in {*known, *short} else nearest(plain, known) or nearest(plain, short)


def read(kind: str, reference: str, beside: str = "") -> Document:
    """Return the parsed file that a reference means (see `locate`); ``-`` is standard input."""
    return strict_yaml.load_shared(*content(kind, reference, beside))


def standard_input(most: int) -> bytes:
    """Return what standard input holds, up to so many bytes. Raises ``ConfigError`` where it is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise ConfigError([Problem("is closed", file=STDIN_SHOWN)])
    return sys.stdin.buffer.read(most)


def content(kind: str, reference: str, beside: str = "") -> tuple[bytes, str]:
    """Return what the file that a reference means holds, and what messages call it."""
    if reference == STDIN:
        return standard_input(strict_yaml.MAX_BYTES + 1), STDIN_SHOWN
    path = locate(kind, reference, beside)
    try:
        with path.open("rb") as file:
            held = file.read(strict_yaml.MAX_BYTES + 1)  # so much is more than a file may hold: no more is read of it
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", file=str(path))]) from None
    FILES_READ.add(path.resolve())
    shown = path.name if root() in path.resolve().parents and str(path) != reference else str(path)
    return held, shown

"""What every reader of a file does: take keys of a document, and note what is wrong with them."""

from __future__ import annotations

from typing import Any

from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import Problems, nearest, one_of
from comp_comm.records import Record


class Reader:
    """Reads one document; problems are noted, not raised, so that all of them are found."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self.document, self.problems = document, problems

    def _problem(self, path: Path, message: str) -> None:
        self.problems.add(self.document.problem(path, message))

    def _known(self, path: Path, mapping: Record, allowed: tuple[str, ...]) -> None:
        """Note every key that is not allowed."""
        for key in mapping:
            if key not in allowed:
                self._problem((*path, key), f"unknown key{nearest(key, allowed)} ({one_of(allowed)})")

    def _mapping(self, path: Path) -> Record:
        """Return the mapping at a path, empty where it is not given or is none (then a problem)."""
        value: Any = self.document.data
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return {}
            value = value[part]
        if not isinstance(value, dict):
            self._problem(path, "must be a mapping of keys to values")
            return {}
        return value

    def _text(self, key: str, default: str) -> str:
        """Return the text of a top-level key."""
        value = self.document.data.get(key, default)
        if value is not default and not isinstance(value, str):
            self._problem((key,), "must be text")
            return default
        return value

    def _counts(self, path: Path, allowed: tuple[str, ...]) -> dict[str, int]:
        """Return a mapping of names to whole numbers of at least one; note what is none."""
        given = self._mapping(path)
        self._known(path, given, allowed)
        counts = {name: count for name, count in given.items() if type(count) is int and count >= 1}
        for name in given.keys() - counts.keys():
            self._problem((*path, name), "must be a whole number, at least 1")
        return counts

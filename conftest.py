"""Which modules pytest looks for doctests in."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent / "comp_comm"


def pytest_ignore_collect(collection_path):
    """Leave out modules of the package without an example: they are not imported to find that out."""
    ours = collection_path.suffix == ".py" and PACKAGE in collection_path.parents
    return (ours and ">>>" not in collection_path.read_text(encoding="utf-8")) or None

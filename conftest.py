"""Which modules pytest looks for doctests in."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent


def pytest_ignore_collect(collection_path):
    """Leave out modules of the package without an example: they are not imported to find that out."""
    ours = collection_path.suffix == ".py" and "comp_comm" in collection_path.relative_to(ROOT).parts
    return (ours and ">>>" not in collection_path.read_text(encoding="utf-8")) or None

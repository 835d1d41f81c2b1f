"""How many examples: few in an ordinary run, many with ``--hypothesis-profile many`` (see `conftest`)."""

from __future__ import annotations

from hypothesis import settings


def examples(share=1.0):
    """Return a share of the examples of this run, at least a few."""
    return max(3, round(settings.default.max_examples * share))

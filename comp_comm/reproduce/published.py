"""What papers published: tables shipped beside their studies, and how ours is compared with them."""

from __future__ import annotations

import csv

from comp_comm.configs import catalogue


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in ``configs/papers``, as text.

    >>> len(read_table("foundation-models.csv"))
    360
    """
    with open(catalogue.root() / catalogue.PAPERS / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def relative_error(ours: float | None, published: float) -> float | None:
    """Return how far a value of ours is from a published one, as a share of it."""
    return None if ours is None else ours / published - 1

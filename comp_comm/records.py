"""A row of an answer: what is written as JSON or CSV, and what a table shows."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]  # column: a number, a word, a switch, or None where there is nothing to say
Records = list[Record]

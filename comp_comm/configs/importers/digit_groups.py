"""Numbers whose digits are in groups, as Python and PyYAML read them: 1_000."""

from __future__ import annotations

import re

GROUPS = re.compile(r"[0-9]{1,3}(?:_[0-9]{3}){1,6}")


def without_groups(word: str) -> str:
    """Return a number without the underscores between its groups of digits; another word as it is.

    >>> without_groups("500_000"), without_groups("3_layers")
    ('500000', '3_layers')
    """
    return word.replace("_", "") if GROUPS.fullmatch(word) else word


def number_of_groups(value: object) -> object:
    """Return the number that digits in groups are; another value as it is.

    >>> number_of_groups("262_144"), number_of_groups("save_qkv"), number_of_groups(None)
    (262144, 'save_qkv', None)
    """
    return int(without_groups(value)) if isinstance(value, str) and GROUPS.fullmatch(value) else value

"""What ``read`` sets: the words of a text that the script gives it, or what is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from comp_comm.configs.importers.shell_assign import assign
from comp_comm.configs.importers.shell_machine import Machine
from comp_comm.configs.importers.shell_scope import is_undecided, is_unset, undecided

WITH_VALUE = ("-d", "-i", "-n", "-N", "-p", "-t", "-u")


def read(shell: Machine, words: Sequence[str], given: str | None = None) -> bool | None:
    """Set the variables that ``read`` names: to the words of the first line it is given, the last one to the rest."""
    names, array, options, place = [], "", "", 1  # type: list[str], str, str, int
    while place < len(words):
        word = words[place]
        if word == "-a" or (word.startswith("-") and word.endswith("a")):
            array, place = words[place + 1] if place + 1 < len(words) else "", place + 1
        elif word.startswith("-"):
            options += word[1:]
            place += word in WITH_VALUE
        elif re.fullmatch(r"[A-Za-z_]\w*", word):
            names.append(word)
        place += 1
    line = None if given is None else given.split("\n")[0]
    separators = shell.scope.separators()
    if line is None or set(options) & set("dnNi") or is_unset(line) or is_undecided(line) or "\\" in line:
        for name in [*names, *([array] if array else [])]:
            assign(shell, name, undecided(name))
        return None
    parts = [part for part in re.split(separators, line) if part] if separators else [line]
    if array:
        shell.scope.set(array, parts)
    for number, name in enumerate(names or ["REPLY"] * (not array)):
        last = number + 1 == len(names)
        rest = re.split(separators, line.strip(), maxsplit=number)[number:] if separators else parts[number:]
        shell.scope.set(name, (rest[0] if rest else "") if last else parts[number] if number < len(parts) else "")
    return True

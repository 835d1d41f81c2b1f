"""Words of a command as arguments by flag, and the lines that they are on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from comp_comm.configs.importers.digit_groups import without_groups
from comp_comm.configs.importers.imported import Findings
from comp_comm.configs.importers.shell_scope import HOLDS_FLAGS, MARK, UNDECIDED, names_in
from comp_comm.configs.strict_yaml import resolve_scalar
from comp_comm.records import Record


def parse_arguments(words: Sequence[str]) -> tuple[Record, list[str]]:
    """Return arguments by flag, as values (true for a switch), and variables that are left undecided between them.

    Underscores in a flag are dashes; the last of two equal flags counts, as for Megatron-LM. A variable that is not
    set leaves nothing, as for a shell, unless a flag needs it.

    >>> parse_arguments(["--num_layers", "4", "--bf16", "--window-size", "128", "0", "--lr=1e-4"])[0]
    {'--num-layers': 4, '--bf16': True, '--window-size': [128, 0], '--lr': 0.0001}
    """
    data: Record = {}
    loose: list[str] = []
    flag, values = "", []  # type: tuple[str, list[str]]

    def end() -> None:
        if flag:
            plain = [_plain(value) for value in values]
            data.pop(flag, None)
            data[flag] = True if not plain else plain[0] if len(plain) == 1 else plain

    for word in words:
        if word.startswith("--") and len(word) > 2:
            end()
            name, equals, value = word.partition("=")
            flag, values = flag_of(name), [value] if equals else []
        elif word.startswith(f"{UNDECIDED}{HOLDS_FLAGS}"):
            loose += names_in(word)
        elif flag and not (values and MARK.fullmatch(word)):
            values.append(word)
        elif word.startswith(UNDECIDED):
            loose += names_in(word)
    end()
    return data, loose


def flag_of(name: str) -> str:
    """Return a flag as Megatron-LM has it: with dashes."""
    return name.rstrip(":").replace("_", "-")


def _plain(word: str) -> object:
    """Return a word as the value it stands for; Python reads 1_000 as a number."""
    return resolve_scalar(without_groups(word))


def lines_of(text: str) -> dict[str, int]:
    """Return the line that each argument is on: the last that is no comment.

    >>> lines_of("run --num-layers 2 \\\\\\n  --bf16 # --fp16")
    {'--num-layers': 1, '--bf16': 2}
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if "--" in line:
            for match in re.finditer(r"--([A-Za-z][\w-]{0,80})", re.split(r"(?:^|\s)#", line, maxsplit=1)[0]):
                lines[flag_of(match[0])] = number
    return lines


def left_open(words: Sequence[str], f: Findings) -> None:
    """Say which variables of a command stand alone and have no value; one that a condition decides is a problem."""
    alone = [word for word in words if MARK.fullmatch(word)]
    undecided = [name for word in alone if word.startswith(UNDECIDED) for name in names_in(word)]
    empty = [name for word in alone if not word.startswith(UNDECIDED) for name in names_in(word)]
    if undecided:
        f.wrong((), f"'${undecided[0]}' depends on a condition that the script does not decide, and may hold "
                "arguments: import the arguments it runs with alone")  # fmt: skip
    if empty:
        f.note(f"not set in the script, and taken as nothing: {', '.join(f'${name}' for name in dict.fromkeys(empty))}")

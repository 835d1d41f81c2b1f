"""Commands that a shell has itself, and what a few others write."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from comp_comm.configs.importers.shell_arithmetic import arithmetic_of
from comp_comm.configs.importers.shell_assign import assign, declared_words, unset_words
from comp_comm.configs.importers.shell_machine import LeaveError, Machine
from comp_comm.configs.importers.shell_read import read
from comp_comm.configs.importers.shell_scope import Scope, is_undecided, is_unset, names_in, undecided, unset
from comp_comm.configs.importers.shell_tests import tested_words
from comp_comm.configs.importers.shell_words import with_escapes

Builtin = Callable[[Machine, list[str], int], "bool | None"]
MOST = 1000  # numbers that seq writes


def _true(shell: Machine, words: list[str], line: int) -> bool:
    return True


def _false(shell: Machine, words: list[str], line: int) -> bool:
    return False


def _leave(shell: Machine, words: list[str], line: int) -> bool:
    raise LeaveError(words[0])


def _eval(shell: Machine, words: list[str], line: int) -> bool | None:
    """Go through the words as a script, here and now."""
    outer, shell.first_line = shell.first_line, line
    shell.depth += 1
    try:
        shell.run(" ".join(words[1:]))
    finally:
        shell.first_line, shell.depth = outer, shell.depth - 1
    return None


def _source(shell: Machine, words: list[str], line: int) -> bool | None:
    """Go through a file that the script wrote; another one is noted, for what it sets is not known."""
    name = words[1] if len(words) > 1 else ""
    written = shell.files.get(name) or shell.files.get(f"./{name}")
    if written is None:
        shell.sourced.append(name)
        return None
    return _eval(shell, ["eval", written.text], line)


def _set(shell: Machine, words: list[str], line: int) -> bool:
    """Set the arguments of the script (``set -- a b``); options of the shell are nothing to us, but -a exports all."""
    if "--" in words:
        shell.scope.arguments = words[words.index("--") + 1 :]
    if any(re.fullmatch(r"-[a-z]*a[a-z]*", word) for word in words[1:]) or "allexport" in words:
        shell.scope.exported.update(shell.scope.values)
        shell.scope.exported.add("*")
    return True


def _shift(shell: Machine, words: list[str], line: int) -> bool:
    count = int(words[1]) if len(words) > 1 and re.fullmatch(r"[0-9]{1,4}", words[1]) else 1
    if shell.scope.arguments is not None:
        shell.scope.arguments = shell.scope.arguments[count:]
    return True


def _let(shell: Machine, words: list[str], line: int) -> bool | None:
    text = [arithmetic_of(word, shell.scope) for word in words[1:]]
    return None if not text or names_in(text[-1]) else text[-1] != "0"


def _test(shell: Machine, words: list[str], line: int) -> bool | None:
    return tested_words(words[1:] if words[0] == "test" else words[1:-1], shell.scope)


def _read(shell: Machine, words: list[str], line: int) -> bool | None:
    """Leave undecided what is read from elsewhere."""
    return read(shell, words)


def _mapped(shell: Machine, words: list[str], line: int) -> bool | None:
    for word in words[1:]:
        if re.fullmatch(r"[A-Za-z_]\w*", word):
            assign(shell, word, undecided(word))
    return None


def _printf(shell: Machine, words: list[str], line: int) -> bool:
    if words[1:2] == ["-v"] and len(words) > 3:
        assign(shell, words[2], written_by(["printf", *words[3:]], shell.scope) or undecided(words[2]))
    else:
        shell.say(written_by(words, shell.scope))
    return True


def _echo(shell: Machine, words: list[str], line: int) -> bool:
    shell.say(written_by(words, shell.scope))
    return True


BUILTINS: dict[str, Builtin] = {
    ":": _true, "true": _true, "false": _false, "eval": _eval, "source": _source, ".": _source, "set": _set,
    "shift": _shift, "let": _let, "test": _test, "[": _test, "read": _read, "mapfile": _mapped, "readarray": _mapped,
    "printf": _printf, "echo": _echo, "trap": _true, "alias": _true, "shopt": _true, "ulimit": _true, "cd": _true,
    **dict.fromkeys(("export", "declare", "local", "readonly", "typeset"), declared_words), "unset": unset_words,
    "wait": _true, "pushd": _true, "popd": _true, "umask": _true,
    **dict.fromkeys(("exit", "return", "break", "continue"), _leave),
}  # fmt: skip


def written_by(words: Sequence[str], scope: Scope, read: str | None = None) -> str | None:
    """Return what a command writes that reads ``read``; None where that is not known.

    >>> written_by(["expr", "2", "*", "8"], Scope()), written_by(["seq", "3"], Scope()), written_by(["date"], Scope())
    ('16', '1\\n2\\n3', None)
    """
    name, rest = words[0].rsplit("/", 1)[-1], list(words[1:])
    if name == "echo":
        flags = ""
        while rest and re.fullmatch(r"-[neE]+", rest[0]):
            flags += rest.pop(0)
        return with_escapes(" ".join(rest)) if "e" in flags else " ".join(rest)
    if name == "printf":
        return _formatted(rest)
    if name == "expr":
        text = arithmetic_of(" ".join(rest), scope)
        return unset(names_in(text)[0]) if names_in(text) else text
    if name == "seq":
        return _sequence(rest)
    if name in ("basename", "dirname") and rest and not any(map(is_unset, rest)):
        return _part_of_path(name, rest)
    return None if read is None else _filtered(name, rest, read, scope)


def _filtered(name: str, rest: list[str], read: str, scope: Scope) -> str | None:
    """Return what a command makes of what it reads."""
    if name == "bc" and not rest:
        source = read.strip().replace("^", "**")
        text = arithmetic_of(source, scope) if re.fullmatch(r"[^=;.\n&|<>!]+", source) else None
        return None if text is None else unset(names_in(text)[0]) if names_in(text) else text
    if name == "xargs" and not rest:
        return " ".join(read.split())
    if name == "cat" and not rest:
        return read
    marked = is_unset(read) or is_undecided(read)
    if name == "wc" and rest in (["-l"], ["-w"]) and not marked:
        return str(len(read.splitlines() if rest == ["-l"] else read.split()))
    if name == "tr" and len(rest) == 2 and all(len(each) == 1 for each in rest) and not marked:
        return read.replace(rest[0], rest[1])
    return None


def _formatted(rest: list[str]) -> str | None:
    """Return what ``printf`` writes, of the plain formats."""
    if not rest or any(map(is_undecided, rest)):
        return None
    pieces = re.split(r"(%[sd])", rest[0].replace("\\n", "\n"))
    if any("%" in piece and piece not in ("%s", "%d") for piece in pieces):
        return None
    given, written = rest[1:], ""
    takes = sum(piece in ("%s", "%d") for piece in pieces)
    while True:  # the format again, as long as there are words left for it
        values = iter(given[:takes])
        written += "".join(next(values, "") if piece in ("%s", "%d") else piece for piece in pieces)
        given = given[takes:]
        if not given or not takes:
            return written.rstrip("\n")


def _sequence(rest: list[str]) -> str | None:
    if not 1 <= len(rest) <= 3 or not all(re.fullmatch(r"-?[0-9]{1,6}", word) for word in rest):
        return None
    numbers = [int(word) for word in rest]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (
        numbers[0], numbers[1] if len(numbers) == 3 else 1, numbers[-1])  # fmt: skip
    if step == 0 or abs(last - first) // abs(step) > MOST:
        return None
    return "\n".join(map(str, range(first, last + (1 if step > 0 else -1), step)))


def _part_of_path(name: str, rest: list[str]) -> str:
    path = rest[0].rstrip("/")
    if name == "dirname":
        return (path.rsplit("/", 1)[0] or "/") if "/" in path else "."
    last = path.rsplit("/", 1)[-1]
    return last.removesuffix(rest[1]) if len(rest) > 1 else last

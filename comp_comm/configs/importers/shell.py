"""Just enough of a shell to read a launch script: assignments, conditions that decide themselves, commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from comp_comm.configs.importers.shell_words import UNDECIDED, UNSET, Word, arithmetic, expand, words_of

_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)
_MARK = re.compile(f"[{UNSET}{UNDECIDED}][^{UNSET}{UNDECIDED}]*[{UNSET}{UNDECIDED}]")
_DECLARE = ("export", "local", "declare", "readonly", "typeset")
_TESTS = ("[", "[[", "test", "((")
_ENDS = ("fi", "else", "elif", "done", "esac", ";;")
_COMPARE = {"-eq": "==", "-ne": "!=", "-gt": ">", "-ge": ">=", "-lt": "<", "-le": "<="}
_SBATCH = re.compile(r"#SBATCH\s+(?:--nodes[= ]|-N\s*)(\d+)")


class Command(NamedTuple):
    """The words of one command, and the operator before it."""

    words: tuple[Word, ...]
    after: str


@dataclass
class Shell:
    """Variables of a script as they are after the commands run so far, and the words of every command."""

    values: dict[str, str | list[str]] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)

    def run(self, script: str) -> None:
        """Run a script's assignments, and note its commands."""
        nodes = _SBATCH.search(script)
        if nodes:
            self.values |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes[1])
        self._block(list(_commands(words_of(script))), 0, run=True)

    def _block(self, commands: Sequence[Command], at: int, run: bool) -> int:
        """Run commands until one that ends a block; return its place."""
        last: bool | None = True
        while at < len(commands):
            words, after = commands[at]
            first = words[0].text if words else ""
            if first in _ENDS:
                return at
            skipped = (after == "&&" and last is False) or (after == "||" and last is not False)
            if first == "if":
                at = self._if(commands, at, run and not skipped)
            elif first == "case":
                at = self._case(commands, at, run and not skipped)
            elif first in ("for", "while", "until"):
                at = self._loop(commands, at, run and not skipped)
            else:
                words = words[1:] if first in ("then", "do", "{", "!") else words
                if run and not skipped and words:
                    last = self._command(words, unsure=after == "&&" and last is None)
                at += 1
        return at

    def _if(self, commands: Sequence[Command], at: int, run: bool) -> int:
        """Run the branch that its condition chooses; where that is not known, what branches change is undecided."""
        before = dict(self.values)
        outcomes: list[dict[str, str | list[str]]] = []
        open_ = run  # whether a branch may still be chosen
        sure = True
        while at < len(commands) and commands[at].words[0].text != "fi":
            keyword = commands[at].words[0].text
            verdict: bool | None = True
            if keyword in ("if", "elif"):
                verdict, at = self._condition(commands, at)
            else:
                at = self._strip(commands, at, "else")
            chosen = open_ and verdict is not False
            if chosen and not sure:
                self.values = dict(before)
            at = self._block(commands, at, run=chosen)
            if chosen:
                outcomes.append(self.values)
                open_, sure = verdict is None, sure and verdict is True
                self.values = dict(before) if verdict is None else self.values
        if open_:
            outcomes.append(before)
        self._join(outcomes)
        return at + 1

    @staticmethod
    def _strip(commands: Sequence[Command], at: int, keyword: str) -> int:
        """Take a keyword off the command it stands before, in place."""
        command = commands[at]
        if command.words and command.words[0].text == keyword:
            commands[at] = Command(command.words[1:], ";")  # type: ignore[index]
        return at

    def _join(self, outcomes: Sequence[dict[str, str | list[str]]]) -> None:
        if not outcomes:
            return
        self.values = dict(outcomes[0])
        for name in {name for each in outcomes for name in each}:
            found = [each.get(name) for each in outcomes]
            if any(value != found[0] for value in found):
                self.values[name] = undecided(name, *found)

    def _condition(self, commands: Sequence[Command], at: int) -> tuple[bool | None, int]:
        """Return whether the condition that begins here holds (None: not known), and where its branch begins."""
        verdict: bool | None = None
        first = True
        while at < len(commands):
            words, after = commands[at]
            texts = words
            if words and words[0].text == "then":
                commands[at] = Command(words[1:], ";")  # type: ignore[index]
                return verdict, at
            texts = words[1:] if words and words[0].text in ("if", "elif", "while") else words
            here = self._test([part for word in texts for part in (expand(word.text, self.values) or [""])])
            if first:
                verdict, first = here, False
            elif after == "&&":
                verdict = False if False in (verdict, here) else None if None in (verdict, here) else True
            elif after == "||":
                verdict = True if True in (verdict, here) else None if None in (verdict, here) else False
            at += 1
        return verdict, at

    def _test(self, words: list[str]) -> bool | None:
        """Return whether a test holds, None where it asks something that the script does not say."""
        if words and words[0] == "!":
            found = self._test(words[1:])
            return None if found is None else not found
        known = [word for word in words if word not in ("[", "[[", "]", "]]", "test")]
        known = ["" if UNSET in word else word for word in known]
        if any(UNDECIDED in word for word in known):
            return None
        if known in (["true"], ["false"]):
            return known == ["true"]
        if len(known) == 2 and known[0] in ("-n", "-z"):
            return (known[1] == "") == (known[0] == "-z")
        if len(known) == 1 and words[0] in _TESTS:
            return known[0] != ""
        if len(known) != 3 or not (known[1] in ("=", "==", "!=") or known[1] in _COMPARE):
            return None
        left, sign, right = known
        if sign in _COMPARE:
            numbers = [arithmetic(side or "0", {}) for side in (left, right)]
            if any(UNSET in number for number in numbers):
                return None
            a, b = map(int, numbers)
            return {"-eq": a == b, "-ne": a != b, "-gt": a > b, "-ge": a >= b, "-lt": a < b, "-le": a <= b}[sign]
        return fnmatchcase(left, right) == (sign != "!=")

    def _case(self, commands: Sequence[Command], at: int, run: bool) -> int:
        """Run the arm whose pattern fits."""
        words = [part for word in commands[at].words[1:] for part in (expand(word.text, self.values) or [""])]
        subject = _MARK.sub("", words[0]) if words else ""
        rest = commands[at].words[3:]
        at += 1
        patterns = [word.text for word in rest]
        done = not run
        while at < len(commands):
            texts, after = commands[at]
            if after == ")":  # what was before it are patterns; this command is the arm's first
                fits = not done and any(fnmatchcase(subject, expand(each, self.values)[0]) for each in patterns if each)
                at = self._block(commands, at, run=fits)
                done, patterns = done or fits, []
                if at < len(commands) and commands[at].words[0].text == ";;":
                    at += 1
                continue
            if texts and texts[0].text == "esac":
                return at + 1
            patterns += [word.text for word in texts]
            at += 1
        return at

    def _loop(self, commands: Sequence[Command], at: int, run: bool) -> int:
        """Run a loop's body once: for the one value it has, or for one that is not known; a false ``while`` never."""
        words = commands[at].words
        if words[0].text == "for":
            values = [part for word in words[3:] for part in expand(word.text, self.values)]
            if run and len(words) > 1:
                self.values[words[1].text] = values[0] if len(values) == 1 else f"{UNDECIDED}{words[1].text}{UNDECIDED}"
        else:
            found = self._test([part for word in words[1:] for part in (expand(word.text, self.values) or [""])])
            run = run and found is not False and words[0].text == "while"
        at = self._block(commands, at + 1, run)
        return at + 1

    def _command(self, words: Sequence[Word], unsure: bool) -> bool | None:
        """Do one command: assign, or test, or note its words; return whether it succeeded."""
        if words[0].text in _TESTS:
            return self._test([part for word in words for part in (expand(word.text, self.values) or [""])])
        rest = list(words[1:] if words[0].text in _DECLARE else words)
        while rest and (rest[0].is_array or _ASSIGN.match(rest[0].text)):
            self._assign(rest.pop(0), unsure)
        if rest and words[0].text not in _DECLARE:
            found = [part for word in rest for part in expand(word.text, self.values)]
            self.commands.append(found)
        return True

    def _assign(self, word: Word, unsure: bool) -> None:
        match = _ASSIGN.match(word.text)
        if match is None:
            return
        name, more, raw = match[1], match[2], match[3]
        value: str | list[str]
        if word.is_array:
            value = [part for item in word.items for part in expand(item, self.values)]
        else:
            value = " ".join(expand(raw, self.values))
        old = self.values.get(name)
        if more and old is not None:
            value = [*old, *_as_list(value)] if isinstance(old, list) else old + " ".join(_as_list(value))
        self.values[name] = undecided(name, value) if unsure else value


def undecided(name: str, *values: str | list[str] | None) -> str:
    """Return the mark of a variable that depends on a condition; dashes in it say that it may hold arguments."""
    words = [word for value in values if value is not None for word in split(_as_list(value))]
    dashes = "--" if any(word.startswith("--") for word in words) else ""
    return f"{UNDECIDED}{dashes}{name}{UNDECIDED}"


def _as_list(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _commands(words: Iterator[Word]) -> Iterator[Command]:
    """Yield the commands between operators; a ``;;`` is a command of its own."""
    current: list[Word] = []
    after = "\n"
    for word in words:
        if not word.is_operator:
            current.append(word)
            continue
        if current or word.text in (")",):
            if current:
                yield Command(tuple(current), after)
            after = word.text
        elif word.text != "\n":
            after = word.text
        if word.text == ";;":
            yield Command((Word(";;"),), ";")
        current = []
    if current:
        yield Command(tuple(current), after)


def split(words: Sequence[str]) -> list[str]:
    """Return words cut once more, as a shell does that is given them as one text (``bash -c "..."``, ``eval``).

    >>> split(["bash", "-c", "python train.py --lr 1"])
    ['bash', '-c', 'python', 'train.py', '--lr', '1']
    """
    found: list[str] = []
    for word in words:
        if not re.search(r"\s", word):
            found.append(word)
            continue
        try:
            found += shlex.split(word)
        except ValueError:
            found += word.split()
    return found

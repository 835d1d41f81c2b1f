"""Conditions of a shell: ``[ ]``, ``[[ ]]`` and ``test``; None where the script does not decide them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from comp_comm.configs.importers.shell_arithmetic import UnknownNumberError, arithmetic_of, number_of
from comp_comm.configs.importers.shell_scope import (
    Scope,
    is_undecided,
    is_unset,
    is_written,
    names_in,
    undecided,
    without_unset,
)  # fmt: skip
from comp_comm.configs.importers.shell_tree import text_of
from comp_comm.configs.importers.shell_words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

COMPARISONS = ("-eq", "-ne", "-gt", "-ge", "-lt", "-le")
EQUALITIES = ("=", "==", "!=")
BINARY = (*COMPARISONS, *EQUALITIES, "=~", "<", ">", "-nt", "-ot", "-ef")
AND, OR = ("&&", "-a"), ("||", "-o")
_EXPRESSIONS = ("binary_expression", "unary_expression", "parenthesized_expression")
_BRACKETS = ("[", "]", "[[", "]]")


class ConditionPart(NamedTuple):
    """A part of a condition: an operator, or a text that is compared."""

    text: str
    is_operator: bool = False


def tested(node: Node, words: Words) -> bool | None:
    """Return whether ``[ ... ]`` or ``[[ ... ]]`` holds."""
    pattern = node.children[0].type == "[["
    return Test([*_parts(node, words)], words.scope, pattern).result()


def tested_words(given: Sequence[str], scope: Scope) -> bool | None:
    """Return whether ``test`` holds of words.

    >>> tested_words(["-z", ""], Scope()), tested_words(["3", "-gt", "4"], Scope()), tested_words(["-f", "x"], Scope())
    (True, False, None)
    """
    signs = (*BINARY, *AND, *OR, "!", "(", ")")
    return Test(
        [ConditionPart(word, word in signs or (word[:1] == "-" and len(word) == 2)) for word in given], scope
    ).result()


def _parts(node: Node, words: Words) -> Iterator[ConditionPart]:
    for child in node.children:
        if child.type in _EXPRESSIONS:
            yield from _parts(child, words)
        elif child.type == "test_operator" or (not child.is_named and child.type not in _BRACKETS):
            yield ConditionPart(text_of(child).strip(), is_operator=True)
        elif child.type not in _BRACKETS:
            text = words.text(child)
            computed = any(each.type == "arithmetic_expansion" for each in (child, *child.children))
            yield ConditionPart(undecided(names_in(text)[0]) if computed and is_unset(text) else text)


class Test:
    """One condition, gone through from left to right."""

    def __init__(self, parts: Sequence[ConditionPart], scope: Scope, pattern: bool = False) -> None:
        self.parts, self.scope, self.pattern, self.place = parts, scope, pattern, 0

    def result(self) -> bool | None:
        """Return whether all of it holds; None where it is not decided, or not understood."""
        if not self.parts:
            return False
        holds = self._either()
        return holds if self.place >= len(self.parts) else None

    def _operator(self, *signs: str) -> bool:
        """Take an operator, where one of these comes next."""
        there = self.place < len(self.parts) and self.parts[self.place].is_operator
        if there and self.parts[self.place].text in signs:
            self.place += 1
            return True
        return False

    def _either(self) -> bool | None:
        holds = self._both()
        while self._operator(*OR):
            other = self._both()
            holds = True if True in (holds, other) else None if None in (holds, other) else False
        return holds

    def _both(self) -> bool | None:
        holds = self._one()
        while self._operator(*AND):
            other = self._one()
            holds = False if False in (holds, other) else None if None in (holds, other) else True
        return holds

    def _one(self) -> bool | None:
        if self._operator("!"):
            holds = self._one()
            return None if holds is None else not holds
        if self._operator("("):
            holds = self._either()
            self._operator(")")
            return holds
        if self.place >= len(self.parts):
            return None
        first, following = self.parts[self.place], self.parts[self.place + 1 : self.place + 3]
        self.place += 1
        if following and following[0].is_operator and following[0].text in BINARY:
            self.place += 2
            return self._compared(first.text, following[0].text, following[1].text if len(following) > 1 else "")
        if first.is_operator and following:
            self.place += 1
            return self._of_one(first.text, following[0].text)
        return self._known(first.text) if first.text == "" else self._of_one("-n", first.text)

    def _known(self, text: str) -> bool | None:
        return None if is_undecided(text) or is_written(text) else without_unset(text) != ""

    def _of_one(self, sign: str, text: str) -> bool | None:
        if sign == "-v":
            return text in self.scope.values
        if sign not in ("-n", "-z"):
            return None
        self._ask(text)
        holds = self._known(text)
        return None if holds is None else holds == (sign == "-n")

    def _compared(self, left: str, sign: str, right: str) -> bool | None:
        if sign == "=~":  # a regular expression may take longer than a script is worth: what it finds is left open
            self.scope.set("BASH_REMATCH", undecided("BASH_REMATCH"))
        if is_undecided(left + right) or sign not in (*COMPARISONS, *EQUALITIES):
            return None
        self._ask(left, right)
        if sign in COMPARISONS:
            return self._numbers(left, sign, right)
        if any(name.isdigit() for name in names_in(left + right)):
            return None  # an argument that the script is called with: any of its values may be meant
        one, other = without_unset(left), without_unset(right)
        same = fnmatchcase(one, other) if self.pattern else one == other
        return same != (sign == "!=")

    def _numbers(self, left: str, sign: str, right: str) -> bool | None:
        try:
            plain = [without_unset(side) for side in (left, right)]
            if not self.pattern:  # [ ] reads 010 as ten, [[ ]] as eight
                plain = [re.sub(r"^([-+]?)0+(?=[0-9])", r"\1", side) for side in plain]
            a, b = (number_of(arithmetic_of(side or "0", self.scope), side) for side in plain)
        except UnknownNumberError:
            return None
        return {"-eq": a == b, "-ne": a != b, "-gt": a > b, "-ge": a >= b, "-lt": a < b, "-le": a <= b}[sign]

    def _ask(self, *texts: str) -> None:
        """Note that the condition depends on variables without a value."""
        for text in texts:
            if is_unset(text):
                self.scope.asked.update(dict.fromkeys(names_in(text)))

"""Whole-number arithmetic of a shell: ``$(( ))``, ``(( ))``, ``let`` and ``expr``.

It is read from its text with all variables' texts in it, as a shell does: the grammar of scripts has other precedences.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from comp_comm.configs.importers.shell_scope import MARK, Scope, is_undecided, names_in, undecided, unset

MOST = 2**63
DEEPEST = 60  # brackets, and variables that hold arithmetic with variables
NUMBER = re.compile(r"([-+]?)(?:(0[xX])([0-9a-fA-F]{1,15})|([0-9]{1,2})#([0-9a-zA-Z]{1,12})|([0-9]{1,18}))")
TOKEN = re.compile(
    rf"\s*(?:({MARK.pattern})|([0-9]\w*(?:#\w+)?)|([A-Za-z_]\w*)|"
    r"(<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!~<>=?:,()\[\]]))"
)
# How strongly what stands between two numbers binds them.
STRENGTH = {
    sign: strength
    for strength, signs in enumerate(("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"))
    for sign in signs.split()
}
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|=")
_SYMBOLS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_,
    "^": operator.xor,
}  # fmt: skip


class UnknownNumberError(Exception):
    """A number that the script does not say; ``mark`` stands for it."""

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self.mark = mark


def arithmetic_of(text: str, scope: Scope) -> str:
    """Return what arithmetic comes to; a mark where something in it is not known.

    >>> arithmetic_of("(N + 2) * 4 / 3 > 3 ? 2**4 : 0", Scope({"N": "1"})), arithmetic_of("-(1) + -2", Scope())
    ('16', '-3')
    """
    try:
        return str(evaluated(text, scope))
    except UnknownNumberError as unknown:
        return unknown.mark


def evaluated(text: str, scope: Scope) -> int:
    """Return the number that arithmetic comes to. Raises ``UnknownNumberError`` where it is none."""
    if not text.strip():
        return 0
    return _Arithmetic(text, scope).result()


def number_of(result: str, name: str) -> int:
    """Return a text as a whole number. Raises ``UnknownNumberError`` where it is none, or is not known.

    >>> number_of("0x10", ""), number_of("010", ""), number_of("2#101", ""), number_of(" -7 ", "")
    (16, 8, 5, -7)
    """
    result = result.strip()
    if names := names_in(result):
        raise UnknownNumberError(undecided(names[0]) if is_undecided(result) else unset(names[0]))
    if result == "":
        return 0
    match = NUMBER.fullmatch(result)
    if match:
        digits = match[3] or match[5] or match[6]
        base = 16 if match[2] else int(match[4]) if match[4] else 8 if len(digits) > 1 and digits[0] == "0" else 10
        try:
            return int(digits, base if 2 <= base <= 36 else 1) * (-1 if match[1] == "-" else 1)
        except ValueError:
            pass
    raise UnknownNumberError(undecided(name))


class _Arithmetic:
    """Reads arithmetic from left to right; ``idle`` is above 0 in a part that does not count, which sets nothing."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text, self.scope, self.place, self.idle, self.depth = text, scope, 0, 0, 0
        self.tokens: list[str] = []
        end = 0
        for match in TOKEN.finditer(text):
            if match.start() != end:
                break
            self.tokens.append(match[0].strip())
            end = match.end()
        if text[end:].strip():
            raise UnknownNumberError(undecided(text))

    def result(self) -> int:
        value = self._list()
        if self.place < len(self.tokens):
            raise self._not_understood()
        return value

    def _not_understood(self) -> UnknownNumberError:
        return UnknownNumberError(undecided(self.text))

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self, *signs: str) -> str:
        sign = self._next()
        if sign not in signs or not sign:
            return ""
        self.place += 1
        return sign

    def _list(self) -> int:
        value = self._choice()
        while self._take(","):
            value = self._choice()
        return value

    def _choice(self) -> int:
        """Return a number, one of two of which the first counts, or one that is given to a variable."""
        self.scope.limits.step()
        condition = self._operation(0)
        if not self._take("?"):
            return condition
        values = []
        for counts, sign in ((condition, ":"), (not condition, "")):
            self.idle += not counts
            values.append(self._list() if sign else self._choice())
            self.idle -= not counts
            if sign and not self._take(sign):
                raise self._not_understood()
        return values[0] if condition else values[1]

    def _operation(self, strength: int) -> int:
        one = self._power()
        while STRENGTH.get(self._next(), -1) >= strength:
            sign = self.tokens[self.place]
            self.place += 1
            decided = (sign == "&&" and not one) or (sign == "||" and bool(one))
            self.idle += decided
            other = self._operation(STRENGTH[sign] + 1)
            self.idle -= decided
            if sign in ("&&", "||"):
                one = int(bool(one) if decided else bool(other))
            else:
                one = 0 if self.idle else operated(sign, one, other, self.text)
        return one

    def _power(self) -> int:
        base = self._signed()
        return operated("**", base, self._power(), self.text) if self._take("**") else base

    def _signed(self) -> int:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._not_understood()
        try:
            sign = self._take("++", "--", "+", "-", "!", "~")
            if sign in ("++", "--") and re.match(r"[A-Za-z_]", self._next()):
                return self._counted(self._name(), 1 if sign == "++" else -1)[1]
            if sign:
                value = self._signed()
                return {"-": -value, "!": int(not value), "~": ~value}.get(sign, value)
            return self._one()
        finally:
            self.depth -= 1

    def _one(self) -> int:
        token = self._next()
        if self._take("("):
            value = self._list()
            if not self._take(")"):
                raise self._not_understood()
            return value
        if not re.match(r"[A-Za-z_]", token):
            if not token or token in STRENGTH or token in ASSIGNMENTS:
                raise self._not_understood()
            self.place += 1
            return 0 if self.idle else number_of(token, self.text)
        name = self._name()
        sign = self._take(*ASSIGNMENTS)
        if sign:
            return self._assigned(name, sign)
        sign = self._take("++", "--")
        return self._counted(name, 1 if sign == "++" else -1 if sign else 0)[0]

    def _name(self) -> str:
        """Take the name of a variable, or of an element of an array."""
        name = self.tokens[self.place]
        self.place += 1
        if not self._take("["):
            return name
        key = self._list()
        if not self._take("]"):
            raise self._not_understood()
        return f"{name}[{key}]"

    def _value(self, name: str) -> int:
        """Return the number that a variable has, which may hold arithmetic itself."""
        if self.idle:
            return 0
        array, bracket, key = name.rstrip("]").partition("[")
        result = self.scope.element(array, key) if bracket else self.scope.value(name)
        if names_in(result) or NUMBER.fullmatch(result.strip()) or not result.strip():
            return number_of(result, name)
        if self.scope.limits.nested >= DEEPEST:
            raise self._not_understood()
        self.scope.limits.nested += 1
        try:
            return evaluated(result, self.scope)
        finally:
            self.scope.limits.nested -= 1

    def _counted(self, name: str, step: int) -> tuple[int, int]:
        """Return what a variable has before and after it is counted up or down; a mark, where that is not known."""
        try:
            before = self._value(name)
        except UnknownNumberError as unknown:
            if step and not self.idle:
                self.scope.set(name.partition("[")[0], unknown.mark)
            raise
        return before, self._store(name, before + step) if step else before

    def _assigned(self, name: str, sign: str) -> int:
        """Set a variable; to a mark, where the number is not known."""
        try:
            value = self._choice()
            if sign != "=" and not self.idle:
                value = operated(sign[:-1], self._value(name), value, self.text)
        except UnknownNumberError as unknown:
            if not self.idle:
                self.scope.set(name.partition("[")[0], unknown.mark)
            raise
        return self._store(name, value)

    def _store(self, name: str, value: int) -> int:
        """Set a variable; what an element of an array is then is left undecided."""
        if not self.idle:
            array = name.partition("[")[0]
            self.scope.set(array, str(value) if array == name else undecided(array))
        return value


def operated(sign: str, one: int, other: int, expression: str) -> int:
    """Return what a sign between two numbers makes of them. Raises ``UnknownNumberError`` where that is no number."""
    if sign in ("/", "%") and other:
        result = abs(one) // abs(other) if sign == "/" else abs(one) % abs(other)
        negative = (one < 0) != (other < 0) if sign == "/" else one < 0
        return -result if negative else result
    if sign == "**" and 0 <= other < 64:
        result = one**other
    elif sign in ("<<", ">>") and 0 <= other < 64:
        result = one << other if sign == "<<" else one >> other
    elif sign in _SYMBOLS:
        result = int(_SYMBOLS[sign](one, other))
    else:
        raise UnknownNumberError(undecided(expression))
    if not -MOST <= result < MOST:
        raise UnknownNumberError(undecided(expression))
    return result

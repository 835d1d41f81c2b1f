"""A Python file that is only read: what its functions would make, as far as its literals say it. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from comp_comm.configs.importers.python_calls import bound, built, is_instance, loaded
from comp_comm.configs.importers.python_expressions import BUILTINS, copied, evaluate, not_literal, truth
from comp_comm.configs.importers.python_values import (
    DEEPEST,
    MOST_STEPS,
    CodeLimitError,
    Made,
    NotLiteral,
    Reference,
)
from comp_comm.errors import ConfigError, Problem

# Calls that make a configuration of what is their first argument (NeMo-Run, functools).
WRAPPERS = (
    "run.Config",
    "run.Partial",
    "nemo_run.Config",
    "nemo_run.Partial",
    "Config",
    "Partial",
    "partial",
    "functools.partial",
    "fdl.Config",
)
COPIES = ("copy.deepcopy", "deepcopy", "copy.copy", "replace", "dataclasses.replace")
Names = dict[str, Any]
# Names of variables that hold a configuration, in a function that returns nothing.
TOLD = ("recipe", "cfg", "config", "training_args", "args")


@dataclass
class Code:
    """A file: its functions, its names, and what was met on the way.

    ``given`` are objects that functions of other files are given, with their lines: what these set of it is not known.
    """

    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    given: list[tuple[Made, str, int]] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    steps: int = 0

    def result(self, name: str) -> Any:
        """Return what a function of the file makes, called with nothing: its arguments have their defaults."""
        self.steps = 0
        return _Run(self, 0).called(self.functions[name], [], {})

    def unread_of(self, made: Made) -> list[tuple[str, int]]:
        """Return the functions of other files that set something of an object, or of its parts."""
        parts = [made, *(each for each in made.values.values() if isinstance(each, Made))]
        return [(name, line) for held, name, line in self.given if any(held is part for part in parts)]


def read_code(text: str, file: str) -> Code:
    """Return a file's functions and names. Raises ``ConfigError`` where it is no Python, or does too much.

    >>> code = read_code("def f(n=2):\\n    c = Config(a=n)\\n    c.b = 3 * n\\n    return c\\n", "f.py")
    >>> code.result("f").values
    {'a': 2, 'b': 6}
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError([Problem("is no Python that can be read", file=file, line=line or 0)]) from None
    except (RecursionError, MemoryError):
        raise ConfigError([Problem("is nested too deeply to be read", file=file)]) from None
    code = Code()
    code.names["__name__"] = "__main__"
    guarded(lambda: _Run(code, 0).module(tree), file)
    return code


def guarded(work: Any, file: str) -> Any:
    """Return what reading makes. Raises ``ConfigError`` for a file that does more than is read of it."""
    try:
        return work()
    except CodeLimitError as error:
        raise ConfigError([Problem(str(error), file=file)]) from None
    except RecursionError:
        raise ConfigError([Problem("is nested too deeply to be read", file=file)]) from None


class _ReturnError(Exception):
    """The end of a function, with what it returns."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Run:
    """Goes through the statements of one function; ``unsure`` within what a condition, or a loop, decides."""

    def __init__(self, code: Code, depth: int, names: Names | None = None) -> None:
        self.code, self.depth, self.names = code, depth, {} if names is None else names
        self.unsure, self.returned = 0, NotLiteral("nothing")  # type: int, Any
        self.active: tuple[str, ...] = ()  # functions that are gone through: one that calls itself is not entered again
        if depth > DEEPEST:
            raise CodeLimitError(f"has functions within functions deeper than {DEEPEST}")

    def module(self, tree: ast.Module) -> None:
        """Go through a file; its names are those of its functions."""
        self.names = self.code.names
        try:
            self.block(tree.body)
        except _ReturnError:
            return

    def called(self, function: ast.FunctionDef, args: Sequence[Any], values: Names) -> Any:
        """Return what a function returns."""
        names = bound(function, args, values, self.value)
        inner = _Run(self.code, self.depth + 1, names)
        inner.unsure = self.unsure
        inner.active = (*self.active, function.name)
        try:
            inner.block(function.body)
        except _ReturnError as done:
            return done.value
        if inner.returned != NotLiteral("nothing"):
            return inner.returned
        held = [value for name, value in names.items() if isinstance(value, Made) and name in TOLD]
        return held[-1] if held else None

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        self._step()
        return evaluate(node, {**self.code.names, **self.names}, self.call)

    def _step(self) -> None:
        self.code.steps += 1
        if self.code.steps > MOST_STEPS:
            raise CodeLimitError(
                f"has more than {MOST_STEPS:,} expressions to go through: import the file of one recipe alone"
            )

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Go through statements."""
        for statement in statements:
            self._step()
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Go through one statement."""
        match node:
            case ast.FunctionDef():
                self.code.functions.setdefault(node.name, node)
            case ast.Import() | ast.ImportFrom():
                self._imported(node)
            case ast.Assign():
                self._assigned(node.targets, node.value)
            case ast.AnnAssign():
                if node.value is not None:
                    self._assigned([node.target], node.value)
            case ast.AugAssign():
                whole = ast.BinOp(loaded(node.target), node.op, node.value)
                self._assigned([node.target], ast.copy_location(whole, node))
            case ast.Expr():
                self.value(node.value)
            case ast.Return():
                self._return(node)
            case _:
                self._block_of(node)

    def _block_of(self, node: ast.stmt) -> None:
        """Go through the statements within another."""
        match node:
            case ast.If():
                self._either(node)
            case ast.For() | ast.While():
                self._perhaps([*node.body, *node.orelse])
            case ast.With():
                self.block(node.body)
            case ast.Try():
                self.block([*node.body, *node.orelse, *node.finalbody])

    def _return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.value(node.value)
        if not self.unsure:
            raise _ReturnError(value)
        self.returned = value

    def _either(self, node: ast.If) -> None:
        held = truth(self.value(node.test))
        if held is None:
            self._perhaps([*node.body, *node.orelse])
        else:
            self.block(node.body if held else node.orelse)

    def _perhaps(self, statements: Sequence[ast.stmt]) -> None:
        """Go through statements that may not be reached: what they set is not known."""
        self.unsure += 1
        try:
            self.block(statements)
        finally:
            self.unsure -= 1

    def _imported(self, node: ast.Import | ast.ImportFrom) -> None:
        for each in node.names:
            own = each.name if isinstance(node, ast.ImportFrom) or each.asname else each.name.split(".")[0]
            self.names[each.asname or own] = Reference(own)

    def _assigned(self, targets: Sequence[ast.expr], node: ast.expr) -> None:
        value = self._given_back(targets, node)
        for target in targets:
            self._set(target, not_literal(node) if self.unsure else value)

    def _given_back(self, targets: Sequence[ast.expr], node: ast.expr) -> Any:
        """Return a value; an object that another file's function is given and gives back (x = f(x)) stays itself."""
        value = self.value(node)
        first = node.args[0] if isinstance(node, ast.Call) and node.args else None
        target = targets[0]
        if isinstance(value, Made) and isinstance(first, ast.Name) and isinstance(target, ast.Name):
            held = self.names.get(first.id)
            if first.id == target.id and isinstance(held, Made) and held is not value and held in value.args:
                return held
        return value

    def _set(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Attribute):
            held = self.value(target.value)
            if isinstance(held, Made):
                held.set(target.attr, value, target.lineno)
        elif isinstance(target, ast.Subscript):
            held, key = self.value(target.value), self.value(target.slice)
            if isinstance(held, dict) and isinstance(key, (str, int)):
                held[key] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = isinstance(value, (list, tuple)) and len(value) == len(target.elts)
            for place, each in enumerate(target.elts):
                self._set(each, value[place] if known else NotLiteral(ast.unparse(target), target.lineno))

    def call(self, node: ast.Call) -> Any:
        """Return what a call makes: of a function of the file what that returns, else an object of that name."""
        args = [self.value(each) for each in node.args if not isinstance(each, ast.Starred)]
        values: Names = {}
        for each in node.keywords:
            inner = self.value(each.value)
            if each.arg is not None:
                values[each.arg] = inner
            elif isinstance(inner, dict):
                values |= {str(name): value for name, value in inner.items()}
        if isinstance(node.func, ast.Attribute) and (done := self._method(node, args)) is not None:
            return done[0]
        called = self.value(node.func)
        name = called.name if isinstance(called, (Reference, Made)) else ast.unparse(node.func)
        if name in self.code.functions and name not in self.active:
            return self.called(self.code.functions[name], args, values)
        if name == "isinstance" and len(args) == 2:
            return is_instance(args[0], args[1], node)
        if name in BUILTINS:
            return built(name, args, values, node)
        if name == "cast" and len(args) == 2:
            return args[1]
        return self._made(name, called, args, values, node)

    def _made(self, name: str, called: Any, args: list[Any], values: Names, node: ast.Call) -> Any:
        if name in COPIES and args:
            made = copied(args[0])
            if isinstance(made, Made):
                made.values.update(values)
            return made
        if name in WRAPPERS and args and isinstance(args[0], (Reference, Made)):
            name, args = args[0].name, args[1:]
        source = called if isinstance(called, Made) and called.is_implied is False else None
        if isinstance(node.func, ast.Attribute):
            held = self.value(node.func.value)
            source = held if isinstance(held, Made) else source
        for each in args:
            if isinstance(each, Made):
                self.code.given.append((each, name, node.lineno))
        made = Made(name, args, values, node.lineno, source,
                    lines={each.arg: each.value.lineno for each in node.keywords if each.arg})  # fmt: skip
        self.code.made.append(made)
        return made

    def _method(self, node: ast.Call, args: list[Any]) -> tuple[Any] | None:
        """Do what a method of a list, a mapping or a text does; return what it gives in a tuple, None for another."""
        if not isinstance(node.func, ast.Attribute):
            return None
        held, name = self.value(node.func.value), node.func.attr
        if isinstance(held, list) and name in ("append", "extend") and len(args) == 1:
            more = [args[0]] if name == "append" else args[0] if isinstance(args[0], (list, tuple)) else []
            held += [NotLiteral("depends on a condition", node.lineno)] if self.unsure else more
            return (None,)
        if isinstance(held, dict) and name == "update" and args and isinstance(args[0], dict):
            held.update(args[0])
            return (None,)
        if isinstance(held, dict) and name == "get" and args and isinstance(args[0], (str, int)):
            return (held.get(args[0], args[1] if len(args) > 1 else None),)
        if isinstance(held, str) and name in ("lower", "upper", "strip") and not args:
            return (getattr(held, name)(),)
        return None

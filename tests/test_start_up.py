"""What is ours so that a command starts fast does what the standard parts do."""

import dataclasses
import pickle

import pytest
import tabulate
from hypothesis import assume, given
from hypothesis import strategies as st

from comp_comm.dataclass import dataclass
from comp_comm.report.text_table import text_table


class Plain:
    """Fields of every sort."""

    first: int
    second: float = 2.0
    unseen: str = dataclasses.field(default="no", repr=False, compare=False)
    listed: list = dataclasses.field(default_factory=list)
    made: tuple = dataclasses.field(init=False, default=())

    def __post_init__(self):
        object.__setattr__(self, "made", (self.first, self.second))


def both(**options):
    """Return a class of these fields as Python's decorator makes it, and as ours does."""
    body = {name: value for name, value in vars(Plain).items() if name not in ("__dict__", "__weakref__")}
    return [made(**options)(type("Plain", (), dict(body))) for made in (dataclasses.dataclass, dataclass)]


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"eq": False}, {"frozen": True, "kw_only": True}])
def test_a_dataclass_is_as_pythons(options):
    seen = []
    for made in both(**options):
        one, like, other = made(first=1), made(first=1, unseen="x"), made(first=1, second=3.0, listed=[1])
        hashes = made.__hash__ is None or type(made.__hash__).__name__
        try:
            one.second = 4.0
        except dataclasses.FrozenInstanceError as error:
            hashes = (hashes, str(error))
        names = [(each.name, each.init) for each in dataclasses.fields(made)]
        moved = dataclasses.replace(other, first=5)
        seen.append((repr(one), one == like, one == other, one != other, repr(moved), moved.made, hashes, names))
        with pytest.raises(TypeError):
            made()
        with pytest.raises(TypeError):
            made(1, 2.0, "no", [], ())
    assert seen[0] == seen[1]
    assert one.listed is not like.listed


def test_equal_frozen_values_are_one_key_and_can_be_sent():
    made = both(frozen=True)[1]
    assert hash(made(1, listed=())) == hash(made(1, unseen="x", listed=()))
    globals()["Sent"] = made
    made.__qualname__, made.__module__ = "Sent", __name__
    assert pickle.loads(pickle.dumps(made(1))) == made(1)


CELL = st.sampled_from(["", "-", "gemm", "12.5", "x y", "a|b", "5 µs", "two\nlines", "comm_\nfraction\n(%)", " wide "])


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(
    st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=5), st.lists(CELL.map(str.strip), min_size=n,
    max_size=n), st.lists(st.booleans(), min_size=n, max_size=n))))  # fmt: skip
def test_tables_are_as_tabulate_writes_them(table):
    cells, headers, right = table
    assume(all(any(row) for row in cells))  # tabulate leaves out a last row of nothing
    padding, tabulate.MIN_PADDING = tabulate.MIN_PADDING, 0
    try:
        for style, known_as in (("table", "simple"), ("markdown", "pipe")):
            sides = ["right" if each else "left" for each in right]
            expected = tabulate.tabulate(cells, headers, tablefmt=known_as, disable_numparse=True, colalign=sides)
            assert text_table(cells, headers, right, style) == expected
    finally:
        tabulate.MIN_PADDING = padding


def test_a_wide_letter_takes_two_columns():
    assert text_table([["日本", "1"], ["abcd", "2"]], ["a", "b"], [False, True], "table").splitlines()[2:] == [
        "日本  1", "abcd  2",
    ]  # fmt: skip

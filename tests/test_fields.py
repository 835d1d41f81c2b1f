"""The field table: what a value may be, and what is said of one that may not."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comp_comm.choices import CountedGemms, Precision
from comp_comm.fields import FIELDS, Field, solvable

WHOLE = [name for name, field in FIELDS.items() if field.kind == "int" and field.low == 1]
REAL = [name for name, field in FIELDS.items() if field.kind == "float" and field.low > 0]
CHOICES = [name for name, field in FIELDS.items() if field.kind == "choice"]


def refusal(name, raw):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        FIELDS[name].parse(raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "value"),
    [("1K", 1024), ("64K", 65536), ("64 K", 65536), (" 64K ", 65536), ("1M", 1048576), ("1.5K", 1536),
     ("0.5K", 512), ("+2K", 2048),
     (4096, 4096), (4096.0, 4096), (1, 1), (2**24, 2**24)],
)  # fmt: skip
def test_whole_numbers(raw, value):
    got = FIELDS["hidden"].parse(raw)
    assert (type(got), got) == (int, value)


@pytest.mark.parametrize(("raw", "value"), [(1, 1.0), (0.25, 0.25), (1e-9, 1e-9), (4, 4.0), (1e6, 1e6)])
def test_real_numbers(raw, value):
    got = FIELDS["flop_vs_bw"].parse(raw)
    assert (type(got), got) == (float, value)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (0, "0 is out of range"), (-4, "-4 is out of range"), ("-1K", "-1,024 is out of range"),
        (10**30, "is out of range"),
        (10**400, "is out of range"), (1.5, "1.5 is not a whole number"), ("0.3K", "is not a whole number"),
        (math.nan, "must be a finite number, not nan"), (math.inf, "must be a finite number, not inf"),
        (-math.inf, "finite"),
        (True, "'true' is not a number"), (False, "'false' is not a number"), (None, "an empty value is not a number"),
        ("", "'' is not a number"), ("64", "'64' is not a number"), ("K", "'K'"), ("64k", "'64k'"),
        ("64G", "'64G'"), ("1KK", "'1KK'"),
        ("12:30", "'12:30'"), ("0x10", "'0x10'"), ("1e3K", "'1e3K'"), ("off", "'off'"), ("nan", "'nan'"),
        ("4 GiB", "'4 GiB'"),
        ([1], "a list is not a number"), ({"a": 1}, "a mapping is not a number"), (b"4", "is not a number"),
        (1j, "is not a number"),
    ],
)  # fmt: skip
def test_what_is_no_whole_number(raw, said):
    for name in WHOLE:
        message = refusal(name, raw)
        assert said in message, name
        if "finite" not in said:
            assert "must be a whole number from 1 to " in message, name
            assert f"{int(FIELDS[name].high):,}" in message, name


@pytest.mark.parametrize(
    ("raw", "said"),
    [(-1, "out of range"), (0, "out of range"), (1e19, "out of range"), (10**400, "out of range"),
     (math.nan, "finite"), (math.inf, "finite"),
     (True, "'true' is not a number"), (None, "an empty value"), ("", "''"), ("2k", "'2k' is not a number"),
     ("1", "'1'"),
     ([], "a list"), ({}, "a mapping")],
)  # fmt: skip
def test_what_is_no_real_number(raw, said):
    for name in REAL:
        assert said in refusal(name, raw), name


def test_bounds_are_inclusive():
    for name in WHOLE + REAL:
        field = FIELDS[name]
        assert field.low > 0, name  # every quantity here is one to multiply or divide by
        for bound, beyond in ((field.low, 1 - 1e-9), (field.high, 1 + 1e-9)):
            assert field.parse(bound) == bound, name
            outside = bound + np.sign(beyond - 1) if field.kind == "int" else bound * beyond
            assert "out of range" in refusal(name, float(outside)), name


@settings(deadline=None, derandomize=True)
@given(st.sampled_from(WHOLE), st.integers(1, 2**20))
def test_a_suffix_is_a_factor_of_1024(name, number):
    field = FIELDS[name]
    for suffix, factor in (("K", 1024), ("M", 1024**2)):
        if number * factor <= field.high:
            assert field.parse(f"{number}{suffix}") == number * factor
        else:
            assert "out of range" in refusal(name, f"{number}{suffix}")


@settings(deadline=None, derandomize=True)
@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers()), st.binary()))
def test_anything_else_is_a_value_error(raw):
    for field in FIELDS.values():
        with contextlib.suppress(ValueError):  # and nothing else
            value = field.parse(raw)
            assert isinstance(value, str) or field.low <= value <= field.high
            assert isinstance(value, {"int": (int, str), "float": float, "choice": str, "text": str}[field.kind])


def test_words():
    assert FIELDS["tp"].parse("required") == "required"
    assert "or 'required'" in refusal("tp", "Required")
    for name in Precision.words():
        assert FIELDS["precision"].parse(name) == name
    assert FIELDS["count"].parse("paper_exact") == "paper_exact"
    assert FIELDS["timing"].parse("whatever the profile calls it") == "whatever the profile calls it"


@pytest.mark.parametrize("name", ["precision", "count"])
@pytest.mark.parametrize("raw", ["FP17", "fp12", "", "Completed", 16, 1.0, True, None, ["fp16"], {}])
def test_what_is_no_choice(name, raw):
    message = refusal(name, raw)
    for word in FIELDS[name].words:
        assert word in message


def test_long_values_are_cut():
    assert len(refusal("tp", "x" * 10_000)) < 200


def test_bytes_of_the_number_formats():
    assert {option.word: option.size for option in Precision} == {
        "fp32": 4,
        "tf32": 4,
        "fp16": 2,
        "bf16": 2,
        "fp8": 1,
        "nvfp4": 0.5625,
    }
    assert CountedGemms.words() == ("complete", "paper_exact")


def test_every_field_is_whole():
    for name, field in FIELDS.items():
        assert field.name == name
        assert field.help, name
        assert field.flag == "--" + name.replace("_", "-")
        assert field.allowed(), name
        if field.default is not None:
            assert field.parse(field.default) == field.default, name
        if field.solve:
            low, high = field.solve
            assert field.low <= low < high <= field.high, name
            assert field.kind != "choice", name


def test_what_can_be_solved_for():
    assert {"tp", "network", "flops", "hidden", "seq_len", "flop_vs_bw"} <= set(solvable(FIELDS))
    assert solvable(CHOICES) == []
    assert solvable(["dp", "tp", "layers"]) == ["tp"]


def test_a_field_of_ones_own():
    field = Field("x", "layout", "int", "a test", low=2, high=5)
    assert field.parse(2) == 2
    assert field.allowed() == "a whole number from 2 to 5 (1K = 1024)"
    with pytest.raises(ValueError, match="from 2 to 5"):
        field.parse(6)
    real = Field("x", "layout", "float", "a test", low=0.5, high=1.5)
    assert real.allowed() == "a number from 0.5 to 1.5"

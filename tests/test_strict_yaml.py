"""YAML as its users believe it to be, and YAML written to hurt."""

import math
import time

import pytest

from comp_comm.configs import strict_yaml
from comp_comm.configs.strict_yaml import load, load_value, resolve_scalar
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS


def data(text):
    return load(text, "f.yaml").data


def refusal(text, line=None):
    """Return the one problem that ``text`` is refused with, at ``line``."""
    with pytest.raises(ConfigError) as caught:
        load(text, "f.yaml")
    (problem,) = caught.value.problems
    assert problem.file == "f.yaml"
    assert problem.line == line
    return problem.message


# --- known right values of YAML, transcribed --------------------------------------------------------------------------


def test_known_numbers_with_exponents_are_floats():
    value = data("latency: 5e-6")["latency"]
    assert (type(value), value) == (float, 5.0e-6)
    value = data("bandwidth: 1e9")["bandwidth"]
    assert (type(value), value) == (float, 1.0e9)


def test_known_duplicate_key_names_the_key_and_both_lines():
    message = refusal("a: 1\na: 2", line=2)
    assert "'a'" in message
    assert "lines 1 and 2" in message


def test_known_off_is_a_string_and_refused_where_it_is_no_word():
    assert data("x: off") == {"x": "off"}
    with pytest.raises(ValueError, match="'off' is not a number"):
        FIELDS["tp"].parse(data("x: off")["x"])


def test_known_time_of_day_is_a_string():
    assert data("x: 12:30") == {"x": "12:30"}


# --- scalars ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("7", 7), ("-7", -7), ("+1", 1), ("010", 10), ("-010", -10), ("0x10", 16), ("0xFf", 255), ("0o10", 8),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("5e-6", 5e-6), ("1e9", 1e9), ("1E9", 1e9), ("1e+9", 1e9), (".5", 0.5), ("-.5", -0.5), ("+.5", 0.5),
        ("1.", 1.0),
        ("1.5e3", 1500.0), (".5e1", 5.0), ("1.0", 1.0), ("-0.0", -0.0),
        (".inf", math.inf), ("+.inf", math.inf), ("-.inf", -math.inf), (".Inf", math.inf), (".INF", math.inf),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False),
        ("~", None), ("null", None), ("Null", None), ("NULL", None), ("", None),
    ],
)  # fmt: skip
def test_core_schema(text, value):
    got = resolve_scalar(text)
    assert type(got) is type(value)
    assert got == value
    assert data(f"x: {text}") == {"x": value}


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number(text):
    value = data(f"x: {text}")["x"]
    assert type(value) is float
    assert math.isnan(value)


@pytest.mark.parametrize(
    "text",
    [
        "on", "off", "yes", "no", "y", "n", "Yes", "NO", "On", "12:30", "1:2:3", "2026-01-01", "1_000", "1,000", "0b11",
        "0o8", "0xg", "-0x10", "+0o7", "1e", "e5", ".", "+", "-.nan", "+.nan", "inf", "nan", "Infinity", "tRue", "nUll",
        "1.2.3", "64K", "5 us", "450 GB/s", "1e5.0", "--1", "0x", "..5", "٣",
    ],
)  # fmt: skip
def test_everything_else_is_a_string(text):
    assert data(f"x: {text}") == {"x": text}


@pytest.mark.parametrize("quoted", ["'5'", '"5"', "'true'", "'~'", '".inf"', "'0x10'"])
def test_quoted_is_a_string(quoted):
    assert data(f"x: {quoted}") == {"x": quoted[1:-1]}


def test_block_text_is_a_string():
    assert data("x: |\n  5\n") == {"x": "5\n"}
    assert data("x: >-\n  5\n  6\n") == {"x": "5 6"}


def test_keys_are_strings_as_written():
    assert data("1: a\ntrue: b\n~: c\n5e-6: d\n'q': e") == {"1": "a", "true": "b", "~": "c", "5e-6": "d", "q": "e"}


def test_an_endless_number_is_no_traceback():
    assert data("x: " + "9" * 4000)["x"] == 10**4000 - 1
    assert data("x: " + "9" * 5000)["x"] == math.inf
    assert data("x: 1e999")["x"] == math.inf


# --- structure -------------------------------------------------------------------------------------------------------


def test_nested_values_and_lines_of_their_keys():
    text = "a:\n  b:\n    - 1\n    - {c: 2,\n       d: 3}\n\n# comment\ne: [x,\n  y]\nf: ~\n"
    document = load(text, "g.yaml")
    assert document.data == {"a": {"b": [1, {"c": 2, "d": 3}]}, "e": ["x", "y"], "f": None}
    assert document.lines == {
        ("a",): 1, ("a", "b"): 2, ("a", "b", 0): 3, ("a", "b", 1): 4, ("a", "b", 1, "c"): 4, ("a", "b", 1, "d"): 5,
        ("e",): 8, ("e", 0): 8, ("e", 1): 9, ("f",): 10,
    }  # fmt: skip
    problem = document.problem(("a", "b", 1, "d"), "wrong")
    assert str(problem) == "g.yaml:5: a.b[1].d: wrong"
    assert document.problem(("a", "b", 7, "z"), "wrong").line == 2  # the nearest key that has a line
    assert document.problem(("nowhere",), "wrong").line is None


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a:\n  b: 1\n  c: 2\n  b: 3", 4, "'a.b' (lines 2 and 4)"),
        ("{a: 1, a: 2}", 1, "'a' (line 1, twice)"),
        ("s:\n - x: 1\n   x: 2", 3, "'s[0].x' (lines 2 and 3)"),
        ("1: a\n'1': b", 2, "'1' (lines 1 and 2)"),
        ("a:\n  b: 1\nc: 1\na: 2", 4, "'a' (lines 1 and 4)"),
    ],
)
def test_duplicate_keys(text, line, said):
    assert said in refusal(text, line)


def test_the_same_key_elsewhere_is_no_duplicate():
    assert data("a: {x: 1}\nb: {x: 1}\nc: [{x: 1}, {x: 2}]")["c"] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(("text", "line"), [("a: {<<: {b: 1}}", 1), ("b: &b {c: 1}\na:\n  <<: *b", 3), ("<<: [1]", 1)])
def test_merge_keys(text, line):
    assert "merge keys" in refusal(text, line)


def test_a_quoted_merge_key_is_a_key():
    assert data("'<<': 1") == {"<<": 1}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: !!python/object/apply:os.system [echo]", 1), ("a: 1\nb: !!str 5", 2), ("a: ! 5", 1), ("!!map {a: 1}", 1),
        ("a: !x {b: 1}", 1), ("a:\n  - !y [1]", 2), ("%TAG ! tag:x,2000:\n---\na: !x 1", 3), ("!!int 5: 1", 1),
    ],
)  # fmt: skip
def test_tags(text, line):
    assert "tags are not allowed" in refusal(text, line)


@pytest.mark.parametrize("text", ["? [x]\n: 1", "? {a: b}\n: 1", "b: &x 1\n*x : 2"])
def test_keys_that_are_no_words(text):
    assert "a key must be a plain word" in refusal(text, line=1 if text[0] == "?" else 2)


def test_several_documents():
    assert "one document" in refusal("a: 1\n---\nb: 2", line=2)
    assert "one document" in refusal("a: 1\n...\n---\n...", line=3)
    assert data("--- \na: 1\n...\n") == {"a": 1}
    assert data("%YAML 1.1\n---\na: off") == {"a": "off"}  # read as YAML 1.2 whatever it calls itself


@pytest.mark.parametrize("text", ["", "~", "# only a comment", "---\n...", "null", "\n\n"])
def test_nothing(text):
    assert refusal(text) == "is empty"


@pytest.mark.parametrize("text", ["[1]", "5", "word", "- a: 1", '""', "false"])
def test_what_is_no_mapping(text):
    assert "must be a mapping" in refusal(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 'x", 1),
        ("a: 1\n\tb: 2", 2),
        ("a: [1, 2\nb: 3", 2),
        ("a: {b: 1\n  c: 2}", 2),
        ("a: b: c", 1),
        ("a: @x", 1),
        ("a: %x", 1),
        (": 1", 1),
    ],
)
def test_syntax_errors_have_a_line(text, line):
    assert "not valid YAML: " in refusal(text, line)


# --- hostile ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["a: \x00", b"a: \x00",
     "a: \x07", b"\x80\x81\x82", b"a: \xff\xfe", b"\x89PNG\r\n\x1a\n\x00\x00", b"PK\x03\x04\x14\x00",
     "a: \ud800"],
)  # fmt: skip
def test_binary(text):
    assert "not valid YAML: not text" in refusal(text)


def test_byte_order_marks():
    assert data("\ufeffa: 1") == {"a": 1}
    assert data(b"\xef\xbb\xbfa: 1") == {"a": 1}
    assert data("a: 1".encode("utf-16")) == {"a": 1}


def test_line_ends_of_every_system():
    assert load("a: 1\r\nb: 2\r\n", "f").lines == {("a",): 1, ("b",): 2}


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {b: [1, {c: *a}]}"])
def test_recursion(text):
    assert "contains itself" in refusal(text, line=1)


def test_unknown_alias():
    assert "alias '*nope'" in refusal("a: 1\nb: *nope", line=2)
    assert "alias '*k'" in refusal("&k key: 1\nb: *k", line=2)  # an anchor on a key is none


def test_aliases_that_are_meant_well():
    assert data("a: &x 5\nb: *x\nc: &y [*x, 1]\nd: *y") == {"a": 5, "b": 5, "c": [5, 1], "d": [5, 1]}
    assert data("a: &x {u: 1}\nb: {v: *x}")["b"] == {"v": {"u": 1}}


def test_billion_laughs():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    start = time.perf_counter()
    with pytest.raises(ConfigError, match="more than 200,000 values"):
        load("\n".join(lines), "f.yaml")
    assert time.perf_counter() - start < 2


def test_values_are_counted_with_their_aliases():
    """200,000 in all: the root and its two keys, a list of 100 (101 values), and what is left in aliases of it."""
    head = "a: &a [" + ", ".join("1" * 100) + "]\nb: ["
    used = 1 + 1 + 101 + 1 + 1
    aliases, left = divmod(strict_yaml.MAX_NODES - used, 101)
    fits = head + ", ".join(["*a"] * aliases + ["1"] * left) + "]"
    assert len(data(fits)["b"]) == aliases + left
    assert "more than 200,000" in refusal(fits[:-1] + ", 1]", line=2)


def test_a_chain_of_aliases_is_no_deeper_than_python_can_go():
    """Each level of nesting costs a line: 620 lines fit into the 200,000 values."""
    chain = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 620))
    with pytest.raises(ConfigError, match="nested deeper than 50 levels"):
        load(chain, "f.yaml")


@pytest.mark.parametrize("opened", ["[", "{x: "])
def test_depth(opened):
    closed = {"[": "]", "{x: ": "}"}[opened]
    deepest = strict_yaml.MAX_DEPTH - 1  # the root is a level
    assert data("a: " + opened * deepest + "1" + closed * deepest)
    assert "deeper than 50" in refusal("a: " + opened * 50 + "1" + closed * 50, line=1)
    refusal("a: " + opened * 20_000, line=1)


def test_size():
    filler = "x: '" + "y" * strict_yaml.MAX_BYTES + "'"
    assert "larger than 4 MiB" in refusal(filler)
    assert data(filler[: strict_yaml.MAX_BYTES - 1] + "'")


# --- one value of a flag ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("64K", "64K"), ("5e-6", 5e-6), ("[4, 8]", [4, 8]), ("{from: 1, to: 4}", {"from": 1, "to": 4}), ("", None)],
)
def test_value_of_a_flag(text, value):
    document = load_value(text, "--set", "tp")
    assert document.data == {"tp": value}
    assert document.file == "--set"


@pytest.mark.parametrize(
    "text",
    ["{", "\x00", "[1", "a: b: c", "'x", "!x 1", "*a", "&a [*a]", "1\n---\n2", "{a: 1, a: 2}", "[" * 200],
)
def test_value_of_a_flag_refused(text):
    with pytest.raises(ConfigError) as caught:
        load_value(text, "--set", "tp")
    assert caught.value.problems[0].file == "--set"

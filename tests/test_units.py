"""Units as they are defined: decimal and binary prefixes, bits and bytes, and what is refused."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comp_comm.units import DISPLAY, EXAMPLES, UNITS, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("450 GB/s", "bytes/s", 450e9), ("400 Gb/s", "bytes/s", 50e9), ("1 b/s", "bytes/s", 0.125),
        ("8 b/s", "bytes/s", 1),
        ("1 B/s", "bytes/s", 1), ("3.35 TB/s", "bytes/s", 3.35e12), ("1638.4 GB/s", "bytes/s", 1638.4e9),
        ("1 KB/s", "bytes/s", 1000), ("1 kB/s", "bytes/s", 1000), ("1 KiB/s", "bytes/s", 1024),
        ("8 Kib/s", "bytes/s", 1024),
        ("8 Gib/s", "bytes/s", 1073741824), ("1 PB/s", "bytes/s", 1e15), ("1 EB/s", "bytes/s", 1e18),
        ("80 GiB", "bytes", 85899345920), ("80 GB", "bytes", 80e9), ("64 MiB", "bytes", 67108864),
        ("1 TiB", "bytes", 1099511627776),
        ("512 KiB", "bytes", 524288), ("512 B", "bytes", 512), ("1.5 TB", "bytes", 1.5e12), ("2 MB", "bytes", 2e6),
        ("181 TFLOP/s", "FLOP/s", 181e12), ("1 PFLOP/s", "FLOP/s", 1e15), ("1 EFLOP/s", "FLOP/s", 1e18),
        ("7 FLOP/s", "FLOP/s", 7),
        ("5 GFLOP/s", "FLOP/s", 5e9), ("5 MFLOP/s", "FLOP/s", 5e6), ("5 kFLOP/s", "FLOP/s", 5e3),
        ("5 us", "seconds", 5e-6), ("5 µs", "seconds", 5e-6), ("14.9 us", "seconds", 14.9e-6),
        ("3 ns", "seconds", 3e-9),
        ("2 ms", "seconds", 0.002), ("1.5 s", "seconds", 1.5),
        ("450GB/s", "bytes/s", 450e9), ("  450   GB/s  ", "bytes/s", 450e9), ("4.5e2 GB/s", "bytes/s", 450e9),
        ("4.5E+2 GB/s", "bytes/s", 450e9), (".5 s", "seconds", 0.5), ("5. s", "seconds", 5), ("+5 s", "seconds", 5),
        ("0 s", "seconds", 0),
    ],
)  # fmt: skip
def test_quantities(text, kind, value):
    assert parse_quantity(text, kind) == value  # exact: 5 us is the float 5e-6


def test_bits_are_an_eighth_of_bytes_at_every_prefix():
    for prefix in ("", "K", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti"):
        assert 8 * parse_quantity(f"3 {prefix}b/s", "bytes/s") == parse_quantity(f"3 {prefix}B/s", "bytes/s")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("450 gb/s", "bytes/s", "did you mean 'Gb/s'? (case matters)"), ("1 gib", "bytes", "did you mean 'GiB'?"),
        ("1 gB", "bytes", "did you mean 'GB'?"), ("5 US", "seconds", "did you mean 'us'?"),
        ("5 MS", "seconds", "did you mean 'ms'?"),
        ("1 tflop/s", "FLOP/s", "did you mean 'TFLOP/s'?"), ("1 TFLOPS", "FLOP/s", "'TFLOPS' is not a unit of FLOP/s"),
        ("450 GB", "bytes/s", "'GB' is not a unit of bytes/s"), ("450 GB/s", "bytes", "'GB/s' is not a unit of bytes"),
        ("5 us", "bytes", "'us' is not a unit of bytes"), ("450 GBps", "bytes/s", "'GBps' is not a unit"),
        ("5 m", "seconds", "'m'"),
        ("1 Gb", "bytes", "did you mean 'GB'?"), ("1,5 GB/s", "bytes/s", "',5 GB/s'"),
        ("450 GB / s", "bytes/s", "'GB / s'"),
        ("450", "bytes/s", "has no unit"), (450, "bytes/s", "has no unit"), (4.5e11, "bytes/s", "has no unit"),
        ("1e9", "bytes", "has no unit"),
        ("GB/s", "bytes/s", "is not a number with a unit"), ("", "bytes", "is not a number"),
        ("fast", "bytes/s", "is not a number"),
        ("nan GB/s", "bytes/s", "is not a number"), ("inf s", "seconds", "is not a number"),
        ("- 5 s", "seconds", "is not a number"),
        ("1e400 GB/s", "bytes/s", "is too large"), (True, "bytes", "must be a quantity in bytes"),
        (None, "bytes", "must be a quantity"),
        ([1], "bytes", "must be a quantity"), ({}, "seconds", "must be a quantity"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_allowed(text, kind, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_quantity(text, kind)
    assert said in str(caught.value)
    assert EXAMPLES[kind] in str(caught.value) or "too large" in said


def test_a_unit_with_no_near_name_gets_no_hint():
    with pytest.raises(ValueError, match="parsecs") as caught:
        parse_quantity("5 parsecs", "seconds")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("text", ["1e999999 GB/s", "1e9999999999999999999999 GB/s"])
def test_an_absurd_exponent_is_an_error_like_others(text):
    with pytest.raises(ValueError, match="too large"):
        parse_quantity(text, "bytes/s")


@pytest.mark.parametrize("kind", UNITS)
def test_examples_and_display_units_are_units(kind):
    assert parse_quantity(EXAMPLES[kind], kind) > 0
    assert DISPLAY[kind] in UNITS[kind]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(181e12, "FLOP/s", "181 TFLOP/s"), (0.8e-6, "seconds", "0.8 us"), (450e9, "bytes/s", "450 GB/s"),
     (12.5e9, "bytes/s", "12.5 GB/s"),
     (85899345920, "bytes", "80 GiB"), (0, "seconds", "0 us"), (1.6384e12, "bytes/s", "1638.4 GB/s"),
     (1, "seconds", "1000000 us")],
)  # fmt: skip
def test_format(value, kind, text):
    assert format_quantity(value, kind) == text


digits = st.integers(1, 999_999_999_999)  # what 12 digits can say, which is what format_quantity shows


@pytest.mark.parametrize("kind", UNITS)
@settings(deadline=None, derandomize=True)
@given(number=digits, exponent=st.integers(-18, 6))
def test_what_is_written_is_read_back(kind, number, exponent):
    """parse(format(x)) == x, bit for bit, for every x that has 12 digits in its display unit."""
    x = parse_quantity(f"{Decimal(number).scaleb(exponent)} {DISPLAY[kind]}", kind)
    assert parse_quantity(format_quantity(x, kind), kind) == x


@settings(deadline=None, derandomize=True)
@given(st.floats(1e-12, 1e21), st.sampled_from(sorted(UNITS)))
def test_what_is_written_is_near_for_any_number(x, kind):
    assert parse_quantity(format_quantity(x, kind), kind) == pytest.approx(x, rel=1e-11)


@settings(deadline=None, derandomize=True)
@given(number=digits, kind=st.sampled_from(sorted(UNITS)), data=st.data())
def test_a_unit_scales_the_number(number, kind, data):
    unit = data.draw(st.sampled_from(sorted(UNITS[kind])))
    one = parse_quantity(f"1 {unit}", kind)
    assert parse_quantity(f"{number} {unit}", kind) == pytest.approx(number * one, rel=1e-15)
    assert parse_quantity(f"-{number}{unit}", kind) == -parse_quantity(f"{number} {unit}", kind)

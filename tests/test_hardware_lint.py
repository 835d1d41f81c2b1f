"""Each rule against a profile broken on purpose: it must say so, and no other rule with it."""

from dataclasses import replace

import pytest

from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.hardware.lint import RULES, lint

SOURCED = 'source: "a sheet, from memory", certainty: medium'
WHOLE = """
sources: {sheet: {text: a sheet, date: "2026-01-01"}}
vendor: acme
memory:
  capacity: {value: 80 GiB, source: sheet, certainty: high}
  bandwidth: {value: 3350 GB/s, source: sheet, certainty: high}
network:
  scale-up:
    domain: {value: 8, source: sheet, certainty: high}
    bandwidth: {value: 450 GB/s, source: sheet, certainty: high}
"""


def number(value):
    return f"{{value: {value}, {SOURCED}}}"


@pytest.fixture(scope="module")
def shipped():
    return [load_profile(name) for name in catalogue.names("hardware")]


@pytest.fixture
def findings(tmp_path, shipped):
    """Lint a profile written as YAML, beside the shipped catalogue."""

    def check(text, beside=shipped, extends="h100-sxm"):
        path = tmp_path / "broken.yaml"
        path.write_text((f"extends: {extends}\n" if extends else "") + text)
        return lint(load_profile(str(path)), beside)

    return check


def only(found):
    assert len(found) == 1, found
    assert found[0].profile == "broken"
    assert found[0].waived == ""
    return found[0]


BROKEN = {
    "dense": ("peak: {dense: false}", "peak.dense", "is false"),
    "fp8-ratio": (f"peak: {{fp8: {number('3958 TFLOP/s')}}}", "peak.fp8", "4 times the 16-bit peak"),
    "sixteen-bits": (
        f"peak: {{bf16: {number('700 TFLOP/s')}}}",
        "peak.bf16",
        "700 TFLOP/s, and FP16 has 989.4 TFLOP/s",
    ),
    "peak-twin": (
        f"peak: {{fp16: {number('1978.9 TFLOP/s')}, bf16: {number('1978.9 TFLOP/s')}}}",
        "peak.fp16",
        "1978.9 TFLOP/s is twice the peak of h100-sxm",
    ),
    "memory-drain": (
        f"memory: {{capacity: {number('400 GiB')}, bandwidth: {number('4100 GB/s')}}}",
        "memory.capacity",
        "takes 105 ms, outside 5 to 60 ms",
    ),
    "flop-per-memory-byte": (
        f"memory: {{bandwidth: {number('1580 GB/s')}}}",
        "memory.bandwidth",
        "626 FLOP (16 bit) per byte of memory, outside 25 to 600",
    ),
    "scale-up-twin": (
        f"network: {{scale-up: {{bandwidth: {number('900 GB/s')}}}}}",
        "network.scale-up.bandwidth",
        "900 GB/s is twice that of h100-sxm, the same otherwise: both directions added?",
    ),
    "flop-per-scale-up-byte": (
        f"network: {{scale-up: {{bandwidth: {number('450 Gb/s')}}}}}",
        "network.scale-up.bandwidth",
        "1.759e+04 FLOP (16 bit) per byte of scale-up, outside 250 to 6000",
    ),
    "domains": (
        f"network: {{scale-out: {{domain: {number(4)}}}}}",
        "network.scale-out.domain",
        "4 devices, no more than the 8 of 'scale-up'",
    ),
    "provenance": ("memory: {capacity: 80 GiB}", "memory.capacity", "has no certainty, no date"),
    "waivers": ("waivers: {fp8-ration: because}", "waivers.fp8-ration", "did you mean 'fp8-ratio'?"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_profile_breaks_exactly_its_rule(rule, findings):
    text, key, message = BROKEN[rule]
    found = only(findings(text))
    assert (found.rule, found.key) == (rule, key)
    assert message in found.message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"memory: {{capacity: {number('11 GiB')}, bandwidth: {number('4100 GB/s')}}}", "memory-drain"),
        (f"network: {{scale-up: {{bandwidth: {number('4500 GB/s')}}}}}", "flop-per-scale-up-byte"),
        (
            f"peak: {{fp16: {number('20 TFLOP/s')}, bf16: {number('20 TFLOP/s')}, fp8: {number('40 TFLOP/s')}}}\n"
            f"network: {{scale-up: {{bandwidth: {number('60 GB/s')}}}}}",
            "flop-per-memory-byte",
        ),
    ],
)
def test_the_lower_end_of_a_span(text, rule, findings):
    assert only(findings(text)).rule == rule


def test_every_rule_has_a_broken_profile():
    assert set(RULES) == set(BROKEN) | {"memory-pair", "shares"}


def test_the_memory_of_the_wrong_part(findings):
    """The bandwidth of the 40 GB A100 beside the capacity of the 80 GB one, as a published solver ships it."""
    found = only(findings(f"memory: {{bandwidth: {number('1555 GB/s')}}}", extends="a100-sxm-80gb"))
    assert (found.rule, found.key) == ("memory-pair", "memory.bandwidth")
    twins = "a100-sxm-40gb (40 GiB), perlmutter (40 GiB)"
    assert found.message == f"1555 GB/s is the bandwidth of {twins}; none of these has 80 GiB"


def test_a_known_pair_of_memory_is_no_finding(findings):
    assert findings("", extends="a100-sxm-80gb") == []
    memory = f"memory: {{capacity: {number('40 GiB')}, bandwidth: {number('1555 GB/s')}}}"
    assert findings(memory, extends="a100-sxm-80gb") == []


def test_another_vendors_memory_says_nothing(findings):
    memory = f"vendor: acme\nmemory: {{capacity: {number('60 GiB')}}}"
    assert findings(memory) == []
    assert only(findings(memory.removeprefix("vendor: acme\n"))).rule == "memory-pair"


def test_half_of_a_twins_scale_up(findings):
    found = only(findings(f"network: {{scale-up: {{bandwidth: {number('225 GB/s')}}}}}"))
    assert found.rule == "scale-up-twin"
    assert "is half that of h100-sxm" in found.message


@pytest.mark.parametrize("bandwidth", ["875 GB/s", "450 GB/s", "240 GB/s"])
def test_a_scale_up_that_is_not_twice_is_no_finding(bandwidth, findings):
    assert findings(f"network: {{scale-up: {{bandwidth: {number(bandwidth)}}}}}") == []


def test_a_twin_must_be_the_same_otherwise(findings):
    """Twice the FLOP/s behind other links, or twice the links of other FLOP/s, is another device."""
    links = f"network: {{scale-up: {{bandwidth: {number('600 GB/s')}}}}}"
    assert findings(f"peak: {{fp16: {number('1978.9 TFLOP/s')}, bf16: {number('1978.9 TFLOP/s')}}}\n{links}") == []
    peak = f"peak: {{fp16: {number('1500 TFLOP/s')}, bf16: {number('1500 TFLOP/s')}, fp8: {number('3000 TFLOP/s')}}}"
    assert findings(f"{peak}\n{links.replace('600', '900')}") == []


def test_a_profile_is_not_compared_with_itself(tmp_path, shipped):
    """A user's own h100-sxm.yaml is the H100: the shipped one of that name is not its twin."""
    path = tmp_path / "h100-sxm.yaml"
    path.write_text(f"extends: h100-sxm\nnetwork: {{scale-up: {{bandwidth: {number('900 GB/s')}}}}}")
    assert lint(load_profile(str(path)), shipped) == []


def test_without_a_catalogue_only_the_profile_itself_is_judged(findings):
    assert findings(BROKEN["scale-up-twin"][0], beside=()) == []
    assert only(findings(BROKEN["dense"][0], beside=())).rule == "dense"


def test_a_profile_that_never_says_dense(findings):
    found = only(findings(WHOLE + f"peak: {{fp16: {number('989 TFLOP/s')}}}", extends=None))
    assert (found.rule, found.message[:10]) == ("dense", "is missing")
    assert findings(WHOLE + f"peak: {{dense: true, fp16: {number('989 TFLOP/s')}}}", extends=None) == []


@pytest.mark.parametrize("peak", ["989.4 TFLOP/s", "1900 TFLOP/s", "2100 TFLOP/s"])
def test_an_fp8_peak_of_once_or_about_twice_is_fine(peak, findings):
    assert findings(f"peak: {{fp8: {number(peak)}}}") == []


@pytest.mark.parametrize("peak", ["800 TFLOP/s", "1480 TFLOP/s", "2200 TFLOP/s"])
def test_an_fp8_peak_in_between_is_not(peak, findings):
    assert only(findings(f"peak: {{fp8: {number(peak)}}}")).rule == "fp8-ratio"


def test_an_inner_tier_without_a_domain():
    """YAML refuses it; a profile made in Python may still have one."""
    h100 = load_profile("h100-sxm")
    found, *_ = lint(replace(h100, name="broken", tiers=(*h100.tiers, "rack")))
    assert (found.rule, found.key) == ("domains", "network.scale-out.domain")
    assert found.message == "has none, although 'rack' lies outside 'scale-out'"


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_an_efficiency_that_is_no_share(share):
    """YAML refuses these; a profile made in Python may still hold one."""
    h100 = load_profile("h100-sxm")
    key = "timing.gemm_efficiency"
    broken = replace(h100, numbers={**h100.numbers, key: replace(h100.numbers[key], value=share)})
    (found,) = lint(broken)
    assert (found.rule, found.key) == ("shares", key)


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        ("{value: 80 GiB, certainty: high}", "has no source, no date"),
        ("{value: 80 GiB, source: a sheet, certainty: high}", "has no date"),
        ("{value: 80 GiB, source: dated}", "has no certainty"),
        ("{value: null, certainty: none}", "has no source"),
    ],
)
def test_what_a_number_must_carry(entry, missing, findings):
    found = only(findings(f'sources: {{dated: {{text: t, date: "2026-01-01"}}}}\nmemory: {{capacity: {entry}}}'))
    assert (found.rule, found.message) == ("provenance", missing)


@pytest.mark.parametrize(
    "entry",
    [
        "{value: 80 GiB, source: a guess, certainty: assumed}",
        "{value: null, source: nowhere to be found, certainty: none}",
        "{value: 80 GiB, source: from memory, certainty: low}",
        "{value: 80 GiB, source: dated, certainty: high}",
    ],
)
def test_what_needs_no_more(entry, findings):
    assert findings(f'sources: {{dated: {{text: t, date: "2026-01-01"}}}}\nmemory: {{capacity: {entry}}}') == []


def test_a_preset_needs_a_source_and_a_certainty(findings):
    preset = "presets: {fast: {gemm_efficiency: 0.9, kernel_latency: {value: 1 us, source: a paper, certainty: low}}}"
    found = only(findings(preset))
    assert (found.rule, found.key, found.message) == ("provenance", "presets.fast.gemm_efficiency", "has no certainty")


@pytest.mark.parametrize("rule", [rule for rule in BROKEN if rule != "waivers"])
def test_a_waiver_keeps_the_finding_and_its_reason(rule, findings):
    (found,) = findings(BROKEN[rule][0] + f"\nwaivers: {{{rule}: the sheet says so}}")
    assert (found.rule, found.waived) == (rule, "the sheet says so")


def test_blank_numbers_break_no_rule_of_size(findings):
    blank = "{value: null, source: nobody says, certainty: none}"
    text = f"memory: {{capacity: {blank}, bandwidth: {blank}}}\nnetwork: {{scale-up: {{bandwidth: {blank}}}}}"
    assert findings(text) == []


def test_all_broken_rules_are_found_in_the_order_of_the_rules(findings):
    text = f"peak: {{dense: false, fp8: {number('3958 TFLOP/s')}}}\nwaivers: {{nothing: at all}}"
    assert [found.rule for found in findings(text)] == ["dense", "fp8-ratio", "waivers"]

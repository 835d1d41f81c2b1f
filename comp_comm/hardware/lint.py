"""What makes a hardware profile suspicious: rules of thumb that peers' shipped profiles were found to break.

A rule looks at one profile, and at the others of a catalogue where a number is only wrong beside its siblings. What
it says is a suspicion: a profile may name the rule in its ``waivers``, with the reason why its number is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from comp_comm.errors import nearest, one_of
from comp_comm.hardware.profile import Number, Profile
from comp_comm.hardware.ratio import scale_up_key, sixteen_bit_peak
from comp_comm.units import format_quantity

# Spans that every accelerator for training sold from 2016 to 2026 lies in.
DRAIN_S = (5e-3, 60e-3)
FLOP_PER_MEMORY_BYTE = (25.0, 600.0)
FLOP_PER_SCALE_UP_BYTE = (250.0, 6000.0)

SAME = 0.01
FP8_TOLERANCE = 0.1
# A date says when a source was read: there is none for what was assumed, is not known, or is remembered.
DATELESS = ("assumed", "none")
MEMORY = "from memory"

Suspicion = tuple[str, str]
Rule = Callable[[Profile, Sequence[Profile]], Iterator[Suspicion]]


@dataclass(frozen=True)
class Finding:
    """A rule that a profile breaks: at which key, what is suspicious, and the reason of a waiver (``""`` without)."""

    profile: str
    rule: str
    key: str
    message: str
    waived: str = ""


def lint(profile: Profile, catalogue: Sequence[Profile] = ()) -> list[Finding]:
    """Return what is suspicious about ``profile``, in the order of the rules; waived findings are among them.

    ``catalogue`` holds the profiles to compare it with; one of the same name is taken to be the profile itself.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> [(finding.rule, finding.waived[:5]) for finding in lint(load_profile("rubin-nvl72"))]
    [('fp8-ratio', 'Rubin')]
    >>> lint(load_profile("h100-sxm"))
    []
    """
    others = [other for other in catalogue if other.name != profile.name]
    return [
        Finding(profile.name, name, key, message, profile.waivers.get(name, ""))
        for name, rule in RULES.items()
        for key, message in rule(profile, others)
    ]


def _dense(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """Sheets print the peak with 2:4 sparsity in large type; the file must say that its peaks are without."""
    if profile.dense is not True:
        said = "is missing" if profile.dense is None else "is false"
        yield "peak.dense", f"{said}: peaks must be dense (half of a sheet's 'with sparsity'), and the file say so"


def _fp8_ratio(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """FP8 runs at the rate of 16-bit numbers or at twice that rate; else one of the two is of another kind."""
    times = profile.value("peak.fp8") / sixteen_bit_peak(profile)
    if not math.isnan(times) and not any(_close(times, n, FP8_TOLERANCE) for n in (1, 2)):
        yield "peak.fp8", f"is {times:.3g} times the 16-bit peak, not 1 or 2 times: a sparse peak beside a dense one?"


def _sixteen_bits(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """FP16 and BF16 run at one rate on nearly every part; where they differ, one is most likely another part's."""
    fp16, bf16 = profile.value("peak.fp16"), profile.value("peak.bf16")
    if not (math.isnan(fp16) or math.isnan(bf16) or _close(fp16, bf16)):
        yield "peak.bf16", f"{_show(profile, 'peak.bf16')}, and FP16 has {_show(profile, 'peak.fp16')}: of one part?"


def _peak_twin(profile: Profile, others: Sequence[Profile]) -> Iterator[Suspicion]:
    """Twice the FLOP/s of a part with the same memory and links is most likely its sparse peak, or FP8."""
    peak, key = sixteen_bit_peak(profile), _peak_key(profile)
    for other in _siblings(profile, others, "memory.bandwidth", scale_up_key(profile)):
        if _close(peak, 2 * sixteen_bit_peak(other)):
            what = f"{_show(profile, key)} is twice the peak of {other.name}, which has the same memory and links"
            yield key, f"{what}: a sparse peak, or FP8?"
            return


def _memory_pair(profile: Profile, others: Sequence[Profile]) -> Iterator[Suspicion]:
    """Capacity and bandwidth come with one kind of memory; a mix of two parts is a slip of the table's row."""
    same = _siblings(profile, others, "memory.bandwidth")
    capacity = profile.value("memory.capacity")
    known = any(_close(capacity, other.value("memory.capacity")) for other in same)
    if same and not known and not math.isnan(capacity):
        parts = ", ".join(f"{other.name} ({_show(other, 'memory.capacity')})" for other in same)
        has, bandwidth = _show(profile, "memory.capacity"), _show(profile, "memory.bandwidth")
        yield "memory.bandwidth", f"{bandwidth} is the bandwidth of {parts}; none of these has {has}"


def _memory_drain(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """Reading all of an HBM once takes 14 to 46 ms on every part we know."""
    seconds = profile.value("memory.capacity") / profile.value("memory.bandwidth")
    if _outside(seconds, DRAIN_S):
        span = f"{DRAIN_S[0] * 1e3:g} to {DRAIN_S[1] * 1e3:g} ms"
        yield "memory.capacity", f"reading all of the memory takes {seconds * 1e3:.3g} ms, outside {span}"


def _flop_per_memory_byte(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """The balance of compute and memory; a unit or a prefix is wrong where it is far off."""
    balance = sixteen_bit_peak(profile) / profile.value("memory.bandwidth")
    if _outside(balance, FLOP_PER_MEMORY_BYTE):
        low, high = FLOP_PER_MEMORY_BYTE
        yield "memory.bandwidth", f"{balance:.3g} FLOP (16 bit) per byte of memory, outside {low:g} to {high:g}"


def _scale_up_twin(profile: Profile, others: Sequence[Profile]) -> Iterator[Suspicion]:
    """Vendors print NVLink, Infinity Fabric and ICI as the sum of both directions; ours is per direction."""
    key, peak = scale_up_key(profile), sixteen_bit_peak(profile)
    bandwidth = profile.value(key)
    for other in _siblings(profile, others, "memory.bandwidth"):
        if not _close(peak, sixteen_bit_peak(other)):
            continue
        for factor, word, why in ((2.0, "twice", "both directions added"), (0.5, "half", "one direction halved again")):
            if _close(bandwidth, factor * other.value(scale_up_key(other))):
                yield key, f"{_show(profile, key)} is {word} that of {other.name}, the same otherwise: {why}?"
                return


def _flop_per_scale_up_byte(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """The balance of compute and the scale-up network."""
    key = scale_up_key(profile)
    balance = sixteen_bit_peak(profile) / profile.value(key)
    if _outside(balance, FLOP_PER_SCALE_UP_BYTE):
        low, high = FLOP_PER_SCALE_UP_BYTE
        yield key, f"{balance:.4g} FLOP (16 bit) per byte of scale-up, outside {low:g} to {high:g}: GB/s or Gb/s?"


def _domains(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """Each tier connects more devices than the one inside it."""
    for inner, outer in zip(profile.tiers, profile.tiers[1:], strict=False):
        inside = profile.value(f"network.{inner}.domain", float("inf"))
        outside = profile.value(f"network.{outer}.domain", float("inf"))
        if inside == float("inf"):
            yield f"network.{inner}.domain", f"has none, although '{outer}' lies outside '{inner}'"
        elif outside <= inside:
            yield f"network.{outer}.domain", f"{outside:g} devices, no more than the {inside:g} of '{inner}' inside it"


def _shares(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """An efficiency is a share of a peak."""
    for key, number in _all_numbers(profile):
        if number.kind == "share" and number.value is not None and not 0 < number.value <= 1:
            yield key, f"{number.value:g} is not a share: above 0, at most 1"


def _provenance(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """Every number, a blank one too, says where it comes from, when that was read, and how sure it is."""
    for key, number in _all_numbers(profile):
        missing = [name for name in ("source", "certainty") if not getattr(number, name)]
        # A preset restates what one paper says; only the numbers of the device come from pages that change.
        dated = number.date or number.certainty in DATELESS or MEMORY in number.source or key.startswith("presets.")
        missing += [] if dated else ["date"]
        if missing:
            yield key, f"has no {', no '.join(missing)}"


def _waivers(profile: Profile, _: Sequence[Profile]) -> Iterator[Suspicion]:
    """A waiver of a rule that does not exist waives nothing."""
    for name in profile.waivers:
        if name not in RULES:
            yield f"waivers.{name}", f"there is no rule of this name{nearest(name, RULES)} ({one_of(list(RULES))})"


RULES: Mapping[str, Rule] = {
    "dense": _dense,
    "fp8-ratio": _fp8_ratio,
    "sixteen-bits": _sixteen_bits,
    "peak-twin": _peak_twin,
    "memory-pair": _memory_pair,
    "memory-drain": _memory_drain,
    "flop-per-memory-byte": _flop_per_memory_byte,
    "scale-up-twin": _scale_up_twin,
    "flop-per-scale-up-byte": _flop_per_scale_up_byte,
    "domains": _domains,
    "shares": _shares,
    "provenance": _provenance,
    "waivers": _waivers,
}


def _close(value: float, target: float, tolerance: float = SAME) -> bool:
    """Return whether two numbers are the same within a tolerance; never for a blank one."""
    return abs(value - target) <= tolerance * abs(target)


def _outside(value: float, span: tuple[float, float]) -> bool:
    return value < span[0] or value > span[1]


def _peak_key(profile: Profile) -> str:
    """Return the key of the larger 16-bit peak."""
    return max(("peak.fp16", "peak.bf16"), key=lambda key: profile.value(key, 0.0))


def _siblings(profile: Profile, others: Sequence[Profile], *keys: str) -> list[Profile]:
    """Return the parts of the same vendor that have the same numbers at the given keys."""
    return [
        other
        for other in others
        if other.vendor == profile.vendor and all(_close(profile.value(key), other.value(key)) for key in keys)
    ]


def _show(profile: Profile, key: str) -> str:
    number = profile.numbers[key]
    return format_quantity(profile.value(key), number.kind)


def _all_numbers(profile: Profile) -> Iterator[tuple[str, Number]]:
    """Yield every number of a profile, those of its presets too, under its dotted key."""
    yield from profile.numbers.items()
    for preset, numbers in profile.presets.items():
        yield from ((f"presets.{preset}.{name}", number) for name, number in numbers.items())

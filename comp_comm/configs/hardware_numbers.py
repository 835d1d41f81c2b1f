"""What a number of a hardware profile may be, and how it is written."""

from __future__ import annotations

from typing import Any

from comp_comm.hardware.profile import NAMED_KERNELS
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.units import DISPLAY, UNITS, parse_quantity

# Numbers that are words in a file, and what each of its words means.
SWITCHES: dict[str, dict[str, int]] = {
    "use_tiers": {"ignored": 0, "used": 1},
    "ring_limit": {"exact": 0, "limit": 1},
    "fp8_recipe": {recipe.word: int(recipe) for recipe in Recipe if recipe not in (Recipe.NONE, Recipe.NVFP4)},
    "attention_kernel": {kernel.word: int(kernel) for kernel in (AttentionKernel.FLASH_CAUSAL, *NAMED_KERNELS)},
}
WHOLE_NUMBERS = ("domain", "axes", "side", "score_head_dim", "reduction_members")
# What a number of a kind may be: far wider than any device, narrow enough that no time overflows.
PLAUSIBLE = {
    "FLOP/s": (1e6, 1e24), "bytes": (1e6, 1e18), "bytes/s": (1e3, 1e21), "seconds": (0.0, 1e3), "share": (1e-6, 1.0),
    "count": (0.0, 1e12), "ratio": (1e-6, 100.0), "exponent": (-5.0, 5.0), "switch_size": (1.0, 1e12),
    "chunk_size": (1.0, 1e12), "axes": (1.0, 16.0), "side": (2.0, 1e12),
}  # fmt: skip


def switch_word(name: str, code: float) -> str:
    """Return the word that a number stands for which is a word in a file.

    >>> switch_word("fp8_recipe", parse_number("mxfp8", "fp8_recipe", "switch"))
    'mxfp8'
    """
    return next(word for word, number in SWITCHES[name].items() if number == int(code))


def parse_number(raw: Any, name: str, kind: str) -> float | None:
    """Return a number of a profile in SI; None where it is blank."""
    if raw is None:
        return None
    if kind == "switch":
        if raw not in SWITCHES[name]:
            raise ValueError(f"must be one of: {', '.join(SWITCHES[name])}")
        return float(SWITCHES[name][raw])
    if kind in ("share", "count", "ratio", "exponent"):
        if isinstance(raw, bool) or not isinstance(raw, (int, float)):
            raise ValueError("must be a plain number")
        value = float(raw)
    else:
        value = parse_quantity(raw, kind)
    low, high = PLAUSIBLE[name if name in PLAUSIBLE else kind]
    if kind == "share" and not low <= value <= high:
        raise ValueError(f"is a share: must be above 0 and at most 1, not {raw}")
    if not low <= value <= high:
        unit = DISPLAY[kind] if kind in UNITS else ""
        size = float(UNITS[kind][unit]) if unit else 1.0
        ends = [f"{end / size:.3g} {unit}".strip() for end in (low, high)]
        raise ValueError(f"'{raw}' is out of range: from {ends[0]} to {ends[1]}")
    if name in WHOLE_NUMBERS and (value != int(value) or value < 1):
        raise ValueError(f"must be a whole number of at least 1, not {raw}")
    return value

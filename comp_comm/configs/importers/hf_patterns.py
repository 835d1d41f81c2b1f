"""Layers of a config.json that lists their kinds, as the field ``layer_pattern`` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from comp_comm.configs.importers.imported import Findings, Keys
from comp_comm.errors import one_of
from comp_comm.records import Record

ATTENTION = ("full_attention", "attention", "global", "indexed_attention", "deepseek_sparse_attention")
SLIDING_ATTENTION = ("sliding_attention", "local")
WINDOW = ("sliding_window", "sliding_window_size", "window_size")
LINEAR = ("linear_attention", "mamba", "mamba2", "kda", "gated_deltanet", "lightning_attention")
MOST_WORDS = 100_000
LONGEST_GROUP = 16  # layers of a group that is looked for


def with_layers(data: Record) -> Record:
    """Return a config.json with the number of its layers, where it lists their kinds instead."""
    kinds = data.get("hybrid_override_pattern") or data.get("layers_block_type") or data.get("layer_types")
    if "num_hidden_layers" in data or not isinstance(kinds, (str, list)) or not kinds:
        return data
    return {**data, "num_hidden_layers": len(kinds)}


def pattern_text(words: Sequence[str]) -> str:
    """Return layers, a word each, as ``layer_pattern`` has them: groups that are repeated once.

    >>> pattern_text(["GE", "GE", "GE", "*E"] * 12), pattern_text(list("M-M*")), pattern_text(["K-", "KE", "KE", "*E"])
    ('(GEx3 *E)x12', 'M-M*', 'K- KEx2 *E')
    """
    if all(len(word) == 1 for word in words) and len(set(words)) > 1:
        return "".join(words)
    return f"{words[0]}x1" if len(words) == 1 else _grouped(words)


def _grouped(words: Sequence[str]) -> str:
    parts, at = [], 0
    while at < len(words):
        period, times = _repetition(words, at)
        group = _grouped(words[at : at + period]) if period > 1 else words[at]
        parts.append(f"({group})x{times}" if period > 1 else f"{group}x{times}" if times > 1 else group)
        at += period * times
    return " ".join(parts)


def _repetition(words: Sequence[str], at: int) -> tuple[int, int]:
    """Return the group of words from a place on that is repeated for longest: how many words, and how often."""
    best, longest = (1, 1), 1
    for period in range(1, LONGEST_GROUP + 1):
        times, group = 1, words[at : at + period]
        while words[at + period * times : at + period * (times + 1)] == group:
            times += 1
        if times > 1 and period * times > longest:
            best, longest = (period, times), period * times
    return best


def set_pattern(f: Findings, mixers: Sequence[str], networks: Sequence[str], place: tuple[str | int, ...]) -> None:
    """Set the layers: a mixer and a network of each, either of which may be empty."""
    if len(mixers) > MOST_WORDS:
        f.wrong(place, f"more than {MOST_WORDS:,} layers")
        return
    f.set("layer_pattern", pattern_text([a + b for a, b in zip(mixers, networks, strict=True)]), place)


def mixers_of(keys: Keys, f: Findings, letter: str, otherwise: Callable[[int], bool], *names: str) -> list[str] | None:
    """Return the letter of each layer's mixer, from a list of their kinds; ``otherwise`` says which of them attend."""
    layers, kinds = f.count("layers", 0), keys.take(*names)
    if kinds is None:
        return ["*" if otherwise(i) else letter for i in range(min(layers, MOST_WORDS))]
    known = {**dict.fromkeys(ATTENTION, "*"), **dict.fromkeys(LINEAR, letter)}
    window = keys.take(*WINDOW)
    if window is not None:
        known |= dict.fromkeys(SLIDING_ATTENTION, "W")
    if not isinstance(kinds, list) or len(kinds) != layers:
        keys.wrong(names, f"must list the kind of each of the {layers} layers")
        return None
    strange = sorted({str(kind) for kind in kinds} - set(known))
    if strange:
        keys.wrong(names, f"layers of {', '.join(strange)} are not understood ({one_of(sorted(known))})")
        return None
    mixers = [known[str(kind)] for kind in kinds]
    if "W" in mixers:
        f.set("window", window, keys.place(*WINDOW))
    return mixers


def networks_of(f: Findings, experts: Callable[[int], bool]) -> list[str]:
    """Return the letter of each layer's network."""
    some = "experts" in f.fields
    return ["E" if some and experts(i) else "-" for i in range(min(f.count("layers", 0), MOST_WORDS))]

"""What a reader should know of MFU and HFU: what they count, and where that makes a difference."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import AttentionCount
from comp_comm.costmodels.complete.columns import COLUMNS
from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.model_work import forward_flops
from comp_comm.formulas.arrays import unwarned
from comp_comm.layers.pattern import pattern_of
from comp_comm.transformer import Transformer

APART = 0.1  # of the FLOP of a model: where both ways to count attention differ by more, a note says so
HIGH = 0.7  # of the peak: a utilization above it has a note


def counted(word: str) -> str:
    """Return which attention FLOP are counted, in words.

    >>> counted("causal")
    'the attention scores that a causal mask leaves'
    """
    causal = AttentionCount.of(word) is AttentionCount.CAUSAL
    return "the attention scores that a causal mask leaves" if causal else "all attention scores"


def convention_notes(t: Transformer, word: str) -> list[str]:
    """Return a note where a resolved model's FLOP depend on how attention is counted."""
    totals = pattern_of(t).totals
    with unwarned():
        full, causal = (forward_flops(t, t.vocab, count).total(totals)
                        for count in (AttentionCount.FULL, AttentionCount.CAUSAL))  # fmt: skip
        more = float(np.max(full / causal)) - 1
    if not more > APART:  # it is no number where a point of the study is no model
        return []
    other = AttentionCount.FULL if word == AttentionCount.CAUSAL.word else AttentionCount.CAUSAL
    apart = f"{100 * more:.0f} % more" if other is AttentionCount.FULL else f"{100 * more / (1 + more):.0f} % less"
    return [f"mfu counts {counted(word)} (count_attention: {word}); with {other.word} it is up to {apart}"]


def high_notes(step: Step, word: str) -> list[str]:
    """Return a note where the utilization of one step is so high that what it counts must be said."""
    shares = {name: float(COLUMNS[name].of(step)) for name in ("mfu", "hfu")}
    if max(shares.values()) <= HIGH:
        return []
    said = " and ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
    return [f"{said}: above {100 * HIGH:.0f} % look at what is counted. mfu counts {counted(word)}, hfu what is "
            "executed, both over the dense peak of the compute precision"]  # fmt: skip

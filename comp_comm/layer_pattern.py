"""How a study says which layers a model has, one by one: the text of the field ``layer_pattern``.

A letter is a block, as Megatron-LM writes hybrid models. Blocks that mix tokens: ``*`` attention to everything, ``W``
over the window, ``T`` sparse attention to the tokens that the indexer of an earlier layer chose, ``M`` Mamba-2, ``S``
Mamba-1 (a selective scan), ``G`` Gated DeltaNet, ``K`` Kimi Delta Attention, ``L`` lightning attention, ``H`` attention
and Mamba-2 side by side (Falcon-H1), ``Z`` a block of attention and network that such layers share, before Mamba-2
(Zamba2), ``Y`` such a block before Mamba-1 (Zamba). Feed-forward networks: ``-`` dense, ``E`` experts. A text of
letters alone has one block in each layer (``M-M-*-``); with spaces between them, layers are words of one block or of
two (``GE GE GE *E``). ``(...)x12`` repeats what it holds, ``GEx3`` a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from comp_comm.texts import Texts

MIXERS = {"*": "attention", "W": "window attention", "T": "sparse attention without an indexer of its own",
          "M": "Mamba-2", "S": "Mamba-1", "G": "Gated DeltaNet", "K": "Kimi Delta Attention",
          "L": "lightning attention", "H": "attention beside Mamba-2", "Z": "shared block before Mamba-2",
          "Y": "shared block before Mamba-1"}  # fmt: skip
NETWORKS = {"-": "dense network", "E": "experts"}
COMPOSED = {"H": "M", "Z": "M", "Y": "S"}  # mixers that have another one in them
SHARED = "ZY"  # those that have a block that such layers share
RECURRENT = "MSGKL"  # those that keep a state, not keys and values
MOST_LAYERS = 100_000
_TIMES = r"(?:x([1-9]\d{0,5}))?"
_TOKEN = rf"\s*(?:(\()|\){_TIMES}|([*WTMSGKLHZYE-]{{1,2}}|[^\s(),]+?){_TIMES}(?=[\s(),]|$))[\s,]*"


@dataclass(frozen=True)
class PatternLayer:
    """A layer: the letters of the block that mixes tokens and of its feed-forward network, empty where it has none."""

    mixer: str
    network: str

    def has(self, letters: str) -> bool:
        """Return whether a block of any of these letters is in the layer, by itself or within another."""
        inside = (self.mixer, self.network, COMPOSED.get(self.mixer, ""))
        return any(letter and letter in letters for letter in inside)


@lru_cache(maxsize=256)
def parse_layer_pattern(text: str) -> tuple[PatternLayer, ...]:
    """Return the layers that a text says. Raises ``ValueError`` where it says something else.

    >>> [len(parse_layer_pattern(text)) for text in ("M-M*-", "(GE GE GE *E)x12", "*-x2 Ex3")]
    [5, 48, 5]
    >>> parse_layer_pattern("GE *-")[1]
    PatternLayer(mixer='*', network='-')
    """
    if text and not set(text) - set(MIXERS) - set(NETWORKS):
        return tuple(map(_layer, text))
    layers: list[PatternLayer] = []
    opened: list[int] = []
    token = re.compile(_TOKEN)
    at, end = 0, len(text.rstrip())
    while at < end:
        match = token.match(text, at)
        if match is None:
            raise ValueError(f"'{text[:60]}': cannot read '{text[at : at + 10]}'")
        at = match.end()
        opening, group_times, word, times = match.groups()
        if opening:
            opened.append(len(layers))
            continue
        if not word and not opened:
            raise ValueError(f"'{text[:60]}': ')' without a '('")
        repeated = [_layer(word)] if word else layers[opened.pop() :]
        again = int(times or 1) if word else int(group_times or 1) - 1
        if len(layers) + len(repeated) * again > MOST_LAYERS:
            raise ValueError(f"more than {MOST_LAYERS:,} layers")
        layers += repeated * again
    if opened or not layers:
        raise ValueError(f"'{text[:60]}': '(' without a ')'" if opened else "an empty pattern of layers")
    return tuple(layers)


def _layer(word: str) -> PatternLayer:
    """Return the layer that a word means."""
    mixer, network = (word, "") if word[:1] in MIXERS else ("", word)
    if len(word) == 2:
        mixer, network = word[0], word[1]
    if (mixer and mixer not in MIXERS) or (network and network not in NETWORKS):
        known = ", ".join(f"{letter} {title}" for letter, title in (MIXERS | NETWORKS).items())
        raise ValueError(
            f"'{word[:20]}' is no layer ({known}; a layer is one of the first, one of the last two, or both)"
        )
    return PatternLayer(mixer, network)


def check_layer_pattern(text: str) -> None:
    """Raise ``ValueError`` where a text is no pattern of layers, saying what one looks like."""
    try:
        parse_layer_pattern(text)
    except ValueError as error:
        raise ValueError(f"{error}; a pattern is written 'M-M-M*-' (a block a layer) or '(GE GE GE *E)x12'") from None


def count_of(patterns: Texts, letters: str) -> NDArray[np.float64]:
    """Return how many layers of each point's pattern have a block of any of these letters; 0 where it has none.

    >>> float(count_of(Texts(np.asarray(0), ("(GE GE GE *E)x12",)), "GK"))
    36.0
    """
    counts = [sum(each.has(letters) for each in parse_layer_pattern(text)) if text else 0 for text in patterns.texts]
    return np.asarray(counts, np.float64)[patterns.codes]


def layers_of(patterns: Texts) -> NDArray[np.float64]:
    """Return how many layers each point's pattern has, NaN where it has none."""
    counts = [float(len(parse_layer_pattern(text))) if text else np.nan for text in patterns.texts]
    return np.asarray(counts, np.float64)[patterns.codes]

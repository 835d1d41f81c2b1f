"""Which layers a model has, in order: the kinds of layers there are, and how many of each come before any place.

A layer of a decoder is told by its attention (latent or not, sparse, over a window or over everything) or the mixer
with a state in its place, and by what follows it (a dense network or experts); either may be all that there is. They
follow from a few numbers, or are listed (``layer_pattern``). An encoder stands before its decoder, modules of
multi-token prediction after all layers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.distinct import distinct_rows
from comp_comm.formulas.arrays import Array, somewhere, to_float, where
from comp_comm.layer_pattern import parse_layer_pattern
from comp_comm.layers.attention import SelfAttention
from comp_comm.layers.feed_forward import FeedForward
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.layer_feature import (
    LETTERS,
    NETWORK_LETTERS,
    STATES,
    LayerFeature,
    NameParts,
    name_parts,
)
from comp_comm.layers.multi_token_prediction import PredictionProjection
from comp_comm.structs import struct
from comp_comm.transformer import Transformer

Counts = NDArray[np.int64]


class PatternKey(NamedTuple):
    """What tells patterns: the distinct rows of what they are made of, the longest model, and whether any has MTP.

    ``texts`` are those of layers that are listed.
    """

    rows: tuple[PatternRow, ...]
    longest: int
    has_mtp: bool
    texts: tuple[str, ...] = ("",)


class PatternRow(NamedTuple):
    """What tells the pattern of one model from others."""

    latent: float
    windowed: float
    global_every: float
    experts: float
    dense_layers: float
    moe_every: float
    encoder_layers: float
    cross: float
    sparse: float
    listed: float = 0.0  # which text lists its layers


ENCODER_LAYER = LayerKind("encoder layer", (SelfAttention(), FeedForward()), of_encoder=True)


@struct
class Pattern:
    """The kinds of layers of a model, and where they are.

    ``row`` is which pattern each point has, ``key`` tells the patterns from those of other models. ``mtp`` are modules
    of multi-token prediction, of the kind that their pattern has.
    """

    kinds: tuple[LayerKind, ...]
    key: PatternKey
    row: NDArray[np.intp]
    layers: Array
    mtp: Array

    @property
    def totals(self) -> list[Array]:
        """Layers of each kind in the whole model, modules of multi-token prediction among them."""
        counted = counted_layers(self.key)
        place = np.clip(np.asarray(self.layers, np.intp), 0, counted.before.shape[-1] - 1)
        return [
            self.mtp * (counted.modules[self.row] == number) if kind.of_prediction
            else to_float(counted.before[self.row, number, place])
            for number, kind in enumerate(self.kinds)
        ]  # fmt: skip


def pattern_of(t: Transformer) -> Pattern:
    """Return the pattern of a resolved model.

    >>> from comp_comm.transformer import resolved
    >>> pattern = pattern_of(resolved(Transformer(64, 64, layers=9, heads=4, experts=8, top_k=2, dense_layers=3)))
    >>> [(kind.name, float(count)) for kind, count in zip(pattern.kinds, pattern.totals)]
    [('dense layer', 3.0), ('expert layer', 6.0)]
    """
    both = t.encoder_decoder
    encoders = where(both, t.encoder_layers, 0.0) if somewhere(both) else 0.0
    numbers = [to_float(t.kv_lora_rank) > 0, to_float(t.window) < np.inf, t.global_every, to_float(t.experts) > 0,
            t.dense_layers, t.moe_every, encoders, both, to_float(t.index_heads) > 0]  # fmt: skip
    listed = t.layer_pattern
    codes = [to_float(listed.codes)] if listed.given else []
    rows, row = _distinct([*(to_float(number) for number in numbers), *codes])
    longest = int(np.max(to_float(t.all_layers), initial=0))
    key = PatternKey(rows, longest, somewhere(to_float(t.mtp_layers) > 0), listed.texts)
    return Pattern(counted_layers(key).kinds, key, row, to_float(t.all_layers), to_float(t.mtp_layers))


def _distinct(numbers: list[Array]) -> tuple[tuple[PatternRow, ...], NDArray[np.intp]]:
    """Return the distinct rows of numbers that broadcast, and which of them each point has."""
    if all(number.size == 1 for number in numbers):
        return (PatternRow(*(number.item() for number in numbers)),), np.asarray(0, np.intp)
    columns = np.broadcast_arrays(*numbers)
    table = distinct_rows([column.reshape(-1) for column in columns], columns[0].size)
    rows = tuple(PatternRow(*(float(column.reshape(-1)[i]) for column in columns)) for i in table.first)
    return rows, table.row.reshape(columns[0].shape)


class CountedLayers(NamedTuple):
    """The kinds of layers of some patterns, and where they are.

    ``before`` says for each pattern, each kind and each n how many of the first n layers are of the kind; ``modules``
    which kind the modules of multi-token prediction of each pattern are.
    """

    kinds: tuple[LayerKind, ...]
    before: Counts
    modules: NDArray[np.intp]


@lru_cache(maxsize=64)
def counted_layers(key: PatternKey) -> CountedLayers:
    """Return the kinds of layers that patterns have, and where."""
    features = [_layer_features(row, key) for row in key.rows]
    codes = sorted({int(code) for each in features for code in each.tolist()})
    known = {code: LayerFeature(code) for code in codes if code >= 0}
    named = name_parts(known.values())
    kinds = [ENCODER_LAYER if code < 0 else known[code].kind(named) for code in codes]
    modules = np.full(len(features), -1)
    if key.has_mtp:
        # A module is a layer like the last ones of its model that have attention and a network: those with the
        # largest code.
        lasts, which = np.unique([(each.clip(0) & ~NOT_OF_MTP_MODULES).max(initial=0) for each in features],
                                 return_inverse=True)  # fmt: skip
        modules = len(kinds) + which
        kinds += [_prediction_module(LayerFeature(int(code)), lasts.size > 1) for code in lasts]
    marks = np.zeros((len(features), len(kinds), key.longest + 1), np.int64)
    for number, code in enumerate(codes):
        marks[:, number, 1:] = np.stack(features) == code
    return CountedLayers(tuple(kinds), marks.cumsum(axis=-1), modules)


NOT_OF_MTP_MODULES = int(STATES | LayerFeature.SHARES_INDEX | LayerFeature.NO_MIXER | LayerFeature.NO_NETWORK)


def _listed(row: PatternRow, text: str, longest: int) -> NDArray[np.int64]:
    """Return what each layer of a pattern that is listed is; where there are others, they break a rule."""
    attention = LayerFeature.LATENT * (row.latent > 0) | LayerFeature.SPARSE * (row.sparse > 0)
    features = [
        LETTERS[layer.mixer] | NETWORK_LETTERS[layer.network] | (attention if layer.mixer in ("*", "W", "T") else 0)
        for layer in parse_layer_pattern(text)[:longest]
    ]
    return np.asarray([*map(int, features), *[0] * (longest - len(features))], np.int64)


def _layer_features(row: PatternRow, key: PatternKey) -> NDArray[np.int64]:
    """Return what each layer of one pattern is: a `LayerFeature`, or -1 in the encoder."""
    longest, text = key.longest, key.texts[int(row.listed)]
    if text:
        return _listed(row, text, longest)
    number = np.arange(longest) - row.encoder_layers + 1  # of the decoder's layers, from 1
    windowed = np.full(longest, row.windowed > 0)
    if row.global_every > 0:
        windowed &= number % row.global_every != 0
    experts = np.full(longest, row.experts > 0)
    experts &= (number > row.dense_layers) & ((number - row.dense_layers) % max(row.moe_every, 1.0) == 0)
    flags = {
        LayerFeature.LATENT: row.latent > 0,
        LayerFeature.WINDOWED: windowed,
        LayerFeature.EXPERTS: experts,
        LayerFeature.CROSS: row.cross > 0,
        LayerFeature.SPARSE: row.sparse > 0,
    }
    features = sum(
        (int(flag) * np.asarray(holds, np.int64) for flag, holds in flags.items()), np.zeros(longest, np.int64)
    )
    return np.where(number > 0, features, -1)


def _prediction_module(last: LayerFeature, several: bool) -> LayerKind:
    """Return the kind of modules of multi-token prediction: a layer like the last ones, behind a projection.

    ``several`` says that there are others, from which its name must tell it.
    """
    with_experts = "with experts" if LayerFeature.EXPERTS in last else "without experts"
    name = f"MTP module {with_experts}" if several else "MTP module"
    blocks = (last & ~LayerFeature.WINDOWED).kind(NameParts()).blocks
    return LayerKind(name, (PredictionProjection(), *blocks), of_prediction=True)

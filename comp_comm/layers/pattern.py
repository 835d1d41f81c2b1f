"""Which layers a model has, in order: the kinds of layers there are, and how many of each come before any place.

A layer of a decoder is told by its attention (latent or not, sparse, over a window or over everything) or the mixer
with a state in its place, and by what follows it (a dense network or experts); either may be all that there is. They
follow from a few numbers, or are listed (``layer_pattern``). An encoder stands before its decoder, modules of
multi-token prediction after all layers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.distinct import distinct_rows
from comp_comm.formulas.arrays import Array, somewhere, to_float, where
from comp_comm.layer_pattern import parse_layer_pattern
from comp_comm.layers.attention import CrossAttention, SelfAttention
from comp_comm.layers.block import Block
from comp_comm.layers.experts import Experts
from comp_comm.layers.feed_forward import FeedForward
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.latent_attention import LatentAttention
from comp_comm.layers.linear_attention import GatedDeltaNet, KimiDeltaAttention, LightningAttention
from comp_comm.layers.mamba import Mamba1, Mamba2, Mamba2BesideAttention
from comp_comm.layers.multi_token_prediction import PredictionProjection
from comp_comm.layers.shared_block import SharedAttention, SharedNetwork
from comp_comm.layers.sparse_attention import Indexer, SparseLatentAttention
from comp_comm.layers.state_mixer import StateMixer
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


class Place(IntFlag):
    """What tells a layer of a decoder (or of an encoder that is all there is) from others.

    A module of multi-token prediction is like the layer of its model with the largest value.
    """

    CROSS = 1
    EXPERTS = 2
    WINDOWED = 4
    LATENT = 8
    SPARSE = 16
    MAMBA2 = 32
    MAMBA1 = 64
    DELTA = 128
    KIMI = 256
    LIGHTNING = 512
    TAKEN_OVER = 1024
    NO_MIXER = 2048
    NO_NETWORK = 4096
    BESIDE = 8192
    SHARED = 16384

    @property
    def attends(self) -> bool:
        """Whether the layer has attention."""
        return not self & (NO_MIXER | STATES)

    def kind(self, told: Told) -> LayerKind:
        """Return the kind of layer, named by what tells it from others of its model."""
        mixer, network = [] if Place.NO_MIXER in self else self._mixer(), Place.NO_NETWORK not in self
        experts, cross = Place.EXPERTS in self, Place.CROSS in self
        before = "attention and " if Place.BESIDE in self else "shared " if Place.SHARED in self else ""
        words = [before + block.name for block in mixer if isinstance(block, StateMixer)]
        if self.attends:
            words += ["window" if Place.WINDOWED in self else "global"] if told.windows else []
            words += ["index-sharing" if Place.TAKEN_OVER in self else "indexed"] if told.indexers else []
            words += ["attention"] if told.mixers else []
        words += ["expert" if experts else "dense"] if network and (told.networks or not mixer) else []
        words += ["decoder"] if cross else []
        networks: list[Block] = [Experts() if experts else FeedForward()] if network else []
        blocks = (*mixer, *([CrossAttention()] if cross else []), *networks)
        return LayerKind(" ".join([*words, "layer"]), blocks)

    def _mixer(self) -> list[Block]:
        """Return what mixes tokens: attention, with an indexer where it is sparse, or a mixer with a state."""
        states = [block for flag, blocks in MIXERS.items() if flag in self for block in blocks]
        if states:
            return states
        windowed = Place.WINDOWED in self
        if Place.LATENT not in self:
            return [SelfAttention(windowed)]
        if Place.SPARSE not in self:
            return [LatentAttention(windowed)]
        own: list[Block] = [] if Place.TAKEN_OVER in self else [Indexer()]
        return [*own, SparseLatentAttention()]


class Told(NamedTuple):
    """What tells layers of a model from each other: windows, networks, mixers of several kinds, indexers."""

    windows: bool = False
    networks: bool = False
    mixers: bool = False
    indexers: bool = False


MIXERS: dict[Place, tuple[Block, ...]] = {
    Place.MAMBA2: (Mamba2(),), Place.MAMBA1: (Mamba1(),), Place.DELTA: (GatedDeltaNet(),),
    Place.KIMI: (KimiDeltaAttention(),), Place.LIGHTNING: (LightningAttention(),),
    Place.BESIDE: (SelfAttention(), Mamba2BesideAttention()),
    Place.SHARED: (SharedAttention(), SharedNetwork(), Mamba2()),
}  # fmt: skip
LETTERS = {"M": Place.MAMBA2, "S": Place.MAMBA1, "G": Place.DELTA, "K": Place.KIMI, "L": Place.LIGHTNING,
           "H": Place.BESIDE, "Z": Place.SHARED,
           "*": Place(0), "W": Place.WINDOWED, "T": Place.TAKEN_OVER, "": Place.NO_MIXER}  # fmt: skip
NETWORK_LETTERS = {"E": Place.EXPERTS, "-": Place(0), "": Place.NO_NETWORK}
STATES, NO_MIXER = Place(sum(MIXERS)), Place.NO_MIXER

ENCODER_LAYER = LayerKind("encoder layer", (SelfAttention(), FeedForward()), of_encoder=True)


@dataclass(frozen=True, eq=False)
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
    told = [to_float(t.kv_lora_rank) > 0, to_float(t.window) < np.inf, t.global_every, to_float(t.experts) > 0,
            t.dense_layers, t.moe_every, encoders, both, to_float(t.index_heads) > 0]  # fmt: skip
    listed = t.layer_pattern
    codes = [to_float(listed.codes)] if listed.given else []
    rows, row = _distinct([*(to_float(number) for number in told), *codes])
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
    places = [_places(row, key) for row in key.rows]
    codes = sorted({int(code) for each in places for code in each.tolist()})
    known = {code: Place(code) for code in codes if code >= 0}
    told = _told(known.values())
    kinds = [ENCODER_LAYER if code < 0 else known[code].kind(told) for code in codes]
    modules = np.full(len(places), -1)
    if key.has_mtp:
        # A module is a layer like the last ones of its model that have attention and a network: those told by the
        # largest code.
        lasts, which = np.unique([(each.clip(0) & ~OF_NO_MODULE).max(initial=0) for each in places],
                                 return_inverse=True)  # fmt: skip
        modules = len(kinds) + which
        kinds += [_prediction_module(Place(int(code)), lasts.size > 1) for code in lasts]
    marks = np.zeros((len(places), len(kinds), key.longest + 1), np.int64)
    for number, code in enumerate(codes):
        marks[:, number, 1:] = np.stack(places) == code
    return CountedLayers(tuple(kinds), marks.cumsum(axis=-1), modules)


OF_NO_MODULE = int(STATES | Place.TAKEN_OVER | Place.NO_MIXER | Place.NO_NETWORK)


def _told(places: Iterable[Place]) -> Told:
    """Return what tells these layers from each other."""
    places = list(places)
    attending = [place for place in places if place.attends]
    networks = {place & Place.EXPERTS for place in places if Place.NO_NETWORK not in place}
    windows = {place & Place.WINDOWED for place in attending}
    indexers = {place & Place.TAKEN_OVER for place in attending}
    return Told(len(windows) > 1, len(networks) > 1, len(attending) < len(places), len(indexers) > 1)


def _listed(row: PatternRow, text: str, longest: int) -> NDArray[np.int64]:
    """Return what each layer of a pattern that is listed is; where there are others, they break a rule."""
    attention = Place.LATENT * (row.latent > 0) | Place.SPARSE * (row.sparse > 0)
    places = [
        LETTERS[layer.mixer] | NETWORK_LETTERS[layer.network] | (attention if layer.mixer in ("*", "W", "T") else 0)
        for layer in parse_layer_pattern(text)[:longest]
    ]
    return np.asarray([*map(int, places), *[0] * (longest - len(places))], np.int64)


def _places(row: PatternRow, key: PatternKey) -> NDArray[np.int64]:
    """Return what each layer of one pattern is: a `Place`, or -1 in the encoder."""
    longest, text = key.longest, key.texts[int(row.listed)]
    if text:
        return _listed(row, text, longest)
    number = np.arange(longest) - row.encoder_layers + 1  # of the decoder's layers, from 1
    windowed = np.full(longest, row.windowed > 0)
    if row.global_every > 0:
        windowed &= number % row.global_every != 0
    experts = np.full(longest, row.experts > 0)
    experts &= (number > row.dense_layers) & ((number - row.dense_layers) % max(row.moe_every, 1.0) == 0)
    told = {
        Place.LATENT: row.latent > 0,
        Place.WINDOWED: windowed,
        Place.EXPERTS: experts,
        Place.CROSS: row.cross > 0,
        Place.SPARSE: row.sparse > 0,
    }
    place = sum((int(flag) * np.asarray(holds, np.int64) for flag, holds in told.items()), np.zeros(longest, np.int64))
    return np.where(number > 0, place, -1)


def _prediction_module(last: Place, told: bool) -> LayerKind:
    """Return the kind of modules of multi-token prediction: a layer like the last ones, behind a projection.

    ``told`` says that the name must tell it from another one.
    """
    name = f"MTP module {'with experts' if Place.EXPERTS in last else 'without experts'}" if told else "MTP module"
    blocks = (last & ~Place.WINDOWED).kind(Told()).blocks
    return LayerKind(name, (PredictionProjection(), *blocks), of_prediction=True)

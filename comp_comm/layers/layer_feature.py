"""Features that tell the layers of a model apart, and the kind of layer they make."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from typing import NamedTuple

from comp_comm.layers.attention import CrossAttention, SelfAttention
from comp_comm.layers.block import Block
from comp_comm.layers.experts import Experts
from comp_comm.layers.feed_forward import FeedForward
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.latent_attention import LatentAttention
from comp_comm.layers.linear_attention import GatedDeltaNet, KimiDeltaAttention, LightningAttention
from comp_comm.layers.mamba import Mamba1, Mamba2, Mamba2BesideAttention
from comp_comm.layers.shared_block import SharedAttention, SharedNetwork
from comp_comm.layers.sparse_attention import Indexer, SparseLatentAttention
from comp_comm.layers.state_mixer import StateMixer


class LayerFeature(IntFlag):
    """Features of a layer of a decoder (or of a model that is an encoder alone); layers of equal features are a kind.

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
    SHARES_INDEX = 1024
    NO_MIXER = 2048
    NO_NETWORK = 4096
    PARALLEL_MAMBA2 = 8192
    SHARED_BLOCK = 16384
    SHARED_BEFORE_MAMBA1 = 32768

    @property
    def attends(self) -> bool:
        """Whether the layer has attention."""
        return not self & (NO_MIXER | STATES)

    def kind(self, named: NameParts) -> LayerKind:
        """Return the kind of layer; its name says those features in which the layers of its model differ."""
        mixer, network = [] if LayerFeature.NO_MIXER in self else self._mixer(), LayerFeature.NO_NETWORK not in self
        experts, cross = LayerFeature.EXPERTS in self, LayerFeature.CROSS in self
        prefix = ""
        if LayerFeature.PARALLEL_MAMBA2 in self:
            prefix = "attention and "
        elif self & (LayerFeature.SHARED_BLOCK | LayerFeature.SHARED_BEFORE_MAMBA1):
            prefix = "shared "
        words = [prefix + block.name for block in mixer if isinstance(block, StateMixer)]
        if self.attends:
            words += ["window" if LayerFeature.WINDOWED in self else "global"] if named.windows else []
            words += ["index-sharing" if LayerFeature.SHARES_INDEX in self else "indexed"] if named.indexers else []
            words += ["attention"] if named.mixers else []
        words += ["expert" if experts else "dense"] if network and (named.networks or not mixer) else []
        words += ["decoder"] if cross else []
        networks: list[Block] = [Experts() if experts else FeedForward()] if network else []
        blocks = (*mixer, *([CrossAttention()] if cross else []), *networks)
        return LayerKind(" ".join([*words, "layer"]), blocks)

    def _mixer(self) -> list[Block]:
        """Return what mixes tokens: attention, with an indexer where it is sparse, or a mixer with a state."""
        states = [block for flag, blocks in MIXERS.items() if flag in self for block in blocks]
        if states:
            return states
        windowed = LayerFeature.WINDOWED in self
        if LayerFeature.LATENT not in self:
            return [SelfAttention(windowed)]
        if LayerFeature.SPARSE not in self:
            return [LatentAttention(windowed)]
        own: list[Block] = [] if LayerFeature.SHARES_INDEX in self else [Indexer()]
        return [*own, SparseLatentAttention()]


class NameParts(NamedTuple):
    """Which features the names of a model's layers say: those in which its layers differ."""

    windows: bool = False
    networks: bool = False
    mixers: bool = False
    indexers: bool = False


MIXERS: dict[LayerFeature, tuple[Block, ...]] = {
    LayerFeature.MAMBA2: (Mamba2(),), LayerFeature.MAMBA1: (Mamba1(),), LayerFeature.DELTA: (GatedDeltaNet(),),
    LayerFeature.KIMI: (KimiDeltaAttention(),), LayerFeature.LIGHTNING: (LightningAttention(),),
    LayerFeature.PARALLEL_MAMBA2: (SelfAttention(), Mamba2BesideAttention()),
    LayerFeature.SHARED_BLOCK: (SharedAttention(), SharedNetwork(), Mamba2()),
    LayerFeature.SHARED_BEFORE_MAMBA1: (SharedAttention(), SharedNetwork(), Mamba1()),
}  # fmt: skip
LETTERS = {
    "M": LayerFeature.MAMBA2, "S": LayerFeature.MAMBA1, "G": LayerFeature.DELTA, "K": LayerFeature.KIMI,
    "L": LayerFeature.LIGHTNING, "H": LayerFeature.PARALLEL_MAMBA2, "Z": LayerFeature.SHARED_BLOCK,
    "Y": LayerFeature.SHARED_BEFORE_MAMBA1,
    "*": LayerFeature(0), "W": LayerFeature.WINDOWED, "T": LayerFeature.SHARES_INDEX, "": LayerFeature.NO_MIXER,
}  # fmt: skip
NETWORK_LETTERS = {"E": LayerFeature.EXPERTS, "-": LayerFeature(0), "": LayerFeature.NO_NETWORK}
STATES, NO_MIXER = LayerFeature(sum(MIXERS)), LayerFeature.NO_MIXER


def name_parts(layers: Iterable[LayerFeature]) -> NameParts:
    """Return what the names of these layers must say to tell them from each other."""
    layers = list(layers)
    attending = [layer for layer in layers if layer.attends]
    networks = {layer & LayerFeature.EXPERTS for layer in layers if LayerFeature.NO_NETWORK not in layer}
    windows = {layer & LayerFeature.WINDOWED for layer in attending}
    indexers = {layer & LayerFeature.SHARES_INDEX for layer in attending}
    return NameParts(len(windows) > 1, len(networks) > 1, len(attending) < len(layers), len(indexers) > 1)

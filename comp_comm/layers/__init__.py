"""What a model is made of: blocks, kinds of layers made of them, and where in the model each kind is."""

from comp_comm.layers.block import Block, LayerParameters, SavedActivations
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.pattern import Pattern, pattern_of

__all__ = ["Block", "LayerKind", "LayerParameters", "Pattern", "SavedActivations", "pattern_of"]

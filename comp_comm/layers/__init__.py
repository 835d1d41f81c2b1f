"""What a model is made of: blocks, kinds of layers made of them, and where in the model each kind is.

A `Block` (attention, a feed-forward network, experts) says of itself what it computes, communicates, holds and saves; a
`LayerKind` is blocks in order with norms, residual sums and the collectives of tensor parallelism around them; a
`Pattern` says which kinds a model has; `stages_of` deals them out to pipeline stages. All of it is for one device and
one micro-batch, and nothing of it knows seconds or hardware.

Examples
--------
A layer of Llama 3 8B on each of 64 devices, TP 4 and four pipeline stages:

>>> from comp_comm.formats import BF16
>>> from comp_comm.layers.stages import stages_of
>>> from comp_comm.layout import Layout, resolved_layout
>>> from comp_comm.operations.context import Context
>>> from comp_comm.transformer import Transformer, resolved
>>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
>>> c = Context(resolved(llama), resolved_layout(Layout(gpus=64, tp=4, pp=4, global_batch=64)), BF16)
>>> pattern = pattern_of(c.t)
>>> (layer,) = pattern.kinds
>>> [op.name for op in layer.operations(c)][:4]
['QKV projection', 'rotary embedding', 'attention', 'attention output']
>>> [(each.name, float(each.count), float(each.backward_count)) for each in layer.collectives(c)]
[('layer all-gather', 2.0, 4.0), ('layer reduce-scatter', 2.0, 2.0)]
>>> f"{layer.parameters(c).dense:,.0f} parameters"
'54,559,232 parameters'
>>> f"{sum(each.size for each in layer.saved_activations(c)) / 2**20:.0f} MiB of activations"
'288 MiB of activations'
>>> [float(stage.layer_counts[0]) for stage in stages_of(pattern, c.layout).candidates]  # the first stage, the last
[8.0, 8.0]
"""

from comp_comm.layers.block import Block, LayerParameters, SavedActivations
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.pattern import Pattern, pattern_of

__all__ = ["Block", "LayerKind", "LayerParameters", "Pattern", "SavedActivations", "pattern_of"]

"""What the first and the last stage do beside their layers: embedding, logits, loss; and the optimizer's step."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Elementwise, Gemm, Operation
from comp_comm.transformer import VIT

# Bytes a logit costs beside its GEMM, in the order of `comp_comm.words.KERNELS`: fused, eager, compiled.
LOSS_BYTES = to_float([16.0, 34.0, 20.0])


def embedding(c: Context) -> list[Operation]:
    """Return the first stage's operations before its layers: a gather (0 FLOP), or the patches of an image."""
    found: list[Operation] = []
    if c.has_vocab:
        moved = 2.0 * c.formats.activation * c.tokens * c.t.hidden * (to_float(c.t.vocab) > 0)
        found.append(Elementwise("embedding", "2 T H elements", 1.0, moved, 1.5 * moved))
    if c.is_vit and np.any(to_float(c.t.patch_features) > 0):
        patches = _of_vit(c, c.t.patch_features)
        found.append(Gemm("patch embedding", "2 T P H", patches, c.tokens, c.t.patch_features, c.t.hidden))
    return found


def logits(c: Context, vocab: Array) -> list[Operation]:
    """Return the last stage's operations after its layers, over ``vocab`` entries split by TP.

    Each module of multi-token prediction makes logits of its own, from a projection of two hidden states.
    """
    found: list[Operation] = []
    if c.has_vocab:
        times = (1.0 + to_float(c.t.mtp_layers)) * (to_float(c.t.vocab) > 0)
        here = vocab / c.layout.tp
        moved = LOSS_BYTES[np.asarray(c.layout.kernels, np.intp)] * c.tokens * here / 2
        found += [Gemm("logits", "2 T H V / tp", times, c.tokens, c.t.hidden, here),
                  Elementwise("softmax and loss", "16 B (fused) T V / tp", times, moved, moved)]  # fmt: skip
    if np.any(to_float(c.t.mtp_layers) > 0):
        h = to_float(c.t.hidden)
        found.append(Gemm("MTP projection", "2 T_s (2 H) H", c.t.mtp_layers, c.split_tokens, 2 * h, h))
    if c.is_vit and np.any(to_float(c.t.classes) > 0):
        head = _of_vit(c, c.t.classes)
        found.append(Gemm("class head", "2 b H C", head, c.layout.micro_batch, c.t.hidden, c.t.classes))
    return found


def _of_vit(c: Context, size: Numeric) -> Array:
    """Return 1 where a vision transformer has a part of this size."""
    return to_float((np.asarray(c.t.architecture) == VIT) & (to_float(size) > 0))


def optimizer_bytes(c: Context, parameters: Numeric, shards: Numeric) -> Array:
    """Return the bytes Adam moves on one device: states in and out, weights out, gradients in.

    >>> from comp_comm.formats import Formats
    >>> c = Context(None, None, Formats(grad=4))
    >>> float(optimizer_bytes(c, 1.0, 1.0))  # 4 grad + 2 x (4 + 4 + 4) + 2 weight; the norm reads gradients once more
    30.0
    """
    f = c.formats
    held = np.where(to_float(f.accumulate) > 0, f.accumulate, f.grad)
    each = held + 2 * (to_float(f.master) + 2 * to_float(f.moment)) + f.weight
    return to_float(parameters) / shards * each


def gradient_norm_bytes(c: Context, parameters: Numeric, shards: Numeric) -> Array:
    """Return the bytes read for the norm of the gradients that clipping needs."""
    held = np.where(to_float(c.formats.accumulate) > 0, c.formats.accumulate, c.formats.grad)
    return to_float(parameters) / shards * held

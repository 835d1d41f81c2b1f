"""What the first and the last stage have beside their layers: embedding, final norm, logits and loss."""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.choices import Architecture, Norm, Position, Switch
from comp_comm.formulas.arrays import Array, Numeric, somewhere, to_float, where
from comp_comm.kernel_choices import CrossEntropy
from comp_comm.layers.attention_residual import final_residual, residual_parameters
from comp_comm.layers.block import MASK
from comp_comm.layers.shared_block import shared_parameters
from comp_comm.layers.stages import Stage
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Elementwise, Gemm, Operation


class EndParameters(NamedTuple):
    """Parameters beside the layers; ``head`` is the output layer where it does not share the embedding's weights."""

    embedding: Array
    head: Array
    final_norm: Array

    def of_stage(self, stage: Stage, tied: Numeric) -> Array:
        """Return the parameters of a stage beside its layers; a last stage that is not the first copies tied ones."""
        first, last = stage.embedding, stage.head
        copied = last * (1 - first) * to_float(tied) * self.embedding
        return first * self.embedding + last * (self.head + self.final_norm) + copied

    def head_of_stage(self, stage: Stage, tied: Numeric) -> Array:
        """Return the parameters of final norm and head, with the embedding where that is the head, too."""
        whole = stage.head * stage.embedding * to_float(tied) * (self.embedding + self.final_norm)
        return stage.head * (self.head + self.final_norm) * (1 - to_float(tied)) + whole


def embedding_operations(c: Context) -> list[Operation]:
    """Return what the first stage does before its layers: a gather (0 FLOP), or the patches of an image."""
    operations: list[Operation] = []
    if c.has_vocab:
        moved = 2.0 * c.formats.activation * c.tokens * c.t.hidden * (to_float(c.t.vocab) > 0)
        back = 0.0 if c.frozen else 1.5
        operations.append(Elementwise("embedding", "2 T H elements", 1.0, moved, back * moved))
    if c.is_vit and somewhere(to_float(c.t.patch_features) > 0):
        patches = _of_vit(c, c.t.patch_features)
        operations.append(
            Gemm(
                "patch embedding",
                "2 T P H",
                count=patches,
                m=c.tokens,
                k=c.t.patch_features,
                n=c.t.hidden,
                sixteen_bit=1,
            )
        )
    return operations


def embedding_activations(c: Context) -> Array:
    """Return the bytes that the embedding keeps of a micro-batch: the masks of its dropout.

    s b h / t with sequence parallelism (Korthikanti et al., arXiv:2205.05198, section 4.3).
    """
    dropped = Switch.ON.where(c.t.dropout) & ((to_float(c.t.vocab) > 0) | (to_float(c.t.patch_features) > 0))
    tokens = c.split_tokens + where(c.t.encoder_decoder, c.of_encoder().split_tokens, 0.0)
    return to_float(MASK * dropped * tokens * c.t.hidden)


def head_operations(c: Context, vocab: Array) -> list[Operation]:
    """Return what the last stage does after its layers, over ``vocab`` entries split by TP.

    Each module of multi-token prediction makes logits of its own.
    """
    operations: list[Operation] = [*final_residual(c)]
    if c.has_vocab:
        times = (1.0 + to_float(c.t.mtp_layers)) * (to_float(c.t.vocab) > 0)
        columns = vocab / c.layout.tp
        moved = CrossEntropy.look_up("moved", c.layout.loss) * c.tokens * columns / 2
        operations += [
            Gemm(
                "logits",
                "2 T H V / tp",
                count=times,
                m=c.tokens,
                k=c.t.hidden,
                n=columns,
                sixteen_bit=1 - to_float(c.formats.fp8_head),
                trained=1.0 - c.frozen,
            ),
            Elementwise("softmax and loss", "16 B (fused) T V / tp", times, moved, moved),
        ]
    if c.is_vit and somewhere(to_float(c.t.classes) > 0):
        head = _of_vit(c, c.t.classes)
        operations.append(
            Gemm(
                "class head", "2 b H C", count=head, m=c.layout.micro_batch, k=c.t.hidden, n=c.t.classes, sixteen_bit=1
            )
        )
    return operations


def head_activations(c: Context, vocab: Array) -> Array:
    """Return the bytes that logits and loss of ``vocab`` entries need, with the inputs of the last norm and GEMM.

    Those of a fused loss are 4 s b h / t (1 + V / h) with sequence parallelism (Korthikanti et al., arXiv:2205.05198,
    section 4.3). Modules of multi-token prediction keep as much each; what only its gradient needs is needed once.
    """
    loss, layout = c.layout.loss, c.layout
    chunks = where(CrossEntropy.CHUNKED.where(loss), layout.loss_chunks, 1.0)
    logits = c.tokens * vocab / layout.tp
    tokens = c.split_tokens + c.kept_input_tokens
    of_norm = c.norm_saved * c.split_tokens
    inputs = (to_float(c.formats.activation) * tokens + of_norm) * c.t.hidden * (to_float(c.t.vocab) > 0)
    kept = (CrossEntropy.look_up("kept", loss) * logits + inputs) * (1 + to_float(c.t.mtp_layers))
    beside = CrossEntropy.look_up("beside", loss)
    return kept + beside / chunks * logits if somewhere(beside) else kept


def logits_gradient(c: Context, vocab: Array) -> Array:
    """Return the bytes of the gradient of logits, which the output layer's own are made of: of a chunk where it has."""
    chunks = where(CrossEntropy.CHUNKED.where(c.layout.loss), c.layout.loss_chunks, 1.0)
    return to_float(c.formats.activation * c.tokens * vocab / (c.layout.tp * chunks))


def head_unused(c: Context, vocab: Array) -> Array:
    """Return the bytes that PyTorch's allocator holds of the loss and has no tensor in while its gradient is made."""
    return to_float(CrossEntropy.look_up("unused", c.layout.loss) * c.tokens * vocab / c.layout.tp)


def _of_vit(c: Context, size: Numeric) -> Array:
    """Return 1 where a vision transformer has a part of this size."""
    return to_float(Architecture.VIT.where(c.t.architecture) & (to_float(size) > 0))


def end_parameters(c: Context, vocab: Array) -> EndParameters:
    """Return the parameters beside the layers that one device holds, with ``vocab`` entries split over TP.

    Blocks that layers share are held with the embedding, which such a block reads, too.
    """
    t, h = c.t, to_float(c.t.hidden)
    rows = vocab / c.layout.tp
    learned = where(Position.LEARNED.where(t.position), to_float(t.max_positions) * h, 0.0)
    embedding = rows * h + learned + t.extra_parameters + shared_parameters(c)
    head = where(to_float(t.tied) > 0, 0.0, rows * h)
    if c.is_vit:
        vit = Architecture.VIT.where(t.architecture)
        patches, classes = to_float(t.patch_features), to_float(t.classes)
        embedding = embedding + where(vit & (patches > 0), (patches + 1) * h, 0.0)
        head = where(vit, (h + 1) * classes, head)
    # An encoder beside the decoder ends in a norm of its own.
    norms = (1.0 + t.encoder_decoder) * h * Norm.look_up("weights", t.norm) + residual_parameters(c, 1.0)
    return EndParameters(embedding, head, to_float(norms))

"""Sparse attention (DeepSeek-V3.2, arXiv:2512.02556): an indexer scores all tokens, attention sees the best of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comp_comm.choices import ContextComm, ContextImplementation
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layers.block import Block, Cache, LayerParameters, SavedActivations, at_least_one
from comp_comm.layers.latent_attention import LatentAttention
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation
from comp_comm.violation import Violation, rule

FP32 = 4.0
SCORE_PASSES = 3.0  # of the indexer's scores in 32 bit: written, and read twice to choose the best (radix selection)
INDEX = 4.0  # bytes of the number of a token that was chosen
# The share of a large GEMM's rate at which scores are made: no softmax, heads are only added up. Assumed: not measured
# in training.
INDEXER_SHARE = 0.7


class Indexer(Block):
    """Scores of all tokens by few light heads with one key between them: beside attention, on the same input.

    Queries come of the latent of attention's queries. Every device of TP makes all of it: which tokens are chosen is
    one choice for all heads of attention.
    """

    residual = False

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return projections, scores over the whole sequence (or document of it), and the choice of the best."""
        t, seq = c.t, document(c)
        heads, dim = at_least_one(t.index_heads), to_float(t.index_dim)
        rank = np.where(to_float(t.q_lora_rank) > 0, t.q_lora_rank, t.hidden)
        scores = c.tokens * np.where(t.causal, seq / 2, seq)
        flops = 2 * scores * heads * dim
        moved = (
            c.formats.activation * (c.tokens * heads + to_float(c.layout.micro_batch) * to_float(t.seq_len)) * dim
            + FP32 * scores
        )
        # Only what was chosen is trained (section 2.1.1): twice the products with these.
        chosen = 4 * c.tokens * chosen_tokens(c) * heads * dim
        selected = FP32 * (SCORE_PASSES - 1) * scores + INDEX * c.tokens * chosen_limit(c)
        return [
            Gemm("indexer queries", "2 T r_q n_i d_i", count=1.0, m=c.tokens, k=rank, n=heads * dim),
            Gemm("indexer keys and weights", "2 T H (d_i + n_i)", count=1.0, m=c.tokens, k=t.hidden, n=dim + heads),
            FusedProducts(
                "indexer scores",
                "2 T (s / 2) n_i d_i",
                count=1.0,
                flops=flops,
                backward_flops=chosen,
                forward_bytes=moved,
                backward_bytes=moved,
                share=INDEXER_SHARE,
            ),
            Elementwise("choice of tokens", "8 B T s / 2", 1.0, selected, 0.0 * selected),
        ]

    def splits(self, c: Context) -> Numeric:
        """Return none: it takes the input that is gathered for attention."""
        return 0.0

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the gather of the indexer's keys that context parallelism needs."""
        return _gathered(c, "indexer keys", to_float(c.t.index_dim))

    def parameters(self, c: Context) -> LayerParameters:
        """Return queries, keys with their norm (which has a bias), and the weights of heads."""
        h, heads, dim = to_float(c.t.hidden), to_float(c.t.index_heads), to_float(c.t.index_dim)
        rank = np.where(to_float(c.t.q_lora_rank) > 0, c.t.q_lora_rank, h)
        return LayerParameters(rank * heads * dim + h * dim + 2 * dim + h * heads)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return queries, keys before and after their norm, weights of heads, and which tokens were chosen."""
        heads, dim = to_float(c.t.index_heads), to_float(c.t.index_dim)
        numbers = c.formats.activation * (heads * dim + 2 * dim + heads)
        return [SavedActivations("attention", to_float(c.tokens * (numbers + INDEX * chosen_limit(c))))]

    def cache(self, c: Context, length: Array) -> Cache:
        """Return the indexer's key of a token, on every device; all of them are scored."""
        dim = to_float(c.t.index_dim)
        return Cache(dim, dim, length, 2.0 * to_float(c.t.index_heads) * dim * c.layout.tp)


class SparseLatentAttention(LatentAttention):
    """Multi-head latent attention to the tokens that an indexer chose, on the latent that all heads share.

    Each query has keys of its own, so that heads share what is read: queries are projected to the latent of keys, and
    what comes of the latent of values to the heads' values, by the matrices that project keys and values up.
    """

    def core(self, c: Context) -> Attention:
        """Return scores, softmax and weighted sum over the latents of the tokens chosen."""
        t = c.t
        latent, asked = to_float(t.kv_lora_rank) + t.rope_head_dim, document(c) / c.layout.cp
        sequences = to_float(c.layout.micro_batch) * t.packed_documents
        return Attention(
            "sparse attention",
            "2 b (a / tp) (s / cp) k (2 r_kv + d_r)",
            count=1.0,
            sequences=sequences,
            heads=c.heads,
            queries=asked,
            keys=chosen_limit(c),
            seen=chosen_tokens(c),
            key_dim=latent,
            value_dim=at_least_one(t.kv_lora_rank),
            key_heads=to_float(1.0),
        )

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the gather of latents that context parallelism needs."""
        return _gathered(c, "latents", to_float(c.t.kv_lora_rank) + c.t.rope_head_dim)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return what latent attention keeps, with queries and results in the latent in place of keys and values."""
        t = c.t
        around, scores = super().saved_activations(c)
        up = c.kv_heads * (c.key_dim + t.v_head_dim)
        latent = c.heads * (2 * to_float(t.kv_lora_rank) + t.rope_head_dim)
        more = c.formats.activation * c.tokens * (latent - up)
        return [SavedActivations(around.module, around.size + more), SavedActivations("core_attn", 0.0 * scores.size)]

    def rules(self, c: Context) -> Sequence[Violation]:
        """Return that keys are gathered: chosen tokens may be anywhere."""
        return [rule((to_float(c.layout.cp) > 1) & ~ContextComm.ALL_GATHER.where(c.layout.cp_comm), "sparse attention "
                     "with keys passed round a ring, or heads swapped, is not modelled: cp_comm all_gather", "cp",
                     "cp_comm", "index_heads"),
                rule((to_float(c.layout.cp) > 1) & ~ContextImplementation.TRANSFORMER_ENGINE.where(
                     c.layout.cp_implementation), "sparse attention gathers what its indexer needs: cp_implementation "
                     "transformer_engine", "cp_implementation", "index_heads")]  # fmt: skip

    def cache(self, c: Context, length: Array) -> Cache:
        """Return the latent with the rotary part, of which the chosen tokens are read."""
        return super().cache(c, length)._replace(attended=np.minimum(to_float(c.t.index_topk), length))


def document(c: Context) -> Array:
    """Return how many tokens the last query of a document has before it: a sequence's, unless several are in one."""
    return to_float(to_float(c.t.seq_len) / c.t.packed_documents)


def chosen_limit(c: Context) -> Array:
    """Return how many tokens are chosen for a late query."""
    return np.minimum(to_float(c.t.index_topk), document(c))


def chosen_tokens(c: Context) -> Array:
    """Return how many tokens are chosen for a query on average: k - k^2 / (2 s) of a causal sequence."""
    k, seq = chosen_limit(c), document(c)
    return np.where(c.t.causal, k - k * k / (2 * seq), k)


def _gathered(c: Context, name: str, width: Array) -> list[Collective]:
    """Return a gather over context parallelism of so many numbers of a token, whose gradients are scattered."""
    many = to_float(to_float(c.layout.cp) > 1)
    if not any_of(many):
        return []
    size = c.tokens * c.layout.cp * width * c.formats.comm
    return [
        Collective(
            f"gather {name}",
            "s b width",
            count=many,
            kind="all_gather",
            parallelism="cp",
            message_bytes=size,
            backward_count=many,
            group=c.cp_group,
        ),
        Collective(
            f"scatter gradients of {name}",
            "s b width",
            count=0.0 * many,
            kind="reduce_scatter",
            parallelism="cp",
            message_bytes=size,
            backward_count=many,
            group=c.cp_group,
        ),
    ]

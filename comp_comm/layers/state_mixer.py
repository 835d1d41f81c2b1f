"""Mixers that carry a state along the sequence, in place of attention: what they have in common.

Heads of values, and heads of keys for several of them (groups of B and C in Mamba-2), are split over TP; a
convolution of a few tokens comes before the scan, and a gate and a norm after it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from comp_comm.choices import ContextComm
from comp_comm.formulas.arrays import Array, Numeric, somewhere, to_float
from comp_comm.layers.block import Block, Cache, LayerParameters, SavedActivations, biased
from comp_comm.layers.context_parallel import STATE_BYTES, state_exchanges
from comp_comm.operations.context import Context
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation
from comp_comm.violation import Violation, rule

# The share of a large GEMM's rate that the products of such a scan reach. SSD (N = 64, chunks of 256) takes as long as
# FlashAttention-2 at 2K tokens and a sixth of it at 16K on an A100 (arXiv:2405.21060, section 9.3 and figure 10), which
# beside the rate of attention in this model is 0.17 of a GEMM's rate, and its traffic. Kernels of the other mixers, and
# other devices, are assumed to be alike.
SCAN_SHARE = 0.17
BACKWARD_SCAN = 2.5  # both gradients of each product, and states and scores recomputed (assumed, as of attention)


class StateSizes(NamedTuple):
    """Sizes of a mixer's state on one device: heads of values, heads of keys (at least one), their dimensions."""

    heads: Array
    head_dim: Array
    groups: Array
    dim: Array

    @property
    def inner(self) -> Array:
        """Numbers of all values of a token."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> Array:
        """Numbers of all keys of a token."""
        return self.groups * self.dim

    @property
    def state(self) -> Array:
        """Numbers of the state of a sequence."""
        return self.inner * self.dim


def sizes(c: Context) -> StateSizes:
    """Return the sizes of a mixer's state on one device."""
    t, tp = c.t, to_float(c.layout.tp)
    groups = np.maximum(to_float(t.ssm_groups) / tp, 1.0)
    return StateSizes(to_float(t.ssm_heads) / tp, to_float(t.ssm_head_dim), groups, to_float(t.ssm_state))


class StateMixer(Block):
    """A mixer with a state; kinds say what is projected, convolved and scanned.

    ``name`` is what people call it, ``decode_flops`` the FLOP of one number of the state while generating a token.
    """

    name: str
    decode_flops: float

    @abstractmethod
    def projected(self, c: Context) -> Array:
        """Return the columns on this device of the projections of the layer's input."""

    @abstractmethod
    def convolved(self, c: Context) -> Array:
        """Return the channels on this device that are convolved."""

    @abstractmethod
    def scan(self, c: Context) -> FusedProducts:
        """Return the scan."""

    @abstractmethod
    def small_parameters(self, c: Context) -> Array:
        """Return the parameters beside projections of input and output: convolution, decays, norms."""

    @abstractmethod
    def kept_numbers(self, c: Context) -> Array:
        """Return the numbers of a token that are kept for the backward pass."""

    def more_projections(self, c: Context) -> Sequence[Operation]:
        """Return projections that are not of the layer's input."""
        return []

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return projections, convolution, scan, the gated norm, and the output projection."""
        s, h, size = sizes(c), c.t.hidden, to_float(c.formats.activation)
        convolved = 2 * size * c.tokens * self.convolved(c)
        gated = 3 * size * c.tokens * s.inner
        convolution = [
            Elementwise(
                f"{self.name} convolution",
                "2 T channels / tp elements",
                count=1.0,
                forward_bytes=convolved,
                backward_bytes=1.5 * convolved,
                factor=c.kernel_cost,
            )
        ]
        return [
            Gemm(f"{self.name} projections", "2 T H columns / tp", count=1.0, m=c.tokens, k=h, n=self.projected(c)),
            *self.more_projections(c),
            *(convolution if somewhere(convolved > 0) else []),
            self.scan(c),
            Elementwise(
                f"{self.name} gate and norm",
                "3 T n_h d / tp elements",
                count=1.0,
                forward_bytes=gated,
                backward_bytes=1.5 * gated,
                factor=c.kernel_cost,
            ),
            Gemm(f"{self.name} output", "2 T (n_h d / tp) H", count=1.0, m=c.tokens, k=s.inner, n=h),
        ]

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return what context parallelism exchanges: states, or channels for tokens."""
        s, convolved = sizes(c), self.convolved(c)
        before = np.where(convolved > 0, (to_float(c.t.ssm_conv) - 1) * convolved, 0.0)
        return state_exchanges(c, s.state, self.projected(c), s.inner, before)

    def parameters(self, c: Context) -> LayerParameters:
        """Return projections with their biases, and what is beside them."""
        h, columns = to_float(c.t.hidden), self.projected(c)
        bias = biased(c, "qkv") * columns + biased(c, "output") * h
        return LayerParameters(h * columns + sizes(c).inner * h + bias + self.small_parameters(c))

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return what the backward pass needs; states of chunks are recomputed, as the kernels do."""
        return [SavedActivations("attention", to_float(c.formats.activation * c.tokens * self.kept_numbers(c)))]

    def rules(self, c: Context) -> Sequence[Violation]:
        """Return what TP and context parallelism split."""
        heads, groups, tp, cp = (to_float(n) for n in (c.t.ssm_heads, c.t.ssm_groups, c.layout.tp, c.layout.cp))
        swapped = (cp > 1) & ContextComm.ALL_TO_ALL.where(c.layout.cp_comm)
        return [
            rule(heads % tp != 0, "tp does not divide ssm_heads", "tp", "ssm_heads"),
            rule((groups % tp != 0) & (tp % groups != 0), "tp does not divide ssm_groups, nor ssm_groups tp", "tp",
                 "ssm_groups"),
            rule(swapped & (heads % (tp * cp) != 0), "tp x cp does not divide ssm_heads, which all_to_all swaps", "cp",
                 "tp", "ssm_heads"),
        ]  # fmt: skip

    def cache(self, c: Context, length: Array) -> Cache:
        """Return the state of a sequence, in 32 bit, and the last inputs of the convolution: whatever its length."""
        s, tp = sizes(c), to_float(c.layout.tp)
        convolved = self.convolved(c)
        last = np.where(convolved > 0, (to_float(c.t.ssm_conv) - 1) * convolved, 0.0)
        held = STATE_BYTES * s.state + to_float(c.formats.activation) * last
        none = to_float(0.0)
        return Cache(none, none, to_float(1.0), self.decode_flops * s.state * tp, held)


def chunked_scan(name: str, formula: str, flops: Array, moved: Array) -> FusedProducts:
    """Return a scan of so many FLOP and bytes, forward."""
    return FusedProducts(
        name,
        formula,
        count=1.0,
        flops=flops,
        backward_flops=BACKWARD_SCAN * flops,
        forward_bytes=moved,
        backward_bytes=BACKWARD_SCAN * moved,
        share=SCAN_SHARE,
    )


def convolution_parameters(c: Context, channels: Array, bias: Numeric) -> Array:
    """Return the parameters of a convolution of each channel by itself."""
    return (to_float(c.t.ssm_conv) + bias) * channels

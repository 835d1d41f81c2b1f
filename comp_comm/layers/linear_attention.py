"""Linear attention: the gated delta rule (Gated DeltaNet, Kimi Delta Attention) and lightning attention."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.choices import KdaGates
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.formulas.state_space import delta_rule_flops, ssd_flops
from comp_comm.layers.state_mixer import StateMixer, chunked_scan, convolution_parameters, sizes
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Gemm, Operation

FP32_NUMBERS = 2.0  # of 16 bit, in one of 32


class GatedDeltaNet(StateMixer):
    """Gated DeltaNet (arXiv:2412.06464): one decay a head and token, and values that replace what a key stood for."""

    name = "Gated DeltaNet"
    decode_flops = 7.0  # the state decays, is read by the key, takes what is new in, and is read by the query

    def projected(self, c: Context) -> Array:
        """Return the columns of queries, keys, values, gate, decay and strength."""
        s = sizes(c)
        return 2 * s.keys + 2 * s.inner + 2 * s.heads

    def convolved(self, c: Context) -> Array:
        """Return the channels of queries, keys and values."""
        s = sizes(c)
        return 2 * s.keys + s.inner

    def scan(self, c: Context) -> FusedProducts:
        """Return the delta rule in chunks (`comp_comm.formulas.state_space.delta_rule_flops`).

        Its kernels read or write keys, queries and what they become seven times, values six, the chunk's matrix four.
        """
        s, chunk = sizes(c), to_float(c.t.ssm_chunk)
        flops = delta_rule_flops(c.tokens, s.heads, s.dim, s.head_dim, chunk)
        numbers = 7 * s.dim + 6 * s.head_dim + 4 * chunk + 2 * s.dim * s.head_dim / chunk
        moved = to_float(c.formats.activation) * c.tokens * s.heads * numbers
        formula = "T n_h (2 Q (3 N + 2 d) + 6 N d + Q^2 / 3) / tp"
        return chunked_scan(f"{self.name} scan", formula, flops, moved)

    def small_parameters(self, c: Context) -> Array:
        """Return the convolution, decay and its bias of each head, and the norm, which every head has in common."""
        s = sizes(c)
        return convolution_parameters(c, self.convolved(c), 0.0) + 2 * s.heads + s.head_dim

    def kept_numbers(self, c: Context) -> Array:
        """Return what is projected and convolved, keys and queries normalised for each head, the chunk's matrix, decay
        and strength in 32 bit, and what the scan and the norm make."""
        s = sizes(c)
        of_a_head = 2 * s.dim + to_float(c.t.ssm_chunk) + 2 * FP32_NUMBERS + 2 * s.head_dim
        return self.projected(c) + self.convolved(c) + s.heads * of_a_head


class KimiDeltaAttention(GatedDeltaNet):
    """Kimi Delta Attention (arXiv:2510.26692): a decay for each channel of a key; decay and gate come of a low rank.

    The rank is the dimension of a head; that projection is made on every device of TP. Either may be of full rank
    (``kda_gates``): one projection, split over TP.
    """

    name = "Kimi Delta Attention"

    def projected(self, c: Context) -> Array:
        """Return the columns of queries, keys, values, strength, and what decay and gate are projected to first."""
        s, (decay, gate) = sizes(c), _full(c)
        first = decay * s.keys + gate * s.inner + (2 - decay - gate) * s.head_dim
        return 2 * s.keys + s.inner + s.heads + first

    def more_projections(self, c: Context) -> Sequence[Operation]:
        """Return the projections of decay and gate up, where they come of a low rank."""
        s, up = sizes(c), _up(c)
        formula = "2 T d n_h (N + d) / tp"
        gates = [Gemm("Kimi Delta Attention decay and gate", formula, count=1.0, m=c.tokens, k=s.head_dim, n=up)]
        return gates if any_of(up) else []

    def small_parameters(self, c: Context) -> Array:
        """Return the convolution, decay and gate up, a decay of each head, its bias of each channel, and the norm."""
        s = sizes(c)
        up = s.head_dim * _up(c)
        return convolution_parameters(c, self.convolved(c), 0.0) + up + s.heads + s.keys + s.head_dim

    def kept_numbers(self, c: Context) -> Array:
        """Return what Gated DeltaNet keeps, with decays of each channel in 32 bit, and the gate."""
        s, up = sizes(c), _up(c)
        return super().kept_numbers(c) + FP32_NUMBERS * s.keys + up


def _full(c: Context) -> tuple[Array, Array]:
    """Return 1 where decay and output gate are projected at once, of full rank."""
    return KdaGates.look_up("decay", c.t.kda_gates), KdaGates.look_up("output", c.t.kda_gates)


def _up(c: Context) -> Array:
    """Return the columns of decay and gate that come of a low rank."""
    s, (decay, gate) = sizes(c), _full(c)
    return to_float((1 - decay) * s.keys + (1 - gate) * s.inner)


class LightningAttention(StateMixer):
    """Lightning attention (MiniMax-01, arXiv:2501.08313): linear attention with a fixed decay, and a gate."""

    name = "lightning attention"
    decode_flops = 5.0

    def projected(self, c: Context) -> Array:
        """Return the columns of queries, keys, values and gate."""
        s = sizes(c)
        return 2 * s.keys + 2 * s.inner

    def convolved(self, c: Context) -> Array:
        """Return none."""
        return to_float(0.0)

    def scan(self, c: Context) -> FusedProducts:
        """Return scores within chunks and states between them; queries, keys and values are read for both."""
        s, chunk = sizes(c), to_float(c.t.ssm_chunk)
        flops = ssd_flops(c.tokens, s.heads, s.head_dim, s.groups, s.dim, chunk)
        moved = c.tokens * (to_float(c.formats.activation) * (4 * s.keys + 3 * s.inner) + 8 * s.state / chunk)
        return chunked_scan("lightning attention scan", "2 T n_h (Q N + Q d + 2 N d) / tp", flops, moved)

    def small_parameters(self, c: Context) -> Array:
        """Return the norm of what comes out of all heads."""
        return sizes(c).inner

    def kept_numbers(self, c: Context) -> Array:
        """Return what is projected before and after its nonlinearity, and what scan, norm and gate make."""
        s = sizes(c)
        return 2 * self.projected(c) + 2 * s.inner

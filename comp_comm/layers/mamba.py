"""Mamba: state spaces whose parameters depend on the input (arXiv:2312.00752), and their dual form (2405.21060)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from comp_comm.formulas.arrays import Array, Numeric, maximum, to_float
from comp_comm.formulas.state_space import selective_scan_flops, ssd_flops
from comp_comm.group import Group
from comp_comm.layers.state_mixer import StateMixer, chunked_scan, convolution_parameters, sizes
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Collective, Gemm, Operation

# Bytes of a number of a chunk's states and of its scores: written in 32 bit, read, passed on in 16 bit, read again.
STATE_PASSES, SCORE_PASSES = 12.0, 8.0
# A selective scan takes as long as if each number of the state were moved once, in 32 bit: with N = 16 it is as fast as
# FlashAttention-2 at about 2K tokens on an A100 (arXiv:2312.00752, figure 8), and linear in N (arXiv:2405.21060,
# figure 10).
SCANNED = 4.0


class Mamba2(StateMixer):
    """Mamba-2: heads with a state each; B and C are of a group of heads."""

    name = "Mamba-2"
    decode_flops = 5.0  # the state decays, takes B x in, and is read by C

    def projected(self, c: Context) -> Array:
        """Return the columns of gate, input, B, C and time step."""
        s = sizes(c)
        return 2 * s.inner + 2 * s.keys + s.heads

    def convolved(self, c: Context) -> Array:
        """Return the channels of input, B and C."""
        s = sizes(c)
        return s.inner + 2 * s.keys

    def scan(self, c: Context) -> FusedProducts:
        """Return the scan in chunks (`comp_comm.formulas.state_space.ssd_flops`)."""
        s, chunk = sizes(c), to_float(c.t.ssm_chunk)
        flops = ssd_flops(c.tokens, s.heads, s.head_dim, s.groups, s.dim, chunk)
        numbers = to_float(c.formats.activation) * (2 * s.inner + 2 * s.keys + s.heads)
        moved = c.tokens * (numbers + STATE_PASSES * s.state / chunk + SCORE_PASSES * chunk * s.groups)
        return chunked_scan("Mamba-2 scan", "2 T (Q N g + Q d n_h + 2 N d n_h) / tp", flops, moved)

    def small_parameters(self, c: Context) -> Array:
        """Return the convolution with its bias, decay, skip and bias of the time step of each head, and the norm."""
        s = sizes(c)
        return convolution_parameters(c, self.convolved(c), 1.0) + 3 * s.heads + to_float(c.t.ssm_norm) * s.inner

    def kept_numbers(self, c: Context) -> Array:
        """Return what is projected, what the scan and the norm make: convolution and states are recomputed."""
        return self.projected(c) + 2 * sizes(c).inner


class Mamba2BesideAttention(Mamba2):
    """Mamba-2 on the input of the attention beside it (Falcon-H1): both outputs are summed, and reduced once."""

    residual: ClassVar[bool] = False

    def splits(self, c: Context) -> Numeric:
        """Return none: attention gathers the input and reduces the sum."""
        return 0.0


class Mamba1(StateMixer):
    """Mamba-1: every channel has a state, of parameters that are projected from all channels of its group.

    There is one group but in Zamba, whose heads of channels have parameters of their own (``ssm_groups``).
    """

    name = "Mamba-1"
    decode_flops = 5.0

    def projected(self, c: Context) -> Array:
        """Return the columns of input and gate."""
        return 2 * sizes(c).inner

    def convolved(self, c: Context) -> Array:
        """Return the channels of the input."""
        return sizes(c).inner

    def more_projections(self, c: Context) -> Sequence[Operation]:
        """Return the projections of the channels to time step, B and C, and of the time step to each channel."""
        s, rank = sizes(c), to_float(c.t.ssm_dt_rank)
        each, made = s.inner / s.groups, rank + 2 * s.dim
        return [
            Gemm("Mamba-1 parameters", "2 T (d / tp) (r + 2 N)", 1.0, m=c.tokens, k=each, n=made, groups=s.groups),
            Gemm("Mamba-1 time step", "2 T r d / tp", 1.0, m=c.tokens, k=rank, n=each, groups=s.groups),
        ]

    def scan(self, c: Context) -> FusedProducts:
        """Return the scan, which is element by element: bound by what it moves."""
        s = sizes(c)
        flops = selective_scan_flops(c.tokens, s.inner, s.dim)
        moved = c.tokens * s.inner * (4 * to_float(c.formats.activation) + SCANNED * s.dim)
        return FusedProducts(
            "Mamba-1 scan",
            "9 T d N / tp",
            count=1.0,
            flops=flops,
            backward_flops=2 * flops,
            forward_bytes=moved,
            backward_bytes=2 * moved,
        )

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return context parallelism's, and TP's sum of the parameters that every channel of a group has a part in."""
        members = maximum(to_float(c.layout.tp) / c.t.ssm_groups, 1.0)
        many = to_float(members > 1)
        message = c.tokens * (to_float(c.t.ssm_dt_rank) + 2 * to_float(c.t.ssm_state)) * c.formats.comm
        summed = [
            Collective(
                "Mamba-1 parameters all-reduce",
                "T (r + 2 N)",
                count=many,
                kind="all_reduce",
                parallelism="tp",
                message_bytes=message,
                backward_count=many,
                group=Group(members, c.tp_group.stride),
            )
        ]
        return [*super().collectives(c), *(summed if any_of(many) else [])]

    def small_parameters(self, c: Context) -> Array:
        """Return the convolution, the projections of the channels, decays, skips, and norms of what is projected."""
        s, rank = sizes(c), to_float(c.t.ssm_dt_rank)
        made = rank + 2 * s.dim
        projections = s.inner * made + (rank + 1) * s.inner
        scanned = s.inner * (s.dim + 1)
        return convolution_parameters(c, s.inner, 1.0) + projections + scanned + to_float(c.t.ssm_norm) * made

    def kept_numbers(self, c: Context) -> Array:
        """Return input and gate, the convolved input, time step, B and C, and what the scan and the gate make."""
        s = sizes(c)
        return self.projected(c) + 4 * s.inner + s.groups * (to_float(c.t.ssm_dt_rank) + 2 * s.dim)

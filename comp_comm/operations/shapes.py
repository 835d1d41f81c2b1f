"""Operations as shapes; FLOP and bytes of memory derive from them.

``count`` is how often a layer (or what is beside the layers) does it in a forward pass of a micro-batch, on one device.
Counts and shapes broadcast; a count is 0 where a point of a sweep has no such operation.
"""

from __future__ import annotations

from comp_comm.dispatchers import Dispatcher
from comp_comm.formulas import collectives
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.dispatch import remote_copies
from comp_comm.formulas.gemm import gemm_flops
from comp_comm.formulas.kernels import padded_rows
from comp_comm.group import Group
from comp_comm.structs import struct


@struct
class Operation:
    """What every operation has: its name, its work as a formula for people, and how often it is done."""

    name: str
    formula: str
    count: Numeric


@struct
class Gemm(Operation):
    """``groups`` matrix products of (m x k) by (k x n): m tokens, k inputs, n outputs.

    ``matrices`` are those side by side in n that PyTorch's own modules multiply one after the other.
    ``sixteen_bit`` is 1 where it stays in 16 bits whatever the recipe, ``grouped`` says that its products have rows of
    their own (experts), which one kernel makes. ``casts`` are the kernels that quantise one of its operands;
    ``trained`` is 0 where its weights are frozen: they have no gradient.
    """

    m: Numeric
    k: Numeric
    n: Numeric
    groups: Numeric = 1
    matrices: Numeric = 1
    sixteen_bit: Numeric = 0
    grouped: bool = False
    casts: Numeric = 1
    trained: Numeric = 1

    @property
    def flops(self) -> Array:
        """FLOP of the forward pass; the backward pass does this twice."""
        return gemm_flops(self.m, self.n, self.k, self.groups)

    @property
    def padded_flops(self) -> Array:
        """FLOP of the tiles that the forward pass is made in; those for the input's gradient have the same rows."""
        return gemm_flops(padded_rows(self.m), self.n, self.k, self.groups)

    @property
    def weights(self) -> Array:
        """Weights of all products."""
        return to_float(self.groups) * self.k * self.n

    def moved(self, operand: Numeric, output: Numeric) -> Array:
        """Return the bytes of memory the forward pass reads and writes."""
        weights = to_float(self.k) * self.n
        return self.groups * (operand * (to_float(self.m) * self.k + weights) + output * to_float(self.m) * self.n)

    def moved_for_weights(self, operand: Numeric, gradient: Numeric) -> Array:
        """Return the bytes the weight gradient reads and writes; it is added to what is there."""
        tokens = to_float(self.m) * (to_float(self.k) + self.n)
        return self.groups * (operand * tokens + 2.0 * gradient * to_float(self.k) * self.n)


@struct
class Attention(Operation):
    """Softmax(Q K^T) V of ``sequences`` sequences and ``heads`` heads on this device.

    ``queries`` tokens of a sequence ask here (its share under context parallelism), ``keys`` are there in all, and
    each query sees ``seen`` of them on average; dimensions are those of a head. ``key_heads`` are the heads of keys
    and values on this device, as many as those of queries unless given. Where they are those of a window, a query
    would see ``unwindowed`` keys on average without one. ``prepared`` is 1 where queries and keys of whole heads are
    made ready before: rotated, and keys and values written to where the kernel reads them (not the latent of MLA).
    """

    sequences: Numeric
    heads: Numeric
    queries: Numeric
    keys: Numeric
    seen: Numeric
    key_dim: Numeric
    value_dim: Numeric
    key_heads: Numeric | None = None
    unwindowed: Numeric | None = None
    prepared: Numeric = 0.0

    @property
    def scores(self) -> Array:
        """Scores of the forward pass, those a mask hides among them."""
        return to_float(self.sequences) * self.heads * self.queries * self.keys

    @property
    def flops(self) -> Array:
        """FLOP of the forward pass over all scores, as model FLOP are counted; the backward pass does it twice."""
        return 2.0 * self.scores * (to_float(self.key_dim) + self.value_dim)

    @property
    def seen_flops(self) -> Array:
        """FLOP of the forward pass over the scores a mask leaves."""
        seen = to_float(self.sequences) * self.heads * self.queries * self.seen
        return 2.0 * seen * (to_float(self.key_dim) + self.value_dim)

    def moved(self, activation: Numeric) -> Array:
        """Return the bytes a fused kernel reads and writes: Q, K, V and the output."""
        key_heads = self.heads if self.key_heads is None else self.key_heads
        dims = to_float(self.key_dim) + self.value_dim
        rows = to_float(self.heads) * self.queries + to_float(key_heads) * self.keys
        return activation * dims * (self.sequences * rows)

    @property
    def rows(self) -> Array:
        """Queries of all heads."""
        return to_float(self.sequences) * self.heads * self.queries

    def moved_before(self, read: Numeric, written: Numeric) -> Array:
        """Return the bytes that making queries, keys and values ready moves: each number is read and written once."""
        key_heads = self.heads if self.key_heads is None else self.key_heads
        numbers = to_float(self.heads) * self.key_dim + key_heads * (to_float(self.key_dim) + self.value_dim)
        return (to_float(read) + written) * (to_float(self.sequences) * self.queries) * numbers


@struct
class Elementwise(Operation):
    """Work bound by memory: the bytes it reads and writes, forward and backward."""

    forward_bytes: Numeric
    backward_bytes: Numeric
    factor: Numeric = 1.0


@struct
class Collective(Operation):
    """A collective (or a send) of a parallel group: ``message_bytes`` as nccl-tests counts.

    ``parallelism`` is the group that it is reported under, ``group`` the devices that take part: the gather behind a
    stage's boundary is TP's devices, and is reported under ``pp``. ``count`` are calls of the forward pass,
    ``backward_count`` those of the backward pass: in each layer, of what layers send; in a step, of what it sends once.
    """

    kind: str
    parallelism: str
    message_bytes: Numeric
    backward_count: Numeric
    group: Group

    @property
    def wire_bytes(self) -> Array:
        """What a device sends in one call: of rings, direct exchanges and sends."""
        if self.kind == "send":
            return collectives.point_to_point_wire_bytes(self.message_bytes)
        return WIRE_BYTES[self.kind](self.message_bytes, self.group.size)

    @property
    def volume_bytes(self) -> Array:
        """The volume of one call: twice the message for an all-reduce."""
        if self.kind == "all_reduce":
            return collectives.all_reduce_volume_bytes(self.message_bytes)
        return to_float(self.message_bytes)


@struct
class SequenceGather(Collective):
    """A gather of the sequence; ``overlapped_count`` backward calls run beside the GEMM of the input's gradient."""

    overlapped_count: Numeric


@struct
class TokenExchange(Collective):
    """Tokens of a device on their way to experts (dispatch), or back (combine).

    ``all_tokens_bytes`` are those of all its tokens once, ``token_bytes`` those of one. Of a token's ``top_k`` copies,
    one for each expert, a ``dispatcher`` may send one to each node and device that has any of them. No token goes to
    more than ``node_limit`` nodes, nor to others than have some of its ``group_top_k`` groups of ``expert_groups``.
    ``sms`` are multiprocessors that its kernels take. The fullest device of the group gets ``imbalance`` times the
    mean. ``to_experts`` says dispatch (of tokens forward, of gradients backward). ``router_bytes`` go with each copy
    for every device of its domain: the router's weights.
    """

    dispatcher: Dispatcher
    all_tokens_bytes: Numeric
    token_bytes: Numeric
    top_k: Numeric
    node_limit: Numeric
    sms: Numeric
    imbalance: Numeric
    to_experts: bool
    expert_groups: Numeric = 1
    group_top_k: Numeric = 1
    router_bytes: Numeric = 0.0

    def copy_bytes(self, local: Numeric) -> Array:
        """Return the bytes of all tokens once, with what goes beside them to a domain of ``local`` devices."""
        return to_float(self.all_tokens_bytes) * (1 + to_float(self.router_bytes) * local / self.token_bytes)

    @property
    def once(self) -> bool:
        """Whether a token is sent once to each place that needs it."""
        return self.dispatcher.once > 0

    @property
    def wire_bytes(self) -> Array:
        """What a device sends in one call: where it depends on the network, to other devices, whichever way."""
        if not self.once:
            return super().wire_bytes
        return to_float(self.all_tokens_bytes) * remote_copies(self.group.size, self.top_k)


WIRE_BYTES = {
    "all_reduce": collectives.all_reduce_wire_bytes,
    "all_gather": collectives.all_gather_wire_bytes,
    "reduce_scatter": collectives.reduce_scatter_wire_bytes,
    "all_to_all": collectives.all_to_all_wire_bytes,
}

"""What context parallelism exchanges for a block of attention."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.choices import ContextComm
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective


def exchanges(c: Context, key_tokens: Array, prefix: str = "") -> Sequence[Collective]:
    """Return the exchange of keys and values of ``key_tokens`` tokens a device.

    Keys and values go round a ring, are gathered (Llama 3), or heads are swapped for tokens (Ulysses). Round the ring,
    gradients of keys and values travel with them backward, so twice the bytes; a gather's gradients are scattered back.
    """
    cp, way = to_float(c.layout.cp), c.layout.cp_comm
    if not any_of(cp - 1):
        return []
    many = to_float(cp > 1)
    ring, gather, swap = (many * option.where(way) for option in ContextComm)
    exchanged: list[Collective] = []
    pair = key_tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim) * c.formats.comm
    if any_of(ring):
        steps = ring * (cp - 1)
        exchanged.append(_collective(c, f"pass {prefix}keys and values", "send", pair, steps, 2 * steps))
    if any_of(gather):
        gathered = pair * cp
        exchanged += [
            _collective(c, f"gather {prefix}keys and values", "all_gather", gathered, gather, gather),
            _collective(c, f"scatter their {prefix}gradients", "reduce_scatter", gathered, 0.0 * gather, gather),
        ]
    if any_of(swap):
        queries, keys = c.tokens * c.formats.comm, key_tokens * c.formats.comm
        tensors = {"Q": queries * c.heads * c.key_dim, "K": keys * c.kv_heads * c.key_dim,
                   "V": keys * c.kv_heads * c.t.v_head_dim, "output": queries * c.heads * c.t.v_head_dim}  # fmt: skip
        exchanged += [_collective(c, f"swap {prefix}{name}", "all_to_all", size, swap, swap)
                      for name, size in tensors.items()]  # fmt: skip
    return exchanged


FORMULAS = {"send": "T kv (d + d_v) / tp", "all_gather": "s b kv (d + d_v) / tp",
            "reduce_scatter": "s b kv (d + d_v) / tp", "all_to_all": "T a d / tp"}  # fmt: skip


def _collective(c: Context, name: str, kind: str, size: Array, forward: Array, backward: Array) -> Collective:
    return Collective(name, FORMULAS[kind], forward, kind, "cp", size, backward, c.cp_group)

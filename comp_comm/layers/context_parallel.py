"""What context parallelism exchanges for a block of attention."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.choices import ContextComm, ContextImplementation
from comp_comm.formulas.arrays import Array, somewhere, to_float
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective

FP32 = 4.0


def exchanges(c: Context, key_tokens: Array, prefix: str = "") -> Sequence[Collective]:
    """Return the exchange of keys and values of ``key_tokens`` tokens a device.

    Keys and values go round a ring, are gathered (Llama 3), or heads are swapped for tokens (Ulysses). Round the ring,
    gradients of keys and values travel with them backward, so twice the bytes; a gather's gradients are scattered back.
    `ContextImplementation` has what implementations do otherwise.
    """
    cp, way, whose = to_float(c.layout.cp), c.layout.cp_comm, c.layout.cp_implementation
    if not any_of(cp - 1):
        return []
    many = to_float(cp > 1)
    ring, gather, swap = (many * option.where(way) for option in ContextComm)
    messages, again, wide = (ContextImplementation.look_up(name, whose) for name in ("messages", "again", "wide"))
    exchanged: list[Collective] = []
    numbers = key_tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim)
    pair = numbers * c.formats.comm
    if any_of(ring):
        steps = ring * (cp - 1)
        exchanged.append(_collective(c, f"pass {prefix}keys and values", "send", pair, steps, (2 - wide) * steps))
    if any_of(gather):
        gathered, times = pair * cp / messages, gather * messages
        exchanged += [
            _collective(c, f"gather {prefix}keys and values", "all_gather", gathered, times, again * times),
            _collective(c, f"scatter their {prefix}gradients", "reduce_scatter", gathered, 0.0 * gather,
                        (1 - wide) * times),
        ]  # fmt: skip
    if any_of(apart := wide * (ring + gather)):
        sends = apart * cp
        exchanged.append(_collective(c, f"pass {prefix}gradients", "send", FP32 * numbers, 0.0 * sends, sends))
    if any_of(swap):
        queries, keys = c.tokens * c.formats.comm, key_tokens * c.formats.comm
        tensors = {"Q": queries * c.heads * c.key_dim, "K": keys * c.kv_heads * c.key_dim,
                   "V": keys * c.kv_heads * c.t.v_head_dim, "output": queries * c.heads * c.t.v_head_dim}  # fmt: skip
        exchanged += [_collective(c, f"swap {prefix}{name}", "all_to_all", size, swap, swap)
                      for name, size in tensors.items()]  # fmt: skip
    return exchanged


def saved_gathered_keys(c: Context, key_tokens: Array) -> Array:
    """Return the bytes of others' keys and values that attention keeps, where they are gathered once."""
    kept = ContextComm.ALL_GATHER.where(c.layout.cp_comm) & ContextImplementation.FLEX.where(c.layout.cp_implementation)
    if not somewhere(kept):
        return to_float(0.0)
    numbers = key_tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim)
    return to_float(kept * (to_float(c.layout.cp) - 1) * numbers * c.formats.activation)


FORMULAS = {"send": "T kv (d + d_v) / tp", "all_gather": "s b kv (d + d_v) / tp",
            "reduce_scatter": "s b kv (d + d_v) / tp", "all_to_all": "T a d / tp"}  # fmt: skip


def _collective(c: Context, name: str, kind: str, size: Array, forward: Array, backward: Array) -> Collective:
    return Collective(
        name,
        FORMULAS[kind],
        count=forward,
        kind=kind,
        parallelism="cp",
        message_bytes=size,
        backward_count=backward,
        group=c.cp_group,
    )


STATE_BYTES = 4.0  # of a number of a state: 32 bit


def state_exchanges(c: Context, state: Array, channels: Array, outputs: Array, before: Array) -> Sequence[Collective]:
    """Return the exchange of a mixer that carries a state of so many numbers along the sequence.

    The state is handed on from piece to piece of the sequence (LASP, arXiv:2404.02882), as the ring goes: each device
    has a piece from the front and one from the back, so 2 (cp - 1) times; or all pieces' states are gathered (LASP-2,
    arXiv:2502.07563); or ``channels`` are swapped for tokens, and ``outputs`` back (Megatron-LM's Mamba). A
    convolution needs the ``before`` last numbers of the piece before it.
    """
    cp, way = to_float(c.layout.cp), c.layout.cp_comm
    if not any_of(cp - 1):
        return []
    many = to_float(cp > 1)
    ring, gather, swap = (many * option.where(way) for option in ContextComm)
    batch = to_float(c.layout.micro_batch)
    states, formula = STATE_BYTES * batch * state, "4 B b n_h d N / tp"

    def exchanged(name: str, formula: str, kind: str, size: Array, times: Array) -> Collective:
        return Collective(
            name,
            formula,
            count=times,
            kind=kind,
            parallelism="cp",
            message_bytes=size,
            backward_count=times,
            group=c.cp_group,
        )

    rows = [
        exchanged("pass states", formula, "send", states, ring * 2 * (cp - 1)),
        exchanged("gather states", "2 cp 4 B b n_h d N / tp", "all_gather", 2 * cp * states, gather),
        exchanged("pass the convolution's inputs", "b (w - 1) channels", "send", batch * before * c.formats.comm,
                  2 * (ring + gather) * to_float(before > 0)),
        exchanged("swap channels for tokens", "T channels / tp", "all_to_all", c.tokens * channels * c.formats.comm,
                  swap),
        exchanged("swap tokens for channels", "T n_h d / tp", "all_to_all", c.tokens * outputs * c.formats.comm, swap),
    ]  # fmt: skip
    return [each for each in rows if any_of(each.count)]

"""What collectives and sends of activations need beside their operands."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import ContextComm, ContextImplementation, Switch
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, somewhere, to_float
from comp_comm.layers.context_parallel import FP32
from comp_comm.operations.context import Context
from comp_comm.sharding import ZeroImplementation


def stage_outputs(work: Work, in_flight: Array) -> Array:
    """Return bytes of a stage's outputs for the micro-batches it holds, where they wait for the backward pass.

    DeepSpeed's pipeline keeps them (its `pipe_buffers`); Megatron-LM frees them when they are sent.
    """
    c, layout = work.context, work.layout
    kept = ZeroImplementation.DEEPSPEED.where(layout.zero_implementation) & (to_float(layout.pp) > 1)
    return kept * in_flight * c.split_tokens * c.t.hidden * c.formats.activation if somewhere(kept) else to_float(0.0)


def message_buffers(work: Work) -> Array:
    """Return bytes of a stage that has layers.

    The gathered sequence; keys and values on their way round (twice); activations received from the next stages.
    """
    c, layout = work.context, work.layout
    message = c.split_tokens * c.t.hidden * c.formats.comm
    buffers = 2.0 * message * (to_float(layout.pp) > 1)
    if somewhere(Switch.ON.where(layout.sp)):
        buffers = buffers + to_float(layout.sp) * c.tokens * c.t.hidden * c.formats.comm
    return buffers + context_buffers(c) if somewhere(to_float(layout.cp) > 1) else buffers


def context_buffers(c: Context) -> Array:
    """Return bytes of keys and values of other devices, and of their gradients, while attention is at work.

    Round a ring one pair is computed with while the next one comes; gradients in 32 bit come beside. What is gathered
    is whole, and so are its gradients before they are scattered; keys that are kept are counted there.
    """
    layout = c.layout
    cp, whose = to_float(layout.cp), layout.cp_implementation
    numbers = c.tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim)
    size, wide = to_float(c.formats.comm), ContextImplementation.look_up("wide", whose)
    gathered = cp * size * (2.0 - ContextImplementation.FLEX.where(whose) - wide)
    passed = np.where(ContextComm.ALL_GATHER.where(layout.cp_comm), gathered, 2.0 * size) + 2.0 * FP32 * wide
    return to_float(numbers * passed * (cp > 1))

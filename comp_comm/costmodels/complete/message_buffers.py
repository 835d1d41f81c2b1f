"""What collectives and sends of activations need beside their operands."""

from __future__ import annotations

from comp_comm.choices import Switch
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, somewhere, to_float
from comp_comm.sharding import ZeroImplementation


def stage_outputs(work: Work, held: Array) -> Array:
    """Return bytes of a stage's outputs for the micro-batches it holds, where they wait for the backward pass.

    DeepSpeed's pipeline keeps them (its `pipe_buffers`); Megatron-LM frees them when they are sent.
    """
    c, layout = work.context, work.layout
    kept = ZeroImplementation.DEEPSPEED.where(layout.zero_implementation) & (to_float(layout.pp) > 1)
    return kept * held * c.split_tokens * c.t.hidden * c.formats.activation if somewhere(kept) else to_float(0.0)


def message_buffers(work: Work) -> Array:
    """Return bytes of a stage that has layers.

    The gathered sequence; keys and values on their way round (twice); activations received from the next stages.
    """
    c, layout = work.context, work.layout
    message = c.split_tokens * c.t.hidden * c.formats.comm
    buffers = 2.0 * message * (to_float(layout.pp) > 1)
    if somewhere(Switch.ON.where(layout.sp)):
        buffers = buffers + to_float(layout.sp) * c.tokens * c.t.hidden * c.formats.comm
    if somewhere(to_float(layout.cp) > 1):
        pair = c.tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim) * c.formats.comm
        buffers = buffers + 2.0 * pair * (to_float(layout.cp) > 1)
    return buffers

"""What collectives and sends of activations need beside their operands."""

from __future__ import annotations

from comp_comm.choices import Switch
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, somewhere, to_float


def message_buffers(work: Work) -> Array:
    """Return bytes of a stage that has layers.

    The gathered sequence; keys and values on their way round (twice); activations received from the next stages.
    """
    c, layout = work.context, work.layout
    message = c.split_tokens * c.t.hidden * c.formats.comm
    buffers = 2.0 * message * (to_float(layout.pp) > 1)
    if Switch.ON.where(layout.sp).any():
        buffers = buffers + to_float(layout.sp) * c.tokens * c.t.hidden * c.formats.comm
    if somewhere(to_float(layout.cp) > 1):
        pair = c.tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim) * c.formats.comm
        buffers = buffers + 2.0 * pair * (to_float(layout.cp) > 1)
    return buffers

"""What neighbouring stages of a pipeline send each other."""

from __future__ import annotations

from comp_comm.choices import Switch
from comp_comm.formulas.arrays import somewhere, to_float, where
from comp_comm.layers.attention_residual import sent_with
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective


def boundary_collectives(c: Context) -> list[Collective]:
    """Return the sends of a stage while its layers see a micro-batch: one after every chunk, forward and backward.

    Without sequence parallelism every device of a TP group has the whole message: each sends its part, and the parts
    are gathered on arrival (Megatron-LM's scatter-gather), unless ``scatter_gather`` is off. With attention residuals
    go what blocks of layers have made.
    """
    if not any_of(to_float(c.layout.pp) - 1):
        return []
    times = c.layout.boundaries
    message = c.split_tokens * c.t.hidden * c.formats.comm
    if any_of(c.t.attn_res_block):
        message = message * sent_with(c)
    scattered = (to_float(c.layout.sp) == 0) & (to_float(c.layout.tp) > 1) & Switch.ON.where(c.layout.scatter_gather)
    sent = where(scattered, message / c.layout.tp, message) if somewhere(scattered) else message
    sends = [
        Collective(
            "stage boundary",
            "b s H",
            count=times,
            kind="send",
            parallelism="pp",
            message_bytes=sent,
            backward_count=times,
            group=c.layout.group("pp"),
        )
    ]
    if somewhere(scattered):
        gathers = to_float(times * scattered)
        sends.append(
            Collective(
                "gather after a boundary",
                "b s H",
                count=gathers,
                kind="all_gather",
                parallelism="pp",
                message_bytes=message,
                backward_count=gathers,
                group=c.tp_group,
            )
        )
    return sends

"""What a training step does: operations with their shapes and counts. No seconds, no hardware.

An operation is one kernel, or one call of a collective, of one device; FLOP, bytes of memory and bytes on the wire
follow from its shape. ``count`` is how often a forward pass of one micro-batch does it.

Examples
--------
The QKV projection of Llama 3 8B at TP 4, for a micro-batch of 8192 tokens (m), and the all-gather before it that
sequence parallelism needs, of the whole sequence in bf16:

>>> from comp_comm.group import Group
>>> gemm = Gemm("QKV projection", "2 T H (a d + kv (d + d_v)) / tp", count=1, m=8192, k=4096, n=6144 / 4)
>>> f"{gemm.flops:.3g} FLOP, {gemm.weights:,.0f} weights"
'1.03e+11 FLOP, 6,291,456 weights'
>>> gather = Collective("layer all-gather", "b s H", count=1, kind="all_gather", parallelism="tp",
...                     message_bytes=2 * 8192 * 4096, backward_count=2, group=Group(4))
>>> f"{gather.wire_bytes:,.0f} of {gather.message_bytes:,} bytes are sent by each device"
'50,331,648 of 67,108,864 bytes are sent by each device'
"""

from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation

__all__ = ["Attention", "Collective", "Elementwise", "Gemm", "Operation"]

"""What a training step does: operations with their shapes, phases and counts. No seconds, no hardware."""

from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Message, Operation

__all__ = ["Attention", "Elementwise", "Gemm", "Message", "Operation"]

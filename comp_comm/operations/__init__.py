"""What a training step does: operations with their shapes and counts. No seconds, no hardware."""

from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation

__all__ = ["Attention", "Collective", "Elementwise", "Gemm", "Operation"]

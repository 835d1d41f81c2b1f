"""A whole training step under every parallelism, with memory."""

from comp_comm.costmodels.complete.model import MODEL

__all__ = ["MODEL"]

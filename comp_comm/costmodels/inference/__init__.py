"""Serving a transformer: prefill of a prompt, then decoding token by token with a KV cache."""

from comp_comm.costmodels.inference.model import MODEL

__all__ = ["MODEL"]

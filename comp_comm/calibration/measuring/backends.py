"""What runs the kernels: NumPy on the CPU, or PyTorch on a CPU or GPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from comp_comm.errors import ConfigError, MissingExtraError

Call = Callable[[], object]
STREAM_OPS = ("add", "gelu", "layernorm", "copy")


class Backend(Protocol):
    """Makes calls to time; ``dtype`` is the number format of what they work on."""

    name: str
    dtype: str

    def gemm(self, m: int, n: int, k: int) -> Call:
        """Return a product of (m x k) by (k x n)."""

    def stream(self, op: str, rows: int, columns: int) -> Call:
        """Return an element-wise kernel."""

    def attention(self, batch: int, tokens: int, heads: int, dim: int) -> Call | None:
        """Return causal attention, None where there is no fused kernel of it."""

    def settle(self) -> None:
        """Wait until everything that was called is done."""

    def scrub(self, size: float) -> Call:
        """Return what overwrites so many bytes, so that caches hold nothing else."""


class NumpyBackend:
    """NumPy, in fp32, on as many cores as its library takes."""

    name, dtype = "numpy", "fp32"

    def __init__(self) -> None:
        self._chance = np.random.default_rng(0)

    def _array(self, *shape: int) -> Any:
        return self._chance.random(shape, dtype=np.float32)

    def gemm(self, m: int, n: int, k: int) -> Call:
        """Return a product of (m x k) by (k x n)."""
        left, right, out = self._array(m, k), self._array(k, n), self._array(m, n)
        return lambda: np.matmul(left, right, out=out)

    def stream(self, op: str, rows: int, columns: int) -> Call:
        """Return an element-wise kernel; those that NumPy has in one pass, the others are left out by `streams`."""
        one, other, out = self._array(rows, columns), self._array(rows, columns), self._array(rows, columns)
        return {"add": lambda: np.add(one, other, out=out), "copy": lambda: np.copyto(out, one),
                "relu": lambda: np.maximum(one, 0.5, out=out)}[op]  # fmt: skip

    streams = ("add", "copy", "relu")

    def attention(self, batch: int, tokens: int, heads: int, dim: int) -> Call | None:
        """Return None: NumPy has no fused attention."""
        return None

    def settle(self) -> None:
        """Return at once: NumPy's calls are done when they return."""

    def scrub(self, size: float) -> Call:
        """Return what reads and overwrites so many bytes."""
        memory = np.zeros(int(size) // 4, np.float32)
        return lambda: np.add(memory, 1, out=memory)


class TorchBackend:
    """PyTorch, on the CPU or on a GPU (NVIDIA or AMD)."""

    name = "torch"
    streams = ("add", "gelu", "layernorm", "softmax", "copy")

    def __init__(self, device: str, dtype: str) -> None:
        self.torch = import_torch()
        if device != "cpu" and not self.torch.cuda.is_available():
            raise ConfigError(f"--device {device}: PyTorch finds no GPU here; --device cpu")
        self.device, self.dtype = device, dtype
        self._type = {"fp32": self.torch.float32, "fp16": self.torch.float16, "bf16": self.torch.bfloat16}[dtype]

    def _array(self, *shape: int) -> Any:
        return self.torch.rand(shape, device=self.device, dtype=self.torch.float32).to(self._type)

    def gemm(self, m: int, n: int, k: int) -> Call:
        """Return a product of (m x k) by (k x n)."""
        left, right = self._array(m, k), self._array(k, n)
        return lambda: self.torch.matmul(left, right)

    def stream(self, op: str, rows: int, columns: int) -> Call:
        """Return an element-wise kernel."""
        one, other = self._array(rows, columns), self._array(rows, columns)
        functional = self.torch.nn.functional
        return {"add": lambda: self.torch.add(one, other), "gelu": lambda: functional.gelu(one),
                "layernorm": lambda: functional.layer_norm(one, (columns,)),
                "softmax": lambda: functional.softmax(one, dim=-1), "copy": lambda: other.copy_(one)}[op]  # fmt: skip

    def attention(self, batch: int, tokens: int, heads: int, dim: int) -> Call | None:
        """Return causal attention by PyTorch's fused kernel, None before PyTorch 2."""
        fused = getattr(self.torch.nn.functional, "scaled_dot_product_attention", None)
        if fused is None:
            return None
        query, key, value = (self._array(batch, heads, tokens, dim) for _ in range(3))
        return lambda: fused(query, key, value, is_causal=True)

    def settle(self) -> None:
        """Wait for the GPU."""
        if self.device != "cpu":
            self.torch.cuda.synchronize(self.device)

    def scrub(self, size: float) -> Call:
        """Return what reads and overwrites so many bytes."""
        memory = self.torch.zeros(int(size) // 4, device=self.device)
        return lambda: memory.add_(1)


def import_torch() -> ModuleType:
    """Return PyTorch. Raises ``MissingExtraError`` with what to install."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingExtraError("measuring with PyTorch", "measure") from None

"""What a part of a layer that is made again costs the host, beside its kernels: PyTorch on this machine's CPU.

    python tests/reference/checkpoints.py    # a few seconds; close what else runs

It does what Megatron-core's CheckpointWithoutOutput does (`megatron/core/tensor_parallel/random.py`): takes the states
of random numbers, runs the part without gradients, frees its output's storage once that was read; and before the next
part's gradients sets those states, runs it again, gives the storage back, and goes backward within the backward pass.
Beside it the same kernels run without all that. What needs a GPU or Transformer Engine is left out.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

DEVICE = torch.Generator()  # stands for the generator of a GPU
TRACKED = {name: DEVICE.get_state() for name in ("model parallel", "expert parallel", "data parallel")}
CALLS, PAIRS = 1500, 15


def states() -> tuple[Any, ...]:
    return torch.get_rng_state(), DEVICE.get_state(), dict(TRACKED)


def restore(of_host: torch.Tensor, of_device: torch.Tensor, _: object) -> None:
    torch.set_rng_state(of_host)
    DEVICE.set_state(of_device)


@contextlib.contextmanager
def forked() -> Iterator[None]:
    now = states()
    try:
        yield
    finally:
        restore(*now)


class Run(torch.autograd.Function):
    """A part whose gradients are made from what ran again."""

    @staticmethod
    def forward(ctx, checkpoint, x):
        with torch.no_grad():
            made = checkpoint.part(x)
        ctx.save_for_backward(x.detach())
        checkpoint.ctx = ctx
        return made

    @staticmethod
    def backward(ctx, grad):
        torch.autograd.backward(ctx.again, (grad,))
        return None, ctx.input.grad


class Checkpoint:
    """A part whose output is freed, and made again."""

    def __init__(self, part: Callable[[torch.Tensor], torch.Tensor]):
        self.part = part

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.before = states()
        self.made = Run.apply(self, x)
        return self.made

    def free(self, reader: torch.Tensor) -> None:
        self.made.untyped_storage().resize_(0)
        reader.register_hook(self._recomputable)

    def _recomputable(self, _: torch.Tensor) -> None:
        with forked():
            restore(*self.before)
            with torch.enable_grad():
                self.ctx.input = self.ctx.saved_tensors[0].detach().requires_grad_()
                self.ctx.again = self.part(self.ctx.input)
        storage, made = self.made.untyped_storage(), self.ctx.again.untyped_storage()
        storage.resize_(made.nbytes())
        with torch.no_grad():
            storage.copy_(made)


def main() -> None:
    torch.set_num_threads(1)
    x, weight = (torch.randn(16, 16, requires_grad=True) for _ in range(2))
    ones = torch.ones(16, 16)

    def freed() -> torch.Tensor:
        checkpoint = Checkpoint(torch.clone)
        out = checkpoint(x) @ weight
        checkpoint.free(out)
        return out

    def twice() -> torch.Tensor:
        with torch.no_grad():
            torch.clone(x)
        return torch.clone(x) @ weight

    def microseconds(step: Callable[[], torch.Tensor]) -> float:
        begin = time.process_time()
        for _ in range(CALLS):
            step().backward(ones)
        return (time.process_time() - begin) / CALLS * 1e6

    pairs = [microseconds(freed) - microseconds(twice) for _ in range(1 + PAIRS)][1:]
    print(f"{statistics.median(pairs):.0f} us of the host for a part ({min(pairs):.0f} to {max(pairs):.0f})")


if __name__ == "__main__":
    main()

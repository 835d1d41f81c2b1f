"""Operations that are one kernel on a GPU, with what that kernel keeps for the backward pass."""

from __future__ import annotations

import torch
from torch.nn import functional


class FusedNorm(torch.autograd.Function):
    """RMS norm as one kernel, as PyTorch has it on a GPU: it keeps its input and a number a token."""

    @staticmethod
    def forward(ctx, x, weight):
        inverse = (x.float().square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        ctx.save_for_backward(x, weight, inverse)
        return (x.float() * inverse).type_as(x) * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight, inverse = ctx.saved_tensors
        normed, of_normed = x.float() * inverse, (grad * weight).float()
        of_x = inverse * (of_normed - normed * (of_normed * normed).mean(-1, keepdim=True))
        return of_x.type_as(x), (grad.float() * normed).sum(list(range(x.dim() - 1))).type_as(weight)


class FusedSwiGLU(torch.autograd.Function):
    """silu(gate) * up as one kernel, which keeps its two inputs."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        share = torch.sigmoid(gate)
        return grad * up * share * (1 + gate * (1 - share)), grad * functional.silu(gate)

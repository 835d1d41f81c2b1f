"""Transformers written out in PyTorch, by the dimensions that the catalogue has of them.

The modules are those that people write: one linear layer a projection, attention eager (for counting FLOP: scores are
a matrix) or by PyTorch's fused kernel, the gate of a network in two operations or in one. Nothing of compcomm is used
but the published dimensions, so that what is counted here does not follow from what is tested.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from fused import FusedNorm, FusedSwiGLU
from shapes import Shape
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


class FusedRMSNorm(nn.RMSNorm):
    """A norm of one kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FusedNorm.apply(x, self.weight)


class EagerRMSNorm(nn.RMSNorm):
    """A norm as transformers writes out Llama's: its weights are applied in 16 bit."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)


NORMS = {"fused": FusedRMSNorm, "eager": EagerRMSNorm, "eager_fp32": nn.RMSNorm}  # which has no kernel on a CPU


def norm_of(p: Shape, size: int) -> nn.Module:
    if p.norm == "rmsnorm":
        return NORMS[p.norm_kernel](size, eps=1e-5)
    return nn.LayerNorm(size, bias=p.norm == "layernorm")


def turns_of(size: int, tokens: torch.Tensor) -> torch.Tensor:
    """Return the turn of each pair of a head, complex, [tokens, 1, size / 2]."""
    frequencies = 1e4 ** -(torch.arange(0, size, 2, device=tokens.device) / size)
    angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device), frequencies)
    return torch.polar(torch.ones_like(angles), angles)[:, None]


def rotated(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn the pairs of each head, [batch, tokens, heads, size], in 32 bit."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def attended(p: Shape, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return causal attention of [batch, tokens, heads, size], heads together."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if p.scores:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        mask = torch.full((q.shape[2], q.shape[2]), float("-inf"), device=q.device, dtype=q.dtype).triu(1)
        mixed = torch.softmax(q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + mask, -1) @ v
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] != q.shape[1])
    return mixed.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Attention of grouped queries, its queries and keys normalised where the model says so."""

    def __init__(self, p: Shape):
        super().__init__()
        self.p = p
        wide, narrow = p.heads * p.head, p.keys * p.head
        self.widths = [wide, narrow, narrow]
        if p.recompute == "per_op":  # as torchtitan has it, whose policy counts one product
            self.qkv = nn.Linear(p.hidden, sum(self.widths), p.biased("qkv", "attention"))
        else:
            self.q = nn.Linear(p.hidden, wide, p.biased("qkv", "attention"))
            self.k = nn.Linear(p.hidden, narrow, p.biased("qkv", "attention"))
            self.v = nn.Linear(p.hidden, narrow, p.biased("qkv", "attention"))
        self.out = nn.Linear(wide, p.hidden, p.biased("attention", "not_qkv"))
        if p.qk_norm:
            each = p.qk_norm is True
            self.q_norm = norm_of(p, p.head if each else wide)
            self.k_norm = norm_of(p, p.head if each else narrow)

    def forward(self, x: torch.Tensor, turns: torch.Tensor | None) -> torch.Tensor:
        whole = self.p.recompute == "per_op"
        q, k, v = self.qkv(x).split(self.widths, -1) if whole else (self.q(x), self.k(x), self.v(x))
        if self.p.qk_norm == "whole":
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (y.unflatten(-1, (-1, self.p.head)) for y in (q, k, v))
        if self.p.qk_norm is True:
            q, k = self.q_norm(q), self.k_norm(k)
        if turns is not None:
            q, k = rotated(q, turns), rotated(k, turns)
        return self.out(attended(self.p, q, k, v))


class LatentAttention(nn.Module):
    """Multi-head latent attention: keys and values of all heads from one short vector a token (DeepSeek-V2)."""

    def __init__(self, p: Shape):
        super().__init__()
        self.p, turned = p, p.head + p.rope_head_dim
        if p.q_lora_rank:
            self.q_down = nn.Linear(p.hidden, p.q_lora_rank, bias=False)
            self.q_norm = norm_of(p, p.q_lora_rank)
        self.q_up = nn.Linear(p.q_lora_rank or p.hidden, p.heads * turned, bias=False)
        self.kv_down = nn.Linear(p.hidden, p.kv_lora_rank + p.rope_head_dim, bias=False)
        self.kv_norm = norm_of(p, p.kv_lora_rank)
        self.kv_up = nn.Linear(p.kv_lora_rank, p.heads * (p.head + p.v_head_dim), bias=False)
        self.out = nn.Linear(p.heads * p.v_head_dim, p.hidden, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        p = self.p
        queries = self.q_up(self.q_norm(self.q_down(x)) if p.q_lora_rank else x).unflatten(-1, (p.heads, -1))
        latent, shared = self.kv_down(x).split([p.kv_lora_rank, p.rope_head_dim], -1)
        k, v = self.kv_up(self.kv_norm(latent)).unflatten(-1, (p.heads, -1)).split([p.head, p.v_head_dim], -1)
        straight, turned = queries.split([p.head, p.rope_head_dim], -1)
        shared = rotated(shared.unsqueeze(2), turns).expand(*k.shape[:-1], -1)
        return self.out(attended(p, torch.cat([straight, rotated(turned, turns)], -1), torch.cat([k, shared], -1), v))


def nonlinear(p: Shape, x: torch.Tensor) -> torch.Tensor:
    """Return the nonlinearity of a network without a gate; GPT-2's as transformers writes it out."""
    if p.activation_function == "relu":
        return functional.relu(x)
    if p.activation_function == "gelu_new" and p.eager:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    return functional.gelu(x)


def gate(p: Shape, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return functional.silu(first) * second if p.eager else FusedSwiGLU.apply(first, second)


class FeedForward(nn.Module):
    """A dense network, gated or not."""

    def __init__(self, p: Shape, width: int):
        super().__init__()
        self.p = p
        self.up = nn.Linear(p.hidden, width, p.biased("ffn", "not_qkv"))
        self.down = nn.Linear(width, p.hidden, p.biased("ffn", "not_qkv"))
        if p.gated:
            self.gate = nn.Linear(p.hidden, width, p.biased("ffn", "not_qkv"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(gate(self.p, self.gate(x), self.up(x)) if self.p.gated else nonlinear(self.p, self.up(x)))


class Experts(nn.Module):
    """Experts that all get as many tokens, as a batch of matrix products, beside a network for all tokens."""

    def __init__(self, p: Shape):
        super().__init__()
        self.p, width = p, p.moe_ffn_hidden or p.ffn_hidden
        self.router = nn.Linear(p.hidden, p.experts, bias=False)
        if p.router_bias:  # what moves it is a count of tokens, no gradient
            self.register_buffer("router_bias", torch.empty(p.experts))
        self.up = nn.Parameter(torch.empty(p.experts, p.hidden, width))
        self.down = nn.Parameter(torch.empty(p.experts, width, p.hidden))
        if p.gated:
            self.gate = nn.Parameter(torch.empty(p.experts, p.hidden, width))
        if shared := p.shared_ffn_hidden or p.shared_experts * width:
            self.shared = FeedForward(p, shared)
            if p.extra == "gates of shared experts":
                self.shared_gate = nn.Linear(p.hidden, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p, flat = self.p, x.flatten(0, 1)
        weights, chosen = torch.softmax(self.router(flat).float(), -1).topk(p.top_k, -1)
        order = chosen.flatten().argsort(stable=True)  # whatever was chosen: each expert has an equal part of the order
        sent = flat[order // p.top_k].view(p.experts, -1, p.hidden)
        up = sent @ self.up
        made = (gate(p, sent @ self.gate, up) if p.gated else nonlinear(p, up)) @ self.down
        back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=x.device))
        mixed = (made.flatten(0, 1)[back].view(-1, p.top_k, p.hidden) * weights.type_as(x)[..., None]).sum(1)
        if not hasattr(self, "shared"):
            return mixed.view_as(x)
        shared = self.shared(x)
        return mixed.view_as(x) + (torch.sigmoid(self.shared_gate(x)) * shared if p.extra else shared)


class Layer(nn.Module):
    """Norms, a mixer and a network: one after the other or side by side."""

    def __init__(self, p: Shape, index: int):
        super().__init__()
        self.p = p
        self.attention_norm = norm_of(p, p.hidden)
        self.attention = LatentAttention(p) if p.kv_lora_rank else Attention(p)
        if p.norms > 1:
            self.network_norm = norm_of(p, p.hidden)
        sparse = p.experts and index >= p.dense_layers and (index + 1) % p.moe_every == 0
        self.network = Experts(p) if sparse else FeedForward(p, p.ffn_hidden or 4 * p.hidden)
        if p.norms == 4:
            self.attention_post, self.network_post = norm_of(p, p.hidden), norm_of(p, p.hidden)

    def forward(self, x: torch.Tensor, turns: torch.Tensor | None) -> torch.Tensor:
        after = (self.attention_post, self.network_post) if self.p.norms == 4 else (nn.Identity(), nn.Identity())
        normed = self.attention_norm(x)
        mixed = after[0](self.attention(normed, turns))
        if self.p.parallel_blocks:
            return x + mixed + self.network(self.network_norm(x) if self.p.norms > 1 else normed)
        x = x + mixed
        return x + after[1](self.network(self.network_norm(x)))


KEPT_BY_POLICY: list[Any] = []  # of each layer that ran, what no hook of autograd sees


def every_second_product() -> tuple[Any, Any]:
    """Return what keeps attention's output and every second matrix product of a layer, as torchtitan's policy does."""
    products = {True: 0, False: 0}

    def policy(ctx: Any, func: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if func is torch.ops.aten.mm.default:
            products[ctx.is_recompute] += 1
            kept = products[ctx.is_recompute] % 2 == 1
        else:
            kept = "scaled_dot_product" in func.name()
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = create_selective_checkpoint_contexts(policy)
    KEPT_BY_POLICY.append(contexts[0].storage)
    return contexts


class Decoder(nn.Module):
    """A model for causal language modelling, from tokens to logits."""

    def __init__(self, p: Shape):
        super().__init__()
        self.p = p
        self.embedding = nn.Embedding(p.vocab, p.hidden)
        if p.position == "learned":
            self.positions = nn.Embedding(p.max_positions, p.hidden)
        self.layers = nn.ModuleList(Layer(p, index) for index in range(p.layers))
        self.norm = norm_of(p, p.hidden)
        self.head = nn.Linear(p.hidden, p.vocab, bias=p.extra == "bias of the head")
        if p.extra == "norm of the embedding":
            self.embedding_norm = norm_of(p, p.hidden)
        if p.tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        if self.p.position == "learned":
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        if hasattr(self, "embedding_norm"):
            x = self.embedding_norm(x)
        turns = turns_of(self.p.rope_head_dim or self.p.head, tokens) if self.p.position == "rope" else None
        how = {"per_op": {"context_fn": every_second_product}, "full": {}}.get(self.p.recompute)
        for layer in self.layers:
            x = layer(x, turns) if how is None else checkpoint(layer, x, turns, use_reentrant=False, **how)
        return self.head(self.norm(x))


class Untouched(TorchFunctionMode):
    """Leaves numbers of new weights as they are: on no real device nobody reads them, and it takes minutes."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        drawn = getattr(func, "__name__", "") in ("normal_", "uniform_", "kaiming_uniform_", "fill_", "zero_")
        kwargs = kwargs or {}
        return (*args, *kwargs.values())[0] if drawn else func(*args, **kwargs)


def without_data(p: Shape) -> Decoder:
    """Return a model that is shapes alone."""
    with torch.device("meta"), Untouched():
        return Decoder(p)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy, in 32 bit, of all tokens."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

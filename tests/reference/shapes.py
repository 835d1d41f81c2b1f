"""The dimensions of a decoder, by the catalogue's names, and how it is computed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

ABOUT = ("name", "title", "year", "source", "aliases", "notes", "published_parameters", "parameters", "seq_len",
         "architecture", "window", "global_every", "router_groups", "router_group_topk", "mtp_layers")  # fmt: skip


class NotMadeError(Exception):
    """Something that is not written out here."""


@dataclass(frozen=True)
class Shape:
    """The dimensions of a decoder, by the catalogue's names and with its defaults; how it is computed beside.

    ``eager``: a gate is two operations; ``scores``: those of attention are a matrix.
    """

    hidden: int
    layers: int
    heads: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    ffn_hidden: int = 0
    gated: bool = False
    norm: str = "layernorm"
    norms: int = 2
    bias: bool | str = True
    position: str = "learned"
    max_positions: int = 0
    tied: bool = False
    qk_norm: bool | str = False
    parallel_blocks: bool = False
    dropout: bool = False
    experts: int = 0
    top_k: int = 1
    moe_ffn_hidden: int = 0
    moe_every: int = 1
    dense_layers: int = 0
    shared_experts: int = 0
    shared_ffn_hidden: int = 0
    router_bias: bool = False
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    v_head_dim: int = 0
    extra_parameters: int = 0
    activation_function: str = "gelu"
    eager: bool = True
    norm_kernel: str = "fused"
    scores: bool = False
    recompute: str = "off"

    @property
    def head(self) -> int:
        return self.head_dim or self.hidden // self.heads

    @property
    def keys(self) -> int:
        return self.kv_heads or self.heads

    def biased(self, *places: str) -> bool:
        return self.bias is True or self.bias in places

    @property
    def extra(self) -> str:
        """What the parameters are that no other dimension counts, by their number."""
        numbers = {0: "", 2 * self.hidden: "norm of the embedding", self.vocab: "bias of the head"}
        if self.shared_experts or self.shared_ffn_hidden:
            numbers[self.hidden * self.layers] = "gates of shared experts"
        if self.extra_parameters not in numbers:
            raise NotMadeError("extra_parameters")
        return numbers[self.extra_parameters]


def shape_of(model: dict[str, Any], **changed: Any) -> Shape:
    """Return the dimensions of a model of the catalogue. Raises ``NotMadeError`` where it has parts of other kinds."""
    if model.get("architecture", "decoder") != "decoder":
        raise NotMadeError(f"architecture {model['architecture']}")
    switches = {"on": True, "off": False}
    given = {name: switches.get(value, value) for name, value in {**model, **changed}.items() if name not in ABOUT}
    if unknown := given.keys() - {field.name for field in fields(Shape)}:
        raise NotMadeError(f"{', '.join(sorted(unknown))}")
    return Shape(**given)

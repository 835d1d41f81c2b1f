"""A model written out weight by weight, as a checkpoint would list it: what parameters and FLOP are checked against.

Nothing here is taken from the package: no averages over layers, no closed forms.
"""

from __future__ import annotations

import random
from math import prod
from typing import NamedTuple

QKV_BIAS, OUTPUT_BIAS, FFN_BIAS = ("qkv", "on", "attention"), ("on", "attention", "not_qkv"), ("on", "ffn", "not_qkv")


class Weight(NamedTuple):
    """A tensor: its shape, how often a token uses it, how it is split over devices, and which tokens meet it.

    ``used`` is 0 for what is no matrix product (norms, biases, a table that is looked up). ``split`` is what divides
    it: ``tp``, ``kv`` (TP, but no finer than a head), ``experts`` (EP and TP inside an expert), ``ep``, or nothing.
    """

    name: str
    shape: tuple[int, ...]
    used: float = 0
    split: str = ""
    tokens: str = "decoder"

    @property
    def size(self) -> int:
        return prod(self.shape)


def vector(name, size, split="", tokens="decoder"):
    return Weight(name, (size,), 0, split, tokens)


def norm(p, name, tokens="decoder"):
    """A layer norm is a weight and a bias."""
    bias = [vector(f"{name}.bias", p["hidden"])] if p.get("norm", "layernorm") == "layernorm" else []
    return [vector(f"{name}.weight", p["hidden"]), *bias]


def linear(name, inputs, outputs, bias=False, split="", tokens="decoder", used=1.0, of_bias=None):
    found = [Weight(f"{name}.weight", (inputs, outputs), used, split, tokens)]
    return found + ([vector(f"{name}.bias", outputs, split if of_bias is None else of_bias)] if bias else [])


def attention(p, where, tokens="decoder", keys=None):
    h, a, bias = p["hidden"], p["heads"], p.get("bias", "on")
    d = p.get("head_dim", h // a)
    dv, keys = p.get("v_head_dim", d), keys or tokens
    out = linear(f"{where}.o", a * dv, h, bias in OUTPUT_BIAS, "tp", tokens, of_bias="")
    if p.get("kv_lora_rank"):
        rank, rope, q_rank = p["kv_lora_rank"], p["rope_head_dim"], p.get("q_lora_rank", 0)
        queries = [*linear(f"{where}.q_a", h, q_rank), vector(f"{where}.q_norm", q_rank)] if q_rank else []
        queries += linear(f"{where}.q_b", q_rank or h, a * (d + rope), split="tp")
        latent = [*linear(f"{where}.kv_a", h, rank + rope), vector(f"{where}.kv_norm", rank)]
        return [*queries, *latent, *linear(f"{where}.kv_b", rank, a * (d + dv), split="tp"), *out]
    kv, qkv = p.get("kv_heads", a), bias in QKV_BIAS
    found = linear(f"{where}.q", h, a * d, qkv, "tp", tokens)
    found += linear(f"{where}.k", h, kv * d, qkv, "kv", keys) + linear(f"{where}.v", h, kv * dv, qkv, "kv", keys) + out
    if p.get("qk_norm") == "on":
        found += [vector(f"{where}.q_norm", d), vector(f"{where}.k_norm", d)]
    if p.get("qk_norm") == "whole":
        found += [vector(f"{where}.q_norm", a * d, "tp"), vector(f"{where}.k_norm", kv * d, "kv")]
    return found + ([vector(f"{where}.sinks", a, "tp")] if p.get("attention_sinks") == "on" else [])


def mlp(p, where, width, tokens="decoder", used=1.0, split="tp"):
    bias = p.get("bias", "on") in FFN_BIAS
    into = ("gate", "up") if p.get("gated") == "on" else ("up",)
    found = [w for name in into for w in linear(f"{where}.{name}", p["hidden"], width, bias, split, tokens, used)]
    down = linear(f"{where}.down", width, p["hidden"], bias, split, tokens, used, of_bias="" if split == "tp" else "ep")
    return found + down


def of_experts(weight):
    return weight.split in ("experts", "ep")


def is_moe(p, number):
    after = number - p.get("dense_layers", 0)
    return bool(p.get("experts")) and after >= 0 and (after + 1) % p.get("moe_every", 1) == 0


def feed_forward(p, where, number, tokens="decoder"):
    ffn = p.get("ffn_hidden", 4 * p["hidden"])
    if not is_moe(p, number):
        return mlp(p, where, ffn, tokens)
    experts, width = p["experts"], p.get("moe_ffn_hidden", ffn)
    found = linear(f"{where}.router", p["hidden"], experts, p.get("router_bias") == "on")
    for expert in range(experts):
        found += mlp(p, f"{where}.experts.{expert}", width, used=p["top_k"] / experts, split="experts")
    shared = p.get("shared_ffn_hidden", p.get("shared_experts", 0) * width)
    return found + (mlp(p, f"{where}.shared", shared) if shared else [])


def layer(p, number, where, tokens="decoder", cross=False):
    found = [*attention(p, f"{where}.attention", tokens), *feed_forward(p, f"{where}.ffn", number, tokens)]
    if cross:
        found += [*attention(p, f"{where}.cross", tokens, "encoder")]
        found += [w for i in range(p.get("norms", 2) // 2) for w in norm(p, f"{where}.cross_norm{i}")]
    return found + [w for i in range(p.get("norms", 2)) for w in norm(p, f"{where}.norm{i}")]


def layers_of(p):
    """Return the weights of every layer."""
    both = p.get("architecture") == "encoder-decoder"
    encoder = [layer(p, i, f"encoder.{i}", "encoder") for i in range(p["encoder_layers"])] if both else []
    return encoder + [layer(p, i, f"layers.{i}", cross=both) for i in range(p["layers"])]


def ends_of(p):
    """Return the weights beside the layers."""
    h, found = p["hidden"], []
    found += [Weight("embedding", (p["vocab"], h), 0, "tp")] if p["vocab"] else []
    if p.get("architecture") == "vit":
        found += [*linear("patches", p["patch_features"], h, bias=True)]
        found += linear("classes", h, p["classes"], bias=True, tokens="image")
    if p.get("position") == "learned":
        found += [Weight("positions", (p.get("max_positions", p["seq_len"]), h))]
    if p["vocab"]:
        head = linear("head", h, p["vocab"], split="tp")
        found += [Weight("head (tied)", (0,))] if p.get("tied") == "on" else head
    for where in ("encoder", "decoder")[p.get("architecture") != "encoder-decoder" :]:
        found += norm(p, f"final {where}")
    return found


def state_dict(p):
    """Return every weight of a model given by the fields of a study."""
    return [w for part in (*layers_of(p), ends_of(p)) for w in part]


def matrix_flops(p):
    """Return the FLOP of a training step of one sequence in products with weights: 2 forward, 4 backward."""
    tokens = {"decoder": p["seq_len"], "encoder": p.get("encoder_seq_len", p["seq_len"]), "image": 1}
    found = sum(6 * tokens[w.tokens] * w.size * w.used for w in state_dict(p))
    return found + (6 * p["seq_len"] * p["hidden"] * p["vocab"] if p.get("tied") == "on" else 0)


def seen(queries, keys, causal=False, window=None):
    """Count the scores a mask leaves, one by one."""
    return sum(min(q + 1 if causal else keys, window or keys) for q in range(queries))


def score_flops(p, causal=False):
    """Return the FLOP of a training step of one sequence in scores and weighted sums, all of them or those seen."""
    s, e = p["seq_len"], p.get("encoder_seq_len", p["seq_len"])
    d = p.get("head_dim", p["hidden"] // p["heads"])
    each = 6 * p["heads"] * (d + p.get("rope_head_dim", 0) + p.get("v_head_dim", d))
    masked = causal and p.get("architecture", "decoder") in ("decoder", "encoder-decoder")
    total = 0
    for number in range(p["layers"]):
        everywhere = bool(p.get("global_every")) and (number + 1) % p["global_every"] == 0
        window = None if everywhere else p.get("window")
        total += seen(s, s, masked, window) if masked or not window else s * min(window, s)
    if p.get("architecture") == "encoder-decoder":
        total += p["encoder_layers"] * e * e + p["layers"] * s * e
    return each * total


def random_model(seed):
    """Return a small model, its fields drawn at random."""
    chance = random.Random(seed)
    pick, flip = chance.choice, lambda share=0.5: chance.random() < share
    p = {"layers": pick((2, 4, 6)), "heads": pick((4, 8)), "hidden": 64 * pick((4, 8)),
         "seq_len": 8 * pick((8, 16, 32)), "vocab": pick((1000, 1024, 0)), "gated": pick(("on", "off")),
         "norm": pick(("rmsnorm", "layernorm")),
         "norms": pick((2, 4)), "tied": "off"}  # fmt: skip
    p["bias"] = pick(("off", "qkv", "on", "attention", "ffn", "not_qkv"))
    kind = pick(("decoder", "encoder", "encoder-decoder", "vit"))
    kind = "decoder" if flip() else kind
    p["architecture"] = kind
    if flip():
        p |= {"position": "learned", "max_positions": 512}
    if kind == "vit":
        p |= {"vocab": 0, "patch_features": 768, "classes": pick((0, 10))}
    if kind == "encoder-decoder":
        p |= {"encoder_layers": pick((2, 4)), "encoder_seq_len": 8 * pick((8, 16))}
    if p["vocab"] and flip():
        p["tied"] = "on"
    if kind == "decoder" and flip(0.4):
        p |= {"kv_lora_rank": 32, "rope_head_dim": 16, "q_lora_rank": pick((0, 48)), "bias": "off"}
    elif flip():
        p |= {"kv_heads": p["heads"] // 2, "head_dim": pick((32, 48))}
        if kind != "encoder-decoder":  # whose attention to the encoder has none of these
            p |= {"qk_norm": pick(("off", "on", "whole")), "attention_sinks": pick(("off", "on"))}
    if kind == "decoder" and flip():
        p |= {"experts": 8, "top_k": pick((1, 2)), "moe_ffn_hidden": 128, "shared_experts": pick((0, 1, 2)),
              "dense_layers": pick((0, 1)), "moe_every": pick((1, 2)), "router_bias": pick(("off", "on"))}  # fmt: skip
    if kind == "decoder" and flip(0.3):
        p |= {"window": p["seq_len"] // 4, "global_every": pick((2, 3))}
    return p

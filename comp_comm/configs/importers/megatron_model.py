"""The model in Megatron-LM's arguments."""

from __future__ import annotations

import ast
import re

from comp_comm.configs.importers.hf_parts import expert_layers
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.megatron_programs import BOTH, DECODER, ENCODER, architecture
from comp_comm.configs.importers.shell_scope import readable
from comp_comm.configs.importers.vocabularies import TOKENIZERS, vocabulary_of

MOST = 100_000  # layers that a pattern is read for
LONGEST = 20_000  # characters of a pattern
# Arguments that are a field's number as they are.
NUMBERS = {
    "--num-layers": "layers", "--encoder-num-layers": "layers", "--hidden-size": "hidden",
    "--num-attention-heads": "heads", "--ffn-hidden-size": "ffn_hidden", "--seq-length": "seq_len",
    "--encoder-seq-length": "seq_len", "--make-vocab-size-divisible-by": "vocab_multiple",
    "--vocab-size": "vocab", "--moe-router-topk": "top_k", "--moe-ffn-hidden-size": "moe_ffn_hidden",
    "--moe-expert-capacity-factor": "capacity_factor", "--kv-lora-rank": "kv_lora_rank",
    "--q-lora-rank": "q_lora_rank", "--mtp-num-layers": "mtp_layers", "--max-position-embeddings": "max_positions",
    "--num-query-groups": "kv_heads", "--num-key-value-heads": "kv_heads", "--kv-channels": "head_dim",
}  # fmt: skip
NEEDED = {
    "layers": ("--num-layers", "--encoder-num-layers"), "hidden": ("--hidden-size",),
    "heads": ("--num-attention-heads",), "seq_len": ("--seq-length", "--encoder-seq-length"),
}  # fmt: skip
POSITIONS = {"learned_absolute": "learned", "learned": "learned", "rope": "rope", "yarn": "rope", "mrope": "rope",
             "none": "none", "alibi": "none", "absolute": "learned", "rotary": "rope"}  # fmt: skip
NORMS = {"LayerNorm": "layernorm", "layernorm": "layernorm", "RMSNorm": "rmsnorm", "rmsnorm": "rmsnorm",
         "layernorm1p": "layernorm"}  # fmt: skip
HEADS_OF_LATENT = {
    "head_dim": ("--qk-head-dim", 128), "rope_head_dim": ("--qk-pos-emb-head-dim", 64),
    "v_head_dim": ("--v-head-dim", 128), "kv_lora_rank": ("--kv-lora-rank", 32), "q_lora_rank": ("--q-lora-rank", 0),
}  # fmt: skip


def read(keys: Keys, f: Findings, program: str, listed: int | None = None) -> None:
    """Set the fields of the model; ``program`` is the script that is started (pretrain_bert.py is an encoder).

    ``listed`` is how many layers a pattern lists.
    """
    for name, flags in NEEDED.items():
        if not keys.set(name, *flags, default=listed if name == "layers" else None):
            f.missing(f"'{flags[0]}' is missing", name)
    keys.set("ffn_hidden", "--ffn-hidden-size")
    _kind(keys, f, architecture(keys, f, program))
    _blocks(keys, f)
    _positions(keys, f)
    _attention(keys, f)
    _experts(keys, f)
    _vocabulary(keys, f)
    keys.set("mtp_layers", "--mtp-num-layers")
    rates = [keys.number(flag, default=0.1) or 0.0 for flag in ("--attention-dropout", "--hidden-dropout")]
    f.set("dropout", any(rate > 0 for rate in rates))


def _kind(keys: Keys, f: Findings, made: str) -> None:
    if made == ENCODER:
        f.set("architecture", "encoder")
        _add(f, 2 * f.count("hidden", 0))
        f.note("extra_parameters are BERT's two token types; its heads are not counted")
    if made == BOTH:
        f.set("architecture", "encoder-decoder")
        f.set("encoder_layers", f.fields.get("layers", 1))
        keys.set("layers", "--decoder-num-layers")
        f.set("encoder_seq_len", f.fields.get("seq_len", 1))
        keys.set("seq_len", "--decoder-seq-length")


def _add(f: Findings, count: int) -> None:
    """Count parameters that no other field does."""
    f.set("extra_parameters", f.count("extra_parameters", 0) + count)


def _blocks(keys: Keys, f: Findings) -> None:
    """Set norms, biases, and whether the feed-forward network is gated."""
    glu = keys.take("--glu-activation")
    f.set("gated", keys.some("--swiglu", "--quick-geglu", "--geglu", "--gated-linear-unit") or not is_off(glu))
    norm = keys.choice(("--normalization", "--layernorm-type"), NORMS, "LayerNorm",
                       "only LayerNorm and RMSNorm")  # fmt: skip
    if norm is not None:
        f.set("norm", norm)
    without, qkv = keys.truth("--disable-bias-linear"), keys.truth("--add-qkv-bias")
    f.set("bias", ("qkv" if qkv else "off") if without else "on")
    f.set("tied", not keys.truth("--untie-embeddings-and-output-weights"))
    if keys.truth("--embed-layernorm"):
        _add(f, 2 * f.count("hidden", 0))


def _positions(keys: Keys, f: Findings) -> None:
    names = ("--position-embedding-type",)
    kind = keys.choice(names, POSITIONS, "learned_absolute")
    if keys.some("--use-rotary-position-embeddings", "--use-llama2-rotary-position-embeddings"):
        kind = "rope"
    without = keys.truth("--no-position-embedding")
    longest = keys.take("--max-position-embeddings")
    if kind is None:
        return
    position = "none" if without and kind == "learned" else kind
    f.set("position", position)
    if position == "learned" and longest is not None:
        f.set("max_positions", longest, ("--max-position-embeddings",))


def _attention(keys: Keys, f: Findings) -> None:
    groups = keys.take("--num-query-groups")
    if keys.truth("--group-query-attention"):
        f.set("kv_heads", 1 if groups is None else groups, ("--num-query-groups",))
    elif groups not in (None, 1):
        f.note("--num-query-groups does nothing without --group-query-attention: as many heads of keys as of queries")
    keys.set("kv_heads", "--num-key-value-heads")
    if keys.choice(("--attention-head-type",), {"multihead": False, "multiquery": True}, "multihead"):
        f.set("kv_heads", 1)
    latent, qk_norm = keys.truth("--multi-latent-attention"), keys.truth("--qk-layernorm")
    if latent:
        for name, (flag, default) in HEADS_OF_LATENT.items():
            keys.set(name, flag, default=default)
        keys.ignore(("--kv-channels",))
        f.fields.pop("kv_heads", None)
    else:
        keys.set("head_dim", "--kv-channels")
        if qk_norm:
            f.set("qk_norm", True)
    if keys.choice(("--softmax-type",), {"vanilla": False, "off-by-one": False, "learnable": True}, "vanilla"):
        f.set("attention_sinks", True)
    _window(keys, f)


def _window(keys: Keys, f: Findings) -> None:
    size, period = keys.take("--window-size"), keys.number("--window-attn-skip-freq")
    if size is None:
        return
    numbers = re.findall(r"-?[0-9]+", " ".join(map(str, size)) if isinstance(size, list) else str(size))
    if not numbers or len(numbers) > 2 or len(numbers[0]) > 9:
        keys.wrong(("--window-size",), f"{shown(size)} is not understood; two numbers, such as 128,0")
        return
    if int(numbers[0]) < 0:  # -1: all that came before
        return
    f.set("window", int(numbers[0]), ("--window-size",))
    if period:
        f.set("global_every", period, ("--window-attn-skip-freq",))


def _experts(keys: Keys, f: Findings) -> None:
    count = keys.take("--num-experts")
    counts = count if isinstance(count, list) else [count]
    if len({str(each) for each in counts}) > 1:
        keys.wrong(("--num-experts",), f"{shown(count)} is not understood; one number for all layers")
        return
    deepspeed = keys.truth("--deepspeed")
    rest = (keys.take("--moe-router-topk", "--topk"), keys.take("--expert-interval"), keys.take("--moe-layer-freq"),
            keys.take("--moe-ffn-hidden-size"), keys.take("--moe-shared-expert-intermediate-size"),
            keys.take("--moe-expert-capacity-factor", "--moe-train-capacity-factor"))  # fmt: skip
    latent = keys.take("--moe-latent-size")
    biased = keys.truth("--moe-router-enable-expert-bias")
    if counts[0] in (None, 1, 0):
        return
    top_k, interval, frequency, width, shared, capacity = rest
    gate = keys.truth("--moe-shared-expert-gate")
    f.set("experts", counts[0], ("--num-experts",))
    f.set("top_k", top_k if top_k is not None else 1 if deepspeed else 2, keys.place("--moe-router-topk", "--topk"))
    for name, value, flag in (("moe_ffn_hidden", width, "--moe-ffn-hidden-size"),
                              ("shared_ffn_hidden", shared, "--moe-shared-expert-intermediate-size"),
                              ("moe_latent_hidden", latent, "--moe-latent-size"),
                              ("capacity_factor", capacity, "--moe-expert-capacity-factor")):  # fmt: skip
        if not is_off(value):
            f.set(name, value, (flag,))
    if not is_off(shared):
        f.set("shared_experts", 1)
        if gate:
            f.set("shared_expert_gate", True)
    if biased:
        f.set("router_bias", True)
    _expert_layers(keys, f, frequency, interval if interval is not None else 2 if deepspeed else None)


def _expert_layers(keys: Keys, f: Findings, frequency: object, interval: object) -> None:
    layers = f.count("layers", 0)
    if interval is not None and frequency is None:
        f.set("moe_every", interval, ("--expert-interval",))
        return
    which = pattern(frequency, layers)
    if which is None or len(which) != layers:
        count = "" if which is None else f" has {len(which)} of them and"
        message = f"{shown(frequency)}{count} is not understood; a number, or a 0 or 1 for each of the {layers} layers"
        keys.wrong(("--moe-layer-freq",), message)
        return
    expert_layers(f, which, ("--moe-layer-freq",))


def pattern(frequency: object, layers: int) -> list[bool] | None:
    """Return which layers are of experts: from a number (every n-th), or a list as Python writes one.

    >>> pattern("([0]*1+[1]*2)", 3), pattern(2, 4)
    ([False, True, True], [True, False, True, False])
    """
    if frequency is None:
        return [True] * layers
    if type(frequency) is int:
        return [i % frequency == 0 for i in range(layers)] if frequency > 0 else None
    text = ",".join(map(str, frequency)) if isinstance(frequency, list) else str(frequency)
    try:
        return [bool(each) for each in _list(ast.parse(text.strip()[:LONGEST], mode="eval").body)]
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _list(node: ast.expr) -> list[int]:
    """Return a list made of lists of whole numbers, added up and repeated."""
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
        if all(type(value) in (int, bool) for value in values):
            return [int(value) for value in values if isinstance(value, int)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _list(node.left) + _list(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        one, other = (node.left, node.right) if isinstance(node.right, ast.Constant) else (node.right, node.left)
        each = _list(one)
        if isinstance(other, ast.Constant) and type(other.value) is int and 0 <= other.value * len(each) <= MOST:
            return each * other.value
    raise ValueError("not a list of whole numbers")


def _vocabulary(keys: Keys, f: Findings) -> None:
    usual = "BertWordPieceLowerCase" if f.fields.get("architecture") not in (None, DECODER) else "GPT2BPETokenizer"
    kind = keys.take("--tokenizer-type", default=usual)
    keys.set("vocab_multiple", "--make-vocab-size-divisible-by")
    held = keys.take("--pad-vocab-size-to")
    source = keys.mapping.get("--tokenizer-model") or keys.mapping.get("--tokenizer-name-or-path")
    keys.ignore(("--tokenizer-name-or-path",))
    if keys.set("vocab", "--vocab-size", "--padded-vocab-size", default=held):
        return
    count = vocabulary_of(str(source)) if kind not in TOKENIZERS and source else TOKENIZERS.get(str(kind))
    if count is None:
        f.missing(f"the vocabulary of {shown(readable(str(source or kind)))} is not known; give --set vocab=N", "vocab")
        return
    f.set("vocab", count)
    f.note(f"vocab {count} is that of {source if kind not in TOKENIZERS else kind}")

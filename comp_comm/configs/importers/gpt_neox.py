"""A GPT-NeoX configuration: the model and the layout beside DeepSpeed's own keys."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers import deepspeed
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.megatron_layout import fewest_devices
from comp_comm.configs.importers.neox_ignored import BEGINNINGS, IGNORED, NOTED, OFF
from comp_comm.configs.importers.vocabularies import TOKENIZERS
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.kernel_choices import CrossEntropy
from comp_comm.records import Record

KIND = "GPT-NeoX configuration"
OWN = ("pipe_parallel_size", "model_parallel_size", "pos_emb", "checkpoint_activations", "synchronize_each_layer",
       "checkpoint_factor", "attention_config", "no_weight_tying")  # fmt: skip
SIGNS = (*OWN, "num_layers", "hidden_size", "num_attention_heads", "data_impl", "hidden_dropout")
NUMBERS = {
    "layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_kv_heads",
    "seq_len": "seq_length", "vocab_multiple": "make_vocab_size_divisible_by", "tp": "model_parallel_size",
}  # fmt: skip
POSITIONS = {"learned": "learned", "rotary": "rope", "alibi": "none", "sinusoidal": "none", "none": "none"}
GATED = ("swiglu", "geglu", "reglu", "bilinear", "glu")
PLAIN = ("gelu", "geglu", "relu", "softsign", "swish", "mish", "silu", "rrelu")
BIASES = {(True, True): "on", (True, False): "attention", (False, True): "ffn", (False, False): "off"}
# Attention that is fused, and that which keeps its scores.
KERNELS = {"flash": "flash_causal", "global": "unfused"}
TOKENIZER_20B = 50277


def fits(data: Record) -> int:
    """Return how well a mapping fits GPT-NeoX's configuration; 0 where it does not."""
    names = {str(key).replace("-", "_") for key in data}
    return 4 if len(names & set(SIGNS)) >= 3 and names & set(OWN) else 0


def import_neox(document: Document, given: Given = NOTHING) -> Imported:
    """Return the study that a GPT-NeoX configuration describes.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    data = {str(key).replace("-", "_"): value for key, value in document.data.items()}
    lines: dict[Path, int] = {
        (str(path[0]).replace("-", "_"), *path[1:]): line for path, line in document.lines.items()
    }
    f = Findings(Document(data, document.file, lines), given)
    keys = Keys(f, data)
    _kind(keys, f)
    for name, key in NUMBERS.items():
        if not keys.set(name, key) and name in ("layers", "hidden", "heads", "seq_len"):
            f.missing(f"'{key}' is missing: where several files are given to GPT-NeoX, make one of them", name)
    stages = keys.number("pipe_parallel_size", default=0) or 1  # 0: no pipeline
    f.set("pp", stages, keys.place("pipe_parallel_size"))
    f.set("sp", keys.truth("sequence_parallel"))
    _blocks(keys, f)
    _feed_forward(keys, f)
    _experts(keys, f)
    _vocabulary(keys, f)
    if f.count("vocab", 0):
        f.set("cross_entropy", CrossEntropy.UNFUSED.word)  # it has Megatron-LM's, and no other
    _batches(keys, f)
    _devices(keys, f)
    noted = [name for name in NOTED if not is_off(keys.take(name))]
    if noted:
        f.note(f"not modelled, and left out: {', '.join(noted)}")
    keys.off(OFF)
    keys.ignore((*IGNORED, *(name for name in data if name.startswith(BEGINNINGS)), *deepspeed.IGNORED))
    keys.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes))


def _kind(keys: Keys, f: Findings) -> None:
    """Set how attention is computed; layers of another kind are refused, that alone. Raises ``ConfigError``."""
    config = keys.take("attention_config")
    kinds: set[str] = set()
    for group in config if isinstance(config, list) else []:
        inner = group[0] if isinstance(group, list) and group else group
        kinds |= {str(each) for each in (inner if isinstance(inner, list) else [inner])}
    others = sorted(kinds - set(KERNELS))
    if others:
        keys.wrong(("attention_config",), f"layers of {', '.join(others)} are not modelled; only {', '.join(KERNELS)}")
    if str(keys.take("train_impl", default="normal")) != "normal":
        keys.wrong(("train_impl",), "another loss than that of the next token is not modelled; only normal")
    if keys.has("soft_prompt_tuning") and not is_off(keys.mapping["soft_prompt_tuning"]):
        keys.wrong(("soft_prompt_tuning",), "training a part of the weights is not modelled; leave it out")
    if keys.has("text_gen_type") and not keys.has("num_layers", "train_micro_batch_size_per_gpu"):
        keys.wrong(("text_gen_type",), "generating text instead of training is not modelled")
    f.problems.raise_if_any()
    keys.ignore(("sparsity_config", "soft_prompt_tuning"))
    if len(kinds) > 1:
        f.note(f"layers of {' and '.join(sorted(kinds))} attention are counted as unfused")
    f.set("attention_kernel", KERNELS[next(iter(kinds))] if len(kinds) == 1 else "unfused")


def _blocks(keys: Keys, f: Findings) -> None:
    norm = keys.choice(("norm",), {"layernorm": "layernorm", "rmsnorm": "rmsnorm", "te_rmsnorm": "rmsnorm",
                                   "te_layernorm": "layernorm"}, "layernorm")  # fmt: skip
    with_bias = keys.truth("use_bias_in_norms", default=True)
    if norm is not None:
        f.set("norm", "layernorm_no_bias" if norm == "layernorm" and not with_bias else norm)
    f.set(
        "bias", BIASES[keys.truth("use_bias_in_attn_linear", default=True), keys.truth("use_bias_in_mlp", default=True)]
    )
    f.set("tied", not keys.truth("no_weight_tying"))
    if keys.truth("gpt_j_residual"):
        f.set("parallel_blocks", True)
        if keys.truth("gpt_j_tied"):
            f.set("norms", 1)
    keys.ignore(("gpt_j_tied",))
    if keys.truth("use_qk_layernorm"):
        f.set("qk_norm", True)
    position = keys.choice(("pos_emb",), POSITIONS, "learned")
    longest = keys.take("max_position_embeddings", default=f.fields.get("seq_len"))
    if position is not None:
        f.set("position", position)
    if position == "learned" and longest is not None:
        f.set("max_positions", longest, keys.place("max_position_embeddings"))
    window = keys.take("sliding_window_width")
    if not is_off(window):
        f.set("window", window, keys.place("sliding_window_width"))
    rates = [keys.number(name, default=0.0) or 0.0 for name in ("hidden_dropout", "attention_dropout")]
    f.set("dropout", any(rate > 0 for rate in rates))


def _feed_forward(keys: Keys, f: Findings) -> None:
    """Set the width of the feed-forward network: a gated one is a third of what the file says, in multiples."""
    kind = str(keys.take("activation", default="gelu"))
    if kind not in (*GATED, *PLAIN):
        keys.wrong(("activation",), f"{shown(kind)} is not understood; only {', '.join((*GATED, *PLAIN))}")
    hidden, wide = f.count("hidden", 0), keys.number("intermediate_size", "ffn_dim")
    factor, multiple = keys.number("expansion_factor", default=4) or 4, keys.number("mlp_multiple_of", default=1) or 1
    size, step = int(wide or factor * hidden), max(int(multiple), 1)
    gated = kind in GATED
    f.set("gated", gated)
    if gated:
        size = size * 2 // 3 // 2
        if wide:
            f.note("a gated feed-forward network is a third as wide as intermediate_size, as GPT-NeoX makes it")
    if size > 0:
        f.set("ffn_hidden", -(-size // step) * step, keys.place("intermediate_size"))


def _experts(keys: Keys, f: Findings) -> None:
    count = keys.take("moe_num_experts", default=1)
    interval, top_k = keys.take("moe_expert_interval", default=1), keys.take("moe_top_k", default=1)
    keys.set("ep", "expert_parallel_size", "moe_expert_parallel_size")
    if is_off(count) or count == 1:
        f.fields.pop("ep", None)
        return
    f.set("experts", count, keys.place("moe_num_experts"))
    f.set("top_k", top_k, keys.place("moe_top_k"))
    if interval != 1:
        f.set("moe_every", interval, keys.place("moe_expert_interval"))
    if "ep" not in f.fields:
        f.note("how many devices share the experts is not in the file: ep is 1 unless it is given")


def _vocabulary(keys: Keys, f: Findings) -> None:
    kind, path = str(keys.take("tokenizer_type", default="GPT2BPETokenizer")), str(keys.take("vocab_file", default=""))
    if keys.set("vocab", "padded_vocab_size"):
        return
    count = TOKENIZER_20B if path.endswith("20B_tokenizer.json") else TOKENIZERS.get(kind)
    if count is None:
        f.missing(f"the vocabulary of {shown(kind)} ({shown(path)}) is not known; give --set vocab=N", "vocab")
        return
    f.set("vocab", count)
    f.note(f"vocab {count} is that of {kind if count != TOKENIZER_20B else '20B_tokenizer.json'}")


def _batches(keys: Keys, f: Findings) -> None:
    """Set batches, number formats, ZeRO and recomputation, which are DeepSpeed's."""
    for name, key in (("global_batch", "train_batch_size"), ("micro_batch", "train_micro_batch_size_per_gpu"),
                      ("accumulation", "gradient_accumulation_steps")):  # fmt: skip
        deepspeed.number_of(keys, f, name, key)
    keys.set("micro_batch", "batch_size")
    if {"global_batch", "micro_batch"} <= set(f.fields):
        f.fields.pop("accumulation", None)
    _recompute(keys, f)
    if not keys.has(
        "train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization", "fp16", "bf16", "precision"
    ):
        f.note("batches, number formats and ZeRO are not in the file: it is a part of a configuration, the model's")
        return
    deepspeed.zero_of(keys, f)
    for key in ("fp16", "bf16"):  # the name of the whole is in it, too
        inner = keys.mapping.get(key)
        if isinstance(inner, dict):
            keys.mapping = {
                **keys.mapping,
                key: {name: value for name, value in inner.items() if name not in (key, "type")},
            }
    deepspeed.formats_of(keys, f)
    named = keys.take("precision")
    if named is not None:
        f.set("precision", deepspeed.FORMATS.get(str(named), named), keys.place("precision"))
    f.fields.setdefault("precision", "fp16")
    if keys.truth("fp32_allreduce"):
        f.set("grad_precision", "fp32")
    if f.fields["precision"] == "bf16" and f.fields.get("zero") == 0 and "zero" not in f.given:
        f.set("zero", 1)
        f.set("zero_implementation", "deepspeed")
        f.note("DeepSpeed's optimizer for bf16 shards its states at stage 0, too: zero is 1")
    if keys.truth("use_bnb_optimizer"):
        f.set("optimizer_precision", "fp8")
        f.note("the two moments of 8-bit Adam are counted as fp8, a byte each")
    deepspeed.optimizer_of(keys, f)
    if str(keys.take("optimizer_type", default="adam")).lower() not in ("adam", "adamw"):
        keys.wrong(("optimizer_type",), "another optimizer than Adam is not modelled; only adam")


def _recompute(keys: Keys, f: Findings) -> None:
    """Set whether all layers are recomputed."""
    interval = keys.take("checkpoint_num_layers", default=1)
    f.set("recompute", "full" if keys.truth("checkpoint_activations") else "none")
    if f.fields["recompute"] == "full" and interval != 1:
        f.note(f"layers recomputed in groups of {interval} are counted as each on its own: the inputs kept are fewer")
    if not is_off(keys.take("checkpoint_in_cpu")):
        keys.wrong(("checkpoint_in_cpu",), "activations kept in host memory are not modelled; leave it out")


def _devices(keys: Keys, f: Findings) -> None:
    total, each, nodes = (keys.take(name) for name in ("global_num_gpus", "num_gpus", "num_nodes"))
    keys.ignore(("world_size",))
    if "gpus" in f.given:
        return
    if total is None and type(each) is int and type(nodes) is int and nodes > 0:
        total = each * nodes
    parts = f.count("tp") * f.count("pp")
    if type(total) is int and total > 0 and total % parts == 0:
        f.set("gpus", total)
    else:
        fewest_devices(f, "the number of devices is not in the file" if type(total) is not int else
                       f"the {total} devices of the file do not hold tp x pp = {parts}")  # fmt: skip

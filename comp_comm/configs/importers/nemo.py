"""A NeMo YAML (of NeMo-Megatron's launcher): the model, the layout and the devices."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from comp_comm.configs.importers.hf_parts import expert_layers
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, shown
from comp_comm.configs.importers.megatron_layout import fewest_devices
from comp_comm.configs.importers.megatron_model import NORMS, POSITIONS, pattern
from comp_comm.configs.importers.nemo_ignored import IGNORED, OFF, OPTIM, TOP, TRAINER
from comp_comm.configs.importers.vocabularies import TOKENIZERS, vocabulary_of
from comp_comm.configs.strict_yaml import Document, Path

KIND = "NeMo YAML"
REFERENCE = re.compile(r"\$\{([^{}]+)\}")
FORMATS = {"bf16": "bf16", "bf16-mixed": "bf16", "16": "fp16", "16-mixed": "fp16", "fp16": "fp16", "32": "fp32",
           "32-true": "fp32", "bf16-true": "bf16", "fp32": "fp32"}  # fmt: skip
GATED = ("swiglu", "fast-swiglu", "geglu", "fast-geglu", "reglu", "fast-reglu")
PLAIN = ("gelu", "relu", "squared-relu", "openai-gelu")
NUMBERS = {
    "layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "ffn_hidden": "ffn_hidden_size",
    "kv_heads": "num_query_groups", "head_dim": "kv_channels", "vocab_multiple": "make_vocab_size_divisible_by",
    "micro_batch": "micro_batch_size", "global_batch": "global_batch_size", "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size", "vpp": "virtual_pipeline_model_parallel_size", "cp": "context_parallel_size",
    "window": "window_size", "ep": "expert_model_parallel_size",
}  # fmt: skip


def fits(data: dict[str, Any]) -> int:
    """Return how well a mapping fits NeMo's: a model as Megatron-LM has it, beside a trainer; 0 where it does not."""
    model = data.get("model")
    if not isinstance(model, dict) or not ("num_layers" in model or "tensor_model_parallel_size" in model):
        return 0
    return 3 + isinstance(data.get("trainer"), dict)


def import_nemo(document: Document, given: Given = NOTHING) -> Imported:
    """Return the study that a NeMo configuration describes.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    f = Findings(document, given)
    data = resolve(document.data)
    top = Keys(f, data)
    run = data.get("run")
    name = run.get("name") if isinstance(run, dict) else None
    model = top.mapping_of("model") or Keys(f, {})
    _model(model, f)
    _layout(model, f)
    trainer = top.mapping_of("trainer")
    if trainer is not None:
        _trainer(trainer, f)
    elif "gpus" not in given:
        fewest_devices(f, "the number of devices is not in the file")
    top.ignore(TOP)
    model.ignore(IGNORED)
    model.finish()
    top.finish()
    f.problems.raise_if_any()
    named = name if isinstance(name, str) and "$" not in name else PurePath(document.file).stem
    return Imported(KIND, named, named, f"{document.file} ({KIND})", f.fields, tuple(f.notes))


def resolve(data: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with its references (``${.hidden_size}``, ``${multiply:4, ${.x}}``) resolved where it can.

    >>> resolve({"model": {"h": 8, "f": "${multiply:4, ${.h}}", "s": "${model.h}", "d": "${data_dir}/x"}})["model"]
    {'h': 8, 'f': 32, 's': 8, 'd': '${data_dir}/x'}
    """

    def value(raw: Any, path: Path) -> Any:
        if isinstance(raw, dict):
            return {key: value(inner, (*path, key)) for key, inner in raw.items()}
        if not isinstance(raw, str) or "${" not in raw:
            return raw
        for _ in range(20):
            matches = ((each, _looked_up(each[1], data, path)) for each in REFERENCE.finditer(raw))
            match, found = next((pair for pair in matches if pair[1] is not None), (None, None))
            if match is None:
                return raw
            if match[0] == raw:
                if not isinstance(found, str):
                    return found
                raw = found
            else:
                raw = raw[: match.start()] + str(found) + raw[match.end() :]
        return raw

    return {key: value(inner, (key,)) for key, inner in data.items()}


def _looked_up(text: str, data: dict[str, Any], path: Path) -> Any:
    """Return what one reference means; None where it names nothing here."""
    if text.startswith("multiply:"):
        try:
            first, second = (int(part) for part in text.removeprefix("multiply:").split(","))
        except ValueError:
            return None
        return first * second
    dots = len(text) - len(text.lstrip("."))
    parts: list[Any] = [*path[:-dots], *text[dots:].split(".")] if dots else text.split(".")
    found: Any = data
    for part in parts[1:] if parts and parts[0] == "training" and "training" not in data else parts:
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def _model(keys: Keys, f: Findings) -> None:
    for name, key in NUMBERS.items():
        keys.set(name, key)
    for name in ("layers", "hidden", "heads"):
        if name not in f.fields:
            f.missing(f"'model.{NUMBERS[name]}' is missing", name)
    data = keys.mapping_of("data")
    if data is not None:
        data.ignore(tuple(data.mapping))
    length = data.mapping.get("seq_length") if data is not None else None
    if not keys.set("seq_len", "encoder_seq_length", default=length):
        f.missing("'model.encoder_seq_length' is missing", "seq_len")
    _blocks(keys, f)
    _experts(keys, f)
    _tokenizer(keys, f)
    rates = [keys.number(name, default=0.0) or 0.0 for name in ("hidden_dropout", "attention_dropout", "ffn_dropout")]
    f.set("dropout", any(rate > 0 for rate in rates))


def _blocks(keys: Keys, f: Findings) -> None:
    activation = keys.take("activation", default="gelu")
    if activation not in (*GATED, *PLAIN):
        keys.wrong(("activation",), f"{shown(activation)} is not understood; only {', '.join((*GATED, *PLAIN))}")
    f.set("gated", activation in GATED)
    norm = keys.take("normalization", default="layernorm")
    if norm in NORMS:
        f.set("norm", NORMS[norm])
    else:
        keys.wrong(("normalization",), f"{shown(norm)} is not understood; only {', '.join(sorted(set(NORMS)))}")
    f.set("bias", keys.truth("bias", default=True))
    f.set("tied", keys.truth("share_embeddings_and_output_weights", default=True))
    if keys.truth("qk_layernorm"):
        f.set("qk_norm", True)
    kind = keys.take("position_embedding_type", default="learned_absolute")
    longest = keys.take("max_position_embeddings", default=f.fields.get("seq_len"))
    if kind not in POSITIONS:
        keys.wrong(("position_embedding_type",), f"{shown(kind)} is not understood; only {', '.join(POSITIONS)}")
        return
    f.set("position", POSITIONS[kind])
    if POSITIONS[kind] == "learned" and longest is not None:
        f.set("max_positions", longest, keys.place("max_position_embeddings"))
    keys.only("transformer_block_type", "pre_ln")
    keys.only("attention_type", "multihead")


def _experts(keys: Keys, f: Findings) -> None:
    count = keys.take("num_moe_experts")
    pairs = (("top_k", "moe_router_topk"), ("moe_ffn_hidden", "moe_ffn_hidden_size"))
    rest = {name: keys.take(key) for name, key in pairs}
    frequency = keys.take("moe_layer_freq")
    keys.only("moe_token_dispatcher_type", "alltoall", "flex")
    if count in (None, 0, 1):
        f.fields.pop("ep", None)
        return
    f.set("experts", count, keys.place("num_moe_experts"))
    for name, value in rest.items():
        if value is not None or name == "top_k":
            f.set(name, 2 if value is None else value)
    which = pattern(frequency, f.count("layers", 0))
    if which is None:
        keys.wrong(("moe_layer_freq",), f"{shown(frequency)} is not understood")
    else:
        expert_layers(f, which, keys.place("moe_layer_freq"))


def _tokenizer(keys: Keys, f: Findings) -> None:
    size = keys.take("vocab_size", "override_vocab_size")
    tokenizer = keys.mapping_of("tokenizer")
    kind = tokenizer.mapping.get("type") if tokenizer is not None else None
    model = tokenizer.mapping.get("model") if tokenizer is not None else None
    if size is not None:
        f.set("vocab", size, keys.place("vocab_size", "override_vocab_size"))
        return
    found = TOKENIZERS.get(str(kind)) or vocabulary_of(str(kind)) or vocabulary_of(str(model))
    if found is None:
        message = f"the vocabulary of model.tokenizer ({shown(kind or model)}) is not known; give --set vocab=N"
        f.missing(message, "vocab")
        return
    f.set("vocab", found)
    f.note(f"vocab {found} is that of {kind}")


def _layout(keys: Keys, f: Findings) -> None:
    if f.count("pp") == 1:
        f.fields.pop("vpp", None)
    f.set("sp", keys.truth("sequence_parallel"))
    _recompute(keys, f)
    if keys.truth("ub_tp_comm_overlap"):
        f.set("overlap_tp", True)
    if keys.truth("overlap_p2p_comm") and f.count("vpp") != 1:
        f.set("overlap_pp", True)
    if not (keys.truth("use_flash_attention", default=True) or keys.mapping.get("transformer_engine")):
        f.set("attention_kernel", "unfused")
    _sharding(keys, f)
    if keys.truth("fp8") and keys.truth("transformer_engine"):
        f.set("precision", "fp8")
    elif keys.mapping.get("fp8"):
        f.note("fp8 does nothing without transformer_engine")
    for name in OFF:
        keys.only(name, False, None)


def _recompute(keys: Keys, f: Findings) -> None:
    kind = keys.take("activations_checkpoint_granularity")
    method, count = keys.take("activations_checkpoint_method"), keys.take("activations_checkpoint_num_layers")
    for name in ("num_micro_batches_with_partial_activation_checkpoints", "activations_checkpoint_layers_per_pipeline"):
        keys.only(name, None)
    if kind is not None:
        f.set("recompute", kind, keys.place("activations_checkpoint_granularity"))
    if kind == "full" and method == "block" and count is not None:
        f.set("recompute_layers", count, keys.place("activations_checkpoint_num_layers"))
    elif kind == "full" and count not in (None, 1):
        f.note(f"layers recomputed in groups of {count} are counted as each on its own: the inputs kept are fewer")


def _sharding(keys: Keys, f: Findings) -> None:
    """Set the ZeRO stage, that of PyTorch's FSDP (3) or of the distributed optimizer (1), and what gradients are in."""
    fsdp, strategy = keys.truth("fsdp"), keys.take("fsdp_sharding_strategy", default="full")
    reduced = keys.take("fsdp_grad_reduce_dtype", default=32)
    optim = keys.mapping_of("optim") or Keys(f, {})
    distributed = "distributed" in str(optim.take("name", default=""))
    kind = optim.take("grad_sync_dtype")
    f.set("zero", 3 if fsdp else 1 if distributed else 0)
    if fsdp and strategy != "full":
        keys.wrong(("fsdp_sharding_strategy",), f"{shown(strategy)} is not understood; only full")
    if fsdp:
        f.set("grad_precision", FORMATS.get(str(reduced), reduced), keys.place("fsdp_grad_reduce_dtype"))
    elif kind is not None:
        f.set("grad_precision", FORMATS.get(str(kind), kind), optim.place("grad_sync_dtype"))
    f.set("overlap_dp", optim.truth("overlap_grad_sync", default=distributed))
    optim.ignore(OPTIM)
    optim.finish()


def _trainer(keys: Keys, f: Findings) -> None:
    nodes, each = keys.take("num_nodes", default=1), keys.take("devices", default=1)
    precision = keys.take("precision", default="bf16")
    if str(precision) not in FORMATS:
        keys.wrong(("precision",), f"{shown(precision)} is not understood; only {', '.join(FORMATS)}")
    elif f.fields.get("precision") != "fp8":
        f.set("precision", FORMATS[str(precision)])
    keys.only("accumulate_grad_batches", 1)
    keys.ignore(TRAINER)
    keys.finish()
    if "gpus" in f.given:
        return
    if type(nodes) is not int or type(each) is not int:
        fewest_devices(f, "the number of devices is not in the file")
        return
    parts = f.count("tp", 1) * f.count("pp", 1) * f.count("cp", 1)
    if nodes * each % parts:
        fewest_devices(f, f"the {nodes * each} devices of the file do not hold tp x pp x cp = {parts}")
    else:
        f.set("gpus", nodes * each)

"""A nanotron YAML: the model, the layout, the batches."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.hf_parts import expert_layers
from comp_comm.configs.importers.hugging_face import read_model
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.strict_yaml import Document
from comp_comm.kernel_choices import CrossEntropy
from comp_comm.records import Record

KIND = "nanotron YAML"
FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
ENGINES = {"1f1b": "1f1b", "afab": "gpipe"}
MODES = {"REDUCE_SCATTER": True, "reduce_scatter": True, "ALL_REDUCE": False, "all_reduce": False}  # split sequences
ATTENTION = {"flash_attention_2": "", "sdpa": "", "flex_attention": "", "ring_flash_triton": "p2p", "ring_flash": "p2p",
             "ring": "p2p", "llama3_ring_attention": "all_gather"}  # fmt: skip
# What changes nothing of a step: checkpoints, data, logs, profiles.
SECTIONS = ("checkpoints", "data", "data_stages", "general", "lighteval", "logging", "metrics_logging", "profiler",
            "s3_upload", "tokenizer", "experiment_logger")  # fmt: skip
MODEL = (
    "is_llama_config", "is_qwen2_config", "is_starcoder2_config", "_attn_implementation", "flex_attention_mask",
    "_fused_rms_norm", "_fused_rotary_emb", "_use_doc_masking", "_use_qkv_packed", "z_loss_coefficient",
    "z_loss_enabled", "no_rope_layer", "log_attn_probs", "ring_attn_heads_k_stride", "rope_interleaved",
    "rope_seq_len_interpolation_factor", "use_position_embeddings", "use_rotary_embeddings", "scale_attn_weights",
    "grouped_query", "multi_query", "num_kv_heads", "interleaved_rotary",
)  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits nanotron's configuration; 0 where it does not."""
    model, parallel = data.get("model"), data.get("parallelism")
    inner = isinstance(model, dict) and isinstance(model.get("model_config"), dict)
    return 5 if inner and isinstance(parallel, dict) and {"dp", "tp", "pp"} & parallel.keys() else 0


def import_nanotron(document: Document, given: Given = NOTHING) -> Imported:
    """Return the study that a nanotron configuration describes.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    f = Findings(document, given)
    top = Keys(f, document.data)
    tokens = top.mapping_of("tokens") or Keys(f, {})
    tokens.set("seq_len", "sequence_length")
    tokens.set("micro_batch", "micro_batch_size")
    tokens.set("accumulation", "batch_accumulation_per_replica")
    if "seq_len" not in f.fields:
        f.missing("'tokens.sequence_length' is missing", "seq_len")
    tokens.ignore(("train_steps", "val_check_interval", "limit_val_batches", "limit_test_batches"))
    if top.has("doremi"):
        top.wrong(("doremi",), "a reference model beside the one that is trained is not modelled; leave it out")
        f.problems.raise_if_any()
    model = top.mapping_of("model") or Keys(f, {})
    _model(model, f)
    parallel = top.mapping_of("parallelism") or Keys(f, {})
    _layout(parallel, f)
    _optimizer(top.mapping_of("optimizer") or Keys(f, {}), f)
    top.ignore(SECTIONS)
    for keys in (tokens, model, parallel, top):
        keys.finish()
    f.problems.raise_if_any()
    general = document.data.get("general")
    name = PurePath(document.file).stem
    title = str(general.get("project") or name) if isinstance(general, dict) else name
    return Imported(KIND, name, title, f"{document.file} ({KIND})", f.fields, tuple(f.notes))


def _model(keys: Keys, f: Findings) -> None:
    config = keys.take("model_config")
    seq_len = f.fields.get("seq_len")
    dtype = keys.choice(("dtype",), FORMATS, "bfloat16")
    if dtype is not None:
        f.set("precision", dtype)
    keys.ignore(("init_method", "ddp_bucket_cap_mb"))
    if not isinstance(config, dict):
        f.missing("'model.model_config' is missing")
        return
    place = keys.place("model_config")
    if config.get("is_mamba_config") or "ssm_cfg" in config:
        f.wrong((*place, "is_mamba_config"), "layers of a state-space model (Mamba) are not modelled")
        f.problems.raise_if_any()
    kind = "starcoder2" if config.get("is_starcoder2_config") else "llama"
    inner = read_model(f, config, place, kind)
    if seq_len is not None and "seq_len" not in f.given:
        f.fields["seq_len"] = seq_len
    keys.set("vocab_multiple", "make_vocab_size_divisible_by", default=1)
    if f.count("vocab", 0):
        f.set("cross_entropy", CrossEntropy.UNFUSED.word)  # its `sharded_cross_entropy`, as Megatron-LM's
    if kind == "starcoder2":
        _heads_of_keys(inner, f)
    elif "bias" not in f.given:  # nanotron has it in Q, K and V alone
        f.set("bias", "qkv" if config.get("attention_bias") is True and config.get("is_qwen2_config") else "off")
    _attention(inner, f)
    _experts(inner, f)
    inner.ignore(MODEL)
    inner.finish()


def _heads_of_keys(keys: Keys, f: Findings) -> None:
    """Set StarCoder2's heads of keys: one, unless they are grouped."""
    if not is_off(keys.take("global_attn_layers")):
        keys.wrong(
            ("global_attn_layers",), "layers that differ in what they attend to are not understood; leave it out"
        )
    groups = keys.mapping.get("num_kv_heads") if keys.mapping.get("grouped_query") else 1
    f.set("kv_heads", groups, keys.place("num_kv_heads"))


def _attention(keys: Keys, f: Findings) -> None:
    way = keys.choice(("_attn_implementation",), ATTENTION, "flash_attention_2")
    mask = keys.mapping.get("flex_attention_mask")
    if way and f.count("cp") != 1:
        f.set("cp_comm", way)
    size = keys.take("sliding_window_size")
    if size is not None and (mask is None or "sliding" in str(mask)):
        f.set("window", size, keys.place("sliding_window_size"))


def _experts(keys: Keys, f: Findings) -> None:
    """Set a mixture of experts: of Qwen's kind (``moe_config``), or of the example's (``moe_num_experts``)."""
    count = keys.take("moe_num_experts")
    if not is_off(count):
        f.set("experts", count, keys.place("moe_num_experts"))
        f.set("top_k", keys.take("num_experts_per_tok", "moe_num_experts_per_tok", default=1))
        f.set("moe_ffn_hidden", f.count("ffn_hidden", 0))
        f.set("capacity_factor", keys.take("moe_capacity_factor", default=1))
    keys.ignore(("moe_capacity_factor", "is_llamoe_config", "moe_loss_weight", "moe_z_loss_weight", "moe_glu"))
    inner = keys.mapping_of("moe_config")
    if inner is None:
        return
    f.set("experts", inner.take("num_experts", default=8), inner.place("num_experts"))
    f.set("top_k", inner.take("top_k", default=2), inner.place("top_k"))
    f.set("moe_ffn_hidden", inner.take("moe_intermediate_size", default=1408), inner.place("moe_intermediate_size"))
    width = inner.take("shared_expert_intermediate_size", default=5632)
    if inner.truth("enable_shared_expert"):
        f.set("shared_experts", 1)
        f.set("shared_ffn_hidden", width, inner.place("shared_expert_intermediate_size"))
        f.note("the gate of a shared expert is not counted")
    listed = inner.take("layers", default=[-1])
    layers = f.count("layers", 0)
    if isinstance(listed, list) and listed != [-1]:
        expert_layers(f, [i in listed for i in range(layers)], inner.place("layers"))
    way = inner.choice(("token_dispatcher_type",), {"alltoall": "all_to_all", "allgather": "all_gather"}, "alltoall")
    if f.count("ep", 1) != 1 and way is not None:
        f.set("ep_dispatch", way)
    inner.ignore(("router_aux_loss_coef",))
    inner.finish()


def _layout(keys: Keys, f: Findings) -> None:
    for name, key in (("tp", "tp"), ("pp", "pp"), ("cp", "context_parallel_size"), ("ep", "expert_parallel_size")):
        keys.set(name, key)
    keys.set("dp", "dp")
    split = keys.choice(("tp_mode",), MODES, "ALL_REDUCE")
    if split is not None:
        f.set("sp", split)
    schedule = keys.choice(("pp_engine",), ENGINES, "afab")
    if f.count("pp") != 1 and schedule is not None:
        f.set("schedule", schedule)
    if keys.truth("tp_linear_async_communication") and f.count("tp") != 1:
        f.set("overlap_tp", "async")
    kind = keys.take("recompute_granularity")
    f.set("recompute", "full" if keys.truth("recompute_layer") else "none" if is_off(kind) else str(kind).lower())
    keys.ignore(("tp_recompute_allgather", "moe_layer_recompute"))
    if f.count("ep") == 1 or "experts" not in f.fields:
        f.fields.pop("ep", None)
    dp = f.fields.pop("dp", None)
    if f.count("ep") > 1:
        f.missing("which of dp hold expert_parallel_size is not in the file; give --set gpus=N", "gpus")
    elif isinstance(dp, int) and "gpus" not in f.given:
        f.set("gpus", dp * f.count("tp") * f.count("pp") * f.count("cp"))


def _optimizer(keys: Keys, f: Findings) -> None:
    factory = keys.mapping_of("optimizer_factory")
    if factory is not None:
        name = str(factory.take("name", default="adamW"))
        if name.lower() not in ("adam", "adamw"):
            factory.wrong(("name",), f"{shown(name)}: another optimizer than Adam is not modelled; only adamW")
        factory.ignore(("adam_beta1", "adam_beta2", "adam_eps", "torch_adam_is_fused"))
        factory.finish()
    keys.set("zero", "zero_stage", default=0)
    if keys.truth("accumulate_grad_in_fp32"):
        f.set("grad_precision", "fp32")
    f.set("overlap_dp", True)  # buckets of gradients are reduced while the backward pass goes on
    keys.ignore(("clip_grad", "learning_rate_scheduler", "weight_decay", "weight_decay_exclude_named_params",
                 "adam_beta1", "adam_beta2", "adam_eps", "torch_adam_is_fused"))  # fmt: skip
    keys.finish()

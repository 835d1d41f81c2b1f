"""Attributes of Megatron's configurations in Python, as the arguments of Megatron-LM that they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from comp_comm.configs.importers import megatron
from comp_comm.configs.importers.adapters import model_of
from comp_comm.configs.importers.imported import Findings
from comp_comm.configs.importers.megatron_named import DIMENSION_FLAGS
from comp_comm.configs.importers.model_dimensions import dimensions_of
from comp_comm.configs.importers.python_values import Made, NotLiteral, Reference
from comp_comm.configs.strict_yaml import Path
from comp_comm.records import Record

DTYPES = {"float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "uint8": "fp8"}
# Attributes that change nothing of a step's shape, or that the model has already.
_IGNORED = """
    transformer_impl pipeline_dtype load_weights should_pad_vocab cuda_graph_warmup_steps
    fine_grained_activation_offloading offload_modules moe_router_force_load_balancing moe_router_fusion
    moe_grouped_gemm bias_activation_fusion moe_router_padding_for_fp8 use_te_rng_tracker apply_rope_fusion
    gradient_accumulation_fusion persist_layer_norm calculate_per_token_loss moe_router_dtype masked_softmax_fusion
    disable_parameter_transpose_cache init_method_std attention_softmax_in_fp32 apply_query_key_layer_scaling
    activation_func mtp_use_repeated_layer keep_mtp_spec_in_bf16 mtp_loss_scaling_factor moe_aux_loss_coeff
    moe_router_score_function moe_router_load_balancing_type bias_dropout_fusion distribute_saved_activations
    deallocate_pipeline_outputs batch_p2p_comm params_dtype autocast_dtype fp16_lm_cross_entropy parallel_output
    make_vocab_size_divisible_by rotary_base rotary_percent seq_len_interpolation_factor layernorm_epsilon
    use_cpu_initialization perform_initialization vocab_size max_position_embeddings moe_router_pre_softmax
    moe_router_enable_expert_bias moe_router_bias_update_rate moe_router_topk_scaling_factor moe_z_loss_coeff
    add_bias_linear gated_linear_unit normalization qk_layernorm share_embeddings_and_output_weights
    position_embedding_type scale_factor rope_scaling layernorm_zero_centered_gamma window_attn_skip_freq
    softmax_type is_hybrid_model bf16 fp16 cross_entropy_fusion moe_apply_probs_on_input
    use_transformer_engine_op_fuser use_transformer_engine_full_layer_spec attention_output_gate add_qkv_bias
    tokenizer generation_config gradient_as_bucket_view ckpt_async_save ckpt_parallel_load ckpt_parallel_save
    ckpt_parallel_save_optim ckpt_load_optimizer ckpt_save_optimizer ckpt_load_strictness progress_interval
    save_ckpt_format restore_config ckpt_assume_constant_structure lazy_init setup_optimizers replace_progress_bar
    check_for_nan_in_grad check_for_large_grads average_in_collective align_param_gather
    pad_buckets_for_high_nccl_busbw keep_fp8_transpose_cache fsdp_double_buffer nccl_ub use_sharp
    preserve_fp32_weights suggested_communication_unit_size reset_position_ids reset_attention_mask eod_mask_loss
    variable_seq_lengths microbatch_group_size_per_vp_stage pretrained_checkpoint hf_model_id qk_clip
    moe_pad_expert_input_to_capacity moe_expert_rank_capacity_factor overlap_cpu_optimizer_d2h_h2d name
    first_last_layers_bf16 num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 moe_token_drop_policy
    moe_permute_padding_for_fp8 barrier_with_L1_time tp_only_amax_red
    moe_enable_routing_replay high_priority_a2a_comm_stream moe_layer_recompute moe_paged_stash
    cuda_graph_use_single_mempool cuda_graph_retain_backward_graph hf_model_revision dsa_kernel_backend
    apply_dsa_kernel_fusion moe_mlp_glu_interleave_size mtp_eval_in_bf16 moe_paged_stash_buffer_size_factor_cuda
    moe_paged_stash_buffer_size_factor_cpu moe_paged_stash_page_size use_mamba_mem_eff_path
    dsa_indexer_use_sparse_loss dsa_indexer_loss_coeff inference_rng_tracker inference_sampling_seed
    ep_overlap_early_attn_memory_release mla_down_proj_fusion
"""
IGNORED = frozenset(_IGNORED.split())
# Attributes by other names than Megatron-LM's arguments have.
NAMES = {
    "num_moe_experts": "--num-experts", "num_layers_in_first_pipeline_stage": "--decoder-first-pipeline-num-layers",
    "num_layers_in_last_pipeline_stage": "--decoder-last-pipeline-num-layers",
    "overlap_moe_expert_parallel_comm": "--overlap-moe-expert-parallel-comm", "fp8": "--fp8-format",
    "moe_flex_dispatcher_num_sms": "--moe-flex-dispatcher-num-sms", "fp8_param": "--fp8-param-gather",
    "optimizer_cpu_offload": "--optimizer-cpu-offload", "moe_router_topk": "--moe-router-topk",
    "delay_wgrad_compute": "--delay-wgrad-compute", "mtp_num_layers": "--mtp-num-layers",
}  # fmt: skip
# Switches of Megatron-LM that say the opposite.
OPPOSITES = {"overlap_p2p_comm": "--no-overlap-p2p-communication",
             "account_for_embedding_in_pipeline_split": "", "account_for_loss_in_pipeline_split": ""}  # fmt: skip
# What a recipe begins with that is known: Megatron-Bridge's recipes/common.py.
NEEDED = {"tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
          "micro_batch": "micro_batch_size", "global_batch": "global_batch_size", "seq_len": "seq_length"}  # fmt: skip
PRECISIONS = (("nvfp4", "nvfp4", "nvfp4"), ("mxfp8|fp8_mx", "fp8", "mxfp8"), ("delayed|fp8_ds", "fp8", "delayed"),
              ("current|fp8_cs|tensorwise", "fp8", "tensorwise"), ("subchannel|blockwise|fp8_sc", "fp8", "blockwise"),
              ("fp8", "fp8", "delayed"), ("fp16|(?<!bf)16-mixed", "fp16", ""), ("bf16", "bf16", ""),
              ("fp32|^32", "fp32", ""))  # fmt: skip


@dataclass
class Flags:
    """Arguments that attributes come to, with the lines they are on, and what of them is not literal."""

    found: Findings
    flags: Record = field(default_factory=dict)
    unknown: dict[str, NotLiteral] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def take(self, made: Any, section: str, ignored: Sequence[str] = ()) -> None:
        """Take all attributes of an object: numbers and words are arguments, what is not literal is kept by name."""
        if not isinstance(made, Made):
            return
        for name, value in made.values.items():
            if name not in ignored and name not in IGNORED:
                self.set(name, value, section, made.lines.get(name, made.line))

    def set(self, name: str, value: Any, section: str, line: int = 0) -> None:
        """Take one attribute."""
        flag = NAMES.get(name, OPPOSITES.get(name, f"--{name.replace('_', '-')}"))
        if not flag:
            return
        self.seen.add(flag)
        if name in OPPOSITES:
            value = value is False
        plain = plain_value(value)
        if isinstance(plain, Made) and not plain.is_implied:
            plain = NotLiteral(f"{plain.name}()", plain.line)
        elif isinstance(plain, Made) and plain.values:
            plain = NotLiteral(", ".join(f"{name}.{each}" for each in plain.values))
        if isinstance(plain, (NotLiteral, Made)):
            if isinstance(plain, NotLiteral) and not megatron.is_ignored(flag):
                self.flags.pop(flag, None)
                self.unknown[flag] = NotLiteral(f"{section}.{name} = {plain.text}", line)
            return
        self.unknown.pop(flag, None)
        self.flags.pop(flag, None)
        if plain is not None and plain is not False and plain != "none":
            self.flags[flag] = plain
            place: Path = (flag,)
            if line:
                self.found.document.lines[place] = line

    def finish(self) -> None:
        """Name what is not literal: what a study needs is a problem, unless it is given; the rest a note."""
        told = []
        for flag, value in self.unknown.items():
            name = {**megatron.FIELD_OF, **megatron.INSTEAD, **DIMENSION_FLAGS}.get(flag)
            if name is None:
                told.append(f"{value.text} (line {value.line})")
            elif name not in self.found.given:
                self.found.document.lines.setdefault((flag,), value.line)
                self.found.wrong(
                    (flag,), f"{value.text} is not a literal, and Python is not run; give --set {name}=..."
                )
                self.found.named.add(name)
        if told:
            self.found.note(f"not literal, and left out: {'; '.join(told[:6])}{' ...' if len(told) > 6 else ''}")


def plain_value(value: Any) -> Any:
    """Return a value as arguments have it: number formats by their words, names of enumerations in small letters.

    >>> plain_value(Reference("torch.bfloat16")), plain_value(Reference("AttnBackend.flash")), plain_value((1, 2))
    ('bf16', 'flash', [1, 2])
    """
    if isinstance(value, Reference):
        if "dtype" in value.name or value.name.startswith("torch."):
            return DTYPES.get(value.last, NotLiteral(value.name))
        parts = value.name.split(".")
        return value.last if len(parts) > 1 and parts[-2][:1].isupper() else NotLiteral(value.name)
    if isinstance(value, (list, tuple)):
        inner = [plain_value(each) for each in value]
        bad = next((each for each in inner if isinstance(each, (NotLiteral, Made))), None)
        return inner if bad is None else NotLiteral(getattr(bad, "text", "an object"))
    if isinstance(value, dict):
        return NotLiteral("a mapping")
    return value


def set_precision(f: Findings, flags: Flags, value: Any) -> bool:
    """Set the number format that a mixed precision means: by its name, or that of what makes it; False for neither."""
    text = value if isinstance(value, str) else ""
    if isinstance(value, Made):
        words = [each for each in (*value.args, value.values.get("precision")) if isinstance(each, str)]
        own = " ".join(str(value.values[name]) for name in ("fp8", "fp8_recipe", "fp4") if isinstance(
            value.values.get(name), str))  # fmt: skip
        text = f"{value.last} {' '.join(words)} {'fp8' if own else ''} {own}"
    elif isinstance(value, Reference):
        text = value.last
    for pattern, precision, recipe in PRECISIONS:
        if re.search(pattern, text):
            f.set("precision", precision)
            if recipe:
                f.set("recipe", recipe)
            elif precision in ("bf16", "fp16"):
                flags.flags[f"--{precision}"] = True
            break
    else:
        return False
    if isinstance(value, Made):
        if value.values.get("fp8_param_gather") is True and precision == "fp8":
            f.set("fp8_param_gather", True)
        if value.values.get("grad_reduce_in_fp32") is False or "perf_precision" in value.last:
            flags.flags["--grad-reduce-in-bf16"] = True
        elif value.values.get("grad_reduce_in_fp32") is True:
            flags.flags.pop("--grad-reduce-in-bf16", None)
    return True


def model_of_names(*names: object) -> str:
    """Return the catalogue's model that one of these names means, nothing where none does.

    >>> model_of_names("llama3_70b_pretrain_64gpu_h100_bf16_config"), model_of_names("Llama31Config405B")
    ('llama-3-70b', 'llama-3.1-405b')
    """
    for name in names:
        if not isinstance(name, str):
            continue
        plain = re.sub(r"\.(?:pretrain|finetune)_recipe$", "", name).rsplit(".", 1)[-1]
        plain = plain if "/" not in name else name
        plain = re.split(r"_(?:pretrain|sft|peft|finetune|mock|recipe|config)(?:_|$)", plain)[0]
        plain = re.sub(r"(?:Config|ModelProvider|Provider)", "-", plain) if "/" not in plain else plain
        parts = plain.split("_")
        for length in range(len(parts), 0, -1):
            known = model_of("_".join(parts[:length]).strip("-"))
            if known is not None:
                return known
    return ""


def missing_of(held: Flags, f: Findings, model: str) -> list[str]:
    """Return the fields that a recipe has to have and that nothing in the file says: another file does."""
    flags, needed = held.flags, dict(NEEDED)
    if (
        f.given.get("tp") or flags.get("--tensor-model-parallel-size", 1)
    ) != 1 and "--sequence-parallel" not in held.seen:
        needed["sp"] = "sequence_parallel"
    if dimensions_of(model).get("experts"):
        needed["ep"] = "expert_model_parallel_size"
    return [name for name, key in needed.items()
            if f"--{key.replace('_', '-')}" not in flags and name not in f.fields and name not in f.named]  # fmt: skip


def asked(names: Sequence[str]) -> str:
    """Return how a user gives fields.

    >>> asked(["tp", "sp"])
    '--set tp=N --set sp=on'
    """
    return " ".join(f"--set {name}={'on' if name == 'sp' else 'N'}" for name in names)

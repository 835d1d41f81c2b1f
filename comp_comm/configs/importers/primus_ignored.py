"""Keys that Primus has beside those of its frameworks: what changes nothing, what is noted, what must be off."""

from __future__ import annotations

_IGNORED = """
    stderr_sink_level sink_level file_sink_level log_avg_skip_iterations log_avg_reset_interval disable_wandb
    disable_tensorboard disable_mlflow auto_continue_train disable_last_saving wall_clock_step_timer
    disable_profiler_activity_cpu torch_profiler_record_shapes torch_profiler_with_stack torch_profiler_use_gzip
    tokenizer_metadata moe_use_legacy_grouped_gemm moe_use_fused_router_with_aux_score use_turbo_fused_act_with_probs
    mock_dataset prefetch_factor disable_delayed_scaling_patches per_step_rng_reseed warmup_train_steps mlperf_mode
    target_val_loss nemo_aligned_lr_warmup nemo_chimera_init emulate_precision_casts empty_cache_interval
    pp_warmup dump_pp_data use_rocm_mem_info use_rocm_mem_info_iters use_turbo_deepep
    turbo_deepep_num_cu
    turbo_deepep_use_comm_stream turbo_sync_free_moe_stage odc_phase odc_p2p_backend odc_rocshmem_gda
    odc_grad_spike_threshold odc_mori_init odc_max_buffer_size no_fp8_weight_transpose_cache optimizer_foreach
    sft_dataset_name sft_conversation_format sft_bridge_compat_inline_bos sft_sanitize_nan_grads hf_path
    max_samples_per_sequence train_sync_interval activation_func trainable stage_unused recompute_layer_ids_unused
    use_turbo_permute_padding moe_router_fusion bias_gelu_fusion bias_dropout_fusion add_position_embedding
    check_for_nan_in_loss
"""
IGNORED = frozenset(_IGNORED.split())
IGNORED_BEGINNINGS = ("mlflow_", "wandb_", "turbo_deepep_", "torch_profiler_", "log_", "odc_rocshmem_", "odc_gda_")
# Kernels and overlaps of Primus's own, which change the time by what is not modelled.
NOTED = (
    "enable_primus_turbo", "use_turbo_attention", "use_turbo_grouped_gemm", "use_turbo_rms_norm",
    "use_turbo_gemm", "use_turbo_grouped_mlp", "use_turbo_parallel_linear", "enable_turbo_attention_float8",
    "torch_compile", "enable_fused_linear_ce", "fused_ce_mode", "fused_ce_chunks", "use_fsdp2_fp32_param_optimizer",
    "use_fsdp2_fp8_all_gather", "use_fsdp2_bf16_master_weight_optimizer", "fsdp_prefetch_depth",
    "enable_packed_sequences", "use_packed_attention", "fp8_reduce_amax", "fp8_precompute_data_cache",
    "moe_extended_tp", "use_triton_ops", "recompute_layer_ids",
)  # fmt: skip
OFF = (
    "patch_zero_bubble", "patch_primus_pipeline", "enable_zero_bubble", "lora", "enable_odc", "enable_odc_lb_mini",
    "hybrid_attention_enabled", "lfm_layer_types", "hc_use_sinkhorn", "fla_mla_attn",
    "use_turbo_fp4", "enable_turbo_attention_fp4",
)  # fmt: skip
# What Primus calls a model that the catalogue calls otherwise.
MODELS = {
    "llama4-17b16e": "llama-4-scout", "llama4-17b128e": "llama-4-maverick", "deepseek-v3-16b": "deepseek-v2-lite",
    "deepseek-v3-671b": "deepseek-v3", "llama4-17bx16e": "llama-4-scout", "llama4-17bx128e": "llama-4-maverick",
    "mixtral-8x7b-v0.1": "mixtral-8x7b", "mixtral-8x22b-v0.1": "mixtral-8x22b",
}  # fmt: skip
# Words in the name of a model that is none of those that are modelled.
OTHERS = (
    (r"flux|wan2|diffusion", "a model of images by diffusion"),
    (r"mamba|zebra|hybrid|lfm", "a state-space model, or has layers of one"),
    (r"gdn|kda|qwen3_5|qwen3_next|kimi_k3", "linear attention"),
    (r"deepseek_v4|glm5", "sparse attention"),
)

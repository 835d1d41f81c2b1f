"""Keys of MaxText that change nothing of a step's shape, or that another model than one of text has."""

from __future__ import annotations

_IGNORED = """
    base_config run_name steps learning_rate hardware tokenizer_path tokenizer_type enable_checkpointing
    async_checkpointing enable_dropout normalization_layer_epsilon packing max_segments_per_seq use_iota_embed
    log_period base_output_directory data_sharding allow_split_physical_axes adamw_mask warmup_steps_fraction
    gradient_clipping_threshold train_split eval_split eval_interval target_eval_loss reuse_example_batch
    normalize_embedding_logits final_logits_soft_cap attn_logits_soft_cap norm_topk_prob routed_scaling_factor
    routed_score_func load_balance_loss_weight routed_bias_update_rate mscale logits_dot_in_fp32 float32_logits
    float32_qk_product float32_weight_sum float32_gate_logits cast_logits_to_fp32 activations_in_float32
    temperature_tuning nope_layer_interval query_pre_attn_scalar scan_layers param_scan_axis monitor_goodput
    enable_goodput_recording sharding_tolerance num_epoch use_sft sft_train_on_completion_only add_bos add_eos
    use_truncation rope_max_timescale rope_min_timescale rope_type rope_factor beta_fast beta_slow rope_interleave
    rope_truncate rope_attention_scaling rope_linear_scaling_factor rope_use_scale original_max_position_embeddings
    max_position_embeddings local_rope_max_timescale local_rope_proportion global_rope_max_timescale
    global_rope_proportion partial_rotary_factor inhomogeneous_layer_cycle_interval use_chat_template chat_template
    gcs_metrics metrics_file record_internal_nn_metrics init_weights_seed data_shuffle_seed
    skip_jax_distributed_system matmul_precision replicate_quant_scale quant_cfg_path internal_compile jax_cache_dir
    enable_jax_profiler upload_all_profiler_results skip_first_n_steps_for_profiler z_loss_multiplier
    logits_dot_precision compiled_trainstep_file load_parameters_path load_full_state_path load_from_prefill_dir
    max_corpus_chars shardy vocab_tiling_ag_once remove_size_one_mesh_axis_from_type compile_xla_flags
    use_vertex_tensorboard vertex_tensorboard_project vertex_tensorboard_region enable_nnx pure_nnx pure_nnx_decoder
    default_prompt prompt debug use_custom_sort_vjp use_random_routing shard_mode abort_on_nan_loss
    abort_on_inf_loss stack_trace_to_cloud override_model_config managed_mldiagnostics
    managed_mldiagnostics_run_group train_data_columns eval_data_columns generate_padding_batch_train
    generate_padding_batch_eval dump_hlo save_config_to_gcs reshape_q use_splash_scheduler enable_data_shuffling
    num_evals custom_mesh colocated_python_data_input force_unroll constant_bound_config
    weight_quantization_calibration_method act_quantization_calibration_method bwd_quantization_calibration_method
    use_qwix_quantization quantization_local_shard_count dense_init_scale use_ragged_attention expert_balance
    use_max_logit_estimate cost_estimate_flops_fwd cost_estimate_flops_bwd use_tokamax_splash use_tokamax_gmm
    log_config merge_gating_gmm use_gmm_v2 learning_rate_schedule_steps learning_rate_final_fraction
    cosine_learning_rate_final_fraction tokenize_train_data tokenize_eval_data hf_access_token image_placeholder
    scan_pipeline_iterations set_remat_policy_on_pipeline_iterations set_remat_policy_on_layers_per_stage
    scan_layers_per_stage rep_penalty context_parallel_load_balance interleave_attention custom_mesh_and_rule
    enable_gcp_workload_monitoring attention_sharding enable_emergency_checkpoint use_replicator_service
    num_vocab_tiling elastic_enabled use_jax_splash indexer_loss_scaling_factor enable_single_controller
    enable_pathways_goodput megascale_grpc_premap enable_multi_tier_checkpointing v_norm_with_scale
    mlp_activations_limit sinkhorn_iterations dataset_path enable_tensorboard profile_cleanly qk_norm_with_scale
    pipeline_delay_activation_forwarding pipeline_fsdp_ag_once pipeline_fsdp_ag_per_repeat scan_pipeline_repeats
    use_mrope max_prefill_predict_length subslice_shape fsdp_shard_on_exp enable_single_replica_ckpt_restoring
    enable_gcp_goodput_metrics router_logits_soft_cap dense_fsdp_use_two_stage_all_gather use_pathways
    save_quantized_params_path local_use_splash_scheduler local_use_max_logit_estimate steps_per_eval mrope_section
    shuffle_buffer_size per_device_prefill autoregressive_decode_assert position_id_per_seconds enable_wandb
    topk_for_loss log_metrics lr_schedule_type wsd_decay_steps_fraction
"""
IGNORED = frozenset(_IGNORED.split())
# Beginnings of keys about data, checkpoints, tiles of kernels, profiles, and what serves a model.
BEGINNINGS = (
    "checkpoint_", "save_checkpoint", "dataset_", "hf_", "grain_", "eval_", "profile", "sa_", "wi_tile", "wo_tile",
    "adam_", "goodput", "local_checkpoint", "max_num_checkpoints", "wandb_",
    "prefill_", "local_sa_", "decode_", "inference_", "ragged_", "kv_quant", "mtc_", "tensorboard",
    "learning_rate_", "monitor_",
    "muon_beta", "muon_weight", "muon_consistent", "xla_", "jax_", "libtpu_",
)  # fmt: skip
# Off, or a refusal with what they are.
OFF = {
    "use_dpo": "training on preferences", "use_multimodal": "a model of more than text", "use_audio": "a model of more "
    "than text", "moba": "attention to blocks of tokens (MoBA)", "use_batch_split_schedule": "two half batches in turn",
    "parameter_memory_host_offload": "weights in the host's memory", "weight_sparsity_n": "sparse weights",
    "share_kv_projections": "keys that are values", "num_kv_shared_layers": "layers that share keys and values",
    "use_double_wide_mlp": "layers of two widths", "hidden_size_per_layer_input": "embeddings of each layer",
    "compress_ratios": "compressed attention", "o_lora_rank": "a low rank of attention's output",
    "mhc_expansion_rate": "several residual streams", "first_num_hash_layers": "routing by hashes",
    "global_head_dim": "heads of two sizes", "enable_diloco": "replicas in step only now and then (DiLoCo)",
    "distill_alpha": "learning from another model", "student_overrides": "learning from another model",
    "teacher_overrides": "learning from another model", "enable_rampup_batch_size": "a batch that grows",
    "lora": "adapters of MaxText", "quantize_kvcache": "generating text", "checkpoint_is_quantized": "generating text",
    "trainable_parameters_mask": "training a part of the weights", "engram_layers": "a memory of n-grams",
    "logical_axis_rules": "another sharding than MaxText's own", "mesh_axes": "another mesh than MaxText's own",
}  # fmt: skip
# Parts of models of images and sounds, which are left out where they are not used.
OTHER_SENSES = ("_for_vit", "_for_audio", "vision_", "freeze_vision", "image_", "audio_", "vllm_")

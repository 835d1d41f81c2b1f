"""Keys of a NeMo YAML that change no shape of a training step, and those only noted."""

from __future__ import annotations

_TRAINER = """
    accelerator logger enable_checkpointing use_distributed_sampler replace_sampler_ddp max_epochs max_steps
    max_time log_every_n_steps val_check_interval limit_val_batches limit_test_batches limit_train_batches
    gradient_clip_val benchmark check_val_every_n_epoch num_sanity_val_steps enable_progress_bar
    enable_model_summary strategy profiler resume_from_checkpoint sync_batchnorm gradient_clip_algorithm
    reload_dataloaders_every_n_epochs
"""
_MODEL = """
    layernorm_zero_centered_gamma get_attention_mask_from_fusion nccl_communicator_config_path name
    enable_megatron_timers megatron_timer_kwargs mcore_gpt mcore_t5 mcore_bert rampup_batch_size
    resume_from_checkpoint init_method_std
    use_scaled_init_method apply_query_key_layer_scaling layernorm_epsilon do_layer_norm_weight_decay pre_process
    post_process persist_layer_norm gradient_as_bucket_view openai_gelu normalize_attention_scores rotary_percentage
    rotary_base rotary_interleaved seq_len_interpolation_factor apply_rope_fusion
    grad_div_ar_fusion bias_activation_fusion bias_gelu_fusion bias_dropout_add_fusion
    masked_softmax_fusion bias_dropout_fusion native_amp_init_scale native_amp_growth_interval hysteresis
    fp16_lm_cross_entropy grad_allreduce_chunk_size_mb seed
    use_cpu_initialization onnx_safe apex_transformer_log_level sync_batch_comm batch_p2p_comm nsys_profile
    memory_profile gc_interval fsdp_sharded_checkpoint transformer_engine fp8_e4m3 fp8_hybrid fp8_margin
    fp8_interval fp8_amax_history_len fp8_amax_compute_algo fp8_wgrad fp8_dot_product_attention
    fp8_multi_head_attention reduce_amax ub_tp_comm_overlap_cfg tp_comm_atomic_ag tp_comm_atomic_rs
    tp_comm_overlap_ag tp_comm_overlap_rs use_emha custom scale_positional_embedding hidden_act rope_scaling
    attention_softmax_in_fp32 inference precision target nemo_version moe_aux_loss_coeff moe_z_loss_coeff
    moe_router_load_balancing_type moe_grouped_gemm moe_router_dtype moe_input_jitter_eps
    moe_pad_expert_input_to_capacity moe_token_drop_policy moe_token_dropping moe_frequency moe_dropout
    moe_router_pre_softmax dist_ckpt_format dist_ckpt_parallel_save dist_ckpt_load_on_device
    dist_ckpt_load_strictness dist_ckpt_parallel_load dist_ckpt_torch_dist_multiproc dist_ckpt_assume_constant_structure
    dist_ckpt_parallel_dist_opt dist_ckpt_load_from_ckpt deterministic_mode deteministic_mode
    save_nemo_on_validation_end log_token_counts tokens_to_generate use_mcore_models data_sharding
    pipeline_model_parallel_comm_backend async_grad_allreduce megatron_legacy validation_param_sync_overlap
    use_te_rng_tracker te_rng_tracker convert_to_hf val_test_batch_size validation_global_batch_size
    context_parallel_comm_type attention_backend restore_from_path from_pretrained bert_binary_head
    validation_drop_last load_precision mcore_dist_ckpt activations_checkpoint_recurrent force_word_embeddings
    hf_flavor label_smoothing fsdp_use_orig_params delay_grad_reduce delay_param_gather align_param_gather
    layernorm_type gradient_accumulation enable_gloo overlap_p2p_comm_warmup_flush grad_reduce_in_fp32
    pretrained_checkpoint num_layers_in_first_pipeline_stage_default tp_only_amax_red
"""
_OPTIM = """
    lr weight_decay betas eps sched bucket_cap_mb contiguous_grad_buffer contiguous_param_buffer average_grad_sync
    pipeline_size capturable nccl_ub foreach fused maximize amsgrad parallel_grad_norm
    overlap_param_gather_with_optimizer_step align_param_gather distribute_within_nodes bias_correction adam_w_mode
    use_distributed_optimizer
"""
TOP = ("defaults", "hydra", "run", "exp_manager", "name", "restore_from_path", "cluster", "env_vars",
       "s3_checkpointing", "restore_from_ckpt", "inference", "mode")  # fmt: skip
TRAINER, IGNORED, OPTIM = (frozenset(names.split()) for names in (_TRAINER, _MODEL, _OPTIM))
# What changes a step's time by little, and is not modelled: said where it is on.
NOTED = (
    "defer_embedding_wgrad_compute", "wgrad_deferral_limit", "enable_cuda_graph",
    "overlap_p2p_comm_warmup", "moe_shared_expert_overlap", "sharp",
    "external_cuda_graph", "fp32_residual_connection",
)  # fmt: skip
# Features that are not understood where they are on.
OFF = (
    "fsdp_cpu_offload", "use_fsdp2", "headscale", "expert_tensor_parallel",
    "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage",
    "moe_extended_tp", "use_loss_mask_as_attention",
)  # fmt: skip

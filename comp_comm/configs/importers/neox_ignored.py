"""Keys of a GPT-NeoX configuration that change nothing of a step, those only noted, and features that must be off."""

from __future__ import annotations

_IGNORED = """
    attention_softmax_in_fp32 apply_query_key_layer_scaling fp16_lm_cross_entropy init_method output_layer_init_method
    init_method_std use_cpu_initialization rotary_pct rotary_emb_base rotary_save_freqs_buffer layernorm_epsilon
    rms_norm_epsilon scalenorm_epsilon opt_pos_emb_offset scaled_upper_triang_masked_softmax_fusion
    scaled_masked_softmax_fusion bias_gelu_fusion bias_dropout_fusion rope_fusion layernorm_fusion rmsnorm_fusion
    use_flashattn_swiglu fused_kernels_build_path output_layer_parallelism pipe_partition_method is_pipe_parallel
    mamba_selective_scan_fusion mamba_causal_conv_fusion mamba_inner_func_fusion lr min_lr decay_lr_to warmup
    warmup_iters lr_decay_style lr_decay_iters lr_decay_fraction override_lr_scheduler use_checkpoint_lr_scheduler
    weight_decay clip_grad hysteresis dynamic_loss_scale loss_scale loss_scale_window min_scale seed
    distributed_backend local_rank rank lazy_mpu_init short_seq_prob eod_mask_loss adlr_autoresume
    adlr_autoresume_interval onnx_safe deepscale deepscale_config deepspeed_mpi deepspeed_slurm user_script iteration
    do_train do_valid do_test data_path use_shared_fs data_impl pack_impl dataset_impl weight_by_num_documents
    weighted_sampler_alpha allow_chopped mmap_warmup save load s3_path s3_chunk_size config_files
    checkpoint_validation_with_forward_pass checkpoint_scale checkpoint_factor extra_save_iters no_save_optim
    no_save_rng no_load_optim no_load_rng finetune train_iters train_epochs eval_iters keep_last_n_checkpoints
    eval_interval split merge_file num_workers exit_interval deepspeed_activation_checkpointing
    contiguous_checkpointing synchronize_each_layer profile_backward char_level_ppl hostfile include exclude
    master_port master_addr launcher force_multi autotuning_run no_ssh_check comment account deepspeed
    deepspeed_extra_args verbose prof_all debug git_hash hidden_act mamba_selective_fp32_params moe_router_type
    moe_lbl_in_fp32 moe_jitter_eps z_loss vocab_size_unused peak_theoretical_tflops gmlp_attn_dim clear_neox_cache
    rank_zero_save maximum_tokens prompt_end temperature top_p top_k return_logits sample_input_file
    sample_output_file num_samples recompute eval_results_prefix eval_tasks curriculum_seqlen text_gen_type
    precompute_model_name autotuning_config attention_type save_interval
"""
IGNORED = frozenset(_IGNORED.split())
BEGINNINGS = (
    "train_data", "train_label", "valid_data", "valid_label", "test_data", "test_label", "log_", "wandb_", "use_wandb",
    "comet_", "use_comet", "tensorboard", "memory_profiling", "profile", "mup_", "use_mup", "coord_check",
    "save_base_shapes", "base_shapes_file", "dpo_", "kto_", "pos_train", "neg_train", "pos_valid", "neg_valid",
    "pos_test", "neg_test", "train_reward", "valid_reward", "test_reward", "online_data", "serve_model",
    "weight_server", "gradient_noise", "te_fp8_",
)  # fmt: skip
NOTED = ("partition_activations", "te_columnparallel", "te_rowparallel", "te_layernorm_mlp", "te_mha")
OFF = (
    "num_unique_layers", "checkpoint_gradients", "curriculum_learning", "data_efficiency", "elasticity",
    "compression_training", "sparse_attention", "amp", "autotuning", "moe_dense",
)  # fmt: skip

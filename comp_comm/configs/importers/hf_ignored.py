"""Keys of a Hugging Face config.json that change no shape, and so neither time nor memory of a training step."""

from __future__ import annotations

_TOKENS = """
    bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id eoa_token_id eoi_token_id boa_token_id
    boi_token_id audio_token_id image_token_id video_token_id eoa_token_index boi_token_index eoi_token_index
    image_token_index video_token_index audio_token_index vision_start_token_id vision_end_token_id vision_token_id
    tokenizer_class prefix suppress_tokens begin_suppress_tokens mm_tokens_per_image vision_soft_tokens_per_image
    bos_token eos_token eos_for_classification image_seq_length spatial_merge_size
"""
_ARITHMETIC = """
    activation dense_act_fn ffn_act_fn initializer_range
    initializer_factor init_std initializer_cutoff_factor embedding_initializer_range rms_norm_eps layer_norm_eps
    layer_norm_epsilon norm_eps norm_epsilon layernorm_epsilon eps layer_norm_rms_epsilon rope_theta rope_base
    rotary_emb_base rotary_pct rotary_dim partial_rotary_factor rope_pct rope_local_base_freq rotary_emb_fraction
    rope_type rope_interleave rope_interleaved rope_ratio mscale default_theta global_rope_theta
    final_logit_softcapping attn_logit_softcapping query_pre_attn_scalar logit_scale logits_scaling
    embedding_multiplier attention_multiplier residual_multiplier logits_soft_cap swiglu_limit swiglu_alpha clip_qkv
    attention_softmax_in_fp32 softmax_scale scale_attn_weights scale_attn_by_inverse_layer_idx
    reorder_and_upcast_attn fp32_residual_connection pretraining_tp slow_but_exact masked_softmax_fusion
    bias_dropout_fusion skip_bias_add skip_bias_add_qkv offset_alibi apply_residual_connection_post_layernorm
    logit_soft_cap attention_temperature_tuning attn_temperature_tuning attn_scale floor_scale emb_scale scale_emb
    scale_depth dim_model_base rope_scaling_factor use_parallel_embedding relative_attention_max_distance
    alibi_bias_max scale_attention_softmax_in_fp32 scale_embedding
    output_gate_type
"""
_ROUTING = """
    topk_method norm_topk_prob routed_scaling_factor scoring_func topk_group n_group aux_loss_alpha seq_aux
    router_aux_loss_coef router_z_loss_coef output_router_logits router_jitter_noise input_jitter_noise ep_size
    aux_loss_coef router_scaling_factor moe_normalize_expert_weights moe_loss_weight uniform_expert_assignment
    moe_jitter_eps expert_selection_fn num_expert_group
"""
_RUNNING = """
    tokenizer_name tf_legacy_loss use_cache torch_dtype dtype transformers_version architectures auto_map model_type
    _name_or_path name_or_path output_past output_attentions output_hidden_states return_dict use_return_dict
    return_dict_in_generate output_scores torchscript use_bfloat16 chunk_size_feed_forward gradient_checkpointing
    attn_implementation _attn_implementation _attn_implementation_autoset _attn_implementation_internal
    attn_implementation_internal use_flash_attn use_flash_attention flash_attn fused_mlp fused_bias_fc use_logn_attn
    use_dynamic_ntk init_device verbose max_batch_size num_logits_to_keep keys_to_ignore_at_inference
    quantization_config compression_config parallelization_style cache_implementation unsloth_version unsloth_fixed
    use_kernels
"""
_GENERATION = """
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k
    top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    bad_words_ids num_return_sequences remove_invalid_values exponential_decay_length_penalty task_specific_params
    max_new_tokens epsilon_cutoff eta_cutoff penalty_alpha generation_config summary_type summary_use_proj
    summary_activation summary_proj_to_labels summary_first_dropout finetuning_task problem_type id2label label2id
    num_labels classifier_dropout pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type directionality pooler_act pooler_output_size gradient_clipping
"""
_NESTED = """
    vision_config audio_config vision_feature_layer vision_feature_select_strategy vision_projector
    ignore_index use_unified_vision_chunk video_placeholder image_placeholder language_model_only
    vq_config vocabulary_map projector_bias audio_merge_size audio_chunk_size multimodal_projector_bias
    projector_hidden_act mm_hidden_size image_grid_pinpoints use_image_newline_parameter
"""
TOWERS = ("vision_config", "audio_config")
# Features that are off: what says so says nothing, what says otherwise is not understood.
OFF = (
    "is_encoder_decoder", "tie_encoder_decoder", "cross_attention_hidden_size", "is_decoder", "add_cross_attention",
    "pruned_heads", "use_bidirectional_attention", "attention_k_eq_v", "enable_moe_block",
)  # fmt: skip
# Biases and norms of queries and keys by all their names: a family that always has them, or never, may say so.
BIAS_KEYS = ("attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "qkv_bias", "bias")
QK_NORM_KEYS = ("qk_layernorm", "use_qk_norm", "qk_norm")
SWITCHES = ("use_", "is_", "has_", "add_", "enable_", "output_", "apply_", "do_")  # how the name of a switch begins
IGNORED = frozenset(" ".join((_TOKENS, _ARITHMETIC, _ROUTING, _RUNNING, _GENERATION)).split())
# Beside a text_config: what describes other towers, and what only they read.
NESTED = frozenset(_NESTED.split())
BESIDE_TEXT = IGNORED | NESTED
DROPOUTS = (
    "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "dropout", "activation_dropout", "layerdrop", "dropout_rate", "embd_dropout",
    "resid_dropout", "residual_dropout", "embedding_dropout", "emb_dropout_prob", "attn_dropout_prob", "emb_pdrop",
    "embed_dropout",
)  # fmt: skip


def is_token(name: str) -> bool:
    """Return whether a key names a token of the vocabulary, or several: which they are changes no shape.

    >>> is_token("boi_token_id"), is_token("tokens_per_second")
    (True, False)
    """
    return name.endswith(("_token_id", "_token_ids", "_token_index", "_token_indices", "_token"))

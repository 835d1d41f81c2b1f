"""What fields are called elsewhere: in Megatron-LM, DeepSpeed, torchtitan, Hugging Face files and papers."""

from __future__ import annotations

import re
from collections.abc import Collection

from comp_comm.errors import nearest

# Of each field, what others call it, without what `_plain` takes off.
ELSEWHERE = {
    "tp": "tensor_parallel tensor model_parallel",
    "pp": "pipeline_parallel pipeline pipeline_stages stages",
    "vpp": "virtual_pipeline_parallel virtual_pipeline virtual_stages interleaving interleave model_chunks",
    "cp": "context_parallel ring_attention ulysses",
    "dp": "data_parallel replicas",
    "ep": "expert_parallel",
    "etp": "expert_tensor_parallel",
    "sp": "sequence_parallel",
    "zero": "zero_stage zero_optimization fsdp sharding",
    "gpus": "gpu devices device_count world accelerators gpu_count",
    "global_batch": "batch gbs train_batch bs",
    "batch_tokens": "global_batch_tokens tokens_per_step tokens_per_batch batch_in_tokens",
    "micro_batch": "mbs local_batch microbatch per_device_train_batch train_micro_batch_size_per_gpu",
    "accumulation": "gradient_accumulation_steps gradient_accumulation grad_accum accumulation_steps gas",
    "seq_len": "sequence_length seq_length sequence context_length context max_seq_len max_position_embeddings seqlen",
    "tokens": "train_tokens total_tokens training_tokens run_tokens",
    "hidden": "hidden_dim d_model dim embd model_dim",
    "layers": "layer hidden_layers depth",
    "heads": "attention_heads head",
    "kv_heads": "key_value_heads query_groups",
    "ffn_hidden": "intermediate ffn_dim d_ff feed_forward",
    "vocab": "vocabulary padded_vocab",
    "experts": "local_experts routed_experts moe_experts",
    "recompute": "activation_checkpointing gradient_checkpointing activation_recomputation recomputation "
                 "recompute_granularity recompute_activations checkpointing",
    "precision": "dtype data_type number_format params_dtype",
    "hardware": "gpu_type device accelerator machine cluster system gpu_model gpu_name",
    "model": "model_name model_config arch config",
    "price_per_gpu_hour": "price cost dollars gpu_price price_per_hour cost_per_hour cost_per_gpu_hour",
    "watts": "power gpu_power tdp",
    "scale_up": "nvlink nvlink_bandwidth intra_node intra_node_bandwidth scale_up_bandwidth xgmi",
    "scale_out": "inter_node inter_node_bandwidth internode internode_bandwidth infiniband ib ethernet nic "
                 "scale_out_bandwidth",
    "step": "speed time fastest step_time",
    "step_s": "step seconds step_time",
    "tokens_per_s": "throughput",
    "cost": "price dollars money usd",
    "energy": "power watts kwh",
    "comm": "communication",
    "visible_comm_fraction": "comm communication exposed_comm",
    "memory_gib": "memory",
    "svg": "plot picture image",
    "output": "out output_file",
    "quiet": "silent",
    "top": "limit best",
}  # fmt: skip


def _plain(name: str) -> str:
    """Return a name without what only some tools write: num_, n_, _size, _degree, and model_ before parallel."""
    name = name.strip().lstrip("-").lower().replace("-", "_").replace("parallelism", "parallel")
    name = re.sub(r"^(num|n|number_of)_|_(size|degree)$", "", name)
    return re.sub(r"(?<=[a-z])_model_parallel", "_parallel", re.sub(r"_(size|degree)$", "", name))


def nearest_name(name: str, allowed: Collection[str]) -> str:
    """Return ``"; did you mean 'tp'?"``: what a name of another tool is called here, else the nearest allowed one.

    >>> nearest_name("tensor_model_parallel_size", ["tp", "pp"]), nearest_name("num-gpus", ["gpus"])
    ("; did you mean 'tp'?", "; did you mean 'gpus'?")
    >>> nearest_name("hiden", ["hidden"]), nearest_name("tensor_parallel", ["experts"])
    ("; did you mean 'hidden'?", '')
    """
    plain = _plain(name)
    ours = (
        plain
        if plain in allowed
        else next((ours for ours, others in ELSEWHERE.items() if ours in allowed and plain in others.split()), None)
    )
    return f"; did you mean '{ours}'?" if ours else nearest(name, allowed)

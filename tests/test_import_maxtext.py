"""MaxText: YAML configurations, files of its models, and scripts with key=value."""

from __future__ import annotations

import pytest

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

BASE = "model_name: llama3.1-70b\nper_device_batch_size: 2\nmax_target_length: 8192\n"
MESH = "dcn_data_parallelism: 2\nici_fsdp_parallelism: 8\ndcn_fsdp_parallelism: 4\n"
SIZES = (
    "base_emb_dim: 1024\nbase_num_query_heads: 8\nbase_num_kv_heads: 4\nbase_mlp_dim: 4096\n"
    "base_num_decoder_layers: 12\n"
)


def study(text, **given):
    return import_text(text, "maxtext.yml", given)


def refused(text, **given):
    with pytest.raises(ConfigError) as caught:
        study(text, **given)
    return str(caught.value)


@pytest.mark.parametrize(("more", "expected"), [
    (MESH, {"gpus": 64, "zero": 3, "dp_shard": 32, "micro_batch": 2, "accumulation": 1, "seq_len": 8192, "tp": 1,
            "recompute": "full", "precision": "bf16", "master_weights": "shards", "grad_precision": "fp32"}),
    ("dcn_data_parallelism: 1\nici_fsdp_parallelism: 8\n", {"gpus": 8, "dp_shard": None, "zero": 3}),
    # 2 sequences of a device: those of 4 that split matrices are one micro-batch of 8
    ("dcn_data_parallelism: 1\nici_fsdp_parallelism: 4\nici_tensor_parallelism: 4\n",
     {"gpus": 16, "tp": 4, "sp": "on", "micro_batch": 8}),
    ("dcn_data_parallelism: 1\nici_fsdp_parallelism: 4\nici_context_parallelism: 2\ncontext_parallel_strategy: ring\n",
     {"gpus": 8, "cp": 2, "cp_comm": "p2p", "micro_batch": 4}),
    # weights are shared over the devices that split sequences, too
    ("dcn_data_parallelism: 2\nici_fsdp_parallelism: 4\nici_context_parallelism: 2\n", {"gpus": 16, "dp_shard": 8}),
    ("dcn_data_parallelism: 8\nici_fsdp_parallelism: 1\n", {"gpus": 8, "zero": 0, "dp_shard": None}),
    ("dcn_data_parallelism: 8\nici_fsdp_parallelism: 1\nshard_optimizer_over_data: true\n", {"zero": 1}),
    (f"{MESH}gradient_accumulation_steps: 4\n", {"accumulation": 4, "micro_batch": 2}),
    (f"{MESH}quantization: fp8\n", {"precision": "fp8", "recipe": "delayed"}),
    (f"{MESH}quantization: te_mxfp8\n", {"precision": "fp8", "recipe": "mxfp8"}),
    (f"{MESH}remat_policy: minimal_with_context\n", {"recompute": "layernorm"}),
    (f"{MESH}remat_policy: minimal\n", {"recompute": "core_attn+layernorm"}),
    (f"{MESH}remat_policy: save_dot_except_mlp\n", {"recompute": "core_attn+layernorm+mlp"}),
    (f"{MESH}remat_policy: custom\nquery_proj: device\ncontext: device\nmlpwi_0: device\n", {"recompute": "layernorm"}),
    (f"{MESH}remat_policy: custom\ncontext: device\n", {"recompute": "full"}),
    (f"{MESH}attention: dot_product\noptimizer_memory_host_offload: true\n",
     {"attention_kernel": "unfused", "offload_optimizer": "on"}),
])  # fmt: skip
def test_a_mesh_is_a_layout(more, expected):
    found = study(BASE + more)
    assert found.model == "llama-3.1-70b"
    assert {name: found.fields.get(name) for name in expected} == expected


def test_experts_have_sequences_of_their_own():
    text = "model_name: qwen3-30b-a3b\nper_device_batch_size: 4\nmax_target_length: 4096\n"
    found = study(f"{text}ici_expert_parallelism: 8\nici_fsdp_parallelism: 1\ndcn_data_parallelism: 4\n"
                  "sparse_matmul: false\ncapacity_factor: 1.25\n").fields  # fmt: skip
    assert (found["ep"], found["gpus"], found["micro_batch"], found["capacity_factor"]) == (8, 32, 4, 1.25)
    assert (found["zero"], found["dp_shard"], found["ep_dispatch"]) == (3, 8, "all_to_all")


def test_a_pipeline_has_as_many_micro_batches_as_stages():
    text = (
        f"{SIZES}max_target_length: 1024\nper_device_batch_size: 1\ndcn_data_parallelism: 1\nici_fsdp_parallelism: 2\n"
    )
    found = study(f"{text}ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 3\n").fields
    assert (found["pp"], found["gpus"], found["accumulation"], found["micro_batch"]) == (4, 8, 4, 1)
    assert (found["schedule"], found.get("vpp")) == ("gpipe", None)
    again = study(f"{text}ici_pipeline_parallelism: 4\nnum_pipeline_microbatches: 2\n")
    assert (again.fields["accumulation"], again.fields["micro_batch"], again.fields["vpp"]) == (2, 2, 3)


@pytest.mark.parametrize(("more", "gpus", "expected"), [
    ("ici_fsdp_parallelism: -1\n", 16, {"gpus": 16, "dp_shard": None}),  # a TPU's slice
    ("ici_fsdp_parallelism: -1\nhardware: gpu\n", 32, {"gpus": 32, "dp_shard": 8}),  # four nodes of replicas
    ("ici_tensor_parallelism: 4\nici_fsdp_parallelism: -1\n", 16, {"tp": 4, "dp_shard": None}),
    ("ici_fsdp_parallelism: 8\ndcn_data_parallelism: -1\n", 32, {"gpus": 32, "dp_shard": 8}),
])  # fmt: skip
def test_minus_one_takes_what_is_left(more, gpus, expected):
    found = study(BASE + more, gpus=gpus).fields
    assert {name: found.get(name) for name in expected} == expected


def test_dimensions_are_multiplied_as_the_scale_is_dealt_out():
    text = "per_device_batch_size: 1\nmax_target_length: 2048\nici_fsdp_parallelism: 8\nremat_policy: full\n"
    plain, scaled = study(text).fields, study(f"{text}global_parameter_scale: 32\n").fields
    # 32 = 2^5: once round (heads, width, hidden, layers), then heads and width, then hidden once more
    assert [scaled[name] // plain[name] for name in ("heads", "ffn_hidden", "hidden", "layers")] == [4, 4, 4, 2]
    half = study(f"{text}global_parameter_scale: 16\n").fields
    assert [half[name] // plain[name] for name in ("heads", "ffn_hidden", "hidden", "layers")] == [4, 4, 2, 2]
    assert [plain[name] for name in ("hidden", "heads", "kv_heads", "ffn_hidden", "layers", "vocab")] == [
        2048, 16, 16, 7168, 16, 32000]  # fmt: skip


def test_a_model_s_file_is_a_model():
    found = study(f"{SIZES}vocab_size: 262_144\nhead_dim: 64\nlogits_via_embedding: true\nuse_qk_norm: true\n"
                  "mlp_activations: [gelu, linear]\ndecoder_block: qwen3\n", gpus=8)  # fmt: skip
    expected = {"hidden": 1024, "heads": 8, "kv_heads": 4, "ffn_hidden": 4096, "layers": 12, "vocab": 262144,
                "head_dim": 64, "tied": "on", "qk_norm": "on", "gated": "on", "micro_batch": 12,
                "seq_len": 2048}  # fmt: skip
    assert {name: found.fields.get(name) for name in expected} == expected
    assert any("max_target_length" in note for note in found.notes)
    assert any("per_device_batch_size" in note for note in found.notes)
    latent = study(f"{SIZES}decoder_block: deepseek\nattention_type: mla\nq_lora_rank: 64\nnum_experts: 8\n"
                   "num_experts_per_tok: 2\nbase_moe_mlp_dim: 512\nshared_experts: 1\nfirst_num_dense_layers: 1\n"
                   "routed_bias: true\n", gpus=8).fields  # fmt: skip
    expected = {"kv_lora_rank": 512, "q_lora_rank": 64, "head_dim": 128, "rope_head_dim": 64, "experts": 8, "top_k": 2,
                "moe_ffn_hidden": 512, "shared_experts": 1, "dense_layers": 1, "router_bias": "on",
                "kv_heads": None}  # fmt: skip
    assert {name: latent.get(name) for name in expected} == expected


@pytest.mark.parametrize(("more", "told"), [
    ("", "--set gpus=N"), (f"{MESH}opt_type: sgd\n", "only adamw"), (f"{MESH}quantization: int8\n", "int8"),
    (f"{MESH}remat_policy: minimal_offloaded\n", "host's memory"), (f"{MESH}remat_policy: some\n", "some"),
    (f"{MESH}use_dpo: true\n", "preferences"), (f"{MESH}per_device_batch_sise: 3\n", "per_device_batch_sise"),
    (f"{MESH}use_multimodal: true\n", "more than text"), (f"{MESH}ici_autoregressive_parallelism: 2\n", "only 1"),
    (f"{MESH}base_config: inference.yml\n", "no training step"), (f"{MESH}custom_new_key: 4\n", "custom_new_key"),
    ("dcn_data_parallelism: 1\nici_fsdp_parallelism: 4\nper_device_batch_size: 0.5\n", "not a whole number"),
])  # fmt: skip
def test_what_is_not_modelled_or_not_known_is_refused(more, told):
    base = BASE.replace("per_device_batch_size: 2\n", "") if "per_device_batch_size" in more else BASE
    assert told in refused(base + more)


def test_devices_that_do_not_divide_are_told():
    assert "do not divide" in refused(f"{BASE}ici_fsdp_parallelism: -1\nici_tensor_parallelism: 8\n", gpus=12)
    assert "the mesh has 64 devices, not 32" in refused(BASE + MESH, gpus=32)
    assert "give --model NAME" in refused(BASE.replace("llama3.1-70b", "nobody-1b") + MESH)


SCRIPT = """B=4
export LIBTPU_INIT_ARGS="--xla_enable_async_all_gather=true"
python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml run_name=$RUN model_name=llama2-7b \\
    per_device_batch_size=$B ici_fsdp_parallelism=8 dcn_data_parallelism=2 remat_policy='minimal' \\
    max_target_length=4096 base_output_directory=$OUTPUT
"""
XPK = """ARGS="model_name=llama3.1-70b per_device_batch_size=2 max_target_length=8192 ici_fsdp_parallelism=-1"
xpk workload create --device-type=v6e-256 --num-slices=2 \\
    --command="set -e && python3 -m MaxText.train MaxText/configs/base.yml ${ARGS} | tee train.log"
"""


def test_scripts_are_read_with_their_variables():
    found = import_text(SCRIPT, "train.sh")
    expected = {"gpus": 16, "dp_shard": 8, "micro_batch": 4, "seq_len": 4096, "recompute": "core_attn+layernorm"}
    assert found.model == "llama-2-7b"
    assert {name: found.fields.get(name) for name in expected} == expected
    through = import_text(XPK, "run.sh").fields
    assert (through["gpus"], through["dp_shard"], through["micro_batch"]) == (512, 256, 2)
    with pytest.raises(ConfigError, match=r"\$LENGTH"):
        import_text(SCRIPT.replace("=4096", "=$LENGTH"), "train.sh")
    with pytest.raises(ConfigError, match="no training step"):
        import_text(SCRIPT.replace("pre_train.train", "decode"), "train.sh")

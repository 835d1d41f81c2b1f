"""Files of other tools as studies: what is read, what is refused, and that nothing is lost on the way."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from comp_comm.configs import strict_yaml
from comp_comm.configs.importers.hf_families import FAMILIES
from comp_comm.configs.importers.megatron_model import pattern
from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.importers.shell import Shell
from comp_comm.configs.importers.shell_words import expand
from comp_comm.configs.model_file import load_any, load_model
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import ConfigError

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "user_files"
REFUSED = {
    "gemma-4": ("'gemma4' is not modelled: it has layers that attend to everything with heads of another dimension",),
    "TEMPLATE": ("train_batch_size: 'CONFIG_BATCH_SIZE'", "fp16.enabled", "curriculum_learning"),
    "bloom-175b": ("is none of what can be imported", "hidden_dim"),
    "meg_gpt2_perf": ("is none of what can be imported",),
}  # fmt: skip
KINDS = ("hf_config", "deepspeed_json", "nemo_yaml", "torchtitan_toml", "llm_analysis_model_json", "training_logs")


def user_files():
    return [path for kind in KINDS for path in sorted((SHARED / kind).glob("*"))] if SHARED.is_dir() else []


@pytest.fixture
def runs(compcomm, tmp_path):
    """Import a file; check that the study explains and sweeps, and goes round; return its fields."""

    def check(path, *more):
        study, again = tmp_path / "study.yaml", tmp_path / "again.yaml"
        code, _, err = compcomm("import", path, "-o", study, *more)
        assert code == 0, err
        layout = ("--hardware", "h100-sxm", "--set", "seq_len=2048")
        code, out, err = compcomm("explain", study, *layout, "--format", "json")
        assert code == 0, err
        assert json.loads(out)["step_s"] > 0
        code, out, err = compcomm("sweep", study, "--set", "hardware=h100-sxm", "--set", "seq_len=[1024, 2048]",
                                  "--format", "json")  # fmt: skip
        assert code in (0, 3), err  # a model too large for a device is no mistake of the study
        goes_round(compcomm, path, study, again, more)
        return strict_yaml.load(study.read_bytes(), "study.yaml").data

    return check


def goes_round(compcomm, path, study, again, more):
    """Import, show, import: the same study; and the same model shown from either."""
    shown = study.with_name("shown.json")
    assert compcomm("models", "show", study, "--format", "json", "-o", shown)[0] == 0
    for source in (shown, study):
        assert compcomm("import", source, "-o", again)[0] == 0
        assert strict_yaml.load(again.read_bytes(), "a").data == strict_yaml.load(study.read_bytes(), "s").data
    first = json.loads(shown.read_text())
    if not more:
        code, out, _ = compcomm("models", "show", path, "--format", "json")
        assert code == 0
        other = json.loads(out)
        for key in (*first["fields"], "parameters", "active_parameters", "mtp_parameters", "layout", "study"):
            assert first[key] == other[key], key


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="files that users hold are not beside the checkout (data/user_files)")
@pytest.mark.parametrize("path", user_files(), ids=lambda path: path.name)
def test_files_that_users_hold(path, runs, compcomm):
    refused = next((parts for name, parts in REFUSED.items() if name in path.name), None)
    if refused is None:
        runs(path)
        return
    code, out, err = compcomm("import", path)
    assert (code, out) == (2, "")
    assert all(part in err for part in refused), err


@pytest.mark.skipif(not SHARED.is_dir(), reason="files that users hold are not beside the checkout (data/user_files)")
@pytest.mark.parametrize(("name", "model"), [
    ("Qwen--Qwen3-32B", "qwen3-32b"), ("deepseek_v3", "deepseek-v3"), ("Meta-Llama-3.1-70B", "llama-3.1-70b"),
    ("Mixtral-8x7B", "mixtral-8x7b"), ("gpt-oss-120b", "gpt-oss-120b"), ("qwen3-30B-A3B", "qwen3-30b-a3b"),
    ("NVIDIA-Nemotron", "nemotron-3-nano-30b-a3b"),
])  # fmt: skip
def test_the_catalogue_agrees_with_files_that_users_hold(name, model):
    path = next(path for path in user_files() if name in path.name)
    found, ours = load_model(str(path)).transformer(), load_model(model).transformer()
    for dimension in ours.__dataclass_fields__:
        if dimension not in ("seq_len", "max_positions", "encoder_seq_len"):
            pair = getattr(found, dimension), getattr(ours, dimension)
            assert pair[0] == pair[1] or np.all(np.isnan(pair)), dimension


# ---- Hugging Face ---------------------------------------------------------------------------------------------------

LLAMA = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
         "num_attention_heads": 8, "vocab_size": 1000, "max_position_embeddings": 256}  # fmt: skip


def hf(**keys):
    return {key: value for key, value in {**LLAMA, **keys}.items() if value != "-"}


def gpt(kind, **keys):
    return {"model_type": kind, **keys}


def imported(data, file="config.json", **more):
    return import_text(json.dumps(data, indent=1) if isinstance(data, dict) else data, file, **more)


def total(fields):
    from comp_comm.configs.model_file import Model

    return int(model_parameters(Model("x", "x", 0, "", fields).transformer())[0])


CONFIGS = {
    "gpt2": (124439808, gpt("gpt2", n_embd=768, n_layer=12, n_head=12, n_positions=1024, n_ctx=1024, vocab_size=50257,
                            n_inner=None, resid_pdrop=0.1)),
    "gpt-neo": (1315575808, gpt("gpt_neo", hidden_size=2048, num_layers=24, num_heads=16, vocab_size=50257,
                                max_position_embeddings=2048, attention_types=[[["global", "local"], 12]],
                                window_size=256, intermediate_size=None)),
    "gpt-j": (6050882784, gpt("gptj", n_embd=4096, n_layer=28, n_head=16, n_positions=2048, vocab_size=50400,
                              rotary_dim=64, tie_word_embeddings=False)),
    "pythia": (6857302016, gpt("gpt_neox", hidden_size=4096, intermediate_size=16384, num_hidden_layers=32,
                               num_attention_heads=32, vocab_size=50432, max_position_embeddings=2048,
                               use_parallel_residual=True, tie_word_embeddings=False)),
    "starcoder": (15517456384, gpt("gpt_bigcode", n_embd=6144, n_head=48, n_layer=40, n_positions=8192, n_inner=24576,
                                   vocab_size=49152, multi_query=True)),
    "opt": (6658473984, gpt("opt", hidden_size=4096, ffn_dim=16384, num_hidden_layers=32, num_attention_heads=32,
                            vocab_size=50272, max_position_embeddings=2048, word_embed_proj_dim=4096, dropout=0.1,
                            do_layer_norm_before=True)),
    "bloom": (7069016064, gpt("bloom", n_embed=4096, n_layer=30, num_attention_heads=32, vocab_size=250880,
                              seq_length=2048, unk_token_id=0)),
    "falcon-7b": (6921720704, gpt("falcon", hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, bias=False,
                                  vocab_size=65024, multi_query=True, parallel_attn=True, alibi=False,
                                  new_decoder_architecture=False)),
    "falcon-40b": (41303293952, gpt("RefinedWeb", hidden_size=8192, n_layer=60, n_head=128, n_head_kv=8, bias=False,
                                    vocab_size=65024, new_decoder_architecture=True, alibi=False)),
    "mpt": (6649286656, gpt("mpt", d_model=4096, n_heads=32, n_layers=32, max_seq_len=2048, expansion_ratio=4,
                            vocab_size=50432, no_bias=True, norm_type="low_precision_layernorm", learned_pos_emb=True,
                            attn_config={"alibi": True, "attn_type": "multihead_attention", "qk_ln": False,
                                         "clip_qkv": None}, init_config={"name": "kaiming"})),
    "bert": (335141888, gpt("bert", hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, vocab_size=30522,
                            num_attention_heads=16, max_position_embeddings=512, type_vocab_size=2)),
    "roberta": (124645632, gpt("roberta", hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
                               num_attention_heads=12, vocab_size=50265, max_position_embeddings=514,
                               type_vocab_size=1)),
    "t5": (11307321344, gpt("t5", d_model=1024, d_ff=65536, d_kv=128, num_layers=24, num_heads=128, vocab_size=32128,
                            n_positions=512, relative_attention_num_buckets=32, is_encoder_decoder=True)),
    "flan-t5": (247577856, gpt("t5", d_model=768, d_ff=2048, d_kv=64, num_layers=12, num_decoder_layers=12,
                               num_heads=12, vocab_size=32128, n_positions=512, feed_forward_proj="gated-gelu",
                               is_encoder_decoder=True, tie_word_embeddings=False)),
    "vit": (86567656, gpt("vit", architectures=["ViTForImageClassification"], hidden_size=768, intermediate_size=3072,
                          num_hidden_layers=12, num_attention_heads=12, image_size=224, patch_size=16, num_channels=3,
                          id2label={str(i): "x" for i in range(1000)})),
    "phi-2": (2779683840, gpt("phi", hidden_size=2560, intermediate_size=10240, num_hidden_layers=32, vocab_size=51200,
                              num_attention_heads=32, max_position_embeddings=2048, tie_word_embeddings=False)),
    "phi-3": (3821079552, hf(model_type="phi3", hidden_size=3072, intermediate_size=8192, num_hidden_layers=32,
                             num_attention_heads=32, num_key_value_heads=32, vocab_size=32064, sliding_window=2047,
                             attention_bias=False)),
    "llama-3-8b": (8030261248, hf(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, vocab_size=128256,
                                  num_attention_heads=32, num_key_value_heads=8)),
    "qwen2.5-0.5b": (494032768, hf(model_type="qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                                   num_attention_heads=14, num_key_value_heads=2, vocab_size=151936,
                                   tie_word_embeddings=True, use_sliding_window=False, sliding_window=32768,
                                   max_window_layers=24)),
    "qwen1.5-moe": (14315784192, hf(model_type="qwen2_moe", hidden_size=2048, intermediate_size=5632,
                                    num_hidden_layers=24, num_attention_heads=16, vocab_size=151936, num_experts=60,
                                    num_experts_per_tok=4, moe_intermediate_size=1408, decoder_sparse_step=1,
                                    shared_expert_intermediate_size=5632)),
    "deepseek-v2-lite": (15706484224, hf(model_type="deepseek_v2", hidden_size=2048, intermediate_size=10944,
                                         num_hidden_layers=27, num_attention_heads=16, q_lora_rank=None,
                                         kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                                         n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
                                         moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1,
                                         topk_method="greedy", vocab_size=102400)),
    "gemma-2-9b": (9241705984, hf(model_type="gemma2", hidden_size=3584, intermediate_size=14336, num_hidden_layers=42,
                                  num_attention_heads=16, num_key_value_heads=8, head_dim=256, vocab_size=256000,
                                  sliding_window=4096)),
    "gemma-3-4b": (3880263168, {"model_type": "gemma3", "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152}, "mm_tokens_per_image": 256}),
    "llama-4-maverick": (400711848960, {"model_type": "llama4", "text_config": {
        **LLAMA, "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "num_hidden_layers": 48,
        "intermediate_size_mlp": 16384, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 202048, "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
        "attention_chunk_size": 8192, "max_position_embeddings": 1048576, "use_qk_norm": False}}),
    "olmo-2-7b": (7298617344, hf(model_type="olmo2", hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
                                 num_attention_heads=32, vocab_size=100352)),
    "stablelm-2": (1644515328, hf(model_type="stablelm", hidden_size=2048, intermediate_size=5632, vocab_size=100352,
                                  num_hidden_layers=24, num_attention_heads=32, use_qkv_bias=True,
                                  use_parallel_residual=False)),
    "command-r": (34980831232, hf(model_type="cohere", hidden_size=8192, intermediate_size=22528, vocab_size=256000,
                                  num_hidden_layers=40, num_attention_heads=64, logit_scale=0.0625)),
    "dbrx": (131596523520, gpt("dbrx", d_model=6144, n_heads=48, n_layers=40, max_seq_len=32768, vocab_size=100352,
                               tie_word_embeddings=False, attn_config={"kv_n_heads": 8, "clip_qkv": 8},
                               ffn_config={"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4})),
}  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize("name", CONFIGS)
def test_counts_of_published_models_from_their_config(name):
    count, config = CONFIGS[name]
    assert total(imported(config).fields) == count


@pytest.mark.a_third
@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_makes_a_study(name, runs, tmp_path):
    path = tmp_path / "model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIGS[name][1]))
    size = "197" if name == "vit" else "512" if name in ("bert", "roberta", "t5", "flan-t5") else "2048"
    runs(path, *(("--set", f"seq_len={size}") if size != "2048" else ()))


@pytest.mark.a_third
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_names_what_it_does_not_know(name):
    config = hf(model_type=name, frobnicate=3, attn_config={}, ffn_config={})
    with pytest.raises(ConfigError) as caught:
        imported(config)
    assert "frobnicate: '3' is not understood" in str(caught.value)


def test_a_config_is_a_model_of_a_study(tmp_path, compcomm):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    study = tmp_path / "study.yaml"
    study.write_text("hardware: h100-sxm\nmodel: config.json\nset: {gpus: 8, tp: 8}\n")
    code, _, err = compcomm("explain", study, "--format", "json")
    assert code == 0, err
    assert compcomm("models", "show", tmp_path / "config.json")[0] == 0


def test_windows_and_layers_of_a_kind():
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    base = {"model_type": "qwen3", "num_hidden_layers": 8, "sliding_window": 128}
    assert imported(hf(**base, layer_types=kinds * 2)).fields["global_every"] == 4
    assert "global_every" not in imported(hf(**base, layer_types=["sliding_attention"] * 8)).fields
    assert "window" not in imported(hf(**base, layer_types=["full_attention"] * 8)).fields
    assert "window" not in imported(hf(**{**base, "sliding_window": None})).fields
    assert "window" not in imported(hf(**base, use_sliding_window=False)).fields
    assert imported(hf(**base, use_sliding_window=True, max_window_layers=4)).fields["global_every"] == 2


@pytest.mark.parametrize(("change", "fields"), [
    ({"decoder_sparse_step": 2}, {"moe_every": 2}), ({"mlp_only_layers": [0, 1]}, {"dense_layers": 2}),
    ({"decoder_sparse_step": 1}, {}), ({"num_experts": 0}, {"experts": None}),
])  # fmt: skip
def test_which_layers_are_experts(change, fields):
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, **change}
    found = imported(hf(model_type="qwen3_moe", **experts)).fields
    for name in ("moe_every", "dense_layers"):
        assert found.get(name) == fields.get(name)
    assert ("experts" in found) == ("experts" not in fields)


@pytest.mark.parametrize(("change", "parts"), [
    ({"model_type": "Yi", "hidden_size": "-"}, ("'hidden_size' is missing",)),
    ({"hidden_size": "wide", "num_hidden_layers": 0}, ("hidden_size: 'wide' is not a number",
                                                       "num_hidden_layers: 0 is out of range")),
    ({"model_type": "lama"}, ("'lama' is not understood; did you mean 'llama'?",)),
    ({"model_type": "mamba2", "state_size": 128}, ("'num_heads' is missing",)),
    ({"model_type": "rwkv6", "attention_hidden_size": 128}, ("'rwkv6' is not modelled: it has RWKV's time mixing",)),
    ({"text_config": {"model_type": "gemma4_text"}, "model_type": "gemma4"}, ("'gemma4' is not modelled",)),
    ({"model_type": "qwen3", "layer_types": ["linear_attention"] * 4}, ("layers of linear_attention",)),
    ({"model_type": "qwen3", "layer_types": ["full_attention"]}, ("must list the kind of each of the 4 layers",)),
    ({"attention_bias": "yes"}, ("attention_bias: 'yes' is neither true nor false",)),
    ({"is_encoder_decoder": True}, ("is_encoder_decoder: 'true' is not understood; only false",)),
    ({"model_type": "opt", "word_embed_proj_dim": 256}, ("word_embed_proj_dim: '256' is not understood; only 512",)),
    ({"num_attention_heads": 7}, ("heads does not divide hidden",)),
    ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3}, ("top_k exceeds experts",)),
    ({"vocab_size": True}, ("vocab_size",)),
])  # fmt: skip
def test_what_a_config_is_refused_for(change, parts, tmp_path, compcomm):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(hf(**change), indent=1))
    code, out, err = compcomm("import", path, "-o", tmp_path / "study.yaml")
    assert (code, out) == (2, "")
    assert all(part in err for part in parts), err
    assert not (tmp_path / "study.yaml").exists()


def test_a_problem_has_the_line_of_its_key(tmp_path, compcomm):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(hf(frobnicate=1, twist={"a": 1}), indent="\t"))
    err = compcomm("import", path)[2]
    assert f"{path}:9: frobnicate: '1' is not understood" in err
    assert f"{path}:10: twist: a mapping is not understood" in err


# ---- Megatron-LM ----------------------------------------------------------------------------------------------------

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=4
# it's a launch script
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-"1"}
SIZE=small
TP=${TP:-4}; PP=2
if [[ $SIZE == "large" ]]; then
    HIDDEN=8192
elif [ "$SIZE" = small ]; then
    HIDDEN=4096
else
    echo unknown size; exit 1
fi
case $SIZE in
  large) LAYERS=80 ;;
  small|tiny)
    LAYERS=32
    ;;
esac
while [[ $# -gt 0 ]]; do
  case $1 in
    --tp) TP="$2"; shift 2 ;;
    *) exit 1 ;;
  esac
done
DISTRIBUTED=(--nproc_per_node $GPUS_PER_NODE --nnodes "$NNODES" --master_addr $MASTER_ADDR)
MODEL=(
    --num-layers $LAYERS   # twice sixteen
    --hidden-size ${HIDDEN}
    --ffn-hidden-size $(( HIDDEN * 7 / 2 ))
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    # --num-experts 8
    --seq-length 4096
    --max-position-embeddings 4096
    --swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope
    --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0
    --vocab-size 32000
)
[ "$TP" -gt 1 ] && SP="--sequence-parallel"
PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \\
    --num-layers-per-virtual-pipeline-stage 4 $SP"
PARALLEL+=" --use-distributed-optimizer --overlap-grad-reduce"
if [ -n "${WANDB_API_KEY}" ]; then
    PARALLEL+=" --wandb-project x"
fi
torchrun ${DISTRIBUTED[@]} pretrain_gpt.py "${MODEL[@]}" $PARALLEL \\
    --micro-batch-size 2 --global-batch-size $((64 * NNODES)) --bf16 --lr 3e-4 --clip-grad 1.0 \\
    --recompute-granularity full --recompute-method block --recompute-num-layers 4 \\
    --tp-comm-overlap --data-path $1 --save ${CHECKPOINT} 2>&1 | tee train.log
"""
FLAGS = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 2 --bf16"


def megatron(text, **given):
    return import_text(text, "train.sh", given)


def test_a_launch_script_is_model_and_layout(runs, tmp_path):
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    assert runs(path)["set"] == {
        "hidden": 4096, "seq_len": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "ffn_hidden": 14336, "gated": "on",
        "norm": "rmsnorm", "bias": "off", "position": "rope", "vocab": 32000, "tied": "off", "dropout": "off",
        "gpus": 32, "micro_batch": 2, "global_batch": 256, "tp": 4, "sp": "on", "pp": 2, "vpp": 4, "zero": 1,
        "recompute": "full", "recompute_layers": 4, "overlap_dp": "on", "overlap_tp": "on", "overlap_pp": "on",
        "precision": "bf16", "grad_precision": "fp32", "cross_entropy": "unfused",
    }  # fmt: skip


@pytest.mark.parametrize("text", [
    FLAGS, FLAGS.replace(" --", "\n--"), FLAGS.replace(" --", " \\\n  --"), "python pretrain_gpt.py " + FLAGS,
    f'ARGS="{FLAGS}"\neval "torchrun --nproc_per_node=2 pretrain_gpt.py $ARGS"\n',
    f"ARGS=({FLAGS})\nsrun bash -c \"python -m pretrain_gpt ${{ARGS[*]}}\"\n",
    f"sbatch <<EOF\n#!/bin/bash\nsrun python /opt/megatron/pretrain_gpt.py {FLAGS}\nEOF\n",
    FLAGS.replace("-layers 4", "-layers=4").replace("--num-attention-heads", "--num_attention_heads"),
    "MODEL_ARGS:\n" + "".join(f"  --{a}: {b}\n" for a, b in [
        ("num-layers", 4), ("hidden-size", 256), ("num-attention-heads", 4), ("seq-length", 128),
        ("micro-batch-size", 2), ("bf16", "true")]),
    f"function train {{\n  local extra=''\n  python pretrain_gpt.py {FLAGS} $extra\n}}\ntrain\n",
    f"for seed in 1; do python pretrain_gpt.py {FLAGS} --seed $seed; done\n",
])  # fmt: skip
def test_arguments_in_many_spellings(text):
    found = megatron(text).fields
    assert (found["layers"], found["hidden"], found["heads"], found["seq_len"]) == (4, 256, 4, 128)
    assert (found["micro_batch"], found["precision"], found["vocab"], found["position"]) == (
        2,
        "bf16",
        50257,
        "learned",
    )


@pytest.mark.parametrize(("more", "fields"), [
    ("", {"zero": 0, "sp": "off", "overlap_dp": "off", "bias": "on", "tied": "on", "gated": "off", "dropout": "on"}),
    ("--use-distributed-optimizer", {"zero": 1}), ("--use-torch-fsdp2", {"zero": 3}),
    ("", {"cross_entropy": "unfused"}), ("--cross-entropy-fusion-impl te", {"cross_entropy": "unfused"}),
    ("--cross-entropy-loss-fusion", {"cross_entropy": "fused_native"}),
    ("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", {"cross_entropy": "fused"}),
    ("--cross-entropy-loss-fusion --no-cross-entropy-loss-fusion", {"cross_entropy": "unfused"}),
    ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", {"zero": 2}),
    ("--recompute-activations", {"recompute": "selective"}),
    ("--recompute-granularity selective --recompute-modules mlp layernorm", {"recompute": "layernorm+mlp"}),
    ("--recompute-granularity selective --recompute-modules core_attn moe_act", {"recompute": "selective"}),
    ("--recompute-granularity selective --recompute-modules mla_up_proj", {"recompute": "none"}),
    ("--num-experts 8 --recompute-granularity selective --recompute-modules moe_act mlp", {"recompute": "moe_act"}),
    ("--cpu-offloading-num-layers 2", {"offload_activations": 2}),
    ("--cpu-offloading-num-layers 0", {"offload_activations": None}),
    ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", {"recompute": "full"}),
    ("--num-query-groups 2", {"kv_heads": None}), ("--group-query-attention --num-query-groups 2", {"kv_heads": 2}),
    ("--add-qkv-bias --disable-bias-linear", {"bias": "qkv"}), ("--qk-layernorm", {"qk_norm": "on"}),
    ("--fp8-format hybrid", {"precision": "fp8"}), ("--grad-reduce-in-bf16", {"grad_precision": "bf16"}),
    ("--context-parallel-size 2 --cp-comm-type a2a", {"cp": 2, "cp_comm": "all_to_all"}),
    ("--num-experts 8 --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall --moe-ffn-hidden-size 64",
     {"experts": 8, "top_k": 2, "ep": 4, "gpus": 4, "moe_ffn_hidden": 64}),
    ("--num-experts 8 --moe-layer-freq [0]*1+[1]*3", {"dense_layers": 1, "moe_every": None}),
    ("--num-experts 8 --moe-layer-freq 2 --moe-router-topk 1", {"moe_every": 2, "top_k": 1}),
    ("--num-experts 8 --moe-shared-expert-intermediate-size 96", {"shared_experts": 1, "shared_ffn_hidden": 96}),
    ("--num-experts 16 --deepspeed --topk 1 --zero-stage 2 --moe-train-capacity-factor 1.25",
     {"moe_every": 2, "top_k": 1, "zero": 2, "capacity_factor": 1.25}),
    ("--window-size 128,0 --window-attn-skip-freq 4", {"window": 128, "global_every": 4}),
    ("--transformer-impl local", {"attention_kernel": "unfused"}),
    ("--transformer-impl local --use-flash-attn", {"attention_kernel": None}),
    ("--optimizer-cpu-offload", {"offload_optimizer": "on"}), ("--mtp-num-layers 1", {"mtp_layers": 1}),
    ("--use-tp-pp-dp-mapping", {"placement": "tp-cp-pp-dp"}), ("--kv-channels 32", {"head_dim": 32}),
    ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model Qwen/Qwen3-32B", {"vocab": 151936}),
    ("--use-rotary-position-embeddings", {"position": "rope", "max_positions": None}),
    ("--multi-latent-attention --q-lora-rank 64 --kv-lora-rank 32 --qk-head-dim 32 --qk-pos-emb-head-dim 16 "
     "--v-head-dim 32", {"kv_lora_rank": 32, "head_dim": 32, "rope_head_dim": 16, "q_lora_rank": 64, "v_head_dim": 32}),
    ("--num-layers 8 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
     {"layers": 8, "vpp": 2, "overlap_pp": "on"}),
])  # fmt: skip
def test_what_an_argument_means(more, fields):
    found = megatron(f"{FLAGS} {more}").fields
    assert {name: found.get(name) for name in fields} == fields


@pytest.mark.parametrize(("more", "part"), [
    ("--frobnicate 3", "--frobnicate: '3' is not understood"),
    ("--moe-layer-freq five --num-experts 4", "--moe-layer-freq: 'five' is not understood"),
    ("--num-experts 4 --expert-model-parallel-size 2 --moe-token-dispatcher-type ring", "'ring' is not"),
    ("--hybrid-override-pattern MXM*", "--hybrid-override-pattern: 'MXM*' is not understood"),
    ("--position-embedding-type relative", "--position-embedding-type: 'relative' is not understood; only"),
    ("--tensor-model-parallel-size many", "--tensor-model-parallel-size: 'many' is not a number"),
    ("--tensor-model-parallel-size required", "--tensor-model-parallel-size: 'required' is not a number"),
    ("--normalization GroupNorm", "--normalization: 'GroupNorm' is not understood; only LayerNorm and RMSNorm"),
    ("--num-distributed-optimizer-instances 2", "--num-distributed-optimizer-instances: is not understood"),
    ("--tokenizer-type SentencePieceTokenizer --tokenizer-model /a.model", "is not known; give --set vocab=N"),
    ("--global-batch-size $GBS", "--global-batch-size: '$GBS' is not set in the script; give --set global_batch=N"),
    ("--sequence-parallel maybe", "--sequence-parallel: 'maybe' is neither true nor false"),
    ("--deepspeed --deepspeed_config ds.json", "give --set zero=N"),
])  # fmt: skip
def test_what_arguments_are_refused_for(more, part):
    with pytest.raises(ConfigError) as caught:
        megatron(f"{FLAGS} {more}")
    assert part in str(caught.value)


def test_everything_wrong_is_said_at_once_with_its_line(tmp_path, compcomm):
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT.replace("--swiglu", "--swigloo").replace("--clip-grad 1.0", "--clip-gradient 1"))
    code, out, err = compcomm("import", path)
    assert (code, out) == (2, "")
    assert f"{path}:36: --swigloo: 'true' is not understood" in err
    assert f"{path}:48: --clip-gradient: '1' is not understood" in err


def test_what_a_script_leaves_open_is_given_beside_it(tmp_path, compcomm):
    path = tmp_path / "train.sh"
    path.write_text(FLAGS + " --global-batch-size $GBS --tensor-model-parallel-size ${TP}\n")
    code, out, _ = compcomm("import", path, "--set", "global_batch=64", "--set", "tp=2", "--set", "gpus=16")
    found = strict_yaml.load(out, "x").data["set"]
    assert code == 0
    assert (found["global_batch"], found["tp"], found["gpus"]) == (64, 2, 16)


def test_a_branch_that_is_not_decided_is_named():
    script = f"if [ -f last.txt ]; then EXTRA='--swiglu'; fi\npython pretrain_gpt.py {FLAGS} $EXTRA\n"
    with pytest.raises(ConfigError, match=r"'\$EXTRA' depends on a condition"):
        megatron(script)
    same = (
        f"if [ -f last.txt ]; then EXTRA='--swiglu'; else EXTRA=--swiglu; fi\npython pretrain_gpt.py {FLAGS} $EXTRA\n"
    )
    assert megatron(same).fields["gated"] == "on"


def test_devices_that_do_not_hold_the_layout_are_left_out_and_said():
    found = megatron(f"torchrun --nproc_per_node 8 pretrain_gpt.py {FLAGS} --tensor-model-parallel-size 16")
    assert "gpus" not in found.fields
    assert "the 8 devices of the file do not hold tp x pp x cp = 16" in " ".join(found.notes)


def test_lists_as_python_writes_them():
    assert pattern("([0]*2+[1]*2)*2", 8) == [False, False, True, True] * 2
    assert pattern("[0, 1]", 2) == [False, True]
    assert pattern("[0]*99999999999", 4) is None
    assert pattern("__import__('os')", 4) is None


@pytest.mark.parametrize(("word", "values", "words"), [
    ("$A", {"A": "1 2"}, ["1", "2"]), ('"$A"', {"A": "1 2"}, ["1 2"]), ("'$A'", {"A": "1"}, ["$A"]),
    ("x${A}y", {"A": "-"}, ["x-y"]), ("${A:-b c}", {}, ["b", "c"]), ("${A:-}", {}, []),
    ("${A:+on}", {"A": "1"}, ["on"]), ("${A[@]}", {"A": ["1", "2"]}, ["1", "2"]), ("$((1+2*N))", {"N": "3"}, ["7"]),
    (r"a\ b", {}, ["a b"]), ("''", {}, [""]), ('"${A[@]}"', {"A": []}, []),
])  # fmt: skip
def test_words_as_a_shell_expands_them(word, values, words):
    assert expand(word, values) == words


def test_a_shell_that_only_reads():
    shell = Shell()
    shell.run("A=1; A+=2\nif [ $A -eq 12 ] && [ -z \"$B\" ]; then C=yes; else C=no; fi\nexport D=$C E='x y'\nf $E")
    assert {name: shell.values[name] for name in "ACDE"} == {"A": "12", "C": "yes", "D": "yes", "E": "x y"}
    assert shell.commands[-1] == ["f", "x", "y"]


# ---- NeMo, torchtitan, DeepSpeed ------------------------------------------------------------------------------------

NEMO = """\
run: {name: my_gpt}
trainer: {num_nodes: 2, devices: 8, precision: bf16, max_steps: 10}
model:
  micro_batch_size: 2
  global_batch_size: ${multiply:8, ${trainer.num_nodes}}
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 2
  encoder_seq_length: 1024
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 8
  hidden_size: 1024
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  activation: geglu
  normalization: layernorm1p
  sequence_parallel: True
  tokenizer: {library: megatron, type: GPT2BPETokenizer}
  activations_checkpoint_granularity: selective
  optim: {name: distributed_fused_adam, overlap_grad_sync: False, lr: 1e-4}
  data: {data_prefix: [1.0, "${data_dir}/x"], seq_length: 1024}
"""


def test_a_nemo_file(runs, tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text(NEMO)
    study = runs(path)
    assert study["title"] == "my_gpt"
    assert study["set"] == {
        "hidden": 1024, "seq_len": 1024, "layers": 8, "heads": 16, "ffn_hidden": 4096, "gated": "on",
        "norm": "layernorm", "bias": "on", "position": "learned", "max_positions": 1024, "vocab": 50257, "tied": "on",
        "dropout": "on", "gpus": 16, "micro_batch": 2, "global_batch": 16, "tp": 4, "sp": "on", "pp": 2, "vpp": 2,
        "overlap_pp": "off",
        "zero": 1, "recompute": "selective", "overlap_dp": "off", "precision": "bf16", "cross_entropy": "unfused",
        "grad_precision": "fp32",
    }  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize(("keys", "fields"), [
    ("cross_entropy_loss_fusion: True", {"cross_entropy": "fused_native"}),
    ("cross_entropy_loss_fusion: True\n  cross_entropy_loss_fusion_impl: te", {"cross_entropy": "fused"}),
    ("recompute_modules: [core_attn, mlp]", {"recompute": "core_attn+mlp"}),
    ("cpu_offloading: True\n  cpu_offloading_num_layers: 3", {"offload_activations": 3}),
    ("cpu_offloading: False\n  cpu_offloading_num_layers: 3", {"offload_activations": None}),
])  # fmt: skip
def test_what_nemo_makes_again_or_leaves_with_the_host(keys, fields, runs, tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text(NEMO.replace("  optim:", f"  {keys}\n  optim:"))
    assert {name: runs(path)["set"].get(name) for name in fields} == fields


@pytest.mark.parametrize(("rates", "dropout"), [
    ("", "on"), ("hidden_dropout: 0.0", "on"), ("attention_dropout: 0.0", "on"),
    ("hidden_dropout: 0.0\n  attention_dropout: 0.0", "off"),
    ("hidden_dropout: 0\n  attention_dropout: 0\n  ffn_dropout: 0.1", "on"),
])  # fmt: skip
def test_nemo_drops_at_random_unless_the_file_says_not(rates, dropout):
    text = NEMO.replace("  num_layers: 8\n", f"  num_layers: 8\n  {rates}\n")
    assert import_text(text, "train.yaml").fields["dropout"] == dropout


@pytest.mark.parametrize(("old", "new", "parts"), [
    ("activation: geglu", "activation: swish", ("model.activation: 'swish' is not understood",)),
    ("  sequence_parallel: True", "  sequence_paralel: True", ("model.sequence_paralel: 'true' is not understood",)),
    ("  num_layers: 8\n", "", ("'model.num_layers' is missing",)),
    ("GPT2BPETokenizer", "mine", ("the vocabulary of model.tokenizer ('mine') is not known",)),
    ("precision: bf16", "precision: int8", ("trainer.precision: 'int8'",)),
    ("${.hidden_size}}", "${.width}}", ("model.ffn_hidden_size",)),
    ("trainer:", "coach: {}\ntrainer:", ("coach: a mapping is not understood",)),
])  # fmt: skip
def test_what_a_nemo_file_is_refused_for(old, new, parts, tmp_path, compcomm):
    path = tmp_path / "train.yaml"
    path.write_text(NEMO.replace(old, new))
    code, out, err = compcomm("import", path)
    assert (code, out) == (2, "")
    assert all(part in err for part in parts), err


TITAN = """\
# a preset for 64 GPUs
[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 4
seq_len = 4_096
global_batch_size = 128  # all of it

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"

[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"

[compile]
enable = true
"""


FOUNDRY = """
max_seq_len: 2048
global_train_batch_size: 64
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE}
train_loader: {name: text}
model:
  name: mpt_causal_lm
  d_model: 1024
  n_heads: 16
  n_layers: 24
  max_seq_len: 2048
  expansion_ratio: 4
"""


@pytest.mark.parametrize(("more", "loss"), [
    ("", "fused_metrics"), ("  use_train_metrics: false\n", "fused"), ("  loss_fn: torch_crossentropy\n", "eager"),
])  # fmt: skip
def test_metrics_that_llm_foundry_makes_of_logits(runs, tmp_path, more, loss):
    path = tmp_path / "mpt.yaml"
    path.write_text(FOUNDRY + more)
    assert runs(path)["set"]["cross_entropy"] == loss


def test_a_torchtitan_file(runs, tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(TITAN)
    study = runs(path)
    assert study["model"] == "llama-3.1-8b"
    assert study["set"] == {
        "sequence_inputs": "kept", "seq_len": 4096, "gpus": 64, "micro_batch": 1, "global_batch": 128,
        "tp": 2, "pp": 2, "vpp": 2,
        "overlap_pp": "off",
        "schedule": "interleaved", "dp_shard": 8, "zero": 1, "recompute": "full", "recompute_layers": 8,
        "kernels": "compiled", "precision": "bf16", "grad_precision": "fp32", "pp_layout": "torchtitan",
    }  # fmt: skip


def test_a_torchtitan_file_with_a_v_schedule(runs, tmp_path):
    """Two pieces a stage, which the schedule has by itself: the first and the last one are together."""
    path = tmp_path / "job.toml"
    path.write_text(TITAN.replace("Interleaved1F1B", "ZBVZeroBubble"))
    found = runs(path)["set"]
    assert (found["schedule"], found.get("vpp"), found["overlap_pp"]) == ("zb_v", None, "off")


@pytest.mark.a_third
@pytest.mark.parametrize(("keys", "fields"), [
    ('mode = "selective"\nselective_ac_option = "op"', {"recompute": "per_op"}),
    ('mode = "full"\nearly_stop = true', {"recompute": "full", "recompute_early_stop": "on"}),
    ('mode = "none"\nearly_stop = true', {"recompute": "none", "recompute_early_stop": None}),
    ('mode = "none"', {"kernels": "compiled", "cross_entropy": None}),
    ('mode = "none"\n[compile]\nenable = true\ncomponents = ["model"]',
     {"kernels": "compiled", "cross_entropy": "eager"}),
    ('mode = "none"\n[compile]\nenable = true\ncomponents = ["loss"]',
     {"kernels": "eager", "cross_entropy": "compiled"}),
])  # fmt: skip
def test_what_torchtitan_makes_again(keys, fields, runs, tmp_path):
    path = tmp_path / "job.toml"
    text = TITAN.replace("[compile]\nenable = true\n", "") if "[compile]" in keys else TITAN
    path.write_text(text.replace('mode = "selective"\nselective_ac_option = "2"', keys))
    assert {name: runs(path)["set"].get(name) for name in fields} == fields


def test_a_torchtitan_file_without_a_pipeline_has_its_master_weights_in_the_shards(runs, tmp_path):
    path = tmp_path / "job.toml"
    flat = TITAN.replace("pipeline_parallel_degree = 2", "").replace(
        'pipeline_parallel_schedule = "Interleaved1F1B"', ""
    )
    for more, shards in (("", "shards"), ('\ndtype = "bfloat16"', None)):
        path.write_text(flat.replace("[training]", f"[training]{more}"))
        found = runs(path)["set"]
        assert (found["zero"], found.get("master_weights")) == (3, shards)


@pytest.mark.a_third
@pytest.mark.parametrize(("pp", "policy", "zero"), [
    (2, None, 1), (2, "default", 1), (2, "never", 1), (2, "always", 3),
    (1, None, 3), (1, "default", 3), (1, "never", 3), (1, "always", 3),
])  # fmt: skip
def test_what_fsdp_is_beside_a_pipeline_and_without_one(pp, policy, zero, runs, tmp_path):
    """A pipeline's stages reduce gradients with their last micro-batch alone, and keep what they have gathered."""
    path, line = tmp_path / "job.toml", "pipeline_parallel_degree = 2"
    assert line in TITAN
    text = TITAN.replace(line, f"pipeline_parallel_degree = {pp}")
    if policy:
        text = text.replace("[parallelism]", f'[parallelism]\nfsdp_reshard_after_forward = "{policy}"')
    path.write_text(text)
    assert runs(path)["set"]["zero"] == zero


@pytest.mark.parametrize(("old", "new", "part"), [
    ('"8B"', '"9B"', "model.flavor: no model is called 'llama3' '9B'"),
    ("tensor_parallel_degree = 2", "tensor_paralel_degree = 2", ":14: parallelism.tensor_paralel_degree: '2'"),
    ('"Interleaved1F1B"', '"DualPipeV"', "pipeline_parallel_schedule: 'DualPipeV' is not understood"),
    ('mode = "selective"', 'mode = "some"', "mode: 'some' is not understood"),
    ("[compile]", "[compiler]", "compiler: a mapping is not understood"),
    ("enable = true", "enable = maybe", "not valid TOML"),
    ("shard_degree = 8", "shard_degree = -1", "give --set gpus=N"),
])  # fmt: skip
def test_what_a_torchtitan_file_is_refused_for(old, new, part, tmp_path, compcomm):
    path = tmp_path / "job.toml"
    path.write_text(TITAN.replace(old, new))
    code, out, err = compcomm("import", path)
    assert (code, out) == (2, "")
    assert part in err


def test_a_torchtitan_model_may_be_given(tmp_path, compcomm):
    path = tmp_path / "job.toml"
    path.write_text(TITAN.replace('"8B"', '"debugmodel"'))
    code, out, err = compcomm("import", path, "--model", "gpt2")
    assert code == 0, err
    assert strict_yaml.load(out, "x").data["model"] == "gpt2"


DEEPSPEED = {
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8, "contiguous_gradients": True,
                          "offload_optimizer": {"device": "cpu", "pin_memory": True},
                          "stage3_prefetch_bucket_size": 5e7},
    "bf16": {"enabled": True}, "gradient_clipping": 1.0, "data_types": {"grad_accum_dtype": "fp32"},
    "communication_data_type": "bf16", "wall_clock_breakdown": False,
}  # fmt: skip


def test_a_deepspeed_file_has_no_model(tmp_path, compcomm, runs):
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(DEEPSPEED))
    code, out, _ = compcomm("import", path)
    assert code == 0
    assert "# model: give one" in out
    assert strict_yaml.load(out, "x").data["set"] == {
        "micro_batch": 2, "global_batch": 64, "zero": 3, "zero_implementation": "deepspeed", "bucket": 5e8,
        "offload_optimizer": "on", "overlap_dp": "on", "precision": "bf16", "grad_precision": "bf16",
        "accumulate_precision": "fp32",
    }  # fmt: skip
    assert compcomm("models", "show", path)[0] == 2
    assert runs(path, "--model", "gpt2", "--set", "gpus=8", "--set", "offload_optimizer=off")["model"] == "gpt2"


def changed(**changes):
    data = copy.deepcopy(DEEPSPEED)
    for key, value in changes.items():
        place = data["zero_optimization"] if key.startswith("zero__") else data
        place[key.removeprefix("zero__")] = value
    return data


def test_a_deepspeed_file_that_does_not_speak_of_zero_shards_nothing():
    without = {name: value for name, value in DEEPSPEED.items() if name != "zero_optimization"}
    assert imported(without, "ds.json").fields["zero"] == 0
    assert imported(changed(zero_optimization={"overlap_comm": True}), "ds.json").fields["zero"] == 0


def test_what_trainers_fill_in_is_left_out():
    found = imported(changed(train_batch_size="auto", gradient_accumulation_steps="auto", bf16={"enabled": "auto"},
                             zero__reduce_bucket_size="auto"), "ds.json")  # fmt: skip
    assert not {"global_batch", "accumulation", "precision", "bucket"} & set(found.fields)
    assert sum("is 'auto'" in note for note in found.notes) == 4


@pytest.mark.parametrize(("data", "part"), [
    (changed(zero__stage=4), "zero_optimization.stage: 4 is out of range"),
    (changed(zero__stages=1), "zero_optimization.stages: '1' is not understood"),
    (changed(zero__offload_param={"device": "nvme"}), "offload_param: offloading of weights is not understood"),
    (changed(zero__zero_quantized_weights=True), "zero_quantized_weights: 'true' is not understood"),
    (changed(sparse_attention={"enabled": True}), "sparse_attention: 'true' is not understood"),
    (changed(train_batch=64), "train_batch: '64' is not understood"),
    (changed(bf16={"enabled": 1}), "bf16.enabled: '1' is neither true nor false"),
    (changed(zero_optimization=3), "zero_optimization: must be a mapping"),
])  # fmt: skip
def test_what_a_deepspeed_file_is_refused_for(data, part):
    with pytest.raises(ConfigError) as caught:
        imported(data, "ds.json")
    assert part in str(caught.value)


# ---- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "content", "part"), [
    ("a.json", "{}", "its keys are none"), ("a.json", '{"a": 1}', "its keys are a"), ("a.json", "{", "not valid YAML"),
    ("a.txt", "hello world: this: is: nothing", "is none of what can be imported"), ("a.txt", "", "is empty"),
    ("a.bin", b"\xff\xfe\x00", "is not text in UTF-8"), ("a.toml", '[a]\nb = 1\n', "is none of what can be imported"),
    ("a.json", '{"model_type": "llama", "model_type": "llama"}', "duplicate key"),
])  # fmt: skip
def test_a_file_of_no_kind(name, content, part, tmp_path, compcomm):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = compcomm("import", path, "-o", tmp_path / "out.yaml")
    assert (code, out) == (2, "")
    assert part in err
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize(("arguments", "part"), [
    (("--hardware", "h10-sxm"), "did you mean 'h100-sxm'"), (("--model", "gpt2"), "describes a model of its own"),
    (("--set", "tp"), "write it as key=value"), (("--set", "tpp=4"), "unknown key 'tpp'; did you mean 'tp'?"),
    (("--set", "tp=0"), "--set tp: 0 is out of range"), (("-o", "no/such/study.yaml"), "there is no folder"),
])  # fmt: skip
def test_what_a_flag_is_refused_for(arguments, part, tmp_path, compcomm):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    code, out, err = compcomm("import", path, *arguments)
    assert (code, out) == (2, "")
    assert part in err


def test_a_file_is_told_by_what_it_holds(tmp_path):
    """Whatever its name is."""
    for text, kind in ((json.dumps(LLAMA), "Hugging Face"), (SCRIPT, "Megatron"), (NEMO, "NeMo"), (TITAN, "torchtitan"),
                       (json.dumps(DEEPSPEED), "DeepSpeed")):  # fmt: skip
        assert kind in import_text(text, "file.dat").kind


def test_the_input_is_not_written_over(tmp_path, compcomm):
    path = tmp_path / "config.yaml"  # what it holds is JSON, and YAML as well
    path.write_text(json.dumps(LLAMA))
    code, _, err = compcomm("import", path, "-o", path)
    assert code == 2
    assert "is an input of this command" in err
    assert json.loads(path.read_text()) == LLAMA


def test_a_layout_beside_a_model_is_not_dropped(tmp_path, compcomm):
    (tmp_path / "train.sh").write_text(FLAGS)
    study = tmp_path / "study.yaml"
    study.write_text("hardware: h100-sxm\nmodel: train.sh\n")
    code, _, err = compcomm("explain", study)
    assert code == 2
    assert "describes a layout beside the model" in err
    assert load_any(str(tmp_path / "train.sh")).layout["micro_batch"] == 2


def test_a_study_of_a_model_keeps_its_name(tmp_path, compcomm):
    study = tmp_path / "study.yaml"
    study.write_text("title: mine\nhardware: a100-sxm-80gb\nmodel: llama-3-8b\nset: {tp: 8, seq_len: 4K}\n")
    shown, again = tmp_path / "shown.json", tmp_path / "again.yaml"
    assert compcomm("models", "show", study, "-o", shown)[0] == 0
    assert json.loads(shown.read_text())["parameters"] == 8030261248
    assert compcomm("import", shown, "-o", again)[0] == 0
    assert strict_yaml.load(again.read_bytes(), "x").data == {
        "title": "mine", "hardware": "a100-sxm-80gb", "model": "llama-3-8b", "set": {"seq_len": 4096, "tp": 8},
    }  # fmt: skip
    study.write_text("hardware: mi210\nsweep: {tp: [1, 2]}\n")
    assert "is one already: use it as it is" in compcomm("import", study)[2]


STRANGE = (
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    float("inf"),
    "",
    "x",
    "required",
    "a\nb",
    [],
    [1],
    {},
    {"a": 1},
    "NaN",
    "é" * 99,
)


def paths_of(data, here=()):
    for key, value in data.items():
        yield (*here, key)
        if isinstance(value, dict):
            yield from paths_of(value, (*here, key))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deepseek-v2-lite", "gemma-3-4b", "mpt", "t5", "vit", "falcon-40b", "gpt-neo", "dbrx",
                                  "qwen1.5-moe", "bert", "DEEPSPEED"])  # fmt: skip
def test_strange_values_are_refused_or_read_never_a_crash(name):
    data = DEEPSPEED if name == "DEEPSPEED" else {**CONFIGS[name][1]}
    if name == "vit":
        data["id2label"] = {"0": "cat"}
    for path in paths_of(data):
        for value in STRANGE:
            changed = copy.deepcopy(data)
            place = changed
            for part in path[:-1]:
                place = place[part]
            place[path[-1]] = value
            try:
                found = imported(changed)
            except ConfigError:
                continue
            assert found.fields or found.model


@pytest.mark.slow
@pytest.mark.parametrize("text", [SCRIPT, NEMO, TITAN])
def test_torn_files_are_refused_or_read_never_a_crash(text):
    lines = text.split("\n")
    for cut in range(0, len(text), 37):
        for torn in (text[:cut], text[cut:], text[:cut] + '"' + text[cut:], text[:cut] + "${" + text[cut:]):
            with_none(torn)
    for number in range(len(lines)):
        with_none("\n".join(lines[:number] + lines[number + 1 :]))


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a: " * 100_000, "r1-a: " * 200_000, "\n".join(["[rank0]: " * 3000] * 20)])
def test_what_stands_before_lines_is_taken_off_a_few_times(text):
    with pytest.raises(ConfigError, match="is none of what can be imported"):
        import_text(text, "file.dat")


def with_none(text):
    try:
        import_text(text, "file.dat")
    except ConfigError:
        return

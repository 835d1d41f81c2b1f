"""What frameworks do where a file says nothing, and lines that were once read otherwise than they are meant."""

from __future__ import annotations

import pytest

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import ConfigError

SIZES = (
    "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --vocab-size 1000"
)
MEGATRON = "torchrun --nproc_per_node 8 {more} pretrain_gpt.py " + SIZES
NEMO = """
trainer: {{precision: {precision}, devices: 8, num_nodes: 1}}
model:
  {{micro_batch_size: 1, global_batch_size: 64, num_layers: 4, hidden_size: 256, num_attention_heads: 4, {model}
  encoder_seq_length: 128, max_position_embeddings: 128, optim: {{{optim}}}, vocab_size: 1000}}
"""
PRIMUS = """
modules:
  pre_trainer: {{framework: megatron, config: pre_trainer.yaml, model: {model}, overrides: {{{overrides}}}}}
"""


def fields(text, file, **given):
    return import_text(text, file, given).fields


def nemo(optim, precision="bf16", model=""):
    return fields(NEMO.format(optim=optim, precision=precision, model=model), "train.yaml")


# NeMo 1.x's documentation of its optimizers: Apex's overlaps gradients and not weights, and reduces them in the format
# of its states, 32 bit; Megatron core's overlaps neither, and reduces in 32 bit.
@pytest.mark.parametrize(("optim", "precision", "overlapped", "gradients"), [
    ("name: distributed_fused_adam", "bf16", "on", "fp32"),
    ("name: distributed_fused_adam, dtype: bf16", "bf16", "on", "bf16"),
    ("name: distributed_fused_adam, grad_sync_dtype: bf16", "bf16", "on", "bf16"),
    ("name: distributed_fused_adam, overlap_grad_sync: false", "16", "off", "fp32"),
    ("name: mcore_distributed_optim", "bf16", "off", "fp32"),
    ("name: mcore_distributed_optim, overlap_grad_sync: true, overlap_param_sync: true", "bf16", "on", "fp32"),
    ("name: fused_adam", "bf16", "off", "fp32"),
    ("name: fused_adam", "16", "off", None),
])  # fmt: skip
def test_nemo_reduces_gradients_as_its_optimizers_do(optim, precision, overlapped, gradients):
    found = nemo(optim, precision)
    assert (found["overlap_dp"], found.get("grad_precision")) == (overlapped, gradients)


def test_nemo_says_how_weights_are_sent_and_held():
    told = import_text(NEMO.format(optim="name: distributed_fused_adam", precision="bf16", model=""), "a.yaml").notes
    assert any(note.startswith("gradients are sent beside compute, weights not") for note in told)
    held = NEMO.format(optim="name: fused_adam", precision="bf16", model="megatron_amp_O2: false,")
    assert any("megatron_amp_O2 is off" in note for note in import_text(held, "a.yaml").notes)


def test_nemo_sharded_by_torch_overlaps_and_has_its_buckets():
    found = nemo("name: fused_adam, ddp_bucket_size: 1000000", model="fsdp: true, tp_only_amax_red: false,")
    assert (found["zero"], found["overlap_dp"], found["grad_precision"]) == (3, "on", "fp32")
    assert nemo("name: mcore_distributed_optim, ddp_bucket_size: 1000000")["bucket"] == 1e6


@pytest.mark.parametrize(("nodes", "more", "gpus"), [
    (4, "--expert-model-parallel-size 8 --pipeline-model-parallel-size 4", 32),
    (1, "--expert-model-parallel-size 8 --pipeline-model-parallel-size 4", 32),
    (1, "--expert-model-parallel-size 8", 8),
    (2, "--expert-model-parallel-size 8 --tensor-model-parallel-size 4 --sequence-parallel", 32),
    (2, "--expert-model-parallel-size 8 --tensor-model-parallel-size 4 --expert-tensor-parallel-size 1 "
     "--sequence-parallel", 16),
])  # fmt: skip
def test_devices_that_do_not_hold_the_experts_are_not_taken(nodes, more, gpus):
    text = f"{MEGATRON.format(more=f'--nnodes {nodes}')} --num-experts 8 --moe-token-dispatcher-type alltoall {more}"
    found = import_text(text, "train.sh")
    assert found.fields["gpus"] == gpus
    assert any("do not hold ep" in note for note in found.notes) == (gpus != 8 * nodes)


def test_a_place_to_fill_in_takes_no_argument_away():
    text = f"""options="{SIZES} --load <PATH TO CHECKPOINTS> \\
      --fp16 --tensorboard-dir <A DIRECTORY>  --recompute-activations "
run="python pretrain_gpt.py $@ ${{options}}"
srun --ntasks 8 sh -c "${{run}}"
"""
    found = fields(text, "train.sh")
    assert (found["precision"], found["recompute"], found["gpus"]) == ("fp16", "selective", 8)
    told = "python pretrain_gpt.py " + SIZES + " --fp16 <settings.txt >out.txt --recompute-activations\n"
    assert fields(told, "train.sh")["recompute"] == "selective"


def test_a_file_that_other_scripts_read_has_the_arguments_of_all_its_variables():
    file = f'MODEL="{SIZES}"\nLAYOUT="--bf16 --global-batch-size 64"\nSTART="--nproc_per_node 8"\nBOTH="$LAYOUT"\n'
    found = fields(file, "params.sh")
    assert (found["precision"], found["global_batch"]) == ("bf16", 64)
    with pytest.raises(ConfigError, match=r"'\$ENV' is not understood: reinforcement learning"):
        fields(f'MODEL="{SIZES}"\nMORE="--langrl-env-config $ENV"\n', "params.sh")


def test_letters_that_a_program_reads_in_its_own_way_are_refused():
    pattern = " --is-hybrid-model --hybrid-override-pattern M-*- --num-experts 8"
    with pytest.raises(ConfigError, match="has meanings of its own for the letters"):
        fields(f"python pretrain_qwen3_next.py {SIZES}{pattern}", "train.sh")
    assert fields(f"python pretrain_mamba.py {SIZES}{pattern}", "train.sh")["layer_pattern"] == "M-*-"


def test_a_mixture_of_hundreds_of_data_sets_is_read():
    lines = "".join(
        f'DATA="${{DATA}} {i} ${{ROOT}}/corpus_of_many_documents_{i:04}_text_document"\n' for i in range(250)
    )
    script = (
        f"ROOT=/data/of/the/group/and/of/this/experiment\n{lines}python pretrain_gpt.py {SIZES} --data-path $DATA\n"
    )
    assert fields(script, "train.sh")["layers"] == 4


@pytest.mark.parametrize(("flags", "name", "value"), [
    ("--use-llama2-rotary-position-embeddings", "position", "rope"),
    ("--attention-head-type multiquery", "kv_heads", 1),
    ("--attention-head-type multihead", "kv_heads", None),
])  # fmt: skip
def test_switches_of_forks_of_megatron(flags, name, value):
    assert fields(f"python pretrain_gpt.py {SIZES} --use-mpi {flags}", "train.sh").get(name) == value


# The files of Primus's models with experts: all send tokens all to all, some by fused kernels, some on eight devices.
@pytest.mark.parametrize(("model", "overrides", "dispatch", "fused", "ep"), [
    ("mixtral_8x7B_v0.1.yaml", "expert_model_parallel_size: 4", "all_to_all", "off", 4),
    ("qwen3_30B_A3B.yaml", "expert_model_parallel_size: 8", "all_to_all", "on", 8),
    ("deepseek_v3.yaml", "tensor_model_parallel_size: 1", "all_to_all", "on", 8),
    ("deepseek_v3.yaml", "moe_token_dispatcher_type: allgather", "all_gather", "on", 8),
    ("deepseek_v3.yaml", "enable_primus_turbo: true, use_turbo_deepep: true, turbo_deepep_num_cu: 64", "deepep",
     "on", 8),
    ("deepseek_v3.yaml", "enable_primus_turbo: true, turbo_sync_free_moe_stage: 2", "deepep", "on", 8),
    ("deepseek_v3.yaml", "use_turbo_deepep: true", "all_to_all", "on", 8),
])  # fmt: skip
def test_primus_models_of_experts_dispatch_as_their_files_say(model, overrides, dispatch, fused, ep):
    found = fields(PRIMUS.format(model=model, overrides=overrides), "exp.yaml")
    assert (found["ep_dispatch"], found["permute_fusion"], found["ep"]) == (dispatch, fused, ep)
    assert found.get("ep_sms") == (64 if "num_cu" in overrides else None)


def test_arguments_that_a_caller_sets_are_asked_for_by_the_field_that_stands_in():
    text = f"""python pretrain_gpt.py {SIZES} --pipeline-model-parallel-size 2 --num-experts 4 \\
      --expert-model-parallel-size 2 --moe-token-dispatcher-type $DISPATCH --num-layers-per-virtual-pipeline-stage $V
"""
    with pytest.raises(ConfigError) as caught:
        fields(text, "train.sh")
    assert "give --set ep_dispatch=WORD" in str(caught.value)
    assert "give --set vpp=N" in str(caught.value)
    given = {"ep_dispatch": "deepep", "vpp": 2}
    assert not any("all tokens are gathered" in note for note in import_text(text, "train.sh", given).notes)
    found = fields(text, "train.sh", **given)
    assert (found["ep_dispatch"], found["vpp"], found["overlap_pp"]) == ("deepep", 2, "on")


def test_a_value_that_is_quoted_for_a_shell_in_yaml_is_read():
    yaml = """
MODEL_ARGS:
  --num-layers: 3
  --hidden-size: 64
  --num-attention-heads: 2
  --seq-length: 32
  --vocab-size: 100
  --num-experts: 4
  --moe-layer-freq: "'([0]*1+[1]*2)'"
  --fp32-residual-connection: true
"""
    found = import_text(yaml, "model_config.yaml")
    assert found.fields["dense_layers"] == 1
    assert any("left out: --fp32-residual-connection" in note for note in found.notes)


def test_sides_of_a_t5_say_whether_residuals_are_in_32_bit():
    side = ("{num_layers: 2, hidden_size: 64, num_attention_heads: 2, ffn_hidden_size: 128, kv_channels: 32, "
            "fp32_residual_connection: %s}")  # fmt: skip
    model = "encoder: SIDE, decoder: SIDE, vocab_size: 1000, micro_batch_size: 1, optim: {name: fused_adam}, data: {}"
    told = "trainer: {precision: bf16}\nmodel: {" + model + "}\n"
    found = fields(told.replace("SIDE", side % "false"), "t5.yaml")
    assert found["architecture"] == "encoder-decoder"
    with pytest.raises(ConfigError, match="fp32_residual_connection"):
        fields(told.replace("SIDE", side % "true"), "t5.yaml")

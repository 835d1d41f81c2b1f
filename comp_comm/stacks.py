"""Training stacks by name: what a framework does where a study does not say so, each choice with its source.

A stack gives fields; a field that a study gives itself wins. Several values are what a search tries, the first is that
of one point. What depends on other fields says so: the first case that fits counts, and where none does, nothing is
given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from comp_comm.choice import Choice
from comp_comm.field import Value
from comp_comm.structs import struct

Condition = Mapping[str, tuple[Value | None, ...]]
ALWAYS: Condition = {}
FP8: Condition = {"precision": ("fp8",)}
FEW_BITS: Condition = {"precision": ("fp8", "nvfp4")}
DENSE: Condition = {"experts": (0,)}
NO_VOCAB: Condition = {"vocab": (0,)}
ONE_STAGE: Condition = {"pp": (1,)}
UNSHARDED: Condition = {"zero": (0, 1, 2)}


class Values(NamedTuple):
    """Values of a field where other fields have one of some values each."""

    listed: tuple[Value, ...]
    when: Condition = ALWAYS

    def fits(self, point: Mapping[str, Value | None]) -> bool:
        """Return whether a point is one of this case."""
        return all(point.get(name) in allowed for name, allowed in self.when.items())


@struct
class Given:
    """A field that a stack gives: its cases in their order, and why, or where that is from."""

    field: str
    cases: tuple[Values, ...]
    source: str

    @property
    def needs(self) -> tuple[str, ...]:
        """The fields that it depends on."""
        return tuple(dict.fromkeys(name for case in self.cases for name in case.when))

    def at(self, point: Mapping[str, Value | None]) -> tuple[Value, ...]:
        """Return the values at a point: none where nothing is given.

        >>> given = Given("schedule", (Values((), ONE_STAGE), Values(("dualpipe", "1f1b"))), "DeepSeek-V3")
        >>> given.at({"pp": 1}), given.at({"pp": 16})
        ((), ('dualpipe', '1f1b'))
        """
        return next((case.listed for case in self.cases if case.fits(point)), ())


def _always(name: str, source: str, *values: Value) -> Given:
    return Given(name, (Values(values),), source)


def _of_experts(name: str, source: str, value: Value) -> Given:
    return Given(name, (Values((), DENSE), Values((value,))), source)


_CORE = "Megatron-LM, megatron/training/arguments.py and the guide to mixtures of Megatron Core"
_IN_FP16 = Values(("fp16",), {"precision": ("fp16",)})
_IN_FP32 = Values(("fp32",), {"precision": ("fp32",)})
_COMMON = (
    _always("zero_implementation", "the distributed optimizer", "megatron"),
    _always("master_weights", "the distributed optimizer: 32-bit copies beside weights of 16", "copy"),
    _always("sequence_inputs", "tensor_parallel/layers.py gathers inputs again for the gradients of weights", "again"),
    _always("kernels", "fused by Transformer Engine and Apex", "fused"),
    Given(
        "cross_entropy",
        (Values((), NO_VOCAB), Values(("fused",))),
        "--cross-entropy-loss-fusion of Transformer Engine, which published recipes set",
    ),
    _always("optimizer_precision", "--exp-avg-dtype, fp32 unless given", "fp32"),
    _always("schedule", "1F1B, interleaved with vpp above 1", "1f1b"),
    _of_experts("ep_dispatch", "--moe-token-dispatcher-type flex, which the guide recommends across nodes", "deepep"),
    Given("dispatch_precision", (Values((), DENSE), Values(("bf16",), FEW_BITS)), "flex dispatchers send 16 bits"),
    Given("fp8_param_gather", (Values(("on",), FP8),), "--fp8-param-gather, which published fp8 recipes set"),
)
_MEGATRON = (
    *_COMMON,
    Given("grad_precision", (_IN_FP16, Values(("fp32",))), "arguments.py reduces gradients of bf16 weights in fp32 "
          "(--accumulate-allreduce-grads-in-fp32)"),
)  # fmt: skip
_NEMO = (
    *_COMMON,
    Given("grad_precision", (_IN_FP16, _IN_FP32, Values(("bf16",))), "recipes set grad_reduce_in_fp32 false"),
)
_TORCHTITAN = (
    Given("zero", (Values((3,), ONE_STAGE), Values((1, 3))), "FSDP2; in a pipeline fsdp_reshard_after_forward: default "
          "keeps weights whole (zero 1), always does not"),
    Given("master_weights", (Values(("copy",), UNSHARDED), Values(("shards",))), "FSDP2's shards are in 32 bit"),
    Given("fsdp_units", (Values(("root",), UNSHARDED), Values(("ends",))), "apply_fsdp wraps embedding, and norm with "
          "output, apart"),
    Given("gradient_sync", (Values(("micro_batch",), UNSHARDED), Values(("micro_batch",), ONE_STAGE),
                            Values(("last",))), "a pipeline's schedule reduces after the last micro-batch"),
    _always("sp", "tensor parallelism is with sequence parallelism", "on"),
    _always("sequence_inputs", "DTensor keeps what it gathered", "kept"),
    _always("overlap_pp", "a pass waits for what it receives", "off"),
    _always("cp_comm", "context_parallel_rotate_method: allgather", "all_gather"),
    _always("kernels", "compile.enable, which published runs set", "compiled"),
    Given("cross_entropy", (Values((), NO_VOCAB), Values(("compiled",), {"kernels": ("compiled",)})),
          "compile.components has the loss"),
    _always("grad_precision", "training.mixed_precision_reduce: float32", "fp32"),
    _always("optimizer_precision", "training.dtype: float32", "fp32"),
    _always("recompute", "activation_checkpoint.mode: none, selective by operator, full", "none", "per_op", "full"),
    _always("schedule", "parallelism.pipeline_parallel_schedule: 1F1B", "1f1b"),
    _always("pp_layout", "first and last stage are counted with a layer less", "torchtitan"),
    _of_experts("ep_dispatch", "expert_parallel_comm_backend: standard", "all_to_all"),
    _of_experts("routed_weights", "token_dispatcher.py: routed_output.to(torch.float32) * scores", "fp32"),
    _of_experts("overlap_ep", "only in a schedule that is not modelled (DualPipeV)", "off"),
)  # fmt: skip
_DEEPSPEED = (
    _always("zero", "zero_optimization.stage", 1, 2, 3),
    _always("zero_implementation", "deepspeed/runtime/zero", "deepspeed"),
    _always("master_weights", "32-bit partitions beside weights of 16", "copy"),
    _always("optimizer_precision", "Adam's moments are in 32 bit", "fp32"),
    Given("grad_precision", (_IN_FP16, _IN_FP32, Values(("bf16",))), "communication_data_type: that of the weights"),
    _always("schedule", "runtime/pipe/schedule.py: 1F1B", "1f1b"),
    _of_experts("ep_dispatch", "deepspeed/moe: an all-to-all", "all_to_all"),
    _of_experts("overlap_ep", "deepspeed/moe waits for it", "off"),
)
_DEEPSEEK = (
    _always("zero", "3.2: ZeRO-1", 1),
    Given("schedule", (Values(("1f1b",), ONE_STAGE), Values(("dualpipe",))), "3.2.1: DualPipe"),
    _of_experts("overlap_ep", "3.2.1: exchanges run beside the compute of the other direction", "on"),
    _of_experts("ep_dispatch", "3.2.2, published as DeepEP", "deepep"),
    _of_experts("ep_sms", "3.2.2: 20 multiprocessors", 20),
    Given("recipe", (Values(("blockwise",), FP8),), "3.3.2: tiles of 128 and blocks of 128 x 128"),
    Given("dispatch_precision", (Values((), DENSE), Values(("fp8",), FP8)), "3.3.3: activations are sent in fp8"),
    Given("fp8_activations", (Values(("on",), FP8),), "3.3.3: inputs of SwiGLU are kept in fp8"),
    Given("fp8_param_gather", (Values(("on",), FP8),), "not stated; so alone do 80 GB hold the published layout"),
    _always("optimizer_precision", "3.3.3: moments in bf16", "bf16"),
    _always("grad_precision", "3.3.3: gradients in fp32", "fp32"),
    Given("recompute", (Values((), DENSE), Values((), {"kv_lora_rank": (None,)}),
                        Values(("mla_up_proj+layernorm+moe_act", "none", "full"))),
          "3.2.3: RMSNorm, up-projections of latent attention, SwiGLU"),
)  # fmt: skip


class Stack(Choice):
    """A training stack: its name in full, where its choices are from, and what it gives.

    - ``megatron``: Megatron-LM with its distributed optimizer; its gradients are in 32 bit.
    - ``nemo``: the recipes of NVIDIA NeMo and Megatron-Bridge on it, which reduce gradients in bf16.
    - ``torchtitan``: FSDP2 on PyTorch's DTensor, compiled.
    - ``deepspeed``: DeepSpeed's ZeRO around a model of PyTorch.
    - ``deepseek``: what DeepSeek-V3 was trained by.
    """

    MEGATRON = "megatron", "Megatron-LM", _CORE, _MEGATRON
    NEMO = "nemo", "NVIDIA NeMo", "NVIDIA-NeMo/Megatron-Bridge 0.1 to 0.6, performance recipes", _NEMO
    TORCHTITAN = "torchtitan", "torchtitan", "pytorch/torchtitan, config, distributed and models/llama3", _TORCHTITAN
    DEEPSPEED = "deepspeed", "DeepSpeed", "deepspeedai/DeepSpeed, configuration and runtime/zero", _DEEPSPEED
    DEEPSEEK = "deepseek", "DeepSeek-V3's framework", "DeepSeek-V3, arXiv:2412.19437, sections 3.2 and 3.3", _DEEPSEEK

    def __init__(self, word: str, title: str, source: str, given: tuple[Given, ...]) -> None:
        self.title, self.source, self.given = title, source, given

"""The one field table: every quantity a study may set or sweep.

YAML validation, command-line flags, ``--set``, column help and "did you mean" all read it. A cost model says
which of these fields it models; what it does not model it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable

from comp_comm import choices, dispatchers
from comp_comm.choice import Choice
from comp_comm.choices import Switch
from comp_comm.errors import nearest, one_of
from comp_comm.field import Field, Value
from comp_comm.layer_fields import LAYER_FIELDS
from comp_comm.sharding import FsdpUnits, GradientSync
from comp_comm.stage_layout import check_stage_layout


def _size(name: str, help_text: str, high: float = 2**24, low: float = 1, unit: str = "", **more: object) -> Field:
    return Field(name, "transformer", "int", help_text, unit, low=low, high=high, **more)  # type: ignore[arg-type]


def _degree(name: str, help_text: str, high: float = 2**24, low: float = 1, **more: object) -> Field:
    return Field(name, "layout", "int", help_text, low=low, high=high, **more)  # type: ignore[arg-type]


def _word(name: str, group: str, choice: type[Choice], help_text: str, default: str | None,
          words: tuple[str, ...] = ()) -> Field:  # fmt: skip
    if default is not None:
        choice.of(default)
    return Field(name, group, "choice", help_text, words=words or choice.words(), default=default, choice=choice)  # type: ignore[arg-type]


def _factor(name: str, help_text: str) -> Field:
    return Field(name, "evolution", "float", help_text, low=1e-9, high=1e9, default=1.0, solve=(1e-4, 1e4))


INSIDE = {"nv_tp1": "tp1 (in amped: tp)", "nv_tp2": "tp2", "nv_dp": "dp", "nv_pp": "pp"}

_TRANSFORMER = (
    _size("hidden", "hidden (model) dimension, H", solve=(64, 2**24)),
    _size("seq_len", "sequence length, SL", 2**30, unit="tokens", solve=(16, 2**27)),
    _size("layers", "layers of the model (of the decoder, where there is an encoder too)", 1e5),
    Field("parameters", "transformer", "float", "parameters of the model, for 'tp: required'; 12 L H^2 if not given",
          low=1, high=1e16),
    _word("architecture", "transformer", choices.Architecture, "decoder (causal), encoder, both, or vision transformer",
          "decoder"),
    _size("heads", "attention heads", 2**20),
    _size("kv_heads", "heads of keys and values; as many as heads if not given", 2**20),
    _size("head_dim", "dimension of a head; hidden / heads if not given", 2**16),
    _size("ffn_hidden", "width of the feed-forward network; 4 x hidden if not given", 2**26),
    _word("gated", "transformer", Switch, "gated feed-forward network (SwiGLU, GeGLU): three matrices, not two",
          "off"),
    _word("norm", "transformer", choices.Norm, "normalisation: layernorm has a bias beside its weight", "layernorm"),
    _size("norms", "norms of a layer (those of queries and keys apart); cross-attention adds half as many", 16, low=0,
          default=2),
    _word("parallel_blocks", "transformer", Switch, "attention and feed-forward side by side on one input "
          "(GPT-J, PaLM, Falcon): their outputs are summed, then reduced once", "off"),
    _word("bias", "transformer", choices.Bias, "which linear layers have a bias: none, those of Q, K and V, all, those "
          "of attention, of the feed-forward network, or all but Q, K and V", "on"),
    _word("qk_norm", "transformer", choices.QkNorm, "normalise queries and keys: each head alike, or all heads as a "
          "whole (which has a weight for each number)", "off"),
    _word("attention_sinks", "transformer", Switch, "a learned score for each head that takes attention away "
          "from all tokens", "off"),
    _word("position", "transformer", choices.Position, "position embedding; only a learned one has parameters", "rope"),
    _size("max_positions", "positions of a learned embedding; seq_len if not given", 2**30),
    _size("vocab", "vocabulary as published; 0 for none", 2**24, low=0),
    _size("vocab_multiple", "the vocabulary held is padded to a multiple of this times tp", 2**20, default=128),
    _word("tied", "transformer", Switch, "the output layer shares the embedding's weights", "off"),
    _size("encoder_layers", "layers of the encoder of an encoder-decoder", 1e5, essential=True),
    _size("encoder_seq_len", "tokens the encoder of an encoder-decoder reads; seq_len if not given", 2**30,
          unit="tokens"),
    _size("patch_features", "numbers in a patch of a vision transformer (channels x size^2)", 2**24,
          essential=True),
    _size("classes", "classes that a vision transformer's head tells apart; 0 for no head", 2**24, low=0),
    _size("extra_parameters", "parameters beside the layers that no other field counts: token types, class token, "
          "pooler, relative positions, norm of the embedding", 1e12, low=0, default=0),
    _size("window", "sliding-window attention: tokens a query sees", 2**30, unit="tokens", essential=True),
    _size("global_every", "with a window: every n-th layer attends to everything", 1e5),
    _size("experts", "experts of a mixture-of-experts layer; 0 for a dense model", 2**20, low=0, default=0,
          essential=True),
    _size("top_k", "experts a token is sent to", 2**20),
    _word("router_bias", "transformer", Switch, "a number for each expert beside the router's weights", "off"),
    _size("moe_ffn_hidden", "width of an expert; ffn_hidden if not given", 2**26),
    _size("shared_experts", "experts every token goes through", 2**10, low=0),
    _size("shared_ffn_hidden", "width of the shared experts together; shared_experts x moe_ffn_hidden if not given",
          2**26),
    _size("dense_layers", "first layers that are dense in a mixture-of-experts model", 1e5, low=0),
    _size("moe_every", "every n-th layer (after the dense ones) is a mixture of experts", 1e5),
    Field("capacity_factor", "transformer", "float", "tokens an expert takes over an even share; 1 if not given",
          low=0.01, high=1e3),
    _size("q_lora_rank", "rank of the queries in multi-head latent attention; 0: not compressed", 2**20, low=0),
    _size("kv_lora_rank", "rank of keys and values in multi-head latent attention, which it turns on", 2**20,
          essential=True),
    _size("rope_head_dim", "rotary part of a head, in multi-head latent attention", 2**16),
    _size("v_head_dim", "dimension of a head's values; head_dim if not given", 2**16),
    _size("mtp_layers", "multi-token prediction modules, a layer each", 100, low=0, default=0),
    _word("clamped_glu", "transformer", Switch, "experts' SwiGLU is clamped and offset, with biases around it "
          "(gpt-oss): no plain kernel has it", "off"),
    _word("dropout", "transformer", Switch, "dropout in attention and after both blocks (its masks are kept)",
          "on"),
    *LAYER_FIELDS,
)  # fmt: skip

_LAYOUT = (
    _degree("gpus", "devices in all; tp x cp x pp x dp if not given"),
    _degree("micro_batch", "sequences in a micro-batch, B", 2**20, solve=(1, 2**20)),
    _degree("global_batch", "sequences in a step, over all replicas", 2**30),
    _degree("accumulation", "micro-batches of a replica in a step; from global_batch if that is given, else 1", 2**30),
    _degree("tp", "tensor-parallel degree, TP; 'required' takes Eq 10 and the next divisor of hidden",
            words=("required",), solve=(1, 2**20)),
    _word("sp", "layout", Switch, "sequence parallelism: what TP leaves whole is split along the sequence", "on"),
    _degree("cp", "context-parallel degree", default=1),
    _word("cp_comm", "layout", choices.ContextComm,
          "context parallelism passes keys and values round a ring, gathers them, or swaps heads for tokens (Ulysses)",
          "p2p"),
    _degree("pp", "pipeline stages", default=1),
    _degree("vpp", "model chunks a pipeline stage holds (interleaving)", default=1),
    _word("schedule", "layout", choices.Schedule, "pipeline schedule; 1f1b with vpp above 1 is interleaved", "1f1b"),
    Field("pp_layout", "layout", "text", "layers of each chunk of the pipeline: '7|8*14|6', '7|...|6', or as "
          "Megatron-LM writes it, 'Ett|(ttt|)*14L'; 'torchtitan' is that framework's rule; if not given, evenly, or "
          "with embedding and head in the place of a layer each", checked=check_stage_layout),
    _degree("ep", "expert-parallel degree; divides dp x cp x tp, adds no devices", default=1),
    _degree("etp", "tensor-parallel degree inside an expert; tp if not given"),
    _degree("dp", "data-parallel degree; in comp_vs_comm, not given means many replicas on intra-node links, as the "
            "paper estimates; in complete it is gpus / (tp cp pp)"),
    _degree("dp_shard", "replicas that share states under ZeRO (HSDP); all of them if not given"),
    _degree("zero", "ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 (FSDP) weights too", 3, low=0,
            default=1),
    _word("master_weights", "layout", choices.MasterWeights, "weights in 32 bit: a copy that the optimizer has beside "
          "those of 16 bit (Megatron-LM, DeepSpeed), or the shards of ZeRO 3 themselves (FSDP)", "copy"),
    _word("reshard_after_forward", "layout", Switch, "with zero 3: weights are sharded again after a forward pass, and "
          "gathered once more for the backward pass (off: kept whole between them)", "on"),
    _degree("reshard_shards", "devices that weights are sharded over between forward and backward pass, with zero 3 "
            "(FSDP2's reshard_after_forward as a number); all shards if not given"),
    _word("gradient_sync", "layout", GradientSync, "with zero 3: gradients are reduced after every "
          "micro-batch, over replicas of the shards (HSDP) after the last one, or all after the last one",
          "micro_batch"),
    _word("fsdp_units", "layout", FsdpUnits, "what zero 3 gathers at once beside a layer: embedding, norm "
          "and head (the root of FSDP2), or embedding, and norm with head, which are kept (torchtitan)", "root"),
    Field("bucket", "layout", "float", "elements of gradients (or weights) sent at once by data parallelism; a "
          "stage's whole, or under ZeRO 3 a layer's, if not given", low=1, high=1e12),
    _word("recompute", "layout", choices.Recompute, "activations computed again in the backward pass: of whole layers, "
          "of the core of attention (selective), of the modules named, or of all but what torchtitan's policy keeps",
          "none"),
    _degree("recompute_layers", "layers of a stage that full recompute is for; all if not given", 1e5),
    _word("recompute_early_stop", "layout", Switch, "full recompute ends where all is there that the backward pass "
          "needs, before a layer's last GEMM (PyTorch's non-reentrant checkpoints)", "off"),
    _degree("offload_activations", "layers of a stage whose activations are kept in the host's memory", 1e5),
    _word("kv_replication", "layout", Switch, "allow tp above kv_heads: key and value heads are copied", "off"),
    _word("offload_optimizer", "layout", Switch, "keep optimizer states in the host's memory", "off"),
    _word("scatter_gather", "layout", Switch, "without sequence parallelism, TP devices send a part each over a "
          "stage boundary and gather the whole after it", "on"),
    _word("placement", "layout", choices.Placement, "order of the groups on the network, neighbours first",
          "tp-cp-dp-pp"),
    _word("overlap_dp", "layout", Switch, "data-parallel communication runs beside compute", "on"),
    _word("overlap_tp", "layout", choices.TensorOverlap, "tensor-parallel communication beside its own split GEMMs: by "
          "user buffers (on), or by PyTorch (async)", "off"),
    _word("overlap_pp", "layout", Switch, "pipeline sends beside compute; if not given, on where chunks are "
          "interleaved (Megatron-LM), else off", None),
    _word("overlap_ep", "layout", Switch, "expert all-to-alls beside another micro-batch's compute", "off"),
    _word("ep_dispatch", "layout", dispatchers.Dispatcher, "how tokens go to experts: a copy for each expert, all "
          "tokens to all devices, or once to each node (DeepEP, HybridEP)", "all_to_all"),
    _degree("ep_node_limit", "nodes that experts of a token are chosen from (DeepSeek-V3: 4); all if not given", 2**20),
    _degree("ep_sms", "multiprocessors that exchanges with experts take; 20 for deepep, else 16 if not given", 1024),
    _word("routing", "layout", dispatchers.Routing, "how tokens fall on experts: on all alike, or at random, so that "
          "the fullest device has some more", "balanced"),
    Field("imbalance", "layout", "float", "tokens of the fullest device of an expert-parallel group over the mean; 1, "
          "or what routing says, if not given", low=1, high=1e3),
    _word("permute_fusion", "layout", dispatchers.PermuteFusion, "sort tokens by expert in one kernel", "on"),
    _word("collective_algorithm", "layout", choices.CollectiveAlgorithm, "algorithm of all-reduces; best: the fastest "
          "of those the network has", "best"),
    _word("attention_kernel", "layout", choices.AttentionKernel, "what computes attention: flash_causal is the fused "
          "kernel that training stacks use on the device (timing.attention_kernel of its profile), flash the same "
          "without skipping what a causal mask hides; or one by name", "flash_causal"),
    _word("strategy", "layout", choices.Strategy, "how the foundation-models paper splits a layer: TP, SUMMA on a "
          "grid, or TP with the sequence split over a second group", "1d"),
    _degree("tp1", "tensor-parallel group that splits heads and hidden numbers", default=1),
    _degree("tp2", "second tensor-parallel group, that splits the sequence (and under SUMMA the weights)", default=1),
    _degree("summa_panels", "panels of a SUMMA GEMM; the larger of tp1 and tp2 if not given"),
    *(_degree(name, f"devices of a {group} group that share the innermost domain; what is left of it if not given, TP "
              "first, then DP") for name, group in INSIDE.items()),
    _word("kernels", "layout", choices.ElementwiseKernels,
          "element-wise kernels: fused, one by one (eager), or compiled", "fused"),
    _word("cross_entropy", "layout", choices.CrossEntropy, "how the loss is made of logits: fused kernel, compiled, in "
          "chunks of the tokens, as Megatron-LM does unfused, or as PyTorch does (eager); as 'kernels' if not given",
          None),
    _word("expert_kernels", "layout", choices.ExpertKernels, "products of a device's experts one by one, or all with "
          "their nonlinearity in one kernel (cuteDSL)", "separate"),
    _word("cuda_graph", "layout", choices.CudaGraph, "what is captured in CUDA graphs, which the host launches at "
          "once: attention, an expert layer's router with what prepares its dispatch, both, or the whole step", "none"),
    _word("launch_blocking", "layout", Switch, "the host waits for each kernel before it launches the next "
          "(CUDA_LAUNCH_BLOCKING)", "off"),
    _degree("loss_chunks", "parts of a micro-batch's tokens that a chunked loss is made of one by one", default=8),
)  # fmt: skip

_EVOLUTION = (
    _factor("flop_vs_bw", "FLOP/s relative to the network: compute is this much faster, the network unchanged"),
    _factor("flops", "factor on the FLOP/s of a device"),
    _factor("network", "factor on the bandwidth of every network tier"),
    _factor("memory_bandwidth", "factor on the HBM bandwidth"),
    _factor("memory_capacity", "factor on the HBM capacity"),
    _factor("latency", "factor on the latency of every hop of the network"),
    Field("nvs", "evolution", "int", "devices of the innermost network domain (NVLink, say); the profile's if not "
          "given", high=2**24),
)  # fmt: skip

_CONVENTIONS = (
    _word("precision", "convention", choices.Precision, "number format of compute (and of messages, unless "
          "comm_precision is given)", "fp16"),
    _word("comm_precision", "convention", choices.Precision, "number format of activations on the wire; that of "
          "compute, 16 bit for fp8, if not given", None),
    _word("recipe", "convention", choices.Recipe, "how GEMMs run in fp8 or nvfp4, in Megatron-LM's words: a scale for "
          "a tensor (delayed, or tensorwise: of its own largest number), 128 numbers (blockwise), 32 (mxfp8) or 16 "
          "(nvfp4); that of the device's profile for fp8 if not given", None),
    _word("fp8_attention", "convention", Switch, "attention in fp8, where GEMMs are in fp8 or nvfp4", "off"),
    _word("fp8_head", "convention", Switch, "the output layer by the recipe as well, not in 16 bits", "off"),
    _word("fp8_param_gather", "convention", Switch, "weights are gathered in fp8, and kept in fp8 alone", "off"),
    _word("dispatch_precision", "convention", choices.Precision, "number format of tokens on their way to experts; "
          "comm_precision if not given", None),
    _word("combine_precision", "convention", choices.Precision, "number format of what experts send back; "
          "comm_precision if not given", None),
    _word("grad_precision", "convention", choices.Precision, "number format gradients are reduced in; that of the "
          "weights if not given", None, choices.SIXTEEN_BIT_UP),
    _word("accumulate_precision", "convention", choices.Precision, "number format of a buffer that gradients are "
          "added up in, beside those reduced; none if not given", None, choices.SIXTEEN_BIT_UP),
    _word("optimizer_precision", "convention", choices.Precision, "number format of Adam's two moments", "fp32",
          choices.SIXTEEN_BIT_UP),
    _word("count", "convention", choices.CountedGemms,
          "GEMMs counted: the whole layer, or as the paper's Eqs 1-3 print them",
          "complete"),
    _word("count_attention", "convention", choices.AttentionCount, "attention FLOP counted in model FLOP, and so in "
          "MFU: all scores, or those a causal mask leaves", "full"),
    Field("timing", "convention", "choice", "a named timing preset of the hardware profile; its default if not given"),
    Field("memory_scaling", "convention", "float", "device memory over the base model's device, s of Eq 10; "
          "device memory over 32 GiB if not given", low=1e-6, high=1e6),
    Field("inter_node_slowdown", "convention", "float", "how many times less bandwidth the data-parallel links have",
          low=1, high=1e6, default=1.0, solve=(1, 1e4)),
    Field("interference", "convention", "float", "slowdown of overlapped communication by running beside compute",
          low=1, high=1e6, default=1.0, solve=(1, 1e4)),
    _word("comm_offload", "convention", Switch, "what-if: a co-processor communicates, and what is overlapped is "
          "not slowed by compute", "off"),
    _word("in_network_reduction", "convention", Switch, "what-if: switches reduce, so that a message leaves a "
          "device once", "off"),
    _word("in_memory_reduction", "convention", Switch, "what-if: memory adds up what arrives (PIM), which "
          "lessens interference", "off"),
    _word("fused_comm", "convention", Switch, "what-if: a GEMM's output is reduced tile by tile while made",
          "off"),
    Field("fused_tiles", "convention", "int", "with fused_comm: tiles that a GEMM's output is reduced in", low=1,
          high=1e6, default=8),
    _word("phase", "convention", choices.Phase, "training, or inference: prefill and decode with a KV cache",
          "training"),
    Field("output_len", "convention", "int", "tokens generated for a prompt of seq_len", "tokens", low=1, high=2**30,
          default=256),
    _word("kv_precision", "convention", choices.Precision, "number format of the KV cache; that of activations if not "
          "given", None),
    Field("sustained", "convention", "float", "share of its isolated speed that a GEMM keeps in a whole step; the "
          "profile's if not given", low=0.01, high=1.5, solve=(0.05, 1.5)),
    Field("framework_gib", "convention", "float", "memory of the framework: context, communicators, fragmentation",
          "GiB", low=0, high=1e4, default=2.0),
    Field("bubble_ratio", "convention", "float", "share of a 1F1B pipeline's bubble that is waited; 1 / vpp if not "
          "given", low=0, high=1),
    Field("zero_overhead", "convention", "float", "what ZeRO adds to the communication of layers, as a share of it: "
          "0.5 where weights are gathered again (stage 3)", low=0, high=10, default=0.0),
    _word("formulas", "convention", choices.Formulas, "formulas of foundation_models: with the slips of the published "
          "code, or without", "as_published"),
    Field("tokens", "convention", "float", "tokens of a whole run, for its days and GPU-hours", "tokens", low=1,
          high=1e18),
)  # fmt: skip

FIELDS: dict[str, Field] = {field.name: field for field in (*_TRANSFORMER, *_LAYOUT, *_EVOLUTION, *_CONVENTIONS)}


# Fields of earlier versions, and what is to be done about them.
RETIRED = {"uneven_stages": "stages have different numbers of layers wherever pp x vpp does not divide them, or as "
                            "pp_layout says: leave it out"}  # fmt: skip


def unknown_field(name: str) -> str:
    """Return what to say of a name that is no field: the nearest one, or what became of it.

    >>> unknown_field("uneven_stages")[:39]
    'is no field any more: stages have diffe'
    """
    if name in RETIRED:
        return f"is no field any more: {RETIRED[name]}"
    return f"unknown field{nearest(name, FIELDS)} ({one_of(list(FIELDS))})"


def solvable(names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that have a span to be solved over.

    >>> solvable(["tp", "count"])
    ['tp']
    """
    return [name for name in names if FIELDS[name].solve is not None]


__all__ = ["FIELDS", "Field", "Value", "solvable", "unknown_field"]

"""The one field table: every quantity a study may set or sweep.

YAML validation, command-line flags, ``--set``, column help and "did you mean" all read it. A cost model says
which of these fields it models; what it does not model it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable

from comp_comm import choices, dispatchers, optimizers
from comp_comm import kernel_choices as kernels
from comp_comm.choices import Switch
from comp_comm.convention_fields import CONVENTIONS
from comp_comm.errors import one_of
from comp_comm.field import Field, Value, word
from comp_comm.layer_fields import LAYER_FIELDS
from comp_comm.lora import LoraTargets
from comp_comm.other_names import nearest_name
from comp_comm.placement import Placement
from comp_comm.sharding import FsdpUnits, GradientSync, ZeroImplementation
from comp_comm.stacks import Stack
from comp_comm.stage_layout import check_stage_layout


def _size(name: str, help_text: str, high: float = 2**24, low: float = 1, unit: str = "", **more: object) -> Field:
    return Field(name, "transformer", "int", help_text, unit, low=low, high=high, **more)  # type: ignore[arg-type]


def _degree(name: str, help_text: str, high: float = 2**24, low: float = 1, **more: object) -> Field:
    return Field(name, "layout", "int", help_text, low=low, high=high, **more)  # type: ignore[arg-type]


def _factor(name: str, help_text: str) -> Field:
    return Field(name, "evolution", "float", help_text, low=1e-9, high=1e9, default=1.0, solve=(1e-4, 1e4))


INSIDE = {"nv_tp1": "tp1 (in amped: tp)", "nv_tp2": "tp2", "nv_dp": "dp", "nv_pp": "pp"}

_TRANSFORMER = (
    _size("hidden", "hidden (model) dimension, H", solve=(64, 2**24)),
    _size("seq_len", "sequence length, SL", 2**30, unit="tokens", solve=(16, 2**27)),
    _size("layers", "layers of the model (of the decoder, where there is an encoder too)", 1e5),
    Field("parameters", "transformer", "float", "parameters of the model, for 'tp: required'; 12 L H^2 if not given",
          low=1, high=1e16),
    word("architecture", "transformer", choices.Architecture, "decoder (causal), encoder, both, or vision transformer",
          "decoder"),
    _size("heads", "attention heads", 2**20),
    _size("kv_heads", "heads of keys and values; as many as heads if not given", 2**20),
    _size("head_dim", "dimension of a head; hidden / heads if not given", 2**16),
    _size("ffn_hidden", "width of the feed-forward network; 4 x hidden if not given", 2**26),
    word("gated", "transformer", Switch, "gated feed-forward network (SwiGLU, GeGLU): three matrices, not two",
          "off"),
    word("activation_function", "transformer", choices.ActivationFunction, "nonlinearity of feed-forward networks: "
         "gelu (or SiLU) keeps its input, relu its output alone; gelu_new is GPT-2's, which eager kernels write out",
         "gelu"),
    word("norm", "transformer", choices.Norm, "normalisation: layernorm has a bias beside its weight", "layernorm"),
    _size("norms", "norms of a layer (those of queries and keys apart); cross-attention adds half as many", 16, low=0,
          default=2),
    word("parallel_blocks", "transformer", Switch, "attention and feed-forward side by side on one input "
          "(GPT-J, PaLM, Falcon): their outputs are summed, then reduced once", "off"),
    word("bias", "transformer", choices.Bias, "which linear layers have a bias: none, those of Q, K and V, all, those "
          "of attention, of the feed-forward network, or all but Q, K and V", "on"),
    word("qk_norm", "transformer", choices.QkNorm, "normalise queries and keys: each head alike, or all heads as a "
          "whole (which has a weight for each number)", "off"),
    word("attention_sinks", "transformer", Switch, "a learned score for each head that takes attention away "
          "from all tokens", "off"),
    word("position", "transformer", choices.Position, "position embedding; only a learned one has parameters", "rope"),
    _size("max_positions", "positions of a learned embedding; seq_len if not given", 2**30),
    _size("vocab", "vocabulary as published; 0 for none", 2**24, low=0),
    _size("vocab_multiple", "the vocabulary held is padded to a multiple of this times tp", 2**20, default=128),
    word("tied", "transformer", Switch, "the output layer shares the embedding's weights", "off"),
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
    word("router_bias", "transformer", Switch, "a number for each expert beside the router's weights", "off"),
    _size("router_groups", "groups that experts are in, one after the other (n_group in a config.json); 1 if not given",
          2**20),
    _size("router_group_topk", "groups that the experts of a token are chosen from (topk_group), which limits the "
          "nodes that it is sent to; all if not given", 2**20),
    _size("moe_ffn_hidden", "width of an expert; ffn_hidden if not given", 2**26),
    _size("shared_experts", "experts every token goes through", 2**10, low=0),
    _size("shared_ffn_hidden", "width of the shared experts together; shared_experts x moe_ffn_hidden if not given",
          2**26),
    word("shared_expert_gate", "transformer", Switch, "a gate on what shared experts make, a sigmoid of one number of "
          "each token (Qwen)", "off"),
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
    word("clamped_glu", "transformer", Switch, "experts' SwiGLU is clamped and offset, with biases around it "
          "(gpt-oss): no plain kernel has it", "off"),
    Field("packed_documents", "transformer", "float", "documents packed in a sequence, each of which attends to itself "
          "alone (the mean of s / length over tokens, where lengths differ)", low=1, high=2**20, default=1.0),
    word("dropout", "transformer", Switch, "dropout in attention and after both blocks (its masks are kept)",
          "on"),
    _size("lora_rank", "rank of adapters (LoRA): the model's own weights are frozen; none if not given", 2**16,
          essential=True),
    word("lora_targets", "transformer", LoraTargets, "linear layers that have adapters, with + between them, or all",
          "q_proj+v_proj"),
    *LAYER_FIELDS,
)  # fmt: skip

_LAYOUT = (
    _degree("gpus", "devices in all; tp x cp x pp x dp if not given"),
    _degree("micro_batch", "sequences in a micro-batch, B", 2**20, solve=(1, 2**20)),
    _degree("global_batch", "sequences in a step, over all replicas", 2**30),
    _degree("accumulation", "micro-batches of a replica in a step; from global_batch if that is given, else 1", 2**30),
    _degree("tp", "tensor-parallel degree, TP; 'required' takes Eq 10 and the next divisor of hidden",
            words=("required",), solve=(1, 2**20)),
    word("sp", "layout", Switch, "sequence parallelism: what TP leaves whole is split along the sequence", "on"),
    word("sequence_inputs", "layout", choices.SequenceInputs, "with sp: inputs that TP gathers are gathered "
         "again for the gradients of weights (Megatron-LM), or kept whole (PyTorch's DTensor)", "again"),
    _degree("cp", "context-parallel degree", default=1),
    word("cp_comm", "layout", choices.ContextComm,
          "context parallelism passes keys and values round a ring, gathers them, or swaps heads for tokens (Ulysses)",
          "p2p"),
    word("cp_implementation", "layout", choices.ContextImplementation, "whose context parallelism passes or gathers "
         "keys: that of Megatron-LM (transformer_engine), or PyTorch's, with gradients in 32 bit (torch) or gathered "
         "keys that are kept (flex: torchtitan)", "transformer_engine"),
    _degree("pp", "pipeline stages", default=1),
    _degree("vpp", "model chunks a pipeline stage holds (interleaving)", default=1),
    word("schedule", "layout", choices.Schedule, "pipeline schedule; 1f1b with vpp above 1 is interleaved", "1f1b"),
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
    word("master_weights", "layout", choices.MasterWeights, "weights in 32 bit: a copy that the optimizer has beside "
          "those of 16 bit (Megatron-LM, DeepSpeed), or the shards of ZeRO 3 themselves (FSDP)", "copy"),
    word("reshard_after_forward", "layout", Switch, "with zero 3: weights are sharded again after a forward pass, and "
          "gathered once more for the backward pass (off: kept whole between them)", "on"),
    _degree("reshard_shards", "devices that weights are sharded over between forward and backward pass, with zero 3 "
            "(FSDP2's reshard_after_forward as a number); all shards if not given"),
    word("gradient_sync", "layout", GradientSync, "with zero 3: gradients are reduced after every "
          "micro-batch, over replicas of the shards (HSDP) after the last one, or all after the last one",
          "micro_batch"),
    word("fsdp_units", "layout", FsdpUnits, "what zero 3 gathers at once beside a layer: embedding, norm "
          "and head (the root of FSDP2), or embedding, and norm with head, which are kept (torchtitan)", "root"),
    word("zero_implementation", "layout", ZeroImplementation, "whose ZeRO shards the states, with what it keeps "
         "beside them", "megatron"),
    word("gradient_accumulation_fusion", "layout", Switch, "GEMMs add the gradients of weights to their sum over "
         "micro-batches; off: a kernel of its own does; if not given, off under ZeRO 1 of DeepSpeed alone", None),
    Field("bucket", "layout", "float", "elements of gradients (or weights) sent at once by data parallelism; a "
          "stage's whole, or under ZeRO 3 a layer's, if not given", low=1, high=1e12),
    word("recompute", "layout", choices.Recompute, "activations computed again in the backward pass: of whole layers, "
          "of the core of attention (selective), of the modules named, or of all but what torchtitan's policy keeps",
          "none"),
    _degree("recompute_layers", "layers of a stage that full recompute is for; all if not given", 1e5),
    word("recompute_early_stop", "layout", Switch, "full recompute ends where all is there that the backward pass "
          "needs, before a layer's last GEMM (PyTorch's non-reentrant checkpoints)", "off"),
    _degree("offload_activations", "layers of a stage whose activations are kept in the host's memory", 1e5),
    word("kv_replication", "layout", Switch, "allow tp above kv_heads: key and value heads are copied", "off"),
    word("offload_optimizer", "layout", Switch, "keep optimizer states in the host's memory", "off"),
    word("optimizer", "layout", optimizers.Optimizer, "AdamW; or Muon for matrices of layers, and AdamW for "
         "embeddings, head, norms and biases", "adamw"),
    _degree("muon_steps", "Newton-Schulz steps of Muon", 100, default=5),
    word("muon_sharding", "layout", optimizers.MuonSharding, "matrices of Muon are dealt out whole (Megatron-LM), "
         "cut anywhere and gathered (Moonlight, DeepSpeed), or each sharded and exchanged (FSDP2); if not given, whole "
         "with zero 1, exchanged with 2 and 3; with DeepSpeed's zero 1 and 2, gathered", None),
    word("muon_tp", "layout", optimizers.MuonTensor, "matrices that TP splits are gathered for Muon, on each "
         "device, or orthogonalised part by part", "duplicated"),
    word("scatter_gather", "layout", Switch, "without sequence parallelism, TP devices send a part each over a "
          "stage boundary and gather the whole after it", "on"),
    word("stack", "layout", Stack, "whose software it is, which gives the defaults of other fields (zero, "
          "grad_precision, ep_dispatch, kernels, ...); a field that is given wins", None),
    word("placement", "layout", Placement, "order of the groups on the network, neighbours first",
          "tp-cp-dp-pp"),
    word("overlap_dp", "layout", Switch, "data-parallel communication runs beside compute", "on"),
    word("overlap_tp", "layout", choices.TensorOverlap, "tensor-parallel communication beside its own split GEMMs: by "
          "user buffers (on), or by PyTorch (async)", "off"),
    word("overlap_pp", "layout", Switch, "pipeline sends beside compute; if not given, on where chunks are "
          "interleaved (Megatron-LM), else off", None),
    word("overlap_ep", "layout", Switch, "expert all-to-alls beside another micro-batch's compute", "off"),
    word("ep_dispatch", "layout", dispatchers.Dispatcher, "how tokens go to experts: a copy for each expert, all "
          "tokens to all devices, or once to each node (DeepEP, HybridEP)", "all_to_all"),
    _degree("ep_node_limit", "nodes that experts of a token are chosen from; those that groups of the model's "
            "router are on (router_group_topk), else all, if not given", 2**20),
    _degree("ep_sms", "multiprocessors that exchanges with experts take; 20 for deepep, else 16 if not given", 1024),
    word("routing", "layout", dispatchers.Routing, "how tokens fall on experts: on all alike, or at random, so that "
          "the fullest device has some more", "balanced"),
    Field("imbalance", "layout", "float", "tokens of the fullest device of an expert-parallel group over the mean; 1, "
          "or what routing says, if not given", low=1, high=1e3),
    word("load_balancing", "layout", dispatchers.LoadBalancing, "what keeps experts evenly loaded: a loss (tokens of "
         "experts are summed over TP and CP), or a bias of the router (once a step over all devices of a stage); if "
         "not given, a bias where the router has one, else a loss", None),
    word("routed_weights", "layout", dispatchers.RoutedWeights, "format in which what experts made of a token is "
         "weighted by the router, and kept: that of compute, or 32 bits (torchtitan)", "compute"),
    word("router_precision", "layout", dispatchers.RouterPrecision, "format of a router's product, whose operands are "
         "kept so: that of compute, or 32 bits (DeepSeek-V3's router in transformers)", "compute"),
    word("permute_fusion", "layout", dispatchers.PermuteFusion, "sort tokens by expert in one kernel", "on"),
    word("collective_algorithm", "layout", choices.CollectiveAlgorithm, "algorithm of all-reduces; best: the fastest "
          "of those the network has", "best"),
    word("attention_kernel", "layout", kernels.AttentionKernel, "what computes attention: flash_causal is the fused "
          "kernel that training stacks use on the device (timing.attention_kernel of its profile), flash the same "
          "without skipping what a causal mask hides; or one by name", "flash_causal"),
    word("strategy", "layout", choices.Strategy, "how the foundation-models paper splits a layer: TP, SUMMA on a "
          "grid, or TP with the sequence split over a second group", "1d"),
    _degree("tp1", "tensor-parallel group that splits heads and hidden numbers", default=1),
    _degree("tp2", "second tensor-parallel group, that splits the sequence (and under SUMMA the weights)", default=1),
    _degree("summa_panels", "panels of a SUMMA GEMM; the larger of tp1 and tp2 if not given"),
    *(_degree(name, f"devices of a {group} group that share the innermost domain; what is left of it if not given, TP "
              "first, then DP") for name, group in INSIDE.items()),
    word("kernels", "layout", kernels.ElementwiseKernels,
          "element-wise kernels: fused, one by one (eager), or compiled", "fused"),
    word("norm_kernel", "layout", kernels.NormKernel, "how a norm is made: one kernel, or one operation at a time, "
         "with its weights applied in 16 bit (eager) or 32 (eager_fp32); if not given it is as fast as 'kernels' says, "
         "and keeps what one kernel does", None),
    word("qkv_kept", "layout", kernels.QkvKept, "what is kept of rotated queries, keys and values: these; also the "
         "product that values are a view of (torchtitan's DeepSeek), a copy of attention's output (joined: Phi, "
         "StableLM in transformers), or both (whole: GPT-NeoX, Phi-3, DeepSeek); or keys and values repeated for each "
         "head of queries and a mask (transformers with windows)", "parts"),
    word("softmax_precision", "layout", kernels.SoftmaxPrecision, "format in which an unfused softmax of attention is "
         "made, and kept: that of compute, or 32 bits (transformers' eager attention)", "compute"),
    word("cross_entropy", "layout", kernels.CrossEntropy, "how the loss is made of logits: fused kernel, compiled, in "
          "chunks of the tokens, as Megatron-LM does unfused or fused_native, fused with LLM Foundry's metrics "
          "(fused_metrics), or as PyTorch does (eager); as 'kernels' if not given", None),
    word("expert_kernels", "layout", kernels.ExpertKernels, "products of a device's experts one by one, or all with "
          "their nonlinearity in one kernel (cuteDSL)", "separate"),
    word("cuda_graph", "layout", kernels.CudaGraph, "what is captured in CUDA graphs, which the host launches at "
          "once: attention, an expert layer's router with what prepares its dispatch, both, or the whole step", "none"),
    word("launch_blocking", "layout", Switch, "the host waits for each kernel before it launches the next "
          "(CUDA_LAUNCH_BLOCKING)", "off"),
    _degree("loss_chunks", "parts of a micro-batch's tokens that a chunked loss is made of one by one", default=8),
)  # fmt: skip

_EVOLUTION = (
    _factor("flop_vs_bw", "FLOP/s relative to the network: compute is this much faster, the network unchanged"),
    _factor("flops", "factor on the FLOP/s of a device"),
    _factor("network", "factor on the bandwidth of every network tier"),
    _factor("scale_up", "factor on the bandwidth of the innermost network tier (NVLink, say), beside network"),
    _factor("scale_out", "factor on the bandwidth of the network tiers beyond the innermost (between nodes), beside "
            "network"),
    _factor("memory_bandwidth", "factor on the HBM bandwidth"),
    _factor("memory_capacity", "factor on the HBM capacity"),
    _factor("latency", "factor on the latency of every hop of the network"),
    Field("nvs", "evolution", "int", "devices of the innermost network domain (NVLink, say); the profile's if not "
          "given", high=2**24),
)  # fmt: skip

FIELDS: dict[str, Field] = {field.name: field for field in (*_TRANSFORMER, *_LAYOUT, *_EVOLUTION, *CONVENTIONS)}


# Fields of earlier versions, and what is to be done about them.
NO_FIELDS = {"batch_tokens": "is no field: give global_batch, in sequences, or --batch-tokens on the command line"}
RETIRED = {"uneven_stages": "stages have different numbers of layers wherever pp x vpp does not divide them, or as "
                            "pp_layout says: leave it out"}  # fmt: skip


def unknown_field(name: str) -> str:
    """Return what to say of a name that is no field: the nearest one, or what became of it.

    >>> unknown_field("uneven_stages")[:39]
    'is no field any more: stages have diffe'
    """
    if name in NO_FIELDS:
        return NO_FIELDS[name]
    if name in RETIRED:
        return f"is no field any more: {RETIRED[name]}"
    return f"unknown field{nearest_name(name, FIELDS)} ({one_of(list(FIELDS))})"


def solvable(names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that have a span to be solved over.

    >>> solvable(["tp", "count"])
    ['tp']
    """
    return [name for name in names if FIELDS[name].solve is not None]


__all__ = ["FIELDS", "Field", "Value", "solvable", "unknown_field"]

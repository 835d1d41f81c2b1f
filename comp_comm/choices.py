"""Fields whose values are words: one class a choice, with the name, the code and the coefficients of each option.

Formulas see codes in arrays, users see words. Both are looked up by the option's name, never by its place in a list.
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comp_comm.choice import Choice


class Switch(Choice):
    """Something that is off or on."""

    OFF = "off"
    ON = "on"


class Precision(Choice):
    """A number format, with the bytes of an element."""

    FP32 = "fp32", 4
    TF32 = "tf32", 4
    FP16 = "fp16", 2
    BF16 = "bf16", 2
    FP8 = "fp8", 1
    NVFP4 = "nvfp4", 0.5 + 1 / 16  # four bits, and a byte of scale for each 16 numbers

    def __init__(self, word: str, size: float) -> None:
        self.size = size


SIXTEEN_BIT_UP = ("fp32", "tf32", "fp16", "bf16", "fp8")  # formats that sums are kept in: fp4 is of GEMMs alone


class Recipe(Choice):
    """How GEMMs run in fewer than 16 bits, by Megatron-LM's words: what scales their operands, and what that moves.

    - ``none``: GEMMs run in 16 bits.
    - ``delayed``: a scale for a tensor, of the largest numbers of the last steps (Transformer Engine's DelayedScaling).
    - ``tensorwise``: a scale for a tensor, of its own largest number: a pass over it before the cast (current scaling).
    - ``blockwise``: a scale for each 128 numbers of an activation, 128 x 128 of a weight (DeepSeek-V3).
    - ``mxfp8``: a scale for each 32 numbers, by the matrix units of Blackwell and later.
    - ``nvfp4``: four bits, a scale for each 16 numbers and one for the tensor.

    Bytes of an element: ``amax`` read to find the largest number, ``read`` by the cast, ``again`` by that of the second
    of the two orientations that training needs (forward and gradient of the input along rows, gradient of the weight
    along columns; NVFP4 rotates its columns first), ``written`` for each of the two. ``cast_share`` is the share of the
    HBM bandwidth that the cast reaches (0: the profile's ``cast_efficiency``), ``start_s`` the seconds of the kernels'
    starts. Per-tensor casts write the second orientation only where ``fp8_transpose`` of the profile says so: Hopper's
    fp8 GEMMs take operands along K only. Bytes are counted by us from Transformer Engine 2's kernels; shares and starts
    are medians of fits to GEMMs that include quantising (AIConfigurator database, TensorRT-LLM on H100, H200, B200,
    GB200, B300 and GB300); those of MXFP8 and delayed scaling are those of a prototype of this model.
    """

    NONE = "none", 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0
    DELAYED = "delayed", 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 3e-6
    TENSORWISE = "tensorwise", 1.0, 2.0, 2.0, 0.0, 1.0, 0.0, 11e-6
    BLOCKWISE = "blockwise", 1.0, 0.0, 2.0, 0.0, 1.03, 0.6, 3.5e-6
    MXFP8 = "mxfp8", 1.03125, 0.0, 2.0, 0.0, 1.03125, 0.7, 3.5e-6
    NVFP4 = "nvfp4", 0.5625, 0.0, 2.0, 2.0, 0.5625, 0.44, 5e-6

    def __init__(
        self, word: str, size: float, amax: float, read: float, again: float, written: float, cast_share: float,
        start_s: float,
    ) -> None:  # fmt: skip
        self.size, self.amax, self.read, self.again, self.written = size, amax, read, again, written
        self.cast_share, self.start_s = cast_share, start_s

    @property
    def per_tensor(self) -> bool:
        """Whether there is one scale for a tensor."""
        return self in (Recipe.DELAYED, Recipe.TENSORWISE)


class CountedGemms(Choice):
    """GEMMs that are counted: of the whole layer, or as Eqs 1-3 of arXiv:2302.02825 print them.

    The paper prints one FC GEMM of two, one attention GEMM of two, three linear ones of four.
    """

    COMPLETE = "complete", 2, 2, 4
    PAPER_EXACT = "paper_exact", 1, 1, 3

    def __init__(self, word: str, fc_gemms: float, attention_gemms: float, linear_gemms: float) -> None:
        self.fc_gemms, self.attention_gemms, self.linear_gemms = fc_gemms, attention_gemms, linear_gemms


class Architecture(Choice):
    """What kind of transformer a model is."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder-decoder"
    VIT = "vit"


class Norm(Choice):
    """A normalisation, with the weights it has for each element: a LayerNorm has a bias beside its gain."""

    LAYERNORM = "layernorm", 2
    RMSNORM = "rmsnorm", 1
    LAYERNORM_NO_BIAS = "layernorm_no_bias", 1

    def __init__(self, word: str, weights: float) -> None:
        self.weights = weights


class Bias(Choice):
    """Which linear layers have a bias: those of Q, K and V; of attention's output; of the feed-forward network."""

    OFF = "off", 0, 0, 0
    QKV = "qkv", 1, 0, 0
    ON = "on", 1, 1, 1
    ATTENTION = "attention", 1, 1, 0
    FFN = "ffn", 0, 0, 1
    NOT_QKV = "not_qkv", 0, 1, 1

    def __init__(self, word: str, qkv: float, output: float, ffn: float) -> None:
        self.qkv, self.output, self.ffn = qkv, output, ffn


class QkNorm(Choice):
    """Normalisation of queries and keys: none, every head by the same weights, or all heads as one vector."""

    OFF = "off"
    ON = "on"
    WHOLE = "whole"


class AttentionGate(Choice):
    """A gate on attention's output: none, one for each number of a head, or one for each head."""

    OFF = "off"
    ON = "on"
    HEADWISE = "headwise"


class Position(Choice):
    """Position embedding: rotary, learned, or none."""

    ROPE = "rope"
    LEARNED = "learned"
    NONE = "none"


class Phase(Choice):
    """What a model does."""

    TRAINING = "training"
    INFERENCE = "inference"


class AttentionCount(Choice):
    """Attention FLOP that are counted: of all scores, or of those that a causal mask leaves."""

    FULL = "full"
    CAUSAL = "causal"


class AttentionKernel(Choice):
    """What computes attention, and whether it skips what a causal mask hides.

    - ``flash_causal``: the fused kernel that training stacks use on the device, as its profile says
      (``timing.attention_kernel``); ``flash``: the same, but it computes everything.
    - ``unfused``: two batched GEMMs, with scores in memory between.
    - ``flash_1``, ``flash_2``, ``flash_3``: FlashAttention's generations (arXiv:2205.14135 with its Triton kernel as in
      llm-foundry, arXiv:2307.08691, arXiv:2407.08608).
    - ``cudnn_2024``, ``cudnn``: cuDNN 9.0 as of 2024, and as of 2025 on (9.10 and later).
    - ``triton``: the kernel of Triton's tutorial, which PyTorch's flex attention is near to.
    - ``trtllm``: TensorRT-LLM's kernels for prefill, which have no backward pass.
    - ``ck``: AMD's Composable Kernel and AITER.
    """

    FLASH_CAUSAL = "flash_causal", 1, 1, 1
    FLASH = "flash", 0, 1, 1
    UNFUSED = "unfused", 0, 1, 1
    FLASH_1 = "flash_1", 1, 0, 0
    FLASH_2 = "flash_2", 1, 1, 0
    FLASH_3 = "flash_3", 1, 1, 1
    CUDNN_2024 = "cudnn_2024", 1, 1, 0
    CUDNN = "cudnn", 1, 1, 1
    TRITON = "triton", 1, 1, 1
    TRTLLM = "trtllm", 1, 1, 1
    CK = "ck", 1, 1, 1

    def __init__(self, word: str, skips: float, windows: float, sinks: float) -> None:
        self.skips, self.windows, self.sinks = skips, windows, sinks

    @classmethod
    def skipping(cls, codes: ArrayLike) -> NDArray[np.bool_]:
        """Return where the kernel does not compute what a causal mask hides.

        >>> AttentionKernel.skipping([AttentionKernel.FLASH, AttentionKernel.CUDNN])
        array([False,  True])
        """
        return cls.look_up("skips", codes) > 0


class CrossEntropy(Choice):
    """How the loss is made of logits: the bytes of a logit that it moves, forward and backward; keeps from the one to
    the other; and needs beside while its gradient is made.

    - ``fused``: one kernel (Transformer Engine, Apex), which writes the gradient over the logits, in 32 bit.
    - ``compiled``: `torch.compile` of the loss: a logit and then its gradient in 16 bit.
    - ``chunked``: what ``eager`` does, of a part of the tokens at a time, forward and backward (torchtitan, Liger): all
      that it needs is that of a chunk.
    - ``unfused``: Megatron-LM's own: a softmax in 32 bit, made in place, and the gradient in 16 bit.
    - ``eager``: PyTorch's `cross_entropy` of ``logits.float()``: keeps its softmax, and makes two gradients in 32 bit.

    Moved bytes of fused, compiled and eager are assumptions; those of Megatron-LM are counted by us: its cast,
    maximum, subtraction, exponential, sum, division, and backward product and cast. What is kept and needed was
    measured (eager, unfused: the live tensors of torch 2.13 and megatron-core 0.16).
    """

    FUSED = "fused", 16.0, 4.0, 0.0
    COMPILED = "compiled", 20.0, 2.0, 2.0
    CHUNKED = "chunked", 34.0, 0.0, 12.0
    UNFUSED = "unfused", 52.0, 4.0, 2.0
    EAGER = "eager", 34.0, 4.0, 8.0

    def __init__(self, word: str, moved: float, kept: float, beside: float) -> None:
        self.moved, self.kept, self.beside = moved, kept, beside


class ElementwiseKernels(Choice):
    """How element-wise kernels are made: the traffic they cost, the loss that goes with them, and what they keep of
    each number of a gated network beside its two inputs and their product.

    One by one, the nonlinearity of the gate is an operation, and its output an input of the product that is kept.
    """

    FUSED = "fused", 1.0, CrossEntropy.FUSED, 0.0
    EAGER = "eager", 1.5, CrossEntropy.EAGER, 1.0
    COMPILED = "compiled", 0.9, CrossEntropy.COMPILED, 0.0

    def __init__(self, word: str, cost: float, loss: CrossEntropy, gate_kept: float) -> None:
        self.cost, self.loss, self.gate_kept = cost, loss, gate_kept


class CudaGraph(Choice):
    """What a CUDA graph launches at once: the share of its kernels that the host still launches one by one, of
    attention, of an expert layer's router with the preparation of its dispatch, of the dispatch, and of all others.

    A graph is launched too: some two launches of the fourteen or so that it replaces.
    """

    NONE = "none", 1.0, 1.0, 1.0, 1.0
    ATTENTION = "attention", 0.15, 1.0, 1.0, 1.0
    ROUTER = "router", 1.0, 0.15, 0.6, 1.0
    ATTENTION_ROUTER = "attention_router", 0.15, 0.15, 0.6, 1.0
    FULL = "full", 0.0, 0.0, 0.0, 0.0

    def __init__(self, word: str, attention: float, router: float, dispatch: float, others: float) -> None:
        self.attention, self.router, self.dispatch, self.others = attention, router, dispatch, others


class ContextComm(Choice):
    """Context parallelism: keys and values round a ring, gathered, or heads swapped for tokens (Ulysses)."""

    P2P = "p2p"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"


class TensorOverlap(Choice):
    """Tensor-parallel communication beside its own split GEMMs, with the share that it gains of what it could hide.

    - ``on``: Transformer Engine's user buffers, and libraries like it.
    - ``async``: PyTorch's asynchronous tensor parallelism: 0.4 and 0.5 in torchtitan's pairs of Llama 3 8B on 64 H100
      with it and without, in bf16 and in fp8 (June 2025).
    """

    OFF = "off", 0.0
    ON = "on", 1.0
    ASYNC = "async", 0.45

    def __init__(self, word: str, gained: float) -> None:
        self.gained = gained


class ExpertKernels(Choice):
    """How the network of the experts of a device is computed: kernels that the host launches for each of them, and
    whether a nonlinearity that is not plain SwiGLU is done in operations of its own.

    - ``separate``: a product for each expert (Transformer Engine's grouped linear layers), the nonlinearity between.
    - ``fused``: all products of a matrix in one kernel, with biases and nonlinearity in it (cuteDSL, cuDNN).
    """

    SEPARATE = "separate", 2.0, 1.0
    FUSED = "fused", 0.0, 0.0

    def __init__(self, word: str, launches: float, apart: float) -> None:
        self.launches, self.apart = launches, apart


class Schedule(Choice):
    """Pipeline schedules: how often a micro-batch passes a stage without interleaving, and copies of the model."""

    ONE_F_ONE_B = "1f1b", 1, 1
    GPIPE = "gpipe", 1, 1
    INTERLEAVED = "interleaved", 1, 1
    ZERO_BUBBLE = "zero_bubble", 1, 1
    ZB_H2 = "zb_h2", 1, 1
    ZB_V = "zb_v", 2, 1
    DUALPIPE = "dualpipe", 1, 2

    def __init__(self, word: str, turns: float, copies: float) -> None:
        self.turns, self.copies = turns, copies


# Megatron-LM's names of what selective recomputation makes again, in the order they are written in.
MODULES = ("core_attn", "mla_up_proj", "layernorm", "moe_act", "mlp", "moe", "shared_experts")
PER_OPERATOR = "per_op"


class Recompute(Choice):
    """Activations that are computed again in the backward pass.

    ``modules`` are the parts of a layer that an option makes again: what Megatron-LM does selectively (the core of
    attention, unless modules are named), or what torchtitan's policy leaves out operator by operator (``per_op``).
    Named modules are an option for each set of them: ``mla_up_proj+mlp``.
    """

    _ignore_ = "option count names"

    NONE = "none", ()
    SELECTIVE = "selective", ("core_attn",)
    FULL = "full", ()
    PER_OP = "per_op", (PER_OPERATOR,)
    option = vars()
    for count in range(1, len(MODULES) + 1):
        for names in combinations(MODULES, count):
            option["_".join(names).upper()] = "+".join(names), names

    def __init__(self, word: str, modules: tuple[str, ...] = ()) -> None:
        self.modules = modules

    @classmethod
    def spelled(cls, raw: object) -> object:
        """Return the word of modules that are named in any order, with + between them or as a list.

        Raises ``ValueError`` for a name that is no module, or is there twice.

        >>> Recompute.spelled("mlp + mla_up_proj"), Recompute.spelled(["mlp"]), Recompute.spelled("full")
        ('mla_up_proj+mlp', 'mlp', 'full')
        """
        if not isinstance(raw, list) and not (isinstance(raw, str) and "+" in raw):
            return raw
        names = [str(name).strip() for name in (raw.split("+") if isinstance(raw, str) else raw)]
        for name in names:
            if name not in MODULES:
                raise ValueError(f"'{name}' is no module to compute again; modules are {', '.join(MODULES)}")
        if len(set(names)) < len(names) or not names:
            raise ValueError(f"names {'a module twice' if names else 'no module'}; modules are {', '.join(MODULES)}")
        return "+".join(name for name in MODULES if name in names)

    @classmethod
    def allowed(cls) -> str:
        """Return what a value may be, in words."""
        words = ", ".join(option.word for option in (cls.NONE, cls.SELECTIVE, cls.FULL, cls.PER_OP))
        return f"one of: {words}; or modules with + between them: {', '.join(MODULES)}"


class MasterWeights(Choice):
    """Where the optimizer has weights in 32 bit: in a copy beside those of 16, or as the shards of ZeRO 3 themselves.

    Shards in 32 bit are cast before they are gathered, and have gradients in 32 bit, whatever these were reduced in.
    """

    COPY = "copy"
    SHARDS = "shards"


class CollectiveAlgorithm(Choice):
    """Algorithms of an all-reduce; the best is the fastest of those that the network has."""

    BEST = "best"
    RING = "ring"
    TREE = "tree"
    HIERARCHICAL = "hierarchical"
    IN_NETWORK = "in_network"


class Strategy(Choice):
    """How the foundation-models paper splits a layer: 1D TP, SUMMA on a grid, or TP with the sequence split as well."""

    ONE_D = "1d"
    SUMMA = "2d"
    SEQUENCE = "2d-seqp"


class Formulas(Choice):
    """Formulas of the foundation-models paper: with the slips of the published code, or without."""

    AS_PUBLISHED = "as_published"
    CORRECTED = "corrected"


GROUPS = ("tp", "cp", "dp", "pp")


class GroupOrder(Choice):
    """An order of the parallel groups on the network."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, from the inside out: the first takes neighbours."""
        return tuple(self.word.split("-"))


# Every order of the groups; the first is Megatron-LM's.
Placement: type[GroupOrder] = GroupOrder(  # type: ignore[assignment]
    "Placement",
    {"_".join(order).upper(): "-".join(order) for order in permutations(GROUPS)},  # type: ignore[arg-type]
)

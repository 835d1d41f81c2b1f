"""Fields whose values are words: one class a choice, with the name, the code and the coefficients of each option.

Formulas see codes in arrays, users see words. Both are looked up by the option's name, never by its place in a list.
"""

from __future__ import annotations

from itertools import combinations

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
    """A normalisation, with the weights it has for each element: a LayerNorm has a bias beside its gain.

    OLMo 1's LayerNorm has neither: none of transformers' parameters of it is of a norm.
    """

    LAYERNORM = "layernorm", 2
    RMSNORM = "rmsnorm", 1
    LAYERNORM_NO_BIAS = "layernorm_no_bias", 1
    LAYERNORM_NO_WEIGHTS = "layernorm_no_weights", 0

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


class ActivationFunction(Choice):
    """The nonlinearity of feed-forward networks, by what it keeps of its input where it has a kernel of its own.

    That is its input (``input_kept``); nothing for a rectifier, whose output says enough. ``parts`` are numbers kept
    beside where it is written out in operations that run one by one, ``forward`` and ``backward`` the numbers that
    these move.

    - ``gelu``: one kernel; SiLU is as much, and a squared rectifier, which keeps the rectifier's output.
    - ``relu``: one kernel, of which the output is kept (OPT, T5).
    - ``gelu_new``: GELU by a hyperbolic tangent, written out in transformers (GPT-2's, GPT-J's): cube, scale, sum,
      scale, tanh, sum, scale, product, of which tanh, 1 + tanh and x / 2 are kept beside x.
    """

    GELU = "gelu", 1, 0, 0, 0
    RELU = "relu", 0, 0, 0, 0
    GELU_NEW = "gelu_new", 1, 3, 17, 28

    def __init__(self, word: str, input_kept: float, parts: float, forward: float, backward: float) -> None:
        self.input_kept, self.parts, self.forward, self.backward = input_kept, parts, forward, backward


class AttentionGate(Choice):
    """A gate on attention's output: none, one for each number of a head, or one for each head."""

    OFF = "off"
    ON = "on"
    HEADWISE = "headwise"


class KdaGates(Choice):
    """Projections of decay and output gate in Kimi Delta Attention: which of them are of full rank (1), not two."""

    LOW_RANK = "low_rank", 0, 0
    OUTPUT = "output", 0, 1
    FULL = "full", 1, 1

    def __init__(self, word: str, decay: float, output: float) -> None:
        self.decay, self.output = decay, output


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


class ContextComm(Choice):
    """Context parallelism: keys and values round a ring, gathered, or heads swapped for tokens (Ulysses)."""

    P2P = "p2p"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"


class ContextImplementation(Choice):
    """Whose context parallelism it is, where keys and values are passed round or gathered.

    - ``transformer_engine``: Megatron-LM's and NeMo's. Gradients go round with the keys in the format of both; gathers
      are of keys and of values, and done again backward (its `AttnFuncWithCPAndKVP2P`, `...AllGather`).
    - ``torch``: PyTorch's ring attention, whichever way keys come (one gather of both): their gradients go round in
      32 bit, cp times.
    - ``flex``: PyTorch's gathers for flex attention, as torchtitan has them: kept for the backward pass.

    Messages of a gather, whether it is done again backward, and whether gradients travel in 32 bit.
    """

    TRANSFORMER_ENGINE = "transformer_engine", 2, 1, 0
    TORCH = "torch", 1, 1, 1
    FLEX = "flex", 2, 0, 0

    def __init__(self, word: str, messages: float, again: float, wide: float) -> None:
        self.messages, self.again, self.wide = messages, again, wide


class SequenceInputs(Choice):
    """What sequence parallelism keeps of the inputs that it gathers: a device's part, or the whole."""

    AGAIN = "again"
    KEPT = "kept"


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


class Schedule(Choice):
    """Pipeline schedules.

    With how often a micro-batch passes a stage without interleaving (``turns``), how many ``copies`` of the model there
    are, whether gradients of weights are passes of their own (``splits_backward``), and whether a stage begins its next
    step only when all are done with this one (``has_barrier``).
    """

    ONE_F_ONE_B = "1f1b", 1, 1, False, True
    GPIPE = "gpipe", 1, 1, False, True
    INTERLEAVED = "interleaved", 1, 1, False, True
    ZERO_BUBBLE = "zero_bubble", 1, 1, True, True
    ZB_H2 = "zb_h2", 1, 1, True, False
    ZB_V = "zb_v", 2, 1, True, False
    DUALPIPE = "dualpipe", 1, 2, True, True

    def __init__(self, word: str, turns: int, copies: int, splits_backward: bool, has_barrier: bool) -> None:
        self.turns, self.copies = turns, copies
        self.splits_backward, self.has_barrier = splits_backward, has_barrier


# Megatron-LM's names of what selective recomputation recomputes, in the order they are written in.
MODULES = ("core_attn", "mla_up_proj", "layernorm", "moe_act", "mlp", "moe", "shared_experts")
PER_OPERATOR = "per_op"


class Recompute(Choice):
    """Activations that are computed again in the backward pass.

    ``modules`` are the parts of a layer that an option recomputes: what Megatron-LM does selectively (the core of
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

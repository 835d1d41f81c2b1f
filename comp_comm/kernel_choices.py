"""How kernels are made and run, as words: recipes of few bits, attention, the loss, experts, CUDA graphs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comp_comm.choice import Choice


class Recipe(Choice):
    """How GEMMs run in fewer than 16 bits, by Megatron-LM's words: what scales their operands, and what that moves.

    - ``none``: GEMMs run in 16 bits.
    - ``delayed``: a scale for a tensor, of the largest numbers of the last steps (Transformer Engine's DelayedScaling).
    - ``tensorwise``: a scale for a tensor, of its own largest number: a pass over it before the cast (current scaling).
    - ``blockwise``: a scale for each 128 numbers of an activation, 128 x 128 of a weight (DeepSeek-V3).
    - ``mxfp8``: a scale for each 32 numbers, by the matrix units of Blackwell and later.
    - ``nvfp4``: four bits, a scale for each 16 numbers and one for the tensor.
    - ``rowwise``: a scale for each row of an activation and column of a weight, and the other way round in the other
      orientation (torchao's Float8Linear); ``rowwise_with_gw_hp`` makes gradients of weights in 16 bits.

    Bytes of an element: ``amax`` read to find the largest number, ``read`` by the cast, ``again`` by that of the second
    of the two orientations that training needs (forward and gradient of the input along rows, gradient of the weight
    along columns; NVFP4 rotates its columns first; rowwise writes 16 bits transposed and reads them), ``written`` for
    each of the two. ``cast_share`` is the share of the HBM bandwidth that the cast reaches (0: the profile's
    ``cast_efficiency``, or with scales for blocks of numbers ``block_cast_efficiency``), ``start_s`` the seconds of the
    kernels' starts. Per-tensor casts write the second orientation only where ``fp8_transpose`` of the profile says so:
    Hopper's fp8 GEMMs take operands along K only.

    ``stored`` is 1 where weights and inputs are kept and sent in the recipe's format, 0 where each pass quantises them
    anew of 16 bits; ``weight_gradients`` is 1 where gradients of weights are products in the recipe's format.

    Bytes are counted by us from Transformer Engine 2's kernels; shares and starts are medians of fits to GEMMs that
    include quantising (AIConfigurator database, TensorRT-LLM on H100, H200, B200, GB200, B300 and GB300); those of
    MXFP8 and delayed scaling are those of a prototype of this model. Kernels of rowwise scaling, and their bytes and
    starts (2 us each), are those that torchao counts in its roofline (pytorch/ao,
    torchao/testing/training/roofline_utils.py).
    """

    NONE = "none", 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0
    DELAYED = "delayed", 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 3e-6, 1.0, 1.0
    TENSORWISE = "tensorwise", 1.0, 2.0, 2.0, 0.0, 1.0, 0.0, 11e-6, 1.0, 1.0
    BLOCKWISE = "blockwise", 1.0, 0.0, 2.0, 0.0, 1.03, 0.0, 3.5e-6, 1.0, 1.0
    MXFP8 = "mxfp8", 1.03125, 0.0, 2.0, 0.0, 1.03125, 0.7, 3.5e-6, 1.0, 1.0
    NVFP4 = "nvfp4", 0.5625, 0.0, 2.0, 2.0, 0.5625, 0.44, 5e-6, 1.0, 1.0
    ROWWISE = "rowwise", 1.0, 0.0, 2.0, 4.0, 1.0, 0.0, 4e-6, 0.0, 1.0
    ROWWISE_WITH_GW_HP = "rowwise_with_gw_hp", 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 2e-6, 0.0, 0.0

    def __init__(
        self, word: str, size: float, amax: float, read: float, again: float, written: float, cast_share: float,
        start_s: float, stored: float, weight_gradients: float,
    ) -> None:  # fmt: skip
        self.size, self.amax, self.read, self.again, self.written = size, amax, read, again, written
        self.cast_share, self.start_s = cast_share, start_s
        self.stored, self.weight_gradients = stored, weight_gradients

    @property
    def per_tensor(self) -> bool:
        """Whether there is one scale for a tensor."""
        return self in (Recipe.DELAYED, Recipe.TENSORWISE)


class AttentionKernel(Choice):
    """What computes attention, whether it skips what a causal mask hides, and what it does beside.

    - ``flash_causal``: the fused kernel that training stacks use on the device, as its profile says
      (``timing.attention_kernel``); ``flash``: the same, but it computes everything.
    - ``unfused``: two batched GEMMs, with scores in memory between.
    - ``flash_1``, ``flash_2``, ``flash_3``: FlashAttention's generations (arXiv:2205.14135, arXiv:2307.08691,
      arXiv:2407.08608).
    - ``triton_1``: the Triton kernel beside FlashAttention 1 (its flash_attn_triton), as in llm-foundry.
    - ``cudnn_2024``, ``cudnn``: cuDNN 9.0 as of 2024, and as of 2025 on (9.10 and later).
    - ``triton``: the kernel of Triton's tutorial, which PyTorch's flex attention is near to.
    - ``trtllm``: TensorRT-LLM's kernels for prefill, which have no backward pass. Its operation rotates queries and
      keys and writes keys and values of heads to the cache, in a kernel of its own before (``prepares``; TensorRT-LLM's
      applyBiasRopeUpdateKVCache), so that there is no rotation beside it.
    - ``ck``: AMD's Composable Kernel and AITER.
    """

    FLASH_CAUSAL = "flash_causal", 1, 1, 1, 0
    FLASH = "flash", 0, 1, 1, 0
    UNFUSED = "unfused", 0, 1, 1, 0
    FLASH_1 = "flash_1", 1, 0, 0, 0
    FLASH_2 = "flash_2", 1, 1, 0, 0
    FLASH_3 = "flash_3", 1, 1, 1, 0
    CUDNN_2024 = "cudnn_2024", 1, 1, 0, 0
    CUDNN = "cudnn", 1, 1, 1, 0
    TRITON = "triton", 1, 1, 1, 0
    TRTLLM = "trtllm", 1, 1, 1, 1
    CK = "ck", 1, 1, 1, 0
    TRITON_1 = "triton_1", 1, 0, 0, 0

    def __init__(self, word: str, skips: float, windows: float, sinks: float, prepares: float) -> None:
        self.skips, self.windows, self.sinks, self.prepares = skips, windows, sinks, prepares

    @classmethod
    def skipping(cls, codes: ArrayLike) -> NDArray[np.bool_]:
        """Return where the kernel does not compute what a causal mask hides.

        >>> AttentionKernel.skipping([AttentionKernel.FLASH, AttentionKernel.CUDNN])
        array([False,  True])
        """
        return cls.look_up("skips", codes) > 0


class CrossEntropy(Choice):
    """How the loss is made of logits: the bytes of a logit that it moves, forward and backward; keeps from the one to
    the other; needs beside while its gradient is made; and that PyTorch's allocator holds unused then.

    - ``fused``: one kernel (Transformer Engine, Apex), which writes the gradient over the logits, in 32 bit.
    - ``compiled``: `torch.compile` of the loss: a logit and then its gradient in 16 bit.
    - ``chunked``: what ``eager`` does, of a part of the tokens at a time, forward and backward (torchtitan, Liger): all
      that it needs is that of a chunk.
    - ``unfused``: Megatron-LM's own: a softmax in 32 bit, made in place, and the gradient in 16 bit.
    - ``eager``: PyTorch's `cross_entropy` of ``logits.float()``: keeps its softmax, and makes two gradients in 32 bit.
    - ``fused_native``: Megatron-LM's own with its element-wise steps compiled (`--cross-entropy-fusion-impl native`).
    - ``fused_metrics``: a fused kernel, and two metrics that Composer makes of each micro-batch's logits for LLM
      Foundry: PyTorch's cross entropy of a copy in 32 bit, forward alone.

    Moved bytes of fused, compiled and eager are assumptions; those of Megatron-LM are counted by us: its cast,
    maximum, subtraction, exponential, sum, division, and backward product and cast; of what is compiled the cast with
    the maximum (6), subtraction with exponential (8), sum (4), division (8), product with cast (6); of a metric the
    cast (6) and the softmax (8). What is kept and
    needed was measured (eager, unfused: the live tensors of torch 2.13 and megatron-core 0.16). Unused is the place of
    the 16-bit logits: free by then, and half of what a gradient in 32 bit needs.
    """

    FUSED = "fused", 16.0, 4.0, 0.0, 0.0
    COMPILED = "compiled", 20.0, 2.0, 2.0, 0.0
    CHUNKED = "chunked", 34.0, 0.0, 12.0, 0.0
    UNFUSED = "unfused", 52.0, 4.0, 2.0, 0.0
    EAGER = "eager", 34.0, 4.0, 8.0, 2.0
    FUSED_NATIVE = "fused_native", 32.0, 4.0, 2.0, 0.0
    FUSED_METRICS = "fused_metrics", 16.0 + 2 * 14.0, 4.0, 0.0, 0.0

    def __init__(self, word: str, moved: float, kept: float, beside: float, unused: float) -> None:
        self.moved, self.kept, self.beside, self.unused = moved, kept, beside, unused


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


class NormKernel(Choice):
    """How a norm is made: the bytes of a number that it moves, forward and backward, and keeps beside its input.

    - ``fused``: one kernel; its input and a number a token are kept.
    - ``eager``: one operation at a time, weights applied in 16 bit (Llama's in transformers, torchtitan's of 2024):
      cast, square, mean, product with the root, cast back, product with the weights. A copy of the input in 32 bit is
      kept, and what is multiplied with the weights.
    - ``eager_fp32``: the same, weights applied in 32 bit (Gemma's and OLMo 2's in transformers, PyTorch's own where it
      has no kernel for it): that is kept in 32 bit, too.

    A LayerNorm that is written out (``eager``, Cohere's in transformers) keeps three numbers in 32 bit and not its
    input: what is squared, what is multiplied with the root, and what with the weights. One kernel on a copy of its
    input in 32 bit (``eager_fp32``, OLMo's and Nemotron's) keeps that copy: ``beside_layernorm``.

    ``of_weights`` and ``of_layernorm_weights`` are what of it only the weights' gradient needs: none where they are
    frozen.

    What is moved was counted by us, for an RMSNorm; what is kept is as PyTorch's autograd has it.
    """

    FUSED = "fused", 4.0, 6.0, 0.0, 0.0, 0.0, 0.0
    EAGER = "eager", 36.0, 88.0, 4.0, 2.0, 10.0, 4.0
    EAGER_FP32 = "eager_fp32", 40.0, 100.0, 6.0, 4.0, 2.0, 0.0

    def __init__(self, word: str, forward: float, backward: float, beside: float, of_weights: float,
                 beside_layernorm: float, of_layernorm_weights: float) -> None:  # fmt: skip
        self.forward, self.backward, self.beside, self.of_weights = forward, backward, beside, of_weights
        self.beside_layernorm, self.of_layernorm_weights = beside_layernorm, of_layernorm_weights


class SoftmaxPrecision(Choice):
    """The format of attention's softmax where its scores are a matrix: that of compute, or 32 bits.

    In 32 bits (transformers' eager attention; Megatron-LM's without its fused softmax) that is kept, and beside it what
    is multiplied with values, in 16: ``size`` are the bytes of a number of the softmax, 0 for those of compute.
    """

    COMPUTE = "compute", 0.0
    FP32 = "fp32", 4.0

    def __init__(self, word: str, size: float) -> None:
        self.size = size


class QkvKept(Choice):
    """What of queries, keys and values is kept: each by itself, or also the product that they are parts of.

    - ``parts``: rotated queries and keys, and values.
    - ``product``: the same, but values are a view of the product that they are parts of, which is kept: of Q, K and V,
      or of keys and values that latents are projected up to (torchtitan's DeepSeek).
    - ``masked``: keys and values once for each head of queries, as they are where scores are a matrix, and a mask of
      the scores in 16 bits (transformers' attention that is given one: windows, padding, packed documents).
    - ``joined``: queries and keys are joined of a part that is rotated and one that is not, which leaves attention's
      output in an order of its own; its copy is kept as well (Phi, StableLM in transformers).
    - ``whole``: that, and one projection makes all three: values stay a view of what it makes, which is kept beside
      rotated queries and keys (GPT-NeoX, Phi-3 in transformers, by PyTorch's autograd).
    """

    PARTS = "parts", 0, 0, 0
    JOINED = "joined", 1, 0, 0
    WHOLE = "whole", 1, 1, 0
    PRODUCT = "product", 0, 1, 0
    MASKED = "masked", 0, 0, 1

    def __init__(self, word: str, output: float, product: float, mask: float) -> None:
        self.output, self.product, self.mask = output, product, mask


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


class ExpertKernels(Choice):
    """How the network of the experts of a device is computed: kernels that the host launches for each of them, and
    whether a nonlinearity that is not plain SwiGLU is done in operations of its own.

    - ``separate``: a product for each expert (Transformer Engine's grouped linear layers), whose operands are quantised
      one by one, the nonlinearity between.
    - ``fused``: all products of a matrix in one kernel, with biases and nonlinearity in it (cuteDSL, cuDNN).
    """

    SEPARATE = "separate", 2.0, 1.0
    FUSED = "fused", 0.0, 0.0

    def __init__(self, word: str, launches: float, apart: float) -> None:
        self.launches, self.apart = launches, apart

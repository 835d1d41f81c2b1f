"""Fields of conventions: number formats, what is counted, what-if questions, phases. Part of `comp_comm.fields`."""

from __future__ import annotations

from comp_comm import choices
from comp_comm import kernel_choices as kernels
from comp_comm.choices import Switch
from comp_comm.field import Field, word
from comp_comm.lora import FrozenPrecision

CONVENTIONS = (
    word("precision", "convention", choices.Precision, "number format of compute (and of messages, unless "
          "comm_precision is given)", "fp16"),
    word("comm_precision", "convention", choices.Precision, "number format of activations on the wire; that of "
          "compute, 16 bit for fp8, if not given", None),
    word("recipe", "convention", kernels.Recipe, "how GEMMs run in fp8 or nvfp4, in Megatron-LM's words: a scale for "
          "a tensor (delayed, or tensorwise: of its own largest number), 128 numbers (blockwise), 32 (mxfp8) or 16 "
          "(nvfp4); or in torchao's, for a row (rowwise; rowwise_with_gw_hp: gradients of weights in 16 bits); that of "
          "the device's profile for fp8 if not given", None),
    word("fp8_attention", "convention", Switch, "attention in fp8, where GEMMs are in fp8 or nvfp4", "off"),
    word("fp8_head", "convention", Switch, "the output layer by the recipe as well, not in 16 bits", "off"),
    word("fp8_param_gather", "convention", Switch, "weights are gathered in fp8, and kept in fp8 alone", "off"),
    word("fp8_activations", "convention", Switch, "inputs of nonlinearities are kept in fp8 (Megatron-LM's "
         "activation_func_fp8_input_store, DeepSeek-V3)", "off"),
    word("frozen_precision", "convention", FrozenPrecision, "with lora_rank: number format of frozen "
         "weights of layers (QLoRA), 4-bit NormalFloat with scales in 8 bits (nf4: double quantisation) or in 32 "
         "(nf4_single); that of other weights if not given", None),
    word("dispatch_precision", "convention", choices.Precision, "number format of tokens on their way to experts; "
          "comm_precision if not given", None),
    word("combine_precision", "convention", choices.Precision, "number format of what experts send back; "
          "comm_precision if not given", None),
    word("grad_precision", "convention", choices.Precision, "number format gradients are reduced in; that of the "
          "weights if not given", None, choices.SIXTEEN_BIT_UP),
    word("accumulate_precision", "convention", choices.Precision, "number format of a buffer that gradients are "
          "added up in, beside those reduced; none if not given", None, choices.SIXTEEN_BIT_UP),
    word("optimizer_precision", "convention", choices.Precision, "number format of Adam's two moments", "fp32",
          choices.SIXTEEN_BIT_UP),
    word("count", "convention", choices.CountedGemms,
          "GEMMs counted: the whole layer, or as the paper's Eqs 1-3 print them",
          "complete"),
    word("count_attention", "convention", choices.AttentionCount, "attention FLOP counted in model FLOP, and so in "
          "MFU: all scores, or those a causal mask leaves", "full"),
    Field("timing", "convention", "choice", "a named timing preset of the hardware profile; its default if not given"),
    Field("memory_scaling", "convention", "float", "device memory over the base model's device, s of Eq 10; "
          "device memory over 32 GiB if not given", low=1e-6, high=1e6),
    Field("inter_node_slowdown", "convention", "float", "how many times less bandwidth the data-parallel links have",
          low=1, high=1e6, default=1.0, solve=(1, 1e4)),
    Field("interference", "convention", "float", "slowdown of overlapped communication by running beside compute",
          low=1, high=1e6, default=1.0, solve=(1, 1e4)),
    word("comm_offload", "convention", Switch, "what-if: a co-processor communicates, and what is overlapped is "
          "not slowed by compute", "off"),
    word("in_network_reduction", "convention", Switch, "what-if: switches reduce, so that a message leaves a "
          "device once", "off"),
    word("in_memory_reduction", "convention", Switch, "what-if: memory adds up what arrives (PIM), which "
          "lessens interference", "off"),
    word("fused_comm", "convention", Switch, "what-if: a GEMM's output is reduced tile by tile while made",
          "off"),
    Field("fused_tiles", "convention", "int", "with fused_comm: tiles that a GEMM's output is reduced in", low=1,
          high=1e6, default=8),
    word("phase", "convention", choices.Phase, "training, or inference: prefill and decode with a KV cache",
          "training"),
    Field("output_len", "convention", "int", "tokens generated for a prompt of seq_len", "tokens", low=1, high=2**30,
          default=256),
    word("kv_precision", "convention", choices.Precision, "number format of the KV cache; that of activations if not "
          "given", None),
    Field("sustained", "convention", "float", "share of its isolated speed that a GEMM keeps in a whole step; the "
          "profile's if not given", low=0.01, high=1.5, solve=(0.05, 1.5)),
    Field("framework_gib", "convention", "float", "memory of the framework: context, communicators, fragmentation",
          "GiB", low=0, high=1e4, default=2.0),
    Field("bubble_ratio", "convention", "float", "share of a 1F1B pipeline's bubble that is waited; 1 / vpp if not "
          "given", low=0, high=1),
    Field("zero_overhead", "convention", "float", "what ZeRO adds to the communication of layers, as a share of it: "
          "0.5 where weights are gathered again (stage 3)", low=0, high=10, default=0.0),
    word("formulas", "convention", choices.Formulas, "formulas of foundation_models: with the slips of the published "
          "code, or without", "as_published"),
    Field("tokens", "convention", "float", "tokens of a whole run (15T is 15 x 10^12), for its days and GPU-hours",
          "tokens", low=1, high=1e18),
)  # fmt: skip

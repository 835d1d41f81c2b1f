"""Arguments of Megatron-LM that make what is not modelled: refused, each kind with one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from comp_comm.configs.importers.imported import Keys, is_off, shown
from comp_comm.configs.importers.shell_scope import readable

PARTITIONS = re.compile(r"(?:type:(?:transformer|ParallelTransformerLayer)(?:\|embedding)?|uniform|parameters)$", re.I)


class Unmodelled(NamedTuple):
    """A kind of what is not modelled: that it is not, and the arguments that are about it.

    Those of ``more`` only describe it further. ``accepts`` says which value of an argument is that of nothing special.
    """

    sentence: str
    flags: tuple[str, ...]
    more: tuple[str, ...] = ()
    accepts: Callable[[object], bool] = is_off


def _is(*allowed: object) -> Callable[[object], bool]:
    return lambda value: is_off(value) or value in allowed


KINDS = (
    Unmodelled("attention other than of all tokens to all, of a window, or Gated DeltaNet (sparse, others) is not "
         "modelled", ("--experimental-attention-variant", "--linear-attention-type"),
         ("--dsa-", "--experimental-attention-variant-"), accepts=_is("gated_delta_net")),
    Unmodelled("a gated delta product is not modelled", ("--gdp-num-householder",), ("--gdp-",)),
    Unmodelled("layers at an interval of their own are not modelled", ("--full-attention-interval",)),
    Unmodelled("layers that differ from one another are not modelled", ("--heterogeneous-layers-config-path",
         "--heterogeneous-layers-config-encoded-json", "--heterogeneous-block-specs")),
    Unmodelled("a stage of its own for the embedding, or for multi-token prediction, is not modelled",
         ("--standalone-embedding-stage", "--mtp-standalone", "--custom-pipeline-layers")),
    Unmodelled("pipeline stages laid out by hand are not modelled", ("--pp-partition-method",),
         accepts=lambda value: is_off(value) or PARTITIONS.match(str(value)) is not None),
    Unmodelled("an encoder with a layout of its own is not modelled", ("--encoder-pipeline-model-parallel-size",
         "--pipeline-model-parallel-split-rank", "--encoder-tensor-model-parallel-size")),
    Unmodelled("reinforcement learning, which generates between steps, is not modelled",
         ("--perform-rl-step", "--langrl-env-config", "--rl-partial-rollouts", "--rl-default-temperature"),
         ("--rl-", "--grpo-", "--langrl-", "--refit-method")),
    Unmodelled("distillation from a second model is not modelled",
         ("--kd", "--mos", "--load-teacher", "--logits-load-dir", "--export-kd-teacher-load"),
         ("--kd-", "--logits-load-", "--export-kd-")),
    Unmodelled("a teacher beside the model is not modelled", ("--num-layers-teacher", "--hidden-size-teacher",
         "--num-attention-heads-teacher", "--num-experts-teacher")),
    Unmodelled("retrieval, which adds an encoder and layers that read from it, is not modelled",
         ("--retro-add-retriever", "--retro-project-dir"), ("--retro-", "--retriever-")),
    Unmodelled("a model of more than text is not modelled", ("--model-provider", "--language-model-checkpoint",
         "--vision-model-type", "--use-packed-sequence", "--dataloader-seq-length"),
         ("--dataset-provider", "--total-seq-length", "--packing-", "--img-", "--patch-dim", "--num-img", "--vision-",
          "--disable-vision-class-token", "--max-num-tiles", "--use-tiling", "--use-thumbnail", "--language-model-type",
          "--prompt-path", "--pixel-shuffle", "--freeze-", "--image-", "--decoder-seq-length", "--combine-valid",
          "--allow-missing-", "--use-te", "--use-image-", "--packing", "--recompute-vision", "--use-loss-scaling",
          "--online-evaluation-config", "--use-vision-backbone-fp8-arch", "--force-system-message")),
    Unmodelled("a model whose size changes from step to step is not modelled", ("--flextron",),
         ("--enable-router", "--binary-mask", "--soft-mask", "--hard-sample-th", "--router-", "--budget-", "--slice",
          "--original-model-sample-prob", "--tau-", "--loss-alpha", "--lr-mult-router", "--linear-scaler-",
          "--emb-int-list", "--mlp-int-list", "--mamba-int-list", "--moe-expert-int-list")),
    Unmodelled("a model of images is not modelled",
         ("--vision-pretraining", "--vision-backbone-type", "--img-h", "--img-w", "--img-dim"),
         ("--patch-dim", "--num-classes", "--num-channels", "--swin-", "--dino-", "--vision-", "--classes-fraction",
          "--data-per-class-fraction", "--mask-type", "--mask-factor", "--head-lr-mult",
          "--disable-vision-class-token")),
    Unmodelled("a retriever of two encoders is not modelled",
         ("--ict-load", "--ict-head-size", "--biencoder-projection-dim", "--biencoder-shared-query-context-model"),
         ("--ict-", "--biencoder-", "--query-in-block-prob", "--indexer-",
         "--use-one-sent-docs", "--retriever-")),
    Unmodelled("a part of a layer's activations in host memory is not modelled",
         ("--fine-grained-activation-offloading", "--checkpoint-in-cpu", "--moe-paged-stash", "--offload-modules"),
         ("--min-offloaded-tensor-size", "--activation-offload-fraction", "--moe-paged-stash-",
          "--delay-offload-", "--delta-offload-", "--fine-grained-")),
    Unmodelled("attention in chunks that host memory keeps (FPDT) is not modelled", ("--ds-sequence-parallel-fpdt",),
         ("--ds-sequence-parallel-fpdt-",)),
    Unmodelled("more than one residual stream is not modelled", ("--enable-mhc-connections",), ("--mhc-",)),
    Unmodelled("a sequence length that grows (curriculum learning) is not modelled", ("--curriculum-learning",
         "--data-efficiency-curriculum-learning"), ("--curriculum-",)),
    Unmodelled("tokens dropped in some layers are not modelled", ("--random-ltd",)),
    Unmodelled("generating text instead of training is not modelled",
         ("--inference", "--num-tokens-to-generate", "--ds-inference", "--perform-inference",
          "--incoming-requests-per-step", "--incoming-requests-per-sec"),
         ("--temperature", "--top-k", "--top-p", "--greedy", "--max-tokens-to-oom", "--prompts", "--prompt-file",
          "--output-path", "--return-log-probs", "--out-seq-length", "--use-legacy-static-engine",
          "--cache-mla-latents",
          "--enable-chunked-prefill", "--sample-input-file", "--genfile", "--num-samples", "--flash-decode")),
    Unmodelled("a second kind of context parallelism is not modelled", ("--hierarchical-context-parallel-sizes",
         "--hybrid-context-parallel"), ("--max-seqlen-per-dp-cp-rank",)),
    Unmodelled("weights sharded within the tensor-parallel group are not modelled", ("--gtp-weight-remat-size",
         "--expert-gtp-weight-remat-size", "--tensor-parallel-num-weight-shards",
         "--expert-tensor-parallel-num-weight-shards"), ("--gtp-",), accepts=_is(1)),
    Unmodelled("number formats of 4 bit are not modelled", ("--fp4-format", "--fp4"), ("--fp4-",)),
    Unmodelled("linear layers cut into tiles are not modelled", ("--memory-centric-tiled-linear",), ("--tile-factor",)),
    Unmodelled("experts beside a dense network (residual) are not modelled", ("--mlp-type",), accepts=_is("standard")),
    Unmodelled("parameters on another device are not modelled", ("--remote-device",), accepts=_is("none")),
    Unmodelled("replicas of replicas are not modelled",
         ("--outer-dp-sharding-strategy", "--enable-full-sharding-in-hsdp"), accepts=_is("no_shard")),
    Unmodelled("quantised training is not modelled",
         ("--use-kitchen", "--kitchen-config-file", "--kitchen-recipe-number", "--use-kitchen-attention"),
         ("--kitchen-", "--quant-")),
    Unmodelled("experts of Switch Transformers are not modelled", ("--num-experts-switch",)),
    Unmodelled("training a part of the weights (LoRA, BitFit) is not modelled",
         ("--lora-rank", "--lora-r", "--lora-alpha", "--peft", "--bitfit"), ("--lora-",)),
    Unmodelled("another optimizer than Adam and Muon is not modelled", ("--optimizer",),
         accepts=_is("adam", "adamw", "Adam", "AdamW", "muon", "dist_muon")),
    Unmodelled("another optimizer than Adam beside Muon is not modelled", ("--muon-scalar-optimizer",),
         accepts=_is("adam")),
)  # fmt: skip


def refuse(keys: Keys) -> None:
    """Name what is not modelled, each kind once, at the first argument that asks for it."""
    for kind in KINDS:
        asking = [flag for flag in kind.flags if flag in keys.mapping and not kind.accepts(keys.mapping[flag])]
        if asking:
            value = keys.mapping[asking[0]]
            spelled = "" if value is True else f"{shown(readable(value) if isinstance(value, str) else value)} "
            keys.wrong((asking[0],), f"{spelled}is not understood: {kind.sentence}")
        more = [flag for flag in keys.mapping for beginning in kind.more
                if flag == beginning or (beginning.endswith("-") and flag.startswith(beginning))]  # fmt: skip
        keys.ignore((*kind.flags, *(more if asking else [])))

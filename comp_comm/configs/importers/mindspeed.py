"""Arguments that MindSpeed-LLM (Ascend) has beside those of Megatron-LM, as the latter say the same."""

from __future__ import annotations

from comp_comm.configs.importers.adapters import set_adapters
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown

SIGNS = ("--use-fused-swiglu", "--use-fused-rmsnorm", "--use-fused-rotary-pos-emb", "--context-parallel-algo",
         "--ai-framework", "--first-k-dense-replace", "--reuse-fp32-param", "--moe-permutation-async-comm",
         "--handler-name", "--model-type-hf", "--is-instruction-dataset", "--prompt-type")  # fmt: skip
_IGNORED = """
    handler-name enable-hf2mg-convert model-type-hf no-shared-storage fix-router mla-fa-without-pad
    is-instruction-dataset prompt-type ai-framework disable-gloo-group gemm-gradient-accumulation-fusion
    attention-mask-type norm-topk-prob tokenizer-not-use-fast tokenizer-name-or-path mla-mm-split seq-aux
    fix-sub-seq-length no-pad-to-seq-lengths exit-on-missing-checkpoint shape-order mtp-mem-efficient-logits
    use-glm-rope variable-seq-lengths no-check-for-nan-in-loss-and-grad no-chat-template neat-pack
    init-norm-weight-in-fp32 hccl-op-mode topk-softmax-in-fp32 router-gating-in-fp32 no-bias-swiglu-fusion
    no-bias-dropout-fusion no-bias-gelu-fusion input-layernorm-in-fp32 rmsnorm-weight-in-fp32 no-enable-linear-qkv
    padded-samples no-shuffle is-pairwise-dataset use-cp-send-recv-overlap use-triton-gdn coc-fused-kernel
    coc-parallel-num low-freq-factor high-freq-factor original-max-position-embeddings original-seq-len rope-factor
    short-factor long-factor longrope-freqs-type partial-rotary-factor beta-fast beta-slow indexer-loss-coeff
    use-sparse-flash-attn prompt-suffix enable-mla-scale-q-lora enable-mla-scale-kv-lora pack lora-fusion stage
    distributed-backend jit-compile sparse-mode tokenizer-padding-side cut-max-seqlen moe-router-enable-expert-bias
    enable-thinking enable-share-memory npu-deterministic data-parallel-random-init dim-model-base scale-depth
    scale-emb moe-unperm2-mem-optim pre-tockens overwrite-cache preprocessing-num-workers map-keys cache-dir
    enable-overlap-p2p-comm enable-high-availability log-throughput-to-tensorboard full-shuffle-instruction-dataset
"""
IGNORED = tuple(f"--{name}" for name in _IGNORED.split())
BEGINNINGS = ("--use-fused-", "--rope-scaling-", "--profile")
# What keeps or makes activations and states otherwise than Megatron-LM, by little: said, and left out.
NOTED = ("--reuse-fp32-param", "--moe-permutation-async-comm", "--moe-alltoall-overlap-comm", "--moe-zero-memory",
         "--recompute-activation-function", "--recompute-activation-function-num-layers", "--recompute-norm",
         "--recompute-norm-num-layers", "--enable-recompute-layers-per-pp-rank", "--moe-allgather-overlap-comm",
         "--moe-zero-memory-num-layers", "--enable-mla-absorb", "--swap-modules")  # fmt: skip
OFF = {
    "--swap-attention": "activations of attention in the host's memory",
    "--moe-fb-overlap": "forward passes of experts beside backward passes", "--schedules-method": "DualPipeV",
    "--recompute-in-bubble": "recomputation in the pipeline's bubble",
    "--recompute-in-advance": "recomputation ahead of the backward pass", "--enable-mhc": "several residual streams",
    "--hc-mult": "several residual streams", "--num-zero-experts": "experts that do nothing",
    "--kv-compress": "compressed attention", "--o-lora-rank": "a low rank of attention's output",
    "--n-hash-layers": "routing by hashes", "--interleave-sliding-window": "windows in some of the layers",
    "--ampipe-degree": "a pipeline within a layer", "--input-embeds-norm": "a factor on embeddings",
    "--tp-2d": "matrices cut in two dimensions",
}  # fmt: skip
ALGORITHMS = {"megatron_cp_algo": "p2p", "ulysses_cp_algo": "a2a", "kvallgather_cp_algo": "all_gather"}
INDEXER = {"--index-n-heads": "index_heads", "--index-head-dim": "index_dim", "--index-topk": "index_topk"}


def translate(keys: Keys, f: Findings) -> None:
    """Put what MindSpeed-LLM says otherwise in the words of Megatron-LM, where a file has arguments of it."""
    if not keys.has(*SIGNS):
        return
    flags = dict(keys.mapping)
    for flag, what in OFF.items():
        if not is_off(flags.pop(flag, None)):
            keys.wrong((flag,), f"{what} is not modelled")
    if str(flags.get("--stage", "sft")) not in ("sft", "pt"):
        keys.wrong(("--stage",), f"{shown(flags['--stage'])}: only training on text (sft) is modelled")
    f.problems.raise_if_any()
    if str(flags.get("--spec", "")).startswith(("mindspeed_llm", "['mindspeed_llm")):
        flags.pop("--spec")
    noted = [flag for flag in NOTED if not is_off(flags.pop(flag, None))]
    if noted:
        f.note(f"not modelled, and left out: {', '.join(noted)}")
    for flag in [flag for flag in flags if flag in IGNORED or flag.startswith(BEGINNINGS)]:
        flags.pop(flag)
    _context(keys, flags)
    _experts(flags)
    _layers(keys, f, flags)
    _adapters(f, flags)
    _others(f, flags)
    keys.mapping = flags


def _others(f: Findings, flags: dict[str, object]) -> None:
    """Set the optimizer's states in the host's memory, fused communication, the indexer, and the vocabulary held."""
    if not is_off(flags.pop("--swap-optimizer", None)):
        f.set("offload_optimizer", True)
    fused = [flags.pop(flag, None) for flag in ("--use-ascend-coc", "--use-ascend-mc2")]
    if not all(map(is_off, fused)):
        flags["--tp-comm-overlap"] = True
    if flags.pop("--enable-dsa-indexer", None):
        for flag, name in INDEXER.items():
            if flag in flags:
                f.set(name, flags.pop(flag), (flag,))
    padded = flags.pop("--padded-vocab-size", None)
    if padded is not None:
        f.set("vocab_multiple", 1)
        flags["--vocab-size"] = padded
        flags.pop("--make-vocab-size-divisible-by", None)


def _adapters(f: Findings, flags: dict[str, object]) -> None:
    """Set LoRA's adapters."""
    rank, targets = flags.pop("--lora-r", None), flags.pop("--lora-target-modules", None)
    for flag in ("--lora-alpha", "--lora-load", "--lora-modules-to-save", "--lora-register-forward-hook"):
        flags.pop(flag, None)
    if is_off(rank):
        return
    listed = targets if isinstance(targets, list) else [targets]
    set_adapters(Keys(f, {"--lora-r": rank, "--lora-target-modules": listed}), f, ("--lora-r",),
                 ("--lora-target-modules",))  # fmt: skip


def _context(keys: Keys, flags: dict[str, object]) -> None:
    way = flags.pop("--context-parallel-algo", "megatron_cp_algo")
    if flags.get("--context-parallel-size", 1) == 1:
        return
    if way not in ALGORITHMS:
        keys.wrong(("--context-parallel-algo",), f"{shown(way)} is not modelled; only {', '.join(ALGORITHMS)}")
        return
    flags.setdefault("--cp-comm-type", ALGORITHMS[str(way)])


def _experts(flags: dict[str, object]) -> None:
    """Set the first dense layers, the experts that all tokens go to, and experts that TP does not split."""
    first, layers = flags.pop("--first-k-dense-replace", None), flags.get("--num-layers")
    if isinstance(first, int) and isinstance(layers, int) and flags.get("--moe-layer-freq", 1) == 1:
        flags["--moe-layer-freq"] = f"[0]*{first}+[1]*{layers - first}" if first else 1
    count = flags.pop("--n-shared-experts", None)
    width = flags.get("--moe-ffn-hidden-size", flags.get("--ffn-hidden-size"))
    if isinstance(count, int) and isinstance(width, int) and count:
        flags.setdefault("--moe-shared-expert-intermediate-size", count * width)
    if flags.pop("--moe-tp-extend-ep", None):
        flags["--expert-tensor-parallel-size"] = 1


def _layers(keys: Keys, f: Findings, flags: dict[str, object]) -> None:
    """Set layers of stages that are listed, and those left when some do nothing (``--noop-layers 61,62``)."""
    listed, idle = flags.pop("--num-layer-list", None), flags.pop("--noop-layers", None)
    if listed is not None:
        f.set("pp_layout", "|".join(part.strip() for part in str(listed).split(",")), ("--num-layer-list",))
    if is_off(idle) and idle != 0:
        return
    layers, stages = flags.get("--num-layers"), flags.get("--pipeline-model-parallel-size", 1)
    places = {int(part) for part in str(idle).strip("[]").split(",") if part.strip().isdigit()}
    each = flags.pop("--num-layers-per-virtual-pipeline-stage", None)
    chunk = each if isinstance(each, int) else 1
    if not isinstance(layers, int) or not isinstance(stages, int) or layers % (stages * chunk):
        keys.wrong(("--noop-layers",), f"{shown(idle)} of {shown(layers)} layers is not understood")
        return
    size = each if isinstance(each, int) else layers // stages
    counts = [sum(i not in places for i in range(first, first + size)) for first in range(0, layers, size)]
    flags["--num-layers"] = sum(counts)
    if isinstance(flags.get("--moe-layer-freq"), str) and "*" in str(flags["--moe-layer-freq"]):
        dense = int(str(flags["--moe-layer-freq"]).split("*")[1].split("+")[0])
        flags["--moe-layer-freq"] = f"[0]*{dense}+[1]*{sum(counts) - dense}"
    if stages > 1:
        f.set("pp_layout", "|".join(map(str, counts)), ("--noop-layers",))
        if each:
            flags["--num-virtual-stages-per-pipeline-rank"] = layers // stages // size
    f.note(f"{len(places)} of the layers do nothing (--noop-layers): {sum(counts)} are counted")

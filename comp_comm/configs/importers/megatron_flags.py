"""Arguments of Megatron-LM (and Megatron-DeepSpeed) that change nothing of a step's shape, and those only noted."""

from __future__ import annotations

_DATA = """
    data-path data-impl data-args-path data-cache-path data-sharding train-data-path valid-data-path test-data-path
    per-split-data-args-path split vocab-file merge-file tokenizer-model tokenizer-model-path tiktoken-pattern
    tiktoken-num-special-tokens tiktoken-special-tokens tokenizer-hf-use-fast tokenizer-hf-include-special-tokens
    tokenizer-special-tokens tokenizer-metadata tokenizer-prompt-format vocab-extra-ids sentencepiece-model
    trust-remote-code legacy-tokenizer mock-data no-mock-data num-workers num-dataset-builder-threads
    reset-position-ids reset-attention-mask eod-mask-loss mask-prob short-seq-prob no-mmap-bin-files mmap-bin-files
    dataloader-type dataloader-save create-attention-mask-in-dataloader no-create-attention-mask-in-dataloader
    object-storage-cache-path s3-cache-path mid-level-dataset-surplus full-validation multiple-validation-sets
    titles-data-path evidence-data-path block-data-path embedding-path sft-tokenizer-prompt-format
    allow-ambiguous-pad-tokens train-weighted-split-paths valid-weighted-split-paths test-weighted-split-paths
"""
_LEARNING = """
    lr lr-decay-style lr-wsd-decay-style lr-decay-iters lr-decay-samples lr-decay-tokens lr-wsd-decay-iters
    lr-wsd-decay-samples lr-warmup-fraction lr-warmup-iters lr-warmup-samples lr-warmup-tokens lr-warmup-init warmup
    min-lr decoupled-lr decoupled-min-lr override-lr-scheduler override-opt-param-scheduler
    use-checkpoint-lr-scheduler use-checkpoint-opt-param-scheduler weight-decay start-weight-decay end-weight-decay
    weight-decay-incr-style clip-grad adam-beta1 adam-beta2 adam-eps sgd-momentum decoupled-weight-decay
    no-weight-decay-cond-type apply-weight-decay-to-norms init-method-std init-method-xavier-uniform
    embedding-init-method-std seed train-iters train-samples train-tokens rampup-batch-size
    decrease-batch-size-if-needed iterations-to-skip loss-scale initial-loss-scale min-loss-scale loss-scale-window
    hysteresis calculate-per-token-loss label-smoothing loss-on-targets-only mtp-loss-scaling-factor
    moe-aux-loss-coeff moe-z-loss-coeff moe-input-jitter-eps moe-router-load-balancing-type moe-router-pre-softmax
    moe-router-score-function moe-router-topk-scaling-factor moe-router-group-topk moe-router-num-groups
    moe-router-dtype moe-router-bias-update-rate moe-router-force-load-balancing moe-router-padding-for-fp8
    moe-router-fusion moe-router-topk-limited-devices moe-per-layer-logging moe-loss-coeff moe-min-capacity
    moe-eval-capacity-factor moe-pad-expert-input-to-capacity moe-token-drop-policy moe-use-legacy-grouped-gemm
    moe-grouped-gemm moe-permute-fusion moe-flex-dispatcher-backend moe-enable-deepep moe-deepep-num-sms
    moe-hybridep-num-sms create-moe-param-group disable-moe-token-dropping moe-apply-probs-on-input skip-train
    curriculum-learning-legacy
"""
_ARITHMETIC = """
    openai-gelu onnx-safe squared-relu quick-geglu-limit activation-func-clamp-value glu-linear-offset
    layernorm-epsilon norm-epsilon apply-layernorm-1p rotary-base rotary-percent rotary-interleaved
    rotary-scaling-factor rotary-seq-len-interpolation-factor rope-scaling-factor use-rope-scaling rope-type mscale
    mscale-all-dim beta-fast beta-slow original-max-position-embeddings yarn-rotary-scaling-factor
    yarn-original-max-position-embeddings yarn-beta-fast yarn-beta-slow yarn-mscale yarn-mscale-all-dim
    no-rope-fusion apply-query-key-layer-scaling attention-softmax-in-fp32 fp32-residual-connection
    fp16-lm-cross-entropy no-query-key-layer-scaling no-persist-layer-norm no-scaled-init normalize-attention-scores
    use-fused-rmsnorm apply-residual-connection-post-layernorm bert-no-binary-head bert-load fp8-margin fp8-interval
    fp8-recipe fp8-amax-history-len fp8-amax-compute-algo no-fp8-wgrad first-last-layers-bf16
    num-layers-at-start-in-bf16 num-layers-at-end-in-bf16
"""
_RUNNING = """
    use-mcore-models use-legacy-models spec local-rank distributed-backend distributed-timeout-minutes
    distributed-timeout-seconds-after-init DDP-impl ddp-impl lazy-mpu-init use-cpu-initialization
    empty-unused-memory-level no-load-optim no-load-rng no-save-optim no-save-rng load save finetune exit-interval
    exit-duration-in-mins exit-on-missing-checkpoint exit-signal-handler manual-gc manual-gc-interval manual-gc-eval
    no-manual-gc-eval no-check-for-nan-in-loss-and-grad check-for-nan-in-loss-and-grad check-for-spiky-loss
    check-for-large-grads no-initialization perform-initialization use-dist-ckpt async-save no-async-save
    auto-detect-ckpt-format ckpt-format ckpt-step ckpt-convert-format ckpt-convert-save ckpt-fully-parallel-save
    ckpt-fully-parallel-load ckpt-assume-constant-structure no-ckpt-fully-parallel-save pretrained-checkpoint
    use-checkpoint-args use-mp-args-from-checkpoint-args no-use-tokenizer-model-from-checkpoint-args
    verify-integrity non-persistent-save-interval deterministic-mode enable-ft-package yaml-cfg te-rng-tracker
    enable-experimental timing-log-level timing-log-option barrier-with-L1-time no-barrier-with-level-1-timing
    run-workload-inspector-server record-memory-history memory-snapshot-path profile use-pytorch-profiler
    config-logger-dir result-rejected-tracker-filename error-injection-rate rerun-mode gradient-accumulation-fusion
    no-gradient-accumulation-fusion no-async-tensor-model-parallel-allreduce async-tensor-model-parallel-allreduce
    use-contiguous-buffers-in-local-ddp no-contiguous-buffers-in-local-ddp init-model-with-meta-device
    cross-entropy-loss-fusion cross-entropy-fusion-impl no-cross-entropy-loss-fusion
    account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split tp-comm-bootstrap-backend
    tp-comm-overlap-cfg disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad disable-tp-comm-overlap-ag
    disable-tp-comm-overlap-rs tp-comm-overlap-ag tp-comm-overlap-rs tp-comm-overlap-rs-dgrad tp-comm-split-ag
    tp-comm-split-rs align-grad-reduce no-align-grad-reduce overlap-param-gather no-overlap-param-gather
    delay-grad-reduce use-ring-exchange-p2p batch-p2p-communication ddp-average-in-collective ddp-num-buckets
    ddp-pad-buckets-for-high-nccl-busbw high-priority-stream-groups fsdp-double-buffer keep-fp8-transpose-cache
    logging-level straggler-minmax-count disable-straggler-on-startup straggler-ctrlr-port adlr-autoresume
    adlr-autoresume-interval no-pipeline-parallel inference-rng-tracker
    contigious-checkpointing synchronize-each-layer profile-backward
    universal-checkpoint use-tutel deepscale deepscale-config
"""
IGNORED = frozenset(" ".join((_DATA, _LEARNING, _ARITHMETIC, _RUNNING)).split())
IGNORED_BEGINNINGS = (
    "log-", "wandb-", "tensorboard-", "one-logger-", "eval-", "save-", "dist-ckpt-", "profile-", "inference-", "retro-",
    "retriever-", "replication-", "timing-", "straggler-", "valid-", "ckpt-", "exit-", "mlflow-", "comet-", "ict-",
    "dino-", "iter-per-epoch", "bert-embedder", "logging-",
)  # fmt: skip
_NOTED = """
    no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion no-masked-softmax-fusion
    cuda-graph-impl cuda-graph-scope cuda-graph-warmup-steps enable-cuda-graph external-cuda-graph fp8-param-gather
    moe-shared-expert-overlap overlap-param-gather-with-optimizer-step use-nccl-ub nccl-ub use-sharp
    nccl-communicator-config-path overlap-cpu-optimizer-d2h-h2d use-torch-optimizer-for-cpu-offload no-pin-cpu-grads
    no-pin-cpu-params defer-embedding-wgrad-compute wgrad-deferral-limit delay-wgrad-compute
    ep-overlap-early-attn-memory-release deallocate-pipeline-outputs
    microbatch-group-size-per-virtual-pipeline-stage overlap-p2p-communication-warmup-flush
"""
# What changes a step's time in a way that is not modelled, and by little: said, not counted.
NOTED = frozenset(_NOTED.split())

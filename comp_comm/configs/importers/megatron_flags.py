"""Arguments of Megatron-LM (and Megatron-DeepSpeed) that change nothing of a step's shape, and those only noted."""

from __future__ import annotations

_DATA = """
    data-path data-impl data-args-path data-cache-path data-sharding no-data-sharding train-data-path valid-data-path
    test-data-path per-split-data-args-path split vocab-file merge-file tokenizer-model tokenizer-model-path
    tiktoken-pattern tiktoken-num-special-tokens tiktoken-special-tokens tokenizer-hf-use-fast tokenizer-hf-no-use-fast
    tokenizer-hf-include-special-tokens tokenizer-hf-no-include-special-tokens tokenizer-special-tokens
    tokenizer-metadata tokenizer-prompt-format tokenizer-sentencepiece-legacy metadata-path special-tokens
    tokenizer-sentencepiece-ignore-extra-whitespaces null-tokenizer-eod-id null-tokenizer-pad-id chat-template
    vocab-extra-ids sentencepiece-model trust-remote-code legacy-tokenizer mock-data no-mock-data num-workers
    valid-num-workers num-dataset-builder-threads reset-position-ids reset-attention-mask eod-mask-loss mask-prob
    short-seq-prob no-mmap-bin-files mmap-bin-files mmap-warmup dataloader-type dataloader-save
    dataloader-defer-npy-index-mmap dataloader-fast-cache-load create-attention-mask-in-dataloader
    no-create-attention-mask-in-dataloader object-storage-cache-path s3-cache-path mid-level-dataset-surplus
    full-validation multiple-validation-sets validation-set-names titles-data-path evidence-data-path block-data-path
    embedding-path sft-tokenizer-prompt-format allow-ambiguous-pad-tokens train-weighted-split-paths
    valid-weighted-split-paths test-weighted-split-paths train-weighted-split-paths-path valid-weighted-split-paths-path
    test-weighted-split-paths-path per-dataset-sequences-path fim-data fim-rate fim-spm-rate fim-split-sample
    fim-fragment-rate fim-no-prefix fim-prefix-token fim-middle-token fim-suffix-token fim-pad-token fim-eod-token
    aml-data-download-path return-data-index repeated-dataloader train-data-exact-num-epochs train-desc-path
    train-doc-idx-path train-idx-path train-sample-idx-path train-shuffle-idx-path use-dataset-only
    noise-density mean-noise-span-length append-bos loss-on-non-target-tokens reweight-loss-based-on-position-frequency
    norm-target-loss load-tag dataset dataset-type dataset-impl extra-vocab-size patch-tokenizer-type max-padding-length
    generate-length
"""
_LEARNING = """
    lr lr-decay-style lr-wsd-decay-style lr-decay-iters lr-decay-samples lr-decay-tokens lr-wsd-decay-iters
    lr-wsd-decay-samples lr-warmup-fraction lr-warmup-iters lr-warmup-samples lr-warmup-tokens lr-warmup-init warmup
    min-lr decoupled-lr decoupled-min-lr override-lr-scheduler override-opt-param-scheduler
    use-checkpoint-lr-scheduler use-checkpoint-opt-param-scheduler weight-decay start-weight-decay end-weight-decay
    weight-decay-incr-style clip-grad adam-beta1 adam-beta2 adam-eps sgd-momentum decoupled-weight-decay
    no-weight-decay-cond-type apply-weight-decay-to-norms apply-wd-to-qk-layernorm init-method-std
    init-method-xavier-uniform embedding-init-method-std seed train-iters train-samples train-tokens train-epochs
    rampup-batch-size step-batch-size-schedule phase-transition-iterations decrease-batch-size-if-needed
    iterations-to-skip loss-scale initial-loss-scale min-loss-scale loss-scale-window hysteresis
    calculate-per-token-loss label-smoothing loss-on-targets-only mtp-loss-scaling-factor mtp-detach-heads
    moe-aux-loss-coeff moe-z-loss-coeff moe-input-jitter-eps moe-router-load-balancing-type moe-router-pre-softmax
    moe-router-score-function moe-router-topk-scaling-factor moe-router-dtype
    moe-router-bias-update-rate moe-router-force-load-balancing moe-router-padding-for-fp8
    moe-router-padding-for-quantization moe-router-force-biased moe-router-fusion moe-router-topk-limited-devices
    moe-router-quantile-balancing-ema moe-enable-routing-replay moe-per-layer-logging moe-loss-coeff
    moe-min-capacity moe-eval-capacity-factor moe-pad-expert-input-to-capacity moe-token-drop-policy
    moe-token-dropping moe-use-legacy-grouped-gemm moe-grouped-gemm moe-permute-fusion-into-hybridep
    moe-hybridep-num-sms-preprocessing moe-hybridep-num-blocks-permute
    moe-hybridep-num-blocks-unpermute moe-hybridep-pad-uneven-dispatch-inputs moe-ncclep-zero-copy
    moe-pad-experts-for-cuda-graph-inference moe-use-grouped-tensor moe-single-grouped-weight moe-single-grouped-bias
    moe-expert-rank-capacity-factor moe-use-upcycling moe-upcycling-granularity create-moe-param-group
    disable-moe-token-dropping disable-moe-top2-2nd-expert-sampling moe-apply-probs-on-input skip-train
    skip-train-iteration-range curriculum-learning-legacy use-mup mup-width-mult mup-base-hidden-size
    mup-embedding-mult mup-output-mult mup-base-head-dim mup-attn-scale-power qk-clip qk-clip-alpha qk-clip-threshold
    mup mup-input-mult mup-output-mult mup-attn-mult mup-rel-lr no-train
    no-load-lr-state reset-iteration universal-checkpoint reset-progress goldfish-loss goldfish-k goldfish-h
    glm-mask train-mode use-z-loss
"""
_ARITHMETIC = """
    openai-gelu onnx-safe squared-relu quick-geglu-limit activation-func-clamp-value glu-linear-offset
    use-fused-weighted-squared-relu layernorm-epsilon norm-epsilon apply-layernorm-1p layernorm-zero-centered-gamma
    rotary-base rotary-percent rotary-interleaved rotary-scaling-factor rotary-seq-len-interpolation-factor
    rotary-position-embeddings-theta rope-scaling-factor use-rope-scaling rope-type rope-scaling no-rope-freq mscale
    mscale-all-dim beta-fast beta-slow original-max-position-embeddings yarn-rotary-scaling-factor
    yarn-original-max-position-embeddings yarn-beta-fast yarn-beta-slow yarn-mscale yarn-mscale-all-dim
    yarn-correction-range-round-to-int no-yarn-correction-range-round-to-int mrope-section no-rope-fusion
    apply-query-key-layer-scaling attention-softmax-in-fp32 softmax-scale
    fp16-lm-cross-entropy no-query-key-layer-scaling no-persist-layer-norm no-scaled-init normalize-attention-scores
    use-fused-rmsnorm apply-residual-connection-post-layernorm bert-no-binary-head bert-load fp8-margin fp8-interval
    fp8-amax-history-len fp8-amax-compute-algo no-fp8-wgrad first-last-layers-bf16
    num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 tp-only-amax-red te-precision-config-file
    embedding-weights-in-fp32 output-logit-dtype disable-bf16-reduced-precision-matmul disable-mem-efficient-ln
    relative-attention-max-distance fix-position-emb-redundant-alloc epsilon rotary-scale-factor
    export-moe-apply-probs-on-input export-force-local-attention
"""
_RUNNING = """
    use-mcore-models use-legacy-models local-rank distributed-backend distributed-timeout-minutes
    distributed-timeout-seconds-after-init DDP-impl ddp-impl lazy-mpu-init use-cpu-initialization
    empty-unused-memory-level no-load-optim no-load-rng no-save-optim no-save-rng load save finetune exit-interval
    exit-duration-in-mins exit-on-missing-checkpoint exit-signal-handler manual-gc manual-gc-interval manual-gc-eval
    no-manual-gc-eval no-check-for-nan-in-loss-and-grad check-for-nan-in-loss-and-grad check-for-spiky-loss
    check-for-large-grads check-weight-hash-across-dp-replicas-interval no-initialization perform-initialization
    use-dist-ckpt use-dist-ckpt-deprecated async-save no-async-save async-strategy async-ckpt-cpu-priority
    async-ckpt-io-priority async-ckpt-use-cpu-shm auto-detect-ckpt-format no-use-persistent-ckpt-worker
    use-persistent-ckpt-worker most-recent-k load-main-params-from-ckpt strict-fsdp-dtensor-load
    distrib-optim-fully-reshardable-mem-efficient fully-parallel-save fully-parallel-load override-ckpt-iteration
    pretrained-checkpoint use-checkpoint-args use-mp-args-from-checkpoint-args
    no-use-tokenizer-model-from-checkpoint-args verify-integrity deterministic-mode
    enable-ft-package calc-ft-timeouts ft-num-warmup-iters te-rng-tracker use-te-rng-tracker enable-experimental
    barrier-with-L1-time no-barrier-with-level-1-timing run-workload-inspector-server
    record-memory-history memory-snapshot-path profile use-pytorch-profiler use-nsys-profiler
    pytorch-profiler-collect-shapes pytorch-profiler-collect-callstack pytorch-profiler-collect-chakra record-shapes
    nvtx-ranges result-rejected-tracker-filename rerun-mode error-injection-rate error-injection-type
    no-async-tensor-model-parallel-allreduce
    async-tensor-model-parallel-allreduce use-contiguous-buffers-in-local-ddp no-contiguous-buffers-in-local-ddp
    use-contiguous-buffers-in-ddp init-model-with-meta-device
    tp-comm-bootstrap-backend tp-comm-overlap-cfg disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad
    disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs tp-comm-overlap-ag tp-comm-overlap-rs
    tp-comm-overlap-rs-dgrad tp-comm-split-ag tp-comm-split-rs tp-comm-atomic-ag tp-comm-atomic-rs align-grad-reduce
    no-align-grad-reduce no-align-param-gather delay-grad-reduce use-ring-exchange-p2p batch-p2p-communication
    batch-p2p-comm batch-p2p-sync ddp-average-in-collective ddp-num-buckets no-gradient-reduce-div-fusion
    ddp-pad-buckets-for-high-nccl-busbw high-priority-stream-groups fsdp-double-buffer keep-fp8-transpose-cache
    disable-parameter-transpose-cache fsdp-manual-registration fsdp-db-use-persist-buf-on-alloc-fail
    megatron-fsdp-max-pool-double-buffer megatron-fsdp-version suggested-communication-unit-size create-all-gather-group
    gradient-reduce-div-fusion disable-symmetric-registration straggler-minmax-count disable-straggler-on-startup
    adlr-autoresume adlr-autoresume-interval no-pipeline-parallel variable-seq-lengths test-mode
    enable-gloo-process-groups disable-gloo-process-groups use-gloo-process-groups disable-jit-fuser enable-msc
    disable-msc flash-attention-version data-parallel-random-init dump-param-to-param-group-map start-eval-at-iter
    contigious-checkpointing synchronize-each-layer profile-backward profile-ranks codecarbon-dir kill-switch-path
    kill-switch-file abort-on-unmet-fused-kernel-constraints sync-tp-duplicated-parameters use-tutel deepscale
    deepscale-config ds-fused-adam cpu-torch-adam use-flash-attn-builder clone-scatter-output-in-embedding
    no-one-logger app-tag-run-name app-tag-run-version no-log-learnig-rate-to-tensorboard train-sync-interval
    no-log-loss-scale-to-tensorboard gpu-sniff-test-interval no-use-layer-wise-param-layout
    use-transformer-engine-op-fuser use-te-activation-func fused-residual-rmsnorm fused-single-qkv-rope
    memory-efficient-layer-norm mla-down-proj-fusion use-grouped-gemm-for-dense-mlp
    use-grouped-gemm-for-shared-expert batch-invariant-mode batch-invariant-backend num-speculative-tokens
    zero-allgather-bucket-size zero-contigious-gradients zero-reduce-scatter use-pin-memory config job-name
    no-shuffle-dataset export-te-mcore-model export-default-te-spec export-model-type decode-only-cuda-graphs
    flash-decode disable-msc-deprecated use-mpi keep-last
"""
IGNORED = frozenset(" ".join((_DATA, _LEARNING, _ARITHMETIC, _RUNNING)).split())
IGNORED_BEGINNINGS = (
    "log-", "wandb-", "tensorboard-", "one-logger-", "eval-", "save-", "dist-ckpt-", "profile-", "inference-",
    "replication", "timing-", "straggler-", "valid-", "ckpt-", "no-ckpt-", "exit-", "mlflow-", "comet-", "sharp-",
    "iter-per-epoch", "bert-embedder", "logging-", "otel-", "inprocess-", "lion-", "moe-routing-trace-",
    "flight-recorder-", "non-persistent-", "ft-", "config-logger-", "swanlab-", "clearml-", "logits-save-", "mup-",
)  # fmt: skip
_NOTED = """
    fp32-residual-connection
    no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion no-masked-softmax-fusion
    disable-bias-gelu-fusion cuda-graph-impl cuda-graph-scope cuda-graph-modules cuda-graph-warmup-steps
    cuda-graph-use-single-mempool cuda-graph-retain-backward-graph enable-cuda-graph external-cuda-graph
    optimizer-cuda-graph fp4-param-gather reuse-grad-buf-for-mxfp8-param-ag
    fp8-dot-product-attention fp8-multi-head-attention fp8-output-proj activation-func-fp8-input-store
    moe-shared-expert-overlap overlap-param-gather-with-optimizer-step use-nccl-ub nccl-ub use-sharp
    nccl-communicator-config-path overlap-cpu-optimizer-d2h-h2d use-torch-optimizer-for-cpu-offload no-pin-cpu-grads
    no-pin-cpu-params defer-embedding-wgrad-compute wgrad-deferral-limit delay-wgrad-compute
    ep-overlap-early-attn-memory-release deallocate-pipeline-outputs high-priority-a2a-comm-stream
    microbatch-group-size-per-virtual-pipeline-stage overlap-p2p-communication-warmup-flush
    distribute-saved-activations distribute-checkpointed-activations partition-activations scattered-embeddings
    split-transformers moe-layer-recompute qk-l2-norm export-qk-l2-norm qk-layernorm-hidden-dim mlp-chunks-for-training
    ddp-reduce-scatter-with-fp32-accumulation ddp-param-name-patterns-for-fp32-local-accumulation
    overlap-dispatch-backward-with-experts-wgrad dataloader-inter-document-masking sft no-bias-activation-fusion
    enable-zbh1-exact-semantics freeze-all-layers symmetric-ar-type disable-overlap-embedding-wgrad
    tp-comm-overlap-disable-qkv tp-comm-overlap-disable-fc1
"""
# What changes a step's time in a way that is not modelled, and by little: said, not counted.
NOTED = frozenset(_NOTED.split())

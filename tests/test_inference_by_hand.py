"""Serving five kinds of models, counted by hand: FLOP, bytes of memory, messages, cache, and the seconds of each.

On hardware on which only arithmetic takes time (or memory, or the network) seconds are what is counted over its speed.
A product of (m x k) and (k x n) reads and writes 16-bit numbers: 2 (m k + k n + m n) bytes. What runs between products
moves, of a token: rotary 2 (a + kv) d, an activation 2 F (gated 3 F), norms and sums (2 norms + 6) H, the embedding 2 H
numbers, and the loss 8 bytes a logit.
"""

from __future__ import annotations

import pytest
from face import GIB, machine, row_of

SPEED = 1e12
NEARLY = 1e-5  # a device's own shard, that no profile may set to 0

S, A, B = 1024, 256, 8  # prompt, answer, sequences of a micro-batch
N = S + A / 2  # tokens in the cache of an average decode step
V, H, L = 32000, 1024, 8
PLAIN = {"layers": L, "hidden": H, "heads": 16, "vocab": V, "seq_len": S, "output_len": A, "micro_batch": B,
         "phase": "inference", "bias": "off", "norm": "rmsnorm", "framework_gib": 0}  # fmt: skip
MODELS = {
    "dense": {},
    "grouped": {"kv_heads": 4, "head_dim": 128, "gated": "on", "ffn_hidden": 2816},
    "window": {"window": 256, "global_every": 4},
    "latent": {"head_dim": 64, "rope_head_dim": 32, "q_lora_rank": 256, "kv_lora_rank": 128, "v_head_dim": 48},
    "experts": {"experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "shared_experts": 1, "dense_layers": 2,
                "gated": "on"},
}  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Hardware of eight devices on which one thing takes time."""
    folder = tmp_path_factory.mktemp("machines")
    return {name: machine(folder, **{name: SPEED}) for name in ("flops", "memory", "network")}


@pytest.fixture
def served(machines):
    """Serve a model on one of them."""

    def serve(kind, model, **more):
        return row_of({"hardware": machines[kind], "set": {**PLAIN, **MODELS[model], **more}})

    return serve


def product(m, k, n):
    """Bytes of a product of 16-bit numbers."""
    return 2 * (m * k + k * n + m * n)


# -- weights that a token meets, in all layers, and the pairs of a query and a key times the numbers of both -----------

GATED = 3 * H * 2816
DENSE, EXPERT = 3 * H * 4 * H, 3 * H * 512
MET = {
    "dense": L * (4 * H * H + 2 * H * 4 * H),
    "grouped": L * (H * (16 + 2 * 4) * 128 + 16 * 128 * H + GATED),
    "window": L * (4 * H * H + 2 * H * 4 * H),
    "latent": L * (H * 256 + 256 * 16 * 96 + H * 160 + 128 * 16 * (64 + 48) + 16 * 48 * H + 8 * H * H),
    "experts": L * 4 * H * H + 2 * DENSE + 6 * (H * 8 + (2 + 1) * EXPERT),
}
# Of a layer with a window of w, all but the first queries see w keys: w - w^2 / 2 s on average. Two of eight see all.
SEEN = {**dict.fromkeys(MODELS, L * S / 2), "window": 2 * S / 2 + 6 * (256 - 256**2 / (2 * S))}
ALL = {**dict.fromkeys(MODELS, L * S), "window": 2 * S + 6 * 256}
CACHED = {**dict.fromkeys(MODELS, L * N), "window": 2 * N + 6 * 256}
PAIR = {"dense": 16 * 128, "grouped": 16 * 256, "window": 16 * 128, "latent": 16 * (96 + 48), "experts": 16 * 128}
# On the cache, queries of latent attention meet the compressed vector twice, and the rotary part of the key.
PAIR_CACHED = {**PAIR, "latent": 16 * (2 * 128 + 32)}


@pytest.mark.parametrize("model", MODELS)
def test_flops(served, model):
    row = served("flops", model)
    assert row["prefill_flops"] == pytest.approx(2 * S * (MET[model] + H * V) + 2 * S * PAIR[model] * ALL[model])
    step = 2 * (MET[model] + H * V) + 2 * PAIR_CACHED[model] * CACHED[model]
    assert row["decode_flops_per_token"] == pytest.approx(step)


@pytest.mark.parametrize("model", MODELS)
def test_seconds_of_arithmetic(served, model):
    """Flash attention skips what a causal mask hides, though it counts as FLOP."""
    row = served("flops", model)
    ttft = B * S * 2 * (MET[model] + H * V + PAIR[model] * SEEN[model])
    assert row["ttft_s"] * SPEED == pytest.approx(ttft, rel=NEARLY)
    tpot = B * 2 * (MET[model] + H * V + PAIR_CACHED[model] * CACHED[model])
    assert row["tpot_s"] * SPEED == pytest.approx(tpot, rel=NEARLY)
    assert row["request_s"] == pytest.approx(row["ttft_s"] + (A - 1) * row["tpot_s"])
    assert row["tokens_per_s"] == pytest.approx(B / row["tpot_s"])


def bytes_of(model, tokens):
    """Bytes of all products and of what runs between them, for so many tokens, all layers and both ends."""
    t, plain = tokens, product(tokens, H, 3 * H) + product(tokens, H, H)
    sums = 2 * t * (2 * 2 + 6) * H
    wide = product(t, H, 4 * H) + product(t, 4 * H, H) + 2 * t * 2 * 4 * H
    gated = product(t, H, 2 * 4 * H) + product(t, 4 * H, H) + 2 * t * 3 * 4 * H
    shared = product(t, H, 2 * 512) + product(t, 512, H) + 2 * t * 3 * 512
    each = t * 2 / 8  # tokens of an expert; they are sorted and sorted back, 16 bytes each way
    moe = (product(t, H, 8) + 16 * t * 2 * H + 8 * (product(each, H, 2 * 512) + product(each, 512, H))
           + 2 * (2 * t) * 3 * 512 + shared)  # fmt: skip
    layers = {
        "dense": L * (plain + wide + 2 * t * 2 * 32 * 64),
        "window": L * (plain + wide + 2 * t * 2 * 32 * 64),
        "grouped": L * (product(t, H, 24 * 128) + product(t, 16 * 128, H) + product(t, H, 2 * 2816)
                        + product(t, 2816, H) + 2 * t * 3 * 2816 + 2 * t * 2 * 20 * 128),
        "latent": L * (product(t, H, 256) + product(t, 256, 16 * 96) + product(t, H, 160)
                       + product(t, 128, 16 * 112) + product(t, 16 * 48, H) + wide + 2 * t * 2 * 32 * 96),
        "experts": L * (plain + 2 * t * 2 * 32 * 64) + 2 * gated + 6 * moe,
    }[model]  # fmt: skip
    return layers + L * sums + 2 * t * 2 * H + product(t, H, V) + 8 * t * V


# Numbers that a token has in the cache of a layer, and those of queries, keys, values and outputs in prefill.
KEPT = {"dense": 2 * 16 * 64, "window": 2 * 16 * 64, "grouped": 2 * 4 * 128, "latent": 128 + 32, "experts": 2 * 16 * 64}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("cache", ["bf16", "fp8"])
def test_seconds_of_memory(served, model, cache):
    row = served("memory", model, kv_precision=cache)
    size = 2 if cache == "bf16" else 1
    tpot = bytes_of(model, B) + B * CACHED[model] * KEPT[model] * size
    assert row["tpot_s"] * SPEED == pytest.approx(tpot, rel=NEARLY)
    heads = {"grouped": (16 + 4) * 256, "latent": 32 * (96 + 48)}.get(model, 32 * 128)
    # Queries and outputs, keys and values; of a windowed layer the keys in the window.
    attention = 2 * S * heads if model != "window" else 2 * (2 * S * heads + 6 * (S + 256) * 16 * 128) / 8
    assert row["ttft_s"] * SPEED == pytest.approx(bytes_of(model, B * S) + B * L * attention, rel=NEARLY)


def test_a_window_as_long_as_all_tokens_is_none(served):
    for kind in ("flops", "memory"):
        wide, none = served(kind, "window", window=S + A), served(kind, "dense")
        assert wide["tpot_s"] == pytest.approx(none["tpot_s"])
        assert wide["ttft_s"] == pytest.approx(none["ttft_s"])


# -- cache and memory -------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize(("model", "tp", "pp"), [
    (model, *split) for model in MODELS for split in ((1, 1), (2, 1), (8, 1), (2, 4), (1, 3))
    if model != "experts" or split[0] == 1  # experts under TP need sequence parallelism, which serving has not
])  # fmt: skip
def test_cache(served, model, tp, pp):
    """A micro-batch for every stage, each of a stage's layers; heads are split over TP, a latent is on every device."""
    copies = {"kv_replication": "on"} if tp == 8 else {}
    row = served("flops", model, tp=tp, pp=pp, **copies)
    assert row["kv_cache_bytes_per_token"] == 2 * L * KEPT[model]
    held = KEPT[model] / {"latent": 1, "grouped": min(tp, 4)}.get(model, tp)
    stage = {1: 8, 3: 3, 4: 2}[pp]
    assert row["kv_cache_gib"] * GIB == pytest.approx(2 * pp * B * (S + A) * held * stage)


ATTENTION = {
    "grouped": H * 24 * 128 + 16 * 128 * H,
    # The compressed vectors have norms of their own.
    "latent": H * 256 + 256 + 256 * 16 * 96 + H * 160 + 128 + 128 * 16 * 112 + 16 * 48 * H,
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("precision", "size"), [("bf16", 2), ("fp32", 4)])
def test_memory_is_weights_cache_and_the_activations_of_a_layer(served, model, precision, size):
    row = served("flops", model, precision=precision, framework_gib=3)
    feed = {"grouped": GATED, "experts": (2 * DENSE + 6 * (H * 8 + 9 * EXPERT)) / 8}.get(model, 8 * H * H)
    parameters = L * (ATTENTION.get(model, 4 * H * H) + feed + 2 * H) + 2 * V * H + H
    assert row["parameters"] == parameters
    assert row["weights_gib"] * GIB == pytest.approx(size * parameters)
    # Of a prompt's token: the input and output of a block, queries, keys and values, and twice the wide layer.
    heads = {"grouped": 24 * 128, "latent": 48 * 96}.get(model, 48 * 64)
    wide = 2 * (2816 if model == "grouped" else 4 * H)
    working = B * S * size * (2 * H + heads + wide)
    parts = row["weights_gib"] * GIB + row["kv_cache_gib"] * GIB + working + 3 * GIB
    assert row["memory_gib"] * GIB == pytest.approx(parts)


def test_stages_and_devices_share_weights(served):
    """A stage of four layers, the last with the output and its norm; TP splits matrices, not norms; fp8 halves all."""
    layer = 4 * H * H + 8 * H * H
    one = 4 * (layer / 2 + 2 * H) + V * H / 2 + H
    row = served("flops", "dense", tp=2, pp=2)
    assert row["weights_gib"] * GIB == pytest.approx(2 * one)
    working = 2 * B * S * (2 * H + (48 * 64 + 2 * 4 * H) / 2)
    assert (row["memory_gib"] - row["weights_gib"] - row["kv_cache_gib"]) * GIB == pytest.approx(working)


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp", [2, 8])
@pytest.mark.parametrize("batch", [1, 8])
def test_two_sums_a_layer_and_one_of_the_embedding(served, tp, batch):
    row = served("network", "dense", tp=tp, micro_batch=batch)
    message = (2 * L + 1) * 2 * H  # of a token
    assert row["decode_message_bytes_per_token"] == message
    assert row["decode_wire_bytes_per_token"] == pytest.approx(2 * (tp - 1) / tp * message)
    sent = 2 * (tp - 1) / tp * message / SPEED
    assert row["decode_comm_s"] == pytest.approx(batch * sent, rel=NEARLY)
    assert row["prefill_comm_s"] == pytest.approx(batch * S * sent, rel=NEARLY)
    assert row["decode_comm_fraction"] == pytest.approx(1, rel=1e-3)
    assert row["prefill_comm_fraction"] == pytest.approx(1, rel=1e-3)


def test_stages_send_a_part_each_and_gather_it(served):
    """Three boundaries: half a hidden state from each of two devices, gathered after it."""
    row = served("network", "dense", tp=2, pp=4)
    inside = (2 * L + 1) * 2 * H
    assert row["decode_message_bytes_per_token"] == inside + 3 * (H + 2 * H)
    assert row["decode_wire_bytes_per_token"] == pytest.approx(inside + 3 * (H + H))
    assert row["tokens_per_s"] == pytest.approx(4 * B / row["tpot_s"])  # every stage has a micro-batch


def test_tokens_go_to_their_experts_and_back(served):
    """Six of eight layers are mixtures; each token to two experts, of which a device has two."""
    row = served("network", "experts", ep=4, dp=4)
    each = 2 * 6 * 2 * 2 * H
    each += 6 * 8 * 8 / B  # counts of tokens of eight experts
    assert row["decode_message_bytes_per_token"] == each
    assert row["decode_wire_bytes_per_token"] == pytest.approx(3 / 4 * each)
    assert row["decode_comm_s"] == pytest.approx(B * 3 / 4 * each / SPEED, rel=1e-3)
    assert row["tokens_per_s"] == pytest.approx(4 * B / row["tpot_s"])
    alone = served("flops", "experts")
    assert served("flops", "experts", ep=4, dp=4)["tpot_s"] == pytest.approx(alone["tpot_s"])


def test_tensor_parallel_devices_share_the_work(served):
    """All but norms and sums, which each does on all tokens."""
    one, eight = served("flops", "dense"), served("flops", "dense", tp=8)
    padded = 2 * B * H * (32768 - V)  # 32000 entries in eight parts of a multiple of 128
    assert eight["tpot_s"] * SPEED == pytest.approx((one["tpot_s"] * SPEED + padded) / 8, rel=NEARLY)
    reads = served("memory", "grouped", tp=2)["tpot_s"] * SPEED
    between = 2 * B * (3 * 2816 / 2 + 2 * 10 * 128 + 10 * H)
    layer = (product(B, H, 12 * 128) + product(B, 8 * 128, H) + product(B, H, 2816) + product(B, 1408, H)
             + between + 2 * B * N * 2 * 2 * 128)  # fmt: skip
    ends = 4 * B * H + product(B, H, V / 2) + 8 * B * V / 2
    assert reads == pytest.approx(L * layer + ends, rel=NEARLY)

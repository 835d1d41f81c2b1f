"""Kinds of layers with a state, with an indexer, with latent experts: against torch's counts, hands, and laws.

`data/layer_flops.csv` has what torch's `FlopCounterMode` counted in transformers 5.24, of models of two or three layers
on 512 tokens: parameters of the whole model, and the matrix products of one layer with weights and without.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from face import GIB, explained, memory_of, row_of, rows_of

from comp_comm.configs.importers.hf_patterns import pattern_text
from comp_comm.configs.model_file import load_model
from comp_comm.configs.study import study_from
from comp_comm.errors import CompcommError, ConfigError
from comp_comm.layer_pattern import parse_layer_pattern
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.plan_notes import notes

ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "layer_flops.csv").open(encoding="utf-8")))
TOKENS = 512
FIXED = {"norm": "rmsnorm", "bias": "off", "dropout": "off", "seq_len": TOKENS, "gpus": 1, "global_batch": 1,
         "vocab_multiple": 1}  # fmt: skip
MIXER = {"hidden": 1024, "heads": 16, "ffn_hidden": 4096, "vocab": 32000, "seq_len": 4096, "norm": "rmsnorm",
         "bias": "off", "dropout": "off", "layers": 4}  # fmt: skip
SIZES = {"ssm_heads": 32, "ssm_head_dim": 64, "ssm_groups": 8, "ssm_state": 128}
KINDS = {
    "M": SIZES, "G": SIZES, "K": {"ssm_heads": 32, "ssm_head_dim": 64}, "L": {"ssm_heads": 32, "ssm_head_dim": 64},
    "S": {"ssm_heads": 2048, "ssm_state": 16},
}  # fmt: skip


def fields_of(row):
    pairs = (field.partition(" ")[::2] for field in row["fields"].split("; "))
    fields = {name: int(value) if value.isdigit() else value for name, value in pairs}
    if "layer_pattern" in fields:
        fields["layers"] = len(parse_layer_pattern(fields["layer_pattern"]))
    return {**FIXED, **fields}


def study(**fields):
    return {"hardware": "h100-sxm", "set": fields}


def of(letter, **more):
    """Return a study of four layers with a mixer of that letter, and a network each."""
    return study(**MIXER, **KINDS[letter], layer_pattern=f"{letter}-x4", **{"gpus": 8, "global_batch": 64, **more})


def forward(record, *words):
    return [op for op in record["operations"] if op["phase"] == "forward" and any(w in op["operation"] for w in words)]


def correction(row, f):
    """Return the products that torch does and we do not count (above 0), or that we count and it does not."""
    heads, dim, state, chunk = (f.get(name, 0) for name in ("ssm_heads", "ssm_head_dim", "ssm_state", "ssm_chunk"))
    state, groups = state or dim, f.get("ssm_groups", heads)
    if row["more"] == "groups and passing":  # scores of every head, not of every group; states passed on by a matrix
        return 2 * TOKENS * chunk * state * (heads - groups) + 2 * heads * (TOKENS // chunk + 1) ** 2 * dim * state
    if row["more"] == "inverse":  # torch solves a triangular system, which it does not count; kernels invert it
        return -TOKENS * heads * (2 * chunk * (state + dim) + chunk**2 / 3)
    if row["more"] == "element by element":  # two of nine operations are a product with C
        return -7 * TOKENS * heads * state
    if row["more"] == "dense attention":  # torch masks, so it computes all scores, and weighs the indexer's heads
        dense = 2 * f["heads"] * TOKENS**2 * (f["head_dim"] + f["rope_head_dim"] + f["v_head_dim"])
        scores = 2 * TOKENS**2 * f["index_heads"]
        return dense + scores * (f["index_dim"] + 1) - scores * f["index_dim"] / 2
    return 0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["kind"])
def test_a_layer_does_the_products_that_torch_counts(row):
    f = fields_of(row)
    record = explained(study(**f))
    assert record["parameters"] == int(row["parameters"])
    word = row["kind"] if row["kind"].startswith(("Mamba", "Gated", "Kimi", "light")) else ""
    of_layer = [op for op in forward(record, word) if "layer" in op["part"] and "FFN" not in op["operation"]]
    gemms = sum(op["flops"] for op in of_layer if op["kind"] == "gemm" and not op["operation"].startswith("experts "))
    assert gemms == int(row["gemms"])
    products = sum(op["flops"] for op in of_layer if op["kind"] == "fusedproducts")
    assert products + correction(row, f) == pytest.approx(int(row["products"]), rel=1e-12)


def test_scans_by_hand():
    """Mamba-2: per token 2 (Q N g + Q d + 2 N d), with d = 32 x 64 = 2048, N = 128, g = 8, Q = 256."""
    (scan,) = forward(explained(of("M", gpus=1, micro_batch=1)), "Mamba-2 scan")
    assert scan["flops"] == 4096 * 2 * (256 * 128 * 8 + 256 * 2048 + 2 * 128 * 2048)
    # Lightning attention has scores of every head; the delta rule inverts a triangle of 64 by 64.
    (scan,) = forward(explained(of("L", gpus=1)), "lightning attention scan")
    assert scan["flops"] == 4096 * 32 * 2 * (256 * 64 + 256 * 64 + 2 * 64 * 64)
    (scan,) = forward(explained(of("K", gpus=1)), "Kimi Delta Attention scan")
    assert scan["flops"] == pytest.approx(4096 * 32 * (2 * 64 * 5 * 64 + 6 * 64 * 64 + 64 * 64 / 3), rel=1e-12)


def test_parameters_by_hand():
    """Beside 4 x (network 2 x 1024 x 4096, two norms of 1024), vocabulary 2 x 32000 x 1024 and the last norm."""
    around = 4 * (2 * 1024 * 4096 + 2 * 1024) + 2 * 32000 * 1024 + 1024
    conv = 2048 + 2 * 1024
    hand = {
        "M": 1024 * (2 * 2048 + 2 * 1024 + 32) + 5 * conv + 3 * 32 + 2048 + 2048 * 1024,
        "G": 1024 * (2 * 2048 + 2 * 1024 + 64) + 4 * conv + 2 * 32 + 64 + 2048 * 1024,
        "K": 1024 * (3 * 2048 + 32 + 128) + 4 * 3 * 2048 + 2 * 64 * 2048 + 32 + 2048 + 64 + 2048 * 1024,
        "L": 1024 * 4 * 2048 + 2048 + 2048 * 1024,
        "S": 1024 * 4096 + 5 * 2048 + 2048 * (64 + 32) + 65 * 2048 + 17 * 2048 + 64 + 32 + 2048 * 1024,
    }
    for letter, mixer in hand.items():
        assert explained(of(letter))["parameters"] == around + 4 * mixer, letter


@pytest.mark.a_third
@pytest.mark.parametrize("letter", KINDS)
def test_tp_and_cp_divide_what_a_mixer_does(letter):
    one, split = (explained(of(letter, tp=tp, micro_batch=2)) for tp in (1, 4))
    for name in ("scan", "output", "convolution"):
        for op, part in zip(forward(one, name), forward(split, name), strict=True):
            assert part["flops"] == pytest.approx(op["flops"] / 4)
            if name != "scan":
                assert part["hbm_bytes"] < op["hbm_bytes"]
    apart = explained(of(letter, cp=2, cp_comm="all_gather", micro_batch=2))
    (op,), (part,) = forward(one, "scan"), forward(apart, "scan")
    assert (part["flops"], part["hbm_bytes"]) == pytest.approx((op["flops"] / 2, op["hbm_bytes"] / 2))
    assert forward(split, "layer all-gather")[0]["calls"] == 2 * forward(split, "scan")[0]["calls"]


def test_messages_of_context_parallelism_by_hand():
    """A state of 32 x 64 x 128 numbers of 4 bytes; 3 tokens of 2048 + 2 x 1024 channels before; cp 4, two sequences."""
    state, before = 2 * 4 * 32 * 64 * 128, 2 * 3 * 4096 * 2

    def messages(way):
        record = explained(of("M", cp=4, cp_comm=way, micro_batch=2, global_batch=4))
        found = [op for op in record["operations"] if op["group"] == "cp" and op["phase"] == "forward"]
        return {op["operation"]: (op["calls"] / 4, op["message_bytes"]) for op in found}

    assert messages("p2p") == {"pass states": (6, state), "pass the convolution's inputs": (2, before)}
    assert messages("all_gather") == {"gather states": (1, 8 * state), "pass the convolution's inputs": (2, before)}
    swapped, tokens = messages("all_to_all"), 2 * 1024 * 2
    assert swapped == {"swap channels for tokens": (1, tokens * (2 * 2048 + 2 * 1024 + 32)),
                       "swap tokens for channels": (1, tokens * 2048)}  # fmt: skip


def test_mamba_1_sums_its_parameters_over_tp():
    (summed,) = forward(explained(of("S", tp=2)), "Mamba-1 parameters all-reduce")
    assert summed["message_bytes"] == 4096 * (64 + 2 * 16) * 2


@pytest.mark.parametrize(("tp", "devices"), [(1, 0), (2, 0), (4, 2), (8, 4)])
def test_heads_of_mamba_1_have_parameters_of_their_own(tp, devices):
    """Zamba's two: each is projected of its own channels, and summed over the devices that have a part of it alone."""
    plain, headed = (explained(of("S", tp=tp, ssm_groups=groups)) for groups in (1, 2))
    summed = forward(headed, "Mamba-1 parameters all-reduce")
    assert [op["wire_bytes"] for op in summed] == [
        pytest.approx(2 * (devices - 1) / devices * op["message_bytes"]) for op in summed
    ]
    assert len(summed) == (devices > 0)
    assert headed["parameters"] == plain["parameters"]
    for name in ("Mamba-1 parameters", "Mamba-1 time step"):
        (one, *_), (two, *_) = forward(plain, name), forward(headed, name)
        assert one["flops"] == pytest.approx(two["flops"])


def test_two_heads_of_mamba_1_keep_two_of_what_is_projected():
    kept = [memory_of(of("S", gpus=1, ssm_groups=groups))["activations"] for groups in (1, 2)]
    assert kept[1] - kept[0] == 4 * 4096 * 2 * (64 + 2 * 16)


def test_a_shared_block_stands_before_mamba_1_too():
    """The same block, and what a layer has of its own, as before Mamba-2; the mixers' numbers are theirs."""
    of_block = []
    for mixer, shared, sizes in (("M", "Z", KINDS["M"]), ("S", "Y", KINDS["S"])):
        both = [explained(study(**{**MIXER, "tied": "on", **sizes, "layers": 3, "layer_pattern": pattern}))
                for pattern in (mixer * 2 + shared, mixer * 3)]  # fmt: skip
        more = forward(both[0], "shared ", "attention")
        of_block.append((both[0]["parameters"] - both[1]["parameters"],
                         [(op["operation"], op["calls"], op["flops"], op["hbm_bytes"]) for op in more]))  # fmt: skip
    assert of_block[0] == of_block[1]
    assert len(of_block[0][1]) > 5


def test_a_shared_block_under_tensor_parallelism():
    """What comes out is projected of each device's own tokens; the embedding is an input to gather beside the layer's,
    again for the gradients of weights, and its own gradient is summed."""
    point = {**MIXER, "tied": "on", **KINDS["S"], "layers": 3, "layer_pattern": "SSY", "tp": 2, "gpus": 2}
    record = explained(study(**point))
    (output,) = forward(record, "shared block output")
    assert output["flops"] == 2 * 2048 * 1024 * 1024
    for sp, calls in (
        (
            "on",
            {("all-gather", "forward"): 1, ("all-gather", "backward"): 1, ("gradient reduce-scatter", "backward"): 1},
        ),
        ("off", {("gradient all-reduce", "backward"): 1}),
    ):
        record = explained(study(**point, sp=sp))
        name = "embedding beside "
        beside = [op for op in record["operations"] if op["operation"].startswith(name) and op["calls"]]
        each = forward(record, "shared block output")[0]["calls"]
        assert {(op["operation"].removeprefix(name), op["phase"]): op["calls"] / each for op in beside} == calls
        assert {op["message_bytes"] for op in beside} == {2 * 4096 * 1024}


@pytest.mark.parametrize("tp", [1, 2])
def test_what_a_shared_block_keeps_by_hand(tp):
    """Of a token: 2 H numbers before their norm and after; Q, K, V and output of 16 heads of 128; H before a norm and
    after, three of the network's width, and the input of the projection."""
    point = {**MIXER, "tied": "on", "gated": "on", **KINDS["S"], "head_dim": 128, "layers": 3, "tp": tp, "gpus": tp}
    shared, plain = (memory_of(study(**point, layer_pattern=pattern))["activations"] for pattern in ("SSY", "SSS"))
    assert shared - plain == 2 * 4096 * (2 * 2 * 1024 + 4 * 16 * 128 + 2 * 1024 + 3 * 4096 + 1024) / tp


def test_what_mamba_2_keeps_by_hand():
    """Of a token: two inputs of norms and blocks, 6176 projected, 2 x 2048 scanned and normed; the network."""
    fields = {**MIXER, **SIZES, "gpus": 1}
    deep, deeper = (
        memory_of(study(**fields | {"layers": n, "layer_pattern": f"M-x{n}"}))["activations"] for n in (4, 8)
    )
    assert (deeper - deep) / 4 == 4096 * 2 * (4 * 1024 + 6176 + 2 * 2048 + 2 * 4096)


def test_a_scan_beside_flash_attention():
    """SSD is as fast as FlashAttention-2 at 2K tokens, and six times at 16K (arXiv:2405.21060, section 9.3, A100)."""
    sizes = {"ssm_heads": 64, "ssm_head_dim": 64, "ssm_state": 64, "ssm_chunk": 256}
    base = {**MIXER, "hidden": 2048, "heads": 32, "head_dim": 128, "gpus": 8, "layers": 2}

    def seconds(tokens, pattern, word, more):
        fields = {**base, **more, "seq_len": tokens, "micro_batch": 16384 // tokens, "layer_pattern": pattern}
        record = explained({"hardware": "a100-sxm-80gb", "set": fields})
        (op,) = [op for op in forward(record, word) if op["operation"] == word]
        return op["seconds"] / op["calls"]

    def ratio(tokens):
        return seconds(tokens, "*-x2", "attention", {}) / seconds(tokens, "M-x2", "Mamba-2 scan", sizes)

    assert ratio(2048) == pytest.approx(1.0, rel=0.15)
    assert ratio(16384) == pytest.approx(6.0, rel=0.15)


# -- sparse attention -------------------------------------------------------------------------------------------------

SPARSE = {"layers": 4, "hidden": 1024, "heads": 16, "head_dim": 64, "rope_head_dim": 32, "v_head_dim": 64,
          "q_lora_rank": 256, "kv_lora_rank": 128, "ffn_hidden": 4096, "vocab": 32000, "seq_len": 8192,
          "norm": "rmsnorm", "bias": "off", "dropout": "off", "gpus": 8,
          "index_heads": 8, "index_dim": 64, "index_topk": 1024}  # fmt: skip


def test_sparse_attention_by_hand():
    """1024 of 8192 tokens: 1024 - 64 of them on average; keys of 128 + 32 numbers, values of 128, 16 heads."""
    record = explained(study(**SPARSE, tp=2))
    (core,), (scores,) = forward(record, "sparse attention"), forward(record, "indexer scores")
    assert core["flops"] == 2 * 8192 * (1024 - 64) * 8 * (160 + 128)
    assert scores["flops"] == 2 * 8192 * 4096 * 8 * 64  # by every device of TP
    (queries,) = forward(record, "indexer queries")
    assert queries["flops"] == 2 * 8192 * 256 * 8 * 64
    dense = explained(study(**{k: v for k, v in SPARSE.items() if not k.startswith("index")}, tp=2))
    indexer = 256 * 8 * 64 + 1024 * 64 + 2 * 64 + 1024 * 8
    assert record["parameters"] - dense["parameters"] == 4 * indexer


def test_layers_that_take_an_index_over_have_no_indexer():
    own, some = (explained(study(**SPARSE, layer_pattern=pattern)) for pattern in ("*-x4", "*- T-x3"))
    indexer = 256 * 8 * 64 + 1024 * 64 + 2 * 64 + 1024 * 8
    assert own["parameters"] - some["parameters"] == 3 * indexer
    assert (
        sum(op["calls"] for op in forward(some, "sparse attention")) == 4 * forward(some, "indexer scores")[0]["calls"]
    )


def test_sparse_attention_gathers_latents():
    record = explained(study(**SPARSE, cp=2, cp_comm="all_gather"))
    sizes = {op["operation"]: op["message_bytes"] for op in record["operations"] if op["group"] == "cp"}
    assert sizes["gather latents"] == 8192 * (128 + 32) * 2
    assert sizes["gather indexer keys"] == 8192 * 64 * 2


# -- experts and gates ------------------------------------------------------------------------------------------------


def test_latent_experts_send_fewer_numbers():
    fields = {**MIXER, "experts": 16, "top_k": 4, "ep": 4, "gpus": 8, "moe_ffn_hidden": 512}
    whole, latent = (explained(study(**fields, **more)) for more in ({}, {"moe_latent_hidden": 256}))
    size = [forward(record, "expert dispatch")[0]["message_bytes"] for record in (whole, latent)]
    assert size[0] == 4 * size[1] == 4096 * 4 * 1024 * 2
    experts, projections = 4 * 16 * 2 * (1024 - 256) * 512, 4 * 2 * 1024 * 256
    assert whole["parameters"] - latent["parameters"] == experts - projections


@pytest.mark.parametrize(("gate", "columns"), [("on", 16 * 64), ("headwise", 16)])
def test_a_gate_on_attention(gate, columns):
    without, gated = (explained(study(**MIXER, gpus=8, **more)) for more in ({}, {"attention_gate": gate}))
    assert gated["parameters"] - without["parameters"] == 4 * 1024 * columns
    one, other = (forward(record, "QKV projection")[0]["flops"] for record in (without, gated))
    assert other - one == 2 * 4096 * 1024 * columns


GATED = {**MIXER, "gated": "on", "layers": 2, "gpus": 1, "global_batch": 1}


def test_gates_of_full_rank_and_a_gate_of_each_latent_head():
    sizes = {**GATED, **KINDS["K"], "layer_pattern": "K-x2"}
    low, output, full = (explained(study(**sizes, kda_gates=word)) for word in ("low_rank", "output", "full"))
    columns, dim = 32 * 64, 64
    for record, count in ((output, 1), (full, 2)):
        assert record["parameters"] - low["parameters"] == 2 * count * (1024 * columns - dim * (1024 + columns))
        more = forward(record, "Kimi Delta Attention projections")[0]["flops"]
        assert more - forward(low, "Kimi Delta Attention projections")[0]["flops"] == (
            2 * 4096 * 1024 * count * (columns - dim))  # fmt: skip
    latent = {**GATED, "kv_lora_rank": 128, "rope_head_dim": 16}
    without, gated = (explained(study(**latent, **more)) for more in ({}, {"attention_gate": "headwise"}))
    assert gated["parameters"] - without["parameters"] == 2 * 1024 * 16
    (gate,) = forward(gated, "attention gate projection")
    assert gate["flops"] == 2 * 4096 * 1024 * 16
    # Under sequence parallelism a device makes those of its own tokens, which are gathered with the latents.
    split = explained(study(**latent | {"attention_gate": "headwise", "tp": 2, "gpus": 2}))
    assert forward(split, "attention gate projection")[0]["flops"] == 2 * 2048 * 1024 * 16
    (sent,) = forward(split, "latent all-gather")
    assert sent["message_bytes"] == 2 * 4096 * (1024 + 128 + 16 + 16)  # queries are not compressed


def test_attention_beside_mamba_is_both_with_one_sum():
    sizes = {**GATED, **SIZES, "tp": 2, "gpus": 2}
    both, mamba = (explained(study(**sizes, layer_pattern=f"{letter}-x2")) for letter in "HM")
    attention = explained(study(**{**GATED, "tp": 2, "gpus": 2}))
    ends = 2 * 32000 * 1024 + 1024
    network = 2 * (3 * 1024 * 4096 + 2 * 1024)
    assert both["parameters"] == attention["parameters"] + mamba["parameters"] - ends - network
    gathers = [sum(op["calls"] for op in record["operations"] if op["operation"] == "layer reduce-scatter")
               for record in (both, attention, mamba)]  # fmt: skip
    assert gathers[0] == gathers[1] == gathers[2]


def test_a_shared_block_by_hand():
    # Attention of twice the hidden size, a network with an adapter, and a projection; its weights are there twice.
    sizes = {**GATED, **SIZES, "head_dim": 128, "shared_blocks": 2, "shared_rank": 32, "shared_attention_rank": 16}
    shared = explained(study(**{**sizes, "layers": 6, "layer_pattern": "MMZMZZ"}))
    plain = explained(study(**{**GATED, **SIZES, "layers": 6, "layer_pattern": "MMMMMM"}))
    h, inner, ffn, rank, tokens = 1024, 2048, 4096, 32, 4096
    block = 2 * h * 3 * inner + inner * h + 3 * h * ffn + 3 * h
    own = h * h + rank * (h + 2 * ffn) + 16 * (3 * 2 * h + 3 * inner)
    assert shared["parameters"] - plain["parameters"] == 2 * block + 3 * own
    flops = sum(
        op["calls"] * op["flops"] for op in forward(shared, "shared ", "attention") if op["kind"] != "elementwise"
    )
    products = 2 * tokens * (block - 3 * h + own)
    causal = tokens * tokens * 2 * inner  # half the scores, of queries by keys and by values
    assert flops == pytest.approx(3 * (products + causal))


# -- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [
    ({"window": 512, "global_every": 4}, {"window": 512, "layer_pattern": "(W-x3 *-)x2"}),
    ({}, {"layer_pattern": "*-x8"}),
    ({"experts": 8, "top_k": 2, "dense_layers": 2, "mtp_layers": 1},
     {"experts": 8, "top_k": 2, "layer_pattern": "*-x2 *Ex6", "mtp_layers": 1}),
])  # fmt: skip
def test_a_pattern_says_what_other_fields_say(same):
    columns = ("step_s", "parameters", "model_flops", "memory_gib", "serialized_comm_s")
    fields = {**MIXER, "layers": 8, "gpus": 16, "tp": 2, "pp": 2, "global_batch": 64}
    first, second = (row_of(study(**fields, **more), columns) for more in same)
    assert [first[name] for name in columns] == [second[name] for name in columns]


def test_patterns_along_an_axis_are_each_their_own():
    fields = {**MIXER, **SIZES, "gpus": 8}
    patterns = ["*-x4", "M-x4", "(M- *-)x2", "G-x4"]
    rows = rows_of({"hardware": "h100-sxm", "set": fields, "sweep": {"layer_pattern": patterns, "tp": [1, 2]}})
    assert len(rows) == 8
    for row in rows:
        more = {} if row["layer_pattern"] == "*-x4" else SIZES
        point = {k: v for k, v in fields.items() if k not in SIZES} | more
        alone = row_of(study(**point, tp=row["tp"], layer_pattern=row["layer_pattern"]))
        assert row["step_s"] == pytest.approx(alone["step_s"], rel=1e-12)


def test_blocks_alone_and_in_pairs_have_the_same_parameters():
    alone, paired = (explained(study(**MIXER | {"layers": n}, **SIZES, layer_pattern=p, gpus=8))
                     for n, p in ((8, "M-M-M-*-"), (4, "M-x3 *-")))  # fmt: skip
    assert alone["parameters"] == paired["parameters"]
    assert alone["step_s"] == pytest.approx(paired["step_s"], rel=0.01)


@pytest.mark.parametrize(("text", "message"), [
    ("M-Q", "'M-Q' is no layer"), ("(M- *-", "'\\(' without a '\\)'"), ("M-)", "without a '\\('"),
    ("M-x0", "is no layer"), ("(M- *-)x999999 Mx999999", "more than 100,000 layers"), (" ", "an empty pattern"),
])  # fmt: skip
def test_a_pattern_that_says_nothing_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        explained(study(**MIXER, **SIZES, layer_pattern=text, gpus=8))


def test_words_of_layers_are_written_short_and_read_again():
    rng = np.random.default_rng(13)
    for _ in range(200):
        period = rng.choice(["GE", "*E", "G-", "M", "K-", "-"], rng.integers(1, 6))
        words = [str(period[i % len(period)]) for i in range(rng.integers(1, 40))]
        assert [layer.mixer + layer.network for layer in parse_layer_pattern(pattern_text(words))] == words


@pytest.mark.parametrize(("more", "message"), [
    ({"layer_pattern": "M-x3", **SIZES}, "another number of layers"),
    ({"layer_pattern": "M-x4"}, "need ssm_heads"),
    ({"layer_pattern": "M-x4", "ssm_heads": 32}, "need ssm_head_dim"),
    ({"layer_pattern": "*-x4", **SIZES}, "is of mixers with a state"),
    ({"layer_pattern": "MEx4", **SIZES}, "layers of experts"),
    ({"layer_pattern": "W-x4"}, "layers over a window"),
    ({"layer_pattern": "T-x4"}, "sparse attention"),
    ({"layer_pattern": "L-x4", **KINDS["L"], "ssm_conv": 4}, "lightning attention has no convolution"),
    ({"layer_pattern": "S-x4", **KINDS["S"], "ssm_chunk": 64}, "not computed in chunks"),
    ({"layer_pattern": "M-x4", **SIZES, "ssm_dt_rank": 64}, "ssm_dt_rank is of Mamba-1"),
    ({"layer_pattern": "G-x4", **SIZES, "ssm_norm": "off"}, "ssm_norm is of Mamba"),
    ({"layer_pattern": "M-x4", **SIZES, "ssm_groups": 5}, "ssm_groups does not divide ssm_heads"),
    ({"layer_pattern": "M-x4", **SIZES, "tp": 3, "gpus": 3, "heads": 12, "head_dim": 64}, "not divide ssm_heads"),
    ({"ssm_heads": 4}, "means nothing without layer_pattern"),
    ({"index_heads": 4}, "means nothing without kv_lora_rank"),
    ({"moe_latent_hidden": 64}, "means nothing without experts"),
    ({"layer_pattern": "*Ex4", "experts": 8, "top_k": 2, "dense_layers": 1}, "dense_layers beside layer_pattern"),
    ({"layer_pattern": "Z-x4", **SIZES, "tp": 1, "pp": 2}, "share a block"),
    ({"layer_pattern": "M-x4", **SIZES, "shared_rank": 8}, "layers that share a block"),
    ({"layer_pattern": "M-x4", **SIZES, "kda_gates": "full"}, "Kimi Delta Attention"),
    ({"layer_pattern": "H-x4", **SIZES, "kv_lora_rank": 64, "rope_head_dim": 16}, "layers H, Z and Y"),
    ({**SPARSE, "cp": 2}, "cp_comm all_gather"),
    ({"architecture": "encoder-decoder", "encoder_layers": 2, "packed_documents": 2}, "of an encoder-decoder"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(more, message):
    with pytest.raises(CompcommError, match=message):
        explained(study(**{"gpus": 8, **MIXER, **more}))


@pytest.mark.parametrize(("model", "name", "unseen"), [
    ("amped", "nemotron-h-8b", "layer_pattern"), ("amped", "deepseek-v3.2", "index_heads 64"),
    ("foundation_models", "nemotron-3-super-120b-a12b", "moe_latent_hidden 1024"),
    ("comp_vs_comm", "qwen3-next-80b-a3b", r"layer_pattern \(GEx3 \*E\)x12"),
])  # fmt: skip
def test_other_cost_models_say_what_they_do_not_see(model, name, unseen):
    fields = {"tp": 2, "micro_batch": 1} if model == "comp_vs_comm" else {"gpus": 64, "global_batch": 64}
    given = {"hardware": "a100-sxm-80gb", "cost_model": model, "model": name, "set": fields}
    said = notes(make_plan(study_from(given)))
    assert any(re.search(unseen, note) for note in said), said


# -- serving ----------------------------------------------------------------------------------------------------------


def served(**fields):
    fields.pop("dropout")
    return row_of(study(phase="inference", dp=1, **fields), ("kv_cache_gib", "tpot_s", "kv_cache_bytes_per_token"))


def test_a_state_does_not_grow_with_the_prompt():
    fields = {**MIXER, **SIZES, "layer_pattern": "M-x4", "micro_batch": 8}
    short, long = (served(**{**fields, "seq_len": n}) for n in (1024, 65536))
    # 32 x 64 x 128 numbers of 4 bytes, and 3 tokens of 4096 channels in 16 bit, of 8 sequences in 4 layers.
    assert short["kv_cache_gib"] == long["kv_cache_gib"] == 4 * 8 * (4 * 32 * 64 * 128 + 2 * 3 * 4096) / GIB
    assert short["tpot_s"] == long["tpot_s"]
    assert long["kv_cache_bytes_per_token"] == 0


def test_half_the_layers_attend_half_the_cache():
    fields = {**MIXER, "micro_batch": 8}
    whole = served(**fields)
    half = served(**fields, **SIZES, layer_pattern="(M- *-)x2")
    assert half["kv_cache_bytes_per_token"] == whole["kv_cache_bytes_per_token"] / 2
    states = 2 * 8 * (4 * 32 * 64 * 128 + 2 * 3 * 4096) / GIB
    assert half["kv_cache_gib"] == pytest.approx(whole["kv_cache_gib"] / 2 + states, rel=1e-12)


def test_sparse_attention_reads_what_is_chosen():
    fields = {**SPARSE, "micro_batch": 8}
    del fields["gpus"]
    row, dense = served(**fields), served(**{k: v for k, v in fields.items() if not k.startswith("index")})
    assert row["kv_cache_bytes_per_token"] == 4 * 2 * (128 + 32 + 64)
    longer = [served(**{**fields, "seq_len": 65536})["tpot_s"] - row["tpot_s"],
              served(**{**{k: v for k, v in fields.items() if not k.startswith("index")}, "seq_len": 65536})["tpot_s"]
              - dense["tpot_s"]]  # fmt: skip
    assert 0 < longer[0] < longer[1]


# -- files of Hugging Face --------------------------------------------------------------------------------------------


def test_families_of_the_catalogue_have_their_layers():
    patterns = {name: load_model(name).fields.get("layer_pattern", "") for name in (
        "qwen3-next-80b-a3b", "kimi-linear-48b-a3b", "minimax-text-01", "jamba-v0.1", "glm-5.2")}  # fmt: skip
    counts = {name: [sum(layer.mixer == letter for layer in parse_layer_pattern(text)) for letter in "*GKLST"]
              for name, text in patterns.items()}  # fmt: skip
    assert counts == {
        "qwen3-next-80b-a3b": [12, 36, 0, 0, 0, 0], "kimi-linear-48b-a3b": [7, 0, 20, 0, 0, 0],
        "minimax-text-01": [10, 0, 0, 70, 0, 0], "jamba-v0.1": [4, 0, 0, 0, 28, 0], "glm-5.2": [21, 0, 0, 0, 0, 57],
    }  # fmt: skip


def test_adapters_of_a_shared_block_keep_what_their_matrices_down_make():
    # Three of them, of queries, keys and values, in each layer that shares the block: 2 bytes a token and rank.
    point = {"hidden": 1024, "heads": 16, "layers": 4, "vocab": 32000, "seq_len": 2048, "gpus": 1, "global_batch": 1,
             "layer_pattern": "MZMZ", "ssm_heads": 16, "ssm_head_dim": 64, "ssm_state": 64}  # fmt: skip
    kept = [memory_of({"hardware": "h100-sxm", "set": {**point, "shared_attention_rank": rank}})["activations"]
            for rank in (8, 24)]  # fmt: skip
    assert kept[1] - kept[0] == 2 * 2 * 2048 * 3 * 16


@pytest.mark.parametrize("topk", [128, 2048])
def test_documents_in_a_sequence_are_each_searched_by_themselves(topk):
    """Four documents in a sequence: the indexer's work is that of four sequences of their length, and attention's."""
    sparse = {**SPARSE, "index_topk": topk, "position": "rope", "gpus": 8, "seq_len": 2048}
    packed = explained(study(**sparse, global_batch=8, packed_documents=4))
    shorter = explained(study(**{**sparse, "seq_len": 512}, global_batch=32, micro_batch=4))
    whole = explained(study(**sparse, global_batch=8))
    for name in ("indexer scores", "choice of tokens", "sparse attention"):
        found, wanted, more = (
            [(each["flops"], each["seconds"]) for each in record["operations"] if each["operation"] == name]
            for record in (packed, shorter, whole)
        )
        assert found
        assert found == [pytest.approx(each) for each in wanted]
        assert found != more


@pytest.mark.parametrize("field", [{"attention_gate": "on"}, {"attention_gate": "headwise"}, {"attention_sinks": "on"},
                                   {"qk_norm": "on"}, {"qk_norm": "whole"}])  # fmt: skip
@pytest.mark.parametrize("pattern", ["MZMZ", "SYSY", "*-MZ"])
def test_a_field_of_attention_that_a_shared_block_would_not_heed_is_refused(field, pattern):
    (name,) = field
    point = {"hidden": 1024, "heads": 16, "layers": len(pattern), "vocab": 32000, "seq_len": 2048, "gpus": 1,
             "global_batch": 1, "ssm_heads": 16, "ssm_head_dim": 64, "ssm_state": 64}  # fmt: skip
    with pytest.raises(ConfigError, match=rf"{name} in layers that share a block \(Z, Y\) is not modelled"):
        memory_of({"hardware": "h100-sxm", "set": {**point, "layer_pattern": pattern, **field}})
    alone = {**point, "layers": 4, "layer_pattern": "*-M-"}  # attention of its own beside mixers has them
    more, less = (memory_of({"hardware": "h100-sxm", "set": {**alone, **each}})["weights"] for each in (field, {}))
    assert more > less

"""Muon: its steps and what it keeps and gathers, against counts by hand and a dealing out of matrices one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from face import explained, memory_of, row_of, told

from comp_comm.configs.importers.reading import import_text
from comp_comm.errors import CompcommError
from comp_comm.formulas.optimizer import newton_schulz_flops

H, F, LAYERS, VOCAB = 1024, 4096, 8, 32000
BASE = {"hidden": H, "heads": 16, "kv_heads": 4, "layers": LAYERS, "ffn_hidden": F, "gated": "on", "vocab": VOCAB,
        "seq_len": 2048, "norm": "rmsnorm", "bias": "off", "gpus": 8, "global_batch": 8,
        "optimizer": "muon"}  # fmt: skip
# Rows and columns of a layer's matrices: Q, K, V, output, both up as one, down.
SHAPES = [(H, H), (H, H // 4), (H, H // 4), (H, H), (H, 2 * F), (F, H)]
NUMBERS = LAYERS * sum(m * n for m, n in SHAPES)


def study(**more):
    return {"hardware": "h100-sxm", "cost_model": "complete", "set": {**BASE, **more}}


def test_flops_are_those_of_its_products():
    rng = np.random.default_rng(0)
    for _ in range(20):
        m, n, steps = rng.integers(1, 50, 3)
        a, b = min(m, n), max(m, n)
        one = 2 * a * b * a + 2 * a * a * a + 2 * a * a * b  # X X^T, A A, B X
        assert float(newton_schulz_flops(m, n, steps)) == steps * one


def muon_of(record, word="Muon"):
    return [each for each in record["operations"] if each["operation"] == word]


def test_every_matrix_is_orthogonalised_once_between_the_devices():
    (muon,) = muon_of(explained(study(zero=1)))
    expected = LAYERS * sum(float(newton_schulz_flops(m, n)) for m, n in SHAPES)
    assert 8 * muon["flops"] == pytest.approx(expected, rel=1e-12)
    (alone,) = muon_of(explained(study(zero=0)))
    assert alone["flops"] == pytest.approx(expected, rel=1e-12)
    assert alone["seconds"] > 5 * muon["seconds"]
    assert not muon_of(explained(study(zero=1, optimizer="adamw")))


def test_whole_matrices_are_dealt_out_as_evenly_as_they_can_be():
    # No device has less than an even share, or than the largest matrix; dealing out the longest first comes near.
    total = muon_of(explained(study(zero=0)))[0]["seconds"]
    for gpus in (2, 8, 32, 128):
        seconds = muon_of(explained(study(gpus=gpus, global_batch=gpus)))[0]["seconds"]
        costs = sorted((float(newton_schulz_flops(m, n)) for m, n in SHAPES * LAYERS), reverse=True)
        devices = [0.0] * gpus
        for cost in costs:
            devices[devices.index(min(devices))] += cost
        assert seconds / total == pytest.approx(max(devices) / sum(costs), rel=0.25)


def test_a_moment_less_of_every_number_of_a_matrix():
    adamw, muon = (memory_of(study(zero=0, optimizer=name))["optimizer"] for name in ("adamw", "muon"))
    assert adamw - muon == 4 * NUMBERS
    shared = [memory_of(study(zero=1, optimizer=name))["optimizer"] for name in ("adamw", "muon")]
    assert shared[0] - shared[1] == pytest.approx(4 * NUMBERS / 8)
    # Of 48 matrices on 96 devices the fullest has a whole one, with its moment and its weights in 32 bit.
    few, cut = (memory_of(study(gpus=96, global_batch=96, muon_sharding=way))["optimizer"]
                for way in ("whole", "gathered"))  # fmt: skip
    assert few - cut == pytest.approx(8 * (H * 2 * F - NUMBERS / 96))


def test_the_fullest_device_moves_the_states_of_the_matrix_that_it_has():
    # 28 bytes a number (AdamW with 16-bit weights and gradients), 8 less where there is one moment; 2 of the norm.
    rest = (2 * VOCAB * H + (2 * LAYERS + 1) * H) / 96
    for way, numbers in (("whole", H * 2 * F), ("gathered", NUMBERS / 96)):
        found = explained(study(gpus=96, global_batch=96, muon_sharding=way))
        moved = {each["operation"]: each["hbm_bytes"] for each in found["operations"] if each["phase"] == "optimizer"}
        assert moved["Adam"] == pytest.approx(20 * numbers + 28 * rest)
        assert moved["gradient norm"] == pytest.approx(2 * (numbers + rest))


def test_embeddings_and_norms_stay_with_adamw():
    rest = row_of(study(), ("parameters",))["parameters"] - NUMBERS
    assert rest == 2 * VOCAB * H + (2 * LAYERS + 1) * H
    held = memory_of(study(zero=0, gpus=1, global_batch=1))["optimizer"]
    assert held == 8 * NUMBERS + 12 * (2 * VOCAB * H + (2 * LAYERS + 1) * H)


def messages(**more):
    record = explained(study(**more))
    return {
        each["operation"]: each
        for each in record["operations"]
        if re.search("for Muon|momentum", each["operation"]) and each["calls"]
    }


def test_tp_gathers_matrices_whole():
    found = messages(tp=2, gpus=8, zero=0)
    for name, numbers in (("Q", H * H), ("FFN up", H * 2 * F)):
        each = found[f"momentum all-gather: {name}"]
        assert (each["calls"], each["message_bytes"]) == (LAYERS, 4 * numbers)
    assert sum(each["calls"] * each["message_bytes"] for each in found.values()) == 4 * NUMBERS
    assert not messages(tp=2, gpus=8, zero=0, muon_tp="blockwise")
    assert not messages(zero=1)


def test_shards_that_cut_matrices_gather_the_rest_of_one():
    (sent,) = messages(muon_sharding="gathered").values()
    assert sent["message_bytes"] * 7 / 8 == pytest.approx(2 * NUMBERS / (LAYERS * len(SHAPES)))


def flops_of(*shapes):
    return sum(float(newton_schulz_flops(*shape)) for shape in shapes)


EXPERTS = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "ep": 4, "etp": 1}


def test_experts_are_shared_out_over_those_that_have_them():
    # Of 8 devices each has two experts a layer, which one other device has, too; the router is a matrix of everyone.
    (muon,) = muon_of(explained(study(**EXPERTS)))
    everyone = LAYERS * flops_of(*SHAPES[:4], (H, EXPERTS["experts"]))
    own = LAYERS * 2 * flops_of((H, 2 * 512), (512, H))
    assert muon["flops"] == pytest.approx(everyone / 8 + own / 2, rel=1e-12)


def test_matrices_are_gathered_by_those_that_split_them():
    # Two replicas, each with half of the matrices that TP 4 splits; experts are split by ETP 2, and all are apart.
    found = messages(**{**EXPERTS, "etp": 2, "tp": 4})
    query, up = found["momentum all-gather: Q"], found["momentum all-gather: experts up"]
    assert (query["calls"], query["wire_bytes"]) == (LAYERS / 2, 4 * H * H * 3 / 4)
    assert (up["calls"], up["wire_bytes"]) == (2 * LAYERS, 4 * H * 2 * 512 / 2)


def test_blocks_are_orthogonalised_by_themselves():
    (muon,) = muon_of(explained(study(tp=4, muon_tp="blockwise")))
    assert muon["flops"] == pytest.approx(LAYERS / 2 * flops_of(*((min(s), max(s) / 4) for s in SHAPES)), rel=1e-12)


def test_matrices_cut_at_the_ends_of_a_part_are_done_twice():
    total = muon_of(explained(study(zero=0)))[0]["seconds"]
    (cut,) = muon_of(explained(study(muon_sharding="gathered")))
    assert cut["seconds"] == pytest.approx(total / 8 + total / (LAYERS * len(SHAPES)))


@pytest.mark.parametrize("zero", [2, 3])
def test_sharded_matrices_are_exchanged_there_and_back(zero):
    # Of each matrix a device has an eighth; so has it of all numbers sent, and of its steps (FSDP2's Muon).
    found = messages(zero=zero)
    assert {name: (each["calls"], each["message_bytes"]) for name, each in found.items()} == {
        f"{what} all-to-all for Muon": (1, 2 * NUMBERS / 8) for what in ("momentum", "update")
    }
    assert all(each["wire_bytes"] == 2 * NUMBERS / 8 * 7 / 8 for each in found.values())
    (muon,) = muon_of(explained(study(zero=zero)))
    assert 8 * muon["flops"] == pytest.approx(LAYERS * flops_of(*SHAPES), rel=1e-12)
    adamw, muon = (memory_of(study(zero=zero, gpus=96, global_batch=96, optimizer=name))["optimizer"]
                   for name in ("adamw", "muon"))  # fmt: skip
    assert adamw - muon == pytest.approx(4 * NUMBERS / 96)  # nobody has a whole matrix from step to step
    assert not messages(zero=zero, gpus=1, global_batch=1)


def test_replicas_of_shards_exchange_among_themselves():
    found = messages(zero=3, gpus=8, dp_shard=2)
    assert {each["message_bytes"] for each in found.values()} == {2 * NUMBERS / 2}
    assert all(each["wire_bytes"] == each["message_bytes"] / 2 for each in found.values())


def test_experts_are_exchanged_only_where_more_devices_shard_them_than_there_are():
    own = LAYERS * 2 * (H * 2 * 512 + 512 * H)  # numbers of a device's two experts
    few, many = (messages(**EXPERTS, zero=3, gpus=gpus, global_batch=gpus) for gpus in (8, 32))  # two, eight devices
    assert not any(name.startswith("expert") for name in few)
    sent = many["expert momentum all-to-all for Muon"]
    assert sent["message_bytes"] == pytest.approx(2 * own / 8)
    assert "expert update all-to-all for Muon" in many


def test_deepspeed_reduces_cut_matrices_with_every_micro_batch():
    once, every = (messages(zero=zero, zero_implementation="deepspeed", global_batch=64) for zero in (1, 2))
    (one,), (each,) = once.values(), every.values()
    assert (one["calls"], each["calls"]) == (1, 8)
    assert one["message_bytes"] == each["message_bytes"]


def test_parts_of_a_step_add_up():
    columns = ("step_s", "compute_s", "recompute_s", "optimizer_s", "bubble_s", "host_s", "serialized_comm_s",
               "exposed_comm_s")  # fmt: skip
    for more in (
        {"tp": 2},
        {"muon_sharding": "gathered"},
        {"tp": 2, "pp": 2, "global_batch": 64},
        {"zero": 3},
        {"zero": 2, **EXPERTS, "gpus": 32, "global_batch": 32},
    ):
        row = row_of(study(**more), columns)
        assert sum(row[name] for name in columns[1:]) == pytest.approx(row["step_s"], rel=1e-12)


@pytest.mark.parametrize(("more", "message"), [
    ({"zero": 2, "muon_sharding": "whole"}, "whole goes with zero 0 or 1"),
    ({"zero": 3, "muon_sharding": "gathered"}, "gathered goes with zero 0, 1 or 2"),
    ({"zero": 1, "muon_sharding": "exchanged"}, "exchanged goes with zero 2 or 3"),
    ({"zero": 3, "zero_implementation": "deepspeed"}, "DeepSpeed's ZeRO 3"), ({"zero": 3, "tp": 2}, "tp and etp 1"),
    ({"offload_optimizer": "on"}, "in the host's memory is not modelled"),
    ({"optimizer": "adamw", "muon_steps": 3}, "means nothing unless optimizer is muon"),
    ({"optimizer": "adamw", "muon_tp": "blockwise"}, "means nothing unless optimizer is muon"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(more, message):
    with pytest.raises(CompcommError, match=message):
        row_of(study(**more))


@pytest.mark.parametrize(
    ("more", "word"),
    [({"zero": 1}, "whole"), ({"zero": 3}, "exchanged"), ({"zero": 2, "zero_implementation": "deepspeed"}, "gathered")],
)
def test_how_its_matrices_are_sharded_is_said_where_it_is_not_given(more, word):
    note = f"muon_sharding is {word}, as stacks have it with this zero and zero_implementation"
    assert note in told(study(**more))["meta"]["notes"]
    assert note not in told(study(**more, muon_sharding=word))["meta"]["notes"]


def test_megatron_says_it():
    sizes = ("pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 64 "
             "--micro-batch-size 1 --bf16")  # fmt: skip
    found = import_text(f"python {sizes} --optimizer dist_muon --muon-num-ns-steps 6 --muon-momentum .9",
                        "run.sh").fields  # fmt: skip
    assert (found["optimizer"], found["muon_steps"], found["zero"]) == ("muon", 6, 1)
    with pytest.raises(CompcommError, match="Megatron-LM's FSDP does not take Muon"):
        import_text(f"python {sizes} --optimizer muon --use-megatron-fsdp --data-parallel-sharding-strategy "
                    "optim_grads_params", "run.sh")  # fmt: skip
    with pytest.raises(CompcommError, match="'distributed' is not modelled; only duplicated, blockwise"):
        import_text(f"python {sizes} --optimizer muon --muon-tp-mode distributed", "run.sh")

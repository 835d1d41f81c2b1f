"""Bytes against what PyTorch, torchtitan and transformers allocate: `data/torch_reference.csv`, to 1 %.

Where a library keeps more for a reason of its own, the row names it, and it is counted by hand here.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from face import explained, memory_of, named_model, volume_of

ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "torch_reference.csv").open(encoding="utf-8")))
LAYERS = [row for row in ROWS if row["kept_layer"]]


def fields_of(row):
    pairs = (field.split(" ") for field in row["fields"].split("; "))
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def memory(row, **more):
    return memory_of({"hardware": "h100-sxm", "model": row["model"], "set": {**fields_of(row), **more}})


def beside(row):
    """Return the bytes that a library keeps of a layer beside."""
    model = named_model(row["model"])
    kinds = {
        "": 0,
        # The table of rotations, complex numbers of 8 bytes: one layer was measured, and all of them share it.
        "rotations": 8 * model.get("head_dim", model["hidden"] // model["heads"]) / 2,
        "dropout on a CPU": 2 * model["hidden"],  # two masks of 16 bits, of 8 on a GPU
    }
    return fields_of(row)["seq_len"] * sum(kinds[kind] for kind in row["beside"].split("; "))


@pytest.mark.a_third
@pytest.mark.parametrize("row", LAYERS, ids=lambda row: f"{row['case']}, {row['model']}, {row['fields']}")
def test_what_a_layer_keeps(row):
    deep, deeper = (memory(row, layers=layers)["activations"] for layers in (6, 12))
    assert (deeper - deep) / 6 + beside(row) == pytest.approx(int(row["kept_layer"]), rel=0.01)


@pytest.mark.parametrize("row", [row for row in ROWS if row["kept_ends"]], ids=lambda row: row["case"])
def test_what_norm_and_logits_keep(row):
    """PyTorch keeps its softmax alone: what is beside it is there in the backward pass."""
    assert memory(row, cross_entropy="fused")["logits"] == pytest.approx(int(row["kept_ends"]), rel=0.01)


@pytest.mark.parametrize("row", [row for row in ROWS if row["peak"]], ids=lambda row: row["fields"])
def test_activations_and_temporaries_at_the_peak(row):
    found = memory(row)
    assert found["activations"] + found["logits"] + found["buffers"] == pytest.approx(int(row["peak"]), rel=0.01)


@pytest.mark.a_third
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["total"]], ids=lambda row: f"{row['model']}, {row['fields']}"
)
def test_all_at_the_peak(row):
    """With the loss, at the end of a layer's backward pass, or when the root's gradients are scattered."""
    assert memory(row, framework_gib=0, vocab_multiple=1)["total"] == pytest.approx(int(row["total"]), rel=0.01)


@pytest.mark.parametrize(("fields", "peak"), [
    ({"layers": 8, "dp": 8, "seq_len": 4096}, 14.0951), ({"dp": 64, "seq_len": 8192}, 47.3067),
    ({"layers": 8, "dp": 8, "seq_len": 4096, "grad_precision": "bf16"}, 14.0951),
], ids=str)  # fmt: skip
def test_peak_of_fsdp(fields, peak):
    """FSDPMemTracker's peaks, GiB: nothing is gathered while the loss is made, and gradients are not there yet."""
    given = {"zero": 3, "master_weights": "shards", "grad_precision": "fp32", "cross_entropy": "eager",
             "framework_gib": 0, **fields}  # fmt: skip
    found = memory_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": given})
    assert found["total"] / 2**30 == pytest.approx(peak, rel=0.01)


SHARDED = {"zero": 3, "master_weights": "shards", "dp": 8, "layers": 8, "seq_len": 4096}


def test_activations_at_the_peak_with_norms_and_gates_in_operations_of_their_own():
    """8.742 GiB of FSDPMemTracker: of 17 norms 6 bytes a number beside, and the gate after its nonlinearity."""
    given = {**SHARDED, "kernels": "eager", "norm_kernel": "eager_fp32"}
    found = memory_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": given})
    gradients = 8 * 4096 * 128256  # of logits: the tracker has these apart
    assert (found["activations"] + found["logits"] - gradients) / 2**30 == pytest.approx(8.742447, rel=1e-3)


@pytest.mark.parametrize(("grad", "summed"), [("fp32", 10.414), ("bf16", 5.207)])
def test_gradients_that_are_reduced_at_the_end_are_whole_until_then(grad, summed):
    """GiB after a micro-batch without reduction: shards of 4 bytes, and all gradients as they are reduced."""
    given = {**SHARDED, "grad_precision": grad, "gradient_sync": "last", "accumulation": 2}
    found = memory_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": given})
    assert found["gradients"] / 2**30 == pytest.approx(summed, rel=1e-3)
    assert found["weights"] / 2**30 == pytest.approx(1.302, rel=1e-3)


# Collectives of FSDP2 and torchtitan over 8 layers of Llama-3-8B, every one of a step counted (group, calls, bytes).
DEALT = {"layers": 8, "dp": 8, "zero": 3, "master_weights": "shards", "grad_precision": "fp32"}
FSDP = [
    ({}, {"gathers": (18, 11182292992), "scatters": (9, 11182292992)}),
    ({"grad_precision": "bf16"}, {"scatters": (9, 5591146496)}),
    ({"fsdp_units": "ends"}, {"gathers": (19, 5591146496 + 4540465152), "scatters": (10, 11182292992)}),
    ({"fsdp_units": "ends", "accumulation": 4}, {"gathers": (76, 22364585984 + 18161860608),
                                                 "scatters": (40, 44729171968)}),
    ({"fsdp_units": "ends", "accumulation": 4, "reshard_after_forward": "off"},
     {"gathers": (40, 22364585984), "scatters": (40, 44729171968)}),
    ({"reshard_after_forward": "off"}, {"gathers": (9, 5591146496)}),
    ({"accumulation": 4, "gradient_sync": "last", "grad_precision": "bf16"},
     {"gathers": (72, 44729171968), "scatters": (9, 5591146496)}),
    ({"accumulation": 4, "dp": 32, "dp_shard": 8, "grad_precision": "bf16"},
     {"gathers": (72, 44729171968), "scatters": (36, 22364585984), "replicas": (36, 2795573248)}),
    ({"accumulation": 4, "dp": 16, "dp_shard": 8, "fsdp_units": "ends"}, {"replicas": (40, 5591146496)}),
    ({"accumulation": 4, "dp": 32, "dp_shard": 8, "grad_precision": "bf16", "gradient_sync": "replicas_last"},
     {"scatters": (36, 22364585984), "replicas": (9, 698893312)}),
    ({"dp": 64, "reshard_shards": 8}, {"gathers": (9, 5591146496), "again": (9, 5591146496)}),
]  # fmt: skip
NAMES = {"gathers": "weight all-gather", "scatters": "gradient reduce-scatter", "replicas": "all-reduce over replicas",
         "again": "weight all-gather again"}  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize(("fields", "counted"), FSDP, ids=str)
def test_what_fsdp_sends(fields, counted):
    moved = volume_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": {**DEALT, **fields}})["messages"]
    for name, expected in counted.items():
        rows = [row for row in moved if row["message"] == NAMES[name]]
        sent = tuple(sum(row[column] for row in rows) for column in ("calls", "total_message_bytes"))
        assert sent == pytest.approx(expected, rel=1e-4)


# PyTorch's context parallelism, keys and values of one layer: (collective, bytes, calls forward and backward).
KEYS = {"layers": 1, "seq_len": 8192, "zero": 0}
CONTEXT = [
    ({"cp": 2}, {"pass keys and values": (16777216, 1, 1), "pass gradients": (33554432, 0, 2)}),
    ({"cp": 8}, {"pass keys and values": (4194304, 7, 7), "pass gradients": (8388608, 0, 8)}),
    ({"cp": 2, "cp_comm": "all_gather"},
     {"gather keys and values": (33554432, 1, 1), "pass gradients": (33554432, 0, 2)}),
    ({"cp": 8, "cp_comm": "all_gather"},
     {"gather keys and values": (33554432, 1, 1), "pass gradients": (8388608, 0, 8)}),
    # torchtitan, of flex attention: 16 calls each of 8 layers, 134217728 bytes.
    ({"layers": 8, "seq_len": 4096, "dp": 2, "cp": 4, "cp_comm": "all_gather", "cp_implementation": "flex"},
     {"gather keys and values": (134217728 / 16, 16, 0), "scatter their gradients": (134217728 / 16, 0, 16)}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "counted"), CONTEXT, ids=str)
def test_what_context_parallelism_sends(fields, counted):
    study = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {**KEYS, "cp_implementation": "torch", **fields}}
    found = {}
    for op in explained(study)["operations"]:
        if op["group"] == "cp":
            calls = found.setdefault(op["operation"], [op["message_bytes"], 0, 0])
            calls[1 + (op["phase"] == "backward")] += op["calls"]
    assert {name: tuple(calls) for name, calls in found.items()} == counted


def test_gathered_keys_are_kept_where_they_are_not_gathered_again():
    """Of 3 other devices, 8 heads of 128 numbers for keys and for values, 2 bytes each: of 1,024 tokens a layer."""
    fields = {"layers": 8, "seq_len": 4096, "cp": 4, "cp_comm": "all_gather", "zero": 0}
    torch, flex = (
        memory_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": {**fields, "cp_implementation": way}})
        for way in ("torch", "flex")
    )
    assert flex["activations"] - torch["activations"] == 8 * 1024 * 3 * 2 * 8 * 128 * 2


@pytest.mark.parametrize("row", [row for row in ROWS if row["gradients"]], ids=lambda row: row["fields"])
def test_states_of_fsdp(row):
    """Weights and moments of 12 bytes a parameter and shard, gradients of 4: no weights of 16 bit beside."""
    found = memory(row, accumulation=2)  # a first micro-batch finds no gradients
    assert found["weights"] + found["optimizer"] == pytest.approx(int(row["weights_and_optimizer"]), rel=0.01)
    assert found["gradients"] == pytest.approx(int(row["gradients"]), rel=0.01)


def test_nearly_all_rows_keep_nothing_beside():
    assert sum(not row["beside"] for row in LAYERS) >= len(LAYERS) - 5

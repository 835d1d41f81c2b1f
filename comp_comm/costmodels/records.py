"""The answers about one step as plain records: what JSON and tables are made of. SI units."""

from __future__ import annotations

from typing import TypedDict

# Parallel groups that communicate, by the short names of columns.
GROUP_TITLES = {"tp": "tensor parallelism", "cp": "context parallelism", "ep": "expert parallelism",
                "pp": "pipeline stages", "dp": "data parallelism", "world": "all devices",
                "host": "the link to the host (activations)"}  # fmt: skip
BYTES = {"message_bytes": "bytes of the messages", "volume_bytes": "bytes, those of an all-reduce twice",
         "wire_bytes": "bytes a device sends"}  # fmt: skip
MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")
# The parts of a step, which add up to it: columns, and what people call them.
STEP_PARTS = {"forward_s": "forward compute", "backward_s": "backward compute", "recompute_s": "recomputation",
              "optimizer_s": "optimizer", "serialized_comm_s": "serialized communication",
              "exposed_comm_s": "exposed communication", "host_s": "waiting for the host",
              "bubble_s": "pipeline bubble"}  # fmt: skip


class GroupRecord(TypedDict):
    """Communication of a parallel group in a step: seconds (disjoint), bytes in their three names, calls."""

    serialized_s: float
    hidden_s: float
    exposed_s: float
    message_bytes: float
    volume_bytes: float
    wire_bytes: float
    calls: float


class TierRecord(TypedDict):
    """Bytes that a device sends inside its innermost domain and out of it, of exchanges with experts; else None."""

    inside_bytes: float | None
    across_bytes: float | None


class OperationRecord(TierRecord):
    """An operation in one phase of a step: how often it is done, its work and bytes a call, its seconds of all calls.

    ``part`` is what it is of (a kind of layer, the embedding, the head, a stage's boundary, the whole step), of which
    the slowest stage has so many ``layers``. ``group`` is None for what is no collective, and ``across_domains`` says
    whether one leaves its innermost network domain.
    """

    operation: str
    part: str
    layers: int | None
    phase: str
    kind: str
    group: str | None
    calls: float
    formula: str
    flops: float
    hbm_bytes: float
    message_bytes: float
    wire_bytes: float
    seconds: float
    share: float
    across_domains: bool


class MemoryRecord(TypedDict):
    """Bytes of the stage that needs most by part, in all, as PyTorch counts them, and what the device has."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    logits_bytes: float
    buffers_bytes: float
    framework_bytes: float
    total_bytes: float
    allocated_bytes: float
    reserved_bytes: float
    capacity_bytes: float


class StepRecord(TypedDict):
    """Everything about one step: ``counts`` of devices and parameters, ``numbers`` by column, and its parts."""

    counts: dict[str, int]
    numbers: dict[str, float]
    memory: MemoryRecord
    comm: dict[str, GroupRecord]
    operations: list[OperationRecord]


class MessageRecord(TierRecord):
    """A collective of a step: its calls, the size of one message, and its bytes of all calls."""

    group: str
    message: str
    collective: str
    devices: float
    calls: float
    message_bytes: float
    total_message_bytes: float
    volume_bytes: float
    wire_bytes: float

"""When ZeRO 3 gathers weights and reduces gradients, and what the fields about it must keep."""

from __future__ import annotations

import numpy as np

from comp_comm.choice import Choice
from comp_comm.choices import Switch
from comp_comm.formulas.arrays import Array, Mask, Numeric, somewhere, to_float, where
from comp_comm.violation import Violation, rule


class GradientSync(Choice):
    """When ZeRO 3 reduces gradients: over its shards, and with fewer shards than replicas over these (HSDP).

    After every micro-batch (FSDP2 as it is); over the shards then, and over the replicas after the last one
    (`set_requires_all_reduce`); or both after the last (`set_requires_gradient_sync`), gradients whole until then.
    """

    MICRO_BATCH = "micro_batch", 1, 1
    REPLICAS_LAST = "replicas_last", 1, 0
    LAST = "last", 0, 0

    def __init__(self, word: str, shards: float, replicas: float) -> None:
        self.shards, self.replicas = shards, replicas


class FsdpUnits(Choice):
    """What ZeRO 3 gathers at once beside a layer: embedding, final norm and head together, or the ends one by one.

    With ``root`` they are what is left to the root module (FSDP2's fully_shard of each layer, then of the model); with
    ``ends`` (torchtitan) the embedding is a unit, and norm and head are one that is kept until its backward pass.
    """

    ROOT = "root"
    ENDS = "ends"


class ZeroImplementation(Choice):
    """Whose ZeRO it is: elements of gradients that it reduces at once, if a study does not say.

    Megatron-LM's distributed optimizer, whose GEMMs add up gradients in 32 bit where these are reduced so; or
    DeepSpeed's, which keeps the 16-bit gradients beside them, or makes flat copies of its partition for a step.
    """

    MEGATRON = "megatron", 40e6
    DEEPSPEED = "deepspeed", 5e8

    def __init__(self, word: str, bucket: float) -> None:
        self.bucket = bucket


def adds_up_apart(zero: Numeric, implementation: Numeric) -> Mask:
    """Return where the optimizer itself adds the gradients of micro-batches up: DeepSpeed's of ZeRO 1.

    >>> adds_up_apart([1, 2], 1).tolist()
    [True, False]
    """
    return np.asarray(ZeroImplementation.DEEPSPEED.where(implementation) & (to_float(zero) == 1))


def fuses_accumulation(given: Numeric, zero: Numeric, implementation: Numeric) -> Array:
    """Return 1 where GEMMs add gradients to their sum: as given (-1: not), else where no optimizer adds them up.

    >>> fuses_accumulation([-1, -1, 0], 1, [0, 1, 0]).tolist()
    [1.0, 0.0, 0.0]
    """
    said = to_float(given)
    return where(said < 0, to_float(~adds_up_apart(zero, implementation)), said)


def accumulation_rules(fused: Numeric, zero: Numeric, implementation: Numeric) -> list[Violation]:
    """Return the rules about what adds gradients of micro-batches up; ``fused`` is 1 where GEMMs do."""
    fuses = to_float(fused) > 0
    return [
        rule(fuses & adds_up_apart(zero, implementation), "gradient_accumulation_fusion: on goes with "
              "zero_implementation: megatron: DeepSpeed's optimizer of zero 1 adds gradients up itself",
              "gradient_accumulation_fusion", "zero_implementation"),
        rule(~fuses & (to_float(zero) > 1), "gradient_accumulation_fusion: off goes with zero 0 or 1, which sum whole "
              "gradients", "gradient_accumulation_fusion", "zero"),
    ]  # fmt: skip


def implementation_rules(zero: Numeric, copies: Mask, implementation: Numeric) -> list[Violation]:
    """Return the rules about whose ZeRO it is; ``copies`` is where 32-bit weights are beside those of 16 bits."""
    theirs = ZeroImplementation.DEEPSPEED.where(implementation)
    if not somewhere(theirs):
        return []
    return [
        rule(theirs & (to_float(zero) == 0), "zero_implementation: deepspeed needs zero 1, 2 or 3 (its optimizer for "
              "bf16 shards at stage 0, too: zero 1)", "zero_implementation", "zero"),
        rule(theirs & ~copies, "zero_implementation: deepspeed has copies of weights (master_weights: copy)",
              "zero_implementation", "master_weights"),
    ]  # fmt: skip


def sharding_rules(zero: Numeric, reshards: Numeric, between: Numeric, sync: Numeric, units: Numeric, shards: Numeric,
                   spread: Mask) -> list[Violation]:  # fmt: skip
    """Return the rules about what ZeRO 3 alone has a say in; ``spread`` is where it is not known how many shards."""
    below, between = to_float(zero) < 3, to_float(between)
    off, late = Switch.OFF.where(reshards), ~GradientSync.MICRO_BATCH.where(sync)
    ends, fewer = FsdpUnits.ENDS.where(units), ~np.isnan(between)
    if not (somewhere(off) or somewhere(late) or somewhere(ends) or somewhere(fewer)):
        return []
    return [
        rule(below & off, "reshard_after_forward: off goes with zero 3", "reshard_after_forward", "zero"),
        rule(below & fewer, "reshard_shards goes with zero 3", "reshard_shards", "zero"),
        rule(off & fewer, "reshard_shards needs reshard_after_forward: on", "reshard_shards",
              "reshard_after_forward"),
        rule(~spread & fewer & (shards % between != 0), "reshard_shards does not divide the "
              "shards (dp_shard, or dp x cp)", "reshard_shards", "dp_shard", "dp"),
        rule(below & late, "gradient_sync goes with zero 3", "gradient_sync", "zero"),
        rule(below & ends, "fsdp_units: ends goes with zero 3", "fsdp_units", "zero"),
    ]  # fmt: skip

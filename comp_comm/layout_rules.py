"""The rules about degrees and batches of a layout alone."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import MasterWeights, Recompute, Schedule, SequenceInputs, Switch
from comp_comm.formulas.arrays import Array, Mask, somewhere, to_float
from comp_comm.layout import Layout
from comp_comm.optimizers import MuonSharding, Optimizer
from comp_comm.sharding import (
    GradientSync,
    ZeroImplementation,
    accumulation_rules,
    implementation_rules,
    sharding_rules,
)
from comp_comm.violation import Violation, rule


def _uneven_batch(layout: Layout, batch: Array, per_step: Array) -> str:
    """Return what is wrong with a batch that replicas and micro-batches do not divide: of one point, in numbers."""
    reason = "dp x micro_batch does not divide global_batch"
    if batch.ndim or per_step.ndim or not batch % per_step > 0 or per_step % 1:
        return reason
    low = float(batch // per_step * per_step)
    able = f"are {low:,.0f} and {low + float(per_step):,.0f}" if low else f"is {float(per_step):,.0f}"
    return f"{reason}: {layout.dp:,.0f} x {layout.micro_batch:,.0f} is no part of {batch:,.0f}; the nearest {able}"


def layout_rules(given: Layout, layout: Layout) -> list[Violation]:
    """Return the rules about degrees and batches alone; ``layout`` is ``given``, resolved."""
    gpus, dp, batch = to_float(given.gpus), to_float(given.dp), to_float(given.global_batch)
    model_parallel = to_float(layout.tp) * layout.cp * layout.pp
    spread = (gpus % model_parallel != 0) & ~np.isnan(gpus)
    both = ~np.isnan(gpus) & ~np.isnan(dp) & ~spread
    per_step = to_float(layout.dp) * layout.micro_batch
    stated = ~np.isnan(to_float(given.accumulation)) & ~np.isnan(batch)
    return [
        rule(spread, "tp x cp x pp does not divide gpus", "tp", "cp", "pp", "gpus"),
        rule(both & (gpus != model_parallel * dp), "tp x cp x pp x dp is not gpus", "dp", "gpus", "tp", "cp", "pp"),
        rule(~spread & ~np.isnan(batch) & (batch % per_step != 0), _uneven_batch(layout, batch, to_float(per_step)),
              "global_batch", "micro_batch", "dp"),
        rule(stated & (batch != per_step * to_float(given.accumulation)),
              "dp x micro_batch x accumulation is not global_batch", "accumulation", "global_batch", "micro_batch"),
        *_pipeline_rules(layout),
        *_expert_rules(layout, spread),
        rule(~np.isnan(to_float(given.dp_shard)) & ~spread & (layout.replicas % layout.dp_shard != 0),
              "dp_shard does not divide dp x cp", "dp_shard", "dp", "cp"),
        rule(~np.isnan(to_float(given.dp_shard)) & (to_float(layout.zero) == 0),
              "dp_shard shards nothing under zero 0", "dp_shard", "zero"),
        rule(MasterWeights.SHARDS.where(layout.master_weights) & (to_float(layout.zero) < 3),
              "master_weights: shards goes with zero 3", "master_weights", "zero"),
        rule(GradientSync.REPLICAS_LAST.where(layout.gradient_sync) & np.isnan(to_float(given.dp_shard)),
              "gradient_sync: replicas_last needs dp_shard: without it shards have no replicas", "gradient_sync",
              "dp_shard"),
        *sharding_rules(layout.zero, layout.reshard_after_forward, given.reshard_shards, layout.gradient_sync,
                        layout.fsdp_units, layout.dp_shard, spread),
        rule(SequenceInputs.KEPT.where(layout.sequence_inputs) & Switch.OFF.where(layout.sp)
              & (to_float(layout.tp) > 1), "sequence_inputs: kept needs sp: on", "sequence_inputs", "sp"),
        *_optimizer_rules(layout),
        *implementation_rules(layout.zero, MasterWeights.COPY.where(layout.master_weights), layout.zero_implementation),
        *accumulation_rules(layout.gradient_accumulation_fusion, layout.zero, layout.zero_implementation),
        rule(~np.isnan(to_float(given.recompute_layers)) & ~Recompute.FULL.where(layout.recompute),
              "recompute_layers goes with recompute: full", "recompute_layers", "recompute"),
        rule(Switch.ON.where(layout.recompute_early_stop) & ~Recompute.FULL.where(layout.recompute),
              "recompute_early_stop goes with recompute: full", "recompute_early_stop", "recompute"),
        rule(~np.isnan(to_float(given.offload_activations)) & Recompute.FULL.where(layout.recompute),
              "offload_activations and recompute: full exclude each other", "offload_activations", "recompute"),
    ]  # fmt: skip


def _pipeline_rules(layout: Layout) -> list[Violation]:
    vpp, pp, scheduled = to_float(layout.vpp), to_float(layout.pp), Schedule.INTERLEAVED.where(layout.schedule)
    interleaved, steps = scheduled & (vpp > 1), to_float(layout.accumulation)
    h2, v, both = (each.where(layout.schedule) for each in (Schedule.ZB_H2, Schedule.ZB_V, Schedule.DUALPIPE))
    return [
        rule((vpp > 1) & (pp == 1), "vpp above 1 needs pp above 1", "vpp", "pp"),
        rule(scheduled & (vpp == 1), "schedule: interleaved needs vpp above 1", "schedule", "vpp"),
        rule((vpp > 1) & ~scheduled, "vpp above 1 goes with schedule 1f1b or interleaved",
              "schedule", "vpp"),
        rule(interleaved & (pp > 1) & (layout.accumulation % pp != 0), "interleaving needs a multiple of pp "
              "micro-batches a replica (global_batch / (dp x micro_batch))", "pp", "vpp", "global_batch"),
        rule(v & (pp == 1), "schedule: zb_v needs pp above 1", "schedule", "pp"),
        rule((h2 | v) & (steps < 2 * pp - 1), "schedule zb_h2 and zb_v need at least 2 x pp - 1 micro-batches a "
              "replica, which fill the pipeline", "schedule", "pp", "global_batch"),
        rule(both & (pp % 2 != 0), "schedule: dualpipe needs an even pp: stages are pairs", "schedule", "pp"),
        rule(both & ((steps % 2 != 0) | (steps < 2 * pp)), "schedule: dualpipe needs an even number of micro-batches "
              "a replica, at least 2 x pp: half of them from each end", "schedule", "pp", "global_batch"),
    ]  # fmt: skip


def _expert_rules(layout: Layout, spread: Mask) -> list[Violation]:
    group = to_float(layout.ep) * layout.etp
    uneven = ~spread & ((layout.replicas * layout.tp) % group != 0)
    return [rule(uneven, "ep x etp does not divide dp x cp x tp", "ep", "etp", "dp", "cp", "tp")]


def _optimizer_rules(layout: Layout) -> list[Violation]:
    """Return what an optimizer and the way the states of a resolved layout are sharded must keep together."""
    muon = Optimizer.MUON.where(layout.optimizer)
    if not somewhere(muon):
        return []
    zero, offload = to_float(layout.zero), layout.offload_optimizer
    whole, gathered, exchanged = (muon & each.where(layout.muon_sharding) for each in MuonSharding)
    theirs = ZeroImplementation.DEEPSPEED.where(layout.zero_implementation)
    return [
        rule(whole & (zero > 1), "muon_sharding: whole goes with zero 0 or 1: gradients of ZeRO 2 and 3 are not dealt "
             "out by matrix; exchanged does", "muon_sharding", "zero"),
        rule(gathered & (zero > 2), "muon_sharding: gathered goes with zero 0, 1 or 2: ZeRO 3 shards each matrix; "
             "exchanged does", "muon_sharding", "zero"),
        rule(exchanged & (zero < 2), "muon_sharding: exchanged goes with zero 2 or 3", "muon_sharding", "zero"),
        rule(exchanged & (zero > 2) & theirs, "Muon under DeepSpeed's ZeRO 3 is not modelled: it reduces whole "
             "gradients and takes its steps with every micro-batch", "optimizer", "zero", "zero_implementation"),
        rule(exchanged & ((to_float(layout.tp) > 1) | (to_float(layout.etp) > 1)), "Muon whose matrices are "
             "exchanged (zero 2 and 3) goes with tp and etp 1: FSDP2's takes matrices that are sharded one way",
             "muon_sharding", "tp", "etp"),
        rule(muon & Switch.ON.where(offload), "optimizer: muon with its states in the host's memory is not modelled",
             "optimizer", "offload_optimizer"),
    ]  # fmt: skip

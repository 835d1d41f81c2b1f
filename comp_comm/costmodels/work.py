"""A resolved model on a resolved layout, and what follows from them before anything is timed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comp_comm.choices import AttentionCount, Recompute, Switch
from comp_comm.costmodels.model_work import (
    ONE_DEVICE_LAYOUT,
    ForwardFlops,
    ModelParameters,
    forward_flops,
    model_parameters,
)
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formats import Formats
from comp_comm.formulas.arrays import (
    Array,
    add_up,
    by_code,
    somewhere,
    to_float,
    where,
)
from comp_comm.hardware.numbers import Hardware
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.layers.module import Module, selected_modules
from comp_comm.layers.pattern import Pattern, pattern_of
from comp_comm.layers.stages import Stages, stages_of
from comp_comm.layout import Layout, resolved_layout
from comp_comm.lazy import cached_property
from comp_comm.operations.context import Context
from comp_comm.structs import struct
from comp_comm.transformer import Transformer, resolved

FLOP_OF_BOTH_PASSES = 3.0  # of those of the forward pass: once, and twice backward


@struct
class Work:
    """A model on a layout, both resolved, on hardware as training finds it."""

    scenario: Scenario
    transformer: Transformer
    layout: Layout
    hardware: Hardware

    @property
    def gpus(self) -> Array:
        """Devices in all."""
        return to_float(self.layout.gpus)

    @property
    def dp(self) -> Array:
        """Data-parallel degree."""
        return to_float(self.layout.dp)

    @property
    def global_batch(self) -> Array:
        """Sequences of a step."""
        return to_float(self.layout.global_batch)

    @property
    def accumulation(self) -> Array:
        """Micro-batches of a replica in a step."""
        return to_float(self.layout.accumulation)

    @property
    def peak_flops(self) -> Array:
        """Dense peak of the compute precision, FLOP/s of a device."""
        return to_float(self.hardware.peak_flops)

    @cached_property
    def step_tokens(self) -> Array:
        """Tokens of a step."""
        return to_float(self.layout.global_batch) * self.transformer.seq_len

    @property
    def run_tokens(self) -> Array:
        """Tokens of the whole run."""
        return to_float(self.scenario.tokens)

    @cached_property
    def context(self) -> Context:
        """What operations are made from."""
        return Context(self.transformer, self.layout, self.scenario.formats)

    @cached_property
    def pattern(self) -> Pattern:
        """Which layers the model has."""
        return pattern_of(self.transformer)

    @cached_property
    def stages(self) -> Stages:
        """How they are dealt out to pipeline stages."""
        return stages_of(self.pattern, self.layout)

    @cached_property
    def vocab(self) -> Array:
        """The vocabulary held, padded."""
        return self.transformer.padded_vocab(self.layout.tp)

    @cached_property
    def _counts(self) -> ModelParameters:
        return model_parameters(self.transformer)

    @property
    def parameters(self) -> Array:
        """Parameters of the model as published: without padding, tied embeddings once, MTP modules apart."""
        return self._counts.all

    @property
    def active_parameters(self) -> Array:
        """Parameters a token uses."""
        return self._counts.active

    @property
    def mtp_parameters(self) -> Array:
        """Parameters of the modules of multi-token prediction."""
        return self._counts.mtp

    @property
    def trained_parameters(self) -> Array:
        """Parameters that are trained: those of the model with its MTP modules, or of adapters."""
        if not self.context.frozen:
            return self.parameters + self.mtp_parameters
        c = Context(self.transformer, ONE_DEVICE_LAYOUT, Formats())
        trained = (kind.parameters(kind.context(c)).trained for kind in self.pattern.kinds)
        layers = zip(self.pattern.totals, trained, strict=True)
        return np.rint(add_up(count * (layer.dense + layer.experts) for count, layer in layers))

    @cached_property
    def model_flops(self) -> Array:
        """FLOP of a step that the model needs: forward and backward, over all devices."""
        flops = forward_flops(self.transformer, self.transformer.vocab, self.scenario.count_attention)
        of_a_sequence = FLOP_OF_BOTH_PASSES * flops.total(self.pattern.totals) - flops.untrained(self.pattern.totals)
        return to_float(self.layout.global_batch) * of_a_sequence

    @cached_property
    def hardware_flops(self) -> Array:
        """FLOP of a step that are executed, with recomputation and the padded vocabulary, over all devices.

        A causal kernel does not execute the scores that a mask hides, whatever is counted for the model.
        """
        executed = AttentionKernel.skipping(self.layout.attention_kernel)
        count = where(executed, int(AttentionCount.CAUSAL), int(AttentionCount.FULL))
        flops = forward_flops(self.transformer, self.vocab, count)
        both = FLOP_OF_BOTH_PASSES * flops.total(self.pattern.totals) - flops.untrained(self.pattern.totals)
        return to_float(self.layout.global_batch) * (both + self._recomputed(flops))

    def _recomputed(self, flops: ForwardFlops) -> Array:
        """Return the FLOP that recomputation adds for a sequence."""
        return by_code(np.asarray(self.layout.recompute), lambda code: self._recomputed_by(code, flops))

    def _recomputed_by(self, code: int, flops: ForwardFlops) -> Array:
        """Return the FLOP that an option of recomputation adds for a sequence."""
        total = to_float(0.0)
        early = Switch.ON.where(self.layout.recompute_early_stop)
        c = Context(self.transformer, ONE_DEVICE_LAYOUT, Formats())
        kinds = zip(
            self.pattern.kinds, self.pattern.totals, self.stages.recomputed_or_offloaded, flops.layers, strict=True
        )
        for kind, count, recomputed, layer_flops in kinds:
            context = kind.context(c)
            if code == Recompute.FULL:
                left_out = (
                    early * _flops_of(kind.skipped_by_early_stop(context), layer_flops) if somewhere(early) else 0.0
                )
                total = total + recomputed * (add_up(layer_flops.values()) - left_out)
            elif Recompute.at(code).modules:
                modules = selected_modules(
                    (module for block in kind.modules(context, Recompute.at(code).modules) for module in block), code
                )
                total = total + count * add_up(_flops_of(module, layer_flops) for module in modules)
        return total


def _flops_of(module: Module, layer_flops: Mapping[str, Array]) -> Array:
    """Return the FLOP of a module, of a layer whose FLOP are these by the name of each operation."""
    return add_up(share * layer_flops[name] for name, share in module.operations.items() if name in layer_flops)


def work_of(scenario: Scenario, hardware: Hardware) -> Work:
    """Return what a scenario asks for, resolved, on hardware as it is found."""
    return Work(scenario, resolved(scenario.transformer), resolved_layout(scenario.layout), hardware)

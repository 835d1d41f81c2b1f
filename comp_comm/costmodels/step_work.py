"""What a training step is about, before anything is timed: model, layout, parameters and FLOP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from comp_comm.costmodels.answer import Answer
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.operations.context import Context
from comp_comm.operations.parameters import Parameters, model_parameters
from comp_comm.operations.work import PASSES, forward_work, layers_run
from comp_comm.transformer import Transformer


@dataclass(frozen=True)
class StepWork(Answer):
    """A model on a layout, both resolved, and what follows from them alone."""

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
        """What the operations are made from."""
        return Context(self.transformer, self.layout, self.scenario.formats)

    @cached_property
    def vocab(self) -> Array:
        """The vocabulary held, padded."""
        return self.transformer.padded_vocab(self.layout.tp)

    @cached_property
    def _counts(self) -> tuple[Array, Array, Array]:
        return model_parameters(self.transformer)

    @property
    def parameters(self) -> Array:
        """Parameters of the model as published: without padding, tied embeddings once, MTP modules apart."""
        return self._counts[0]

    @property
    def active_parameters(self) -> Array:
        """Parameters a token uses."""
        return self._counts[1]

    @property
    def mtp_parameters(self) -> Array:
        """Parameters of the modules of multi-token prediction."""
        return self._counts[2]

    @cached_property
    def model_flops(self) -> Array:
        """FLOP of a step that the model needs: forward and backward, over all devices."""
        work = forward_work(self.transformer, self.transformer.vocab, self.scenario.count_causal)
        layers = layers_run(self.transformer)
        return to_float(self.layout.global_batch) * PASSES * (layers * (work.gemms + work.attention) + work.ends)


def beside_layers(held: Parameters, t: Transformer, embedding: Numeric, logits: Numeric) -> Array:
    """Return the parameters of a stage beside its layers; a last stage that is not the first copies tied weights."""
    first, last = to_float(embedding), to_float(logits)
    copied = last * (1 - first) * to_float(t.tied) * held.embedding
    return first * held.embedding + last * (held.head + held.final_norm + held.mtp) + copied

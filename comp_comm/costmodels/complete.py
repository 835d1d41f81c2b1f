"""The cost model of a complete training step: every parallelism, every byte, memory.

A step is a list of operations (`comp_comm.operations`), timed one by one (`comp_comm.timing`) on the slowest stage of a
pipeline. Compute, recomputation, optimizer, visible communication and the bubble add up to the step exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from comp_comm.costmodels.footprint import Footprint
from comp_comm.costmodels.layer_times import (
    NOTHING,
    ZERO,
    LayerTimes,
    Spent,
    add_up,
    overlapped,
)
from comp_comm.costmodels.near import PickedTimes
from comp_comm.costmodels.pipeline import Stage
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.states import state_spent
from comp_comm.costmodels.step_parts import StepParts, resolved_parts
from comp_comm.costmodels.step_rules import blank_violations, layout_violations, may_lack, step_violations
from comp_comm.costmodels.traffic import Traffic, traffic
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layout import FULL
from comp_comm.operations.work import PASSES, Work, forward_work, layers_run
from comp_comm.violation import Violation

GROUPS = ("tp", "cp", "ep", "pp", "dp", "world")


@dataclass(frozen=True)
class Step(StepParts):
    """One training step on one device, as arrays that are made when they are asked for.

    ``layout`` and ``transformer`` are resolved; all seconds are those of a device of the slowest stage.
    """

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep over steps holds."""
        return [self.step_s, self.memory_bytes, self.layer.compute.forward]

    @cached_property
    def hardware_flops(self) -> Array:
        """FLOP of a step with those of recomputation and of the padded vocabulary, over all devices."""
        work: Work = forward_work(self.transformer, self.vocab, self.scenario.count_causal)
        layers, pipe, pp = layers_run(self.transformer), self.pipeline, to_float(self.layout.pp)
        again = np.minimum(pipe.layers_again(Stage(layers / pp, 0.0, 0.0)) * pp, layers)
        full = np.asarray(self.layout.recompute) == FULL
        extra = np.where(full, work.gemms, 0.0) + work.attention
        repeated = again * extra * (np.asarray(self.layout.recompute) > 0)
        once = PASSES * (layers * (work.gemms + work.attention) + work.ends)
        return to_float(self.layout.global_batch) * (once + repeated)

    @cached_property
    def forward_s(self) -> Array:
        """Seconds of forward compute in a step."""
        return self._compute("forward")

    @cached_property
    def backward_s(self) -> Array:
        """Seconds of backward compute in a step."""
        return self._compute("backward")

    def _compute(self, phase: str) -> Array:
        parts = add_up(often * getattr(times.compute, phase) for times, often in self._parts(self.stage))
        return self.layout.accumulation * parts

    @property
    def compute_s(self) -> Array:
        """Seconds of forward and backward compute."""
        return self.forward_s + self.backward_s

    @cached_property
    def recompute_s(self) -> Array:
        """Seconds of compute that makes activations again."""
        pipe = self.pipeline
        return self.layout.accumulation * (pipe.layers_again(self.stage) * pipe.again_compute)

    @property
    def optimizer_s(self) -> Array:
        """Seconds of the gradients' norm and the optimizer's step, and of states that go to the host and back."""
        return self.state_costs.optimizer

    @property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self.pipeline.bubble_s

    @cached_property
    def comm(self) -> dict[str, Spent]:
        """Seconds of communication in a step by group; groups that do not communicate are left out.

        A second of compute hides one second of one group: the layers' first, then sends, then states.
        """
        found = {group: self._layers_spent(group) for group in GROUPS if group in self.layer_groups}
        compute = self.compute_s + self.recompute_s
        free = compute - add_up(spent.hidden for spent in found.values())
        if self.sends:
            found["pp"] = self._sends_spent(np.maximum(free, 0.0))
            free = free - found["pp"].hidden
        if self.replicated:
            windows = self._windows()
            if any(spent.hidden is not ZERO for spent in found.values()):
                share = np.maximum(free, 0.0) / compute
                forward, backward, every = windows
                windows = share * forward, share * backward, share * every
            found["dp"] = state_spent(self.context, self.state_costs, windows)
        if self.world_s is not ZERO:
            found["world"] = Spent(self.world_s, ZERO, ZERO)
        return found

    @property
    def replicated(self) -> bool:
        """Whether any weights are held more than once."""
        many = np.any(self.layout.replicas > 1)
        return bool(many or (self.transformer.has_experts and np.any(self.layout.expert_replicas > 1)))

    @cached_property
    def layer_groups(self) -> list[str]:
        """Groups that communicate within layers and at the ends."""
        return [*dict.fromkeys([*self.layer.groups, *self.embedding.groups, *self.logits.groups])]

    def _layers_spent(self, group: str) -> Spent:
        """Return what a group spends in the layers and at the ends of the slowest stage."""
        found, stage = NOTHING, self.stage
        again = self.pipeline.layers_again(stage) * (np.asarray(self.layout.recompute) == FULL)
        for times, often in self._parts(stage):
            if group in times.groups:
                repeats = again if times is self.layer else 0.0
                found = found.plus(times.forward[group].times(often + repeats))
                found = found.plus(times.backward[group].times(often))
        return found.times(self.layout.accumulation)

    def _parts(self, stage: Stage) -> list[tuple[LayerTimes | PickedTimes, Numeric]]:
        """Return the parts of a stage, and how often it has each."""
        return [(self.layer, stage.layers), (self.embedding, stage.embedding), (self.logits, stage.logits)]

    def _sends_spent(self, free: Array) -> Spent:
        """Return the sends of the slowest stage: a micro-batch in and out, forward and backward."""
        overlaps = np.asarray(self.layout.overlap_pp) > 0
        total = 2.0 * to_float(self.layout.accumulation) * self.pipeline.sends_s
        if not overlaps.any():
            return Spent(total, ZERO, ZERO)
        total = total * np.where(overlaps, self.scenario.interference, 1.0)
        return overlapped(total, np.minimum(total, free), overlaps)

    def _windows(self) -> tuple[Array, Array, Array]:
        """Return the compute beside which states may be sent: a micro-batch forward, one backward, and all of them."""
        steps = to_float(self.layout.accumulation)
        backward = self.backward_s + self.recompute_s
        return self.forward_s / steps, backward / steps, self.forward_s + backward

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes and calls of a step by group."""
        return traffic(self)

    @cached_property
    def serialized_comm_s(self) -> Array:
        """Seconds of communication that cannot overlap."""
        return add_up(spent.serialized for spent in self.comm.values())

    @cached_property
    def hidden_comm_s(self) -> Array:
        """Seconds of communication that ran under compute."""
        return add_up(spent.hidden for spent in self.comm.values())

    @cached_property
    def exposed_comm_s(self) -> Array:
        """Seconds of communication that could overlap but did not fit."""
        return add_up(spent.exposed for spent in self.comm.values())

    @cached_property
    def step_s(self) -> Array:
        """Seconds of a step."""
        # What ZeRO has a say in is the largest array of all: the rest is added up before it joins.
        states, others = self.comm.get("dp", NOTHING), (spent for group, spent in self.comm.items() if group != "dp")
        rest = add_up((self.compute_s, self.recompute_s, self.bubble_s, *(spent.visible for spent in others)))
        return rest + add_up((self.optimizer_s, states.visible))

    # -- whether it fits ----------------------------------------------------------------------------------------------

    @cached_property
    def footprint(self) -> Footprint:
        """Memory of the stage that needs most."""
        framework = self.scenario.framework_bytes
        return Footprint(self.context, self.activations, self.held, self.vocab, self.pipeline, framework)

    @property
    def memory_bytes(self) -> Array:
        """Bytes of memory of the stage that needs most."""
        return self.footprint.total

    @cached_property
    def layout_violations(self) -> tuple[Violation, ...]:
        """The rules of model and layout that points break."""
        return layout_violations(self)

    @property
    def may_lack(self) -> bool:
        """Whether something of the hardware may be missing for some point, wherever its groups are placed."""
        return may_lack(self)

    @property
    def shape_violations(self) -> tuple[Violation, ...]:
        """The rules that points break, but for that of memory."""
        return (*self.layout_violations, *blank_violations(self))

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        return step_violations(self)


def evaluate(scenario: Scenario) -> Step:
    """Return the step of a scenario; broken rules are listed, not raised.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> h100 = load_profile("h100-sxm").hardware("bf16")
    >>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
    >>> step = evaluate(Scenario(llama, Layout(gpus=8, tp=8, global_batch=8), h100))
    >>> parts = step.compute_s + step.recompute_s + step.optimizer_s + step.bubble_s
    >>> bool(abs(parts + step.serialized_comm_s + step.exposed_comm_s - step.step_s) < 1e-9)
    True
    """
    return Step(*resolved_parts(scenario))

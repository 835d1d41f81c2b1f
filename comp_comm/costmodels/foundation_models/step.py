"""The cost model of "Comprehensive Performance Modeling and System Design Insights for Foundation Models".

A step of a dense transformer under tensor parallelism in one dimension, in two (SUMMA), or with the sequence split over
a second group, with pipeline and data parallelism, on domains of fast links joined by slow ones. Embeddings, logits and
the optimizer step take no time there. ``formulas: as_published`` keeps the slips of the code published with the paper;
``corrected`` mends those that are no choice of modelling:

* a hop between domains takes no time where other stages share a domain;
* under SUMMA a norm's rows have seq_len / tp1 numbers, not hidden / tp1;
* an all-reduce inside one domain, or with one device in each, takes one round of the ring instead of two;
* groups that do not fill a domain exactly are no layout, and a sequence that does not divide loses its rest.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from comp_comm.choices import Formulas, Strategy
from comp_comm.costmodels.foundation_models.device_memory import DeviceMemory
from comp_comm.costmodels.foundation_models.layer_costs import HeldByLayer, TimesOfLayer, links_of
from comp_comm.costmodels.foundation_models.mesh_layout import MeshLayout
from comp_comm.costmodels.foundation_models.rules import layout_rules, profile_rules
from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas import foundation_models_time as takes
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.formulas.foundation_models import NUMBER_BYTES, memory_bytes
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.violation import Violation, broken_rules, no_room


@struct
class FoundationStep(SearchableAnswer):
    """A step as arrays that are made when they are asked for; ``times`` and ``holds`` are those of a layer."""

    scenario: Scenario
    mesh: MeshLayout
    times: TimesOfLayer
    holds: HeldByLayer

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep holds."""
        return [self.step_s, self.memory_bytes]

    # -- a step -------------------------------------------------------------------------------------------------------

    @cached_property
    def dp_comm_s(self) -> Array:
        """Seconds of data parallelism that show."""
        each = takes.collective_seconds(
            NUMBER_BYTES * self.holds.layer.weights, *self.mesh.sharing, links_of(self.scenario)
        )
        return takes.state_comm_seconds(
            each, self.mesh.stage_layers, self.times.layer.forward, self.times.layer.backward
        )

    @cached_property
    def _step(self) -> tuple[Array, Array, Array]:
        pp, free = self.scenario.layout.pp, Formulas.AS_PUBLISHED.where(self.scenario.mesh.formulas)
        hop = takes.hop_seconds(
            self.holds.layer.boundary, pp, self.mesh.inside.pp, links_of(self.scenario), to_float(free)
        )
        layer = self.times.layer.forward + self.times.layer.backward
        return takes.step_seconds(layer, self.mesh.stage_layers, self.mesh.accumulation, hop, pp, self.dp_comm_s)

    @property
    def step_s(self) -> Array:
        """Seconds of a step."""
        return self._step[0]

    @property
    def pp_comm_s(self) -> Array:
        """Seconds of sends between stages."""
        return self._step[1]

    @property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self._step[2]

    def _in_step(self, of_layer: Array) -> Array:
        return of_layer * (self.mesh.accumulation * self.mesh.stage_layers)

    @cached_property
    def compute_s(self) -> Array:
        """Seconds of compute, the start of every operation too."""
        return self._in_step(self.times.layer.compute)

    @cached_property
    def memory_bound_s(self) -> Array:
        """Seconds that HBM takes beyond compute."""
        return self._in_step(self.times.layer.memory)

    @cached_property
    def tp_comm_s(self) -> Array:
        """Seconds of communication of both tensor-parallel groups that show."""
        return self._in_step(self.times.layer.comm)

    @cached_property
    def comm_s(self) -> Array:
        """Seconds of communication that show."""
        return self.tp_comm_s + self.pp_comm_s + self.dp_comm_s

    # -- whether it fits ----------------------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> DeviceMemory:
        """Bytes of a device of the first stage, which holds most activations."""
        held = np.minimum(self.scenario.layout.pp, self.mesh.accumulation)
        copies = np.where(Strategy.SEQUENCE.where(self.scenario.mesh.strategy), self.scenario.mesh.tp2, 1.0)
        return DeviceMemory(
            *memory_bytes(
                self.holds.layer.weights, self.holds.layer.kept, self.mesh.stage_layers, self.mesh.dp * copies, held
            )
        )

    @cached_property
    def memory_bytes(self) -> Array:
        """Bytes of a device."""
        return self.memory.weights + self.memory.gradients + self.memory.optimizer + self.memory.activations

    @property
    def step_tokens(self) -> Array:
        """Tokens of a step."""
        return to_float(self.scenario.layout.global_batch) * self.scenario.transformer.seq_len

    def memory_record(self) -> dict[str, float]:
        """Return the bytes of a device at one point, by part, in all, and what it has."""
        parts = {f"{name}_bytes": float(part) for name, part in self.memory._asdict().items()}
        return {**parts, "total_bytes": float(self.memory_bytes), "capacity_bytes": float(self.memory_capacity)}

    @property
    def may_lack(self) -> bool:
        """Whether the profile lacks something for some point."""
        return bool(broken_rules(profile_rules(self.mesh)))

    @property
    def memory_capacity(self) -> Array:
        """Bytes of memory of a device."""
        return to_float(self.scenario.hardware.memory_capacity)

    @cached_property
    def layout_violations(self) -> tuple[Violation, ...]:
        """The rules of model and layout that points break."""
        return (*self.scenario.violations, *broken_rules(layout_rules(self.mesh)))

    @property
    def shape_violations(self) -> tuple[Violation, ...]:
        """The rules that points break, but for that of memory."""
        return (*self.layout_violations, *broken_rules(profile_rules(self.mesh)))

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        over = no_room(self.memory_bytes, self.memory_capacity)
        return (*self.shape_violations, *broken_rules([over]))

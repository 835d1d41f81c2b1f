"""What model states cost in a step: collectives of gradients and weights, and the optimizer, of the slowest stage.

Model states are weights, gradients and optimizer states, as ZeRO calls them (arXiv:1910.02054, section 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.complete.pointwise import pointwise_max
from comp_comm.costmodels.complete.states.stage_states import StageStates, StateSeconds
from comp_comm.costmodels.machine import kernels_of, network_of, work_in_training
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import add_up
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.ends import EndParameters, end_parameters
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.timed_collectives import Network


class SlowestStates(NamedTuple):
    """The stage whose states take longest at each point, as an index into `Stages.candidates`, and its seconds."""

    stage_number: NDArray[np.intp]
    seconds: StateSeconds


@struct
class StateCosts:
    """The states of every stage that differs, and those of the stage that takes longest to update them."""

    work: Work

    @cached_property
    def kernels(self) -> Kernels:
        """What times kernels."""
        return kernels_of(self.work)

    @cached_property
    def network(self) -> Network:
        """What times collectives."""
        return network_of(self.work)

    @cached_property
    def layer_parameters(self) -> tuple[LayerParameters, ...]:
        """Parameters of a layer of each kind that a device holds."""
        c = self.work.context
        return tuple(kind.parameters(kind.context(c)) for kind in self.work.pattern.kinds)

    @cached_property
    def ends(self) -> EndParameters:
        """Parameters beside the layers that a device holds."""
        return end_parameters(self.work.context, self.work.vocab)

    def of(self, stage: Stage) -> StageStates:
        """Return the states of a stage."""
        return StageStates(self.work, self.kernels, self.network, self.layer_parameters, self.ends, stage)

    @cached_property
    def stages(self) -> tuple[StageStates, ...]:
        """The states of each stage that differs."""
        return tuple(self.of(stage) for stage in self.work.stages.candidates)

    @cached_property
    def longest(self) -> SlowestStates:
        """The stage whose states take longest, nothing overlapped: a step ends when the last stage has its weights."""
        each = ((SlowestStates(np.asarray(number, np.intp), states.seconds), add_up(states.seconds))
                for number, states in enumerate(self.stages))  # fmt: skip
        return pointwise_max(each)[0]


def state_costs(scenario: Scenario) -> StateCosts:
    """Return what states cost in a scenario."""
    return StateCosts(work_in_training(scenario))

"""The machine of a step: its hardware as whole steps find it, and what times kernels and collectives on it."""

from __future__ import annotations

from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.work import Work, work_of
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.timed_collectives import Network


def work_in_training(scenario: Scenario) -> Work:
    """Return the work of a scenario on its hardware as whole steps find it."""
    return work_of(scenario, scenario.hardware.in_training)


def kernels_of(work: Work) -> Kernels:
    """Return what times kernels on a work's hardware; gradients of weights are added to what holds them."""
    f = work.scenario.formats
    return Kernels(
        work.hardware,
        operand=f.operand,
        activation=f.activation,
        gradient=f.main_grad,
        sustained=work.scenario.sustained,
        recipe=f.recipe,
        fp8_attention=f.fp8_attention,
    )


def network_of(work: Work) -> Network:
    """Return what times collectives on a work's hardware."""
    return Network(work.hardware, work.layout.collective_algorithm, work.scenario.hardware)

"""Memory of a device: that of the stage that needs most, which decides whether a layout fits."""

from __future__ import annotations

from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.memory.stage_memory import MemoryParts, StageMemory
from comp_comm.costmodels.complete.pointwise import pointwise_max
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import (
    Array,
    largest,
    maximum,
    minimum,
    to_float,
)
from comp_comm.lazy import cached_property
from comp_comm.structs import struct

# Of what is held for tensors, that lies between them: it brings the median of torchtitan's ten published runs to what
# they print, reserved memory. BLOOM's 34 readings of nvidia-smi, on which it was not chosen, are 3 % above it then.
UNUSED = 0.115


@struct
class Footprint:
    """Memory of the stages that may need most: those that differ."""

    work: Work
    layer_costs: LayerCosts

    @cached_property
    def stages(self) -> list[StageMemory]:
        """The memory of each stage that differs."""
        return [StageMemory(self.work, self.layer_costs, stage) for stage in self.work.stages.candidates]

    @cached_property
    def parts(self) -> MemoryParts:
        """The parts of the stage that needs most."""
        return pointwise_max((stage.parts, stage.total) for stage in self.stages)[0]

    @cached_property
    def total(self) -> Array:
        """Bytes of the stage that needs most."""
        return largest(stage.total for stage in self.stages)

    @cached_property
    def allocated(self) -> Array:
        """Bytes of tensors at the peak, as `torch.cuda.max_memory_allocated` counts them."""
        return self.total - to_float(self.work.scenario.framework_bytes)

    @cached_property
    def reserved(self) -> Array:
        """Bytes that the caching allocator holds at the peak, at most what the device has beside the framework.

        Whether a step fits is asked of what is allocated: an allocator that runs out gives back what it holds unused.
        """
        framework = to_float(self.work.scenario.framework_bytes)
        rest = to_float(self.work.hardware.memory_capacity) - framework
        held = largest(stage.total + stage.unused for stage in self.stages) - framework
        return maximum(minimum(held * (1 + UNUSED), rest), self.allocated)

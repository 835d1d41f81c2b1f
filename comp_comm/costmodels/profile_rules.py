"""What a step needs of a hardware profile, and where that is missing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from comp_comm.choices import CollectiveAlgorithm, Switch
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Mask, everywhere, isnan, somewhere, to_float
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import FP8_KERNEL, NAMED_KERNELS
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.structs import struct
from comp_comm.timing.network import available, blanks
from comp_comm.timing.timed_collectives import Network
from comp_comm.violation import Violation, blank_number, broken_rules, one_a_reason


@struct
class ProfileRules:
    """What a step needs of a hardware profile: numbers of the device, and of the network that its groups cross."""

    work: Work
    network: Network
    training: bool = True

    @property
    def may_be_broken(self) -> bool:
        """Whether something may be missing for some point, wherever its groups are placed."""
        chosen = somewhere(np.asarray(self.work.layout.collective_algorithm) != CollectiveAlgorithm.BEST)
        return chosen or not self._known_network or any(somewhere(mask) for mask in self._blank_numbers().values())

    def violations(self, groups: Iterable[tuple[str, Group]]) -> list[Violation]:
        """Return the rules that points break, for groups by what a collective calls them."""
        blank = [blank_number(key, mask, "hardware", "this step") for key, mask in self._blank_numbers().items()]
        rules = broken_rules([*blank, *self._unavailable(groups)])
        if self._known_network:
            return rules
        for name, group in groups:
            rules += [
                blank_number(key, mask, name) for key, mask in blanks(self.work.hardware, self.network.path(group))
            ]
        return one_a_reason(rules)

    def _unavailable(self, groups: Iterable[tuple[str, Group]]) -> list[Violation]:
        algorithm = np.asarray(self.work.layout.collective_algorithm)
        if everywhere(algorithm == CollectiveAlgorithm.BEST):
            return []
        rules = []
        for name, group in groups:
            able = available(self.work.hardware, "all_reduce", self.network.path(group), algorithm)
            reason = f"the network has no such collective_algorithm for {name}"
            missing = np.asarray(~able & (to_float(group.size) > 1))
            rules.append(Violation(missing, reason, ("collective_algorithm", name)))
        return rules

    def _blank_numbers(self) -> dict[str, Mask]:
        """Return where a number of a device that a step needs is not known, by its key in a profile."""
        hardware, timing = self.work.hardware, self.work.hardware.timing
        numbers = {"memory.capacity": hardware.memory_capacity, "memory.bandwidth": hardware.memory_bandwidth,
                   "timing.gemm_efficiency": timing.gemm_efficiency,
                   "timing.memory_efficiency": timing.memory_efficiency,
                   "memory.host_bandwidth": hardware.host_bandwidth}  # fmt: skip
        blank = {key: np.isnan(to_float(number)) for key, number in numbers.items()}
        layout = self.work.layout
        offloaded = Switch.ON.where(layout.offload_optimizer) | ~np.isnan(to_float(layout.offload_activations))
        blank["memory.host_bandwidth"] = blank["memory.host_bandwidth"] & offloaded
        return {**blank, **self._blank_recipes(), **self._blank_kernels()}

    def _blank_recipes(self) -> dict[str, Mask]:
        """Return where GEMMs run by a recipe that the device has not."""
        recipe, timing = np.asarray(self.work.scenario.formats.recipe), self.work.hardware.timing
        numbers = {Recipe.MXFP8: "mxfp8_efficiency", Recipe.BLOCKWISE: "fp8_block_efficiency",
                   Recipe.DELAYED: "fp8_efficiency", Recipe.TENSORWISE: "fp8_efficiency",
                   Recipe.ROWWISE: "fp8_efficiency", Recipe.ROWWISE_WITH_GW_HP: "fp8_efficiency"}  # fmt: skip
        return {f"timing.{name}": (recipe == code) & np.isnan(to_float(getattr(timing, name)))
                for code, name in numbers.items() if somewhere(recipe == code)}  # fmt: skip

    def _blank_kernels(self) -> dict[str, Mask]:
        """Return where attention runs by a kernel whose speed on the device is not known."""
        hardware, code = self.work.hardware, np.asarray(self.work.layout.attention_kernel)
        eight = Switch.ON.where(self.work.scenario.formats.fp8_attention)
        if not hardware.attention or (not somewhere(eight) and everywhere(code <= AttentionKernel.UNFUSED)):
            return {}
        usual = AttentionKernel.at(int(to_float(hardware.timing.attention_kernel).flat[0])).word
        parts = ("efficiency", "backward_efficiency") if self.training else ("efficiency",)
        blank: dict[str, Mask] = {}
        for kernel in AttentionKernel:
            there = kernel.where(code)
            if kernel is AttentionKernel.UNFUSED or not somewhere(there):
                continue
            word = kernel.word if kernel in NAMED_KERNELS else usual
            for kernels, name, used in ((hardware.attention, word, ~eight),
                                        (hardware.fp8_attention, FP8_KERNEL.format(word), eight)):  # fmt: skip
                for part in parts:
                    missing = there & used & np.isnan(to_float(getattr(kernels[kernel], part)))
                    blank[f"attention.{name}.{part}"] = missing
        return {key: mask for key, mask in blank.items() if somewhere(mask)}

    @property
    def _known_network(self) -> bool:
        return known_network(self.work.hardware)


def known_network(hardware: Hardware) -> bool:
    """Return whether every number of the network is known, out to a tier that connects all devices."""
    outermost = False
    for tier in hardware.tiers:
        if outermost or not tier.key:
            break
        numbers = (tier.bandwidth, tier.latency, tier.efficiency, tier.entry_latency, tier.tree_latency, tier.reduction)
        if any(somewhere(isnan(to_float(number))) for number in numbers):
            return False
        outermost = everywhere(np.isinf(to_float(tier.domain)))
    return outermost

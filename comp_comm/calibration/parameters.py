"""What of a profile can be fitted: the key of each number, the operator that tells it, and its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from comp_comm.hardware.numbers import FlashKernel, Timing
from comp_comm.hardware.profile import (
    ATTENTION_KINDS,
    ENTRY_LATENCY,
    NAMED_KERNELS,
    TIER_KINDS,
    TIMING_KINDS,
    TREE_LATENCY,
    Number,
    Profile,
)
from comp_comm.kernel_choices import AttentionKernel

US = 1e-6


@dataclass(frozen=True)
class Parameter:
    """A number to fit: its key in a profile, bounds, and where the search starts if the profile leaves it out.

    An ``extra`` one is left out of a profile unless the data ask for it.
    """

    key: str
    low: float
    high: float
    start: float
    extra: bool = False

    @property
    def kind(self) -> str:
        """The kind of quantity."""
        return kind_of(self.key)


KINDS = {"timing": TIMING_KINDS, "network": TIER_KINDS, "attention": ATTENTION_KINDS}


def kind_of(key: str) -> str:
    """Return the kind of quantity of a profile's key.

    >>> kind_of("attention.cudnn.latency")
    'seconds'
    """
    return KINDS[key.split(".")[0]][key.rsplit(".", 1)[-1]]


KERNELS = {
    "gemm": (
        Parameter("timing.gemm_efficiency", 0.02, 1.0, 0.75),
        Parameter("timing.memory_efficiency", 0.02, 1.0, 0.7),
        Parameter("timing.kernel_latency", 0.2 * US, 500 * US, 3 * US),
        Parameter("timing.gemm_ramp_k", 1, 5000, 120),
        Parameter("timing.gemm_ramp_tiles", 0.1, 5000, 45),
        Parameter("timing.gemm_split_k", 10, 50_000, 1000),
    ),
    "attention": (
        Parameter("timing.flash_efficiency", 0.02, 1.0, 0.6),
        Parameter("timing.flash_memory_efficiency", 0.02, 1.0, 0.35),
        Parameter("timing.flash_latency", 0.2 * US, 500 * US, 8 * US),
        Parameter("timing.flash_ramp_blocks", 0.1, 5000, 150),
        Parameter("timing.flash_head_exponent", 0.01, 2.0, 0.6),
    ),
    "elementwise": (
        Parameter("timing.stream_efficiency", 0.02, 1.0, 0.8),
        Parameter("timing.stream_latency", 0.2 * US, 500 * US, 4 * US),
        Parameter("timing.stream_reread", 0.02, 1.0, 0.7, extra=True),
        Parameter("timing.stream_row_latency", 1e-11, 1e-6, 1e-9, extra=True),
    ),
}


# Of the fused kernel that a profile says its device's stacks use.
# Its ``head_exponent`` is fitted, or the profile's ``softmax_dim`` where it has one.
FUSED = (
    ("efficiency", 0.02, 2.0, 0.6), ("memory_efficiency", 0.02, 50.0, 0.5), ("latency", 0.2 * US, 500 * US, 8 * US),
    ("ramp_blocks", 0.1, 5000, 100), ("ramp_keys", 0.5, 5000, 150), ("head_exponent", 0.01, 2.0, 0.6),
)  # fmt: skip
SOFTMAX = ("softmax_dim", 1.0, 2000.0, 64.0)


def used_kernel(profile: Profile) -> str | None:
    """Return the name of the fused kernel that a device's stacks use, None where its numbers are those of ``flash``."""
    code = profile.value("timing.attention_kernel", float(AttentionKernel.FLASH_CAUSAL))
    kernel = AttentionKernel.at(int(code))
    return kernel.word if kernel in NAMED_KERNELS else None


ROWS = ("timing.stream_reread", "timing.stream_row_latency")


def kernel_parameters(profile: Profile, operator: str) -> tuple[Parameter, ...]:
    """Return the parameters of an operator's kernels.

    Those of LayerNorm's and softmax's rows only where a profile says of how many kernels a LayerNorm is made: elsewhere
    (fused kernels, CPUs) their bytes are as any others, and `stream_efficiency` is a mean over all kernels.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> [len(kernel_parameters(load_profile(name), "elementwise")) for name in ("h100-sxm", "mi210")]
    [2, 4]
    """
    if operator == "attention" and used_kernel(profile):
        kernel = f"attention.{used_kernel(profile)}"
        numbers = (*FUSED[:-1], SOFTMAX) if profile.value(f"{kernel}.softmax_dim", 0.0) > 0 else FUSED
        return tuple(Parameter(f"{kernel}.{name}", low, high, start) for name, low, high, start in numbers)
    told = np.isfinite(profile.value("timing.norm_kernels"))
    return tuple(p for p in KERNELS[operator] if told or p.key not in ROWS)


def collective_parameters(profile: Profile, inside: bool, across: bool) -> tuple[Parameter, ...]:
    """Return the parameters of the network that groups inside and across the innermost domain tell.

    Groups across domains depend on what is inside as well, but do not tell it: without any inside, it stays.
    """
    inner, *outer = profile.tiers
    key = f"network.{inner}"
    parameters = []
    if inside:
        parameters += [
            Parameter("timing.collective_latency", 1 * US, 20_000 * US, 9 * US),
            Parameter(f"{key}.efficiency", 0.05, 1.0, 0.77),
            Parameter(f"{key}.latency", 0.01 * US, 20 * US, 0.8 * US),
        ]
        parameters.append(Parameter("timing.own_shard", 0.02, 1.0, 0.4))
        if profile.value(f"{key}.reduction", 0.0) > 0:
            parameters.append(Parameter(f"{key}.reduction", 0.1, 1.0, 0.6))
            parameters.append(Parameter(f"{key}.reduction_latency", 1 * US, 200 * US, 25 * US))
        parameters.append(Parameter(f"{key}.bulk_latency", 0.1 * US, 100 * US, 8 * US, extra=True))
        parameters.append(Parameter(f"{key}.eager", 0.1, 50.0, 4.0, extra=True))
    if across and outer:
        key = f"network.{outer[0]}"
        parameters += [
            Parameter(f"{key}.efficiency", 0.05, 1.0, 0.85),
            Parameter(f"{key}.latency", 0.1 * US, 200 * US, 5 * US),
            Parameter(f"{key}.entry_latency", 0.5 * US, 1000 * US, ENTRY_LATENCY),
            Parameter(f"{key}.tree_latency", 1 * US, 300 * US, TREE_LATENCY),
            Parameter(f"{key}.alone", 0.2, 1.0, 0.9, extra=True),
            Parameter(f"{key}.bulk_latency", 1 * US, 500 * US, 20 * US, extra=True),
            Parameter(f"{key}.bulk_tree_latency", 1 * US, 500 * US, 45 * US, extra=True),
            Parameter(f"{key}.eager", 0.02, 50.0, 0.4, extra=True),
            Parameter(f"{key}.chunk_latency", 1 * US, 500 * US, 15 * US, extra=True),
            Parameter(f"{key}.chunk_size", 1e3, 10e6, 50e3, extra=True),
        ]
    return tuple(parameters)


def start_of(profile: Profile, parameter: Parameter) -> float:
    """Return where the search for a parameter starts: at the profile's number if it has one."""
    value = profile.value(parameter.key)
    return value if np.isfinite(value) and parameter.low <= value <= parameter.high else parameter.start


def usual_value(profile: Profile, parameter: Parameter) -> float:
    """Return the number that a parameter keeps that is not fitted: the profile's, or what its absence means."""
    if np.isfinite(profile.value(parameter.key)):
        return profile.value(parameter.key)
    if parameter.extra:
        return 1.0 if parameter.key.endswith(".alone") else 0.0
    if parameter.key.startswith("attention."):
        default = getattr(FlashKernel(), parameter.key.rsplit(".", 1)[-1])
        return float(default) if np.isfinite(default) else parameter.start
    if parameter.key.startswith("timing."):
        default = getattr(Timing(), parameter.key.removeprefix("timing."))
        return float(default) if np.isfinite(default) else parameter.start
    return parameter.start


def with_numbers(profile: Profile, numbers: Mapping[str, float], source: str = "", date: str = "") -> Profile:
    """Return a profile with other numbers, its presets set aside: what is fitted is the profile's own timing.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> with_numbers(load_profile("h100-sxm"), {"timing.gemm_efficiency": 0.5}).value("timing.gemm_efficiency")
    0.5
    """
    new = {key: Number(value, kind_of(key), source, date, "calibrated") for key, value in numbers.items()}
    return replace(profile, numbers={**profile.numbers, **new}, default_timing=None)

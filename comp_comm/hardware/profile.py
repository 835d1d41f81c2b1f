"""A hardware profile: every number of a device with where it comes from, and how sure it is.

A profile is the content of one YAML file (see `comp_comm.configs.hardware_file`). Its numbers are kept under their
dotted key, ``network.scale-up.bandwidth`` for instance, in SI units; a blank one is None and refuses what needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, fields, replace

from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.formulas.arrays import to_float
from comp_comm.hardware.dispatch import DISPATCH_KINDS
from comp_comm.hardware.numbers import KEPT, POWER_RATIO, FlashKernel, Hardware, Tier, Timing, generic_kernel
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.structs import struct

CERTAINTIES = ("high", "medium", "low", "calibrated", "assumed", "none")
TOPOLOGIES = ("switch", "mesh", "torus")

# Kinds of the numbers in a profile by the last part of their key; "share" and "count" have no unit.
TIER_KINDS = {
    "domain": "count", "bandwidth": "bytes/s", "latency": "seconds", "efficiency": "share", "axes": "count",
    "side": "count",
    "entry_latency": "seconds", "tree_latency": "seconds",
    "reduction": "share", "reduction_latency": "seconds", "reduction_members": "count",
    "bulk_latency": "seconds", "bulk_tree_latency": "seconds", "switch_size": "bytes", "eager": "count",
    "alone": "share", "exchange_latency": "seconds", "chunk_latency": "seconds", "chunk_size": "bytes",
}  # fmt: skip
# Seconds for tiers beyond the innermost whose profile says nothing; in the innermost, collectives count single hops.
ENTRY_LATENCY, TREE_LATENCY = 13e-6, 24e-6
# And in the innermost tier: fitted on all-to-alls of seven NVIDIA systems, from A100 to GB300.
EXCHANGE_LATENCY = 5e-6
# A switch reduces in this time, for this many devices, unless the profile says otherwise.
REDUCTION_LATENCY, REDUCTION_MEMBERS = 25e-6, 8.0
TIMING_KINDS = {
    "gemm_efficiency": "share",
    "attention_efficiency": "share",
    "gemm_ramp_tokens": "count",
    "kernel_latency": "seconds",
    "memory_efficiency": "share",
    "activation_passes": "count",
    "score_passes": "count",
    "score_head_dim": "count",
    "use_tiers": "switch",
    "ring_limit": "switch",
    "network_efficiency": "share",
    "all_reduce_latency": "seconds",
    "power_ratio": "ratio",
    "sustained": "share",
    "fp8_efficiency": "share",
    "mxfp8_efficiency": "share",
    "fp8_block_efficiency": "share",
    "fp8_block_wave": "count",
    "nvfp4_efficiency": "share",
    "nvfp4_ramp_k": "count",
    "nvfp4_ramp_tiles": "count",
    "fp8_recipe": "switch",
    "fp8_transpose": "count",
    "amax_efficiency": "share",
    "cast_efficiency": "share",
    "block_cast_efficiency": "share",
    "grouped_ramp_rows": "count",
    "attention_kernel": "switch",
    "gemm_ramp_k": "count",
    "gemm_ramp_tiles": "count",
    "gemm_split_k": "count",
    "gemm_wave": "count",
    "gemm_cache": "bytes",
    "stream_efficiency": "share",
    "stream_latency": "seconds",
    "stream_row_latency": "seconds",
    "stream_reread": "share",
    "norm_kernels": "count",
    "flash_efficiency": "share",
    "flash_latency": "seconds",
    "flash_ramp_blocks": "count",
    "flash_memory_efficiency": "share",
    "flash_head_exponent": "count",
    "network_sustained": "share",
    "collective_latency": "seconds",
    "own_shard": "share",
    "vector_flops": "FLOP/s",
    "launch_latency": "seconds",
    **DISPATCH_KINDS,
}
# Kinds of the numbers of a fused attention kernel: shares are of the 16-bit peak, which fp8 may exceed.
ATTENTION_KINDS = {
    "efficiency": "ratio", "latency": "seconds", "memory_efficiency": "ratio", "ramp_keys": "count",
    "window_keys": "count", "backward_windows": "count", "ramp_blocks": "count", "head_exponent": "exponent",
    "wide_exponent": "exponent", "softmax_dim": "count", "row_latency": "seconds",
    "backward_efficiency": "ratio", "backward_ramp_keys": "count",
    "backward_head_exponent": "exponent", "backward_wide_exponent": "exponent", "power_ratio": "ratio",
}  # fmt: skip
# Kernels that a profile may have numbers of, and what they are called in fp8.
NAMED_KERNELS = tuple(kernel for kernel in AttentionKernel if kernel > AttentionKernel.UNFUSED)
FP8_KERNEL = "{}_fp8"
# Efficiency of GEMMs by recipe over that in 16 bits where a profile has none of its own: medians over H100, H200, B200,
# GB200, B300 and GB300; nvfp4 (of B200 and GB200) relative to its own peak.
FP8_EFFICIENCY, FP8_BLOCK_EFFICIENCY, NVFP4_EFFICIENCY = 0.96, 0.9, 0.75
# Numbers that fused attention kernels are made of begin so.
KERNEL_KEYS = ("attention.", "timing.attention_kernel", "timing.flash_")
BLANK = float("nan")
BASE_TIMING = "base"  # asks for the profile's own timing, whatever preset is its default


@struct
class Number:
    """A number (SI, or None where it is not known) with its source, the date it was read, and its certainty."""

    value: float | None
    kind: str
    source: str = ""
    date: str = ""
    certainty: str = ""


@struct
class Profile:
    """One device: identity, numbers by dotted key, tiers from the inside out, and named timing presets.

    ``lineage`` are the profiles it extends, nearest first; ``calibrated_on`` how many measured runs of a kind of model
    its numbers are from.
    """

    name: str
    title: str
    vendor: str
    year: int
    numbers: Mapping[str, Number]
    tiers: tuple[str, ...]
    topologies: Mapping[str, str]
    dense: bool | None = None
    devices_per_package: int = 1
    presets: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    preset_titles: Mapping[str, str] = field(default_factory=dict)
    default_timing: str | None = None
    waivers: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sha256: str = ""
    lineage: tuple[str, ...] = ()
    calibrated_on: Mapping[str, int] = field(default_factory=dict)

    def value(self, key: str, blank: float = BLANK) -> float:
        """Return the number at a dotted key, ``blank`` where the profile has none."""
        number = self.numbers.get(key)
        return blank if number is None or number.value is None else number.value

    @property
    def precisions(self) -> list[str]:
        """Number formats this profile has a peak for."""
        return [key.removeprefix("peak.") for key, n in self.numbers.items() if key.startswith("peak.") and n.value]

    def hardware(self, precision: str, timing: str | None = None) -> Hardware:
        """Return the numbers a cost model needs, in one precision and one timing preset.

        Raises ``ConfigError`` where the profile has no such peak or preset.
        """
        self.check_precision(precision)
        numbers = self._timing(self.timing_name(timing))
        return Hardware(
            peak_flops=self.value(f"peak.{precision}"),
            memory_capacity=self.value("memory.capacity"),
            memory_bandwidth=self.value("memory.bandwidth"),
            tiers=tuple(self._tier(name) for name in self.tiers),
            timing=numbers,
            attention_peak_flops=self._sixteen_bit_peak(precision),
            host_bandwidth=self.value("memory.host_bandwidth"),
            attention=self._attention(numbers, "{}"),
            fp8_attention=self._attention(numbers, FP8_KERNEL),
        )

    def renewed(self, hardware: Hardware, precision: str, keys: Collection[str]) -> Hardware:
        """Return this profile's own `hardware`, given that of a profile that differs in ``keys`` alone.

        Only what those numbers are part of is made again. They are numbers of the timing, of tiers and of kernels.

        >>> from dataclasses import asdict, replace
        >>> from comp_comm.configs.hardware_file import load_profile
        >>> one = load_profile("a100-sxm-80gb")
        >>> other = replace(one, numbers={**one.numbers, "timing.gemm_efficiency": Number(0.5, "share")})
        >>> renewed = other.renewed(one.hardware("bf16"), "bf16", ["timing.gemm_efficiency"])
        >>> asdict(renewed) == asdict(other.hardware("bf16"))
        True
        """
        if not keys:
            return hardware
        parts = {key.rpartition(".")[0] for key in keys}
        timing = self._timing(self.timing_name(None)) if "timing" in parts else hardware.timing
        tiers = tuple(self._tier(name) if f"network.{name}" in parts else tier
                      for name, tier in zip(self.tiers, hardware.tiers, strict=True))  # fmt: skip
        renewed = replace(hardware, timing=timing, tiers=tiers)
        if not any(key.startswith(KERNEL_KEYS) for key in keys):
            return renewed
        in_16_bits, in_fp8 = (self._attention(timing, name) for name in ("{}", FP8_KERNEL))
        return replace(renewed, attention=in_16_bits, fp8_attention=in_fp8)

    def _sixteen_bit_peak(self, precision: str) -> float:
        """Return the peak of what stays in 16 bits where GEMMs are in fp8 or nvfp4, else that of the precision."""
        if precision not in ("fp8", "nvfp4"):
            return self.value(f"peak.{precision}")
        return max(self.value("peak.bf16", 0.0), self.value("peak.fp16", 0.0)) or BLANK

    def _attention(self, timing: Timing, name: str) -> tuple[FlashKernel, ...]:
        """Return fused kernels by the codes of `AttentionKernel`, called ``name`` in the profile."""
        used = AttentionKernel.at(int(to_float(timing.attention_kernel)))
        usual = generic_kernel(timing) if name == "{}" else FlashKernel()
        if used in NAMED_KERNELS:
            usual = self._kernel(name.format(used.word))
        return tuple(self._kernel(name.format(kernel.word)) if kernel in NAMED_KERNELS else usual
                     for kernel in AttentionKernel)  # fmt: skip

    def _kernel(self, name: str) -> FlashKernel:
        """Return the numbers of one fused kernel, blank where the profile has none."""
        known = {part: self.value(f"attention.{name}.{part}") for part in ATTENTION_KINDS
                 if f"attention.{name}.{part}" in self.numbers}  # fmt: skip
        return FlashKernel(**known)

    def check_precision(self, precision: str) -> None:
        """Raise ``ConfigError`` where the profile has no peak of a precision."""
        if precision not in self.precisions:
            raise ConfigError(f"{self.name} has no {precision} peak ('peak.{precision}'); "
                              f"it has: {', '.join(self.precisions)}")  # fmt: skip

    def timing_name(self, asked: str | None) -> str | None:
        """Return the preset to use: the one asked for, else the profile's default (None: its own timing, 'base')."""
        if asked is None:
            return self.default_timing
        if asked == BASE_TIMING:
            return None
        if asked not in self.presets:
            has = one_of([*self.presets, BASE_TIMING])
            raise ConfigError(f"{self.name} has no timing preset '{asked}'{nearest(asked, self.presets)} ({has})")
        return asked

    def _tier(self, name: str) -> Tier:
        key = f"network.{name}"
        beyond = 0.0 if name == self.tiers[0] else 1.0

        def number(part: str, default: float) -> float:
            """Return a number of the tier: its default where it is left out, blank where it is null."""
            return self.value(f"{key}.{part}") if f"{key}.{part}" in self.numbers else default

        torus = self.topologies[name] == "torus"
        return Tier(
            domain=number("domain", float("inf")),
            bandwidth=number("bandwidth", BLANK),
            latency=number("latency", 0.0),
            efficiency=number("efficiency", 1.0),
            mesh=float(self.topologies[name] == "mesh"),
            axes=number("axes", 1.0) if torus else 1.0,
            side=number("side", float("inf")) if torus else float("inf"),
            key=key,
            entry_latency=number("entry_latency", beyond * ENTRY_LATENCY),
            tree_latency=number("tree_latency", beyond * TREE_LATENCY),
            reduction=number("reduction", 0.0),
            reduction_latency=number("reduction_latency", REDUCTION_LATENCY),
            reduction_members=number("reduction_members", REDUCTION_MEMBERS),
            bulk_latency=number("bulk_latency", 0.0),
            bulk_tree_latency=number("bulk_tree_latency", 0.0),
            switch_size=number("switch_size", 0.0),
            eager=number("eager", 0.0),
            alone=number("alone", 1.0),
            chunk_latency=number("chunk_latency", 0.0),
            chunk_size=number("chunk_size", 0.0),
            exchange_latency=number("exchange_latency", (1 - beyond) * EXCHANGE_LATENCY),
        )

    def _timing(self, preset: str | None) -> Timing:
        numbers = {key.removeprefix("timing."): n for key, n in self.numbers.items() if key.startswith("timing.")}
        numbers |= self.presets[preset] if preset else {}
        known = {name: BLANK if n.value is None else n.value for name, n in numbers.items()}
        # Attention runs as the other GEMMs do unless the profile says otherwise.
        gemm = known.get("gemm_efficiency", BLANK)
        known.setdefault("attention_efficiency", gemm)
        known.setdefault("fp8_efficiency", min(FP8_EFFICIENCY * gemm, 1.0))
        known.setdefault("mxfp8_efficiency", known["fp8_efficiency"])
        known.setdefault("fp8_block_efficiency", min(FP8_BLOCK_EFFICIENCY * gemm, 1.0))
        known.setdefault("nvfp4_efficiency", min(NVFP4_EFFICIENCY * gemm, 1.0))
        known.setdefault("sustained", KEPT / known.get("power_ratio", POWER_RATIO))
        return Timing(**{item.name: known[item.name] for item in fields(Timing) if item.name in known})

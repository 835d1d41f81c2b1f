"""The machine of a run: the hardware profile of its device, with the network and the domain that the run says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError, nearest
from comp_comm.hardware.profile import Number, Profile
from comp_comm.validation.table import MeasuredRun

# Words of a device's name, and its profile; the first that fits.
DEVICES = (
    (r"gb300", "gb300-nvl72"), (r"gb200", "gb200-nvl72"), (r"b300", "b300-sxm"), (r"b200", "b200-sxm"),
    (r"alps", "alps"), (r"gh200", "gh200"), (r"h200", "h200-sxm"), (r"h800", "h800-sxm"), (r"l40s", "l40s"),
    (r"h100.*96", "h100-96gb"), (r"h100", "h100-sxm"),
    (r"a100.*40", "a100-sxm-40gb"), (r"a100", "a100-sxm-80gb"),
    (r"v100.*32", "v100-sxm-32gb"), (r"v100", "v100-sxm-16gb"), (r"p100", "p100-sxm"),
    (r"mi250", "mi250x"), (r"mi(100|210|300x|325x|355x|455x|50|60)\b", ""),
    (r"gaudi ?-?([23])", ""), (r"tpu ?-?v([3-6])([ep]?)", ""), (r"trillium", "tpu-v6e"),
    (r"tpu ?-?v?7|ironwood", "tpu-v7"), (r"trainium ?([123])", ""),
)  # fmt: skip
# Adapters of a node, in words of notes: their Gbit/s together.
NETWORKS = (
    r"(?P<many>\d+)x ?(?:Omni-Path )?(?P<each>\d+) ?Gb", r"(?P<all>\d+) ?Gbps (?:per node|node-node)",
    r"(?P<all>\d+) Gb/s (?:a node|inter-node)", r"RoCE (?P<each>\d+)Gb/s per GPU", r"(?P<all>\d+)Gb/s IB\b",
)  # fmt: skip
# What NCCL reaches of the line rate of an Omni-Path adapter, over the 0.9 that profiles have of InfiniBand: rings of 32
# A100 left their nodes by one of four adapters of 100 Gb/s, and had 40.5 Gb/s of bus bandwidth (bigscience,
# experiments/bandwidth/all_reduce_bench-a100-n4.txt, NCCL 2.10 over verbs: no plugin of the vendor).
OMNI_PATH = 0.405 / 0.9
# Boards whose clocks, memory and links are not those of the module of the same name.
OTHER_BOARD = r"pcie|nvl(?!ink)"
GIVE = "give one in the column 'machine' (a name of 'compcomm hardware list', or a path)"
NODE = 8  # devices of a node, where a run does not say
RACK = 16  # a domain of more devices than this is a rack's, whatever a host holds of it
ADAPTERS = "network.scale-out.bandwidth"
AS_SAID = "as the run says"


@dataclass(frozen=True)
class RunMachine:
    """A profile as a run's machine has it: ``reference``, and the numbers and the domain that differ."""

    reference: str
    beside: str = ""
    numbers: tuple[tuple[str, float], ...] = ()
    domain: int | None = None

    def profile(self) -> Profile:
        """Return the profile. Raises ``ConfigError`` where there is none."""
        return _profile(self)

    @property
    def fields(self) -> dict[str, int]:
        """What differs and is a field of a study."""
        return {"nvs": self.domain} if self.domain else {}


@cache
def _profile(machine: RunMachine) -> Profile:
    profile = load_profile(machine.reference, machine.beside)
    known: dict[str, Number] = {}
    for key, value in machine.numbers:
        number = profile.numbers.get(key, Number(None, "share", AS_SAID))
        known[key] = replace(number, value=value, source=AS_SAID, certainty="high")
    return replace(profile, numbers={**profile.numbers, **known})


def device_profile(name: str) -> str:
    """Return the profile of a device by what a table calls it. Raises ``ValueError`` for one that has none.

    >>> device_profile("H100-80GB-SXM"), device_profile("MI300X"), device_profile("TPU v5p"), device_profile("B300")
    ('h100-sxm', 'mi300x', 'tpu-v5p', 'b300-sxm')
    """
    known = catalogue.names("hardware")
    lower = name.lower()
    if lower in known:
        return lower
    if "/" in name or lower.endswith((".yaml", ".yml")):
        return name
    for pattern, profile in DEVICES:
        match = re.search(pattern, lower)
        if match:
            reference = profile or re.sub(r"(gaudi|trainium) ?-?", r"\1", re.sub(r"tpu ?-?", "tpu-", match[0]))
            if "sxm" in reference and re.search(OTHER_BOARD, lower):
                raise ValueError(f"no profile for '{name}', another board than {reference}: {GIVE}")
            if reference in known:
                return reference
    guess = nearest(lower, known) or nearest(lower, catalogue.short_names())
    raise ValueError(f"no profile for '{name}'{guess or ':'} {GIVE.capitalize() if guess else GIVE}")


def is_of_device(machine: Profile, profile: Profile) -> bool:
    """Return whether the machine of a run has the device of a profile, as far as profiles say.

    It is that profile, one that either extends outside the catalogue, or a cluster of the catalogue and its device: of
    the two one extends the other, with the same peaks and memory.

    >>> is_of_device(load_profile("gh200"), load_profile("alps"))
    True
    >>> is_of_device(load_profile("h100-sxm"), load_profile("h200-sxm"))
    False
    """
    own, other = _shipped_device(machine), _shipped_device(profile)
    if own == other:
        return True
    related = own in profile.lineage or other in machine.lineage
    return related and _physical(load_profile(own)) == _physical(load_profile(other))


def _shipped_device(profile: Profile) -> str:
    """Return the catalogue's profile that one is, or extends; its own name where there is none."""
    known = catalogue.names("hardware")
    return next((name for name in (profile.name, *profile.lineage) if name in known), profile.name)


def _physical(profile: Profile) -> dict[str, float | None]:
    inner = f"network.{profile.tiers[0]}.bandwidth"
    return {key: number.value for key, number in profile.numbers.items()
            if key.startswith(("peak.", "memory.")) or key == inner}  # fmt: skip


def check_devices(machines: Iterable[tuple[MeasuredRun, RunMachine]], profile: Profile) -> None:
    """Raise ``ConfigError`` with the line of every run on another device than a profile's, and what to do."""
    problems = []
    for run, machine in machines:
        if not is_of_device(machine.profile(), profile):
            column = "machine" if run["machine"] else "gpu"
            what = f"'{run[column]}' is {machine.profile().name}, another device than {profile.name} (--extends)"
            advice = (f"give --extends {machine.reference}, remove the row, or write {profile.name} there if that is "
                      "what it ran on")  # fmt: skip
            problems.append(run.problem(column, f"{what}: {advice}"))
    if problems:
        raise ConfigError(problems)


def node_adapters(run: MeasuredRun) -> float | None:
    """Return the bytes/s of a device's share of its node's adapters, None where the run does not say.

    Of Omni-Path's it is what NCCL reaches, as one of InfiniBand would have it.
    """
    devices = run.number("gpus_per_node") or NODE
    words = f"{run['notes']}; {run['software_other']}; {run['source']}"
    stated = run.number("node_gbit_s")
    if stated is None:
        stated = words_of_network(words)
    reached = OMNI_PATH if re.search("omni-?path", words, re.IGNORECASE) else 1.0
    return None if stated is None else stated * reached * 1e9 / 8 / devices


def words_of_network(text: str) -> float | None:
    """Return the Gbit/s of a node's adapters that a text says.

    >>> words_of_network("4x Omni-Path 100Gb per node"), words_of_network("1600 Gbps node-node"), words_of_network("")
    (400.0, 1600.0, None)
    """
    for pattern in NETWORKS:
        match = re.search(pattern, text)
        if match:
            parts = match.groupdict()
            return float(parts.get("all") or 0) or float(parts["each"]) * float(parts.get("many") or NODE)
    return None


def machine_of(run: MeasuredRun) -> RunMachine:
    """Return the machine of a run. Raises ``ValueError`` or ``ConfigError`` where it has no profile."""
    own = run["machine"]
    try:
        reference = own or device_profile(run["gpu"])
        load_profile(reference, run.file)
    except (ValueError, ConfigError) as error:
        raise ValueError(f"{run.name('machine' if own else 'gpu')}: {error}") from None
    is_file = "/" in reference or reference.endswith((".yaml", ".yml"))
    machine = RunMachine(reference, run.file if is_file else "")
    adapters = None if own else node_adapters(run)
    if adapters is not None and machine.profile().value(ADAPTERS) != adapters:
        machine = replace(machine, numbers=((ADAPTERS, adapters),))
    profile = machine.profile()
    devices = run.number("gpus_per_node")
    inner = profile.value(f"network.{profile.tiers[0]}.domain")
    differs = not own and devices is not None and profile.vendor == "nvidia" and inner <= RACK and devices != inner
    return replace(machine, domain=int(devices)) if differs and devices else machine


__all__ = ["RunMachine", "check_devices", "device_profile", "machine_of", "node_adapters", "words_of_network"]

"""How sure a step is: factors on predicted seconds that held four of five measured runs of other groups.

The table is made by ``python tests/validation_page.py`` from the published runs, each group judged by the others.
"""

from __future__ import annotations

import csv
from functools import cache

from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record
from comp_comm.structs import struct

TABLE = ("validation", "intervals.csv")
SHARE = 0.8
LAYOUTS = ("dense", "layouts")  # of pairs of layouts; no mixture was measured in enough of them
WORDS = {"dense": "runs of dense models", "moe": "runs of mixtures of experts"}
# What tells devices apart of which one's profile extends the other's: an H200 is not an H100, a B300 not a B200.
SAME_DEVICE = ("peak.fp16", "memory.bandwidth", "memory.capacity")
MACHINES = {
    "published": "on devices with published runs, on machines that were not calibrated",
    "unknown": "on devices whose runs the model was not made with",
    "calibrated": "on machines that were calibrated on a measured step of their own",
}


@struct
class StepInterval:
    """Factors on predicted seconds, and of which runs they are.

    ``later`` runs on such devices were found when the interval had been, of stacks and networks that are not in it, and
    ``later_held`` of them were within.
    """

    arch: str
    machine: str
    low: float
    high: float
    devices: tuple[str, ...] = ()
    later: int = 0
    later_held: int = 0

    def record(self, seconds: float, profile: str = "") -> Record:
        """Return the seconds between which a step is, with which share of which runs was within the like.

        ``shown_by`` is the command that lists such runs: those of the ``profile``'s device where there are any.
        """
        words = f"{WORDS[self.arch]} {MACHINES[self.machine]}"
        device = f" --gpu {profile.split('-')[0]}" if profile in self.devices else ""
        later = " --later" if self.machine == "unknown" else ""
        return {"share": SHARE, "low_s": self.low * seconds, "high_s": self.high * seconds, "machine": self.machine,
                "words": words, "shown_by": f"compcomm validate{later or device}",
                "later": self.later, "later_held": self.later_held}  # fmt: skip


@cache
def known_intervals() -> dict[tuple[str, str], StepInterval]:
    """Return the shipped table, by kind of model and of machine.

    >>> sorted(known_intervals())[0]
    ('dense', 'calibrated')
    """
    with catalogue.root().joinpath(*TABLE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    known = (StepInterval(row["arch"], row["machine"], float(row["low"]), float(row["high"]),
                          tuple(row["devices"].split()), int(row["later"]), int(row["later_held"]))
             for row in rows)  # fmt: skip
    return {(each.arch, each.machine): each for each in known}


def layouts_apart() -> float:
    """Return the share by which the predicted steps of two layouts of one model on one machine differ where four of
    five measured pairs are told apart.

    >>> 0.05 < layouts_apart() < 0.2
    True
    """
    return known_intervals()[LAYOUTS].high - 1


def step_interval(profile: Profile, arch: str) -> StepInterval | None:
    """Return the interval of a step of dense models or mixtures (``"dense"``, ``"moe"``) on a profile.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> step_interval(load_profile("h100-sxm"), "dense").machine, step_interval(load_profile("b300-sxm"), "moe").machine
    ('published', 'unknown')
    """
    known = known_intervals()
    published = known.get((arch, "published"))
    if profile.calibrated_on.get(arch):
        machine = "calibrated"
    else:
        seen = published is not None and any(has_device(profile, name) for name in published.devices)
        machine = "published" if seen else "unknown"
    return known.get((arch, machine))


def has_device(profile: Profile, device: str) -> bool:
    """Return whether a profile is that of a device, or of a machine of such devices: not one of another device that
    takes what it shares with it."""
    if profile.name == device or device not in profile.lineage:
        return profile.name == device
    kin = load_profile(device)
    return all(abs(profile.value(key) / kin.value(key) - 1) < 0.05 for key in SAME_DEVICE)

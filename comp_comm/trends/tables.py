"""The shipped tables: devices with their predecessors, models as they were trained, measured recipes."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Array, Mask
from comp_comm.hardware.profile import Profile
from comp_comm.hardware.ratio import scale_out_key, scale_up_key, sixteen_bit_peak
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.validation.table import MeasuredRun, read_runs

FOLDER = "trends"
TERA = 1e12
# What a source has to say of a layout before a step of it can be evaluated; the rest has its default.
LAYOUT = ("n_gpus", "tp", "pp", "zero_stage", "micro_batch", "global_batch", "seq_len", "precision")
RECIPES = "measured recipes of NVIDIA, since few that trained on its newest devices published their layout"


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in ``configs/trends``, as text.

    >>> read_table("devices.csv")[1]["after"]
    'p100-sxm'
    """
    with (catalogue.root() / FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@struct
class Device:
    """A device of the table: its profile, a package as it is sold; ``after`` is its predecessor's reference."""

    reference: str
    profile: Profile
    after: str
    fp4: float

    def number(self, key: str) -> float:
        """Return a number of the package (an MI250X is two devices of the profile), NaN where it is blank."""
        return self.profile.devices_per_package * self.profile.value(key)

    @cached_property
    def quantities(self) -> dict[str, float]:
        """Numbers of a package, by the names of `QUANTITIES`; NaN where a source is silent."""
        profile, sixteen = self.profile, self.profile.devices_per_package * sixteen_bit_peak(self.profile)
        peaks = [sixteen, self.number("peak.fp8"), self.number("peak.nvfp4"), self.fp4]
        up = self.number(scale_up_key(profile))
        return {
            "flops_16_bit": sixteen,
            "flops_8_bit": float(np.nanmax(peaks[:2])),
            "flops_best": float(np.nanmax(peaks)),
            "memory_capacity": self.number("memory.capacity"),
            "memory_bandwidth": self.number("memory.bandwidth"),
            "scale_up": up,
            "scale_out": self.number(scale_out_key(profile)),
            "domain": profile.value(f"network.{profile.tiers[0]}.domain"),
            "scale_up_of_domain": up * profile.value(f"network.{profile.tiers[0]}.domain"),
        }


QUANTITIES = {
    "flops_16_bit": "16-bit FLOP/s", "flops_best": "FLOP/s in the fastest format", "memory_capacity": "memory",
    "memory_bandwidth": "memory bandwidth", "scale_up": "scale-up bandwidth", "scale_out": "scale-out bandwidth",
    "scale_up_of_domain": "scale-up bandwidth of a domain",
}  # fmt: skip


def devices() -> list[Device]:
    """Return the devices of the table, in its order: by vendor, older ones first.

    >>> [each.profile.name for each in devices()][:3]
    ['p100-sxm', 'v100-sxm-32gb', 'a100-sxm-80gb']
    """
    return [Device(row["profile"], load_profile(row["profile"]), row["after"], TERA * float(row["fp4_tflops"] or "nan"))
            for row in read_table("devices.csv")]  # fmt: skip


@dataclass(frozen=True)
class Models:
    """Rows of the table of trained models, and what they state as arrays (NaN where they do not)."""

    runs: tuple[MeasuredRun, ...]

    @classmethod
    def read(cls) -> Models:
        """Return the models of the shipped table, in the order of their dates.

        >>> len(Models.read().runs)
        98
        """
        runs = read_runs(catalogue.root() / FOLDER / "models.csv")
        return cls(tuple(sorted(runs, key=lambda run: run["date"])))

    @classmethod
    def recipes(cls) -> Models:
        """Return measured recipes on newer devices, of the table of runs, with the dates they were measured."""
        dates = {row["run_id"]: row["date"] for row in read_table("recipes.csv")}
        runs = [MeasuredRun(run.run_id, {**run.cells, "date": dates[run.run_id]}, run.file, run.line)
                for run in read_runs() if run.run_id in dates]  # fmt: skip
        return cls(tuple(sorted(runs, key=lambda run: run["date"])))

    def where(self, keep: Callable[[MeasuredRun], bool]) -> Models:
        """Return those that ``keep``."""
        return Models(tuple(run for run in self.runs if keep(run)))

    def not_before(self, year: float) -> Mask:
        """Return which were published since then. Raises ``ConfigError`` where none was."""
        keep: Mask = self.years >= year
        if not keep.any():
            raise ConfigError(f"--since {year:g}: no model of the table is as new; the last is of "
                              f"{max(self.words('date'))}")  # fmt: skip
        return keep

    @property
    def with_layout(self) -> Models:
        """Those whose layout is stated, or was completed by what is named in their column ``not_stated``."""
        return self.where(lambda run: all(run[name] for name in LAYOUT))

    def numbers(self, column: str) -> Array:
        """Return a column of numbers, NaN where it is not stated."""
        return np.asarray([run.number(column) or math.nan for run in self.runs])

    @property
    def years(self) -> Array:
        """Dates in years."""
        return np.asarray([year_of(run["date"]) for run in self.runs])

    def words(self, column: str) -> list[str]:
        """Return a column of words."""
        return [run[column] for run in self.runs]

    def __add__(self, other: Models) -> Models:
        return Models((*self.runs, *other.runs))


def year_of(date: str) -> float:
    """Return a month as a year with a fraction, its middle.

    >>> year_of("2020-07")
    2020.5416666666667
    """
    year, month = date.split("-")[:2]
    return int(year) + (int(month) - 0.5) / 12


def median(values: Sequence[float] | Array) -> float:
    """Return the median of those values that are numbers, NaN where none is."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return float(np.median(known)) if known.size else math.nan


__all__ = ["LAYOUT", "QUANTITIES", "RECIPES", "Device", "Models", "devices", "median", "read_table", "year_of"]

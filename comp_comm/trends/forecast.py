"""Communication's share in years to come: devices drawn from the trends, and the best layout of a study on each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study, load_study
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.formulas.arrays import Array
from comp_comm.formulas.growth import Growth
from comp_comm.hardware.profile import Number, Profile
from comp_comm.records import Record, Records
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.result import swept
from comp_comm.trends.growth import device_fits

STUDIES = tuple(f"trends/forecast-{name}" for name in ("405b", "deepseek-v3", "kimi-k2"))
YEAR, DRAWS, SEED = 2030, 200, 1
MOST_DRAWS, MOST_YEARS = 5000, 20
# What grows, and where a profile has it.
GROWING = ("flops", "memory_capacity", "memory_bandwidth", "scale_up", "scale_out")
COLUMNS = ("step_s", "visible_comm_fraction", "mfu")
VENDOR = "nvidia"
HIGH = 0.4  # what the paper foresaw as the least
LOW_END, HIGH_END = 10, 90  # per cent of the draws below the ends of an interval of 80 %
NOTES = (
    "growth a year is drawn from the fits of NVIDIA's devices of 2017 to 2026, each quantity by itself, and so is how "
    "far a device lies from its trend",
    "FLOP/s grow at a rate drawn between those of 16 bit (formats end) and of the fastest format (formats go on)",
    "each device runs the fastest layout of the study on it; what can overlap is given by the study",
)


@dataclass(frozen=True)
class Assumptions:
    """What a forecast assumes: its year, draws, seed, and growth a year that is given and not drawn."""

    year: int = YEAR
    draws: int = DRAWS
    seed: int = SEED
    growth: tuple[tuple[str, float], ...] = ()

    def check(self, base: Profile) -> None:
        """Raise ``ConfigError`` for what no forecast can be made of."""
        if not base.year < self.year <= base.year + MOST_YEARS:
            raise ConfigError(f"--year: must be from {base.year + 1} to {base.year + MOST_YEARS}, as {base.name} is of "
                              f"{base.year}; not {self.year}")  # fmt: skip
        if not 2 <= self.draws <= MOST_DRAWS:
            raise ConfigError(f"--draws: must be from 2 to {MOST_DRAWS:,}, not {self.draws}")
        for name, factor in self.growth:
            if name not in GROWING:
                raise ConfigError(f"--growth: '{name}' does not grow here{nearest(name, GROWING)} ({one_of(GROWING)})")
            if not 0 < factor < 10:
                raise ConfigError(f"--growth {name}: must be a factor a year above 0 and below 10, not {factor:g}")


def drawn_factors(assumed: Assumptions, years: float) -> dict[str, Array]:
    """Return by how much each quantity grew in so many years, a number a draw.

    >>> factors = drawn_factors(Assumptions(draws=5, growth=(("scale_up", 2.0),)), 3)
    >>> factors["scale_up"].tolist()
    [8.0, 8.0, 8.0, 8.0, 8.0]
    """
    random, fits = np.random.default_rng(assumed.seed), device_fits()
    factors = {}
    for name in GROWING:
        drawn = random.standard_normal((2, assumed.draws))
        between = random.uniform(size=assumed.draws)
        given = dict(assumed.growth).get(name)
        if given is not None:
            factors[name] = np.full(assumed.draws, given**years)
            continue
        ends = [fits[VENDOR, key] for key in (("flops_16_bit", "flops_best") if name == "flops" else (name, name))]
        rate, error, scatter = (_between(ends, of, between) for of in ("factor", "error", "scatter"))
        factors[name] = np.exp((np.log(rate) + error * drawn[0]) * years + scatter * drawn[1])
    return factors


def _between(fits: Sequence[Growth], name: str, share: Array) -> Array:
    """Return a number between those of two fits; growth between their logarithms."""
    low, high = (getattr(fit, name) for fit in fits)
    return np.exp((1 - share) * math.log(low) + share * math.log(high))


def grown(base: Profile, name: str, factors: Mapping[str, float], year: int) -> Profile:
    """Return a device to come: one of today with its numbers multiplied.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> grown(load_profile("h100-sxm"), "later", {"flops": 2.0}, 2030).value("peak.fp8")
    3957800000000000.0
    """
    keys = {key: "flops" for key in base.numbers if key.startswith("peak.") or key == "timing.vector_flops"}
    keys |= {f"memory.{part}": f"memory_{part}" for part in ("capacity", "bandwidth")}
    keys |= {f"network.{tier}.bandwidth": "scale_out" if place else "scale_up" for place, tier in enumerate(base.tiers)}
    numbers = dict(base.numbers)
    for key, what in keys.items():
        numbers[key] = _times(base.numbers[key], factors.get(what, 1.0))
    return replace(base, name=name, title=f"{base.title} grown to {year}", year=year, numbers=numbers)


def _times(number: Number, factor: float) -> Number:
    return number if number.value is None else replace(number, value=number.value * factor, certainty="assumed")


@dataclass(frozen=True)
class Forecast:
    """A study's forecast: arrays of draws by what overlaps (``labels``), the base device first of all."""

    title: str
    base: str
    labels: tuple[str, ...]
    best: Mapping[str, Array]  # column: (labels, draws)
    today: Mapping[str, Array]  # column: (labels,)

    def record(self, label: int) -> Record:
        """Return the interval of one way to overlap."""
        shares = self.best["visible_comm_fraction"][label]
        fits = ~np.isnan(shares)
        known = shares[fits]
        if not known.size:
            raise ConfigError(f"{self.title}: no layout fits any device that was drawn")
        low, middle, high = np.percentile(known, [LOW_END, 50, HIGH_END]).tolist()
        return {
            "study": self.title, "overlap": self.labels[label],
            "today_fraction": _plain(self.today["visible_comm_fraction"][label]), "low_fraction": low,
            "median_fraction": middle, "high_fraction": high, "above_40_fraction": float((known > HIGH).mean()),
            "mfu": float(np.median(self.best["mfu"][label][fits])), "draws": int(known.size),
        }  # fmt: skip


def _plain(number: float) -> float | None:
    return float(number) if number == number else None


def forecast(study: str | Study, assumed: Assumptions = Assumptions()) -> Forecast:
    """Return what the layouts of a study come to on devices drawn from the trends.

    Parameters
    ----------
    study : str or Study
        Layouts as axes, on one device, from which the forecast starts; an axis of overlaps (``overlap_*``) is kept.
    assumed : Assumptions
        The year, how many devices are drawn, and what is not drawn.

    Raises
    ------
    ConfigError
        For a study that is wrong, or with several devices, and for assumptions that are.

    Examples
    --------
    >>> made = forecast("trends/forecast-405b", Assumptions(draws=10))
    >>> made.record(0)["median_fraction"] > made.record(1)["median_fraction"]
    True
    """
    asked = load_study(study) if isinstance(study, str) else study
    plan = make_plan(asked)
    if len(plan.grid.profiles) != 1:
        raise ConfigError(f"{asked.title}: a forecast starts from one device, not {len(plan.grid.profiles)}")
    (base,) = plan.grid.profiles
    assumed.check(base)
    factors = drawn_factors(assumed, assumed.year - base.year)
    drawn = [grown(base, f"draw {i}", {name: float(values[i]) for name, values in factors.items()}, assumed.year)
             for i in range(assumed.draws)]  # fmt: skip
    return _best(asked.title, plan, (base, *drawn))


def _best(title: str, plan: Plan, profiles: tuple[Profile, ...]) -> Forecast:
    """Return the fastest layout on each device and for each way to overlap."""
    kept = [i for i, axis in enumerate(plan.grid.axes) if all(name.startswith("overlap_") for name in axis.values)]
    axes = (Axis({HARDWARE: tuple(profile.name for profile in profiles)}), *plan.grid.axes)
    grid = replace(plan.grid, profiles=profiles, axes=axes)
    columns = swept(replace(plan, grid=grid, where=()), COLUMNS).columns
    shape = grid.shape
    order = (*(1 + i for i in kept), 0, *(i for i in range(1, len(shape)) if i - 1 not in kept))
    ways = math.prod(shape[1 + i] for i in kept)
    tables = {name: values.reshape(shape).transpose(order).reshape(ways, len(profiles), -1)
              for name, values in columns.items()}  # fmt: skip
    seconds = np.where(np.isnan(tables["step_s"]), np.inf, tables["step_s"])
    place = seconds.argmin(axis=2)
    best = {name: np.take_along_axis(table, place[:, :, None], 2)[:, :, 0] for name, table in tables.items()}
    return Forecast(title, profiles[0].name, _labels(plan, kept), {n: v[:, 1:] for n, v in best.items()},
                    {n: v[:, 0] for n, v in best.items()})  # fmt: skip


def _labels(plan: Plan, kept: Sequence[int]) -> tuple[str, ...]:
    """Return what overlaps, in words, for each value of the axes of overlaps."""
    if not kept:
        return ("as the study says",)
    (axis,) = (plan.grid.axes[i] for i in kept[:1])
    rows = list(zip(*axis.values.values(), strict=True))
    words = {frozenset({"off"}): "nothing overlapped", frozenset({"on"}): "all overlapped that can"}
    return tuple(words.get(frozenset(map(str, row)), ", ".join(map(str, row))) for row in rows)


def forecast_rows(studies: Sequence[str] = STUDIES, assumed: Assumptions = Assumptions()) -> Records:
    """Return the interval of each study and way to overlap."""
    made = [forecast(study, assumed) for study in studies]
    return [one.record(label) for one in made for label in range(len(one.labels))]


__all__ = ["Assumptions", "Forecast", "drawn_factors", "forecast", "forecast_rows", "grown"]

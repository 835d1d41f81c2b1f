"""How fast devices and models grew: factors a year with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comp_comm.formulas.arrays import Array
from comp_comm.formulas.growth import Growth, yearly_growth
from comp_comm.formulas.scaling import memory_demand
from comp_comm.records import Record, Records
from comp_comm.trends.tables import QUANTITIES, Device, Models, devices

VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "google": "Google", "aws": "AWS", "intel": "Intel"}
ALL = "all"
FITTED = (2017, 2026)  # from the first tensor cores to what is in production
ERAS = (("2018 to 2022", 2018, 2023), ("2023 to 2026", 2023, 2027))
# What a trained model is asked: column, and what it is called.
SHAPES = {
    "hidden": "H", "seq_len": "SL", "demand": "H x SL", "published_parameters": "parameters",
    "published_active": "parameters a token uses", "batch_tokens": "tokens of a batch", "tp": "TP",
    "micro_batch": "B, sequences of a micro-batch",
}  # fmt: skip


def growth_record(of: str, what: str, fit: Growth) -> Record:
    """Return a fit as a row; None where numbers are too few for an interval."""
    plain = {name: None if value != value else float(value) for name, value in fit._asdict().items()}
    return {"of": of, "quantity": what, "a_year": plain["factor"], "low": plain["low"], "high": plain["high"],
            "n": fit.members}  # fmt: skip


def device_fits(listed: Sequence[Device] | None = None) -> dict[tuple[str, str], Growth]:
    """Return the fit of every quantity, by vendor and of all devices together, of the years `FITTED`.

    >>> fits = device_fits()
    >>> round(fits["nvidia", "flops_16_bit"].factor, 2)
    1.45
    """
    first, last = FITTED
    listed = [each for each in (devices() if listed is None else listed) if first <= each.profile.year <= last]
    years = np.asarray([each.profile.year for each in listed], np.float64)
    of_vendor = {name: np.asarray([each.profile.vendor == name for each in listed]) for name in VENDORS}
    chosen = {**of_vendor, ALL: np.ones(len(listed), bool)}
    fits: dict[tuple[str, str], Growth] = {}
    for name in QUANTITIES:
        numbers = np.asarray([each.quantities[name] for each in listed])
        fits |= {(vendor, name): yearly_growth(years[mask], numbers[mask]) for vendor, mask in chosen.items()}
    return fits


def device_growth() -> Records:
    """Return the growth of every quantity of devices, a row for each vendor and quantity that has one.

    >>> rows = device_growth()
    >>> {row["of"] for row in rows} == {*VENDORS.values(), "all vendors"}
    True
    """
    return [growth_record(VENDORS.get(vendor, "all vendors"), QUANTITIES[name], fit)
            for (vendor, name), fit in sorted(device_fits().items(), key=_order) if fit.members > 1]  # fmt: skip


def _order(item: tuple[tuple[str, str], Growth]) -> tuple[int, int]:
    vendor, name = item[0]
    return [*VENDORS, ALL].index(vendor), list(QUANTITIES).index(name)


def shapes(models: Models) -> dict[str, Array]:
    """Return what `SHAPES` names of models, NaN where it is not stated."""
    hidden, seq_len = models.numbers("hidden"), models.numbers("seq_len")
    derived = {"demand": memory_demand(hidden, seq_len), "batch_tokens": models.numbers("global_batch") * seq_len}
    return {name: derived[name] if name in derived else models.numbers(name) for name in SHAPES}


def model_growth(models: Models | None = None) -> Records:
    """Return the growth of every dimension of trained models, in two eras.

    >>> rows = {(row["of"], row["quantity"]): row["a_year"] for row in model_growth()}
    >>> rows["2018 to 2022", "H"] > 1.5, rows["2023 to 2026", "H"] < 1
    (True, True)
    """
    models = Models.read() if models is None else models
    known, years = shapes(models), models.years
    eras = [(era, (years >= start) & (years < end)) for era, start, end in ERAS]
    return [growth_record(era, words, yearly_growth(years[mask], known[name][mask]))
            for era, mask in eras for name, words in SHAPES.items()]  # fmt: skip


__all__ = ["ALL", "FITTED", "SHAPES", "VENDORS", "device_fits", "device_growth", "model_growth", "shapes"]

"""What devices were and will be: growth a year, generations, one model on all of them, wider TP, a forecast."""

from __future__ import annotations

from functools import cache

from comp_comm.configs.study import Study, load_study
from comp_comm.records import Record
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import sweep
from comp_comm.trends.forecast import NOTES, forecast
from comp_comm.trends.generations import STATED, band, generations
from comp_comm.trends.growth import device_growth, model_growth
from comp_comm.trends.part import Part, PartSettings

FIXED_LAYOUT, WIDE_TP = "trends/fixed-layout", "trends/wide-tp"
STUDY_COLUMNS = ("step_s", "visible_comm_fraction", "serialized_comm_fraction", "mfu")


def growth_part(asked: PartSettings) -> Part:
    """Return growth a year of devices and of models."""
    return Part("growth", "Growth a year, with 95 % intervals", [*device_growth(), *model_growth()],
                ("of", "quantity", "a_year", "low", "high", "n"),
                ("devices of 2017 to 2026, a package each; models of the table by the month they were published",
                 "AWS and Intel have few devices, and Google's reach outwards is not published"))  # fmt: skip


def generations_part(asked: PartSettings) -> Part:
    """Return the flop-vs-bw of every device over its predecessor."""
    rows = generations()
    low, high = STATED
    said = []
    for column in ("scale_up_16_bit", "scale_up_fastest_format", "scale_out_16_bit", "scale_out_fastest_format"):
        count, of, middle = band(rows, column)
        recent = band(rows, column, since=2023)[2]
        said.append(f"{column}: {count} of {of} between {low:g} and {high:g}, median {middle:.2f}, of those since 2023 "
                    f"{recent:.2f}")  # fmt: skip
    shown = ("vendor", "year", "old", "new", "announced", "scale_up_16_bit", "scale_up_fastest_format",
             "scale_out_16_bit", "scale_out_fastest_format")  # fmt: skip
    return Part("generations", "flop-vs-bw: how much more than its links a device's FLOP/s grew", rows, shown,
                tuple(said))  # fmt: skip


@cache
def fixed_layout_part(asked: PartSettings) -> Part:
    """Return one model in one layout on devices of 2020 to 2027."""
    return _study_part("fixed-layout", load_study(FIXED_LAYOUT), ("hardware", "precision"),
                       ("nothing overlaps: what is visible is all communication; blank lacks the format",))  # fmt: skip


@cache
def wide_tp_part(asked: PartSettings) -> Part:
    """Return one model with TP as wide as the paper foresaw."""
    return _study_part("wide-tp", load_study(WIDE_TP), ("hardware", "tp", "pp"), (
        "TP x PP is 128 throughout; data parallelism overlaps, tensor parallelism does not",))  # fmt: skip


def _study_part(name: str, study: Study, inputs: tuple[str, ...], notes: tuple[str, ...]) -> Part:
    columns = (*inputs, *STUDY_COLUMNS, "feasible", "reason")
    result = sweep(study, columns=columns)
    extra: Record = {"meta": meta(make_plan(study))}
    return Part(name, study.title, result.to_records(), (*inputs, *STUDY_COLUMNS), notes, extra)


def forecast_part(asked: PartSettings) -> Part:
    """Return the share that studies come to on devices drawn from the trends."""
    made = [forecast(study, asked.assumed) for study in asked.studies]
    rows = [one.record(label) for one in made for label in range(len(one.labels))]
    shown = ("study", "overlap", "today_fraction", "low_fraction", "median_fraction", "high_fraction",
             "above_40_fraction", "mfu")  # fmt: skip
    of = ", ".join(dict.fromkeys(one.base for one in made))
    growth = ", ".join(f"{name} {factor:g} a year" for name, factor in asked.assumed.growth)
    said = (f"today is {of}; low and high hold 80 % of {asked.assumed.draws} devices drawn (seed {asked.assumed.seed})",
            *([f"given, not drawn: {growth}"] if growth else []), *NOTES)  # fmt: skip
    return Part("forecast", f"Visible communication in {asked.assumed.year}, from the trends", rows, shown, said,
                {"draws": {f"{one.title}|{label}": one.best["visible_comm_fraction"][i]
                           for one in made for i, label in enumerate(one.labels)}})  # fmt: skip


__all__ = ["fixed_layout_part", "forecast_part", "generations_part", "growth_part", "wide_tp_part"]

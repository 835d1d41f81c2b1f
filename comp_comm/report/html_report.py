"""A study as one page: its answer, pictures, assumptions, and where every number of its hardware is from."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from comp_comm.configs.study import Study, study_from
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import AnyArray
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record, Records
from comp_comm.report import explain_table, page_parts, picture, views
from comp_comm.report.page_parts import DIGITS, Section
from comp_comm.report.plot import draw_plot
from comp_comm.report.provenance import number_rows
from comp_comm.report.stacks import memory_stacks, step_stacks
from comp_comm.report.stacks_plot import draw_stacks
from comp_comm.report.table import setup_line
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.plan_notes import notes
from comp_comm.sweeps.point import explain, explained
from comp_comm.sweeps.result import records, stream_rows, swept

MOST_ROWS, MOST_SLICES = 5000, 10_000
EXPLORED: Record = {
    "hidden": ["1K", "2K", "4K", "8K", "16K", "32K", "64K"], "seq_len": ["1K", "2K", "4K", "8K", "16K", "32K"],
    "micro_batch": [1, 2, 4, 8], "tp": [1, 2, 4, 8, 16, 32, 64, 128, 256], "flop_vs_bw": [1, 2, 4, 8],
}  # fmt: skip
START = {"hidden": 3, "seq_len": 2, "micro_batch": 0, "tp": 3, "flop_vs_bw": 0}
SHARES = {"serialized_comm_fraction": "serialized communication / (compute + it)",
          "overlap_ratio": "overlappable communication / compute that may hide it",
          "visible_comm_fraction": "visible communication / step"}  # fmt: skip


def html_report(study: Study) -> str:
    """Return the page of a study. Raises ``ConfigError`` for a wrong one, or one of more than 5,000 points."""
    plan = make_plan(study)
    if plan.grid.points > MOST_ROWS:
        raise ConfigError(f"{plan.grid.points:,} points are more than the {MOST_ROWS:,} that a page can show; give "
                          "fewer values")  # fmt: skip
    about = meta(plan)
    one = not plan.grid.axes and plan.model.explains
    sections = _point(study, plan) if one else _sweep(plan)
    said = [f"note: {text}" for text in notes(plan)]
    sections += [_assumptions(plan, about, said), _provenance(study.profiles, about), _explorer(study)]
    return page_parts.page(about["title"], setup_line(about), sections)


def _point(study: Study, plan: Plan) -> list[Section]:
    step = explain(study)
    verdict = [] if step["feasible"] else [f"Not feasible: {step['reason']}"]
    bars = [step_stacks(["the step"], [step]), memory_stacks(["the device"], [step["memory"]])]
    drawn = page_parts.figure(picture.svg_of(draw_stacks(bars, {})))
    summary = page_parts.paragraphs(verdict, "infeasible") + page_parts.paragraphs(explain_table.summary_lines(step))
    sections = [Section("step", "The step", summary + drawn + page_parts.table(explain_table.step_rows(step)))]
    sections.append(Section("pipeline", "Its pipeline", _pipeline(plan)))
    parts = (
        ("communication", "Communication of a device, by group", explain_table.comm_rows(step)),
        ("memory", "Memory of the stage that needs most", explain_table.memory_rows(step["memory"])),
        ("operations", "Operations of a device of the slowest stage", explain_table.operation_rows(step["operations"])),
        ("sensitivity", "The step if one number of the hardware were larger",
         explain_table.sensitivity_rows(step["sensitivity"])),
    )  # fmt: skip
    return sections + [Section(name, title, page_parts.table(rows)) for name, title, rows in parts if rows]


def _pipeline(plan: Plan) -> str:
    """Return the pipeline as a picture, or why there is none."""
    from comp_comm.report.trace import write_svg

    try:
        timeline = explained(plan).timeline()
    except ConfigError as error:
        return page_parts.paragraphs([f"Not drawn: {error}"])
    if len(timeline.slices) > MOST_SLICES:
        why = (
            f"Not drawn: {len(timeline.slices):,} passes and sends are too many for a page; 'compcomm trace' has them."
        )
        return page_parts.paragraphs([why])
    out = io.StringIO()
    write_svg(out, timeline, "", "")
    return page_parts.figure(out.getvalue())


def _sweep(plan: Plan) -> list[Section]:
    rows = [row for block in stream_rows(plan, plan.columns) for row in records(block)]
    infeasible = sum(not row["feasible"] for row in rows)
    shown = [name for name in plan.columns if infeasible or name not in ("feasible", "reason")]
    sections = []
    if plan.grid.axes:
        view = views.plot_view(plan)
        wanted = tuple(dict.fromkeys((*plan.columns, view["y"], view.get("value", view["y"]))))
        points = [row for block in stream_rows(plan, wanted) for row in records(block)]
        drawn = picture.svg_of(draw_plot(views.plotted_rows(plan, points), view, meta(plan)))
        sections.append(Section("plot", "Plot", page_parts.figure(drawn)))
    said = page_parts.paragraphs([f"{infeasible:,} of {len(rows):,} points are infeasible."] if infeasible else [])
    return [*sections, Section("rows", "Every point", said + page_parts.table(rows, shown))]


def _assumptions(plan: Plan, about: Record, said: Sequence[str]) -> Section:
    """Return every field that has one value, whose it is, and what it means."""
    brought, given = about.get("model_fields", {}), plan.study.origins
    rows: Records = [
        {"field": name, "value": value, "from": _whose(name, value, given, brought, about),
         "meaning": FIELDS[name].help}
        for name, value in about["fixed"].items()
    ]  # fmt: skip
    return Section("assumptions", "Assumptions", page_parts.paragraphs(said) + page_parts.table(rows))


def _whose(name: str, value: object, given: Record, brought: Record, about: Record) -> str:
    if name in given:
        return "the study"
    return str(about["model"]) if name in brought and brought[name] == value else f"default of {about['cost_model']}"


def _provenance(profiles: Sequence[Profile], about: Record) -> Section:
    """Return every number of the hardware with its source and certainty, and what identifies the answer."""
    rows = [{"profile": profile.name, **row} for profile in profiles for row in number_rows(profile)]
    shown = ("profile", "key", "value", "certainty", "source", "date")
    digests = [f"{about['tool']} {about['version']}; cost model {about['cost_model']}; study {about['study_sha256']}",
               *(f"{name}: {each['title']}, {each['sha256']}" for name, each in about["hardware"].items())]  # fmt: skip
    return Section("provenance", "Where the numbers are from", page_parts.paragraphs(digests)
                   + page_parts.table(rows, shown))  # fmt: skip


def _explorer(study: Study) -> Section:
    """Return the explorer: one layer on the study's first device, by the paper's model."""
    title = "Explorer: one layer, its communication's share"
    asked = study_from({"title": title, "cost_model": "comp_vs_comm", "sweep": EXPLORED})
    asked = replace(asked, profiles=study.profiles[:1], hardware_given=True)
    try:
        result = swept(make_plan(asked), tuple(SHARES))
    except ConfigError as error:
        return Section("explorer", title, page_parts.paragraphs([f"There is none for this device: {error}"]))
    axes = [{"name": name, "words": picture.WORDS[name], "values": list(values), "start": START[name],
             "labels": [picture.short(name, value) for value in values]}
            for axis in asked.axes for name, values in axis.values.items()]  # fmt: skip
    columns = {name: {"words": words, "values": _shares(result.columns[name])} for name, words in SHARES.items()}
    said = (f"A layer of any size on {study.profiles[0].name}, in training, by the cost model comp_vs_comm: "
            f"{len(result):,} points evaluated before; the sliders choose one of them.")  # fmt: skip
    return Section("explorer", title, page_parts.explorer(axes, columns, said))


def _shares(values: AnyArray) -> list[float | None]:
    """Return shares in per cent, None for what is infeasible."""
    return [None if value != value else value for value in np.round(100 * values, DIGITS).tolist()]

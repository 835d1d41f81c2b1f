"""What `compcomm search` writes: its answer, a layout as a file, what else was asked about the best."""

from __future__ import annotations

import hashlib

from comp_comm.cli import options
from comp_comm.cli.speech import tell
from comp_comm.errors import ConfigError
from comp_comm.records import Record
from comp_comm.searches.design import Case, Design
from comp_comm.searches.result import SearchAnswer, side_by_side
from comp_comm.sweeps.differences import differing_fields, side_names, why_faster
from comp_comm.sweeps.point import compare, explain

Asked = Record


def write_search(
    design: Design, results: list[SearchAnswer], interrupted: bool, path: str | None, form: str, asked: Asked
) -> int:
    """Write what was found; return the exit code."""
    several = len(design.cases) > 1
    shown: Record = {**results[0]}
    if several:
        places = [case.place for case in design.cases[: len(results)]]
        shown = {
            "meta": {**_meta_of_all(design, results), "interrupted": interrupted},
            "rows": side_by_side(places, results),
        }
        if asked["crossover"]:
            from comp_comm.searches.crossover import crossings

            shown["crossover"] = {"question": asked["crossover"].text,
                                  "rows": crossings(asked["crossover"], places, results)}  # fmt: skip
    shown |= _looked_at(design.cases[0], results[0], asked)
    if asked["emit"]:
        text = _emitted(asked["emit"], asked["machine"], design.cases[0], results[0])
        code = options.write(path, lambda out: print(text, end="", file=out), lambda: interrupted)
    else:
        from comp_comm.report.search_table import write_answer

        code = options.write(path, lambda out: write_answer(out, shown, form, several), lambda: interrupted)
    if asked["picture"] and code == 0:
        from comp_comm.report.search_plot import save_search

        save_search(asked["picture"], shown)
        tell(f"wrote {asked['picture']}")
    return code


def _looked_at(case: Case, result: SearchAnswer, asked: Asked) -> Record:
    """Return the best explained, and it beside the best of other degrees, where they are asked for."""
    if not (asked["explained"] or asked["compared"]):
        return {}
    from comp_comm.searches.emitted import study_of_row

    more: Record = {}
    if asked["explained"]:
        more["explain"] = explain(study_of_row(case.study, result["rows"][0], asked["machine"]))
    if asked["compared"]:
        best, *next_ones = result["rows"]
        other = result["runner_up"] or next(iter(next_ones), None)
        if other is None:
            raise ConfigError("--compare is about two layouts, and this found one (--top)")
        left, right = (study_of_row(case.study, row, asked["machine"]) for row in (best, other))
        more["compare"], changed = compare(left, right), differing_fields(left, right)
        names = side_names(left, right, changed)
        more["compared"] = {"a": names[0], "b": names[1], "differs": changed, "why": why_faster(more["compare"], names),
                            "other_degrees": result["runner_up"] is not None}  # fmt: skip
    return more


def _meta_of_all(design: Design, results: list[SearchAnswer]) -> Record:
    """Return the meta block of several searches: what they have in common, what moves, and that of each."""
    metas = [result["meta"] for result in results]
    moving = {name for axis in design.axes for name in axis.values}
    devices = list(dict.fromkeys(name for meta in metas for name in meta["hardware"]))
    return {
        **metas[0],
        "title": metas[0]["title"].replace(devices[0], ", ".join(devices)),
        "study_sha256": hashlib.sha256("".join(meta["study_sha256"] for meta in metas).encode()).hexdigest(),
        "hardware": {name: about for meta in metas for name, about in meta["hardware"].items()},
        "fixed": {name: value for name, value in metas[0]["fixed"].items() if name not in moving},
        "axes": [{name: list(values) for name, values in axis.values.items()} for axis in design.axes],
        "candidates": sum(meta["candidates"] for meta in metas), "feasible": sum(meta["feasible"] for meta in metas),
        "searches": metas,
    }  # fmt: skip


def _emitted(kind: str, machine: str, case: Case, result: SearchAnswer) -> str:
    """Return the best layout as a text; say what importing it again needs beside it."""
    from comp_comm.searches.emitted import emitted

    text = emitted(kind, case.study, result["rows"][0], machine)
    if kind == "deepspeed":
        tell(f"note: the model, and {case.gpus} devices, are not in a DeepSpeed JSON: start it on so many, and import "
             f"it with --model NAME --set gpus={case.gpus}")  # fmt: skip
    return text

"""A search for people to read: the best layouts, how flat the top is, what nearly was, and the best one's parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from comp_comm.costmodels import COST_MODELS
from comp_comm.errors import so_many
from comp_comm.fields import FIELDS
from comp_comm.records import Record
from comp_comm.report import machine, table
from comp_comm.report.explain_table import interval_words, write_explanation, write_memory
from comp_comm.searches.block_search import NEAR_TIMES
from comp_comm.searches.coverage import span
from comp_comm.searches.design import FACTORS, WORK

DIVISORS = "Of degrees and batches that are not given, only values are tried that divide devices, heads, layers, batch"
NO_STACK = "No framework is given: gradients are in the format of the weights (--stack megatron has them in fp32)"
TIED = 5  # rows
SECOND = "second_behind_percent_after"  # of a crossover of two kinds of layouts
PAPER = ("nv_tp1", "nv_tp2", "nv_dp", "nv_pp", "summa_panels")
SHOWN = ("strategy", "tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "ep_dispatch", "dp", "micro_batch", "zero", "sp",
         "recompute", "placement", *PAPER, "step_s", "mfu", "memory_gib", "visible_comm_fraction")  # fmt: skip
SIDE = ("hardware", "gpus", *WORK, *FACTORS, "strategy", "tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "ep_dispatch",
        "dp", "micro_batch", "zero", "sp", "recompute", *PAPER, "step_s", "mfu", "memory_gib", "visible_comm_fraction",
        "speedup", "efficiency")  # fmt: skip


def write_answer(out: IO[str], answer: Record, form: str, several: bool) -> None:
    """Write a search in any format; ``several`` says that it is the best of several, side by side."""
    if form == "json":
        machine.write_record(out, answer)
    elif form in machine.WRITERS:
        machine.write_rows(out, answer["rows"], form)
    else:
        write_search(out, answer, form, SIDE if several else SHOWN)


def write_search(out: IO[str], answer: Record, style: str, columns: Sequence[str]) -> None:
    """Write what was found: one search with the parts of its best layout, or the best of several side by side."""
    meta, rows = answer["meta"], answer["rows"]
    several = "searches" in meta
    moves = {name for axis in meta.get("axes", ()) for name in axis}
    fixed = meta["fixed"] if "gpus" in moves else {**meta["fixed"], "gpus": meta["gpus"]}
    table.write_heading(out, {**meta, "fixed": fixed}, {}, style)
    if not several:
        for line in (_counts(meta), *_tried(meta)):
            table.write_line(out, line, style)
    out.write("\n")
    per = answer.get("per") or {"fields": [], "rows": []}
    others = [*answer.get("near_misses", ()), *per["rows"], *answer.get("headrooms", ()),
              *(answer.get("tied") or {"rows": ()})["rows"][:TIED]]  # fmt: skip
    given = [name for name in (*columns, *meta.get("searched", {})) if name in rows[0] and _tells(name, moves, several)]
    moving = [name for name in dict.fromkeys(given) if _differs(name, [*rows, *others])]
    costs = [name for name in rows[0] if name.startswith(("cost", "energy", "days", "gpu_hours"))]
    ties = ["ties"] if not several and any(row["ties"] > 1 for row in rows) else []
    table.write_records(out, rows, [*moving, *costs, *ties], style)
    if several:
        _write_crossover(out, answer, style)
        return
    for row in rows[:1]:
        if row["also"]:
            order = " (from the inner network out)" if "placement" in row["also"] else ""
            alike = f"The best is {row['ties']} layouts that no number tells apart: {row['also']}{order}"
            table.write_line(out, alike, style)
    _write_tied(out, answer, moving, style)
    if answer["near_misses"]:
        _title(out, f"Faster, but they do not fit: they need so many times (up to {NEAR_TIMES:g}) the memory there is",
               style)  # fmt: skip
        table.write_records(out, answer["near_misses"], ["memory_times", *moving], style)
    if per["rows"]:
        _title(out, f"The best for each {', '.join(per['fields'])}", style)
        names = [*per["fields"], "behind_percent", *(name for name in moving if name not in per["fields"])]
        table.write_records(out, [dict.fromkeys(rows[0]) | row for row in per["rows"]], [*names, "feasible"], style)
    if answer["headrooms"]:
        _title(out, "The best with so much of the memory left free", style)
        table.write_records(out, answer["headrooms"], ["headroom_percent", "behind_percent", *moving], style)
    _write_best(out, answer, style)


def _write_tied(out: IO[str], answer: Record, columns: Sequence[str], style: str) -> None:
    """Write between which seconds the best is, and which other layouts may as well be the best."""
    span, tied = answer["best"]["interval"], answer["tied"]
    if span:
        out.write("\n")
        table.write_line(out, f"The best one's step is {interval_words(span)}", style)
    if tied and tied["layouts"] > 1:
        table.write_line(
            out,
            f"{tied['layouts']:,} layouts tie: they are within {tied['percent']:.1f} % of the best. In four of "
            "five measured pairs of layouts, the predicted ratio was off by less than that",
            style,
        )
    if tied and len(tied["rows"]) > 1:
        many = len(tied["rows"])
        more = f"; {TIED} of {many}, all in --format json" if many > TIED else ""
        _title(out, f"Those that tie and that none beats in both time and memory, the least memory first{more}", style)
        table.write_records(out, tied["rows"][:TIED], ["behind_percent", *columns], style)


def _write_crossover(out: IO[str], answer: Record, style: str) -> None:
    """Write between which numbers of devices what was asked about is crossed."""
    if "crossover" not in answer:
        return
    asked, rows = answer["crossover"]["question"], answer["crossover"]["rows"]
    _title(out, f"Where {asked} is crossed, in devices", style)
    names = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    table.write_records(out, rows, names, style)
    said = [crossing_said(asked, row) for row in rows if row["reason"] is None and row["after"] is not None]
    out.write("\n" if said else "")
    for line in said:
        table.write_line(out, line, style)


def crossing_said(asked: str, row: Record) -> str:
    """Return in words what a row of ``crossings`` says.

    >>> crossing_said("comm=30%", {"after": 4096, "at": 8192, "mfu_after": 0.3, "mfu_at": 0.2, "reason": None})
    'comm=30% is passed between 4,096 and 8,192 devices (more numbers between them tell it closer)'
    >>> crossing_said("zero==3:tp>1", {"hardware": "h100-sxm", "after": 8, "at": 64, "second_behind_percent_after": 7.0,
    ...                                "second_behind_percent_at": -137.0, "reason": None})
    'h100-sxm: zero==3 is ahead of tp>1 on 8 devices, by 7 % of the best, and behind on 64, by 137 %'
    """
    before, after = f"{row['after']:,}", f"{row['at']:,}"
    others = [str(row[name]) for name in list(row)[: list(row).index("after")]]
    place = f"{', '.join(others)}: " if others else ""
    if SECOND not in row:
        between = f"between {before} and {after} devices (more numbers between them tell it closer)"
        return f"{place}{asked} is passed {between}"
    first, second = asked.split(":")
    low, high = row[SECOND], row[SECOND.replace("_after", "_at")]
    order = ("ahead of", "behind") if low >= 0 else ("behind", "ahead")
    return (f"{place}{first} is {order[0]} {second} on {before} devices, by {abs(low):.3g} % of the best, and "
            f"{order[1]} on {after}, by {abs(high):.3g} %")  # fmt: skip


def _write_best(out: IO[str], answer: Record, style: str) -> None:
    """Write where the time and the memory of the best go, and what else was asked about it."""
    best = answer["best"]
    _title(out, "The best one's step", style)
    parts = [{"step": name, "seconds": f"{each:.4g}", "share (%)": f"{100 * each / best['step_s']:.1f}"}
             for name, each in best["parts"].items()]  # fmt: skip
    table.write_records(out, parts, list(parts[0]), style)
    write_memory(out, best["memory"], style)
    if "compare" in answer:
        _write_compared(out, answer["compare"], answer["compared"], style)
    if "explain" in answer:
        _title(out, "The best one explained", style)
        write_explanation(out, answer["explain"], style)


def _write_compared(out: IO[str], terms: Sequence[Record], sides: Record, style: str) -> None:
    """Write the terms in which the best two differ, the sides by their names, and why one is the faster."""
    best, second = (f"{side}: {sides[side]}" for side in "ab")
    said = (f"The best ({best}) and the best of other degrees ({second})" if sides["other_degrees"] else
            f"The best ({best}) and the second ({second}): no layout of other degrees fits")  # fmt: skip
    _title(out, said, style)
    table.write_line(out, sides["why"], style)
    out.write("\n")
    heads = {"a": sides["a"], "b": sides["b"]}
    rows = [{heads.get(name, name): value for name, value in row.items()} for row in terms if row["a"] != row["b"]]
    table.write_records(out, rows, list(rows[0]) if rows else list(terms[0]), style)


def _differs(name: str, rows: Sequence[Record]) -> bool:
    """Return whether a column says something: another value than the usual one, or several."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return any(value != _DULL.get(name) for value in values)


def _tried(meta: Record) -> list[str]:
    """Return what was tried, and what was not, in words."""
    tried = [f"{name} {span(values)}" for name, values in meta["searched"].items() if len(values) > 1]
    pinned = [f"{name} {values[0]}" for name, values in meta["searched"].items() if len(values) == 1]
    settled = [
        f"{name} {value} (else {FIELDS[name].default or 'not given'})" for name, value in meta["settled"].items()
    ]
    left = [f"{name} {about['value'] or 'not given'}" for name, about in meta["not_tried"].items()
            if name not in {*meta["searched"], *meta["settled"]}]  # fmt: skip
    fixed = f". Fixed: {', '.join(pinned)}" if pinned else ""
    usual = f". Set by the search alone, unless given: {', '.join(settled)}" if settled else ""
    lines = [f"Tried: {'; '.join(tried) or 'one layout'}{fixed}{usual}"]
    if any(name in FIELDS and FIELDS[name].kind == "int" and FIELDS[name].low > 0 and len(values) > 1
           for name, values in meta["searched"].items()):  # fmt: skip
        lines.append(DIVISORS)
    counts = "count_attention"  # which of attention's FLOP are model FLOP
    if counts in COST_MODELS[meta["cost_model"]].fields:
        lines.append(f"mfu is of {meta['fixed'].get(counts, FIELDS[counts].default)} attention ({counts})")
    if meta["cost_model"] == "complete" and not {"stack", "grad_precision"} & {*meta["fixed"], *meta["searched"]}:
        lines.append(NO_STACK)
    return [*lines, *([f"Not tried (a list of values tries them): {', '.join(left)}"] if left else [])]


def _tells(name: str, moves: set[str], several: bool) -> bool:
    """Return whether a column of searches side by side can tell them apart."""
    if several and name in (*FACTORS, *WORK, "hardware", "gpus"):
        return name in moves
    return name != "efficiency" or "gpus" in moves


# Columns that say nothing where every row has this value.
_DULL: Record = {"strategy": "1d", "cp": 1, "ep": 1, "vpp": 1, "pp": 1, "tp2": 1, "nv_tp2": 1, "summa_panels": 1,
                 "placement": "tp-cp-dp-pp"}  # fmt: skip


def _counts(meta: Record) -> str:
    close = ", ".join(f"{count:,} within {percent} %" for percent, count in meta["within_percent"].items())
    free = f" with {100 * meta['headroom']:.4g} % of the memory left free" if meta["headroom"] else ""
    one = meta["candidates"] == 1, meta["feasible"] == 1
    return (f"{so_many(meta['candidates'], 'layout')} {'keeps' if one[0] else 'keep'} every rule, "
            f"{meta['feasible']:,} of them {'fits' if one[1] else 'fit'}{free}; best by "
            f"{meta['objective']}; of those that fit, {close} of the best")  # fmt: skip


def _title(out: IO[str], text: str, style: str) -> None:
    out.write(f"\n### {text}\n\n" if style == "markdown" else f"\n{text}\n\n")

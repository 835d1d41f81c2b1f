"""One step for people to read: where its time goes, its memory, its communication, its operations, what binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from comp_comm.costmodels.records import STEP_PARTS
from comp_comm.errors import so_many
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.report import table

MIB, GIB, GB = 2.0**20, 2.0**30, 1e9


def write_explanation(out: IO[str], step: Record, style: str) -> None:
    """Write everything about one step."""
    table.write_heading(out, step["meta"], {}, style)
    _write_summary(out, step, style)
    _section(out, "Step", step_rows(step), style)
    _section(out, "Communication of a device (hidden ran under compute; bytes of a step)", comm_rows(step), style)
    _section(out, "Tokens to experts and back, by tier of the network", tier_rows(step["operations"]), style)
    write_memory(out, step["memory"], style)
    _section(out, "Operations of a device of the slowest stage", operation_rows(step["operations"]), style)
    _write_certainty(out, step, style)
    _section(
        out,
        "What binds: the step if one number of the hardware were larger",
        sensitivity_rows(step["sensitivity"]),
        style,
    )
    _write_verdict(out, step, style)


def write_memory_answer(out: IO[str], step: Record, style: str) -> None:
    """Write the memory of one step."""
    table.write_heading(out, step["meta"], {}, style)
    write_memory(out, step, style)
    _write_verdict(out, step, style)


BESIDE = ("capacity_bytes", "allocated_bytes", "reserved_bytes")  # no parts of what is needed


def write_memory(out: IO[str], memory: Record, style: str) -> None:
    """Write memory by part."""
    held = memory.get("reserved_bytes")
    has = f"the device has {memory['capacity_bytes'] / GIB:.1f} GiB"
    _section(out, f"Memory of the stage that needs most ({has})", memory_rows(memory), style)
    if held is not None:
        smi = (held + memory["framework_bytes"]) / MIB
        said = f"{memory['allocated_bytes'] / GIB:.1f} GiB allocated, {held / GIB:.1f} GiB reserved"
        out.write("\n")
        table.write_line(out, f"{said}, {smi:,.0f} MiB in nvidia-smi", style)


def memory_rows(memory: Record) -> Records:
    """Return the parts of memory as rows of text."""
    total = memory["total_bytes"]
    return [
        {"memory": name.removesuffix("_bytes"), "GiB": f"{size / GIB:.2f}", "share (%)": f"{100 * size / total:.1f}"}
        for name, size in memory.items() if name.endswith("_bytes") and name not in BESIDE
    ]  # fmt: skip


def _write_summary(out: IO[str], step: Record, style: str) -> None:
    for line in summary_lines(step):
        table.write_line(out, line, style)
        out.write("\n" if style == "markdown" else "")


def summary_lines(step: Record) -> list[str]:
    """Return what a step comes to, in lines."""
    used = step["active_parameters"]
    # Which of attention's FLOP are model FLOP is said beside the share that they are.
    counted = step["meta"]["fixed"].get("count_attention", FIELDS["count_attention"].default)
    rates = f"MFU {100 * step['mfu']:.1f} % ({counted} attention), HFU {100 * step['hfu']:.1f} %"
    some = f", {used / 1e9:.4g} of them used by a token" if used != step["parameters"] else ""
    lines = [
        f"{step['step_s']:.4g} s a step; {step['tokens_per_s']:,.0f} tokens/s; "
        f"{step['tflops_per_gpu']:.1f} TFLOP/s a device; {rates}",
        f"{step['parameters'] / 1e9:.4g} billion parameters{some}; {step['model_flops']:.4g} model FLOP and "
        f"{step['hardware_flops']:.4g} hardware FLOP a step",
        f"{so_many(step['gpus'], 'device')}, dp {step['dp']}; {so_many(step['global_batch'], 'sequence')} a step, "
        f"{step['accumulation']} micro-batch{'' if step['accumulation'] == 1 else 'es'} a replica",
    ]  # fmt: skip
    if step.get("interval"):
        lines.insert(1, interval_words(step["interval"]))
    if "days" in step:
        lines.append(f"the whole run: {step['days']:.4g} days, {step['gpu_hours']:,.0f} GPU-hours")
    lines += cost_lines(step)
    return lines


def interval_words(span: Record) -> str:
    """Return between which seconds a step is, of which runs that is true, and of how many that were found later."""
    words = (f"between {span['low_s']:.4g} and {span['high_s']:.4g} s for {100 * span['share']:.0f} % of "
             f"{span['words']} ('{span['shown_by']}' shows them)")  # fmt: skip
    if not span["later"]:
        return words
    return (f"{words}; of {span['later']} found later, of other stacks and networks, {span['later_held']} were within "
            "('compcomm validate --later')")  # fmt: skip


def cost_lines(step: Record) -> list[str]:
    """Return what a step costs, and the run where its tokens are known; nothing without a price."""
    lines = []
    for name, unit in (("cost", ""), ("energy_kwh", " kWh")):
        each, run = step.get(f"{name}_per_million_tokens"), step.get(f"{name}_of_run")
        if each is not None:
            of_run = f"; {run:,.0f}{unit} the whole run" if run is not None else "; of a run with --tokens"
            lines.append(f"{name.split('_')[0]}: {each:.4g}{unit} a million tokens{of_run}")
    return lines


def _write_verdict(out: IO[str], step: Record, style: str) -> None:
    if not step["feasible"]:
        out.write("\n")
        table.write_line(out, f"NOT FEASIBLE: {step['reason']}", style)


def step_rows(step: Record) -> Records:
    """Return the parts of a step as rows of text."""
    step_s = step["step_s"]
    rows = [{"step": name, "seconds": f"{step[key]:.4g}", "share (%)": f"{100 * step[key] / step_s:.1f}"}
            for key, name in STEP_PARTS.items()]  # fmt: skip
    return [*rows, {"step": "all", "seconds": f"{step_s:.4g}", "share (%)": "100.0"}]


def comm_rows(step: Record) -> Records:
    """Return the communication of each group as rows of text."""
    return [
        {"group": group, "serialized (s)": f"{c['serialized_s']:.4g}", "hidden (s)": f"{c['hidden_s']:.4g}",
         "exposed (s)": f"{c['exposed_s']:.4g}", "calls": f"{c['calls']:.0f}",
         "messages (GB)": f"{c['message_bytes'] / GB:.4g}", "volume (GB)": f"{c['volume_bytes'] / GB:.4g}",
         "wire (GB)": f"{c['wire_bytes'] / GB:.4g}"}
        for group, c in step["comm"].items()
    ]  # fmt: skip


def tier_rows(operations: Sequence[Record]) -> Records:
    """Return the exchanges with experts, with what they send inside a domain and out of it, as rows of text."""
    return [
        {"exchange": op["operation"], "part": _part(op), "phase": op["phase"], "calls": f"{op['calls']:.6g}",
         "inside a domain (GB)": f"{op['calls'] * op['inside_bytes'] / GB:.4g}",
         "out of it (GB)": f"{op['calls'] * op['across_bytes'] / GB:.4g}"}
        for op in operations if op.get("inside_bytes") is not None
    ]  # fmt: skip


def operation_rows(operations: Sequence[Record]) -> Records:
    """Return every operation as a row of text."""
    return [
        {"operation": op["operation"], "part": _part(op), "phase": op["phase"], "group": op["group"] or "",
         "calls": f"{op['calls']:.6g}",
         "formula": op["formula"], "GFLOP": _blank(op["flops"] / 1e9), "MB": _blank(_bytes(op) / 1e6),
         "time (ms)": f"{1e3 * op['seconds']:.4g}", "share (%)": f"{100 * op['share']:.2f}"}
        for op in operations
    ]  # fmt: skip


def _write_certainty(out: IO[str], step: Record, style: str) -> None:
    """Write what the seconds of collectives are from, and the band of those that the data sheet does not tell."""
    if not step["collectives"]:
        return
    title = "How sure the collectives are"
    out.write(f"\n### {title}\n" if style == "markdown" else f"\n{title}\n")
    for words in dict.fromkeys(known["words"] for known in step["collectives"]):
        where = " and ".join(known["where"] for known in step["collectives"] if known["words"] == words)
        out.write("\n")
        table.write_line(out, f"{where}: {words}", style)
    rows = [
        {"below 1 MiB": op["operation"], "phase": op["phase"], "group": op["group"], "calls": f"{op['calls']:.6g}",
         "MB": f"{op['message_bytes'] / 1e6:.4g}", "low (ms)": f"{1e3 * op['low_s']:.4g}",
         "time (ms)": f"{1e3 * op['seconds']:.4g}", "high (ms)": f"{1e3 * op['high_s']:.4g}"}
        for op in step["operations"] if op["low_s"] is not None
    ]  # fmt: skip
    if rows:
        out.write("\n")
        table.write_texts(out, rows, style)


def _part(op: Record) -> str:
    """Return what an operation is of: so many layers of a kind, or what is beside them."""
    layers, part = op["layers"], str(op["part"])
    if layers is None:
        return part
    return f"{layers} {part}{'s' if layers != 1 else ''}"


def _bytes(op: Record) -> float:
    return float(op["message_bytes"] if op["group"] else op["hbm_bytes"])


def _blank(number: float) -> str:
    return f"{number:.4g}" if number else table.NOTHING


def sensitivity_rows(rows: Sequence[Record]) -> Records:
    """Return what binds as rows of text."""
    return [
        {"number": row["number"], "factor": f"x{row['factor']:g}", "step (s)": f"{row['step_s']:.4g}",
         "change (%)": f"{100 * row['change']:+.2f}", "feasible": "yes" if row["feasible"] else "no"}
        for row in rows
    ]  # fmt: skip


def _section(out: IO[str], title: str, rows: Sequence[Record], style: str) -> None:
    if not rows:
        return
    out.write(f"\n### {title}\n\n" if style == "markdown" else f"\n{title}\n\n")
    table.write_texts(out, rows, style)

"""The tables and samples of the docs that the code itself makes; `test_docs` puts them into the pages."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import textwrap
from collections.abc import Callable
from dataclasses import replace

import click
import numpy as np

from comp_comm.cli.main import COMMANDS, run
from comp_comm.configs import hardware_file
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.study import load_study
from comp_comm.costmodels import COST_MODELS
from comp_comm.costmodels.field_groups import NEEDS
from comp_comm.costmodels.records import GROUP_TITLES
from comp_comm.field import Field
from comp_comm.fields import FIELDS
from comp_comm.formats import Formats
from comp_comm.hardware import lint
from comp_comm.hardware.profile import TIMING_KINDS
from comp_comm.hardware.ratio import ratio
from comp_comm.layers.pattern import pattern_of
from comp_comm.layers.rules import layer_rules, stage_rules
from comp_comm.layout import Layout, resolved_layout
from comp_comm.layout_rules import layout_rules
from comp_comm.model_rules import model_rules
from comp_comm.operations.context import Context
from comp_comm.reproduce.papers import PAPERS, figures_of
from comp_comm.stacks import DENSE, Given, Stack
from comp_comm.sweeps.case_study import case_study
from comp_comm.sweeps.point import explain
from comp_comm.sweeps.result import sweep
from comp_comm.texts import Texts
from comp_comm.transformer import Transformer, resolved
from comp_comm.trends.part import PartSettings
from comp_comm.trends.parts import PARTS
from comp_comm.violation import NO_ROOM, blank_number


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


GROUPED = {"transformer": "The model", "layout": "Its layout", "evolution": "Hardware to come",
           "convention": "Conventions"}  # fmt: skip


def one_for_all(values: dict[str, str]) -> str:
    """Return a cell of what differs between cost models: their common value, or each with its model's name."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    said = {value: [name for name in values if values[name] == value] for value in values.values()}
    return "; ".join(f"{value} in {', '.join(names)}" for value, names in said.items() if value)


def default_of(f: Field) -> str:
    """Return the default of a field in each cost model that takes it, or that it is needed there."""
    found = {}
    for model in (model for model in COST_MODELS.values() if f.name in model.fields):
        default = model.default(f.name)
        found[model.name] = "needed" if f.name in model.required else "" if default is None else f"`{default}`"
    return one_for_all(found or {"": "" if f.default is None else f"`{f.default}`"})


def fields_table() -> str:
    """Return the fields by kind, with the cost models that take each."""
    parts = []
    for group, title in GROUPED.items():
        rows = []
        for f in (f for f in FIELDS.values() if f.group == group):
            models = [model.name for model in COST_MODELS.values() if f.name in model.fields]
            taken = "all" if len(models) == len(COST_MODELS) else ", ".join(models)
            rows.append((f"`{f.name}`", f.allowed(), default_of(f), f.help, taken))
        parts.append(f"### {title}\n\n" + table(("field", "value", "default", "meaning", "cost models"), rows))
    return "\n".join(parts)


def columns_table() -> str:
    """Return the columns of each cost model; those of a group of devices once for all groups."""
    parts = []
    for model in COST_MODELS.values():
        header = ("column", "unit", "meaning")
        usual = [(f"`{c.name}`", c.unit, c.help) for c in model.columns.values() if not c.extra]
        extra: dict[str, tuple[str, str, str]] = {}
        for c in (c for c in model.columns.values() if c.extra):
            group = next((g for g in GROUP_TITLES if c.name.startswith(f"{g}_")), None)
            name = c.name if group is None else f"GROUP_{c.name.removeprefix(f'{group}_')}"
            extra.setdefault(
                name, (f"`{name}`", c.unit, c.help.replace(GROUP_TITLES.get(group or "", "\0"), "a group"))
            )
        text = f"### {model.name}\n\n{table(header, usual)}"
        if extra:
            text += f"\nOnly where they are asked for; GROUP is one of {' '.join(GROUP_TITLES)}:\n\n"
            text += table(header, list(extra.values()))
        parts.append(text)
    return "\n".join(parts)


def cost_models_table() -> str:
    rows = [(f"`{model.name}`", model.summary, ", ".join(f"`{name}`" for name in model.required), f"`{model.headline}`",
             f"`{model.ranking}`") for model in COST_MODELS.values()]  # fmt: skip
    return table(("cost model", "what it times", "needs", "the pivot shows", "`--top` ranks by"), rows)


SAMPLE_MODEL = Transformer(4096, 4096, layers=32, heads=32, vocab=32000, experts=8, top_k=2)


def stacks_table() -> str:
    """Return what each stack gives, where, and the source of it."""
    parts = []
    for stack in Stack:
        rows = [(f"`{given.field}`", "; ".join(_cases_of(given)), given.source) for given in stack.given]
        head = f"### `{stack.word}`: {stack.title}\n\nSource: {stack.source}.\n\n"
        parts.append(head + table(("field", "value", "why"), rows))
    return "\n".join(parts)


def _cases_of(given: Given) -> list[str]:
    """Return the values of a field that a stack gives, case by case, in words."""
    said = []
    conditional = any(case.when and case.when != DENSE for case in given.cases)
    experts = " (of experts)" if any(case.when == DENSE for case in given.cases) else ""
    for case in given.cases:
        words = " or ".join(f"`{value}`" for value in case.listed) or "not given"
        known = {name: allowed for name, allowed in case.when.items() if allowed != (None,)}
        where = " and ".join(f"`{name}` {' or '.join(map(str, allowed))}" for name, allowed in known.items())
        if case.when == DENSE:
            continue
        absent = " and ".join(f"`{name}`" for name in case.when if name not in known)
        told = f" with {where}" if where else f" without {absent}" if absent else " otherwise" if conditional else ""
        said.append(f"{words}{told}{experts}")
    return said


def layout_rules_table() -> str:
    """Return every rule about a model and its layout, in the words of its message."""
    t, given = resolved(SAMPLE_MODEL), Layout(gpus=8, tp=8)
    layout = resolved_layout(given)
    hybrid = replace(SAMPLE_MODEL, layer_pattern=Texts(np.asarray(0), ("M-x31 *E",)), ssm_heads=64, ssm_head_dim=64,
                     kv_lora_rank=64, index_heads=8)  # fmt: skip
    kinds, context = pattern_of(resolved(hybrid)).kinds, Context(resolved(hybrid), layout, Formats())
    rules = [*model_rules(SAMPLE_MODEL, t), *model_rules(hybrid, resolved(hybrid)), *layout_rules(given, layout),
             *layer_rules(t, layout), *(rule for kind in kinds for rule in kind.rules(context)),
             *stage_rules(t, given, layout)]  # fmt: skip
    rows = [(rule.reason, ", ".join(f"`{name}`" for name in rule.fields)) for rule in rules]
    known = {name for names in NEEDS.values() for name in names.split()}
    rows += [(f"FIELD means nothing without {name}", ", ".join(f"`{each}`" for each in NEEDS if NEEDS[each] == name))
             for name in sorted(known)]  # fmt: skip
    rows += [(blank_number("KEY", np.asarray(True), "GROUP").reason, "the profile"),
             (blank_number("", np.asarray(True), "GROUP").reason, "the profile"),
             (NO_ROOM, "`memory_capacity`")]  # fmt: skip
    return table(("message", "fields"), list(dict.fromkeys(rows)))


def printed(*arguments: str) -> list[str]:
    """Return the lines that a command prints."""
    os.environ["COLUMNS"] = "160"  # the docs are as wide, whatever terminal makes them
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        assert run(arguments) == 0
    return out.getvalue().splitlines()


def shown(lines: list[str]) -> str:
    """Return a block of what is printed."""
    return "```text\n" + "\n".join(lines) + "\n```\n"


def cut(lines: list[str], keep: Callable[[str], bool]) -> list[str]:
    """Return the lines worth showing, with an ellipsis for each run of others."""
    found: list[str] = []
    for line in lines:
        if keep(line):
            found.append(line)
        elif not found or found[-1] != "...":
            found.append("...")
    return found


def explain_sample() -> str:
    """Return the output of explain: of its operations those that take 5 % and more, of what binds the larger factor."""
    lines = printed("explain", "llama-step")
    start = next(i for i, line in enumerate(lines) if line.startswith("operation ")) + 2
    end = lines.index("", start)
    return shown(
        [*lines[:start], *cut(lines[start:end], lambda line: float(line.split()[-1]) >= 5), *what_binds(lines)]
    )


def explain_summary() -> str:
    """Return where the step goes, what is communicated and what binds, with a sentence that reads it."""
    lines = printed("explain", "llama-step")
    memory = next(i for i, line in enumerate(lines) if line.startswith("Memory of"))
    return shown([*lines[: memory - 1], "...", *what_binds(lines)]) + "\n" + explain_reading()


def what_binds(lines: list[str]) -> list[str]:
    """Return the last table of explain for twice of what changes the seconds."""
    first = next(i for i, line in enumerate(lines) if line.startswith("What binds"))
    rows = [line for line in lines[first:] if " x1.1 " not in line and not line.startswith("memory_capacity")]
    return ["", *rows]


def explain_reading() -> str:
    """Return what the sample of explain says, in words."""
    found = explain(load_study("llama-step"))
    faster = {row["number"]: -100 * row["change"] for row in found["sensitivity"] if row["factor"] == 2}
    waits, tp = found["visible_comm_fraction"], found["comm"]["tp"]["serialized_s"] / found["step_s"]
    said = (f"Read it so: {100 * waits:.0f} % of the step is communication that nothing hides; tensor parallelism, "
            f"inside a node, is {100 * tp:.0f} %. Twice the FLOP/s would take {faster['flops']:.0f} % off the step, "
            f"twice the bandwidth inside a node {faster['bandwidth of scale-up']:.0f} %, twice that between nodes "
            f"{faster['bandwidth of scale-out']:.1f} %.")  # fmt: skip
    return textwrap.fill(said, 120) + "\n"


def compare_sample() -> str:
    """Return what becomes of the step at TP 4, and the terms that say why."""
    wanted = ("step_s", "compute_s", "bubble_s", "serialized_comm_s", "exposed_comm_s", "mfu", "memory_gib")
    lines = printed("compare", "llama-step", "llama-step", "--set-b", "tp=4")
    first = next(i for i, line in enumerate(lines) if line.startswith("term "))
    return shown([*lines[first : first + 2], *cut(lines[first + 2 :], lambda line: line.split()[0] in wanted)])


def rules_table() -> str:
    bounds = {
        "memory-drain": "{:g} to {:g} ms".format(*(1e3 * bound for bound in lint.DRAIN_S)),
        "flop-per-memory-byte": "{:g} to {:g}".format(*lint.FLOP_PER_MEMORY_BYTE),
        "flop-per-scale-up-byte": "{:g} to {:g}".format(*lint.FLOP_PER_SCALE_UP_BYTE),
    }
    rows = [(f"`{name}`", " ".join((rule.__doc__ or "").split()), bounds.get(name, ""))
            for name, rule in lint.RULES.items()]  # fmt: skip
    return table(("rule", "why", "allowed"), rows)


def presets_table() -> str:
    profile = load_profile("mi210")
    words = {"use_tiers": ("ignored", "used"), "ring_limit": ("exact", "limit")}
    names = dict.fromkeys(name for numbers in profile.presets.values() for name in numbers)
    order = sorted({*names, "gemm_efficiency", "memory_efficiency"}, key=list(TIMING_KINDS).index)
    keys = {name: key for key, name in hardware_file.SWITCH_KEYS.items()}

    def cell(preset: str, name: str) -> str:
        number = profile.presets[preset].get(name)
        inherited = number is None
        number = number or profile.numbers.get(f"timing.{name}")
        if number is None or (name == "memory_efficiency" and preset != "C"):
            return ""
        kind = "measured" if "torch.matmul" in number.source else number.certainty
        text = words[name][int(number.value)] if name in words else f"{number.value:g}"
        if number.kind == "seconds":
            text = f"{1e6 * number.value:g} us"
        return f"{text} ({kind}{', base' if inherited else ''})"

    rows = [(f"`{keys.get(name, name)}`", *(cell(preset, name) for preset in "ABC")) for name in order]
    return table(("number", "A", "B", "C"), rows)


HIGHLIGHTED = [{"hidden": "4K", "seq_len": "1K", "tp": 16}, {"hidden": "16K", "seq_len": "2K", "tp": 64},
               {"hidden": "64K", "seq_len": "4K", "tp": 256}]  # fmt: skip


def serialized(timing: str, k: int) -> list[float]:
    """Return the serialized shares of the highlighted models in percent."""
    fixed = {"micro_batch": 1, "timing": timing, "flop_vs_bw": k}
    result = sweep({"cost_model": "comp_vs_comm", "set": fixed, "zip": HIGHLIGHTED})
    return [100 * value for value in result.columns["serialized_comm_fraction"].tolist()]


def overlap(timing: str, k: int, tokens: list[str]) -> str:
    """Return the range of the overlap ratio in percent over H at TP = 16."""
    hidden = ["1K", "2K", "4K", "8K", "16K", "32K", "64K"]
    axes, fixed = {"hidden": hidden, "seq_len": tokens}, {"micro_batch": 1, "tp": 16, "timing": timing, "flop_vs_bw": k}
    found = sweep({"cost_model": "comp_vs_comm", "set": fixed, "sweep": axes})
    low, high = (100 * float(f(found.columns["overlap_ratio"])) for f in (min, max))
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f}-{high:.0f}"


def comparison_table() -> str:
    """Return the paper's quoted percentages beside those of each preset; * where a preset was fitted to the quote."""
    every = ["1K", "2K", "4K", "8K"]
    case = {timing: case_study((f"timing={timing}",))[0][0] for timing in "ABC"}
    rows: list[tuple[str, str, Callable[[str], str], str]] = [
        ("Fig 12, serialized", "48", lambda t: f"{100 * case[t]['serialized_comm_fraction']:.1f}", "AC"),
        ("Fig 12, hidden", "9", lambda t: f"{100 * case[t]['hidden_comm_fraction']:.1f}", "AC"),
        *((f"{figure}, high end: H = 64K, SL = 4K, TP = 256", paper, lambda t, k=k: f"{serialized(t, k)[-1]:.1f}", "C")
          for figure, k, paper in (("Fig 10(a)", 1, "50"), ("Fig 11(a) 2x", 2, "65"), ("Fig 11(a) 4x", 4, "75"))),
        *((f"{figure}, low end, if H = 4K, SL = 1K, TP = 16", paper, lambda t, k=k: f"{serialized(t, k)[0]:.1f}", "")
          for figure, k, paper in (("Fig 10(a)", 1, "20"), ("Fig 11(a) 2x", 2, "30"), ("Fig 11(a) 4x", 4, "40"))),
        ("Fig 10(b), SL B = 4K, TP = 16", "20-55", lambda t: overlap(t, 1, ["4K"]), "B"),
        ("Fig 10(b), all, TP = 16", "17-140", lambda t: overlap(t, 1, every), "B"),
        ("Fig 11(b) 2x, if SL B = 4K", "50-100", lambda t: overlap(t, 2, ["4K"]), ""),
        ("Fig 11(b) 4x, if SL B = 4K", "80-210", lambda t: overlap(t, 4, ["4K"]), ""),
    ]  # fmt: skip
    cells = [(name, paper, *(value(t) + (" *" if t in fitted else "") for t in "ABC"))
             for name, paper, value, fitted in rows]  # fmt: skip
    return table(("quoted, in %", "paper", "A", "B", "C"), cells)


def case_study_table() -> str:
    names = ("serialized_comm_fraction", "hidden_comm_fraction", "visible_comm_fraction")
    rows = [(row["scenario"], row["source"], *(f"{100 * row[name]:.1f} %" for name in names))
            for row in case_study()[0]]  # fmt: skip
    return table(("scenario", "from", "serialized", "hidden", "serialized and exposed"), rows)


STEPS = ("p100-sxm v100-sxm-16gb", "v100-sxm-32gb a100-sxm-80gb", "a100-sxm-80gb h100-sxm", "h100-sxm b200-sxm",
         "mi60 mi100", "mi250x mi300x", "gb200-nvl72 rubin-nvl72")  # fmt: skip


def steps_table() -> str:
    found = [ratio(*map(load_profile, step.split())) for step in STEPS]
    names = ("flops", "scale_up", "flop_per_scale_up")
    rows = [(f"`{r['old']}` to `{r['new']}`", *(f"{r[name]:.1f}" for name in names)) for r in found]
    return table(("step", *(f"`{name}`" for name in names)), rows)


def leaves() -> list[tuple[str, click.Command]]:
    """Return every command that does something, by its full name."""
    found: list[tuple[str, click.Command]] = []
    for name, (module, _) in COMMANDS.items():
        command = importlib.import_module(module).command
        subcommands = command.commands if isinstance(command, click.Group) else {"": command}
        found += [(f"{name} {sub}".strip(), each) for sub, each in subcommands.items()]
    return found


MANY = 40  # a command with a flag for each field of a whole step: the fields have a table of their own
ALL_FIELDS = ("`--FIELD`", "any [field](studies.md#fields) of the cost model `complete`, with dashes for underscores: "
              "`--seq-len`, `--tp`, `--zero` and so on", "the study's")  # fmt: skip


def options_table(command: click.Command) -> str:
    rows = []
    fields = [option for option in command.params if option.name in FIELDS]
    if len(fields) < MANY:
        fields = []
    for option in command.params:
        if option in fields:
            rows += [ALL_FIELDS] if option is fields[0] else []
            continue
        if isinstance(option, click.Argument):
            name = option.human_readable_name
            rows.append((f"`{name}`", "needed" if option.required else "may be left out", ""))
            continue
        if "--help" in option.opts:
            continue
        text, _, default = (option.help or "").partition(" [default: ")
        text, default = (text, default.rstrip("]")) if text and not text.startswith("[") else ("", text[10:-1])
        if option.show_default and option.default is not None:
            given = option.default if isinstance(option.default, tuple) else (option.default,)
            default = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in given)
        choice = " ".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
        meaning = "; ".join(part for part in (text.rstrip("."), f"one of: {choice}" if choice else "") if part)
        rows.append((" ".join(f"`{flag}`" for flag in option.opts), meaning, default))
    return table(("option", "meaning", "default"), rows)


def commands_list() -> str:
    parts = []
    for name, command in leaves():
        about = textwrap.fill(" ".join((command.help or "").split()), 120)
        parts.append(f"## compcomm {name}\n\n{about}\n\n{options_table(command)}\n")
    return "\n".join(parts)


def trends_table(name: str, columns: tuple[str, ...], keep: Callable[[dict], bool] = bool) -> str:
    """Return a part of the study of trends: shares in per cent, factors with two digits."""

    def shown(column: str, value: object) -> str:
        if value is None:
            return "-"
        if column.endswith("_fraction") or column == "mfu":
            return f"{100 * value:.0f} %"
        return f"{value:.2f}" if isinstance(value, float) else str(value)

    rows = [row for row in PARTS[name][0](PartSettings()).rows if keep(row)]
    words = [column.removesuffix("_fraction").replace("_", " ") for column in columns]
    return table(tuple(words), [tuple(shown(column, row[column]) for column in columns) for row in rows])


ERAS = ((2018, 2021), (2021, 2023), (2023, 2024), (2024, 2025), (2025, 2027))


def eras_table() -> str:
    """Return the median share of trained models by era, dense ones and mixtures apart."""
    names = ("all_overlapped_fraction", "visible_fraction", "none_overlapped_fraction", "paper_tp_fraction",
             "paper_eq10_fraction")  # fmt: skip
    shares, rows = PARTS["shares"][0](PartSettings()).rows, []
    for first, end in ERAS:
        years = str(first) if end == first + 1 else f"{first} to {end - 1}"
        for arch in ("dense", "moe"):
            mine = [row for row in shares if row["arch"] == arch and first <= row["year"] < end]
            medians = [f"{100 * float(np.median([row[name] for row in mine])):.0f} %" for name in names] if mine else []
            if mine:
                rows.append(
                    (
                        years,
                        "mixtures" if arch == "moe" else arch,
                        str(len(mine)),
                        *medians,
                    )
                )
    header = ("years", "models", "n", "all overlapped", "as it was", "nothing overlapped", "paper's layer, TP used",
              "paper's layer, TP of Eq 10")  # fmt: skip
    return table(header, rows)


def reproduced_table() -> str:
    """Return how many statements of each figure were met, missed, and are not available."""
    rows = []
    for paper in PAPERS:
        if paper == "foundation-models":  # whole searches
            continue
        for made in figures_of(paper):
            counts = [str(count) for count in made.counts().values()]
            rows.append((paper, f"`{made.name}`", made.title, *counts))
    return table(("paper", "figure", "title", "met", "missed", "not available"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "reproduced": reproduced_table,
    "trends-eras": eras_table,
    "trends-claims": lambda: trends_table("claims", ("claim", "foreseen", "came", "verdict", "why")),
    "trends-growth": lambda: trends_table(
        "growth", ("of", "quantity", "a_year", "low", "high", "n"), lambda row: row["of"] in ("NVIDIA", "all vendors")
    ),
    "trends-forecast": lambda: trends_table(
        "forecast",
        (
            "study",
            "overlap",
            "today_fraction",
            "low_fraction",
            "median_fraction",
            "high_fraction",
            "above_40_fraction",
            "mfu",
        ),
    ),
    "fields": fields_table,
    "columns": columns_table,
    "cost-models": cost_models_table,
    "layout-rules": layout_rules_table,
    "stacks": stacks_table,
    "explain": explain_sample,
    "explain-summary": explain_summary,
    "compare": compare_sample,
    "rules": rules_table,
    "presets": presets_table,
    "comparison": comparison_table,
    "case-study": case_study_table,
    "steps": steps_table,
    "commands": commands_list,
}

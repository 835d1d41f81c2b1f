"""The README and the docs say what the code does: commands run, YAML loads, names exist, tables are the code's own.

Tables between ``<!-- generated: NAME -->`` and ``<!-- end generated -->`` are made by this file; after a change of
the code, ``python tests/test_docs.py`` writes them anew.
"""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from comp_comm.cli.main import COMMANDS, run
from comp_comm.configs import axes, catalogue, hardware_file, model_file, study
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.model_file import load_model
from comp_comm.configs.study import load_study
from comp_comm.costmodels.breakdown import COLUMNS
from comp_comm.errors import CompcommError
from comp_comm.fields import FIELDS
from comp_comm.hardware import lint
from comp_comm.hardware.profile import CERTAINTIES, TIER_KINDS, TIMING_KINDS
from comp_comm.hardware.ratio import ratio
from comp_comm.sweep import make_plan, sweep
from comp_comm.sweep.algorithmic import edge_table, required_tp_table
from comp_comm.sweep.case_study import case_study
from comp_comm.sweep.solve import ask, solve

ROOT = Path(__file__).resolve().parent.parent
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")), ROOT / "CHANGELOG.md")
SHELL, INSTALLS = ("sh", "bash", "console"), ("pip", "-m venv")
GENERATED = re.compile(r"(<!-- generated: ([\w-]+) -->\n)(.*?)(<!-- end generated -->)", re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its page and line, language, text, and the HTML comment on the line before it."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    @property
    def id(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = None
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = number
            continue
        before = [text.strip() for text in lines[:start] if text.strip()]
        mark = re.fullmatch(r"<!-- (.*) -->", before[-1]) if before else None
        text = "\n".join(lines[start + 1 : number]) + "\n"
        yield Block(page, start + 1, lines[start].strip().strip("`"), text, mark.group(1) if mark else "")
        start = None
    assert start is None, f"{page.name}:{start}: this block has no end"


BLOCKS = [block for page in PAGES for block in blocks(page)]


def commands(block: Block) -> Iterator[str]:
    """Yield the compcomm commands of a shell block, a continued line as one."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("compcomm ") and not any(word in line for word in INSTALLS):
            yield line.partition(" #")[0].strip()


CALLS = [(block, line) for block in BLOCKS if block.language in SHELL for line in commands(block)]
SAMPLES = [block for block in BLOCKS if block.mark.startswith("sample: ")]


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder as a fresh clone has it, to run in."""
    for name in ("configs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("block", "line"), CALLS, ids=[f"{b.id} {text}" for b, text in CALLS])
def test_commands_run(block, line, clone, capsys):
    if "--plot" in line:
        pytest.importorskip("matplotlib")
    for name in re.findall(r"(?<![\w/])my-[\w-]+\.yaml", line):
        shutil.copy(ROOT / "examples" / "my-cluster.yaml", clone / name)
    assert run(shlex.split(line)[1:]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("block", SAMPLES, ids=[b.id for b in SAMPLES])
def test_samples_are_what_is_printed(block, clone, capsys):
    assert run(shlex.split(block.mark.removeprefix("sample: "))[1:]) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    for line in block.text.splitlines():
        if line.strip() not in ("", "..."):
            assert line in printed, f"{block.id}: not printed now, or not in this order: {line}"


YAML = [block for block in BLOCKS if block.language == "yaml"]
YAML_MARKS = ("study", "profile", "model", "part")


@pytest.mark.parametrize("block", YAML, ids=[b.id for b in YAML])
def test_yaml_loads(block, clone):
    assert block.mark in YAML_MARKS, f"{block.id}: say <!-- study, profile, model or part (of one) --> before it"
    path = clone / "block.yaml"
    path.write_text(block.text, encoding="utf-8")
    shutil.copy(ROOT / "examples" / "my-cluster.yaml", clone)
    if block.mark == "study":
        make_plan(load_study(str(path)))
    elif block.mark == "profile":
        load_profile(str(path))
    elif block.mark == "model":
        load_model(str(path))


PYTHON = [block for block in BLOCKS if block.language == "python"]


@pytest.mark.parametrize("block", PYTHON, ids=[b.id for b in PYTHON])
def test_python_does_what_it_says(block, clone):
    test = doctest.DocTestParser().get_doctest(block.text, {}, block.id, str(block.page), block.line)
    assert test.examples, f"{block.id}: write it as a session (>>>)"
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def known_names() -> set[str]:
    """Return every name with an underscore that the docs may use."""
    point = {"set": {"hidden": "4K", "seq_len": "1K", "micro_batch": 1, "tp": 16}}
    records = [edge_table(["bert-large"])[0], required_tp_table(["bert-large"])[0], case_study()[0][0],
               ratio(load_profile("mi50"), load_profile("mi100")), sweep(point).meta,
               solve(study.study_from(point), ask("serialized_comm_fraction", 0.3, "tp"))[0][0]]  # fmt: skip
    keys = [study.KEYS, study.TABLE_KEYS, study.PLOT_KEYS, axes.RANGE_KEYS, hardware_file.KEYS, model_file.KEYS,
            hardware_file.NUMBER_KEYS, TIER_KINDS, TIMING_KINDS, hardware_file.SWITCH_KEYS]  # fmt: skip
    defined = re.compile(r"\b(?:def|class) (\w+)|^(\w+): ?[\w\[]|^    (\w+)(?:: | = )", re.MULTILINE)
    source = list((ROOT / "comp_comm").rglob("*.py"))
    named = {name for path in source for found in defined.findall(path.read_text()) for name in found if name}
    rooms = {part for path in source for part in path.relative_to(ROOT).with_suffix("").parts}
    choices = {word for field in FIELDS.values() for word in field.words}
    return {*FIELDS, *COLUMNS, *choices, *named, *rooms}.union(*records, *keys)


def code_spans(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_names_exist(page):
    used = {name for span in code_spans(page) for name in re.findall(r"(?<![\w./-])[a-z]+(?:_[a-z0-9]+)+", span)}
    files = {path.name.split(".")[0] for path in ROOT.glob("*/*")}
    assert used - known_names() - files == set()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_flags_and_devices_exist(page):
    flags = {flag for _, command in leaves() for option in command.params for flag in option.opts}
    text = "\n".join(code_spans(page))
    own = {"--help", "--version", "--strict"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - flags - own == set()
    devices = set(re.findall(r"\b(?:mi|tpu-v|h|a|b|v|p)\d+[a-z]?(?:-[\w]+)*\b", text))
    assert devices - set(catalogue.names("hardware")) == set()


def test_every_key_is_explained():
    text = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("studies", "hardware")}
    in_studies = {*study.KEYS, *study.TABLE_KEYS, *study.PLOT_KEYS, *axes.RANGE_KEYS, *axes.SCALES, *model_file.KEYS,
                  *sweep("case-study").meta}  # fmt: skip
    in_hardware = {*hardware_file.KEYS, *hardware_file.NUMBER_KEYS, *CERTAINTIES, *TIER_KINDS,
                   *hardware_file.SWITCH_KEYS, *(set(TIMING_KINDS) - set(hardware_file.SWITCHES))}  # fmt: skip
    assert {name for name in in_studies if f"`{name}`" not in text["studies"]} == set()
    assert {name for name in in_hardware if f"`{name}`" not in text["hardware"]} == set()


def test_readme_has_one_command_to_run_and_one_to_test():
    marked = {block.mark: block for block in blocks(README)}
    for mark, last in (("run", "compcomm sweep configs/future.yaml"), ("test", "-m pytest -q")):
        lines = marked[mark].text.strip().splitlines()
        assert marked[mark].language == "sh"
        assert len(lines) == 1
        assert lines[0].startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
        assert lines[0].endswith(last)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_and_lines(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "    "))]
    in_blocks = {line for block in blocks(page) for line in block.text.splitlines()}
    assert [line for line in long if line not in in_blocks] == []


def test_pages_are_in_the_navigation():
    assert all(page.name in (ROOT / "mkdocs.yml").read_text() for page in DOCS.glob("*.md"))


def test_docs_build(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "mkdocs.yml", "-d", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_counts_in_words():
    number = len(catalogue.names("hardware"))
    assert f"{number} accelerators" in README.read_text(encoding="utf-8")
    assert f"has {number}," in (DOCS / "hardware.md").read_text(encoding="utf-8")
    assert f"a catalogue of {number} profiles" in " ".join((ROOT / "CHANGELOG.md").read_text("utf-8").split())


def test_what_hardware_md_says_of_blank_numbers(clone):
    profile = next(b for b in blocks(DOCS / "hardware.md") if b.mark == "profile" and "my-device" in b.text)
    (clone / "my-device.yaml").write_text(profile.text, encoding="utf-8")
    base = {"hidden": "4K", "seq_len": "1K", "micro_batch": 1, "precision": "bf16", "dp": 1}
    device = {"hardware": "my-device.yaml", "set": base}
    assert sweep({**device, "sweep": {"tp": [1, 8, 16]}}).columns["feasible"].tolist() == [True, True, False]
    (clone / "tiers.yaml").write_text("extends: mi210\ndefault_timing: null\n", encoding="utf-8")
    tiers = {"hardware": "tiers.yaml", "set": {**base, "precision": "fp16"}, "sweep": {"tp": [4, 8]}}
    assert sweep(tiers).columns["feasible"].tolist() == [True, False]


def test_what_comp_vs_comm_md_says_of_hardware_to_come():
    point = {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}
    faster = sweep({"set": {**point, "flop_vs_bw": 4}}).columns["serialized_comm_fraction"]
    slower = sweep({"set": {**point, "network": 0.25}}).columns["serialized_comm_fraction"]
    assert faster == pytest.approx(slower, rel=1e-12)


# --- tables the code makes ---


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def fields_table() -> str:
    rows = [(f"`{f.name}`", f.group, f.allowed(), "" if f.default is None else f"`{f.default}`", f.help)
            for f in FIELDS.values()]  # fmt: skip
    return table(("field", "of", "value", "default", "meaning"), rows)


def columns_table() -> str:
    return table(("column", "unit", "meaning"), [(f"`{c.name}`", c.unit, c.help) for c in COLUMNS.values()])


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
    result = sweep({"set": {"micro_batch": 1, "timing": timing, "flop_vs_bw": k}, "zip": HIGHLIGHTED})
    return [100 * value for value in result.columns["serialized_comm_fraction"].tolist()]


def overlap(timing: str, k: int, tokens: list[str]) -> str:
    """Return the range of the overlap ratio in percent over H at TP = 16."""
    hidden = ["1K", "2K", "4K", "8K", "16K", "32K", "64K"]
    axes = {"hidden": hidden, "seq_len": tokens}
    found = sweep({"set": {"micro_batch": 1, "tp": 16, "timing": timing, "flop_vs_bw": k}, "sweep": axes})
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
    names = ("serialized_comm_fraction", "hidden_comm_fraction", "exposed_comm_fraction")
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


def options_table(command: click.Command) -> str:
    rows = []
    for option in command.params:
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


TABLES: dict[str, Callable[[], str]] = {
    "fields": fields_table,
    "columns": columns_table,
    "rules": rules_table,
    "presets": presets_table,
    "comparison": comparison_table,
    "case-study": case_study_table,
    "steps": steps_table,
    "commands": commands_list,
}


def regenerated(page: Path) -> str:
    """Return a page with its generated tables made anew."""

    def replace(match: re.Match[str]) -> str:
        return f"{match.group(1)}\n{TABLES[match.group(2)]()}\n{match.group(4)}"

    return GENERATED.sub(replace, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_generated_tables_are_current(page):
    assert page.read_text(encoding="utf-8") == regenerated(page), "run: python tests/test_docs.py"


def test_every_table_is_used():
    used = {name for page in PAGES for _, name, _, _ in GENERATED.findall(page.read_text(encoding="utf-8"))}
    assert used == set(TABLES)


def test_a_wrong_command_is_noticed(clone):
    """The tests above can fail: the runner returns a code, and the loaders raise."""
    assert run(["sweep", "configs/future.yaml", "--columns", "no_such_column"]) == 2
    with pytest.raises(CompcommError):
        make_plan(study.study_from({"set": {"hiden": 1}}))


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(regenerated(each), encoding="utf-8")

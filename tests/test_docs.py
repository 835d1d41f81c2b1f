"""The README and the docs say what the code does: commands run, YAML loads, names exist, tables are the code's own.

Tables between ``<!-- generated: NAME -->`` and ``<!-- end generated -->`` are made by this file; after a change of
the code, ``python tests/test_docs.py`` writes them anew.
"""

from __future__ import annotations

import doctest
import functools
import itertools
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from docs_tables import TABLES, leaves
from face import recorded

from comp_comm.choices import ContextComm
from comp_comm.cli.main import run
from comp_comm.configs import axes, catalogue, hardware_file, model_file, overrides, study
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.model_file import load_model
from comp_comm.configs.study import load_study, study_from
from comp_comm.costmodels import COST_MODELS, all_columns
from comp_comm.costmodels.complete.states.overlap import CONTENTION, USABLE
from comp_comm.dispatchers import SORTED
from comp_comm.errors import CompcommError
from comp_comm.fields import FIELDS
from comp_comm.hardware.numbers import Timing
from comp_comm.hardware.profile import ATTENTION_KINDS, CERTAINTIES, TIER_KINDS, TIMING_KINDS
from comp_comm.hardware.ratio import ratio
from comp_comm.kernel_choices import CrossEntropy, ElementwiseKernels
from comp_comm.layers.kind import NORM_PASSES, PARALLEL_SUM_PASSES, SUM_PASSES
from comp_comm.searches.result import search, side_by_side
from comp_comm.sharding import ZeroImplementation
from comp_comm.sweeps.algorithmic import edge_table, required_tp_table
from comp_comm.sweeps.case_study import case_study
from comp_comm.sweeps.interval import known_intervals, layouts_apart
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import explain, explained
from comp_comm.sweeps.prices import Prices
from comp_comm.sweeps.result import sweep
from comp_comm.sweeps.solve import ask, solve
from comp_comm.timing import fused_attention, kernels
from comp_comm.validation import table as runs

ROOT = Path(__file__).resolve().parent.parent
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md")
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


# Those of questions.md are run by test_questions.py, which looks at their answers.
CALLS = [(block, line) for block in BLOCKS if block.language in SHELL and block.page.name != "questions.md"
         for line in commands(block)]  # fmt: skip
ONCE = list({line: (block, line) for block, line in reversed(CALLS)}.values())[::-1]  # where it stands first
SAMPLES = [block for block in BLOCKS if block.mark.startswith("sample: ")]


@pytest.fixture(scope="session")
def files_of_a_clone(tmp_path_factory):
    """What a fresh clone has beside the package, copied once."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("configs", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.fixture
def clone(files_of_a_clone, tmp_path, monkeypatch):
    """A folder as a fresh clone has it, to run in."""
    for name in ("configs", "examples"):
        shutil.copytree(files_of_a_clone / name, tmp_path / name, copy_function=os.link)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _marks(text):
    """Return the marks of what runs a command: large searches and forecasts take their time, and so does a page."""
    slow = "reproduce (foundation-models|all)|trends|--plot|--network 1,2,4|--nvs|--crossover|compcomm report|^papers$"
    return [pytest.mark.slow] if re.search(slow, text) else []


@pytest.mark.a_third
@pytest.mark.parametrize(("block", "line"), [
    pytest.param(b, text, id=f"{b.id} {text}", marks=_marks(text)) for b, text in ONCE
])  # fmt: skip
def test_commands_run(block, line, clone, capsys):
    if "--plot" in line:
        pytest.importorskip("matplotlib")
    for name in re.findall(r"(?<![\w/])my-[\w-]+\.yaml", line):
        shutil.copy(ROOT / "examples" / "my-cluster.yaml", clone / name)
    assert run(shlex.split(line)[1:]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("block", [pytest.param(b, id=b.id, marks=_marks(f"{b.mark} {b.text}")) for b in SAMPLES])
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


@functools.cache
def known_names() -> set[str]:
    """Return every name with an underscore that the docs may use."""
    point = {"cost_model": "comp_vs_comm", "set": {"hidden": "4K", "seq_len": "1K", "micro_batch": 1, "tp": 16}}
    step = explain(load_study("llama-step"))
    records = [edge_table(["bert-large"])[0], required_tp_table(["bert-large"])[0], case_study()[0][0],
               ratio(load_profile("mi50"), load_profile("mi100")), sweep(point).meta,
               solve(study.study_from(point), ask("serialized_comm_fraction", 0.3, "tp"))[0][0], step, step["memory"],
               step["comm"]["tp"], step["operations"][0], step["sensitivity"][0], *searched()]  # fmt: skip
    keys = [study.KEYS, study.TABLE_KEYS, study.PLOT_KEYS, axes.RANGE_KEYS, hardware_file.KEYS, model_file.KEYS,
            hardware_file.NUMBER_KEYS, TIER_KINDS, TIMING_KINDS, hardware_file.SWITCH_KEYS, runs.COLUMNS,
            runs.METRICS, overrides.TOP_LEVEL_SETS]  # fmt: skip
    defined = re.compile(r"\b(?:def|class) (\w+)|^(\w+): ?[\w\[]|^    (\w+)(?:: | = )", re.MULTILINE)
    source = list((ROOT / "comp_comm").rglob("*.py"))
    named = {name for path in source for found in defined.findall(path.read_text()) for name in found if name}
    rooms = {part for path in source for part in path.relative_to(ROOT).with_suffix("").parts}
    choices = {word for field in FIELDS.values() for word in field.words}
    return {*FIELDS, *all_columns(), *COST_MODELS, *choices, *named, *rooms}.union(*records, *keys)


def searched() -> list[dict]:
    """Return the records of a small search with prices, alone and side by side with another."""
    given = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 8, "cp": 1, "tokens": 1e12}}
    found = search(study.study_from(given), 8, prices=Prices(2.0, 700.0))
    return [found, found["meta"], found["rows"][0], side_by_side([{"gpus": 8}], [found])[0]]


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
    own = {"--help", "--help-all", "--version", "--strict"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - flags - own == set()
    devices = set(re.findall(r"\b(?:mi|tpu-v|h|a|b|v|p)\d+[a-z]?(?:-[\w]+)*\b", text))
    words = {word for field in FIELDS.values() for word in field.words}
    assert devices - set(catalogue.names("hardware")) - words == set()


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
    for mark, last in (("run", "compcomm sweep configs/future.yaml"), ("test", "-m pytest -q -n auto")):
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


@pytest.mark.slow
def test_docs_build(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "mkdocs.yml", "-d", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_counts_in_words():
    number = len(catalogue.names("hardware"))
    assert set(re.findall(r"(\d+) accelerators", README.read_text(encoding="utf-8"))) == {str(number)}
    assert f"has {number}," in (DOCS / "hardware.md").read_text(encoding="utf-8")
    assert f"a catalogue of {number} profiles" in " ".join((ROOT / "CHANGELOG.md").read_text("utf-8").split())


def test_accuracy_in_words():
    """Prose of other pages repeats the tables of docs/accuracy.md."""
    pages = {page.stem: " ".join(page.read_text("utf-8").split()) for page in (*DOCS.glob("*.md"), README)}
    lines = (DOCS / "accuracy.md").read_text(encoding="utf-8").splitlines()
    rows = [tuple(cell.strip(" %") for cell in line.split("|")[1:-1]) for line in lines if line.startswith("|")]
    (_, dense, d50, _, d90, _), (_, moe, m50, _, m90, _) = (
        next(row for row in rows if row[0] == arch and len(row) == 6) for arch in ("dense", "moe")
    )
    held = {row[0]: row for row in rows if row[1:2] == ("held out",)}
    assert f"Of {int(dense) + int(moe)} published runs" in pages["training-step"]
    assert f"compares {int(dense) + int(moe)} published runs" in pages["README"]
    assert f"off by {d50} % in the median for dense models and {m50} % for mixtures of experts, by {d90} and {m90} %" \
        in pages["training-step"]  # fmt: skip
    _, _, _, d50, d90, _ = held["dense, all"]
    _, _, _, m50, m90, _ = held["moe, all"]
    assert f"to {d50} and {m50} % in the median, {d90} and {m90} % at the 90th percentile" in pages["training-step"]
    apart = f"{100 * layouts_apart():.0f} %"
    assert all(f"less than {apart} apart" in pages[name] for name in ("README", "training-step"))
    assert all(f"some {apart}" in pages[name] for name in ("questions", "search"))
    dense, moe = (known_intervals()[arch, "unknown"] for arch in ("dense", "moe"))
    low, high, worse, worst = (round(100 * abs(each - 1)) for each in (dense.low, dense.high, moe.low, moe.high))
    assert f"as good to {low} % downwards and {high} % upwards, that of a mixture of experts to {worse} and {worst} %" \
        in pages["README"]  # fmt: skip
    assert f"-{low} to +{high} % for dense models, -{worse} to +{worst} % for mixtures" in pages["training-step"]
    later = next(row for row in rows if row[0] == "looked into: all")
    unseen = next(row for row in rows if row[0] == "not looked into: all")
    assert f"and {int(later[1]) + int(unseen[1])} that were found when the model was made" in pages["README"]


@pytest.mark.slow
def test_trends_in_words(capsys):
    """The summary and the forecast in words repeat the tables of the same page."""
    page = (DOCS / "trends.md").read_text(encoding="utf-8")
    prose = " ".join(re.sub(r"<!-- generated.*?<!-- end generated -->", "", page, flags=re.DOTALL).split())
    ((median, above),) = re.findall(r"since 2023: median (\d+) % visible, (\d+) above 40 %", page)
    assert above == "0"
    assert f"{median} % of the step is visible communication in the median, and none is above 40 %" in prose
    (wide,) = re.findall(r"405B on H100 at TP 8, 32, 64, 128: \d+ %, (\d+) %, \d+ %, (\d+) %", page)
    assert "TP of 32 to 128 would spend {} to {} %".format(*wide) in prose
    rows = re.findall(r"\| (nothing overlapped|all overlapped that can) \| \d+ % \| (\d+) % \| \d+ % \| (\d+) %", page)
    assert len(rows) == 6
    lows, highs = ({way: pick(int(row[i]) for row in rows if row[0] == way) for way, _, _ in rows}
                   for i, pick in ((1, min), (2, max)))  # fmt: skip
    every, none = "all overlapped that can", "nothing overlapped"
    assert f"So {lows[every]} to {highs[every]} % of a step of 2030" in prose
    assert f"and {lows[none]} to {highs[none]} % if nothing does" in prose
    assert run(["trends", "errors", "--format", "json"]) == 0
    errors = [abs(row["error"]) for row in json.loads(capsys.readouterr().out)["rows"]]
    assert f"{len(errors)} of the models have a reported rate, and their steps come out within " \
        f"{100 * statistics.median(errors):.0f} % in the median" in prose  # fmt: skip


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.text.startswith("$ compcomm search")],
                         ids=lambda block: block.page.name)  # fmt: skip
def test_an_error_is_told_as_it_comes(block, capsys):
    command, *said = block.text.splitlines()
    assert run(shlex.split(command)[2:]) == 3
    assert " ".join(" ".join(said).split()) in " ".join(capsys.readouterr().err.split())


def every_operation() -> set[str]:
    """Return the names of the operations and collectives that `explain` prints of many models and layouts."""
    base = {"hidden": 4096, "seq_len": 4096, "layers": 32, "heads": 32, "vocab": 32000}
    moe = {**base, "experts": 8, "top_k": 2, "shared_experts": 1, "dense_layers": 2, "mtp_layers": 1}
    models = [
        {**base, "kv_heads": 8, "qk_norm": "on"},
        moe,
        {**moe, "kv_lora_rank": 512, "q_lora_rank": 1536, "rope_head_dim": 64},
        {**base, "window": 1024, "global_every": 4, "attention_gate": "on"},
        {**base, "layer_pattern": "(M- G- K- L-)x8", "ssm_heads": 32, "ssm_head_dim": 64, "ssm_state": 64},
        {
            **base,
            "layer_pattern": "(S- *E)x16",
            "ssm_heads": 8192,
            "ssm_state": 16,
            "experts": 8,
            "top_k": 2,
            "moe_latent_hidden": 1024,
        },
        {**base, "kv_lora_rank": 512, "q_lora_rank": 1536, "rope_head_dim": 64, "index_heads": 32},
        {**base, "architecture": "encoder-decoder", "encoder_layers": 24},
        {**base, "seq_len": 256, "vocab": 0, "architecture": "vit", "patch_features": 768, "classes": 10},
    ]
    layouts = [{}, {"zero": 1, "scatter_gather": "on"}, {"zero": 3, "recompute": "full"}, {"sp": "off"}]  # fmt: skip
    ways = [{"cp": 2, "cp_comm": way} for way in ContextComm.words()]
    found: set[str] = set()
    for model, layout, way in itertools.product(models, layouts, ways):
        experts = {"ep": 4} if "experts" in model and "sp" not in layout else {}
        if ("sp" in layout and "experts" in model) or ("window" in model and way["cp_comm"] == "p2p"):
            continue
        if "index_heads" in model and way["cp_comm"] != "all_gather":
            continue
        given = {**model, **layout, **way, **experts, "tp": 2, "pp": 2, "dp": 8, "dp_shard": 4}
        found |= {op["operation"] for op in recorded(explained(make_plan(study_from(
            {"hardware": "h100-sxm", "set": given}))))["operations"]}  # fmt: skip
    return found


@pytest.mark.slow
def test_every_operation_is_explained():
    text = (DOCS / "training-step.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in text.splitlines() if line[:2] == "| "]
    told = {name for row in rows for name in row[0].split("; ")}
    assert every_operation() - told == set()


def test_constants_in_words():
    """Numbers that training-step.md states are those of the code."""
    text = " ".join((DOCS / "training-step.md").read_text(encoding="utf-8").split())
    score, cost = (
        kernels.SCORE_BYTES,
        ElementwiseKernels.table("cost").tolist(),
    )
    said = [f"{score[0]:g} bytes a score forward and {score[1]:g} backward",
            f"The backward pass has {fused_attention.BACKWARD_FLOPS:g} times the FLOP",
            f"{kernels.UNALIGNED:g} times as long where {kernels.ALIGNED:g} does not divide",
            f"times {cost[0]:g} (`kernels: fused`), {cost[1]:g} (`eager`) or {cost[2]:g} (`compiled`)",
            *(f"| `{way.word}` | {way.moved:g} | {way.kept:g} |" for way in CrossEntropy),
            f"| permute tokens | {2 * SORTED:g} bytes of each of T_s k H; {4 * SORTED:g} by all-to-all",
            f"{NORM_PASSES:g} elements of T_s H a norm",
            f"{2 * SUM_PASSES:g} for both sums ({2 * PARALLEL_SUM_PASSES:g} where blocks are parallel)",
            f"gradients under {USABLE:g} of the last", f"{100 * CONTENTION:g} % of what is hidden shows",
            f"a bucket of gradients ({ZeroImplementation.MEGATRON.bucket / 1e6:g} million elements",
            f"`network_sustained`, {Timing().network_sustained:g} unless",
            f"`framework_gib`, {FIELDS['framework_gib'].default:g} GiB unless",
            f"`vocab_multiple` ({FIELDS['vocab_multiple'].default})"]  # fmt: skip
    assert [part for part in said if part not in text] == []


def test_defaults_of_profiles_in_words():
    """The tables of hardware.md give the defaults that the code has."""
    rows = re.findall(r"^\| `(\w+)` \| .* \| ([^|]+) \|$", (DOCS / "hardware.md").read_text("utf-8"), re.MULTILINE)
    said = {name: re.fullmatch(r"([\d.]+)( us)?", cell) for name, cell in rows}
    found = {name: float(cell.group(1)) * (1e-6 if cell.group(2) else 1) for name, cell in said.items() if cell}
    timing = {name: value for name, value in found.items()
              if hasattr(Timing(), name) and name not in ATTENTION_KINDS}  # fmt: skip
    assert timing == pytest.approx({name: getattr(Timing(), name) for name in timing})
    assert set(timing) >= {"gemm_ramp_k", "flash_efficiency", "network_sustained", "collective_latency"}


def test_what_hardware_md_says_of_blank_numbers(clone):
    profile = next(b for b in blocks(DOCS / "hardware.md") if b.mark == "profile" and "my-device" in b.text)
    (clone / "my-device.yaml").write_text(profile.text, encoding="utf-8")
    base = {"hidden": "4K", "seq_len": "1K", "micro_batch": 1, "precision": "bf16", "dp": 1}
    device = {"cost_model": "comp_vs_comm", "hardware": "my-device.yaml", "set": base}
    assert sweep({**device, "sweep": {"tp": [1, 8, 16]}}).columns["feasible"].tolist() == [True, True, False]
    (clone / "tiers.yaml").write_text("extends: mi210\ndefault_timing: null\n", encoding="utf-8")
    tiers = {"hardware": "tiers.yaml", "set": {**base, "precision": "fp16"}, "sweep": {"tp": [4, 8]}}
    assert sweep({**device, **tiers}).columns["feasible"].tolist() == [True, False]


def test_what_comp_vs_comm_md_says_of_hardware_to_come():
    point = {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}
    faster, slower = (sweep({"cost_model": "comp_vs_comm", "set": {**point, **changed}}).columns
                      for changed in ({"flop_vs_bw": 4}, {"network": 0.25}))  # fmt: skip
    assert faster["serialized_comm_fraction"] == pytest.approx(slower["serialized_comm_fraction"], rel=1e-12)


def regenerated(page: Path) -> str:
    """Return a page with its generated tables made anew."""

    def replace(match: re.Match[str]) -> str:
        return f"{match.group(1)}\n{TABLES[match.group(2)]()}\n{match.group(4)}"

    return GENERATED.sub(replace, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [
    pytest.param(page, id=page.name, marks=_marks(page.stem)) for page in PAGES
])  # fmt: skip
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

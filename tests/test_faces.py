"""What people see: values as they write them, titles that stay true, help, tables that fit, bars of characters."""

from __future__ import annotations

import io
import json
import re

import click
import pytest
from docs_tables import leaves

from comp_comm.cli import completion
from comp_comm.cli.main import COMMANDS, run
from comp_comm.configs.axes import span
from comp_comm.configs.study import load_study, study_from
from comp_comm.costmodels.records import STEP_PARTS
from comp_comm.fields import FIELDS
from comp_comm.report import plot, search_plot
from comp_comm.report.heatmap import scale_end
from comp_comm.report.roofline_plot import roofline_points
from comp_comm.report.stacks import memory_stacks, step_stacks
from comp_comm.report.stacks_plot import draw_stacks
from comp_comm.report.terminal_plot import write_plot
from comp_comm.report.views import plot_view
from comp_comm.sweeps.explain_over import explain_over
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import explain
from comp_comm.sweeps.result import swept

STEP = ("--model", "llama-3-8b", "--hardware", "h100-sxm", "--gpus", "64", "--global-batch", "256")


def answer(compcomm, *arguments):
    code, out, err = compcomm(*arguments, "--format", "json")
    assert code == 0, err
    return json.loads(out)


# -- no study needed ------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize(
    ("flag", "short", "long"),
    [("--tp", "1..8*2", "1,2,4,8"), ("--pp", "1..4", "1,2,3,4"), ("--network", "0.5..2+0.5", "0.5,1,1.5,2"),
     ("--tp", "1,4..8*2", "1,4,8"), ("--seq-len", "2K..4K+1K", "2048,3072,4096")],
)  # fmt: skip
def test_a_range_is_its_values(compcomm, flag, short, long):
    one, other = (answer(compcomm, "sweep", *STEP, flag, text) for text in (short, long))
    assert one["rows"] == other["rows"]
    assert len(one["rows"]) == long.count(",") + 1


@pytest.mark.parametrize("text", ["8..1", "1..8*1", "1..8+0", "1..", "0..8*2", "1..x", "1...8"])
def test_a_range_that_is_none_is_refused(compcomm, text):
    code, out, err = compcomm("sweep", *STEP, "--tp", text)
    assert (code, out) == (2, "")
    assert "--tp" in err


def test_a_range_ends_at_what_it_may_reach():
    assert span("1..100*3", FIELDS["tp"]) == (1, 3, 9, 27, 81)
    assert span("1..1000000*10", FIELDS["hidden"])[-1] == 1_000_000  # to the last power, whatever logarithms say


@pytest.mark.slow
def test_units_and_cases_of_values(compcomm):
    short = answer(compcomm, "explain", *STEP, "--seq-len", "4K", "--precision", "FP8", "--tokens", "2T")
    plain = answer(compcomm, "explain", *STEP, "--seq-len", "4096", "--precision", "fp8", "--tokens", "2e12")
    assert short == plain
    assert short["days"] > 0
    share = answer(compcomm, "solve", "llama-step", "--target", "mfu=40%", "--for", "network")
    assert share["rows"] == answer(compcomm, "solve", "llama-step", "--target", "mfu=0.4", "--for", "network")["rows"]


def test_a_short_name_is_a_device_and_says_which(compcomm):
    code, out, err = compcomm("memory", *STEP[:2], "--hardware", "A100", "--gpus", "64")
    assert code == 0
    assert "64 a100-sxm-80gb" in out
    assert "A100 is a100-sxm-80gb (others: a100-sxm-40gb)" in err


@pytest.mark.slow
def test_a_question_of_flags_alone_is_a_study_of_the_same(compcomm):
    study = study_from({"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"gpus": 64, "global_batch": 256}})
    rows = answer(compcomm, "sweep", *STEP)["rows"]
    assert rows[0]["step_s"] == explain(study)["step_s"]
    solved = answer(compcomm, "solve", *STEP, "--tp", "8", "--target", "mfu=0.45", "--for", "network")["rows"][0]
    again = answer(compcomm, "explain", *STEP, "--tp", "8", "--network", repr(solved["value"]))
    assert again["mfu"] == pytest.approx(0.45, rel=1e-6)


@pytest.mark.parametrize("command", ["sweep", "explain", "memory", "volume", "trace"])
def test_nothing_asked_is_told_what_to_ask(compcomm, command):
    code, out, err = compcomm(command)
    assert (code, out) == (2, "")
    assert "compcomm studies" in err
    assert "--model" in err


def test_what_was_overridden_is_not_told_of_any_more(compcomm):
    changed = answer(
        compcomm, "sweep", "llama-step", "--set", "model=gpt3-175b", "--set", "hardware=mi300x", "--vpp", "1"
    )
    assert not re.search(r"llama 3|H100|70B", changed["meta"]["title"], re.I)
    assert "gpt3-175b" in changed["meta"]["title"]
    assert "mi300x" in changed["meta"]["title"]
    assert "tokens" not in changed["meta"]["fixed"]
    assert "days" not in changed["rows"][0]
    kept = answer(compcomm, "sweep", "llama-step", "--set", "model=gpt3-175b", "--vpp", "1", "--tokens", "300B")
    assert kept["meta"]["fixed"]["tokens"] == 3e11
    assert kept["rows"][0]["days"] > 0


@pytest.mark.parametrize(
    "arguments",
    [["explain", *STEP], ["memory", "llama-step"], ["sweep", *STEP, "--network", "1,2"], ["volume", *STEP],
     ["search", *STEP, "--tp", "8", "--cp", "1", "--pp", "1"]],
)  # fmt: skip
def test_the_header_says_what_a_number_depends_on(compcomm, arguments):
    _, out, _ = compcomm(*arguments)
    head = " ".join(out.split("\n\n")[0].split())
    for said in (r"llama-3-(8|70)b", r"on (64|512) h100-sxm", r"global_batch \d+", r"micro_batch \d+|search",
                 r"seq_len 8K", r"precision bf16"):  # fmt: skip
        assert re.search(said, head) or (arguments[0] == "search" and "micro" in said), (said, head)


def test_points_of_a_list_are_explained_side_by_side(compcomm):
    rows = answer(compcomm, "explain", *STEP, "--tp", "2,8")["rows"]
    for row in rows:
        alone = answer(compcomm, "explain", *STEP, "--tp", str(row["tp"]))
        assert {name: row[name] for name in ("step_s", "forward_s", "bubble_s")} == {
            name: alone[name] for name in ("step_s", "forward_s", "bubble_s")
        }


def test_sides_are_named_by_what_differs(compcomm):
    _, out, _ = compcomm("compare", "llama-step", "--set-b", "tp=4", "--set-b", "zero=3")
    assert out.startswith("tp=8 zero=1: ")
    assert "\ntp=4 zero=3: llama-step with tp=4, zero=3\n" in out
    _, out, _ = compcomm("compare", "llama-step", "llama-step")
    assert out.startswith("A: ")
    assert "the same" in out


def test_a_new_study_is_one_that_runs(compcomm, tmp_path):
    path = tmp_path / "new.yaml"
    assert compcomm("init", "--model", "gpt3-175b", "--hardware", "a100", "-o", path)[0] == 0
    assert len(answer(compcomm, "sweep", path)["rows"]) == 12
    code, _, err = compcomm("init", "-o", path)
    assert code == 2
    assert "there already" in err
    assert compcomm("init", "--like", "llama-step", "-o", tmp_path / "copy.yaml")[0] == 0
    assert load_study(str(tmp_path / "copy.yaml")).resolved() == load_study("llama-step").resolved()


def test_the_old_name_of_a_column_is_made_where_it_is_asked_for(compcomm):
    row = answer(compcomm, "sweep", "llama-step", "--columns", "exposed_comm_fraction,visible_comm_fraction")["rows"][0]
    assert row["exposed_comm_fraction"] == row["visible_comm_fraction"] > 0
    assert "exposed_comm_fraction" not in answer(compcomm, "sweep", "llama-step")["rows"][0]


# -- help -----------------------------------------------------------------------------------------------------------


def test_short_help_has_the_usual_flags_and_all_of_them_with_help_all(compcomm):
    short, whole = (compcomm("explain", flag)[1] for flag in ("--help", "--help-all"))
    flags = [set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M)) for text in (short, whole)]
    assert {"--tp", "--gpus", "--model", "--format"} <= flags[0] < flags[1]
    assert len(flags[0]) < 45
    assert {FIELDS[name].flag for name in ("tp", "bucket", "qk_norm")} <= flags[1]
    heads = re.findall(r"^(\w.*):$", whole, re.M)
    assert heads[:4] == ["What is asked", "Model", "Layout", "Precision"]
    assert "Output" in heads
    assert "--cp-comm p2p|all_gather|all_to_all" in whole
    assert "[default: tp-cp-dp-pp]" in " ".join(whole.split())


@pytest.mark.slow
def test_words_are_looked_for(compcomm):
    names = [row["name"] for row in answer(compcomm, "models", "list", "mixtral")["rows"]]
    assert names == ["mixtral-8x22b", "mixtral-8x7b"]
    found = answer(compcomm, "columns", "window")["rows"]
    assert {"window", "global_every"} <= {row["name"] for row in found}
    assert len(found) < 10
    code, _, err = compcomm("models", "list", "llamma")
    assert code == 2
    assert "llamma" in err


def test_a_shell_completes_values():
    context, set_flag = click.Context(click.Command("x")), click.Option(["--set"])
    flags = {option.name: option for option in dict(leaves())["sweep"].params}

    def completed(name, text):
        return [item.value for item in flags[name].shell_complete(context, text)]

    assert completed("recompute", "se") == ["selective"]
    assert completed("recompute", "none,f") == ["none,full"]
    assert "h100-sxm" in completed("hardware", "a100-sxm-80gb,h1")[0].split(",")[-1:] + completed("hardware", "h100-s")
    assert "visible_comm_fraction" in completed("columns", "vis")
    assert "llama-3-8b" in completed("model", "llama-3-8")
    assert completion.settings(context, set_flag, "schedule=zb") == ["schedule=zb_h2", "schedule=zb_v"]


NEEDS = r"a\.yaml|config\.json|my-cluster|\.log|\.csv |pretrain\.sh|ds_config|>|--device|-j |--jobs|host\.|measured"


def examples():
    """Every example of every command's help that needs no file of its own."""
    for name, command in [*leaves(), *((name, None) for name in COMMANDS)]:
        epilog = command.epilog if command else ""
        for line in (epilog or "").partition(": ")[2].split(" | "):
            if (
                line
                and not re.search(NEEDS, line)
                and name.split()[0] not in ("calibrate", "measure", "project", "import")
            ):
                yield line


@pytest.mark.slow
@pytest.mark.parametrize("line", sorted(set(examples())))
def test_every_example_of_help_runs(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(line.replace("configs/future.yaml", "future").split()[1:]) in (0, 1)


# -- tables and bars --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["sweep", "demystifying"], ["studies"], ["columns", "tensor"], ["hardware", "show", "h100-sxm"], ["explain",
     "llama-step"], ["models", "list", "llama"], ["sweep", "future", "--tp", "1..4096*2", "--hidden", "1K", "--seq-len",
     "1K"]],
)  # fmt: skip
def test_a_table_is_no_wider_than_the_terminal(compcomm, monkeypatch, arguments):
    words = []
    for width in (80, 120, 300):
        monkeypatch.setenv("COLUMNS", str(width))
        _, out, _ = compcomm(*arguments)
        assert max(map(len, out.splitlines())) <= width
        assert "\x1b" not in out
        words.append(set(re.findall("[A-Za-z]{2,}", re.sub(r"\d+ more column[^:]*:", "", out))))
    assert words[0] | words[1] <= words[2]  # no word is broken


def test_a_column_left_out_is_named_and_a_file_has_them_all(compcomm, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = compcomm("sweep", "demystifying")
    assert "more columns" in out
    assert "hfu" in out.partition("more columns")[2]
    compcomm("sweep", "demystifying", "-o", tmp_path / "o.txt")
    assert "more columns" not in (tmp_path / "o.txt").read_text()
    assert "hfu" in (tmp_path / "o.txt").read_text()


def test_bars_of_characters_are_as_long_as_their_numbers(compcomm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = compcomm("memory", "llama-step", "--plot", "-")
    bars = {m[1]: (len(m[2]), float(m[3])) for m in re.finditer(r"^(\w+) +(█*)[▏▎▍▌▋▊▉]? ([\d.]+) GiB$", out, re.M)}
    long, gib = bars["activations"]
    assert len(bars) >= 5
    assert long > 30
    for name, (length, size) in bars.items():
        assert length == pytest.approx(long * size / gib, abs=1), name
    code, _, err = compcomm("memory", "llama-step", "--plot", "-", "--format", "csv")
    assert code == 2
    assert "--plot -" in err


def test_a_heat_map_of_characters_is_darkest_where_the_value_is_largest():
    set_up = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"gpus": 64, "tp": 8},
              "sweep": {"network": [1, 4], "flops": [1, 4]},
              "plot": {"kind": "heatmap", "x": "network", "y": "flops"}}  # fmt: skip
    plan = make_plan(study_from(set_up, "x.yaml"))
    out = io.StringIO()
    write_plot(out, swept(plan).to_records(), plot_view(plan))
    line = next(line for line in out.getvalue().splitlines() if line.startswith("4"))
    assert line.count("██") == 1
    assert line.index("██") < len(line) / 2


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_stacked_bars_add_up_to_the_step_and_have_the_memory_line():
    step = explain("llama-step")
    panels = [step_stacks(["a"], [step]), memory_stacks(["a"], [step["memory"]])]
    figure = draw_stacks(panels, {"title": "x"})
    times, memory = figure.axes
    assert sum(bar.get_width() for bar in times.patches) == pytest.approx(step["step_s"])
    assert sum(bar.get_width() for bar in memory.patches) == pytest.approx(step["memory_gib"])
    assert memory.lines[-1].get_xdata()[0] == pytest.approx(81559 / 1024)


def test_parts_side_by_side_add_up_to_the_step_where_the_host_binds_too():
    study = {"model": "qwen3-30b-a3b", "hardware": "h100-sxm", "sweep": {"tp": [1, 2]},
             "set": {"gpus": 64, "ep": 8, "etp": 1, "global_batch": 256, "seq_len": 1024}}  # fmt: skip
    rows, _ = explain_over(study_from(study))
    bars = step_stacks([str(row["tp"]) for row in rows], rows)
    assert min(row["host_s"] for row in rows) > 0.01 * rows[0]["step_s"]
    for bar, row in enumerate(rows):
        assert sum(row[name] for name in STEP_PARTS) == pytest.approx(row["step_s"], rel=1e-9)
        assert bars.total(bar) == pytest.approx(row["step_s"], rel=1e-9)


def test_no_operation_is_above_its_roof():
    step = explain("llama-step")
    points, roofs = roofline_points(step["operations"]), step["roofs"]
    assert {"FFN up", "attention", "logits"} <= {point["operation"] for point in points}
    for point in points:
        assert point["flops_per_s"] <= min(roofs["flops"], point["intensity"] * roofs["memory_bytes_per_s"])


def test_a_far_value_does_not_take_the_scale_from_the_others():
    usual = [1.0 + i / 100 for i in range(40)]
    assert scale_end([*usual, 1000.0]) == (max(usual[:-1]), True) or scale_end([*usual, 1000.0])[0] < 2
    assert scale_end(usual) == (max(usual), False)


def test_a_search_names_its_best_layout_and_the_memory_of_the_device(compcomm, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(search_plot.picture, "write_figure", lambda path, figure, meta: drawn.append(figure))
    assert compcomm("search", *STEP, "--tp", "2", "--cp", "1", "--plot", tmp_path / "s.png")[0] == 0
    said = " ".join(text.get_text() for text in drawn[0].axes[0].texts)
    assert "best: tp 2" in said
    assert "the device has 79.65 GiB" in said


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_a_picture_of_any_kind_is_the_same_again(compcomm, tmp_path, suffix):
    assert set(plot.picture.METADATA) == {".png", ".svg", ".pdf"}
    for name in ("a", "b"):
        assert compcomm("explain", "llama-step", "--plot", tmp_path / f"{name}.{suffix}")[0] == 0
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_volumes_are_drawn_as_bars_too(compcomm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = compcomm("volume", "llama-step", "--plot", "-")
    bars = dict(re.findall(r"^([a-z -]+?)  +(█+)\S? [\d.]+ GB$", out, re.M))
    # Two gathers and two scatters forward, as many backward, and two gathers more for the weights.
    assert 2 * len(bars["layer all-gather"]) == 3 * len(bars["layer reduce-scatter"]) > 80

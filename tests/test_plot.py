"""Pictures: the files are made and always the same, and what is drawn is what the rows say."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from comp_comm.configs.study import as_study
from comp_comm.errors import ConfigError, MissingExtraError
from comp_comm.report import views
from comp_comm.report.case_study_plot import PARTS, draw_case_study
from comp_comm.report.picture import quantity, short
from comp_comm.report.plot import check_plot, draw_plot, save_case_study, save_plot
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import sweep

LINES = {"kind": "lines", "x": "tp", "y": "serialized_comm_fraction", "lines": ["hidden", "seq_len", "micro_batch"],
         "per": ["flop_vs_bw"]}  # fmt: skip
HEATMAP = {"kind": "heatmap", "x": "tp", "y": "hidden", "value": "serialized_comm_fraction", "per": []}
SMALL = {
    "title": "Small", "cost_model": "comp_vs_comm", "hardware": "mi210", "set": {"seq_len": "2K", "micro_batch": 1},
    "sweep": {"hidden": ["4K", 1000, "16K"], "tp": [4, 16, 64]},
}  # fmt: skip
SIGNATURES = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml"}


@pytest.fixture(scope="module")
def future():
    result = sweep("future")
    return result.to_records(), result.meta


@pytest.fixture(scope="module")
def three_lines(future):
    plan = make_plan(as_study("future"))
    return views.plotted_rows(plan, future[0]), views.plot_view(plan), future[1]


@pytest.fixture(scope="module")
def scenarios():
    study = {
        "title": "Case study", "hardware": "mi210",
        "cost_model": "comp_vs_comm",
        "set": {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256},
        "zip": [{"inter_node_slowdown": 1, "interference": 1}, {"inter_node_slowdown": 8, "interference": 1},
                {"inter_node_slowdown": 8, "interference": 1.2}],
    }  # fmt: skip
    result = sweep(study)
    texts = ("every link intra-node", "data parallelism over inter-node links, eight times slower", "and interference")
    return [{**row, "scenario": text} for row, text in zip(result.to_records(), texts, strict=True)], result.meta


def small(**changes):
    result = sweep({**SMALL, **changes})
    return result.to_records(), result.meta


def texts_of(figure):
    return " ".join(text.get_text() for text in figure.texts)


def data_lines(axes):
    return {line.get_label(): line for line in axes.lines}


# --- files


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_same_rows_give_the_same_file(tmp_path, three_lines, scenarios, kind):
    rows, meta = small()
    for name in ("first", "second"):
        save_plot(str(tmp_path / f"{name}-lines.{kind}"), *three_lines)
        save_plot(str(tmp_path / f"{name}-heatmap.{kind}"), rows, HEATMAP, meta)
        save_case_study(str(tmp_path / f"{name}-case.{kind}"), *scenarios)
    for what in ("lines", "heatmap", "case"):
        content = (tmp_path / f"first-{what}.{kind}").read_bytes()
        assert content.startswith(SIGNATURES[kind])
        assert content == (tmp_path / f"second-{what}.{kind}").read_bytes()
        assert b"atplotlib" not in content.replace(b"matplotlib.axis", b"")
    assert len(list(tmp_path.iterdir())) == 6  # no temporary file is left


@pytest.mark.slow
def test_a_picture_does_not_depend_on_the_users_settings_and_leaves_them_alone(tmp_path, three_lines):
    save_plot(str(tmp_path / "plain.png"), *three_lines)
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "savefig.bbox": "tight"}):
        save_plot(str(tmp_path / "other.png"), *three_lines)
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "other.png").read_bytes()
    assert matplotlib.rcParams["svg.hashsalt"] is None


@pytest.mark.slow
def test_threads_draw_the_same(tmp_path, three_lines):
    paths = [tmp_path / f"{number}.svg" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: save_plot(str(path), *three_lines), paths))
    assert len({path.read_bytes() for path in paths}) == 1


@pytest.mark.slow
def test_matplotlib_is_loaded_only_to_draw_and_pyplot_never():
    code = (
        "import sys, comp_comm.report.plot as p; assert 'matplotlib' not in sys.modules; "
        "row = {'tp': 4, 'step_s': 1.0}; view = {'kind': 'lines', 'x': 'tp', 'y': 'step_s', 'lines': [], 'per': []}; "
        "p.draw_plot([row], view, {}); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_odd_titles_are_drawn_as_they_are(tmp_path, three_lines):
    rows, view, meta = three_lines
    title = "a $x^2$ & <b> 中文 " + "very " * 60 + "long"
    save_plot(str(tmp_path / "odd.svg"), rows, view, {**meta, "title": title})
    save_plot(str(tmp_path / "odd.png"), rows, view, {**meta, "title": title})
    figure = draw_plot(rows, view, {**meta, "title": title})
    assert "$x^2$ & <b>" in texts_of(figure)


# --- before any computing


@pytest.mark.parametrize("name", ["plot", "plot.gif", "plot.jpg", "-"])
def test_other_extensions_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"allowed: \.png, \.svg"):
        check_plot(str(tmp_path / name))


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no folder"):
        check_plot(str(tmp_path / "absent" / "plot.png"))
    check_plot(str(tmp_path / "plot.PNG"))


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'compcomm\[plot\]'"):
        check_plot(str(tmp_path / "plot.png"))


# --- lines


def test_lines_are_the_rows(three_lines):
    rows, view, meta = three_lines
    figure = draw_plot(rows, view, meta)
    assert [axes.get_title("left") for axes in figure.axes] == ["flop_vs_bw=1", "flop_vs_bw=2", "flop_vs_bw=4"]
    for axes, factor in zip(figure.axes, (1, 2, 4), strict=True):
        lines = data_lines(axes)
        assert list(lines) == ["H=4K, SL=1K, B=1", "H=16K, SL=2K, B=1", "H=64K, SL=4K, B=1"]
        for hidden, line in zip((4096, 16384, 65536), lines.values(), strict=True):
            mine = [row for row in rows if (row["hidden"], row["flop_vs_bw"]) == (hidden, factor)]
            assert list(line.get_xdata()) == [row["tp"] for row in mine]
            shares = [100 * row["serialized_comm_fraction"] for row in mine]
            np.testing.assert_allclose(line.get_ydata(), shares, rtol=1e-12)


def test_powers_of_two_are_labelled_and_percentages_go_to_100(three_lines):
    figure = draw_plot(*three_lines)
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4", "8", "16", "32", "64", "128", "256"]
        assert axes.get_ylim() == (0, 100)
    assert figure.axes[0].get_ylabel() == "serialized communication fraction (%)"
    assert figure.axes[0].get_xlabel() == "tensor-parallel degree, TP"
    legend = figure.axes[-1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(data_lines(figure.axes[0]))


def test_the_title_and_the_conventions_are_said(three_lines):
    said = texts_of(draw_plot(*three_lines))
    for text in ("Communication share as models and hardware evolve", "mi210", "timing A", "count complete",
                 "precision fp16", "serialized communication / (compute + serialized communication)"):  # fmt: skip
        assert text in said
    assert "coincide" not in said


def test_what_does_not_vary_is_said(future):
    rows = [row for row in future[0] if (row["micro_batch"], row["seq_len"], row["flop_vs_bw"]) == (1, 2048, 2)]
    figure = draw_plot(rows, {**LINES, "lines": ["hidden"], "per": []}, future[1])
    assert "SL=2K, B=1, flop_vs_bw=2" in texts_of(figure)


@pytest.mark.slow
def test_many_lines_share_a_compact_legend(future):
    figure = draw_plot(future[0], LINES, future[1])
    assert [len(axes.lines) for axes in figure.axes] == [56, 56, 56]
    legend = [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    assert legend == ["H=1K", "H=2K", "H=4K", "H=8K", "H=16K", "H=32K", "H=64K", "", "SL=1K", "SL=2K", "SL=4K",
                      "SL=8K", "", "B=1", "B=4"]  # fmt: skip
    colours = {}
    for name, line in data_lines(figure.axes[0]).items():
        colours.setdefault(name.split(",")[0], set()).add(to_hex(line.get_color()))
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 7
    assert "Lines that differ only in micro_batch coincide" in texts_of(figure)


def test_a_long_first_axis_is_sampled_in_the_legend():
    rows, meta = small(sweep={"hidden": {"from": 1024, "to": 65536, "step": 1024}, "tp": [4, 8]})
    figure = draw_plot(rows, {**LINES, "lines": ["hidden"], "per": []}, meta)
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len(figure.axes[0].lines) == 64
    assert (len(legend), legend[0], legend[-1]) == (8, "H=1K", "H=64K")


def test_infeasible_points_are_gaps_and_the_caption_says_so():
    rows, meta = small()
    figure = draw_plot(rows, {**LINES, "lines": ["hidden"], "per": []}, meta)
    line = data_lines(figure.axes[0])["H=1000"]
    assert np.isnan(line.get_ydata()).tolist() == [False, True, True]
    assert "Left blank: 2 of 9 points, which are infeasible (" in texts_of(figure)


def test_of_many_points_some_are_marked_and_so_is_each_that_no_line_reaches():
    rows, meta = small(sweep={"hidden": {"from": 1000, "to": 1100, "step": 1}, "tp": [1, 4]})
    rows = [row for row in rows if row["tp"] == 1 or row["hidden"] > 1001]
    figure = draw_plot(rows, {**LINES, "x": "hidden", "lines": ["tp"], "per": []}, meta)
    whole, quarters = figure.axes[0].lines
    assert whole.get_markevery() == list(range(0, 101, 6))
    feasible = np.flatnonzero(np.isfinite(quarters.get_ydata()))
    assert set(feasible) <= set(quarters.get_markevery())


def test_words_on_the_x_axis_are_places():
    rows, meta = small(hardware=["mi210", "h100-sxm", "a100-sxm-80gb"], sweep={"tp": [4, 8]},
                       set={"seq_len": "2K", "micro_batch": 1, "hidden": "4K"})  # fmt: skip
    axes = draw_plot(rows, {**LINES, "x": "hardware", "lines": ["tp"], "per": []}, meta).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["mi210", "h100-sxm", "a100-sxm-80gb"]
    assert list(axes.lines[0].get_xdata()) == [0, 1, 2]


@pytest.mark.a_third
@pytest.mark.parametrize(
    ("hidden", "scale", "label"),
    [(["3K", "5K", "9K"], "linear", "4K"), ([100, 1000, 90000], "log", "1,000"), (["1K", "64K"], "log", "64K")],
)
def test_the_x_scale_follows_the_values(hidden, scale, label):
    rows, meta = small(sweep={"hidden": hidden, "tp": [1]})
    figure = draw_plot(rows, {**LINES, "x": "hidden", "lines": ["tp"], "per": []}, meta)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_xscale() == scale
    assert label in [tick.get_text() for tick in axes.get_xticklabels()]


def test_panels_at_the_edge_of_an_incomplete_grid_are_labelled():
    rows, meta = small(sweep={"hidden": ["4K"], "tp": [4, 8], "flop_vs_bw": [1, 2, 3, 4, 5]})
    figure = draw_plot(rows, {**LINES, "lines": ["hidden"]}, meta)
    assert [bool(axes.get_xlabel()) for axes in figure.axes] == [False, False, True, True, True]
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True, False, False, True, False]


def test_rows_on_one_point_are_refused(future):
    with pytest.raises(ConfigError, match="they differ in seq_len, micro_batch; fix them, or put them under 'per'"):
        draw_plot(future[0], {**LINES, "lines": ["hidden"]}, future[1])
    with pytest.raises(ConfigError, match="they repeat"):
        draw_plot([future[0][0]] * 2, LINES, future[1])


def test_too_many_panels_or_lines_are_refused(future):
    with pytest.raises(ConfigError, match=r"21 panels.*at most 9.*'where' or 'plot: only'"):
        draw_plot(future[0], {**LINES, "lines": ["seq_len", "micro_batch"], "per": ["hidden", "flop_vs_bw"]}, {})
    with pytest.raises(ConfigError, match=r"168 lines.*at most 80"):
        draw_plot(future[0], {**LINES, "lines": ["hidden", "seq_len", "micro_batch", "flop_vs_bw"], "per": []}, {})


def test_nothing_to_draw_is_an_error():
    infeasible = [{"tp": 3, "serialized_comm_fraction": None, "reason": "no"}]
    for rows in ([], infeasible):
        with pytest.raises(ConfigError, match="nothing to draw"):
            draw_plot(rows, {**LINES, "lines": [], "per": []}, {})


def test_an_untitled_plot_is_named_after_its_value():
    figure = draw_plot([{"tp": 4, "step_s": 0.002}], {**LINES, "y": "step_s", "lines": [], "per": []}, {})
    assert figure.texts[0].get_text() == "Step time"
    assert figure.axes[0].get_ylabel() == "step time (ms)"
    assert figure.axes[0].get_legend() is None


# --- heatmap


def test_cells_are_the_rows_in_the_order_of_the_study():
    rows, meta = small()
    figure = draw_plot(rows, HEATMAP, meta)
    axes, bar = figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["4K", "1000", "16K"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4", "16", "64"]
    wanted = [[row["serialized_comm_fraction"] for row in rows if row["hidden"] == h] for h in (4096, 1000, 16384)]
    drawn = axes.collections[0].get_array().reshape(3, 3)
    for row, cells in zip(wanted, drawn, strict=True):
        for value, cell in zip(row, cells, strict=True):
            assert cell is np.ma.masked if value is None else math.isclose(cell, 100 * value, rel_tol=1e-12)
    written = {(text.get_position()[1] - 0.5, text.get_position()[0] - 0.5): text.get_text() for text in axes.texts}
    assert written[0, 0] == f"{100 * wanted[0][0]:.1f}"
    assert len(written) == 7  # the two infeasible ones have no text
    assert bar.get_ylabel() == "serialized communication\nfraction (%)"
    assert "Left blank: 2 of 9 points" in texts_of(figure)


@pytest.mark.slow
def test_a_heatmap_has_a_panel_per_value_and_one_scale(future):
    rows = [row for row in future[0] if row["micro_batch"] == 1 and row["seq_len"] == 2048]
    figure = draw_plot(rows, {**HEATMAP, "per": ["flop_vs_bw"]}, future[1])
    assert [axes.get_title("left") for axes in figure.axes[:3]] == ["flop_vs_bw=1", "flop_vs_bw=2", "flop_vs_bw=4"]
    assert len({axes.collections[0].get_clim() for axes in figure.axes[:3]}) == 1


def test_more_than_200_cells_are_not_annotated():
    rows, meta = small(sweep={"hidden": {"from": 1024, "to": 65536, "step": 1024}, "tp": [1, 2, 4, 8]})
    assert len(draw_plot(rows, HEATMAP, meta).axes[0].texts) == 0
    assert len(draw_plot(rows[:200], HEATMAP, meta).axes[0].texts) == 200


def test_missing_cells_are_blank_and_said():
    rows, meta = small()
    figure = draw_plot([row for row in rows if (row["hidden"], row["tp"]) != (4096, 16)], HEATMAP, meta)
    assert "Left blank: 1 cells that are no point of the study." in texts_of(figure)
    assert len(figure.axes[0].texts) == 6


def test_several_rows_in_a_cell_are_refused(future):
    with pytest.raises(ConfigError, match="seq_len, micro_batch, flop_vs_bw; fix them, or put them under 'per'"):
        draw_plot(future[0], HEATMAP, future[1])


@pytest.mark.slow
def test_a_wide_or_a_constant_value_is_drawn(tmp_path):
    rows, meta = small(sweep={"hidden": ["1K", "64K"], "tp": [1, 256]})
    for value in ("compute_s", "slack_flop_per_byte", "exposed_comm_s"):
        save_plot(str(tmp_path / f"{value}.svg"), rows, {**HEATMAP, "value": value}, meta)
        save_plot(str(tmp_path / f"{value}.png"), rows, {**LINES, "y": value, "lines": ["hidden"], "per": []}, meta)


# --- case study


def test_bars_are_the_shares_of_the_step(scenarios):
    rows, meta = scenarios
    axes = draw_case_study(rows, meta).axes[0]
    unit = rows[0]["step_s"]
    for place, row in enumerate(rows):
        bars = axes.patches[len(PARTS) * place : len(PARTS) * (place + 1)]
        wanted = [row["compute_s"] - row["hidden_comm_s"], row["hidden_comm_s"], row["serialized_comm_s"],
                  row["exposed_comm_s"]]  # fmt: skip
        np.testing.assert_allclose([bar.get_width() for bar in bars], np.array(wanted) / unit, rtol=1e-9, atol=1e-15)
        assert math.isclose(bars[-1].get_x() + bars[-1].get_width(), row["step_s"] / unit, rel_tol=1e-9)
        assert [bool(bar.get_hatch()) for bar in bars] == [False, True, False, False]


def test_bars_say_shares_length_and_communication(scenarios):
    rows, meta = scenarios
    axes = draw_case_study(rows, meta).axes[0]
    said = [text.get_text() for text in axes.texts]
    for row in rows:
        assert f"\N{MULTIPLICATION SIGN}{row['step_s'] / rows[0]['step_s']:.2f}" in said
        assert f"{100 * row['visible_comm_fraction']:.0f} % communication on the critical path" in said
        assert f"{100 * row['serialized_comm_s'] / row['step_s']:.0f} %" in said
    assert "0 %" not in said  # no room, no label
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names[1] == "data parallelism over inter-node\nlinks, eight times slower"


@pytest.mark.slow
def test_no_text_of_a_case_study_is_cut_or_overlaps(scenarios):
    rows, meta = scenarios
    figure = draw_case_study([*rows, {**rows[1], "scenario": "x" * 90}], meta)
    figure.draw_without_rendering()
    axes, page = figure.axes[0], figure.bbox
    shown = [*figure.texts, *axes.texts, *axes.get_yticklabels(), *axes.get_legend().get_texts()]
    boxes = [text.get_window_extent() for text in shown]
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])


def test_an_infeasible_scenario_is_said(scenarios):
    rows, meta = scenarios
    infeasible = {**dict.fromkeys(rows[0]), "scenario": "none", "reason": "tp does not divide hidden"}
    axes = draw_case_study([infeasible, *rows], meta).axes[0]
    assert "infeasible: tp does not divide hidden" in [text.get_text() for text in axes.texts]
    assert "first feasible scenario" in axes.get_xlabel()
    with pytest.raises(ConfigError, match="no scenario is feasible"):
        draw_case_study([infeasible], meta)
    with pytest.raises(ConfigError, match="41 scenarios"):
        draw_case_study([rows[0]] * 41, meta)


# --- words


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("hidden", 65536, "64K"), ("seq_len", 2**20, "1M"), ("hidden", 1000, "1000"), ("tp", 1024, "1024"),
     ("flop_vs_bw", 2.0, "2"), ("hardware", "mi210", "mi210")],
)  # fmt: skip
def test_short_values(name, value, text):
    assert short(name, value) == text


def test_quantities_have_units():
    assert quantity("compute_s", [1e-3, 2e-3, 5.0]) == (1e-3, "compute time (ms)")
    assert quantity("overlap_ratio", [0.5]) == (1.0, "overlap ratio")
    assert quantity("amdahl_edge_flop_per_byte", [3.0]) == (1.0, "Amdahl edge (FLOP/B)")
    assert quantity("exposed_comm_s", [0.0]) == (1e-6, "exposed communication time (us)")

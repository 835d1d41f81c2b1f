"""What a study says of its table and its plot: refused with file, line and key where it is wrong, never ignored."""

import json

import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import load_study
from comp_comm.errors import ConfigError
from comp_comm.report.views import check_plot_block, plot_view, plotted_rows, table_view
from comp_comm.sweeps.plan import make_plan

STUDY = """model: llama-3-8b
hardware: [h100-sxm, b200-sxm]
set: {gpus: 64, global_batch: 256}
sweep: {tp: [1, 2, 4], micro_batch: [1, 2]}
"""
BOTH = "hardware, micro_batch of the rows goes: put them under 'per', or pick points by 'only'"


@pytest.fixture
def plan_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(block, overrides=()):
        (tmp_path / "s.yaml").write_text(f"{STUDY}{block}\n")
        return make_plan(load_study("s.yaml", overrides))

    return make


@pytest.mark.parametrize(("block", "said"), [
    ("table: {row: [tp]}", "table.row: unknown key; did you mean 'rows'? (allowed: rows, columns, value, per)"),
    ("table: {rows: [tp, tpp]}", "table.rows[1]: 'tpp' cannot be shown here; did you mean 'tp'? (allowed: hardware,"),
    ("table: {value: mfuu}", "table.value: 'mfuu' cannot be shown here; did you mean 'mfu'? (allowed: step_s,"),
    ("table: {value: tp}", "table.value: 'tp' cannot be shown here"),
    ("table: {value: }", "table.value: a name is missing"),
    ("table: {rows: [mfu]}", "table.rows[0]: 'mfu' cannot be shown here"),
    ("table: {columns: [tp, pp]}", "table.columns: must be a name, not a list (allowed: hardware,"),
    ("table: {rows: {tp: 1}}", "table.rows: must be a name, not a mapping"),
    ("table: {rows: 3}", "table.rows: must be a name, not 3"),
    ("table: {per: true}", "table.per: must be a name, not true"),
    ("table: tp", "table: must be a mapping of keys to values"),
    ("table: {rows: [tp, tp], columns: micro_batch}", "table.rows: names tp twice"),
    ("table: {rows: [tp], columns: tp}", "table.rows: names tp, which stands under 'columns' already"),
    ("table: {rows: tp, per: tp, columns: micro_batch}", "table.per: names tp, which stands under 'rows' already"),
])  # fmt: skip
def test_a_table_that_is_wrong_is_refused(block, said, plan_of):
    with pytest.raises(ConfigError) as error:
        table_view(plan_of(block))
    assert f"s.yaml:5: {said}" in str(error.value)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(("block", "said"), [
    ("{kind: line}", "kind: 'line' is no kind of plot; did you mean 'lines'? (allowed: lines, heatmap)"),
    ("{kind: [lines]}", "kind: a list is no kind of plot (allowed: lines, heatmap)"),
    ("{x: tpp}", "x: 'tpp' cannot be shown here; did you mean 'tp'?"),
    ("{y: mfuu}", "y: 'mfuu' cannot be shown here; did you mean 'mfu'?"),
    ("{y: 3}", "y: must be a name, not 3"), ("{x: [tp, pp]}", "x: must be a name, not a list"),
    ("{lines: [tpp]}", "lines[0]: 'tpp' cannot be shown here; did you mean 'tp'?"),
    ("{log: true}", "log: unknown key (allowed: kind, x, y, lines, value, per, only)"),
    ("{x: tp, value: mfu}", "value: does not go with 'kind: lines'"),
    ("{kind: heatmap, x: tp, y: micro_batch, lines: hardware}", "lines: does not go with 'kind: heatmap'"),
    ("{kind: heatmap, x: tp}", "y: a name is missing"),
    ("{kind: heatmap, x: tp, y: tp}", "y: names tp, which stands under 'x' already"),
    ("{x: tp, lines: tp}", "lines: names tp, which stands under 'x' already"),
    ("{x: tp, lines: micro_batch, per: micro_batch}", "per: names micro_batch, which stands under 'lines' already"),
    ("{only: {tp: 2}}", "only: must be a list of points"), ("{only: []}", "only: must be a list of points"),
    ("{only: [{}]}", "only: must be a list of points"),
    ("{only: [{tp: 2}, {tp: 3}]}", "only[1].tp: no row has 3; they have 1, 2, 4"),
    ("{only: [{pp: 2}]}", "only[0].pp: no row has 2; they have 1"),
    ("{only: [{gpus: 32}]}", "only[0].gpus: no row has 32; they have 64"),
    ("{only: [{hardware: h100}]}", "only[0].hardware: no row has 'h100'; they have h100-sxm, b200-sxm"),
    ("{only: [{tpp: 2}]}", "only[0].tpp: is no field of the rows; did you mean 'tp'?"),
    ("{only: [{tp: x}]}", "only[0].tp: 'x' is not a number"),
])  # fmt: skip
def test_a_plot_that_is_wrong_is_refused_whether_it_is_drawn_or_not(block, said, plan_of):
    for check in (plot_view, check_plot_block):
        with pytest.raises(ConfigError) as error:
            check(plan_of(f"plot: {block}"))
        assert f"s.yaml:5: plot.{said}" in str(error.value)
        assert len(error.value.problems) == 1


@pytest.mark.parametrize(("block", "said"), [
    ("{x: gpus}", "plot.x: 'gpus' has one value here, and several are needed (allowed: hardware, tp, micro_batch)"),
    ("{lines: [gpus]}", f"plot.lines: does not say where {BOTH}"),
    ("{x: tp, per: micro_batch, lines: gpus}", "plot.lines: does not say where hardware of the rows goes: put it"),
    ("{kind: heatmap, x: tp, y: micro_batch}", "plot: does not say where hardware of the rows goes: put it"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused_before_it_is(block, said, plan_of):
    check_plot_block(plan_of(f"plot: {block}"))
    with pytest.raises(ConfigError) as error:
        plot_view(plan_of(f"plot: {block}"))
    assert f"s.yaml:5: {said}" in str(error.value)


def test_a_flag_may_take_an_axis_from_a_table_and_a_plot(plan_of):
    block = "table: {rows: [tp, ep], columns: micro_batch}\nplot: {x: micro_batch, only: [{tp: 2}, {tp: 4}]}"
    assert table_view(plan_of(block, ["ep=1", "tp=8"])) == {
        "value": "visible_comm_fraction", "columns": "micro_batch", "rows": ["tp"], "per": ["hardware"],
    }  # fmt: skip
    check_plot_block(plan_of(block, ["ep=1", "tp=8"]))


def test_a_point_may_name_what_the_rows_do_not_show(plan_of):
    plan = plan_of("plot: {only: [{tp: 2, heads: 32}]}")
    assert plotted_rows(plan, [{"tp": 1}, {"tp": 2}]) == [{"tp": 2}]


def test_a_table_that_is_no_pivot_says_so(capsys, plan_of, tmp_path):
    plan_of("table: {columns: pp}")
    assert run(["sweep", "s.yaml"]) == 0
    assert "the study's table puts pp across, which has one value here" in capsys.readouterr().err
    assert run(["sweep", "s.yaml", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["rows"]) == 12
    assert "across" not in err


def test_a_sweep_that_draws_nothing_refuses_a_wrong_plot(capsys, plan_of):
    plan_of("plot: {y: mfuu}")
    assert run(["sweep", "s.yaml", "--format", "csv"]) == 2
    assert "s.yaml:5: plot.y: 'mfuu'" in capsys.readouterr().err

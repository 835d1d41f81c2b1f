"""Figures of the four papers: verdicts follow from the numbers, stated values are the papers', every face works."""

from __future__ import annotations

import csv
import io
import json

import pytest

from comp_comm.configs import catalogue
from comp_comm.configs.study import load_study
from comp_comm.reproduce.figure import MET, MISSED, NOT_AVAILABLE, about, between, total, trend, unknown
from comp_comm.reproduce.papers import PAPERS, figures_of

# Whole searches: seconds each, and in the slow tests.
SLOW = {("foundation-models", "best-layouts"), ("foundation-models", "sensitivity"), ("foundation-models", "vision")}
QUICK = [(paper, name) for paper, makers in PAPERS.items() for name in makers if (paper, name) not in SLOW]


def test_a_verdict_follows_from_the_number():
    assert about("x", 50, 52.5, 2.5).verdict == MET
    assert about("x", 50, 52.6, 2.5).verdict == MISSED
    assert between("x", 1, 2, float("nan")).verdict == MISSED
    assert (trend("x", True).verdict, trend("x", False).verdict) == (MET, MISSED)
    assert unknown("x", 3.0).verdict == NOT_AVAILABLE


@pytest.mark.a_third
@pytest.mark.parametrize(("paper", "name"), QUICK)
def test_every_figure_states_something_and_every_miss_has_its_reason(paper, name):
    (made,) = figures_of(paper, name)
    assert made.paper == paper
    assert made.name == name
    assert made.statements
    assert made.rows
    for one in made.statements:
        assert one.verdict != MISSED or one.note, one.quantity
        assert one.verdict != NOT_AVAILABLE or one.ours is not None or one.note
    if made.study and made.study in catalogue.names("study"):
        load_study(made.study).problems.raise_if_any()


# What sentences of the paper state (sections 4.3.2 to 4.3.8), read from its text.
STATED = {
    "fig-10a": {"20", "50"}, "fig-10b": {"20", "55", "17", "140"}, "fig-11a": {"30", "65", "40", "75"},
    "fig-11b": {"50", "100", "80", "210"}, "fig-12": {"48", "9"}, "section-4.3.8": {"196", "2100", "1.5"},
}  # fmt: skip


@pytest.mark.parametrize("name", STATED)
def test_stated_numbers_are_the_papers(name):
    (made,) = figures_of("comp-vs-comm", name)
    assert {one.stated for one in made.statements} - {"yes", NOT_AVAILABLE} == STATED[name]


@pytest.mark.slow
def test_what_is_met_and_missed():
    """The count of statements of Comp-vs-Comm: a change of it is a change of what the docs say."""
    counts = total(figures_of("comp-vs-comm"))
    assert counts == {MET: 49, MISSED: 16, NOT_AVAILABLE: 7}


def test_a_figure_as_statements_and_as_points(compcomm):
    code, out, err = compcomm("reproduce", "comp-vs-comm", "fig-10a", "--format", "json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["meta"]["counts"] == {MET: 3, MISSED: 1, NOT_AVAILABLE: 0}
    code, out, _ = compcomm("reproduce", "comp-vs-comm", "fig-10a", "--rows", "--format", "csv")
    assert code == 0
    assert len(list(csv.DictReader(io.StringIO(out)))) == 21


def test_a_table_ends_with_the_counts(compcomm):
    code, out, _ = compcomm("reproduce", "demystifying", "volumes")
    assert code == 0
    assert "5 met, 0 missed, 1 not available" in out


@pytest.mark.slow
def test_a_figure_is_drawn(compcomm, tmp_path):
    pytest.importorskip("matplotlib")
    code, _, err = compcomm("reproduce", "amped", "megatron", "--plot", tmp_path / "one.png")
    assert code == 0
    assert "wrote" in err
    assert (tmp_path / "one.png").stat().st_size > 10_000


@pytest.mark.parametrize(("arguments", "words"), [
    (("comp-vs-comm", "--rows"), "--rows is for one figure"),
    (("comp-vs-comm", "table-4", "--plot", "x.png"), "nothing to draw"),
    (("amped", "megatron", "--set", "flops=2"), "--set is for the table"),
    (("foundation-models", "layouts", "--gpu", "A100"), "--gpu is for the table"),
    (("amped", "--plot", "x.png"), "name one"),
    (("comp-vs-comm", "fig-99"), "fig-10a"),
])  # fmt: skip
def test_what_means_nothing_is_refused(arguments, words, compcomm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = compcomm("reproduce", *arguments)
    assert code == 2
    assert words in err


@pytest.mark.slow
def test_all_writes_a_page_with_every_figure(compcomm, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = compcomm("reproduce", "all", "-o", tmp_path / "papers")
    page = (tmp_path / "papers" / "index.html").read_text(encoding="utf-8")
    assert code == 0
    assert "73 met, 16 missed, 17 not available" in out
    assert all(f'id="{paper}-{name}"' in page for paper, makers in PAPERS.items() for name in makers)

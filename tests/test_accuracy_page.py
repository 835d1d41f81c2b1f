"""docs/accuracy.md: its tables are those that the measurements beside the checkout give, and agree with each other."""

from __future__ import annotations

import re
import shlex

import accuracy_page as page
import pytest

from comp_comm.cli.main import run

needs_data = pytest.mark.skipif(
    not (page.DATA / "silicon").is_dir(),
    reason="the kernels measured for AIConfigurator's database are not beside the checkout (data/silicon)",
)
POINTS = 0.11  # percentage points that rounding, and another machine's last bits, may make
TEXT = page.PAGE.read_text(encoding="utf-8")


def rows_of(table):
    return [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in table.splitlines()[2:]]


def on_page(name):
    (table,) = [found[3].strip() for found in page.PART.finditer(TEXT) if found[2] == name]
    return rows_of(table)


def assert_same(said, now):
    """Compare rows of two tables: words must be equal, percentages nearly so."""
    assert [row[:4] for row in said] == [row[:4] for row in now]
    for row, other in zip(said, now, strict=True):
        for cell, value in zip(row[4:8], other[4:8], strict=True):
            assert float(cell.rstrip(" %")) == pytest.approx(float(value.rstrip(" %")), abs=POINTS), row
        assert row[8:] == other[8:], f"{row}: run python tests/accuracy_page.py"


@pytest.mark.slow
@needs_data
def test_errors_of_the_shipped_profiles_are_current():
    assert_same(on_page("shipped"), rows_of(page.shipped_table()))


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("profile", sorted({source.profile for source in page.SOURCES}))
def test_errors_of_what_fits_did_not_see_are_current(profile):
    """Those of kernels; fits of collectives take too long for a test, and share what the shipped profiles are from."""
    sources = tuple(s for s in page.SOURCES if s.profile == profile and s.operator != "collective")
    now = rows_of(page.unseen_table(sources=sources))
    of_kernels = {row[1] for row in now}
    assert_same([row for row in on_page("unseen") if row[0] == profile and row[1] in of_kernels], now)


def test_the_list_of_missed_targets_is_that_of_the_table():
    found = [found[3] for found in page.PART.finditer(TEXT) if found[2] == "missed"]
    listed = re.findall(r"^- `([^`]+)`, ([^,]+), (.+): ([\d.]+ %) in the mean", found[0], re.MULTILINE)
    assert listed == [(*row[:3], row[4]) for row in on_page("unseen") if "missed" in row[-1]]


def test_both_tables_are_of_the_same_measurements():
    assert [row[:3] for row in on_page("unseen")] == [row[:3] for row in on_page("shipped")]


def test_the_projection_is_what_is_printed(tmp_path, monkeypatch, capsys):
    table, sample = (re.search(rf"<!-- {name} -->\n```text\n(.*?)```", TEXT, re.DOTALL)[1]
                     for name in ("iterations", "project"))  # fmt: skip
    command, _, printed = sample.partition("\n")
    (tmp_path / "iterations.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(command.removeprefix("$ "))[1:]) == 0
    assert capsys.readouterr().out.split() == printed.split()

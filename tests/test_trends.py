"""Trends: fits against growth that was put in, numbers of the sources, what a forecast must obey, every part."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.formulas.growth import student_975, yearly_growth
from comp_comm.trends.claims import _serialized
from comp_comm.trends.forecast import Assumptions, drawn_factors, forecast
from comp_comm.trends.generations import band, generations
from comp_comm.trends.part import Part, PartSettings
from comp_comm.trends.parts import PARTS
from comp_comm.trends.steps import eq10_tp, paper_share, trained_steps
from comp_comm.trends.tables import Models, devices

# Student's t, 0.975 quantile: any table of it.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 6: 2.447, 9: 2.262, 15: 2.131, 25: 2.060, 60: 2.000}


@pytest.mark.parametrize(("freedom", "quantile"), TABLE.items())
def test_student_is_the_table(freedom, quantile):
    assert student_975(freedom) == pytest.approx(quantile, rel=4e-3)


def test_an_interval_holds_the_growth_that_was_put_in_as_often_as_it_says():
    """Of many samples with a known growth, 95 % of the intervals hold it."""
    random, years = np.random.default_rng(7), np.arange(2017.0, 2027.0)
    held = 0
    for _ in range(600):
        fit = yearly_growth(years, np.exp(np.log(1.5) * (years - 2017) + random.normal(0, 0.3, years.size)))
        held += fit.low <= 1.5 <= fit.high
    assert 0.92 < held / 600 < 0.975


def test_generations_of_nvidia_by_hand():
    """H100 over A100: 989.4 / 312 TFLOP/s by 450 / 300 GB/s; GB200 over H100 with fp4 against fp8."""
    rows = {(row["old"], row["new"]): row for row in generations()}
    assert rows["a100-sxm-80gb", "h100-sxm"]["scale_up_16_bit"] == pytest.approx(989.4 / 312 / 1.5)
    fp4 = rows["h100-sxm", "gb200-nvl72"]["scale_up_fastest_format"]
    assert fp4 == pytest.approx(10000 / 1978.9 / 2)
    # An MI250X is two devices of its profile: 383 TFLOP/s and 400 GB/s a package, an MI300X 1307.4 and 448.
    assert rows["mi250x", "mi300x"]["scale_up_16_bit"] == pytest.approx(1307.4 / 383 * 400 / 448)
    assert band(list(rows.values()), "scale_up_16_bit")[:2] == (6, 23)


def test_every_predecessor_is_older_and_of_the_same_vendor():
    listed = {each.reference: each for each in devices()}
    for each in listed.values():
        if each.after:
            before = listed[each.after].profile
            assert before.vendor == each.profile.vendor
            assert before.year <= each.profile.year


def test_models_say_where_they_are_from_and_what_was_assumed():
    models = Models.read()
    assert len(models.runs) == 98
    assert all(run["source"] and run["date"] for run in models.runs)
    assert {word for run in models.with_layout.runs for word in run["not_stated"].split()} <= {
        "tp", "zero", "mb", "gpus", "dp_shard", "gbs", "split"}  # fmt: skip


@pytest.mark.slow
def test_parameters_of_evaluated_models_are_the_published_ones():
    """Parameters as the layers count them, against what was published: within 5 %."""
    steps = trained_steps()
    published = steps.models.numbers("published_parameters")
    known = ~np.isnan(published)
    assert known.sum() > 30
    np.testing.assert_allclose(steps.columns["parameters"][known], published[known], rtol=0.05)


@pytest.mark.slow
def test_shares_lie_between_everything_and_nothing_overlapped():
    steps = trained_steps()
    visible = steps.columns["visible_comm_fraction"]
    assert (steps.all_overlapped <= visible + 1e-9).all()
    assert (visible <= steps.none_overlapped + 1e-9).all()
    assert (steps.all_overlapped < steps.none_overlapped - 0.01).sum() > 40
    assert (steps.all_overlapped < visible - 0.01).any()
    assert (visible < steps.none_overlapped - 0.01).any()


@pytest.mark.slow
def test_reported_steps_come_out():
    errors = np.asarray([row["error"] for row in PARTS["errors"][0](PartSettings()).rows])
    assert errors.size >= 30
    assert np.median(np.abs(errors)) < 0.13


def test_eq_10_and_the_papers_formula_by_hand():
    """MT-NLG on 80 GiB: 8 x 530 / 3.9 / 2.5; the formula is 1 / (1 + 1.5 (6 H + SL) / (TP k X)) with X of the MI210."""
    assert eq10_tp(np.asarray(530e9), np.asarray(80 * 2.0**30)) == pytest.approx(8 * 530 / 3.9 / 2.5)
    x = 0.66 * 181e12 / (0.748 * 150e9 / 2)
    edge = 1.5 * (6 * 16384 + 8192) / 8
    share = paper_share(
        np.asarray([16384.0] * 2), np.asarray([8192.0] * 2), np.asarray([8.0] * 2), np.asarray([1.8] * 2)
    )
    np.testing.assert_allclose(share, 1 / (1 + edge / x / 1.8), rtol=1e-3)


def test_a_forecast_without_growth_is_today():
    same = tuple((name, 1.0) for name in ("flops", "memory_capacity", "memory_bandwidth", "scale_up", "scale_out"))
    made = forecast("trends/forecast-405b", Assumptions(draws=3, growth=same))
    for label in range(2):
        row = made.record(label)
        assert row["low_fraction"] == row["high_fraction"] == row["today_fraction"]


def test_faster_links_show_less_and_more_flops_show_more():
    still = dict.fromkeys(("flops", "memory_capacity", "memory_bandwidth", "scale_up", "scale_out"), 1.0)

    def median(**grown):
        growth = tuple((still | grown).items())
        return forecast("trends/forecast-kimi-k2", Assumptions(draws=2, growth=growth)).record(0)["median_fraction"]

    assert median(scale_up=1.5, scale_out=1.5) < median() < median(flops=1.5)


def test_draws_follow_the_fit():
    """The median of many draws is the trend's growth to the power of the years."""
    drawn = drawn_factors(Assumptions(draws=4000), 4)
    years = np.asarray([each.profile.year for each in devices() if each.profile.vendor == "nvidia"], float)
    links = np.asarray([each.quantities["scale_out"] for each in devices() if each.profile.vendor == "nvidia"])
    within = (years >= 2017) & (years <= 2026)
    factor = yearly_growth(years[within], links[within]).factor
    assert np.median(drawn["scale_out"]) == pytest.approx(factor**4, rel=0.05)
    assert load_profile("rubin-nvl72").year + 4 == 2030


@pytest.mark.parametrize("growth", [(("flop", 1.0),), (("flops", -1.0),)])
def test_wrong_growth_is_refused(growth):
    with pytest.raises(ConfigError, match="--growth"):
        forecast("trends/forecast-405b", Assumptions(growth=growth))


@pytest.mark.slow
def test_the_command_gives_rows(compcomm):
    code, out, err = compcomm("trends", "shares", "--since", "2025", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err) == (0, "")
    assert len(rows) > 10
    assert all(row["date"] >= "2025" for row in rows)


@pytest.mark.parametrize(("visible", "none", "verdict"), [
    ((0.5, 0.3, 0.1, 0.45), (0.6, 0.5, 0.3, 0.5), "held"), ((0.5, 0.3, 0.1, 0.2), (0.6, 0.5, 0.3, 0.3), "half"),
    ((0.5, 0.3, 0.1, 0.2), (0.6, 0.3, 0.3, 0.3), "did not hold"),
])  # fmt: skip
def test_most_of_a_step_is_communication_where_half_of_the_models_say_so(visible, none, verdict):
    """At least 40 %: of two of four models; else of two if nothing were overlapped. Small and old ones do not count."""
    share = {"year": 2024, "parameters": 2e11, "paper_eq10_fraction": 0.5}
    rows = [{**share, "visible_fraction": one, "none_overlapped_fraction": other}
            for one, other in zip(visible, none, strict=True)]  # fmt: skip
    others = [{**rows[0], **more, "visible_fraction": 0.9} for more in ({"year": 2021}, {"parameters": 1e10})]
    assert _serialized(Part("shares", "", [*rows, *others], ()))["verdict"] == verdict


@pytest.mark.slow
def test_claims_say_their_rule(compcomm):
    code, out, _ = compcomm("trends", "--format", "json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) == 10
    assert {row["verdict"] for row in rows} == {"held", "half", "did not hold"}
    assert all(row["rule"] and row["why"] for row in rows)


@pytest.mark.parametrize(("arguments", "words"), [
    (("shares", "--year", "2030"), "--year means nothing for shares"),
    (("claims", "--since", "2024"), "--since means nothing for claims"),
    (("forecast", "--year", "2026"), "must be from 2027 to 2046"),
    (("forecast", "--growth", "flops"), "quantity=factor"),
    (("all",), "-o FOLDER"),
    (("claims", "--plot", "x.png"), "no picture of claims"),
    (("shares", "--since", "2099"), "no model of the table is as new"),
    (("models", "--since", "2099", "--plot", "x.png"), "--since 2099: no model of the table is as new"),
    (("models", "--since", "nan"), "--since: must be a finite number"),
    (("shares", "--since", "inf"), "--since: must be a finite number"),
    (("forecast", "--seed", "-1"), "'--seed': -1 is not in the range"),
    (("forecast", "--year", "0"), "must be from 2027 to 2046, as rubin-nvl72 is of 2026; not 0"),
])  # fmt: skip
def test_what_means_nothing_is_refused(arguments, words, compcomm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = compcomm("trends", *arguments)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.slow
def test_a_panel_that_no_model_has_a_number_for_is_drawn_empty(compcomm, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "late.svg"
    code, out, err = compcomm("trends", "models", "--since", "2025.9", "--plot", picture, "--format", "json")
    assert (code, err) == (0, f"wrote {picture}\n")
    assert any(all(row[name] is None for row in json.loads(out)["rows"]) for name in ("batch_tokens", "tp"))
    assert "<svg" in picture.read_text(encoding="utf-8")


@pytest.mark.slow
def test_all_writes_a_page_with_every_part(compcomm, tmp_path):
    pytest.importorskip("matplotlib")
    code, _, _ = compcomm("trends", "all", "-o", tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert code == 0
    assert all(f'id="{name}"' in page and (tmp_path / "out" / f"{name}.csv").is_file() for name in PARTS)
    assert page.count("<figure>") == len(PARTS) - 1

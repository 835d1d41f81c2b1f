"""Constants chosen on runs and chosen again without a group; layouts of one model in order."""

from __future__ import annotations

from dataclasses import replace
from math import erf

import numpy as np
import pytest

from comp_comm.validation import refit
from comp_comm.validation.constants import CONSTANTS, attributes, with_values
from comp_comm.validation.layouts import LayoutSet, apart_interval, layout_sets, repeat_noise
from comp_comm.validation.predict import predict, predict_points
from comp_comm.validation.refit import Refit
from comp_comm.validation.table import read_runs


def chosen(*groups, many=5):
    runs = read_runs()
    return predict([run for group in groups for run in [one for one in runs if one["group"] == group][:many]])


@pytest.mark.slow
def test_shipped_values_change_nothing_and_others_do():
    """The list has what the model has: each constant, set to its value, leaves every step as it is."""
    seen = [one for one in chosen("megatron_2020", "lumi_mi250x", "torchtitan", "simumax_b200") if one.counted]
    points, steps = [one.point for one in seen], np.asarray([one.predicted_s for one in seen])
    for constant in CONSTANTS:
        if constant.outside:
            continue
        for value, same in ((constant.value, True), (constant.lowest, False)):
            with attributes({constant.name: value}):
                made = predict_points([with_values(point, {constant.name: value}) for point in points])
            moved = np.asarray([one.predicted_s for one in made]) / steps - 1
            if same:
                assert np.abs(moved).max() < 1e-9, constant.name
            elif constant.value != constant.lowest and any(constant.applies(point) for point in points):
                assert np.abs(moved).max() > 1e-3, constant.name


@pytest.mark.slow
def test_a_group_is_judged_by_what_the_others_ask_for(monkeypatch):
    """Two groups run at 0.75 of isolated GEMMs, one at 0.95: each is predicted without itself."""
    (kept,) = (one for one in CONSTANTS if one.name == "kept")
    monkeypatch.setattr(refit, "CONSTANTS", (kept,))
    seen = chosen("megatron_sc21", "korthikanti2022", "vtrain_multi", many=4)
    asked = {"megatron_sc21": 0.75, "korthikanti2022": 0.75, "vtrain_multi": 0.95}
    there = predict_points([with_values(one.point, {"kept": asked[one.run["group"]]}) for one in seen])
    measured = [replace(one, measured_s=other.predicted_s) for one, other in zip(seen, there, strict=True)]
    judged, values = Refit(measured).judged()
    assert values["vtrain_multi"]["kept"] == pytest.approx(0.75, abs=0.01)
    errors = [one.error for one in judged if one.run["group"] == "vtrain_multi"]
    assert 0.1 < np.mean(errors) < 0.95 / 0.75 - 1  # the whole of it but for what is no GEMM


@pytest.mark.slow
def test_a_constant_that_no_other_run_tells_is_what_it_would_be_unseen(monkeypatch):
    (tells,) = (one for one in CONSTANTS if one.name == "sustained of MI250X")
    monkeypatch.setattr(refit, "CONSTANTS", (tells,))
    fit = Refit(chosen("lumi_mi250x", "megatron_sc21", many=3))
    assert fit.values_without("lumi_mi250x") == {tells.name: tells.untold}
    assert fit.values_without("megatron_sc21")[tells.name] != tells.untold


def test_the_order_and_the_cost_of_a_choice():
    one = LayoutSet("a", "b", "c", 8, np.array([1.0, 1.1, 1.3, 1.2]), np.array([1.2, 1.1, 1.3, 1.4]))
    # Places 0 1 3 2 and 1 0 2 3: 1 - 6 x 4 / (4 x 15).
    assert one.spearman == pytest.approx(0.6)
    assert one.cost == pytest.approx(0.1)
    assert one.apart.size == 6
    assert one.apart.max() == pytest.approx(np.log(1.2) - np.log(1.3 / 1.3))


@pytest.mark.a_third
@pytest.mark.parametrize("gap", [0.01, 0.05, 0.2])
def test_the_order_that_noise_leaves_of_two_layouts(gap):
    """Two measurements a gap apart swap where their noise, of twice the variance, is more: 2 Phi(z) - 1 is kept."""
    pair = np.exp(np.array([0.0, gap]))
    one = LayoutSet("a", "b", "c", 8, pair, pair)
    assert one.attainable(0.03) == pytest.approx(erf(gap / 0.03 / 2), abs=0.05)


def test_noise_is_what_runs_of_one_configuration_differ_by():
    (once,) = chosen("megatron_sc21", many=1)
    seen = [replace(once, measured_s=seconds) for seconds in (1.0, np.exp(0.02), np.exp(0.04))]
    other = replace(once, point=replace(once.point, fields={**once.point.fields, "micro_batch": 1}), measured_s=9.0)
    assert repeat_noise([*seen, other]) == pytest.approx(0.02)
    assert np.isnan(repeat_noise([once, other]))


@pytest.mark.slow
def test_layouts_of_published_models():
    sets = layout_sets(chosen("vtrain_multi", "korthikanti2022", many=60))
    assert len(sets) >= 6
    assert all(one.measured.size >= 2 for one in sets)
    found = apart_interval(chosen("vtrain_multi", "korthikanti2022", many=60))
    assert 1.02 < found.high < 1.2
    assert found.low == pytest.approx(1 / found.high)

"""The least squares of a calibration: optima at bounds, by grids; and all that saves it work, against the plain way."""

from __future__ import annotations

import numpy as np
import pytest

from comp_comm.calibration.fit import _candidates
from comp_comm.calibration.least_squares import cost_of, minimise
from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, ElementwiseRow, GemmRow
from comp_comm.calibration.parameters import start_of, with_numbers
from comp_comm.calibration.samples import make_samples
from comp_comm.calibration.task import task_of
from comp_comm.configs.hardware_file import load_profile
from comp_comm.group import Group
from comp_comm.timing.network import collective_seconds

NUMBERS = {"network.scale-up.bulk_latency": 8e-6, "network.scale-up.eager": 3.0, "network.scale-up.switch_size": 2e6,
           "network.scale-out.chunk_latency": 1e-5, "network.scale-out.chunk_size": 5e4}  # fmt: skip


def drawn(count=60):
    chance = np.random.default_rng(3)
    sizes = [[int(n) for n in 2 ** chance.uniform(7, 14, 3)] for _ in range(count)]
    rows = [GemmRow(1.0, "bf16", 0, *size) for size in sizes]
    rows += [ElementwiseRow(1.0, "bf16", 0, "gelu", a, b) for a, b, _ in sizes]
    rows += [AttentionRow(1.0, "bf16", 0, 2, a, 16, 16, 64 if b % 2 else 128, c % 2 == 0) for a, b, c in sizes]
    rows += [CollectiveRow(1.0, "", 0, kind, float(a * b), 2.0 ** (c % 6 + 1)) for a, b, c in sizes
             for kind in ("all_reduce", "all_gather")]  # fmt: skip
    return rows


def task(operator, profile="a100-sxm-80gb"):
    samples, _ = make_samples(drawn(), "bf16", 8)
    every = [np.ones(len(sample.seconds), bool) for sample in samples]
    return task_of(with_numbers(load_profile(profile), NUMBERS), "bf16", operator, samples, every)


@pytest.mark.parametrize("lowest", [np.log(1e-7), np.log(2e-6)])  # the optimum is inside, and at the bound
@pytest.mark.parametrize("start", [0.0, 2.0, -2.0])
def test_a_number_at_its_bound_lets_the_others_go_on(lowest, start):
    """t = start + bytes / rate with too low a start asked for: the rate is that of the best of a fine grid."""
    chance = np.random.default_rng(0)
    moved = 2 ** chance.uniform(10, 30, 300)
    measured = (5e-7 + moved / 1.5e12) * np.exp(0.08 * chance.standard_normal(300))

    def seconds(x):
        return np.exp(x[0]) + moved * np.exp(x[1])

    low, high = np.array([lowest, -40.0]), np.array([0.0, -20.0])
    found = minimise(seconds, measured, np.array([np.log(5e-6), -27.0 + start]), low, high)
    rates = np.linspace(-28.4, -27.6, 81)
    grid = []
    for latency in lowest + np.linspace(0, 2, 41):
        size = np.abs(np.log(seconds((latency, rates[:, None])) / measured))
        costs = np.where(size < 0.1, 0.5 * size**2, 0.1 * (size - 0.05)).sum(axis=1)  # Huber's, from 10 % on
        grid.append((costs.min(), latency, rates[costs.argmin()]))
    cost, latency, rate = min(grid)
    assert found.cost <= cost * (1 + 1e-9)
    assert found.x == pytest.approx([latency, rate], abs=0.05)
    assert (found.x[0] == lowest) == (lowest > np.log(1e-6))


def test_an_optimum_in_a_corner_is_where_all_slopes_lead_out_or_are_none():
    """Three exponentials in narrow bounds, from many starts: no point nearby is better (Karush, Kuhn, Tucker)."""
    chance = np.random.default_rng(1)
    places = np.linspace(0.1, 5, 60)
    measured = 2 * np.exp(-places) + 0.5 + 0.3 * places

    def curve(x):
        return np.exp(x[0] - places) + np.exp(x[1]) + np.exp(x[2]) * places

    low, high = np.array([-2.0, -0.3, -3.0]), np.array([0.2, 2.0, -1.5])
    ends = [minimise(curve, measured, chance.uniform(low, high), low, high) for _ in range(5)]
    assert max(end.cost for end in ends) == pytest.approx(min(end.cost for end in ends), rel=1e-5)
    for size in (1e-1, 1e-2, 1e-3):
        near = np.clip(ends[0].x + size * chance.standard_normal((300, 3)), low, high)
        assert min(cost_of(np.log(curve(x) / measured)) for x in near) >= ends[0].cost * (1 - 1e-6)
    assert (ends[0].x >= high - 1e-12).any()


@pytest.mark.a_third
@pytest.mark.parametrize("profile", ["a100-sxm-80gb", "h100-sxm"])
@pytest.mark.parametrize("operator", ["gemm", "attention", "elementwise", "collective"])
def test_sets_of_numbers_at_once_are_those_one_by_one(operator, profile):
    """To the last bit, and as a profile that is read anew has them."""
    asked = task(operator, profile)
    used = _candidates(asked.profile, operator, asked)
    values = np.array([start_of(asked.profile, p) for p in used])
    sets = values[:, None] * (1 + 0.1 * np.eye(len(used)))
    together = asked.predict({p.key: row[:, None] for p, row in zip(used, sets, strict=True)})
    assert together.shape == (len(used), len(asked.measured))
    assert len(np.unique(together, axis=0)) > len(used) // 2
    for number, seconds in enumerate(together):
        numbers = {p.key: float(value) for p, value in zip(used, sets[:, number], strict=True)}
        assert np.array_equal(asked.predict(numbers), seconds)
        hardware = with_numbers(asked.profile, numbers).hardware("bf16")
        assert np.array_equal(np.concatenate([sample.predict(hardware) for sample in asked.samples]), seconds)


def test_lines_of_groups_predict_each_row_as_by_itself():
    hardware = with_numbers(load_profile("a100-sxm-80gb"), NUMBERS).hardware("bf16")
    rows = [row for row in drawn() if isinstance(row, CollectiveRow) and row.kind == "all_reduce"]
    (sample,), _ = make_samples(rows, "bf16", 8)
    alone = [float(collective_seconds(hardware, "all_reduce", row.size, Group(row.devices))) for row in rows]
    assert sample.predict(hardware).tolist() == alone
    some = np.arange(len(rows)) % 3 == 0
    assert sample.part(some).predict(hardware).tolist() == [alone[place] for place in np.flatnonzero(some)]

"""Required TP and memory demand against arXiv:2302.02825 Eq 10, Figs 6 and 9 (notes 1.4)."""

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from comp_comm.formulas import scaling

# Table 4: hidden, sequence length.
TABLE_4 = {
    "BERT": (1024, 512), "T5": (1024, 512), "GPT-2": (1600, 1024), "Mega.-LM": (3072, 1024), "T-NLG": (4256, 1024),
    "GPT-3": (12288, 2048), "MT-NLG": (20480, 2048), "PaLM": (18432, 2048),
}  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "memory_scaling", "tp"),
    [
        (530e9, 2, 544), (530e9, 2.5, 435), (530e9, 4, 272), (530e9, 4.4, 247),
        (540e9, 2, 554), (540e9, 2.5, 443), (540e9, 4, 277), (540e9, 4.4, 252),
    ],
)  # fmt: skip
def test_required_tp_of_mt_nlg_and_palm(parameters, memory_scaling, tp):
    """The paper: "(*8) ~250-550"."""
    assert round(float(scaling.required_tp(parameters, memory_scaling))) == tp


@pytest.mark.parametrize(("parameters", "ratio"), [(17e9, 4.4), (175e9, 44.9), (530e9, 135.9), (540e9, 138.5)])
def test_parameter_ratios_of_fig_9(parameters, ratio):
    """At unchanged memory TP grows as the model: p, printed to one digit."""
    assert float(scaling.required_tp(parameters, 1)) / 8 == pytest.approx(ratio, abs=0.05)


@pytest.mark.parametrize(
    ("parameters", "scale", "growth"), [(530e9, 2, 67.9), (540e9, 2, 69.2), (530e9, 2.5, 54.4), (540e9, 2.5, 55.4),
                                        (530e9, 4, 34.0), (540e9, 4, 34.6)]
)  # fmt: skip
def test_tp_growth_of_fig_9(parameters, scale, growth):
    got = float(scaling.required_tp(parameters, scale)) / scaling.BASE_TP
    assert got == pytest.approx(growth, abs=0.051)


def test_the_base_model_runs_at_its_own_degree():
    """Megatron-LM BERT, 3.9B at TP 8, on its own device."""
    assert scaling.required_tp(3.9e9, 1) == 8
    assert scaling.required_tp(7.8e9, 1) == 16
    assert scaling.required_tp(3.9e9, 16) == 0.5
    assert scaling.required_tp(100, 2, base_tp=3, base_parameters=50) == 3
    assert scaling.required_tp(100, 1, base_tp=3, base_parameters=50) == 6


def test_memory_demand_of_fig_6():
    """H x SL relative to BERT: 1, 1, 3.1, 6.0, 8.3, 48, 80, 72."""
    hidden, seq_len = np.array(list(TABLE_4.values())).T
    demand = scaling.memory_demand(hidden, seq_len)
    assert (demand / demand[0]).tolist() == pytest.approx([1, 1, 3.1, 6.0, 8.3, 48, 80, 72], abs=0.03)


def smallest_divisor(number, bound):
    return next((d for d in range(1, number + 1) if number % d == 0 and d >= bound), None)


@settings(max_examples=examples(5), deadline=None, derandomize=True)
@given(st.integers(1, 3000), st.floats(0.01, 3500))
def test_next_divisor_is_the_smallest_that_divides(number, bound):
    expected = smallest_divisor(number, bound * (1 - 1e-12))
    got = scaling.next_divisor(number, bound)
    assert np.isnan(got) if expected is None else got == expected


def test_next_divisor_of_arrays():
    got = scaling.next_divisor([[12], [49], [12]], [1, 5, 6.5, 13])
    expected = [[1, 6, 12, None], [1, 7, 7, 49], [1, 6, 12, None]]
    assert [[None if np.isnan(v) else v for v in row] for row in got] == expected
    assert got.dtype == np.float64


def test_next_divisor_forgives_rounding_only():
    assert scaling.next_divisor(64, 8 * (1 + 1e-13)) == 8
    assert scaling.next_divisor(64, 8 * (1 + 1e-9)) == 16
    assert scaling.next_divisor(64, 64) == 64
    assert np.isnan(scaling.next_divisor(64, 64.001))
    assert isinstance(scaling.next_divisor(64, 3), np.float64)


def test_next_divisor_of_the_paper():
    """MT-NLG's H = 20480 and a required TP of 544: 640 is the next divisor. PaLM's 18432 and 554: 576."""
    assert scaling.next_divisor(20480, 543.6) == 640
    assert scaling.next_divisor(18432, 553.8) == 576
    assert scaling.next_divisor(2**24, 2**23 + 1) == 2**24

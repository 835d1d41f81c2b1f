"""Amdahl's law edge and slack against arXiv:2302.02825's quoted numbers, as notes 1.2, 1.5, 1.6 derive them."""

from fractions import Fraction

import numpy as np
import pytest

from comp_comm.choices import CountedGemms
from comp_comm.formulas import collectives, edges, transformer
from comp_comm.transformer import gemm_count

K = 1024
COMPLETE = gemm_count(CountedGemms.COMPLETE)
PAPER = gemm_count(CountedGemms.PAPER_EXACT)
MODELS = [(65536, 4096, 256), (4096, 1024, 16), (16384, 2048, 64), (1024, 8192, 4)]


@pytest.mark.parametrize(("hidden", "seq_len", "tp"), MODELS)
def test_edges_of_the_table(hidden, seq_len, tp):
    """notes 1.2, rows "edge fwd" and "edge train" at p = 2, exactly."""
    forward = {"passes": 1, "all_reduces": 2}
    assert edges.amdahl_edge(hidden, seq_len, tp, 2, *PAPER, **forward) == Fraction(7 * hidden + seq_len, 2 * tp)
    assert edges.amdahl_edge(hidden, seq_len, tp, **forward) == Fraction(6 * hidden + seq_len, tp)
    assert edges.amdahl_edge(hidden, seq_len, tp, 2, *PAPER) == Fraction(3, 4) * Fraction(7 * hidden + seq_len, tp)
    assert edges.amdahl_edge(hidden, seq_len, tp) == Fraction(3, 2) * Fraction(6 * hidden + seq_len, tp)


@pytest.mark.parametrize("count", [gemm_count(counted) for counted in CountedGemms], ids=CountedGemms.words())
@pytest.mark.parametrize(("hidden", "seq_len", "tp"), MODELS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_edge_is_flops_over_bytes(count, hidden, seq_len, tp, size):
    """Whatever the batch: the layer's FLOP over the bytes of its all-reduces, each from its own formula."""
    for batch in (1, 3):
        forward = transformer.layer_forward_flops(hidden, seq_len, batch, tp, *count)
        message = transformer.activation_message_bytes(hidden, seq_len, batch, size)
        edge = edges.amdahl_edge(hidden, seq_len, tp, size, *count)
        assert edge == pytest.approx(transformer.training_flops(forward) / (4 * message), rel=1e-14)
        edge = edges.amdahl_edge(hidden, seq_len, tp, size, *count, passes=4, all_reduces=6)
        assert edge == pytest.approx(transformer.training_flops(forward, 1) / (6 * message), rel=1e-14)


@pytest.mark.parametrize(("hidden", "seq_len", "batch"), [(65536, 4096, 1), (1024, 2048, 4), (12288, 1000, 3)])
def test_slack_of_the_table(hidden, seq_len, batch):
    """notes 1.2: 2T for one FC matrix at FP16, 2T(1 + SL/6H) and 2T(1 + SL/7H) for a layer."""
    tokens = seq_len * batch
    assert edges.slack_advantage(seq_len, batch) == 2 * tokens
    assert edges.slack_advantage(seq_len, batch, 4) == tokens
    assert edges.slack_advantage(seq_len, batch, 1) == 4 * tokens
    complete = edges.layer_slack_advantage(hidden, seq_len, batch)
    assert complete == pytest.approx(2 * tokens * (1 + seq_len / (6 * hidden)), rel=1e-14)
    paper = edges.layer_slack_advantage(hidden, seq_len, batch, 2, *PAPER)
    assert paper == pytest.approx(2 * tokens * (1 + seq_len / (7 * hidden)), rel=1e-14)
    assert edges.layer_slack_advantage(hidden, seq_len, batch, 4) == pytest.approx(complete / 2)
    # Eq 7 over Eq 8, each from its own formula and whatever TP.
    gradient = 2 * transformer.layer_weights(hidden, 8, 1, 0)
    backward = transformer.fc_backward_flops(hidden, seq_len, batch, 8)
    assert edges.slack_advantage(seq_len, batch) == pytest.approx(backward / gradient, rel=1e-14)


# notes 1.5: (quoted share, H, SL, TP) -> X, complete and paper_exact.
INVERSIONS = [
    (0.50, 64 * K, 4 * K, 256, 2328, 1356),
    (0.48, 64 * K, 4 * K, 256, 2149, 1252),
    (0.20, 4 * K, 1 * K, 16, 600, 348),
    (0.20, 4 * K, 4 * K, 16, 672, 384),
    (0.20, 16 * K, 2 * K, 64, 588, 342),
]


@pytest.mark.parametrize(("share", "hidden", "seq_len", "tp", "complete", "paper"), INVERSIONS)
def test_shares_at_the_x_they_demand(share, hidden, seq_len, tp, complete, paper):
    for x, count in ((complete, gemm_count(CountedGemms.COMPLETE)), (paper, PAPER)):
        edge = edges.amdahl_edge(hidden, seq_len, tp, 2, *count)
        assert edges.serialized_fraction(edge, x) == pytest.approx(share, abs=2e-4)  # X is rounded to 1
        # X compute time per byte and 1 byte: the same share from seconds.
        assert edges.serialized_fraction(edge / x, 1) == pytest.approx(share, abs=2e-4)


@pytest.mark.parametrize(
    ("ratio", "seq_len", "batch", "x"), [(0.2, 4096, 1, 1638), (0.55, 1024, 4, 4506), (1.4, 1024, 1, 2867),
                                         (0.17, 8192, 1, 2785), (0.17, 1024, 4, 1393)]
)  # fmt: skip
def test_overlap_ratios_at_the_x_they_demand(ratio, seq_len, batch, x):
    """notes 1.5, the rows of Fig 10(b)."""
    assert edges.overlap_ratio(x, edges.slack_advantage(seq_len, batch)) == pytest.approx(ratio, rel=5e-4)


@pytest.mark.parametrize(("efficiency", "bandwidth", "x"), [(1.29, 100, 2328), (0.96, 75, 2328), (1.19, 100, 2149),
                                                            (0.75, 75 * 0.85, 2129), (0.33, 100, 600)])  # fmt: skip
def test_x_of_an_mi210(efficiency, bandwidth, x):
    """notes 1.5: e to two digits, 181 TFLOP/s, A in GB/s; 1.8: the pair (.75, .85) -> 2129."""
    got = edges.flop_per_reduced_byte(efficiency * 181e12, bandwidth * 1e9)
    assert got == pytest.approx(x, rel=0.006 / efficiency)
    if x == 2129:
        assert round(float(got)) == 2129
        assert round(float(edges.flop_per_reduced_byte(0.66 * 181e12, 0.748 * 150e9 / 2))) == 2129


def test_algorithm_bandwidth_of_four_devices():
    """notes 1.5: A = 100 GB/s is a ring of N = 4 at 150 GB/s, 75 GB/s one of N -> infinity."""
    assert 150 / collectives.all_reduce_bus_factor(4) == pytest.approx(100)
    assert 150 / collectives.all_reduce_bus_factor(np.inf) == 75


# --- notes 1.6: the case study, without hardware -----------------------------------------------------------------


def shares(tp, k, tokens, x, seq_len=4 * K, count=COMPLETE):
    """Serialized and data-parallel communication over compute + serialized, from edge and slack alone."""
    hidden = 64 * K
    edge = edges.amdahl_edge(hidden, seq_len, tp, 2, *count)
    slack = edges.layer_slack_advantage(hidden, seq_len, tokens / seq_len, 2, *count)
    serialized = edges.serialized_fraction(edge, k * x)
    return serialized, edges.overlap_ratio(k * x, slack) * (1 - serialized) * 2 / 3


@pytest.mark.parametrize(
    ("tp", "k", "tokens", "seq_len"),
    [(256, 1, 4 * K, 4 * K), (128, 2, 8 * K, 8 * K), (128, 2, 8 * K, 2 * K), (64, 4, 16 * K, 4 * K)],
)
def test_equivalent_case_studies(tp, k, tokens, seq_len):
    serialized, overlapped = shares(tp, k, tokens, 2129, seq_len)
    assert serialized == pytest.approx(0.48, abs=0.005)
    assert overlapped == pytest.approx(0.09, abs=0.0025)


@pytest.mark.parametrize(
    ("tp", "k", "printed"),
    [(128, 4, (64.7, 24.2)), (256, 4, (78.5, 14.7)), (128, 1, (31.4, 11.8)), (256, 1, (47.8, 9.0))],
)
def test_other_case_studies(tp, k, printed):
    assert [100 * float(s) for s in shares(tp, k, 4 * K, 2129)] == pytest.approx(printed, abs=0.055)


@pytest.mark.parametrize(("count", "x", "tp"), [("complete", 2149, 256.0), ("paper_exact", None, 149)])
def test_the_two_shares_fix_tp(count, x, tp):
    """TP T = (r / q) (9/2) H in the complete count; 48 % and 9 % give TP = 256.0 (149 in the paper's count)."""
    r, q = 0.48 / 0.52, 0.09 / (0.52 * 2 / 3)
    low, high = 1.0, 4096.0
    for _ in range(60):  # bisect on the formulas: the TP at which both shares come out
        middle = (low + high) / 2
        edge = edges.amdahl_edge(64 * K, 4 * K, middle, 2, *gemm_count(CountedGemms.of(count)))
        slack = edges.layer_slack_advantage(64 * K, 4 * K, 1, 2, *gemm_count(CountedGemms.of(count)))
        low, high = (middle, high) if r * edge > q * slack else (low, middle)
    assert low == pytest.approx(tp, abs=0.5 if x is None else 0.05)
    if x:
        assert q * slack == pytest.approx(x, rel=5e-4)


# --- the ratios themselves -------------------------------------------------------------------------------------------


def test_serialized_fraction_of_known_times():
    assert edges.serialized_fraction(3, 1) == 0.25
    assert edges.serialized_fraction([1.0, 1.0], [[0.0], [3.0]]).tolist() == [[0, 0], [0.75, 0.75]]
    compute, serialized = np.full(3, 2.0), np.full(3, 2.0)
    assert edges.serialized_fraction(compute, serialized).tolist() == [0.5] * 3
    assert compute.tolist() == serialized.tolist() == [2.0] * 3  # written into a sum of its own
    assert edges.serialized_fraction(np.int32(3), np.int32(1)) == 0.25
    assert edges.serialized_fraction(np.float32([3]), np.float32([1])).dtype == np.float64


def test_overlap_ratio_exceeds_one_where_some_is_exposed():
    assert edges.overlap_ratio(5, 4) == 1.25
    assert edges.overlap_ratio(1, 4) == 0.25
    assert edges.overlap_ratio([0, 8], 4).tolist() == [0, 2]

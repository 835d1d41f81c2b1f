"""Where a calibration begins and ends: rows that a number needs, what chance does, and which row is in which class."""

from __future__ import annotations

import numpy as np
import pytest
from test_calibrate_fit import fitted, timed

from comp_comm.calibration import fit
from comp_comm.calibration.least_squares import Solution, spreads
from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, ElementwiseRow, GemmRow
from comp_comm.calibration.parameters import with_numbers
from comp_comm.calibration.samples import make_samples
from comp_comm.configs.hardware_file import load_profile

MIB = 2**20
STREAMS = ("timing.stream_efficiency", "timing.stream_latency")
WHOLE_ROWS = ("timing.stream_reread", "timing.stream_row_latency")
PROTOCOLS = ("bulk_latency", "eager", "switch_size")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_chance_alone_asks_for_no_further_number(monkeypatch, seed):
    """Rows of one protocol with noise: a second one makes the fit a little better, as any number would."""
    monkeypatch.setattr(fit, "SWITCHES", (2.0**18, 2.0**20, 2.0**22))
    measured = load_profile("a100-sxm-80gb")
    plain = with_numbers(measured, {key: 0.0 for key in measured.numbers if key.endswith(PROTOCOLS)})
    rows = [CollectiveRow(1.0, "", 0, "all_reduce", 2**power, n) for power in range(10, 30, 2) for n in (2, 4, 8)]
    _, found = fitted(timed(rows, plain, 0.05, seed), plain)
    assert not [key for key in found.values if key.endswith(PROTOCOLS)]
    assert len(found.values) >= 3
    for name in ("bulk_latency", "eager"):
        assert found.left[f"network.scale-up.{name}"] == "the rows are no better with it"


@pytest.mark.slow
def test_a_second_protocol_that_is_there_is_found(monkeypatch):
    """Three in ten times as slow a hop, from 1 MiB a device on: with the size at which it begins."""
    monkeypatch.setattr(fit, "SWITCHES", (2.0**18, 2.0**20, 2.0**22))
    measured = load_profile("a100-sxm-80gb")
    plain = with_numbers(measured, {key: 0.0 for key in measured.numbers if key.endswith(PROTOCOLS)})
    true = {"network.scale-up.bulk_latency": 20e-6, "network.scale-up.switch_size": 2.0**20}
    rows = [CollectiveRow(1.0, "", 0, "all_reduce", 2**power, n) for power in range(10, 30, 2) for n in (2, 4, 8)]
    _, found = fitted(timed(rows, with_numbers(plain, true), 0.01), plain)
    assert found.values["network.scale-up.bulk_latency"].value == pytest.approx(20e-6, rel=0.1)
    assert found.values["network.scale-up.switch_size"].value == 2.0**20
    assert "network.scale-up.eager" not in found.values  # there is none, and the rows hardly tell


def test_a_standard_error_is_that_of_a_mean():
    """Four rows that one number scales: the deviation over n - 1, over the root of n."""
    residuals = np.array([0.02, -0.01, 0.03, -0.04])
    (width,) = spreads(Solution(np.zeros(1), 1.0, np.ones((4, 1)), residuals))
    assert width == pytest.approx(np.sqrt(np.sum(residuals**2) / 3 / 4))


@pytest.mark.parametrize(("count", "more"), [(14, False), (15, True), (18, True)])
def test_a_number_needs_three_rows(count, more):
    """Two numbers, two further ones and one to spare: fifteen rows."""
    measured = load_profile("mi210")
    unknown = with_numbers(measured, dict.fromkeys(WHOLE_ROWS, 0.0))
    true = {"timing.stream_efficiency": 0.6, "timing.stream_latency": 8e-6, "timing.stream_reread": 0.5,
            "timing.stream_row_latency": 5e-9}  # fmt: skip
    shapes = [(op, n, columns) for columns in (128, 16384, 2048) for n in (64, 8192) for op in
              ("layernorm", "softmax", "gelu")]  # fmt: skip
    rows = [ElementwiseRow(1.0, "bf16", 0, op, n, columns) for op, n, columns in shapes[:count]]
    _, found = fitted(timed(rows, with_numbers(measured, true), 0.001), unknown)
    assert set(found.values) == {*STREAMS, *(WHOLE_ROWS if more else ())}
    assert all((key in found.left) != more for key in WHOLE_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "fitted_ones"), [(5, 1), (6, 2)])
def test_as_many_numbers_as_rows_allow(count, fitted_ones):
    rows = [ElementwiseRow(1.0, "bf16", 0, "gelu", 2**n, 4096) for n in np.linspace(2, 16, count).astype(int)]
    _, found = fitted(timed(rows, load_profile("h100-sxm"), 0.001), load_profile("h100-sxm"))
    assert len(found.values) == fitted_ones
    assert sum("too few to fit 2 numbers" in why for why in found.left.values()) == 2 - fitted_ones


# -- classes ----------------------------------------------------------------------------------------------------------


def classes(rows, domain=8):
    """Return how many rows are in each class, by what they are of, and which a fit may use."""
    samples, _ = make_samples(rows, "bf16", domain)
    return {(s.operator, s.collective): ({name: mask.tolist() for name, mask in s.sizes.items()}, s.fitted.tolist())
            for s in samples}  # fmt: skip


def test_streams_by_what_they_move():
    """Of 16 bits, read once and written once; an addition reads two."""
    counts = (MIB // 4 - 4, MIB // 4, 16 * MIB - 4, 16 * MIB)
    rows = [ElementwiseRow(1.0, "bf16", 0, "gelu", n // 4, 4) for n in counts]
    rows += [ElementwiseRow(1.0, "bf16", 0, "add", MIB // 6, 1), ElementwiseRow(1.0, "bf16", 0, "add", MIB // 6 + 1, 1)]
    found = classes(rows)
    assert found["elementwise", "gelu"][0] == {
        "< 1 MiB": [True, False, False, False], "1 to 64 MiB": [False, True, True, False],
        ">= 64 MiB": [False, False, False, True],
    }  # fmt: skip
    assert found["elementwise", "add"][0]["< 1 MiB"] == [True, False]


def test_softmax_reads_long_rows_again():
    """For its sum and for its results: 1024 numbers stay in registers, one more do not."""
    numbers = {"timing.stream_efficiency": 1.0, "timing.stream_latency": 0.0, "timing.stream_reread": 1.0,
               "timing.stream_row_latency": 0.0}  # fmt: skip
    profile = with_numbers(load_profile("mi210"), numbers)
    rows = [ElementwiseRow(1.0, "bf16", 0, "softmax", 1000, columns) for columns in (1024, 1025)]
    (sample,), _ = make_samples(rows, "bf16", 8)
    moved = sample.predict(profile.hardware("bf16")) * profile.value("memory.bandwidth")
    assert moved.tolist() == pytest.approx([2 * 2 * 1000 * 1024, (2 + 2) * 2 * 1000 * 1025])


def test_products_by_their_sides_and_flop():
    sides = [(127, 4096, 4096), (128, 4096, 4096), (255, 256, 4096), (256, 256, 4096), (8192, 8192, 8192)]
    found = classes([GemmRow(1.0, "bf16", 0, *side) for side in sides])["gemm", ""]
    assert found[0]["< 128"] == [True, False, False, False, False]
    assert found[0]["128 to 255"] == [False, True, True, False, False]
    assert found[0]["m, n, k >= 256"] == [False, False, False, True, True]
    assert found[1] == [False, True, True, True, True]  # less than a tile tells a fit nothing
    flops = [2.0 * m * n * k for m, n, k in sides]
    assert found[0]["< 1 GFLOP"] == [f < 1e9 for f in flops]
    assert found[0]["1 to 10 GFLOP"] == [1e9 <= f < 1e10 for f in flops]
    assert found[0][">= 1 TFLOP"] == [f >= 1e12 for f in flops] == [False] * 4 + [True]


def test_attention_by_length_and_head():
    rows = [AttentionRow(1.0, "bf16", 0, 1, seq, 8, 8, dim, True)
            for seq, dim in ((511, 128), (512, 64), (1023, 128), (1024, 64), (1024, 96), (2048, 128))]  # fmt: skip
    sizes, used = classes(rows)["attention", ""]
    assert sizes["seq_len >= 1024, head_dim 64 and 128"] == [False, False, False, True, False, True]
    assert sizes["seq_len < 1024"] == [True, True, True, False, False, False]
    assert sizes["other head_dim"] == [False, False, False, False, True, False]
    assert used == [False, True, True, True, False, True]


def test_collectives_by_place_and_size():
    """Eight to a domain: nodes that bring fewer have them apart; four of four nodes are across."""
    rows = [CollectiveRow(1.0, "", 0, "all_reduce", size, n, each) for size in (1023, 1024, MIB - 1, MIB)
            for n, each in ((8, 8), (8, 0), (16, 8), (4, 1), (4, 4), (2, 1))]  # fmt: skip
    sizes, used = classes(rows)["collective", "all_reduce"]
    inside = [True, True, False, False, True, False]
    assert sizes["< 1 MiB in a domain"] == inside * 3 + [False] * 6
    assert sizes[">= 1 MiB in a domain"] == [False] * 18 + inside
    assert sizes[">= 1 MiB across domains"] == [False] * 18 + [not place for place in inside]
    assert sizes["< 1 MiB across domains"] == [not place for place in inside] * 3 + [False] * 6
    assert used == [False] * 6 + [True] * 18


def test_rows_that_are_left_out_are_counted():
    rows = [GemmRow(1.0, "bf16", 0, 256, 256, 256), GemmRow(1.0, "fp16", 0, 256, 256, 256),
            GemmRow(1.0, "fp8", 0, 256, 256, 256), GemmRow(1.0, "", 0, 256, 256, 256),
            ElementwiseRow(1.0, "bf16", 0, "frobnicate", 1, 1)]  # fmt: skip
    samples, left = make_samples(rows, "bf16", 8)
    assert [len(sample.seconds) for sample in samples] == [3]  # the 16-bit formats, and one that does not say
    assert sorted(left.values()) == [1, 1]
    assert any("--precision fp8" in why for why in left)
    (alone,), _ = make_samples(rows, "fp8", 8)
    assert len(alone.seconds) == 2

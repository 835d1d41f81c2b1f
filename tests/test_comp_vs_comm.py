"""The cost model and its timing presets against the numbers of arXiv:2302.02825.

"Notes" are the project's research notes on that paper: section 1.2 derives the constants, 1.5 and 1.6 invert its quoted
numbers, 1.8 and 1.9 fit the presets and print what they give.
"""

import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from comp_comm.choices import CountedGemms
from comp_comm.configs.hardware_file import load_profile
from comp_comm.costmodels import Scenario
from comp_comm.costmodels.comp_vs_comm import MODEL
from comp_comm.costmodels.comp_vs_comm.model import evaluate
from comp_comm.formulas import collectives
from comp_comm.group import Group
from comp_comm.hardware.evolution import evolve
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.layout import Layout
from comp_comm.sweeps.case_study import case_study
from comp_comm.sweeps.result import sweep
from comp_comm.timing.compute import gemm_seconds_per_flop, memory_seconds
from comp_comm.timing.members import members_in, tier_bandwidth
from comp_comm.timing.ring_all_reduce import all_reduce_seconds, bandwidth_needed, group_bandwidth, ring_hop_seconds
from comp_comm.transformer import GemmCount, Transformer, gemm_count
from comp_comm.violation import Violation, divides

K = 1024
TPS = (4, 8, 16, 32, 64, 128, 256)
GROWTHS = (1, 2, 4)


@pytest.fixture(scope="module")
def mi210():
    profile = load_profile("mi210")
    return {name: profile.hardware("fp16", name) for name in "ABC"}


def breakdown(hardware, hidden, seq_len, tp, k=1, batch=1, **more):
    dp = more.pop("dp", np.inf)
    layout = Layout(micro_batch=batch, tp=tp, dp=dp)
    scenario = Scenario(Transformer(hidden, seq_len), layout, evolve(hardware, flop_vs_bw=k), **more)
    return evaluate(scenario)


def column(name, *args, **more):
    return MODEL.columns[name].of(breakdown(*args, **more))


# --- preset A: notes 1.9, printed in percent at k = 1 / 2 / 4 ----------------------------------------------------

GRID = """
1K,1K  | 44/61/76 61/76/86 76/86/93 86/93/96 93/96/98 96/98/99 98/99/100
4K,1K  | 18/31/47 31/47/64 47/64/78 64/78/88 78/88/93 88/93/97 93/97/98
4K,4K  | 17/28/44 28/44/61 44/61/76 61/76/86 76/86/93 86/93/96 93/96/98
16K,2K | 5/10/18  10/18/31 18/31/48 31/48/64 48/64/78 64/78/88 78/88/94
64K,4K | 1/3/5    3/5/10   5/10/19  10/19/31 19/31/48 31/48/65 48/65/79
"""


def printed_grid():
    for line in GRID.split("\n")[1:-1]:
        model, cells = line.split("|")
        hidden, seq_len = (int(part.strip().removesuffix("K")) * K for part in model.split(","))
        for tp, cell in zip(TPS, cells.split(), strict=True):
            yield from ((hidden, seq_len, tp, k, int(text)) for k, text in zip(GROWTHS, cell.split("/"), strict=True))


def test_the_printed_grid_is_whole():
    assert len(list(printed_grid())) == 5 * 7 * 3


def test_preset_a_gives_the_printed_grid(mi210):
    for hidden, seq_len, tp, k, percent in printed_grid():
        got = 100 * float(column("serialized_comm_fraction", mi210["A"], hidden, seq_len, tp, k))
        assert got == pytest.approx(percent, abs=0.501), (hidden, seq_len, tp, k)


@pytest.mark.parametrize(("k", "percent"), [(1, 47.8), (2, 64.7), (4, 78.5)])
def test_preset_a_at_the_papers_largest_model(mi210, k, percent):
    got = 100 * column("serialized_comm_fraction", mi210["A"], 64 * K, 4 * K, 256, k)
    assert got == pytest.approx(percent, abs=0.05)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("hidden", "seq_len", "tp", "k"), [(64 * K, 4 * K, 256, 1), (4 * K, 1 * K, 16, 4), (1 * K, 8 * K, 8, 2)]
)
def test_preset_a_seconds(mi210, hidden, seq_len, tp, k, batch):
    """Compute is 12 H T (6 H + SL) / TP over 0.66 x 181e12 x k; a byte is reduced as 2 over 0.748 x 150 GB/s."""
    b = breakdown(mi210["A"], hidden, seq_len, tp, k, batch)
    tokens, network = seq_len * batch, 0.748 * 150e9
    compute = 12 * hidden * tokens * (6 * hidden + seq_len) / tp / (0.66 * 181e12 * k)
    assert b.compute_s == pytest.approx(compute, rel=1e-12)
    assert b.hiding_compute_s == pytest.approx(compute * 2 / 3, rel=1e-12)
    assert b.serialized_comm_s == pytest.approx(4 * (2 * hidden * tokens) * 2 / network, rel=1e-12)
    assert b.overlapped_comm_s == pytest.approx(2 * 12 * hidden**2 / tp * 2 / network, rel=1e-12)
    assert b.region_comm_s == pytest.approx(2 * 4 * hidden**2 / tp * 2 / network, rel=1e-12)
    assert b.region_compute_s == pytest.approx(16 * hidden**2 * tokens / tp / (0.66 * 181e12 * k), rel=1e-12)


@pytest.mark.parametrize("hidden", [1 * K, 16 * K, 64 * K])
@pytest.mark.parametrize(("tokens", "percent"), [(1, 104), (2, 52), (4, 26), (8, 13), (16, 6), (32, 3)])
def test_preset_a_overlap_ratio_at_tp_16(mi210, hidden, tokens, percent):
    """notes 1.9: 104, 52, 26, 13, 6, 3 % at any H."""
    got = 100 * column("overlap_ratio", mi210["A"], hidden, tokens * K, 16)
    assert got == pytest.approx(percent, abs=0.51)
    batch = tokens * 2
    assert 100 * column("overlap_ratio", mi210["A"], hidden, K // 2, 16, batch=batch) == pytest.approx(got, rel=1e-12)


def test_x_is_2129_flop_per_reduced_byte(mi210):
    """X from the model's own seconds: FLOP/s over message bytes/s; the number that preset A is about."""
    b = breakdown(mi210["A"], 64 * K, 4 * K, 256)
    flops = 12 * 64 * K * 4 * K * (6 * 64 * K + 4 * K) / 256
    x = (flops / b.compute_s) / (4 * 2 * 64 * K * 4 * K / b.serialized_comm_s)
    assert round(float(x)) == 2129
    assert x == pytest.approx(float(b.amdahl_edge_flop_per_byte * b.serialized_comm_s / b.compute_s), rel=1e-12)
    assert x == pytest.approx(float(b.slack_flop_per_byte * b.region_comm_s / b.region_compute_s), rel=1e-12)


@pytest.mark.parametrize(
    ("hidden", "seq_len", "batch", "tp"), [(64 * K, 4 * K, 1, 256), (1 * K, 8 * K, 4, 4), (16 * K, 2 * K, 4, 64)]
)
def test_edge_and_slack_of_both_counts(mi210, hidden, seq_len, batch, tp):
    """1.5 (6H + SL) / TP and 0.75 (7H + SL) / TP; 2 SL B in either count."""
    for count, edge in (
        ("complete", 1.5 * (6 * hidden + seq_len) / tp),
        ("paper_exact", 0.75 * (7 * hidden + seq_len) / tp),
    ):
        b = breakdown(mi210["A"], hidden, seq_len, tp, batch=batch, gemm_count=gemm_count(CountedGemms.of(count)))
        assert b.amdahl_edge_flop_per_byte == edge
        assert b.slack_flop_per_byte == 2 * seq_len * batch


def test_the_papers_count_has_less_compute_and_the_same_messages(mi210):
    """notes 1.1: (14 H^2 + 2 H SL) T / TP forward, 7 H^2 weights, and one FC matrix as region in both."""
    hidden, seq_len, tp = 16 * K, 2 * K, 64
    complete = breakdown(mi210["A"], hidden, seq_len, tp)
    paper = breakdown(mi210["A"], hidden, seq_len, tp, gemm_count=gemm_count(CountedGemms.PAPER_EXACT))
    flops = 3 * (14 * hidden**2 + 2 * hidden * seq_len) * seq_len / tp
    assert paper.compute_s == pytest.approx(flops / (0.66 * 181e12), rel=1e-12)
    assert paper.serialized_comm_s == complete.serialized_comm_s
    assert paper.overlapped_comm_s == pytest.approx(complete.overlapped_comm_s * 7 / 12, rel=1e-12)
    assert paper.region_comm_s == complete.region_comm_s
    assert paper.region_compute_s == complete.region_compute_s


@pytest.mark.parametrize(("size", "x"), [(1, 2), (2, 1), (4, 0.5)])
def test_bytes_of_an_element(mi210, size, x):
    b = breakdown(mi210["A"], 4 * K, K, 16, element_bytes=size)
    two = breakdown(mi210["A"], 4 * K, K, 16)
    for name in ("serialized_comm_s", "overlapped_comm_s", "region_comm_s"):
        assert getattr(b, name) * x == getattr(two, name)
    for name in ("amdahl_edge_flop_per_byte", "slack_flop_per_byte"):
        assert getattr(b, name) == getattr(two, name) * x
    assert b.compute_s == two.compute_s


# --- presets B and C -------------------------------------------------------------------------------------------------


def test_preset_b_overlap_at_four_thousand_tokens(mi210):
    """notes 1.9: 24-56 % over H 1-64K at TP 16 (the paper: 20-55 %)."""
    ratios = [float(column("overlap_ratio", mi210["B"], 2**i * K, 4 * K, 16)) for i in range(7)]
    assert 100 * min(ratios) == pytest.approx(24, abs=0.5)
    assert 100 * max(ratios) == pytest.approx(56, abs=0.5)


def test_preset_b_overlap_over_everything(mi210):
    """notes 1.9: 13-137 % over H 1-64K and T 1-8K at TP 16 (the paper: 17-140 %)."""
    points = itertools.product(range(7), range(4))
    ratios = [float(column("overlap_ratio", mi210["B"], 2**h * K, 2**t * K, 16)) for h, t in points]
    assert 100 * min(ratios) == pytest.approx(13, abs=0.5)
    assert 100 * max(ratios) == pytest.approx(137, abs=0.5)


def case_shares(hardware):
    b = breakdown(hardware, 64 * K, 4 * K, 256)
    total = float(b.compute_s + b.serialized_comm_s)
    return [100 * float(b.serialized_comm_s) / total, 100 * float(b.overlapped_comm_s) / total]


@pytest.mark.parametrize(("preset", "serialized", "overlapped"), [("A", 47.8, 9.0), ("B", 45.5, 8.6), ("C", 49.2, 9.2)])
def test_case_study_shares_of_every_preset(mi210, preset, serialized, overlapped):
    """notes 1.8 and 1.9, column "case ser/ov" (the paper: 48 and 9 %)."""
    assert case_shares(mi210[preset]) == pytest.approx([serialized, overlapped], abs=0.065)  # B: 45.51 and 8.54


@pytest.mark.parametrize(
    ("hidden", "seq_len", "tp", "k", "batch"), [(1 * K, 4 * K, 16, 1, 1), (64 * K, K, 16, 2, 4), (8 * K, K, 128, 4, 1)]
)
def test_preset_b_seconds(mi210, hidden, seq_len, tp, k, batch):
    """e = .66 T / (T + 1114), beta .645, alpha 14.9 us a collective, ring factor 2."""
    b = breakdown(mi210["B"], hidden, seq_len, tp, k, batch)
    tokens = seq_len * batch
    rate = 0.66 * tokens / (tokens + 1114) * 181e12 * k

    def reduce(message):
        return 14.9e-6 + 2 * message / (0.645 * 150e9)

    assert b.compute_s == pytest.approx(12 * hidden * tokens * (6 * hidden + seq_len) / tp / rate, rel=1e-12)
    assert b.region_compute_s == pytest.approx(16 * hidden**2 * tokens / tp / rate, rel=1e-12)
    assert b.serialized_comm_s == pytest.approx(4 * reduce(2 * hidden * tokens), rel=1e-12)
    assert b.overlapped_comm_s == pytest.approx(reduce(24 * hidden**2 / tp), rel=1e-12)
    assert b.region_comm_s == pytest.approx(reduce(8 * hidden**2 / tp), rel=1e-12)


LINES = [(4 * K, K, 16), (16 * K, 2 * K, 64), (64 * K, 4 * K, 256)]


@pytest.mark.parametrize(("k", "low", "high"), [(1, 19, 49), (2, 29, 64), (4, 41, 75)])
def test_preset_c_on_the_lines_of_fig_10(mi210, k, low, high):
    """notes 1.8, row C, set SD: the three models at TP, TP/2 and TP/4."""
    points = [(h, sl, tp // cut) for h, sl, tp in LINES for cut in (1, 2, 4)]
    shares = [100 * float(column("serialized_comm_fraction", mi210["C"], *point, k)) for point in points]
    assert min(shares) == pytest.approx(low, abs=0.55)
    assert max(shares) == pytest.approx(high, abs=0.55)


def test_preset_c_overlap_is_flat(mi210):
    """notes 1.8, row C: 30 % at T = 4K whatever H, 15-122 % over T 1-8K."""
    for hidden in (K, 64 * K):
        for tokens, percent in ((4, 30), (8, 15), (1, 122)):
            got = 100 * column("overlap_ratio", mi210["C"], hidden, tokens * K, 16)
            assert got == pytest.approx(percent, abs=0.55)


@pytest.mark.parametrize(("model", "tp", "shares"), [((4 * K, K), 4, (0.718, 0.094, 0.188)),
((16 * K, 2 * K), 64, (0.455, 0.061, 0.484)),
                                                     ((64 * K, 4 * K), 256, (0.458, 0.049, 0.493))])  # fmt: skip
def test_preset_c_time_shares(mi210, model, tp, shares):
    """notes 1.8, conclusion 0: GEMMs and attention / unscaled / communication."""
    b = breakdown(mi210["C"], *model, tp)
    # What a FLOP factor of infinity leaves of compute is unscaled.
    unscaled = float(breakdown(mi210["C"], *model, tp, k=1e15).compute_s)
    parts = np.array([float(b.compute_s) - unscaled, unscaled, float(b.serialized_comm_s)])
    assert (parts / parts.sum()).tolist() == pytest.approx(shares, abs=0.001)


@pytest.mark.parametrize(
    ("hidden", "seq_len", "tp", "k", "batch"),
    [(4 * K, K, 4, 1, 1), (64 * K, 4 * K, 256, 2, 4), (1 * K, 8 * K, 16, 4, 1)],
)
def test_preset_c_seconds(mi210, hidden, seq_len, tp, k, batch):
    """e .88, attention .9, beta .85; 5.6 passes of 2HT B and 8.3 of 2 SL T H/(64 TP) B at .75 x 1638.4 GB/s."""
    b = breakdown(mi210["C"], hidden, seq_len, tp, k, batch)
    tokens = seq_len * batch
    gemms = 3 * 24 * hidden**2 * tokens / tp / (0.88 * 181e12 * k)
    attention = 3 * 4 * hidden * seq_len * tokens / tp / (0.9 * 181e12 * k)
    passes = 5.6 * 2 * hidden * tokens + 8.3 * 2 * seq_len * tokens * hidden / (64 * tp)
    assert b.compute_s == pytest.approx(gemms + attention + passes / (0.75 * 1638.4e9), rel=1e-12)
    assert b.region_compute_s == pytest.approx(16 * hidden**2 * tokens / tp / (0.88 * 181e12 * k), rel=1e-12)
    assert b.serialized_comm_s == pytest.approx(4 * 2 * hidden * tokens * 2 / (0.85 * 150e9), rel=1e-12)


# --- the case study (notes 1.6) ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bars():
    return case_study()[0]


def test_case_study_rows(bars):
    names = ("serialized_comm_fraction", "hidden_comm_fraction", "visible_comm_fraction")
    assert [bars[0][n] for n in names] == pytest.approx([0.478, 0.090, 0.478], abs=0.003)
    assert [bars[1][n] for n in names] == pytest.approx([0.349, 0.254, 0.618], abs=0.003)
    assert bars[2]["visible_comm_fraction"] == pytest.approx(0.655, abs=0.003)


def test_case_study_bars_against_the_first(bars):
    """notes 1.6: backward compute 34.8 % of the base step, 8x communication 72 %, exposed 36.8 %, total 1.37x."""
    base = bars[0]["step_s"]
    assert bars[0]["exposed_comm_s"] == 0
    assert bars[1]["overlappable_comm_s"] / base == pytest.approx(0.72, abs=0.004)
    assert bars[1]["hidden_comm_s"] / base == pytest.approx(0.348, abs=0.001)
    assert bars[1]["exposed_comm_s"] / base == pytest.approx(0.368, abs=0.003)
    assert bars[1]["step_s"] / base == pytest.approx(1.37, abs=0.005)
    assert bars[2]["overlappable_comm_s"] == pytest.approx(9.6 * bars[0]["overlappable_comm_s"], rel=1e-12)


def test_case_study_with_more_interference():
    """notes 1.6: x12 (1.5x interference) gives 69.8 %."""
    rows, _ = case_study(interference=1.5)
    assert rows[2]["visible_comm_fraction"] == pytest.approx(0.698, abs=0.003)
    assert rows[1]["visible_comm_fraction"] == pytest.approx(0.618, abs=0.003)


def test_slowdowns_are_of_overlapped_communication_only(mi210):
    base = breakdown(mi210["A"], 64 * K, 4 * K, 256)
    slow = breakdown(mi210["A"], 64 * K, 4 * K, 256, inter_node_slowdown=8, interference=1.25)
    for name in ("overlapped_comm_s", "region_comm_s"):
        assert getattr(slow, name) == pytest.approx(10 * getattr(base, name), rel=1e-12)
    for name in ("compute_s", "hiding_compute_s", "serialized_comm_s", "region_compute_s"):
        assert getattr(slow, name) == getattr(base, name)


# --- evolution -------------------------------------------------------------------------------------------------------

FACTORS = ("flop_vs_bw", "flops", "network", "memory_bandwidth", "memory_capacity")


def test_evolution_scales_what_it_names(mi210):
    old = mi210["C"]
    new = evolve(old, flop_vs_bw=2, flops=3, network=5, memory_bandwidth=7, memory_capacity=11)
    assert new.peak_flops == 6 * 181e12
    assert new.tiers[0].bandwidth == 5 * 150e9
    assert math.isnan(new.tiers[1].bandwidth)
    assert new.memory_bandwidth == 7 * 1638.4e9
    assert new.memory_capacity == 11 * 64 * 2**30
    assert asdict(new.timing) == asdict(old.timing) | {"vector_flops": 6 * 22.6e12}
    assert [(tier.domain, tier.latency, tier.efficiency) for tier in new.tiers] == [
        (tier.domain, tier.latency, tier.efficiency) for tier in old.tiers
    ]


@pytest.mark.parametrize("factor", FACTORS)
def test_evolution_by_one_factor(mi210, factor):
    old, new = mi210["A"], evolve(mi210["A"], **{factor: 4})
    scaled = {
        "peak_flops": factor in ("flop_vs_bw", "flops"), "memory_bandwidth": factor == "memory_bandwidth",
        "memory_capacity": factor == "memory_capacity",
    }  # fmt: skip
    for name, grows in scaled.items():
        assert getattr(new, name) == getattr(old, name) * (4 if grows else 1)
    assert new.tiers[0].bandwidth == old.tiers[0].bandwidth * (4 if factor == "network" else 1)
    same = evolve(old)
    assert (same.peak_flops, same.memory_bandwidth, same.memory_capacity) == (181e12, 1638.4e9, 64 * 2**30)


def test_memory_bound_work_does_not_speed_up_with_flops(mi210):
    """notes 1.7: compute of preset C tends to a floor, which only memory bandwidth lowers."""
    floor = float(breakdown(mi210["C"], 16 * K, 2 * K, 64, k=1e15).compute_s)
    assert floor > 0
    assert float(breakdown(mi210["A"], 16 * K, 2 * K, 64, k=1e15).compute_s) < 1e-12
    faster = evolve(mi210["C"], memory_bandwidth=2)
    assert float(breakdown(faster, 16 * K, 2 * K, 64, k=1e15).compute_s) == pytest.approx(floor / 2, rel=1e-9)
    blank = replace(mi210["A"], memory_bandwidth=math.nan)  # not needed where nothing is memory-bound
    assert np.isfinite(breakdown(blank, 16 * K, 2 * K, 64).compute_s)


# --- made-up devices: tiers ------------------------------------------------------------------------------------------

INNER, MIDDLE, OUTER = 4, 16, 64
TIERS = (
    Tier(INNER, 800.0, 1.0, 0.5),
    Tier(MIDDLE, 300.0, 10.0, 1.0),
    Tier(OUTER, 40.0, 100.0, 0.75),
    Tier(math.inf, 8.0, 1000.0, 0.5),
)


def device(*tiers, **timing):
    return Hardware(1e12, 1e9, 1e9, tiers, Timing(gemm_efficiency=1.0, attention_efficiency=1.0, **timing))


def positions(size, stride):
    return [i * stride for i in range(size)]


def crossed(one, other, tiers):
    """Return the innermost tier whose domain holds both devices."""
    return next(i for i, t in enumerate(tiers) if t.domain == math.inf or one // t.domain == other // t.domain)


def enumerated(size, stride, tiers):
    """Return how often a chunk's way along the ring crosses each tier, and each tier's members in a domain."""
    devices = positions(size, stride)
    hops = [0] * len(tiers)
    for one, other in itertools.pairwise(devices):
        hops[crossed(one, other, tiers)] += 1
    members = [
        max(sum(d // tier.domain == first // tier.domain for d in devices) for first in devices)
        if tier.domain != math.inf else size
        for tier in tiers
    ]  # fmt: skip
    return hops, members


GROUPS = [(size, stride) for size in (1, 2, 4, 8, 16, 32, 64, 128, 256) for stride in (1, 2, 4, 8, 16, 32, 128)]


@pytest.mark.a_third
@pytest.mark.parametrize(("size", "stride"), GROUPS)
def test_groups_on_tiers_by_enumeration(size, stride):
    hops, members = enumerated(size, stride, TIERS)
    group, hardware = Group(size, stride), device(*TIERS)
    assert [float(members_in(tier, group)) for tier in TIERS] == members
    latencies = [2 * n * tier.latency for n, tier in zip(hops, TIERS, strict=True)]
    assert float(ring_hop_seconds(hardware, group)) == sum(latencies)
    if size == 1:
        assert group_bandwidth(hardware, group) == math.inf
        return
    # Where the ring leaves a domain, the members inside it share the next tier's links: each brings its own.
    below, paces = 1, []
    for hop, tier, here in zip(hops, TIERS, members, strict=True):
        if hop:
            paces.append(below * tier.bandwidth * tier.efficiency)
        below = here
    assert float(group_bandwidth(hardware, group)) == min(paces)


def test_group_over_one_two_and_all_tiers():
    """By hand: 400 inside, 4 x 300 over the second tier, 16 x 30 over the third, 64 x 4 outside."""
    hardware = device(*TIERS)
    for group, bandwidth in (
        (Group(2), 400), (Group(4), 400), (Group(8), 400), (Group(16), 400), (Group(32), 400), (Group(128), 256),
        (Group(2, 4), 300), (Group(2, 16), 30), (Group(2, 64), 4), (Group(4, 64), 4), (Group(128, 16), 16),
        (Group(8, 2), 400),
    ):  # fmt: skip
        assert float(group_bandwidth(hardware, group)) == bandwidth


def test_groups_of_arrays():
    hardware, sizes = device(*TIERS), np.array([1, 2, 8, 32, 128])
    for stride in (1, 4, np.array([[1], [4], [16]])):
        got = group_bandwidth(hardware, Group(sizes, stride))
        hops = ring_hop_seconds(hardware, Group(sizes, stride))
        for place in np.ndindex(got.shape):
            group = Group(sizes[place[-1]], np.broadcast_to(stride, got.shape)[place])
            assert got[place] == group_bandwidth(hardware, group)
            assert np.broadcast_to(hops, got.shape)[place] == ring_hop_seconds(hardware, group)


def test_members_where_the_stride_does_not_divide_the_domain():
    tier = Tier(8, 1.0, 0.0, 1.0)
    assert [float(members_in(tier, Group(64, stride))) for stride in (1, 3, 5, 8, 9, 100)] == [8, 2, 1, 1, 1, 1]
    assert float(members_in(tier, Group(3, 2))) == 3
    assert float(members_in(Tier(math.inf, 1.0, 0.0, 1.0), Group(1000, 64))) == 1000
    assert float(members_in(tier, Group(math.inf))) == 8


@pytest.mark.parametrize(("members", "share"), [(4, 1), (3, 2 / 3), (2, 1 / 3), (9, 1)])
def test_a_mesh_gives_a_group_its_links_only(members, share):
    """MI210: three links of 50 GB/s a device, one to each other device."""
    mesh, switch = Tier(4, 150e9, 0.0, 0.8, mesh=1.0), Tier(4, 150e9, 0.0, 0.8)
    assert tier_bandwidth(mesh, members) == pytest.approx(0.8 * 150e9 * share)
    assert tier_bandwidth(switch, members) == pytest.approx(0.8 * 150e9)


def test_a_mesh_of_two_is_one_link():
    assert tier_bandwidth(Tier(2, 100.0, 0.0, 1.0, mesh=1.0), 2) == 100


def test_a_ring_uses_one_axis_of_a_torus():
    assert tier_bandwidth(Tier(256, 90.0, 0.0, 1.0, axes=3.0), 16) == 30
    assert tier_bandwidth(Tier(1, 90.0, 0.0, 1.0, mesh=1.0), 1) == 0  # no links in a domain of one


def test_a_mesh_in_the_innermost_tier():
    hardware = device(Tier(4, 150.0, 0.0, 1.0, mesh=1.0), Tier(math.inf, 20.0, 0.0, 1.0))
    found = [float(group_bandwidth(hardware, Group(n))) for n in (2, 3, 4, 8)]
    assert found == pytest.approx([50, 100, 150, 80])


def test_all_reduce_on_tiers_is_bytes_over_the_slowest_and_hops():
    """t = alpha_0 + 2 (hops, each at its latency) + 2 m (n - 1) / n / B."""
    hardware = device(*TIERS, all_reduce_latency=7.0)
    hops, _ = enumerated(32, 1, TIERS)
    assert hops == [24, 6, 1, 0]
    expected = 7 + 2 * (24 * 1 + 6 * 10 + 1 * 100) + 2 * 8000 * 31 / 32 / 400
    assert float(all_reduce_seconds(hardware, 8000, Group(32))) == pytest.approx(expected, rel=1e-12)
    assert float(all_reduce_seconds(hardware, 0, Group(32))) == pytest.approx(7 + 2 * 184)


def test_all_reduce_of_a_simulated_ring_in_one_domain():
    hardware = device(Tier(8, 100.0, 0.25, 1.0))
    for n in (2, 5, 8):
        seconds = 0.0
        for _step in range(2 * (n - 1)):
            seconds += 0.25 + (640 / n) / 100.0
        assert float(all_reduce_seconds(hardware, 640, Group(n))) == pytest.approx(seconds)


def test_ring_limit_takes_groups_for_large():
    hardware = device(Tier(8, 100.0, 0.0, 1.0), ring_limit=1.0)
    for n in (2, 5, 8):
        assert float(all_reduce_seconds(hardware, 640, Group(n))) == pytest.approx(2 * 640 / 100)
    assert float(all_reduce_seconds(hardware, 640, Group(1))) == 0
    exact = replace(hardware, timing=replace(hardware.timing, ring_limit=0.0))
    assert float(all_reduce_seconds(exact, 640, Group(2))) == pytest.approx(640 / 100)


def test_without_tiers_the_innermost_bandwidth_serves_every_group():
    tiers = (Tier(4, 100.0, 5.0, 0.1), Tier(math.inf, 1.0, 50.0, 1.0))
    hardware = device(*tiers, use_tiers=0.0, network_efficiency=0.5, all_reduce_latency=3.0)
    for size, stride in ((2, 1), (4, 1), (64, 1), (2, 8)):
        expected = 3 + 2 * 640 * (size - 1) / size / 50
        assert float(all_reduce_seconds(hardware, 640, Group(size, stride))) == pytest.approx(expected)


def test_timings_may_differ_from_point_to_point():
    """Each switch of the timing as an array: every point is as it would be alone."""
    switches = {"use_tiers": np.array([[0.0], [1.0]]), "ring_limit": np.array([0.0, 1.0])}
    both = device(*TIERS, network_efficiency=0.25, all_reduce_latency=2.0, **switches)
    for message, group in (
        (640.0, Group(8)),
        (640.0, Group(1)),
        (640.0, Group(math.inf, 4)),
        (640.0, Group(np.array([8, 32]))),
    ):
        seconds = all_reduce_seconds(both, message, group)
        for i, j in np.ndindex(2, 2):
            alone = replace(both, timing=replace(both.timing, use_tiers=float(i), ring_limit=float(j)))
            size = np.broadcast_to(group.size, (2,))[j]
            expected = all_reduce_seconds(alone, message, Group(size, group.stride))
            assert np.broadcast_to(seconds, (2, 2))[i, j] == expected


def test_a_group_of_infinitely_many_is_on_the_innermost_tier_and_has_no_hops():
    """The papers' convention for a data-parallel degree that is not given: 2 m over the intra-node 400, anywhere."""
    hardware = device(*TIERS)
    for stride in (1, 4, 64, np.array([1, 64])):
        assert np.all(ring_hop_seconds(hardware, Group(math.inf, stride)) == 0)
        assert np.all(group_bandwidth(hardware, Group(math.inf, stride)) == 400)
        assert all_reduce_seconds(hardware, 640, Group(math.inf, stride)) == pytest.approx(2 * 640 / 400)
    assert group_bandwidth(hardware, Group(np.array([math.inf, 128.0]))).tolist() == [400, 256]
    mesh = device(Tier(4, 150.0, 0.0, 0.5, mesh=1.0), Tier(math.inf, math.nan, 0.0, 1.0))
    assert float(group_bandwidth(mesh, Group(math.inf, 8))) == 75
    needed = bandwidth_needed(mesh, Group(np.array([1.0, 2.0, 8.0, math.inf])))
    assert [part.tolist() for part in needed] == [[False, True, True, True], [False, False, True, False]]


def test_the_default_scenario_on_tiers_warns_of_nothing():
    """The public function with the default DP (infinitely many), outside of a sweep."""
    evaluate(Scenario(Transformer(4096, 1024), Layout(1, 16), load_profile("h100-sxm").hardware("bf16")))


@pytest.mark.parametrize("timing", [{}, {"use_tiers": 0.0, "network_efficiency": 0.5}, {"ring_limit": 1.0}])
def test_a_group_of_one_is_free(timing):
    hardware = device(*TIERS, all_reduce_latency=5.0, **timing)
    for stride in (1, 8, 1000):
        assert float(all_reduce_seconds(hardware, 1e12, Group(1, stride))) == 0
    b = breakdown(hardware, 1024, 1024, 1, dp=1)
    assert b.serialized_comm_s == b.overlapped_comm_s == b.region_comm_s == 0
    assert MODEL.columns["serialized_comm_fraction"].of(b) == MODEL.columns["overlap_ratio"].of(b) == 0


# --- blanks ----------------------------------------------------------------------------------------------------------


def test_a_blank_tier_refuses_only_what_crosses_it():
    hardware = device(Tier(4, 100.0, 1.0, 1.0), Tier(math.inf, math.nan, 1.0, 1.0))
    seconds = all_reduce_seconds(hardware, 640.0, Group(np.array([1, 2, 4, 8, 64])))
    assert np.isnan(seconds).tolist() == [False, False, False, True, True]
    assert math.isnan(all_reduce_seconds(hardware, 640.0, Group(2, stride=4)))
    assert not math.isnan(all_reduce_seconds(hardware, 640.0, Group(1, stride=4)))
    assert not math.isnan(all_reduce_seconds(hardware, 640.0, Group(2, stride=2)))


def test_a_blank_latency_matters_only_where_a_hop_crosses_it():
    hardware = device(Tier(4, 100.0, 1.0, 1.0), Tier(math.inf, 10.0, math.nan, 1.0))
    assert float(ring_hop_seconds(hardware, Group(4))) == 6
    assert math.isnan(ring_hop_seconds(hardware, Group(8)))


def violations(b):
    return [(v.fields, v.reason, np.asarray(v.broken).tolist()) for v in b.violations if np.any(v.broken)]


def test_blanks_are_broken_rules():
    """What is needed and blank is refused, by its key, at the points that need it."""
    hardware = device(Tier(4, 100.0, 1.0, 1.0), Tier(math.inf, math.nan, 1.0, 1.0, key="network.out"))
    b = breakdown(hardware, 1024, 1024, np.array([2, 4, 8]), dp=1)
    ((fields, reason, broken),) = violations(b)
    assert (fields, broken) == (("tp",), [False, False, True])
    assert "network.out.bandwidth is blank" in reason
    assert b.broken.tolist() == broken
    ((fields, reason, broken),) = violations(breakdown(hardware, 1024, 1024, np.array([1, 2, 4]), dp=2))
    assert (fields, broken) == (("dp",), [False, False, True])
    assert "network.out.bandwidth is blank" in reason
    everything = violations(breakdown(hardware, 1024, 1024, np.array([4, 8]), dp=2))
    assert [(fields, broken) for fields, _, broken in everything] == [
        (("tp",), [False, True]),
        (("dp",), [True, True]),
    ]
    small = device(Tier(4, 100.0, 1.0, 1.0), Tier(math.inf, math.nan, 1.0, 1.0))  # a tier that no profile names
    assert "no network tier reaches" in violations(breakdown(small, 1024, 1024, 8, dp=1))[0][1]


def test_blanks_without_tiers():
    blank = device(Tier(4, math.nan, 1.0, 1.0, key="network.in"), use_tiers=0.0, network_efficiency=0.5)
    assert [fields for fields, _, _ in violations(breakdown(blank, 1024, 1024, 8, dp=1))] == [("tp",)]
    assert violations(breakdown(blank, 1024, 1024, 1, dp=1)) == []
    assert [fields for fields, _, _ in violations(breakdown(blank, 1024, 1024, 2, dp=1))] == [("tp",)]
    assert all_reduce_seconds(blank, 640.0, Group(np.array([1, 2])))[0] == 0
    outer = Tier(math.inf, math.nan, 1.0, 1.0, key="network.out")  # ignored, so it may be blank
    fine = device(Tier(4, 9.0, 1.0, 1.0), outer, use_tiers=0.0, network_efficiency=0.5)
    assert violations(breakdown(fine, 1024, 1024, 8, dp=8)) == []


def test_blank_network_efficiency():
    hardware = device(Tier(4, 9.0, 1.0, 1.0), use_tiers=0.0)
    b = breakdown(hardware, 1024, 1024, np.array([1, 2]), dp=1)
    assert np.isnan(b.serialized_comm_s).tolist() == [False, True]
    ((fields, reason, broken),) = violations(b)
    assert (fields, broken) == (("tp",), [False, True])
    assert reason.startswith("timing.network_efficiency is blank")
    assert [fields for fields, _, _ in violations(breakdown(hardware, 1024, 1024, 2, dp=2))] == [("tp",), ("dp",)]


def test_blank_timing():
    tier = Tier(math.inf, 100.0, 1.0, 1.0)
    known = Timing(attention_efficiency=0.5)
    ((fields, reason, broken),) = violations(breakdown(Hardware(1e12, 1, 1, (tier,), known), 1024, 1024, 2))
    assert (fields, broken) == (("timing",), True)
    assert "timing.gemm_efficiency is blank" in reason
    both = Hardware(1e12, 1, math.nan, (tier,), Timing(activation_passes=1.0, memory_efficiency=0.5))
    reasons = " ".join(reason for _, reason, _ in violations(breakdown(both, 1024, 1024, 2)))
    assert "timing.gemm_efficiency is blank" in reasons
    assert "memory.bandwidth is blank" in reasons
    passes = {"gemm_efficiency": 1.0, "attention_efficiency": 1.0, "activation_passes": 1.0}
    for capable, memory, key in ((0.5, math.nan, "memory.bandwidth"), (math.nan, 1.0, "timing.memory_efficiency")):
        hardware = Hardware(1e12, 1, memory, (tier,), Timing(**passes, memory_efficiency=capable))
        ((fields, reason, broken),) = violations(breakdown(hardware, 1024, 1024, 2))
        assert (fields, broken) == (("timing",), True)
        assert f"{key} is blank" in reason


def test_tp_must_divide_hidden():
    hardware = device(Tier(math.inf, 100.0, 0.0, 1.0))
    b = breakdown(hardware, 96, 64, np.array([1, 2, 3, 5, 32, 64]))
    assert violations(b) == [(("tp", "hidden"), "tp does not divide hidden", [False, False, False, True, False, True])]
    assert breakdown(hardware, 96, 64, 4).broken.tolist() is False
    assert isinstance(divides(3, 9, ("a", "b")), Violation)
    assert not divides(3, 9, ("a", "b")).broken


# --- compute on made-up devices --------------------------------------------------------------------------------------


def test_efficiency_ramps_with_tokens():
    hardware = Hardware(200.0, 1, 1, (), Timing(gemm_efficiency=0.5, attention_efficiency=0.25, gemm_ramp_tokens=30.0))
    assert gemm_seconds_per_flop(hardware, 30) == pytest.approx(2 / 100)  # half of it at T_0 tokens
    assert gemm_seconds_per_flop(hardware, 10) == pytest.approx(4 / 100)
    assert gemm_seconds_per_flop(hardware, np.array([1e15]))[0] == pytest.approx(1 / 100)
    assert gemm_seconds_per_flop(hardware, 30, attention=True) == pytest.approx(2 / 50)


def test_memory_seconds():
    assert memory_seconds(Hardware(1, 1, 100.0, (), Timing(memory_efficiency=0.25)), [50, 100]).tolist() == [2, 4]


def test_every_kernel_is_launched_once_forward_and_twice_backward():
    """A layer's 8 GEMMs: 24 launches; the paper's 5: 15; one FC matrix' backward pass: 2."""
    slow = Hardware(1e300, 1, 1, (Tier(math.inf, 1.0, 0.0, 1.0),), Timing(1.0, 1.0, kernel_latency=0.5))
    b = breakdown(slow, 64, 64, 2)
    assert b.compute_s == pytest.approx(24 * 0.5)
    assert b.region_compute_s == pytest.approx(2 * 0.5)
    paper = breakdown(slow, 64, 64, 2, gemm_count=gemm_count(CountedGemms.PAPER_EXACT))
    assert paper.compute_s == pytest.approx(15 * 0.5)
    only = breakdown(slow, 64, 64, 2, gemm_count=GemmCount(1, 0, 0))
    assert only.compute_s == pytest.approx(3 * 0.5)


@pytest.mark.parametrize(("activation", "scores"), [(1.0, 0.0), (0.0, 1.0), (2.0, 3.0)])
def test_memory_bound_passes(activation, scores):
    """Arrays that are really there: activations of H x T on every device, scores of SL x T for each of its heads."""
    passes = {"activation_passes": activation, "score_passes": scores, "score_head_dim": 8.0}
    timing = Timing(1.0, 1.0, memory_efficiency=0.5, **passes)
    hardware = Hardware(1e300, 1, 4.0, (Tier(math.inf, 1.0, 0.0, 1.0),), timing)
    hidden, seq_len, batch, tp = 64, 16, 3, 2
    x = np.zeros((batch, seq_len, hidden), np.float16)
    p = np.zeros((batch, hidden // 8 // tp, seq_len, seq_len), np.float16)
    b = breakdown(hardware, hidden, seq_len, tp, batch=batch)
    assert b.compute_s == pytest.approx((activation * x.nbytes + scores * p.nbytes) / (0.5 * 4.0))
    assert b.hiding_compute_s == pytest.approx(2 / 3 * b.compute_s)
    double = breakdown(hardware, hidden, seq_len, tp, batch=batch, element_bytes=4)
    assert double.compute_s == pytest.approx(2 * b.compute_s)


def test_attention_runs_at_its_own_efficiency():
    hardware = Hardware(
        100.0, 1, 1, (Tier(math.inf, 1.0, 0.0, 1.0),), Timing(gemm_efficiency=0.5, attention_efficiency=0.1)
    )
    hidden, seq_len, tp = 64, 32, 4
    b = breakdown(hardware, hidden, seq_len, tp, gemm_count=GemmCount(0, 2, 0))
    assert b.compute_s == pytest.approx(3 * 4 * hidden * seq_len**2 / tp / 10)
    b = breakdown(hardware, hidden, seq_len, tp, gemm_count=GemmCount(2, 0, 4))
    assert b.compute_s == pytest.approx(3 * 24 * hidden**2 * seq_len / tp / 50)


def test_data_parallel_groups_take_every_tp_th_device():
    """TP 4 fills the inner domain: its data-parallel rings run over the middle tier, 1 member a domain."""
    b = breakdown(device(*TIERS), 1024, 1024, np.array([1, 2, 4, 16, 64]), dp=4)
    message = 24 * 1024**2 / np.array([1, 2, 4, 16, 64])
    # TP 1: 4 ranks inside. TP 2: 2 of 4 inside, 2 x 300 over the middle. Then 1 x 300, 1 x 30, 1 x 4.
    pace = np.array([400, 400, 300, 30, 4])
    hops = np.array([3 * 1, 2 * 1 + 1 * 10, 3 * 10, 3 * 100, 3 * 1000])
    assert b.overlapped_comm_s.tolist() == pytest.approx((2 * 0.75 * message / pace + 2 * hops).tolist())
    assert b.region_comm_s.tolist() == pytest.approx((2 * 0.75 * message / 3 / pace + 2 * hops).tolist())


def test_tensor_parallel_groups_take_neighbours():
    b = breakdown(device(*TIERS), 1024, 16, np.array([2, 4, 8, 128]), dp=1)
    message = 2 * 1024 * 16
    expected = [
        4 * collectives.ring_time(collectives.all_reduce_wire_bytes(message, n), bandwidth, 1, 2 * hops)
        for n, bandwidth, hops in (
            (2, 400, 1),
            (4, 400, 3),
            (8, 400, 6 + 10),
            (128, 256, 96 + 24 * 10 + 6 * 100 + 1000),
        )
    ]
    assert b.serialized_comm_s.tolist() == pytest.approx([float(e) for e in expected])


# --- columns ---------------------------------------------------------------------------------------------------------


def test_columns_of_a_hand_made_breakdown(mi210):
    b = replace(
        breakdown(mi210["A"], 4 * K, K, 16), compute_s=np.array([6.0, 6.0]), hiding_compute_s=np.array([4.0, 4.0]),
        serialized_comm_s=np.array([2.0, 0.0]), overlapped_comm_s=np.array([3.0, 10.0]), region_comm_s=1.0,
        region_compute_s=4.0,
    )  # fmt: skip
    expected = {
        "compute_s": [6, 6], "serialized_comm_s": [2, 0], "overlapped_comm_s": [3, 10],
        "serialized_comm_fraction": [0.25, 0],
        "overlap_ratio": 0.25, "hidden_comm_s": [3, 4], "exposed_comm_s": [0, 6], "step_s": [8, 12],
        "visible_comm_fraction": [0.25, 0.5],
    }  # fmt: skip
    for name, values in expected.items():
        assert np.asarray(MODEL.columns[name].of(b)).tolist() == values
    assert b.at((slice(1, 2),)).compute_s.tolist() == [6]
    assert MODEL.columns["step_s"].of(b.at((slice(1, 2),))).tolist() == [12]


def test_the_sweep_gives_what_the_cost_model_gives(mi210):
    """One row through a study, one through nouns."""
    study = {
        "cost_model": "comp_vs_comm",
        "set": {
            "hidden": "16K",
            "seq_len": "2K",
            "micro_batch": 4,
            "tp": 64,
            "flop_vs_bw": 2,
            "precision": "fp16",
            "timing": "B",
        },
    }
    row = sweep(study).to_records()[0]
    b = breakdown(mi210["B"], 16 * K, 2 * K, 64, 2, 4)
    for name, col in MODEL.columns.items():
        if not col.extra:
            assert row[name] == float(col.of(b))
    assert row["feasible"] is True


def test_a_mesh_of_two_gives_a_pair_its_one_link_whole():
    pair = device(Tier(2, 150.0, 0.0, 1.0, mesh=1.0), Tier(math.inf, 10.0, 0.0, 1.0))
    assert float(group_bandwidth(pair, Group(2))) == 150


def test_every_blank_number_of_memory_bound_work_is_named():
    tier = Tier(math.inf, 100.0, 1.0, 1.0)
    timing = Timing(activation_passes=1.0)  # efficiencies of GEMMs and of memory left blank
    hardware = Hardware(1e12, 1, math.nan, (tier,), timing)
    found = [reason for _, reason, _ in violations(breakdown(hardware, 1024, 1024, 2))]
    for key in ("timing.gemm_efficiency", "memory.bandwidth", "timing.memory_efficiency"):
        assert any(reason.startswith(key) for reason in found), key


def test_slower_links_have_less_bandwidth_and_interference_takes_longer():
    """Preset B: 14.9 us to start; at 8 times the bytes' time it is still 14.9 us, and interference stretches both."""
    b = load_profile("mi210").hardware("fp16", "B")
    plain, slow, both = (
        float(breakdown(b, 1024, 1024, 16, **more).overlapped_comm_s)
        for more in ({}, {"inter_node_slowdown": 8}, {"inter_node_slowdown": 8, "interference": 1.2})
    )
    assert slow - 14.9e-6 == pytest.approx(8 * (plain - 14.9e-6), rel=1e-9)
    assert both == pytest.approx(1.2 * slow, rel=1e-12)

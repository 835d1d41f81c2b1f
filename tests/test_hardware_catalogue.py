"""The shipped profiles: which there are, that each is sound, and their numbers against the vendors' tables."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.formulas.kernels import gemm_seconds
from comp_comm.hardware.lint import lint

NAMES = [
    "p100-sxm", "v100-sxm-16gb", "v100-sxm-32gb", "a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm", "h100-96gb",
    "h200-sxm", "b200-sxm", "gb200-nvl72", "b300-sxm", "gb300-nvl72", "rubin-nvl72", "mi50", "mi60", "mi100", "mi210",
    "mi250x", "mi300x", "mi325x", "mi355x", "mi455x", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7",
    "trainium1", "trainium2", "trainium3", "gaudi2", "gaudi3", "perlmutter", "h800-sxm", "gh200",
    "alps", "frontier", "l40s", "rtx-pro-6000",
]  # fmt: skip

# Year, TFLOP/s of 16 bit (f: fp16, b: bf16, fb: both) and of FP8, GiB, GB/s of memory; then the scale-up domain and
# GB/s, and the scale-out GB/s, per device and direction. "-" is blank.
TABLE = """
p100-sxm      2016 f  21.2   -      16  732    8    80    6.25
v100-sxm-16gb 2017 f  125    -      16  900    8    150   6.25
v100-sxm-32gb 2017 f  125    -      32  900    8    150   6.25
a100-sxm-40gb 2020 fb 312    -      40  1555   8    300   25
a100-sxm-80gb 2020 fb 312    -      80  2039   8    300   25
h100-sxm      2022 fb 989.4  1978.9 79.6474609375 3350   8    450   50
h100-96gb     2023 fb 989.4  1978.9 96  2400   8    450   50
h200-sxm      2024 fb 989.4  1978.9 141 4800   8    450   50
b200-sxm      2025 fb 2250   4500   179.0615234375 8000   8    900   50
perlmutter    2021 fb 312    -      40  1555   4    300   25
gb200-nvl72   2025 fb 2500   5000   185.0302734375 8000   72   900   50
b300-sxm      2025 fb 2250   4500   268.59375 8000   8    900   100
gb300-nvl72   2025 fb 2500   5000   268.59375 8000   72   900   100
rubin-nvl72   2026 fb 4000   17500  288 22000  72   1800  200
mi50          2018 f  26.5   -      32  1024   4    92    -
mi60          2018 f  29.5   -      32  1024   4    92    -
mi100         2020 f  184.6  -      32  1228.8 4    138   -
mi210         2022 fb 181    -      64  1638.4 4    150   -
mi250x        2021 fb 191.5  -      64  1638.4 8    200   12.5
mi300x        2023 fb 1307.4 2614.9 192 5325   8    448   50
mi325x        2024 fb 1307.4 2614.9 256 6000   8    448   50
mi355x        2025 fb 2516.6 5033.2 288 8000   8    537.6 50
mi455x        2026 fb 10000  20000  432 19600  72   1800  300
tpu-v3        2018 b  123    -      32  900    1024 280   -
tpu-v4        2021 b  275    -      32  1228   4096 270   6.25
tpu-v5e       2023 b  197    -      16  819    256  200   3.125
tpu-v5p       2023 b  459    459    95  2765   8960 600   6.25
tpu-v6e       2024 b  918    918    32  1638   256  400   12.5
tpu-v7        2025 b  2307   4614   192 7380   9216 600   12.5
trainium1     2022 b  190    190    32  880    16   192   6.25
trainium2     2024 b  667    1299   96  2900   64   640   25
trainium3     2025 b  671    2517   144 4900   144  1280  -
gaudi2        2022 b  432    865    96  2450   8    262.5 37.5
h800-sxm      2023 fb 989.4  1978.9 79.6474609375 3350 8  200   50
gh200         2023 fb 989.4  1978.9 96  4000   4    450   50
alps          2024 fb 989.4  1978.9 96  4000   4    450   25
frontier      2022 fb 191.5  -      64  1638.4 8    200   12.5
l40s          2023 fb 362    733    48  864    8    31.5  25
rtx-pro-6000  2025 fb 504    1008   96  1597   8    63   50
gaudi3        2024 b  1835   1835   128 3700   8    525   75
"""
VENDORS = {"mi": "amd", "frontier": "amd", "tpu": "google", "trainium": "aws", "gaudi": "intel"}


def read_sheets():
    with (Path(__file__).parent / "data" / "hardware.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def shipped():
    return {name: load_profile(name) for name in catalogue.names("hardware")}


def test_the_catalogue_holds_exactly_the_published_names():
    assert catalogue.names("hardware") == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_finding_is_left_unwaived_beside_the_catalogue(name, shipped):
    assert [finding for finding in lint(shipped[name], list(shipped.values())) if not finding.waived] == []


def test_only_these_profiles_need_a_waiver(shipped):
    """Every other suspicion would be news: a waiver inherited by ``extends`` is not to hide it."""
    waived = {(f.profile, f.rule) for p in shipped.values() for f in lint(p, list(shipped.values())) if f.waived}
    assert waived == {
        ("v100-sxm-16gb", "memory-pair"), ("v100-sxm-32gb", "memory-pair"), ("b200-sxm", "memory-pair"),
        ("gb200-nvl72", "memory-pair"), ("rubin-nvl72", "fp8-ratio"), ("trainium3", "fp8-ratio"),
        ("l40s", "flop-per-scale-up-byte"), ("rtx-pro-6000", "flop-per-scale-up-byte"),
        ("rtx-pro-6000", "memory-drain"),
    }  # fmt: skip


@pytest.mark.parametrize("row", TABLE.strip().splitlines(), ids=lambda row: row.split()[0])
def test_numbers_are_the_vendors(row, shipped):
    name, year, formats, peak, fp8, capacity, memory, domain, up, out = row.split()
    profile = shipped[name]
    assert profile.name == name
    assert profile.year == int(year)
    assert profile.vendor == next((v for start, v in VENDORS.items() if name.startswith(start)), "nvidia")
    assert profile.title.lower().startswith(profile.vendor)
    peaks = {"fp16": peak if "f" in formats else "-", "bf16": peak if "b" in formats else "-", "fp8": fp8}
    assert set(profile.precisions) - {"nvfp4"} == {precision for precision, text in peaks.items() if text != "-"}
    expected = {f"peak.{precision}": (text, 1e12) for precision, text in peaks.items()} | {
        "memory.capacity": (capacity, 2**30),
        "memory.bandwidth": (memory, 1e9),
        "network.scale-up.domain": (domain, 1),
        "network.scale-up.bandwidth": (up, 1e9),
        "network.scale-out.bandwidth": (out, 1e9),
    }
    for key, (text, unit) in expected.items():
        value = profile.value(key)
        assert math.isnan(value) if text == "-" else value == pytest.approx(float(text) * unit, rel=1e-12), key


def test_blackwell_has_nvfp4(shipped):
    """Dense, half of what the sheets print with sparsity; the Ultra parts have 1.5 times as much."""
    peaks = {name: profile.value("peak.nvfp4") / 1e15 for name, profile in shipped.items()
             if "nvfp4" in profile.precisions}  # fmt: skip
    assert peaks == {
        "b200-sxm": 9, "gb200-nvl72": 10, "b300-sxm": 13.5, "gb300-nvl72": 15, "rtx-pro-6000": 2.015,
    }  # fmt: skip


# What devices report of it, where that is known, is in the table above.
REPORTED = {("h100-sxm", "memory.capacity"), ("b200-sxm", "memory.capacity"), ("b300-sxm", "memory.capacity"),
            ("gb300-nvl72", "memory.capacity"), ("gb200-nvl72", "memory.capacity")}  # fmt: skip
# What a vendor publishes now, where the compilation has a blank.
PUBLISHED = {(name, "network.scale-out.bandwidth") for name in ("tpu-v4", "tpu-v5p", "tpu-v6e", "tpu-v7")}
SHEETS = read_sheets()
PROFILES = {"MI250X (OAM, 2 GCD)": "mi250x", "TPU v7 (Ironwood)": "tpu-v7", "MI455X (Helios)": "mi455x",
            "Rubin (VR NVL72)": "rubin-nvl72", "V100-SXM2-32": "v100-sxm-32gb", "P100-SXM2": "p100-sxm",
            "A100-SXM4-40": "a100-sxm-40gb", "A100-SXM4-80": "a100-sxm-80gb", "H100-SXM5": "h100-sxm"}  # fmt: skip


@pytest.mark.parametrize("sheet", SHEETS, ids=[sheet["name"] for sheet in SHEETS])
def test_numbers_are_those_of_the_compilation(sheet, shipped):
    """A package of two devices is two: its rates and its memory are shared out, its domain has twice as many."""
    name = sheet["name"].lower().replace(" (hgx)", "").replace(" (nvl72)", "-nvl72").replace("tpu v", "tpu-v")
    profile = shipped[PROFILES.get(sheet["name"], name)]
    each = profile.devices_per_package
    expected = {
        "memory.capacity": ("hbm_gb", 2**30 / each), "memory.bandwidth": ("hbm_bw_gbps", 1e9 / each),
        "network.scale-up.domain": ("scaleup_domain", each), "peak.fp8": ("peak_fp8_tflops_dense", 1e12 / each),
        "network.scale-up.bandwidth": ("scaleup_bw_gbps_per_dir", 1e9 / each),
        "network.scale-out.bandwidth": ("scaleout_bw_gbps_per_gpu_per_dir", 1e9 / each),
    }  # fmt: skip
    for key, (column, unit) in expected.items():
        value = profile.value(key)
        if (profile.name, key) in REPORTED:
            assert 0.9 < value / (float(sheet[column]) * unit) < 1
            continue
        if (profile.name, key) in PUBLISHED:
            assert not sheet[column]
            assert value > 0
            continue
        assert value == pytest.approx(float(sheet[column]) * unit) if sheet[column] else math.isnan(value), key
    peak = max(profile.value("peak.fp16", 0), profile.value("peak.bf16", 0))
    assert peak == pytest.approx(float(sheet["peak_fp16_tflops_dense"]) * 1e12 / each)
    assert (profile.year, profile.vendor) == (int(sheet["year"]), sheet["vendor"])


@pytest.mark.parametrize(
    ("topology", "names"),
    [
        ("mesh", "mi100 mi210 mi300x mi325x mi355x gaudi2 gaudi3 perlmutter gh200 alps"),
        ("torus 1", "mi50 mi60"),
        ("torus 2", "tpu-v3 tpu-v5e tpu-v6e trainium1"),
        ("torus 3", "tpu-v4 tpu-v5p tpu-v7 trainium2"),
    ],
)
def test_how_the_devices_of_a_domain_are_wired(topology, names, shipped):
    def wiring(profile):
        kind = profile.topologies["scale-up"]
        return f"{kind} {profile.value('network.scale-up.axes'):g}" if kind == "torus" else kind

    assert {name for name, profile in shipped.items() if wiring(profile) == topology} == set(names.split())


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_times_work_and_has_both_tiers(name, shipped):
    profile = shipped[name]
    assert profile.tiers == ("scale-up", "scale-out")
    assert "network.scale-out.domain" not in profile.numbers
    for key in ("timing.gemm_efficiency", "timing.memory_efficiency", "network.scale-up.efficiency"):
        assert 0.25 < profile.value(key) <= 1, key
    if name != "mi210":  # the paper's machine: its presets carry these
        assert 0.2e-6 < profile.value("timing.kernel_latency") < 10e-6  # the A100's is of its smallest products only
        assert 4e-6 < profile.value("network.scale-out.latency") <= 5e-6
    hardware = profile.hardware(profile.precisions[0])
    assert float(hardware.peak_flops) == profile.value(f"peak.{profile.precisions[0]}")


@pytest.mark.parametrize(
    ("name", "gemm", "memory", "launch_us"),
    [
        ("a100-sxm-80gb", 0.8872, 0.8948, 1.526),
        ("a100-sxm-40gb", 0.8872, 0.8948, 1.526),
        ("h100-sxm", 0.857, 0.9945, 2.643),
        ("h200-sxm", 0.8375, 0.9562, 2.689),
        ("b200-sxm", 0.7111, 0.7715, 2.057),
        ("gb200-nvl72", 0.6777, 0.8342, 2.092),
        ("b300-sxm", 0.7543, 0.824, 1.935),
        ("gb300-nvl72", 0.8049, 0.7989, 2.03),
    ],
)
def test_fitted_timing(name, gemm, memory, launch_us, shipped):
    timing = shipped[name].hardware("bf16").timing
    assert (timing.gemm_efficiency, timing.memory_efficiency) == pytest.approx((gemm, memory), rel=1e-3)
    assert timing.kernel_latency == pytest.approx(launch_us * 1e-6, rel=5e-3)
    assert shipped[name].numbers["timing.gemm_efficiency"].certainty == "calibrated"


def gemm_tflops(shipped, name, precision, shapes):
    """Return the TFLOP/s of products in a row, m, n and k each, on a device that is as warm as its profile is."""
    hardware = shipped[name].hardware(precision)
    timing = hardware.timing
    share = timing.fp8_efficiency if precision == "fp8" else timing.gemm_efficiency
    operand = 1 if precision == "fp8" else 2
    m, n, k = np.array(shapes, dtype=float).T
    seconds = gemm_seconds(
        2 * m * n * k, k, operand * (m * k + n * k) + 2 * m * n, 1 / (hardware.peak_flops * share),
        1 / (hardware.memory_bandwidth * timing.memory_efficiency), timing.kernel_latency, timing.gemm_ramp_k,
        timing.gemm_ramp_tiles, timing.gemm_split_k, warm=timing.power_ratio,
    )  # fmt: skip
    return 2 * (m * n * k).sum() / seconds.sum() / 1e12


# AMD's set of ten products of DeepSeek-V3 (taf-blog of rocm.blogs.amd.com), the sum of their FLOP over that of their
# seconds, and its best product.
DEEPSEEK = [(m, n, k) for m in (32, 32768)
            for n, k in ((2112, 7168), (3072, 1536), (7168, 2048), (4608, 7168), (7168, 256))]  # fmt: skip


@pytest.mark.parametrize(("name", "precision", "shapes", "tflops", "within"), [
    ("mi325x", "bf16", DEEPSEEK, 616, 0.03), ("mi325x", "bf16", [(4096, 4864, 32896)], 831.4, 0.03),
    ("mi325x", "fp8", DEEPSEEK, 1143, 0.09), ("mi325x", "fp8", [(4096, 3648, 32896)], 1408, 0.09),
    ("mi325x", "bf16", [(13312, 10240, 8192)], 784.9, 0.03),
    # AMD's best products of the MI300X, and the best of stas00/ml-engineering's searches
    ("mi300x", "bf16", [(4096, 4864, 32896)], 708, 0.01), ("mi300x", "fp8", [(4096, 3648, 32896)], 1273, 0.01),
    ("mi300x", "bf16", [(10240, 15360, 8192)], 668.4, 0.02), ("mi355x", "bf16", [(12288, 8192, 8192)], 1565, 0.01),
    ("gaudi2", "bf16", [(14336, 15360, 2048)], 418.7, 0.01), ("gaudi2", "fp8", [(6144, 11264, 5120)], 826.5, 0.01),
    ("gaudi3", "fp8", [(16640, 1536, 3072)], 1289.5, 0.01),
    # AI-Hypercomputer/tpu-recipes, microbenchmarks; of the v7 two devices of half a chip each
    ("tpu-v6e", "bf16", [(8192, 8192, 8192)], 827.5, 0.02), ("tpu-v7", "bf16", [(4096, 4096, 4096)], 2 * 892.9, 0.04),
    ("tpu-v7", "bf16", [(16384, 16384, 16384)], 2 * 950.1, 0.03),
    ("tpu-v7", "bf16", [(32768, 32768, 32768)], 2 * 956.4, 0.03),
])  # fmt: skip
def test_published_rates_of_products_come_out(name, precision, shapes, tflops, within, shipped):
    assert gemm_tflops(shipped, name, precision, shapes) == pytest.approx(tflops, rel=within)


def test_numbers_from_memory_are_not_called_certain(shipped):
    for name, profile in shipped.items():
        for key, number in profile.numbers.items():
            if "from memory" in number.source:
                assert number.certainty == "low", (name, key)
            if number.value is None:
                assert number.certainty == "none", (name, key)


def test_only_the_mi250x_has_two_devices_in_a_package(shipped):
    several = {name: p.devices_per_package for name, p in shipped.items() if p.devices_per_package != 1}
    assert several == {"mi250x": 2, "frontier": 2}


# Of the MI455X and of Rubin nothing is published.
GPUS = [name for name in NAMES if name.startswith(("p100", "v100", "a100", "h", "b", "gb", "mi")) and name != "mi455x"]


@pytest.mark.parametrize("name", GPUS)
def test_gpus_have_a_rate_outside_tensor_cores(name):
    """The papers' models ask for it; it is far below that of the cores, or all there is."""
    profile = load_profile(name)
    rate, peak = profile.value("timing.vector_flops"), max(profile.value("peak.fp16"), profile.value("peak.bf16", 0))
    assert rate == peak if name in ("p100-sxm", "mi50", "mi60") else 3 < peak / rate < 40

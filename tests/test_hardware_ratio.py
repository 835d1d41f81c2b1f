"""Steps between products, against a table computed outside the project from the vendors' numbers."""

import pytest

from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.hardware.ratio import ratio

KEYS = ("flops", "memory_bandwidth", "scale_up", "scale_out", "flop_per_scale_up", "flop_per_scale_out",
        "flop_per_memory_byte")  # fmt: skip

# old, new, and the table's columns as printed: FLOP, HBM, scale-up, scale-out, FLOP per byte of the last two and HBM.
STEPS = """
p100-sxm      v100-sxm-32gb 5.90 1.23 1.88 1.00 3.14 5.90 4.80
v100-sxm-32gb a100-sxm-80gb 2.50 2.27 2.00 4.00 1.25 0.62 1.10
a100-sxm-80gb h100-sxm      3.17 1.64 1.50 2.00 2.11 1.59 1.93
h100-sxm      b200-sxm      2.27 2.39 2.00 1.00 1.14 2.27 0.95
gb200-nvl72   rubin-nvl72   1.60 2.75 2.00 4.00 0.80 0.40 0.58
p100-sxm      h100-sxm      46.7 4.58 5.62 8.00 8.30 5.83 10.2
v100-sxm-32gb b200-sxm      18.0 8.89 6.00 8.00 3.00 2.25 2.02
mi50          mi100         6.97 1.20 1.50 -    4.64 -    5.81
mi60          mi100         6.26 1.20 1.50 -    4.17 -    5.21
mi100         mi250x        2.07 2.67 2.90 -    0.72 -    0.78
mi250x        mi300x        3.41 1.63 1.12 2.00 3.05 1.71 2.10
mi300x        mi355x        1.92 1.50 1.20 1.00 1.60 1.92 1.28
tpu-v3        tpu-v4        2.24 1.36 0.96 -    2.32 -    1.64
tpu-v4        tpu-v5p       1.67 2.25 2.22 1.00 0.75 1.67 0.74
tpu-v5p       tpu-v7        5.03 2.67 1.00 2.00 5.03 2.51 1.88
tpu-v5e       tpu-v6e       4.66 2.00 2.00 4.00 2.33 1.16 2.33
trainium1     trainium2     3.51 3.30 3.33 4.00 1.05 0.88 1.07
trainium2     trainium3     1.01 1.69 2.00 -    0.50 -    0.60
gaudi2        gaudi3        4.25 1.51 2.00 2.00 2.12 2.12 2.81
"""


@pytest.mark.parametrize("row", STEPS.strip().splitlines(), ids=lambda row: "-to-".join(row.split()[:2]))
def test_ratio_reproduces_the_table_to_its_printed_digits(row):
    old, new, *printed = row.split()
    step = ratio(load_profile(old), load_profile(new))
    assert (step["old"], step["new"]) == (old, new)
    for key, text in zip(KEYS, printed, strict=True):
        if text == "-":
            assert step[key] is None, key
        else:
            half_a_digit = 0.5 * 10.0 ** -len(text.partition(".")[2])
            assert step[key] == pytest.approx(float(text), rel=0, abs=half_a_digit * (1 + 1e-9)), key


def test_a_package_counts_both_dies_of_an_mi250x():
    mi100, mi250x = load_profile("mi100"), load_profile("mi250x")
    package, device = ratio(mi100, mi250x), ratio(mi100, mi250x, per="device")
    for key in ("flops", "memory_bandwidth", "scale_up"):
        assert package[key] == pytest.approx(2 * device[key])
    assert package["flop_per_scale_up"] == pytest.approx(device["flop_per_scale_up"])


def test_a_device_beside_itself_has_once_of_everything():
    step = ratio(load_profile("h100-sxm"), load_profile("h100-sxm"))
    assert [step[key] for key in KEYS] == [1.0] * len(KEYS)


def test_precision_is_the_16_bit_peak_each_has_unless_asked():
    v100, tpu, h100, b200 = (load_profile(name) for name in ("v100-sxm-32gb", "tpu-v4", "h100-sxm", "b200-sxm"))
    assert ratio(v100, tpu)["flops"] == pytest.approx(275 / 125)
    assert ratio(h100, b200, precision="fp8")["flops"] == pytest.approx(4500 / 1978.9)


def test_a_16_bit_format_both_have_goes_first(tmp_path):
    slow_bf16 = tmp_path / "slow-bf16.yaml"  # as the MI100: bf16 at half the rate of fp16
    slow_bf16.write_text("extends: mi100\npeak: {fp16: 200 TFLOP/s, bf16: 100 TFLOP/s}\n")
    assert ratio(load_profile(str(slow_bf16)), load_profile("tpu-v4"))["flops"] == pytest.approx(2.75)
    assert ratio(load_profile(str(slow_bf16)), load_profile("h100-sxm"))["flops"] == pytest.approx(989.4 / 200)


@pytest.mark.parametrize(("old", "new"), [("v100-sxm-32gb", "h100-sxm"), ("h100-sxm", "v100-sxm-32gb")])
def test_a_precision_one_of_them_lacks_is_refused(old, new):
    with pytest.raises(ConfigError, match="v100-sxm-32gb has no fp8 peak; it has: fp16"):
        ratio(load_profile(old), load_profile(new), precision="fp8")


def test_no_16_bit_peak_is_refused(tmp_path):
    only = tmp_path / "only-fp8.yaml"
    only.write_text("peak: {dense: true, fp8: 100 TFLOP/s}\nmemory: {capacity: 32 GiB, bandwidth: 900 GB/s}\n"
                    "network: {scale-up: {domain: 8, bandwidth: 100 GB/s}}\n")  # fmt: skip
    with pytest.raises(ConfigError, match="no 16-bit peak"):
        ratio(load_profile(str(only)), load_profile("h100-sxm"))
    step = ratio(load_profile(str(only)), load_profile("h100-sxm"), precision="fp8")
    assert step["flops"] == pytest.approx(19.789)
    assert step["scale_out"] is None  # one tier: it is the scale-up one
    assert step["scale_up"] == pytest.approx(4.5)


def test_a_blank_bandwidth_leaves_its_ratios_blank(tmp_path):
    blank = tmp_path / "blank.yaml"
    blank.write_text("extends: h100-sxm\nmemory: {bandwidth: null}\n")
    step = ratio(load_profile("h100-sxm"), load_profile(str(blank)))
    assert step["memory_bandwidth"] is None
    assert step["flop_per_memory_byte"] is None
    assert step["flop_per_scale_up"] == 1.0


def test_per_is_a_package_or_a_device():
    with pytest.raises(ConfigError, match="allowed: package, device"):
        ratio(load_profile("mi50"), load_profile("mi60"), per="rack")

"""The fit finds what made the rows, leaves what they do not tell, and reaches its targets on measured kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from comp_comm.calibration.check import predictions
from comp_comm.calibration.fit import Fit, Fitted, fit_profile, held_out, refitted
from comp_comm.calibration.least_squares import minimise
from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, ElementwiseRow, GemmRow, Log
from comp_comm.calibration.parameters import collective_parameters, with_numbers
from comp_comm.calibration.readers import read_log
from comp_comm.calibration.run import Calibration, calibrate_logs, check_logs, number_rows
from comp_comm.calibration.samples import make_samples
from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.hardware.certainty import collective_certainty

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
needs_silicon = pytest.mark.skipif(
    not (SHARED / "silicon").is_dir(),
    reason="the kernels measured for AIConfigurator's database are not beside the checkout (data/silicon)",
)
DATA = Path(__file__).parent / "data"
TRUE = {
    "timing.gemm_efficiency": 0.6, "timing.memory_efficiency": 0.5, "timing.kernel_latency": 6e-6,
    "timing.gemm_ramp_k": 300.0, "timing.gemm_ramp_tiles": 80.0, "timing.gemm_split_k": 700.0,
}  # fmt: skip


def gemms(count=400, largest=16384, seed=0):
    chance = np.random.default_rng(seed)
    sizes = (2 ** chance.uniform(7, np.log2(largest), (count, 3))).astype(int)
    return [GemmRow(1.0, "bf16", 0, *(int(n) for n in size)) for size in sizes]


def timed(rows, profile, noise=0.0, seed=1):
    """Rows with the seconds that a profile predicts."""
    samples, _ = make_samples(rows, "bf16", 8)
    chance = np.random.default_rng(seed)
    out = []
    kinds = {}
    for row in rows:
        kinds.setdefault(getattr(row, "kind", getattr(row, "op", "")), []).append(row)
    for sample in samples:
        seconds = sample.predict(profile.hardware("bf16")) * np.exp(noise * chance.standard_normal(len(sample.seconds)))
        out += [type(row)(**{**row.__dict__, "seconds": float(s)})
                for row, s in zip(kinds[sample.collective], seconds, strict=True)]  # fmt: skip
    return out


def fitted(rows, profile):
    samples, _ = make_samples(rows, "bf16", 8)
    return samples, fit_profile(profile, "bf16", samples, [np.ones(len(s.seconds), bool) for s in samples])


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_it_finds_what_made_the_rows(noise):
    profile = load_profile("h100-sxm")
    _, found = fitted(timed(gemms(), with_numbers(profile, TRUE), noise), profile)
    assert set(found.values) == set(TRUE)
    for key, value in TRUE.items():
        assert found.values[key].value == pytest.approx(value, rel=0.01 + 6 * noise), key


def test_a_few_wild_rows_do_not_move_it():
    profile = load_profile("h100-sxm")
    rows = timed(gemms(), with_numbers(profile, TRUE))
    wild = [type(row)(**{**row.__dict__, "seconds": row.seconds * 30}) for row in rows[:20]]
    _, found = fitted([*wild, *rows[20:]], profile)
    assert found.values["timing.gemm_efficiency"].value == pytest.approx(0.6, rel=0.03)


@pytest.mark.slow
def test_what_the_rows_do_not_tell_is_left_and_named():
    """Large cubes of a device like the profile's, but for its rate: they say nothing of launches or splits."""
    profile = load_profile("h100-sxm")
    large = [GemmRow(1.0, "bf16", 0, n, n, n) for n in range(8192, 16384, 256)]
    slower = with_numbers(profile, {"timing.gemm_efficiency": TRUE["timing.gemm_efficiency"]})
    _, found = fitted(timed(large, slower, 0.01), profile)
    assert "timing.gemm_efficiency" in found.values
    assert {"timing.kernel_latency", "timing.gemm_split_k"} <= set(found.left)
    assert all(found.left.values())


def test_a_number_needed_but_not_known_has_no_factor():
    """JSON has no infinity, and a table nothing to say."""
    profile = load_profile("h100-sxm")
    samples, fit = fitted(timed(gemms(), with_numbers(profile, TRUE)), profile)
    key = "timing.gemm_ramp_k"
    fit.values[key] = replace(fit.values[key], within=np.inf)
    every = [np.ones(len(sample.seconds), bool) for sample in samples]
    found = Calibration(profile, "bf16", [], [], samples, predictions(fit.profile, "bf16", samples), every, "", fit)
    assert found.meta()["fitted"][key]["within_factor"] is None
    assert json.loads(json.dumps(found.meta(), allow_nan=False))["fitted"].keys() == fit.values.keys()
    assert [row["number"] for row in number_rows(found) if row["within"] is None] == [key]


@pytest.mark.slow
def test_two_rows_are_too_few():
    profile = load_profile("h100-sxm")
    _, found = fitted(timed(gemms(2), profile), profile)
    assert not found.values
    assert any("too few" in why for why in found.left.values())


def test_it_finds_what_whole_rows_take():
    """LayerNorm in two kernels, softmax of long rows read three times: as made, so found; not from GELU alone."""
    true = {"timing.stream_efficiency": 0.6, "timing.stream_latency": 8e-6, "timing.stream_reread": 0.5,
            "timing.stream_row_latency": 5e-9}  # fmt: skip
    profile, rows = load_profile("mi210"), []
    for op in ("gelu", "layernorm", "softmax"):
        rows += timed([ElementwiseRow(1.0, "bf16", 0, op, n, columns) for n in (64, 1024, 8192, 65536)
                       for columns in (128, 1024, 2048, 16384)], with_numbers(profile, true))  # fmt: skip
    _, found = fitted(rows, profile)
    assert set(found.values) == set(true)
    for key, value in true.items():
        assert found.values[key].value == pytest.approx(value, rel=0.02), key
    _, found = fitted(rows[:16], load_profile("h100-sxm"))
    assert set(found.values) == {"timing.stream_efficiency", "timing.stream_latency"}


@pytest.mark.slow
def test_it_finds_the_network():
    profile = load_profile("a100-sxm-80gb")
    true = {"timing.collective_latency": 12e-6, "network.scale-up.efficiency": 0.6, "network.scale-up.latency": 1.5e-6}
    rows = [CollectiveRow(1.0, "", 0, kind, 2**power, n) for power in range(10, 30) for n in (2, 4, 8)
            for kind in ("all_reduce", "all_gather")]  # fmt: skip
    _, found = fitted(timed(rows, with_numbers(profile, true)), profile)
    for key, value in true.items():
        assert found.values[key].value == pytest.approx(value, rel=0.02), key


@pytest.mark.slow
def test_rows_across_nodes_leave_what_is_inside():
    """Groups of two nodes and more depend on the links inside, but a log of them alone must not move those."""
    profile = load_profile("a100-sxm-80gb")
    slow = {"network.scale-out.efficiency": 0.3, "network.scale-up.efficiency": 0.4}
    rows = [CollectiveRow(1.0, "", 0, kind, 2**power, n, 8) for power in range(10, 31) for n in (16, 32, 64)
            for kind in ("all_reduce", "all_gather")]  # fmt: skip
    _, found = fitted(timed(rows, with_numbers(profile, slow)), profile)
    assert not any("scale-up" in key or key == "timing.collective_latency" for key in found.values)
    assert found.left["network.scale-up.efficiency"] == "no row is in a domain"
    assert found.values["network.scale-out.efficiency"].value < 0.5
    inside, _ = collective_certainty(found.profile)
    assert inside.source == collective_certainty(profile)[0].source


def test_what_ends_at_its_bound_is_said(tmp_path, capsys):
    """A peak that is stated too low leaves a share of it at 1."""
    table = tmp_path / "gemms.csv"
    fast = with_numbers(load_profile("h100-sxm"), TRUE).value("peak.bf16")
    lines = [f"{m},{n},{k},{2.0 * m * n * k / (2 * fast)},bf16" for m in (512, 2048, 8192) for n in (512, 2048, 8192)
             for k in (512, 4096, 16384)]  # fmt: skip
    table.write_text("m,n,k,seconds,dtype\n" + "\n".join(lines) + "\n")
    assert run(["calibrate", str(table), "--extends", "h100-sxm"]) == 0
    assert "timing.gemm_efficiency ended at its bound, 1" in "".join(capsys.readouterr())


@pytest.mark.slow
def test_held_out_rows_are_predicted_by_others():
    profile = load_profile("h100-sxm")
    samples, found = fitted(timed(gemms(200), with_numbers(profile, TRUE), 0.03), profile)
    (predicted,) = held_out(found, "bf16", samples, seed=0)
    assert np.all(np.isfinite(predicted))
    assert np.mean(np.abs(predicted / samples[0].seconds - 1)) < 0.06


def test_bounds_are_kept():
    found = minimise(lambda x: np.exp(x[0]) * np.ones(5), np.full(5, 100.0), np.zeros(1), np.full(1, -1.0), np.ones(1))
    assert found.x[0] == 1.0


def log_of(name):
    return read_log(str(SHARED / name))


def collectives_of(system):
    return read_log(str(DATA / "collectives.csv"), {"system": [system]})


def size_row(found, text, collective=None):
    rows = [row for row in found.by_size if text in row["size"] and row["collective"] == collective]
    return rows[0]


@pytest.mark.skipif(not (SHARED / "measured").is_dir(), reason="the published kernels are not beside the checkout")
def test_the_machine_of_simumax_has_the_speed_of_its_own_gemms():
    """Its profile beside the runs is from the table that SimuMax publishes with them, and from none of the runs."""
    own = {"source": ["MooreThreads/SimuMax configs/system/b200_bf16_ceperm.json @4dcaae513ba7"], "op": ["gemm"]}
    log = read_log(str(SHARED / "measured" / "gemms.csv"), own)
    names = ("validation/simumax.yaml", "b200-sxm")
    rows = {name: size_row(check_logs([log], name), ">= 1 TFLOP") for name in names}
    assert rows["b200-sxm"]["n"] == 154
    assert rows["b200-sxm"]["bias"] < -0.2
    assert abs(rows["validation/simumax.yaml"]["bias"]) < 0.05


@pytest.mark.slow
@needs_silicon
@pytest.mark.parametrize(
    ("profile", "data", "mean", "p90"),
    [
        ("a100-sxm-80gb", "a100_sxm", 0.07, 0.15),
        ("h100-sxm", "h100_sxm", 0.07, 0.15),
        ("h200-sxm", "h200_sxm", 0.07, 0.16),
        ("b200-sxm", "b200_sxm", 0.07, 0.155),
        ("gb200-nvl72", "gb200", 0.08, 0.16),
        ("b300-sxm", "b300_sxm", 0.07, 0.15),
        ("gb300-nvl72", "gb300", 0.07, 0.15),
    ],
)
def test_gemms_fitted_on_a_tenth_of_the_rows(profile, data, mean, p90):
    found = calibrate_logs([log_of(f"silicon/gemm_bf16_random_{data}.csv")], profile, train=0.1)
    assert found.fit is not None
    assert len(found.fit.values) <= 6
    row = size_row(found, "m, n, k >= 256")
    assert row["mean_abs_error"] <= mean
    assert row["p90_abs_error"] <= p90


@pytest.mark.slow
@needs_silicon
@pytest.mark.parametrize(
    ("profile", "data"), [("a100-sxm-80gb", "a100_sxm"), ("h100-sxm", "h100_sxm"), ("b200-sxm", "b200_sxm")]
)
def test_flash_attention_fitted_on_a_tenth_of_the_rows(profile, data):
    found = calibrate_logs([log_of(f"silicon/flash_attention_fwd_bf16_{data}.csv")], profile, train=0.1)
    assert size_row(found, "seq_len >= 1024")["mean_abs_error"] <= 0.10


def test_layer_norm_softmax_and_gelu_of_the_mi210_fitted_together():
    ops = ["layernorm", "softmax", "gelu"]
    log = read_log(str(DATA / "elementwise_mi210.csv"))
    found = calibrate_logs([log], "mi210")
    assert len(found.fit.values) == 4
    errors = {row["collective"]: row["mean_abs_error"] for row in found.rows}
    assert sorted(errors) == sorted(ops)
    assert max(errors.values()) <= 0.10
    assert max(row["mean_abs_error"] for row in check_logs([log], "mi210", timing="base").rows) <= 0.10


@pytest.mark.parametrize(
    ("profile", "data", "large"),
    [("a100-sxm-80gb", "a100_sxm", 0.09), ("h100-sxm", "h100_sxm", 0.08), ("b200-sxm", "b200_sxm", 0.08),
     ("gb200-nvl72", "gb200", 0.08)],
)  # fmt: skip
def test_collectives_of_shipped_profiles(profile, data, large):
    found = check_logs([collectives_of(f"{data}/comm")], profile)
    for text, most in ((">= 1 MiB", large), ("< 1 MiB", 0.10)):
        rows = [row for row in found.by_size if text in row["size"] and row["collective"] != "all_to_all"]
        assert sum(r["n"] * r["mean_abs_error"] for r in rows) / sum(r["n"] for r in rows) <= most, text


@pytest.mark.a_third
@pytest.mark.parametrize("name", ["a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb300"])
def test_all_to_alls_of_shipped_profiles(name):
    profile = {"a100_sxm": "a100-sxm-80gb", "gb300": "gb300-nvl72"}.get(name, name.replace("_", "-"))
    found = check_logs([collectives_of(f"{name}/comm")], profile)
    (row,) = [row for row in found.rows if row["collective"] == "all_to_all"]
    assert row["mean_abs_error"] <= 0.10


@pytest.mark.parametrize(
    ("profile", "system", "rows"),
    [("h200-sxm", "h200_sxm", 90), ("b300-sxm", "b300_sxm", 90), ("gb300-nvl72", "gb300", 50)],
)
def test_collectives_of_other_shipped_profiles(profile, system, rows):
    found = check_logs([collectives_of(f"{system}/comm")], profile)
    assert sum(row["n"] for row in found.by_size) >= rows
    for kinds in (("all_to_all",), ("all_reduce", "all_gather", "reduce_scatter")):
        chosen = [row for row in found.by_size if row["collective"] in kinds]
        mean = sum(r["n"] * r["mean_abs_error"] for r in chosen) / sum(r["n"] for r in chosen)
        assert mean <= 0.10, (kinds, mean)


@pytest.mark.slow
@needs_silicon
def test_shipped_profiles_predict_gemms_and_attention():
    """Of operands of random numbers; attention as vLLM ran it: FlashAttention-2, -3 and TensorRT-LLM's kernel."""
    for profile, data, kernel, most in (
        ("a100-sxm-80gb", "a100_sxm", "flash_2", 0.20), ("h100-sxm", "h100_sxm", "flash_3", 0.09),
        ("b200-sxm", "b200_sxm", "trtllm", 0.14),
    ):  # fmt: skip
        logs = [log_of(f"silicon/{kind}_{data}.csv") for kind in ("gemm_bf16_random", "flash_attention_fwd_bf16")]
        found = check_logs(logs, profile, attention_kernel=kernel)
        gemm, attention = size_row(found, "m, n, k >= 256"), size_row(found, "seq_len >= 1024")
        assert gemm["mean_abs_error"] <= 0.08
        assert abs(gemm["bias"]) <= 0.05
        assert attention["mean_abs_error"] <= most


def test_attention_of_the_kernel_that_is_named():
    """FlashAttention-2 keeps 35 to 40 % of an H100's peak, -3 up to 75 (arXiv:2407.08608, Figure 5)."""
    rows = [AttentionRow(1e-3, "bf16", 0, 1, 16384, 16, 16, 128)]
    logs = [Log("attention.csv", "", rows)]
    names = ("flash_2", "flash_3", None, "cudnn")
    two, three, usual, cudnn = (float(check_logs(logs, "h100-sxm", attention_kernel=name).predicted[0][0])
                                for name in names)  # fmt: skip
    assert usual == cudnn
    assert 1.5 < two / three < 2
    with pytest.raises(ConfigError, match="h100-sxm has no numbers of 'flash_4'; did you mean 'flash_"):
        check_logs(logs, "h100-sxm", attention_kernel="flash_4")


@pytest.mark.slow
def test_the_numbers_of_the_kernel_that_is_named_are_fitted():
    rows = [
        AttentionRow(2e-5 + 2.0 * s * s * 8 * 128 / 4e14, "bf16", 0, 1, s, 8, 8, 128) for s in range(512, 16384, 512)
    ]
    found = calibrate_logs([Log("attention.csv", "", rows)], "h100-sxm", attention_kernel="flash_2")
    assert set(found.fit.values) <= {key for key in found.profile.numbers if key.startswith("attention.flash_2.")}
    assert "attention.flash_2.efficiency" in found.fit.values


def test_perlmutter_across_nodes():
    found = check_logs([collectives_of("perlmutter")], "perlmutter")
    for text, most in ((">= 1 MiB across", 0.055), ("< 1 MiB across", 0.10)):
        rows = [row for row in found.by_size if text in row["size"]]
        assert sum(r["n"] * r["mean_abs_error"] for r in rows) / sum(r["n"] for r in rows) <= most, text


@pytest.mark.slow
def test_perlmutter_at_node_counts_left_out():
    """Each of 2 to 256 nodes predicted by numbers found on the others, started from the profile's."""
    log = collectives_of("perlmutter")
    profile = load_profile("perlmutter")
    samples, _ = make_samples(log.rows, "bf16", domain=4)
    nodes = [np.array([r.devices / r.per_node for r in log.rows if r.kind == s.collective]) for s in samples]
    numbers = {p.key: p for p in collective_parameters(profile, inside=True, across=True)}
    used = [p for key, p in numbers.items() if profile.value(key, 0.0) > 0]
    found = Fit(profile, {p.key: Fitted(profile.value(p.key), 1.0, "collective") for p in used}, used=used)
    errors = [np.full(len(s.seconds), np.nan) for s in samples]
    for count in (2, 4, 16, 32, 128, 256):
        hardware = refitted(found, "bf16", samples, [n != count for n in nodes]).hardware("bf16")
        for sample, n, error in zip(samples, nodes, errors, strict=True):
            error[n == count] = np.abs(sample.predict(hardware) / sample.seconds - 1)[n == count]
    counts, error = np.concatenate(nodes), np.concatenate(errors)
    large = np.concatenate([s.magnitude for s in samples]) >= 2**20
    for count in (2, 4, 16, 32, 128, 256):
        assert np.mean(error[(counts == count) & large]) <= 0.09
        assert np.mean(error[(counts == count) & ~large]) <= 0.15
    assert np.mean(error[(counts > 1) & large]) <= 0.06
    assert np.mean(error[(counts > 1) & ~large]) <= 0.10

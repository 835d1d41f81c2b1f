"""``compcomm calibrate``, ``project`` and ``measure`` as a user meets them."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
from nccl_log import run, text

import comp_comm as cc
from comp_comm.calibration.applies import applies_to
from comp_comm.calibration.measuring import backends
from comp_comm.calibration.parameters import KERNELS, collective_parameters, kernel_parameters
from comp_comm.calibration.readers import read_log
from comp_comm.calibration.samples import make_samples
from comp_comm.configs.hardware_file import load_profile


@pytest.fixture
def gemms(tmp_path):
    """GEMMs as an H100 of half its speed would run them."""
    chance = np.random.default_rng(3)
    lines = [
        "m,n,k,time_s",
        *(",".join(map(str, (2 ** chance.uniform(7, 13, 3)).astype(int))) + ",1" for _ in range(300)),
    ]
    path = tmp_path / "gemms.csv"
    path.write_text("\n".join(lines) + "\n")
    (sample,), _ = make_samples(read_log(str(path)).rows, "bf16", 8)
    slow = load_profile("h100-sxm").hardware("bf16")
    seconds = 2 * sample.predict(slow) * np.exp(0.02 * chance.standard_normal(300))
    path.write_text(
        "\n".join([lines[0], *(f"{line[:-1]}{s:.6e}" for line, s in zip(lines[1:], seconds, strict=True))]) + "\n"
    )
    return path


def test_calibrate_writes_a_profile_that_predicts(compcomm, gemms, tmp_path):
    profile = tmp_path / "mine.yaml"
    code, out, err = compcomm("calibrate", gemms, "--extends", "h100-sxm", "-o", profile, "--format", "json",
                              "--date", "2026-11-28")  # fmt: skip
    assert code == 0, err
    answer = json.loads(out)
    assert set(answer["rows"][0]) >= {"operator", "collective", "n", "mean_abs_error", "median_abs_error",
                                      "p90_abs_error", "bias"}  # fmt: skip
    assert answer["rows"][0]["n"] == 300
    assert answer["rows"][0]["mean_abs_error"] < 0.04
    assert {row["size"] for row in answer["by_size"]} >= {"m, n, k >= 256"}
    fitted = answer["meta"]["fitted"]["timing.gemm_efficiency"]["value"]
    assert fitted == pytest.approx(0.5 * load_profile("h100-sxm").value("timing.gemm_efficiency"), rel=0.06)
    assert "gemms.csv: table of GEMMs, 300 rows" in err
    mine = load_profile(str(profile))
    assert mine.value("timing.gemm_efficiency") == pytest.approx(fitted, rel=1e-3)
    assert mine.numbers["timing.gemm_efficiency"].certainty == "calibrated"
    assert "300 gemm, mean error" in mine.numbers["timing.gemm_efficiency"].source
    assert mine.numbers["timing.gemm_efficiency"].date == "2026-11-28"
    code, out, _ = compcomm("calibrate", "--check", gemms, "--hardware", profile, "--format", "json")
    assert (code, json.loads(out)["rows"][0]["mean_abs_error"] < 0.04) == (0, True)
    assert "fitted" not in json.loads(out)["meta"]
    applies = {key: number["applies_to"] for key, number in answer["meta"]["fitted"].items()}
    assert applies["timing.gemm_efficiency"] == "GEMMs in bf16: share of the peak, large ones"
    code, out, _ = compcomm("calibrate", gemms, "--extends", "h100-sxm")
    assert "applies to" in out
    assert all(said.split(":")[0] in out for said in applies.values())


def test_every_number_that_can_be_fitted_says_of_what_it_is():
    """And two of them that are of the same kernels say different things."""
    for name in ("h100-sxm", "mi210", "perlmutter"):
        profile = load_profile(name)
        numbers = [*collective_parameters(profile, True, True)]
        for operator in ("gemm", "attention", "elementwise"):
            numbers += [*kernel_parameters(profile, operator), *KERNELS[operator]]
        keys = {number.key for number in numbers}
        assert len({applies_to(key, profile, "bf16") for key in keys}) == len(keys)


@pytest.mark.slow
def test_the_same_logs_give_the_same_bytes(compcomm, gemms, tmp_path):
    answers = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        profile = folder / "mine.yaml"
        flags = ("--extends", "h100-sxm", "-o", profile, "--date", "2026-11-28", "--format", "json")
        answers.append((compcomm("calibrate", gemms, *flags)[1], profile.read_text()))
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_a_fitted_preset_is_set_aside(compcomm, tmp_path):
    """The default timing of the MI210 is a preset of a paper: what was fitted must count."""
    gemms, profile = tmp_path / "g.csv", tmp_path / "mine.yaml"
    sizes = [2**power for power in range(7, 15)]
    gemms.write_text(
        "m,n,k,time_us\n" + "".join(f"{m},{n},8192,{20 + 2 * m * n * 8192 / 6e7:.3f}\n" for m in sizes for n in sizes)
    )
    assert compcomm("calibrate", gemms, "--extends", "mi210", "-o", profile, "--precision", "fp16")[0] == 0
    mine = load_profile(str(profile))
    assert mine.default_timing is None
    assert float(mine.hardware("fp16").timing.gemm_efficiency) == pytest.approx(60 / 181, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["LOG"], "--extends"),
        (["--check", "LOG"], "--hardware"),
        (["--check", "LOG", "--hardware", "h100-sxm", "--train", "0.5"], "--train goes without --check"),
        (["LOG", "--extends", "h100-sxm", "--hardware", "h100-sxm"], "--hardware goes with --check"),
        (["LOG", "--extends", "h100-sxm", "--train", "2"], "between 0 and 1"),
        (["LOG", "--extends", "h100-smx"], "did you mean"),
        (["LOG", "--extends", "h100-sxm", "-o", "x.json"], "must end in .yaml"),
        (["LOG", "--extends", "h100-sxm", "-o", "no/such/x.yaml"], "no folder"),
        (["LOG", "--extends", "h100-sxm", "--only", "gpu"], "COLUMN=VALUE"),
        (["LOG", "--extends", "h100-sxm", "--only", "gpu=x"], "no column 'gpu'"),
        (["LOG", "--extends", "h100-sxm", "--date", "today"], "2026-11-28"),
        (["LOG", "--extends", "h100-sxm", "--collective", "gossip"], "there is no 'gossip'"),
        (["LOG", "--extends", "h100-sxm", "--operator", "attention"], "no row of the logs"),
        (["LOG", "--extends", "mi50"], "blank or missing|fit|cannot"),
        (["nothing.csv", "--extends", "h100-sxm"], "No such file"),
        ([], "give LOGs"),
    ],
)
def test_wrong_uses_end_with_2_and_write_nothing(compcomm, gemms, arguments, why, tmp_path, monkeypatch):
    import re

    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, out, err = compcomm("calibrate", *(gemms if a == "LOG" else a for a in arguments))
    if arguments[-1:] == ["mi50"]:
        assert code in (0, 2)
        return
    assert code == 2, out
    assert re.search(why, err), err
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_it_does_not_write_over_its_logs(compcomm, gemms, tmp_path):
    code, _, err = compcomm("calibrate", "--check", gemms, "--hardware", "h100-sxm", "-o", gemms)
    assert code == 2
    assert "is an input" in err


def test_a_log_counts_once(compcomm, gemms, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(gemms)
    for other, words in (
        (gemms, "is given twice"),
        (link, "is the same file as"),
        (f"{tmp_path}/./gemms.csv", "is the"),
    ):
        code, out, err = compcomm("calibrate", gemms, other, "--extends", "h100-sxm")
        assert (code, out) == (2, "")
        assert f"{other}: {words}" in err
        assert "its rows would count twice" in err
        with pytest.raises(cc.ConfigError, match="would count twice"):
            cc.calibrate([str(gemms), str(other)], "h100-sxm")


def test_the_collective_is_only_said_of_logs_that_do_not_say(compcomm, gemms, tmp_path):
    log = tmp_path / "nccl.log"
    log.write_text(text(run("all_reduce", 2, 8)))
    flags = ("--hardware", "h100-sxm", "--collective", "all_gather")
    code, _, err = compcomm("calibrate", "--check", log, *flags)
    assert code == 2
    assert "--collective all_gather: the logs say themselves that they are of all_reduce; leave it out" in err
    code, _, err = compcomm("calibrate", "--check", gemms, *flags)
    assert (code, "--collective all_gather: no log has collectives" in err) == (2, True)
    log.write_text(text(run("all_reduce", 2, 8), run("all_gather", 2, 8, named=False)))
    assert compcomm("calibrate", "--check", log, *flags)[0] == 0


def test_more_devices_a_node_than_the_profile_has(compcomm, tmp_path):
    log = tmp_path / "c.csv"
    log.write_text("collective,n_gpus,gpus_per_node,size_bytes,time_us\nall_reduce,32,16,1048576,99\n")
    code, _, err = compcomm("calibrate", "--check", log, "--hardware", "h100-sxm")
    assert code == 2
    assert "16 devices to a node" in err


@pytest.mark.slow
def test_the_plot(compcomm, gemms, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "errors.png"
    assert compcomm("calibrate", "--check", gemms, "--hardware", "h100-sxm", "--plot", picture)[0] == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"


# --- project ----------------------------------------------------------------------------------------------------------

ITERATIONS = """\
hidden,seq_len,micro_batch,tp,operator,time_us
1024,512,4,2,gemm,1000
1024,512,4,2,layernorm,100
1024,512,4,2,all_reduce,200
2048,512,4,2,gemm,4000
2048,512,4,2,layernorm,210
2048,512,4,2,all_reduce,380
1024,1024,4,8,gemm,500
1024,1024,4,8,layernorm,200
1024,1024,4,8,all_reduce,700
"""


def test_projection_against_what_was_measured(compcomm, tmp_path):
    """H doubled: GEMM x4, LayerNorm x2, all-reduce x2. SL doubled, TP x4: GEMM x1/2, LayerNorm x2, all-reduce x3.5."""
    table = tmp_path / "iterations.csv"
    table.write_text(ITERATIONS)
    code, out, _ = compcomm("project", table, "--format", "json")
    assert code == 0
    answer = json.loads(out)
    found = {(row["hidden"], row["operator"]): row["error"] for row in answer["rows"]}
    assert found[2048, "gemm"] == pytest.approx(0)
    assert found[2048, "layernorm"] == pytest.approx(200 / 210 - 1)
    assert found[2048, "all_reduce"] == pytest.approx(400 / 380 - 1)
    assert [found[1024, name] for name in ("gemm", "layernorm", "all_reduce")] == pytest.approx([0, 0, 0], abs=1e-12)
    assert {row["operator"] for row in answer["meta"]["errors"]} == {"gemm", "layernorm", "all_reduce", "total"}


def test_projection_to_other_sizes(compcomm, tmp_path):
    table = tmp_path / "iterations.csv"
    table.write_text(ITERATIONS)
    flags = ("--hidden", "1K", "--hidden", "4K", "--tp", "4", "--format", "json")
    rows = json.loads(compcomm("project", table, *flags)[1])["rows"]
    assert [row["hidden"] for row in rows] == [1024, 4096]
    assert rows[1]["gemm_s"] == pytest.approx(16e-3 / 2)
    assert rows[1]["serialized_comm_fraction"] == pytest.approx(1.2 / (8 + 0.4 + 1.2))
    listed = ("--hidden", "1K,4096", "--tp", "[4]", "--format", "json")
    assert json.loads(compcomm("project", table, *listed)[1])["rows"] == rows


@pytest.mark.parametrize(
    ("text", "flags", "why"),
    [
        (ITERATIONS, ("--baseline", "hidden=8,seq_len=1,micro_batch=1,tp=1"), "no iteration of these sizes"),
        (ITERATIONS, ("--baseline", "hidden=8"), "seq_len, micro_batch, tp missing"),
        (ITERATIONS, ("--baseline", "heads=8"), "there is no size 'heads'"),
        (ITERATIONS, ("--baseline", "hidden=nan"), "Error: --baseline hidden: 'nan' is not a number"),
        (ITERATIONS, ("--baseline", "tp=required"), "--baseline tp: must be one whole number of at least 1"),
        (ITERATIONS, ("--hidden", "4096,x"), "--hidden: 'x' is not a number; must be"),
        (ITERATIONS, ("--hidden", "4096,,8"), "--hidden: '4096,,8' has no value beside a comma"),
        (ITERATIONS.replace("gemm", "magic"), (), "no law is known for the operator 'magic'"),
        (ITERATIONS.replace("2048", "0"), (), "above 0"),
        ("\n".join(ITERATIONS.splitlines()[:3]) + "\n", (), "nothing to project to"),
        (ITERATIONS.replace(",2,", ",1,"), ("--tp", "8"), "profile it with TP of at least 2"),
        ("m,n,k,time_us\n64,64,64,5\n", ("--baseline", "hidden=8,seq_len=1,micro_batch=1,tp=1"), "not a profile"),
        ("Name,Calls,TotalDurationNs\ngemm,1,5\n", (), "--baseline is missing"),
        ("", (), "is empty"),
    ],
)
def test_wrong_projections(compcomm, tmp_path, text, flags, why):
    table = tmp_path / "iterations.csv"
    table.write_text(text)
    code, _, err = compcomm("project", table, *flags)
    assert code == 2
    assert why in err


# --- measure ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_measure_and_calibrate_this_machine(compcomm, tmp_path):
    flags = ("--quiet", "--shapes", 40, "--largest", 512, "--seconds", 0)
    code, _, err = compcomm("measure", "-o", tmp_path / "here", *flags)
    assert code == 0
    assert "no table of attention" in err
    profile = tmp_path / "cpu.yaml"
    profile.write_text("name: cpu\ntitle: a CPU\nvendor: x\nyear: 2020\npeak: {fp32: 2 TFLOP/s}\n"
                       "memory: {capacity: 8 GiB, bandwidth: 200 GB/s}\n"
                       "network: {host: {domain: 2, bandwidth: 1 GB/s}}\n"
                       "timing: {gemm_efficiency: 0.5, memory_efficiency: 0.5}\n")  # fmt: skip
    logs = [tmp_path / "here" / name for name in ("gemms.csv", "elementwise.csv")]
    code, out, err = compcomm("calibrate", *logs, "--extends", profile, "--format", "json")
    assert code == 0, err
    assert {row["operator"] for row in json.loads(out)["rows"]} == {"gemm", "elementwise"}


def test_measure_without_pytorch_says_what_to_install(compcomm, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for flags in (("--backend", "torch"), ("--collectives",)):
        code, _, err = compcomm("measure", "-o", tmp_path / "here", *flags)
        assert code == 2
        assert "pip install 'compcomm[measure]'" in err


def test_measure_with_pytorch(compcomm, tmp_path, monkeypatch):
    """A stand-in for PyTorch: the calls that are made of it."""
    functional = types.SimpleNamespace(
        gelu=lambda x: x, layer_norm=lambda x, shape: x, softmax=lambda x, dim: x,
        scaled_dot_product_attention=lambda q, k, v, is_causal: q,
    )  # fmt: skip

    class Tensor(np.ndarray):
        def to(self, kind):
            return self

        def copy_(self, other):
            return self

    torch = types.SimpleNamespace(
        float32="f", float16="h", bfloat16="b", matmul=np.matmul, add=np.add,
        rand=lambda shape, device, dtype: np.ones(shape, np.float32).view(Tensor),
        nn=types.SimpleNamespace(functional=functional), cuda=types.SimpleNamespace(is_available=lambda: False),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    flags = ("--backend", "torch", "--shapes", 6, "--largest", 128, "--seconds", 0, "--quiet", "-o", tmp_path / "here")
    assert compcomm("measure", *flags)[0] == 0
    for name in ("gemms.csv", "elementwise.csv", "attention.csv"):
        assert read_log(str(tmp_path / "here" / name)).rows
    code, _, err = compcomm("measure", *flags, "--device", "cuda")
    assert (code, "finds no GPU" in err) == (2, True)


def test_what_measure_refuses(compcomm, tmp_path):
    (tmp_path / "file").write_text("x")
    for flags, why in (
        (("-o", tmp_path / "file"), "is a file"),
        (("-o", tmp_path / "here", "--dtype", "bf16"), "--backend torch"),
        (("-o", tmp_path / "here", "--library", "gloo"), "--collectives"),
    ):
        code, _, err = compcomm("measure", *flags)
        assert (code, why in err) == (2, True), err


def test_every_backend_has_every_kernel_it_lists():
    backend = backends.NumpyBackend()
    for op in backend.streams:
        backend.stream(op, 4, 4)()
    assert backend.gemm(2, 3, 4)().shape == (2, 3)

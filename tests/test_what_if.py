"""What-ifs of the case study: each moves it as its source says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comp_comm.cli.main import run
from comp_comm.errors import ConfigError
from comp_comm.formulas.collectives import all_reduce_memory_passes, fused_visible_seconds
from comp_comm.sweeps.result import sweep
from comp_comm.sweeps.what_if import TECHNIQUES, TOGETHER, what_if


def rows_of(name, *overrides):
    return what_if((name,), tuple(overrides))[0]


def test_reduction_in_the_network_halves_a_long_ring():
    assert [row["serialized_ratio"] for row in rows_of("in-network")] == pytest.approx([0.5] * 3)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_reduction_in_the_network_leaves_n_over_twice_n_minus_one(n):
    point = {"hidden": 2**20, "seq_len": 2**16, "micro_batch": 16, "tp": n, "dp": 1}  # bytes outweigh latencies
    times = [
        sweep({"cost_model": "comp_vs_comm", "hardware": "h100-sxm", "set": {**point, "in_network_reduction": switch}})
        .columns["serialized_comm_s"][0]
        for switch in ("off", "on")
    ]  # fmt: skip
    assert times[1] / times[0] == pytest.approx(n / (2 * (n - 1)), rel=1e-4)


def test_a_co_processor_removes_interference_and_nothing_else():
    intra, inter, slowed = rows_of("offload")
    assert intra["speedup"] == inter["speedup"] == 1
    assert slowed["step_after_s"] == inter["step_before_s"]
    assert slowed["visible_after_fraction"] == pytest.approx(0.618, abs=0.003)  # the second scenario's share


def test_memory_that_adds_lessens_interference_by_a_fifth():
    *_, slowed = rows_of("in-memory")
    # 1.2 becomes 1 + 0.2 x 4 / 5 of what the links alone take.
    assert slowed["overlappable_after_s"] / slowed["overlappable_before_s"] == pytest.approx(1.16 / 1.2)


def test_fused_shows_what_its_gemms_do_not_hide():
    row = rows_of("fused")[0]
    # Of 36 H^2 T / TP multiplications of a layer's weights and 6 H T (SL) of attention, the producers do 12.
    hidden, seq_len, total = 65536, 4096, row["step_before_s"] - row["serialized_before_s"]
    linear = total * 36 * hidden / (36 * hidden + 6 * seq_len)
    each = row["serialized_before_s"] / 4
    shown = sum(max(0, each - g) + min(g, each) / 8 for g in (linear * w / 36 for w in (1, 4, 3, 4)))
    assert row["serialized_after_s"] == pytest.approx(shown, rel=1e-9)


@pytest.mark.parametrize("count", ["complete", "paper_exact"])
@pytest.mark.parametrize("tiles", [1, 8, 1_000_000])
def test_fused_communication_never_makes_more_flops_slower(count, tiles):
    """What is not counted as compute hides nothing: else less compute would be less to hide under, for nothing."""
    point = {"hidden": 4096, "seq_len": 2048, "micro_batch": 1, "dp": 8, "count": count, "fused_comm": "on"}
    study = {
        "cost_model": "comp_vs_comm", "hardware": "mi210", "set": {**point, "fused_tiles": tiles},
        "sweep": {"tp": [8, 64], "flops": [1, 2, 4, 8, 32]},
    }  # fmt: skip
    for times in np.reshape(sweep(study).columns["step_s"], (2, 5)):
        assert np.all(np.diff(times) <= 1e-12 * times[:-1])


def test_as_the_paper_counts_only_the_backward_producers_hide():
    """Eqs 1-3 count Q, K, V and one FC: of 21 H^2 T / TP multiplications, their input gradients do 7, at the end."""
    point = {"hidden": 65536, "seq_len": 4096, "micro_batch": 1, "tp": 256, "count": "paper_exact"}
    plain, fused = (
        sweep({"cost_model": "comp_vs_comm", "hardware": "mi210", "set": {**point, "fused_comm": switch}}).to_records()
        for switch in ("off", "on")
    )
    each, total = plain[0]["serialized_comm_s"] / 4, plain[0]["compute_s"]
    linear = total * 21 * 65536 / (21 * 65536 + 3 * 4096)
    shown = 2 * each + sum(max(0, each - g) + min(g, each) / 8 for g in (linear * w / 21 for w in (3, 4)))
    assert fused[0]["serialized_comm_s"] == pytest.approx(shown, rel=1e-9)


def test_half_the_bits_are_half_the_bytes():
    assert rows_of("fp8-messages")[0]["serialized_ratio"] == pytest.approx(0.5)


def test_all_of_them_and_all_together():
    rows, meta = what_if(("all",))
    names = list(dict.fromkeys(row["what_if"] for row in rows))
    assert names == [*TECHNIQUES, TOGETHER]
    last = {row["what_if"]: row["step_after_s"] for row in rows}
    assert last[TOGETHER] < min(value for name, value in last.items() if name != TOGETHER)
    assert all(any(note.startswith(f"{name}: ") for note in meta["notes"]) for name in TECHNIQUES)


def test_formulas_at_their_ends():
    assert all_reduce_memory_passes(1) == all_reduce_memory_passes(1, in_network=1) == 0
    assert float(all_reduce_memory_passes(np.inf)) == 5
    assert float(fused_visible_seconds(3.0, 2.0, 1)) == 2  # one tile: the GEMM is done before anything is sent
    assert float(fused_visible_seconds(3.0, 2.0, 1e9)) == pytest.approx(0, abs=1e-8)


def test_the_command(capsys):
    assert run(["case-study", "--what-if", "all", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 3 * 6
    assert run(["case-study", "--what-if", "fused", "--what-if", "offload"]) == 0
    assert "all together" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "said"), [
    (["--what-if", "inn-network"], "did you mean 'in-network'"), (["--what-if", "all", "--plot", "x.png"], "--plot"),
])  # fmt: skip
def test_wrong_questions_are_exit_2(arguments, said, capsys):
    code = run(["case-study", *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in err


def test_a_field_it_sets_cannot_be_given_too():
    with pytest.raises(ConfigError, match="comm_precision"):
        what_if(("fp8-messages",), ("comm_precision=fp16",))

"""Published runs predicted: the table as read, each run as its study has it, errors, intervals, and a machine's fit."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import validation_page

import comp_comm as cc
from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError
from comp_comm.report.validation_plot import draw_validation
from comp_comm.sweeps.interval import SHARE, known_intervals, step_interval
from comp_comm.sweeps.point import explain
from comp_comm.validation.held_out import Responses, interval, intervals, weighted_quantiles
from comp_comm.validation.machine_fit import fit_machine
from comp_comm.validation.machines import device_profile, machine_of
from comp_comm.validation.model import transformer_fields
from comp_comm.validation.peaks import kind_of_peak
from comp_comm.validation.predict import points_of, predict_points
from comp_comm.validation.readings import READINGS, Silent, read_software
from comp_comm.validation.run import validate
from comp_comm.validation.summary import arch_of, error_record, summary
from comp_comm.validation.table import COLUMNS, LATER, MeasuredRun, read_runs, shipped

RUN = {"run_id": "a", "gpu": "H100-80GB-SXM", "model_name": "LLAMA3_8B", "n_gpus": "8", "tp": "1", "pp": "1",
       "layers": "32", "hidden": "4096", "ffn_hidden": "14336", "heads": "32", "kv_heads": "8", "vocab": "128256",
       "seq_len": "8192", "micro_batch": "1", "global_batch": "128", "precision": "bf16",
       "measured_metric": "iter_time_s", "measured_value": "10"}  # fmt: skip


@cache
def published():
    return validate()


def run_of(**cells):
    return MeasuredRun("a", {**RUN, **cells}, "runs.csv", 2)


def write_runs(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


# -- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_row_is_there_and_what_is_left_out_has_a_reason():
    runs = read_runs()
    assert len(runs) == 516
    assert len({one.run_id for one in runs}) == 516
    assert all(one["source"] for one in runs)
    left = [one for one in published().predictions if not one.counted]
    assert 50 < len(left) < 80
    assert all(one.reason for one in left)


@pytest.mark.parametrize(("cells", "words"), [
    ({"n_gpus": "eight"}, ":2: n_gpus: 'eight' is not a number"),
    ({"tp": "1.5"}, ":2: tp: must be a whole number"),
    ({"measured_metric": "iter_time"}, ":2: measured_metric: 'iter_time' is not known; did you mean 'iter_time_s'?"),
    ({"measured_value": "-1"}, ":2: measured_value: must be above 0"),
    ({"arch": "mixture"}, ":2: arch: 'mixture' is not known"),
    ({"gpuz": "x"}, ":1: gpuz: unknown column; did you mean 'gpu'?"),
    ({"sustained": "9"}, ":2: sustained: 9 is out of range"),
])  # fmt: skip
def test_what_is_wrong_with_a_table_is_said_with_line_and_column(tmp_path, cells, words):
    path = write_runs(tmp_path / "runs.csv", [{**RUN, **cells}])
    with pytest.raises(ConfigError) as error:
        read_runs(path)
    assert words in str(error.value)


def test_a_column_that_is_missing_and_a_run_that_is_there_twice(tmp_path):
    path = write_runs(tmp_path / "runs.csv", [{name: text for name, text in RUN.items() if name != "n_gpus"}])
    with pytest.raises(ConfigError, match="n_gpus: the column is missing"):
        read_runs(path)
    with pytest.raises(ConfigError, match="'a' is that of line 2 as well"):
        read_runs(write_runs(tmp_path / "twice.csv", [RUN, RUN]))


@pytest.mark.parametrize(("column", "metric"), [("step_s", "iter_time_s"), ("tokens_per_s_per_gpu",) * 2])
def test_a_table_with_the_names_of_flags_and_answers(tmp_path, column, metric):
    """``model``, ``gpus`` and a column of the metric say what the columns of the published table say."""
    names = {"model_name": "model", "n_gpus": "gpus", "measured_value": column}
    short = {names.get(name, name): text for name, text in RUN.items() if name != "measured_metric"}
    (run,) = read_runs(write_runs(tmp_path / "short.csv", [short]))
    (same,) = read_runs(write_runs(tmp_path / "long.csv", [{**RUN, "measured_metric": metric}]))
    assert run.cells == same.cells


@pytest.mark.parametrize("more", [{"gpus": "8"}, {"step_s": "10"}, {"step_s": "10", "mfu": "0.4"}])
def test_a_table_that_says_a_thing_twice_is_refused(tmp_path, more):
    with pytest.raises(ConfigError, match="stands twice"):
        read_runs(write_runs(tmp_path / "runs.csv", [{**RUN, **more}]))


def test_columns_are_read_by_the_table_of_readings():
    assert {reading.column for reading in READINGS} <= set(COLUMNS)
    silent = Silent()
    cells = {"zero_stage": "ddp/dist-opt", "recompute": "full", "tp_overlap": "user buffers (tuned cfg)",
             "dp_overlap": "no (launch blocking)", "grad_precision": "fp32 accumulation and reduce",
             "precision": "FP8-CS", "ce_fusion": "F.cross_entropy on fp32-cast logits, compiled; loss parallel",
             "attention_kernel": "unfused (fused softmax kernel)", "fsdp": "no", "mtp": "quite"}  # fmt: skip
    said = read_software(run_of(**cells), silent)
    wanted = {"zero": 1, "recompute": "full", "overlap_tp": "on", "overlap_dp": "off", "grad_precision": "fp32",
              "precision": "fp8", "cross_entropy": "compiled",
              "attention_kernel": "unfused"}  # fmt: skip
    assert {name: said[name] for name in wanted} == wanted
    assert silent.not_understood == {"mtp": ["quite"]}
    assert any("mtp: not understood" in note for note in silent.notes())


@pytest.mark.parametrize(("cells", "field", "value"), [
    # Narayanan et al. (2104.04473): chunks count where they are stated, whatever else is said
    ({"vpp": "4", "pp_layout": "even blocks; interleaved 1F1B"}, "vpp", 4),
    ({"pp_layout": "even blocks; interleaved 1F1B"}, "vpp", 2),
    ({"pp_layout": "even, 1F1B non-interleaved"}, "vpp", None), ({"p2p_overlap": "yes (default)"}, "vpp", 2),
    # Llama 3: 126 layers, an embedding and a head are the chunks of 16 stages, 8 each
    ({"layers": "126", "pp": "16", "pp_layout": "first and last stage hold one layer less; interleaved"}, "vpp", 8),
    ({"attention_kernel": "Triton FA1 (HazyResearch kernel)"}, "attention_kernel", "triton_1"),
    ({"attention_kernel": "FA1"}, "attention_kernel", "flash_1"),
    # MegaScale's own rows, not those of Megatron-LM beside them
    ({"model_name": "GPT-175B (MegaScale)", "gated_mlp": "0", "notes": "parallel transformer block, LAMB"},
     "parallel_blocks", "on"),
    ({"model_name": "GPT-175B (MegaScale)", "gated_mlp": "0"}, "overlap_tp", "on"),
    ({"model_name": "GPT-175B (Megatron-LM)", "gated_mlp": "0"}, "overlap_tp", None),
    # XLA takes GEMMs apart to send under their parts (Wang et al., ASPLOS 2023)
    ({"tp_overlap": "collective matmul (XLA)"}, "overlap_tp", "on"),
    # NeMo's rows say that they have it, which is the default
    ({"software_other": "torch 2.0.1; no gradient accumulation fusion (DeepSpeed)"}, "gradient_accumulation_fusion",
     "off"),
    ({"software_other": "async amax; gradient accumulation fusion"}, "gradient_accumulation_fusion", None),
    # torch 2.1 has early stop, 1.13 has not, whatever it does not compile
    ({"recompute_modules": "full block", "software_other": "torch 1.13.1 cu117; no torch.compile"},
     "recompute_early_stop", None),
    ({"recompute_modules": "full block", "software_other": "torch 2.0.1; no torch.compile"}, "recompute_early_stop",
     None),
    ({"recompute_modules": "full block", "software_other": "torch 2.1.0 cu121; no torch.compile"},
     "recompute_early_stop", "on"),
])  # fmt: skip
def test_what_a_run_says_of_its_software_is_not_taken_for_what_it_does_not(cells, field, value):
    (point,), reasons = points_of([run_of(**{"n_gpus": "128", "tp": "8", "pp": "4", **cells})], Silent())
    assert not reasons
    assert point.fields.get(field) == value


def test_a_machine_has_the_adapters_and_the_node_that_the_run_says():
    plain = machine_of(run_of(gpu="A100-80GB-SXM"))
    assert machine_of(run_of(gpu="A100-80GB-SXM", gpus_per_node="8")) == plain
    slow = machine_of(run_of(gpu="A100-80GB-SXM", gpus_per_node="8", notes="4x Omni-Path 100Gb per node"))
    # what an all-reduce had of one adapter of 100 Gb/s in benchmarks, where profiles have 0.9 of InfiniBand's
    assert 0.9 * slow.profile().value("network.scale-out.bandwidth") == pytest.approx(4 * 40.5e9 / 8 / 8)
    one = machine_of(run_of(gpu="V100-16GB-SXM2", gpus_per_node="8", source="report (V100-SXM2-16GB, 4x8, 100Gb/s IB)"))
    assert one.profile().value("network.scale-out.bandwidth") == 100e9 / 8 / 8
    known = machine_of(run_of(gpu="A100-80GB-SXM", gpus_per_node="8", node_gbit_s="800"))
    assert known.profile().value("network.scale-out.bandwidth") == 800e9 / 8 / 8
    assert machine_of(run_of(gpu="V100-32GB-SXM(DGX-2)", gpus_per_node="16")).fields == {"nvs": 16}
    assert machine_of(run_of(gpu="GB200", gpus_per_node="4")).fields == {}  # a host of four in a domain of 72
    with pytest.raises(ValueError, match="no profile for 'H9'"):
        machine_of(run_of(gpu="H9"))


@pytest.mark.parametrize(("words", "profile"), [
    ("GH200-96GB", "gh200"), ("GH200 (Alps)", "alps"), ("H200-141GB-SXM", "h200-sxm"), ("GB300", "gb300-nvl72"),
    ("B300-SXM", "b300-sxm"), ("L40S-48GB", "l40s"), ("H800-80GB-SXM", "h800-sxm"), ("MI325X", "mi325x"),
    ("MI300X-192GB", "mi300x"), ("MI355X (OAM)", "mi355x"), ("Gaudi 2", "gaudi2"), ("Gaudi3 HL-325L", "gaudi3"),
    ("TPU v4", "tpu-v4"), ("TPU v5e", "tpu-v5e"), ("TPU v6e (Trillium)", "tpu-v6e"), ("Trillium", "tpu-v6e"),
    ("TPU7x (Ironwood)", "tpu-v7"), ("TPU v7", "tpu-v7"), ("Trainium 2", "trainium2"),
])  # fmt: skip
def test_a_device_is_found_by_what_tables_call_it(words, profile):
    assert device_profile(words) == profile


@pytest.mark.parametrize("words", ["H100 PCIe", "H100-NVL", "A100-PCIE-80GB", "V100-PCIe-32GB", "B200 NVL72"])
def test_another_board_of_the_same_name_is_not_taken_for_the_module(words):
    with pytest.raises(ValueError, match=f"no profile for '{words}', another board than .*-sxm.*'machine'"):
        device_profile(words)


@pytest.mark.parametrize(("words", "profile"), [("DGX H100 (NVLink)", "h100-sxm"), ("GB200 NVL72", "gb200-nvl72"),
                                                ("MI210 PCIe", "mi210")])  # fmt: skip
def test_words_of_links_do_not_make_it_another_board(words, profile):
    assert device_profile(words) == profile


def test_a_position_of_its_own_takes_the_familys_table_of_positions_with_it():
    """GPT's family has learned positions, as many as a sequence; a run that says it has rotary ones has none."""
    cells = {"model_name": "a model of its own", "gated_mlp": "0", "hidden": "4160", "heads": "65", "kv_heads": "65"}
    (learned,), _ = points_of([run_of(**cells)], Silent())
    (rotary,), reasons = points_of([run_of(**cells, position="rope")], Silent())
    assert learned.fields["max_positions"] == 8192
    assert not reasons
    assert "max_positions" not in rotary.fields


def test_sharded_gradients_are_not_summed_whole_whatever_the_stack_does_with_others():
    cells = {"software_other": "no gradient accumulation fusion"}
    (whole,), _ = points_of([run_of(**cells, zero_stage="1")], Silent())
    (sharded,), reasons = points_of([run_of(**cells, fsdp="FSDP2")], Silent())
    assert not reasons
    assert whole.fields["gradient_accumulation_fusion"] == "off"
    assert "gradient_accumulation_fusion" not in sharded.fields


def test_tensor_parallelism_without_sequence_parallelism_keeps_no_parts_of_sequences():
    (apart,), _ = points_of([run_of(fsdp="FSDP2", tp="2", sequence_parallel="1")], Silent())
    (whole,), reasons = points_of([run_of(fsdp="FSDP2", tp="2", sequence_parallel="0")], Silent())
    assert not reasons
    assert apart.fields["sequence_inputs"] == "kept"
    assert "sequence_inputs" not in whole.fields


@pytest.mark.a_third
@pytest.mark.parametrize("own", [
    {"lora_rank": "16", "lora_targets": "all"}, {"optimizer": "muon", "muon_steps": "6"},
    {"cross_entropy": "chunked", "loss_chunks": "4"}, {"lora_rank": "16", "frozen_precision": "nf4"},
])  # fmt: skip
def test_what_one_run_of_a_table_says_is_not_asked_of_the_others(own):
    plain, other = run_of(), replace(run_of(**own), run_id="b")
    (alone,) = predict_points(points_of([plain], Silent())[0])
    beside = predict_points(points_of([plain, other], Silent())[0])
    assert not [one.reason for one in beside if one.reason]
    assert beside[0].predicted_s == alone.predicted_s
    assert beside[1].predicted_s != alone.predicted_s


# -- predictions ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_in_the_table_is_the_run_alone():
    """Tables of all machines together, with defaults filled in, give what the study of one run gives."""
    chosen = [one for one in published().predictions if one.point and one.predicted_s][::41]
    assert len(chosen) >= 10
    for one in chosen:
        record = explain(one.point.study())
        assert record["step_s"] == pytest.approx(one.predicted_s, rel=1e-9)
        needed, tensors, held, framework = (record["memory"][f"{name}_bytes"]
                                            for name in ("total", "allocated", "reserved", "framework"))  # fmt: skip
        shown = {"": needed, "allocated": tensors, "reserved": held, "nvidia-smi": held + framework}
        shown = shown[kind_of_peak(one.run)]
        assert shown == pytest.approx(one.memory_bytes, rel=1e-9)
        assert sum(one.terms.values()) == pytest.approx(one.predicted_s, rel=1e-6)


@pytest.mark.slow
def test_peaks_of_memory_are_compared_with_what_was_read():
    """Median and 90th percentile of all published peaks, and of PyTorch's allocator, reserved memory, nvidia-smi."""
    errors = {row["value"]: (row["n"], row["median_abs_error"], row["p90_abs_error"])
              for row in published().memory}  # fmt: skip
    assert errors["all"] <= (69, 0.04, 0.15)
    for kind, most, ninety in (("allocated", 0.015, 0.03), ("reserved", 0.06, 0.12), ("nvidia-smi", 0.11, 0.16)):
        rows, median, p90 = errors[kind]
        assert rows >= 10
        assert median < most, kind
        assert p90 < ninety, kind
    assert len(published().infeasible) <= 13


@pytest.mark.parametrize(("cells", "kind"), [
    ({"notes": "Mem column in GB (nvidia-smi style)"}, "nvidia-smi"), ({"notes": "max_memory_reserved"}, "reserved"),
    ({"notes": "peak_mem = max allocated over ranks"}, "allocated"), ({"source": "pytorch/torchtitan"}, "reserved"),
    ({"source": "pytorch/torchtitan", "peak_mem_kind": "allocated"}, "allocated"), ({}, ""),
])  # fmt: skip
def test_which_peak_a_run_states(cells, kind):
    assert kind_of_peak(run_of(**cells)) == kind


@pytest.mark.parametrize(("cells", "seconds"), [
    ({}, 10.0),
    ({"measured_metric": "tokens_per_s_per_gpu", "measured_value": "12000"}, 128 * 8192 / (8 * 12000)),
    # arXiv:2104.04473, Eq 3: 96 B s l h^2 (1 + s / 6h + V / 16 l h)
    ({"measured_metric": "tflops_per_gpu", "measured_value": "150", "flops_convention": "hw_with_recompute(96Bslh2)"},
     96 * 128 * 8192 * 32 * 4096**2 * (1 + 8192 / (6 * 4096) + 128256 / (16 * 32 * 4096)) / (8 * 150e12)),
    # 6 x (8.03 billion, but for the embedding's 0.53) + 12 L h s for all scores, of a step's tokens
    ({"measured_metric": "mfu", "measured_value": "0.5"},
     128 * 8192 * (6 * 7.505e9 + 12 * 32 * 4096 * 8192) / (0.5 * 8 * 989.4e12)),
])  # fmt: skip
def test_whatever_was_measured_is_seconds_of_a_step(cells, seconds):
    points, reasons = points_of([run_of(**cells)], Silent())
    assert not reasons
    (found,) = predict_points(points)
    assert found.measured_s == pytest.approx(seconds, rel=2e-3)


@pytest.mark.parametrize(("name", "norm", "position", "dropout"), [
    ("MPT-3b", "layernorm_no_bias", "none", "off"), ("GPT-39.1B", "layernorm", "learned", "on"),
    ("LLAMA2-34B", "rmsnorm", "rope", "off"), ("Nemotron-22B", "layernorm", "rope", "off"),
])  # fmt: skip
def test_a_model_that_the_catalogue_lacks_has_the_style_of_its_family(name, norm, position, dropout):
    gated = {"gated_mlp": "1" if "LLAMA" in name else "0", "hidden": "3072"}
    fields, _ = transformer_fields(run_of(model_name=name, **gated))
    found = (fields.get("norm", "layernorm"), fields.get("position"), fields.get("dropout", "on"))
    assert found == (norm, position, dropout)


def test_lora_is_no_training_of_all_weights():
    _, reasons = points_of([run_of(notes="finetune LoRA")], Silent())
    assert reasons["a"] == "LoRA: the table has no rank of adapters"
    points, reasons = points_of([run_of(notes="finetune LoRA", lora_rank="16")], Silent())
    assert not reasons
    whole, _ = points_of([run_of()], Silent())
    (adapters,), (all_weights,) = predict_points(points), predict_points(whole)
    # no gradients of weights: a third of the products is left out, and of attention nothing
    assert 0.6 < adapters.predicted_s / all_weights.predicted_s < 0.85


def test_errors_are_summed_up_by_what_runs_have_in_common():
    """Of 0.1, 0 and 0.3 the 90th percentile is 8 tenths of the way from the second to the third; by hand."""
    found = error_record("gpu", "H100", [-0.1, 0.0, 0.3])
    assert (found["n"], found["median_abs_error"], found["bias"]) == (3, 0.1, 0.0)
    assert (found["mean_abs_error"], found["p90_abs_error"]) == (pytest.approx(0.4 / 3, abs=1e-6), pytest.approx(0.26))
    mixture = run_of(experts="8", top_k="2", moe_ffn_hidden="14336", arch="moe")
    points, _ = points_of([run_of(), run_of(measured_value="20"), mixture, run_of(measured_value="")], Silent())
    made = predict_points(points)
    by_arch = {row["value"]: row for row in summary(made, ["arch"])}
    assert {name: row["n"] for name, row in by_arch.items()} == {"dense": 2, "moe": 1}
    assert by_arch["moe"]["bias"] == pytest.approx(made[2].predicted_s / 10 - 1, abs=1e-6)


@pytest.mark.slow
def test_errors_are_as_small_as_they_were():
    """Guards of the whole model, with room: today's are in docs/accuracy.md."""
    found = {(row["by"], row["value"]): row for row in published().summary}
    dense, mixtures = found["arch", "dense"], found["arch", "moe"]
    assert (dense["n"] > 380, mixtures["n"] > 50) == (True, True)
    assert (dense["median_abs_error"] < 0.075, dense["p90_abs_error"] < 0.20, abs(dense["bias"]) < 0.03) == (True,) * 3
    assert (mixtures["median_abs_error"] < 0.15, mixtures["p90_abs_error"] < 0.26) == (True, True)
    assert found["group", "megatron_sc21 (dense)"]["mean_abs_error"] < 0.04


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_fails_where_a_user_asked_it_to(tmp_path, capsys):
    path = write_runs(tmp_path / "runs.csv", [{**RUN, "measured_value": "1000"}, {**RUN, "run_id": "b", "gpu": "H9"}])
    assert run(["validate", "--runs", path, "--max-error", "0.5"]) == 1
    assert run(["validate", "--runs", path, "--max-error", "0.9999"]) == 0
    capsys.readouterr()
    assert run(["validate", "--runs", path, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    first, second = answer["rows"]
    assert first["error"] == pytest.approx(first["predicted_step_s"] / 1000 - 1)
    assert (second["predicted_step_s"], second["error"]) == (None, None)
    assert "no profile for 'H9'" in second["reason"]
    (whole, *_) = answer["summary"]
    assert (whole["by"], whole["value"], whole["n"]) == ("all", "all", 1)
    assert whole["bias"] == pytest.approx(first["error"], abs=1e-5)
    assert run(["validate", "--group", "nobody"]) == 2


def test_python_has_it_as_the_command_does(tmp_path):
    path = write_runs(tmp_path / "runs.csv", [RUN])
    answer = cc.validate(path)
    assert answer["rows"][0]["measured_step_s"] == 10
    assert cc.validate(path, hardware="a100-sxm-80gb")["rows"][0]["error"] > answer["rows"][0]["error"]


# -- how sure it is ---------------------------------------------------------------------------------------------------


def test_weighted_quantiles_are_those_of_repeated_values():
    values, weights = np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 1.0])
    assert weighted_quantiles(values, weights, [0.5]) == pytest.approx([2.0])
    low, high = interval(np.linspace(-1, 1, 1001), [str(i) for i in range(1001)])
    assert (low, high) == pytest.approx((-0.8, 0.8), abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["dense", "moe"])
def test_four_of_five_runs_are_within_the_interval_that_is_shown(arch):
    inside = []
    for one in published().counted:
        if arch_of(one) == arch:
            known = step_interval(one.point.machine.profile(), arch)
            inside.append(known.low <= one.measured_s / one.predicted_s <= known.high)
    assert 0.75 <= np.mean(inside) <= 0.88


@pytest.mark.parametrize(("name", "machine"), [
    ("h100-sxm", "published"), ("perlmutter", "published"), ("frontier", "published"), ("h200-sxm", "unknown"),
    ("b300-sxm", "unknown"), ("gb300-nvl72", "unknown"), ("gh200", "unknown"), ("mi300x", "unknown"),
])  # fmt: skip
def test_the_interval_is_that_of_a_device_and_not_of_the_one_it_takes_numbers_from(name, machine, tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(f"extends: {name}\nnetwork: {{scale-out: {{bandwidth: {{value: 12.5 GB/s, source: mine}}}}}}\n")
    for profile in (load_profile(name), load_profile(str(own))):
        assert step_interval(profile, "dense").machine == machine


def test_how_many_runs_of_other_stacks_are_within_is_said_beside(compcomm):
    """The page says it in words, of the runs of `validate --later` on devices that the interval is of."""
    page = validation_page.PAGE.read_text(encoding="utf-8")
    found = known_intervals()
    dense, moe = found["dense", "published"], found["moe", "published"]
    words = f"{dense.later_held} of {dense.later} dense ones and {moe.later_held} of {moe.later} mixtures"
    assert words in " ".join(page.split())
    step = ("explain", "--model", "llama-3-8b", "--gpus", "64", "--global-batch", "64")
    said = " ".join(compcomm(*step, "--hardware", "h100-sxm")[1].split())
    assert f"; of {dense.later} found later, of other stacks and networks, {dense.later_held} were within (" in said
    assert "found later" not in compcomm(*step, "--hardware", "b300-sxm")[1]


def test_intervals_of_groups_that_were_held_out_hold_four_of_five():
    with shipped("intervals.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["machine"] for row in rows} == {"published", "unknown", "calibrated", "layouts"}
    assert all(0.75 <= float(row["held"]) <= 0.87 for row in rows)


@pytest.mark.slow
def test_runs_that_were_found_later_are_as_far_off_as_the_page_says():
    """Else: python tests/validation_page.py."""

    def rows_of(text):
        rows = [[cell.strip(" %") for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]
        return [row[:2] for row in rows], np.asarray([row[2:] for row in rows], float)

    text = validation_page.PAGE.read_text(encoding="utf-8")
    (said,) = [found[3] for found in validation_page.PART.finditer(text) if found[2] == "later"]
    (names, errors), (now, made) = rows_of(said), rows_of(validation_page.later_table())
    assert names == now
    np.testing.assert_allclose(errors, made, atol=0.11)


@pytest.mark.slow
def test_the_shipped_intervals_are_what_the_model_gives():
    """Else: python tests/validation_page.py."""
    later = validate(shipped(LATER)).predictions
    made = intervals(published().predictions, Responses(published().predictions), later)
    with shipped("intervals.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["arch"], row["machine"]): row for row in csv.DictReader(file)}
    for each in made:
        row = rows[each.arch, each.machine]
        assert (float(row["low"]), float(row["high"])) == pytest.approx((each.low, each.high), abs=0.02)
        assert (int(row["later"]), int(row["later_held"])) == (each.later, each.later_held)


# -- a machine from a few runs ----------------------------------------------------------------------------------------


def measured_on(numbers, points):
    """Return points whose measured seconds are those of a machine with other numbers."""
    machines = [replace(point.machine, numbers=tuple(numbers.items())) for point in points]
    there = predict_points([replace(point, machine=machine) for point, machine in zip(points, machines, strict=True)])
    return [replace(point, run=replace(point.run, cells={**point.run.cells, "measured_value": str(one.predicted_s)}))
            for point, one in zip(points, there, strict=True)]  # fmt: skip


# Nothing but gradients to send, over the network, and little to compute beside it.
ALONE = {"dp_overlap": "no", "zero_stage": "0", "seq_len": "512"}


def machine_points(many=1):
    layouts = [
        {"tp": "1"},
        {"tp": "2"},
        {"tp": "8", "n_gpus": "16", "zero_stage": "1", "dp_overlap": "no"},
        {"tp": "4"},
        *({**ALONE, "n_gpus": str(n), "global_batch": str(n)} for n in (16, 64, 256)),
    ]
    points, reasons = points_of([replace(run_of(**layouts[i % len(layouts)]), run_id=str(i)) for i in range(many)],
                                Silent())  # fmt: skip
    assert not reasons
    return points


@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 3])
def test_a_machine_moves_to_where_runs_and_the_spread_of_machines_agree(many):
    """The sum of squares over runs, and of what is sustained, each by its standard deviation, is tried out."""
    profile = load_profile("h100-sxm")
    usual = profile.hardware("bf16").timing.sustained
    slow = {"timing.sustained": 0.8 * usual}
    points = measured_on(slow, machine_points(many))
    fit = fit_machine(points, profile)
    tried = np.linspace(0.8, 1.0, 101)
    steps = [[replace(point, fields={**point.fields, "sustained": float(share * usual)}) for point in points]
             for share in tried]  # fmt: skip
    errors = [sum(math.log1p(one.error) ** 2 for one in predict_points(each)) + math.log(share) ** 2
              for each, share in zip(steps, tried, strict=True)]  # fmt: skip
    (number,) = fit.numbers
    assert number.value / usual == pytest.approx(tried[int(np.argmin(errors))], abs=0.004)
    assert slow["timing.sustained"] < number.value < usual
    assert number.low < number.value < number.high
    assert "network" in fit.left["timing.network_sustained"]


@pytest.mark.slow
def test_runs_with_other_shares_of_communication_tell_the_network():
    profile = load_profile("h100-sxm")
    half = {"timing.network_sustained": 0.5 * profile.hardware("bf16").timing.network_sustained}
    fit = fit_machine(measured_on(half, machine_points(14)), profile)
    numbers = {each.key.split(".")[1]: each.value / each.before for each in fit.numbers}
    assert numbers["network_sustained"] < 0.75
    assert numbers["sustained"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_the_profile_of_a_machine_says_what_it_is_from(tmp_path):
    path = write_runs(tmp_path / "runs.csv", [{**RUN, "measured_value": "30"}])
    out = tmp_path / "my-cluster.yaml"
    assert run(["calibrate", "--runs", path, "--extends", "h100-sxm", "-o", str(out)]) == 0
    profile = load_profile(str(out))
    assert profile.value("timing.sustained") < load_profile("h100-sxm").hardware("bf16").timing.sustained
    assert (profile.calibrated_on, profile.lineage) == ({"dense": 1}, ("h100-sxm",))
    study = {"hardware": str(out), "model": "llama-3-8b", "set": {"gpus": 8, "global_batch": 64}}
    record = cc.explain(study)
    assert record["interval"]["machine"] == "calibrated"
    assert record["interval"]["low_s"] < record["step_s"] < record["interval"]["high_s"]
    assert record["interval"]["share"] == SHARE


def test_runs_and_logs_are_not_mixed(tmp_path, capsys):
    path = write_runs(tmp_path / "runs.csv", [RUN])
    assert run(["calibrate", path, "--runs", path, "--extends", "h100-sxm"]) == 2
    assert run(["calibrate", "--runs", path, "--extends", "h100-sxm", "--operator", "gemm"]) == 2
    assert run(["calibrate", "--extends", "h100-sxm"]) == 2
    assert "give LOGs" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [(6.1, 5.1, 9.1), (0.2, 40.0)])
def test_the_ticks_of_a_picture_are_numbers(seconds):
    """Of runs within a factor of ten, too, where the axes of logarithms name what is between the powers."""
    rows = [{"measured_step_s": each, "predicted_step_s": each, "arch": "dense", "group": "", "counted": True}
            for each in seconds]  # fmt: skip
    figure = draw_validation(SimpleNamespace(rows=rows, counted=rows), {})
    figure.canvas.draw()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        labels = [label.get_text() for label in (*axis.get_majorticklabels(), *axis.get_minorticklabels())]
        assert [float(text.replace(",", "")) for text in labels if text]

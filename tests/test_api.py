"""The door: ``import comp_comm as cc``. Every verb is the command of the same name, with the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import comp_comm as cc

POINT = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"gpus": 64, "global_batch": 256, "zero": 3}}
VERBS = ("calibrate", "case_study", "compare", "explain", "load_profile", "load_study", "memory", "search", "solve",
         "sweep", "volume")  # fmt: skip


def printed(compcomm, *arguments):
    """Return what a command answers as JSON."""
    code, out, err = compcomm(*arguments, "--format", "json")
    assert code == 0, err
    return json.loads(out)


def test_importing_costs_nothing():
    code = """if True:
        import sys
        before = set(sys.modules)
        import comp_comm as cc
        print(sorted(name for name in set(sys.modules) - before if name.startswith(("comp_comm", "numpy", "yaml"))))
    """
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['comp_comm', 'comp_comm.version']"


@pytest.mark.slow
@pytest.mark.parametrize(("point", "room"), [
    ({"cost_model": "comp_vs_comm", "set": {"hidden": 64, "seq_len": 4, "micro_batch": 1, "tp": 1}}, "comp_vs_comm"),
    ({"model": "llama-3-8b", "hardware": "h100", "set": {"gpus": 8, "tp": 8}}, "complete"),
])  # fmt: skip
def test_physics_of_a_cost_model_are_loaded_when_it_is_used(point, room):
    code = f"""if True:
        import sys
        import comp_comm as cc
        from comp_comm.costmodels import COST_MODELS
        tuple(COST_MODELS.values())
        physics = {{"amped": "step", "comp_vs_comm": "one_layer", "complete": "step", "foundation_models": "step",
                   "inference": "serving"}}
        files = {{f"comp_comm.costmodels.{{name}}.{{file}}": name for name, file in physics.items()}}
        before = files.keys() & sys.modules.keys()
        cc.sweep({point!r})
        used = [files[file] for file in files.keys() & sys.modules.keys()]
        print(len(before), *used, "comp_comm.layers" in sys.modules)
    """
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"0 {room} {room == 'complete'}"


def test_every_verb_stays_a_function_whatever_is_imported():

    for name in VERBS:
        assert callable(getattr(cc, name)), name
        assert name in dir(cc)
        assert name in cc.__all__
    assert cc.formulas.__name__ == "comp_comm.formulas"
    with pytest.raises(AttributeError, match="has no attribute 'swep'"):
        _ = cc.swep


def test_a_study_is_a_mapping_a_name_a_path_or_one_already_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("hardware: h100-sxm\nmodel: llama-3-8b\nset: {gpus: 64, global_batch: 256, zero: 3}\n")
    expected = cc.explain(POINT)["step_s"]
    for study in (path, str(path), cc.load_study(path), cc.load_study(POINT)):
        assert cc.explain(study)["step_s"] == expected
    fields = {"gpus": 64, "global_batch": 256, "zero": 3}
    assert cc.explain(hardware="h100-sxm", model="llama-3-8b", **fields)["step_s"] == expected


def test_fields_take_the_place_of_what_the_study_says():
    for study in ("llama-step", cc.load_study("llama-step")):
        step = cc.explain(study, tp=4)
        assert (step["meta"]["fixed"]["tp"], step["dp"]) == (4, 32)
        assert cc.explain(study, ["tp=4"])["step_s"] == step["step_s"]
        assert cc.sweep(study, tp=[2, 4])["step_s"][1] == step["step_s"]
    with pytest.raises(cc.ConfigError, match="unknown key 'tpp'; did you mean 'tp'"):
        cc.explain("llama-step", tpp=4)


def test_a_sweep_is_that_of_the_command(compcomm):
    table, expected = cc.sweep("future"), printed(compcomm, "sweep", "future")
    assert table.to_records() == expected["rows"]
    assert table.meta == expected["meta"]
    assert len(table) == 1176
    assert list(table) == expected["rows"]
    assert table["tp"].dtype == np.float64
    with pytest.raises(KeyError):
        table["nothing"]


@pytest.mark.slow
def test_the_other_verbs_are_those_of_the_commands(compcomm):
    point = printed(compcomm, "explain", "llama-step")
    step = cc.explain("llama-step")
    assert {**step} == point
    assert step.to_records() == point["operations"]
    assert step.meta == point["meta"]
    assert {**cc.memory("llama-step")} == printed(compcomm, "memory", "llama-step")
    assert cc.case_study().to_records() == printed(compcomm, "case-study")["rows"]
    assert cc.volume("llama-step").to_records() == printed(compcomm, "volume", "llama-step")["messages"]
    swept = printed(compcomm, "volume", "llama-step", "--set", "zero=[1,3]")["rows"]
    assert cc.volume("llama-step", zero=[1, 3]).to_records() == swept
    compared = printed(compcomm, "compare", "llama-step", "llama-step", "--set-b", "tp=4")["rows"]
    assert cc.compare("llama-step", tp=4).to_records() == compared
    assert cc.compare("llama-step", cc.load_study("llama-step", tp=4)).to_records() == compared
    fields = {"hidden": "16K", "seq_len": "4K", "micro_batch": 1, "flop_vs_bw": 1}
    solved = printed(compcomm, "solve", "future", "--target", "serialized_comm_fraction=0.5", "--for", "tp",
                     *(f"--set={name}={value}" for name, value in fields.items()))  # fmt: skip
    assert cc.solve("future", "serialized_comm_fraction", 0.5, "tp", **fields)["value"][0] == solved["rows"][0]["value"]


def test_a_search_is_that_of_the_command(compcomm):
    answer = cc.search("llama-search", gpus=64, top=3, cp=1)
    expected = printed(compcomm, "search", "llama-search", "--gpus", "64", "--top", "3", "--set", "cp=1")
    assert answer.to_records() == expected["rows"]
    assert answer["meta"]["feasible"] == expected["meta"]["feasible"]
    with pytest.raises(cc.InfeasibleError, match="none of"):
        cc.search("llama-search", gpus=1)


@pytest.mark.slow
def test_a_calibration_is_that_of_the_command(compcomm, tmp_path):
    sizes = [2**power for power in range(7, 13)]
    log = tmp_path / "gemms.csv"
    log.write_text("m,n,k,time_us\n" + "".join(f"{m},{n},4096,{9 + m * n / 1e5:.3f}\n" for m in sizes for n in sizes))
    fitted = cc.calibrate(log, extends="h100-sxm")
    code, out, err = compcomm("calibrate", log, "--extends", "h100-sxm", "--format", "json")
    assert code == 0, err
    assert fitted.to_records() == json.loads(out)["rows"]
    path = tmp_path / "mine.yaml"
    fitted.save(path, date="2026-11-28")
    saved, key = cc.load_profile(path), "timing.gemm_efficiency"
    assert saved.value(key) == pytest.approx(fitted.profile.value(key), rel=1e-3)
    assert key in [row["number"] for row in fitted.numbers]
    assert cc.load_profile(saved) is saved
    with pytest.raises(cc.ConfigError, match=r"must end in \.yaml"):
        fitted.save(tmp_path / "mine.json")


def test_a_short_text_says_what_is_left_out():
    text = repr(cc.sweep("future"))
    assert "1,176 rows of 18 columns" in text
    assert "... 1,166 rows more" in text
    assert len(text.splitlines()) < 16
    assert max(map(len, repr(cc.explain("llama-step")).splitlines())) < 140
    assert "infeasible" in repr(cc.explain(POINT, micro_batch=4, gpus=8, global_batch=32, zero=0))


def test_a_notebook_gets_html_with_nothing_of_the_title_in_it():
    table = cc.sweep({**POINT, "title": "<b>mine</b>"})
    html = table._repr_html_()
    assert html.count("<table>") == 1
    assert "<b>" not in html
    assert "&lt;b&gt;mine" in html
    assert "<table>" in cc.memory(POINT)._repr_html_()


def test_a_data_frame_of_one_point_is_its_row():
    pytest.importorskip("pandas")
    table = cc.sweep(POINT)
    frame = table.to_pandas()
    assert frame.to_dict("records") == table.to_records()
    assert frame.attrs["meta"] == table.meta


@pytest.mark.slow
def test_a_data_frame_has_the_rows_and_what_they_are():
    pytest.importorskip("pandas")
    table = cc.sweep("future")
    frame = table.to_pandas()
    assert frame.shape == (1176, 18)
    assert frame.attrs["meta"] == table.meta
    assert cc.explain("llama-step").to_pandas()["seconds"].sum() > 0


def test_without_pandas_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(cc.CompcommError, match=r"pip install 'compcomm\[pandas\]'"):
        cc.case_study().to_pandas()


def test_it_is_typed():
    assert (Path(cc.__file__).parent / "py.typed").exists()

"""docs/questions.md: each question's command runs as it stands, and its answer is what is asked."""

import json
import re
import shlex
from pathlib import Path

import pytest

from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile

PAGE = Path(__file__).resolve().parent.parent / "docs" / "questions.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^compcomm (.*)$", TEXT, re.MULTILINE)
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", TEXT, re.DOTALL))
H100_GIB = load_profile("h100-sxm").value("memory.capacity") / 2**30


@pytest.fixture
def asked(capsys, tmp_path, monkeypatch):
    """Run the page's one command with some words in it; return its answer (JSON where it has such), and stderr."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)

    def run_it(words, form="json", more=()):
        (line,) = (line.replace(*more) if more else line for line in COMMANDS if words in line)
        code = run([*shlex.split(line), *(["--format", form] if form else [])])
        out, err = capsys.readouterr()
        assert code == 0, err
        return (json.loads(out) if form == "json" else out), err

    return run_it


@pytest.mark.slow
def test_the_best_tp(asked):
    found, _ = asked("--per tp")
    lines = {line["tp"]: line for line in found["per"]["rows"] if line["behind_percent"] is not None}
    assert set(lines) >= {1, 2, 4, 8}
    best = found["rows"][0]
    assert lines[best["tp"]]["behind_percent"] == 0
    for line in lines.values():
        assert line["step_s"] / best["step_s"] - 1 == pytest.approx(line["behind_percent"] / 100, abs=1e-12)
    assert found["meta"]["fixed"]["global_batch"] * 8192 == 4 * 2**20


def test_lora_trains_its_adapters_alone(asked):
    found, _ = asked("--lora-rank")
    adapters = 32 * 16 * (4096 + 4096 + 4096 + 1024)  # of Q and V: a matrix down and one up, 8 of 32 heads in V
    assert found["trained_parameters"] == adapters
    assert found["memory"]["gradients_bytes"] == 2 * adapters
    assert found["memory"]["weights_bytes"] == 2 * (8_030_261_248 + adapters)


def test_muon_beside_adamw(asked):
    """Newton-Schulz takes longer than Adam's update; one moment of matrices is 4 bytes less of a parameter's 12."""
    found, _ = asked("optimizer=muon")
    rows = {row["term"]: row for row in found["rows"]}
    assert rows["optimizer_s"]["ratio"] > 5
    assert 8 / 12 < rows["memory.optimizer_bytes"]["ratio"] < 0.72
    assert rows["forward_s"]["difference"] == rows["backward_s"]["difference"] == 0


@pytest.mark.slow
def test_what_is_written_for_a_framework(asked, capsys):
    asked("--emit megatron", None)
    assert run(["import", "pretrain.sh", "--hardware", "h100", "-o", "best.yaml"]) == 0
    capsys.readouterr()
    assert run(["explain", "best.yaml", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    (line,) = (line for line in COMMANDS if "--emit megatron" in line)
    there = line.replace("--emit megatron -o pretrain.sh", "--stack megatron --placement tp-cp-dp-pp,tp-cp-pp-dp")
    assert run([*shlex.split(there), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["step_s"] == pytest.approx(again["step_s"], rel=1e-12)


def test_headroom_is_a_share_in_percent(asked):
    found, _ = asked("--headroom 20%")
    assert found["meta"]["headroom"] == 0.2
    assert 0.6 * H100_GIB < found["rows"][0]["memory_gib"] <= 0.8 * H100_GIB


@pytest.mark.slow
def test_from_how_many_devices_on(asked):
    found, _ = asked("comm=30%")
    share = {row["gpus"]: row["visible_comm_fraction"] for row in found["rows"]}
    (line,) = found["crossover"]["rows"]
    assert share[line["after"]] < 0.3 < share[line["at"]]


@pytest.mark.slow
def test_where_fsdp_falls_behind(asked):
    """Ahead on few devices, where each computes long beside what it gathers; behind on many."""
    found, _ = asked("tp>1")
    (line,) = found["crossover"]["rows"]
    assert line["second_behind_percent_after"] > 0 > line["second_behind_percent_at"]
    assert "zero==3,tp==1 is ahead of tp>1 on 512 devices" in asked("tp>1", "table")[0]


@pytest.mark.slow
def test_the_least_cost_of_a_token(asked):
    found, _ = asked("--objective cost")
    assert [row["gpus"] for row in found["rows"]] == [16, 32, 64, 128]
    for row in found["rows"]:
        seconds = row["step_s"] / (4 * 2**20 / 1e6)
        assert row["cost_per_million_tokens"] == pytest.approx(seconds / 3600 * row["gpus"] * 2.5, rel=1e-12)


def test_what_lora_saves(asked):
    """Frozen weights are held as they are; gradients, moments and fp32 copies are of adapters alone."""
    found, _ = asked("lora_rank=16")
    ratio = {row["term"]: row["ratio"] for row in found["rows"]}
    adapters = 32 * 16 * (4096 + 4096 + 4096 + 1024) / 8_030_261_248
    assert ratio["memory.weights_bytes"] == pytest.approx(1 + adapters, rel=1e-4)
    assert ratio["memory.gradients_bytes"] == pytest.approx(adapters, rel=1e-3)
    assert ratio["memory.optimizer_bytes"] == pytest.approx(adapters, rel=1e-3)
    assert ratio["memory.total_bytes"] < 0.7


def test_dispatchers_of_experts(asked):
    """Of 8 experts a token on 4 nodes at most, DeepEP sends one copy to a node: less shows than of one an expert."""
    found, _ = asked("--ep-dispatch")
    seen = {row["ep_dispatch"]: row["exposed_comm_s"] for row in found["rows"]}
    assert list(seen) == ["all_to_all", "deepep", "hybridep"]
    assert all(row["reason"] is None for row in found["rows"])
    assert seen["deepep"] < seen["all_to_all"]


def test_a_script_on_other_hardware(asked):
    asked("import my-run.sh", None)
    found, _ = asked("explain my-run.yaml")
    step = {(row["hardware"], row["network"]): row for row in found["rows"]}
    assert [*step] == [("h100-sxm", 1), ("h100-sxm", 2), ("b200-sxm", 1), ("b200-sxm", 2)]
    for device in ("h100-sxm", "b200-sxm"):
        assert step[device, 2]["serialized_comm_s"] < step[device, 1]["serialized_comm_s"]
        assert step[device, 2]["forward_s"] == step[device, 1]["forward_s"]
    assert step["b200-sxm", 1]["step_s"] < step["h100-sxm", 1]["step_s"]


@pytest.mark.slow
def test_a_run_of_ones_own(asked, capsys):
    """The profile that one run corrects is nearer to it than the one it came from, and not all the way there."""
    asked("--runs", None)
    asked("--hardware my-cluster.yaml")
    point = "explain --model llama-3-8b --gpus 64 --tp 8 --pp 2 --global-batch 256 --format json --hardware"
    steps = []
    for profile in ("h100-sxm", "my-cluster.yaml"):
        assert run([*point.split(), profile]) == 0
        steps.append(json.loads(capsys.readouterr().out)["step_s"])
    assert steps[0] < steps[1] < 6.1


@pytest.mark.slow
def test_hardware_of_2028(asked):
    found, _ = asked("--year 2028")
    assert all(row["low_fraction"] < row["median_fraction"] < row["high_fraction"] for row in found["rows"])
    found, _ = asked("explain llama-step --flop-vs-bw")
    shares = [row["visible_comm_fraction"] for row in found["rows"]]
    assert shares[0] < shares[1] < shares[2]
    assert "flop_vs_bw = 4" in asked("sweep future", "table")[0]


def test_a_network_between_nodes_that_is_faster(asked):
    """Communication that can be seen becomes less; compute stays."""
    found, _ = asked("--scale-out")
    rows = {row["scale_out"]: row for row in found["rows"]}
    assert list(rows) == [1, 2, 4]
    assert rows[1]["step_s"] > rows[2]["step_s"] > rows[4]["step_s"]
    assert len({row["forward_s"] for row in rows.values()}) == 1
    assert rows[1]["exposed_comm_s"] > rows[2]["exposed_comm_s"]


@pytest.mark.slow
def test_why_it_is_the_best(asked):
    """The sentence's parts are the difference, but for what is too small to be told."""
    found, _ = asked("--compare")
    sides = found["compared"]
    assert sides["differs"]
    assert sides["why"].startswith(f"{sides['a']} is ")
    said, _ = asked("compare llama-step")
    step = next(row for row in said["rows"] if row["term"] == "step_s")
    parts = re.findall(r"([\d.]+) s (less|more)", said["meta"]["why"])
    gain = sum(float(seconds) * (1 if word == "less" else -1) for seconds, word in parts)
    assert gain == pytest.approx(abs(step["difference"]), rel=0.03)
    assert said["meta"]["why"].startswith("tp=4 is ")  # less all-reducing over the same links
    assert "less serialized tp communication" in said["meta"]["why"]


@pytest.mark.slow
def test_ties_are_of_all_layouts(asked):
    """Three rows are shown; the ties are those of a search that shows 400, found among its rows by hand."""
    few, _ = asked("--top 3")
    many, _ = asked("--top 3", more=("--top 3", "--top 1000"))
    assert many["tied"] == few["tied"]
    limit = many["rows"][0]["step_s"] * (1 + few["tied"]["percent"] / 100)
    near = [(row["step_s"], row["memory_gib"]) for row in many["rows"] if row["step_s"] <= limit]
    front = [(s, m) for s, m in near if not any(t <= s and n <= m and (t, n) != (s, m) for t, n in near)]
    assert [(row["step_s"], row["memory_gib"]) for row in few["tied"]["rows"]] == sorted(
        front, key=lambda each: each[1]
    )


def test_a_config_json_on_mi300x(asked):
    found, err = asked("mi300x")
    assert "seq_len 2048 is the default of max_position_embeddings, which is not in the file" in err
    assert (found["meta"]["gpus"], found["meta"]["fixed"]["global_batch"]) == (32, 2 * 2**20 // 2048)


def test_a_long_context(asked):
    found, _ = asked("128K")
    assert {row["cp"] for row in found["rows"]} <= {2, 4, 8, 16}
    assert found["meta"]["model_fields"]["seq_len"] == 2**17 or found["meta"]["fixed"]["seq_len"] == 2**17


@pytest.mark.slow
def test_what_a_run_costs(asked):
    step, _ = asked("--gpus 512")
    seconds = 15e12 / (4 * 2**20) * step["step_s"]
    assert step["cost_of_run"] == pytest.approx(seconds / 3600 * 512 * 2.5, rel=1e-12)
    found, _ = asked("h100,b200 --gpus")
    for row, price in zip(found["rows"], (2.5, 4), strict=True):
        assert row["cost_of_run"] == pytest.approx(row["gpu_hours"] * price, rel=1e-12)


@pytest.mark.slow
def test_how_far_off(asked):
    found, _ = asked("validate")
    assert all("H100" in row["gpu"] for row in found["rows"])
    assert "'compcomm validate --gpu h100' shows them" in asked("--gpus 512", None)[0].replace("\n  ", " ")


@pytest.mark.slow
def test_a_figure(asked):
    out, _ = asked("fig-10a", None)
    assert Path("fig-10a.png").read_bytes()[:4] == b"\x89PNG"
    assert "met" in out


def test_a_chrome_trace(asked):
    _, err = asked("trace.json", None)
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert len({event["pid"] for event in events}) == 4  # stages
    assert "ui.perfetto.dev" in err


def test_no_question_is_left_out():
    words = re.findall(r'asked\("([^"]+)"', Path(__file__).read_text(encoding="utf-8"))
    assert [line for line in COMMANDS if not any(word in line for word in words)] == []

"""Layouts written for a framework, and read again: the same layout, in the same time and memory, or a refusal."""

from __future__ import annotations

import json
import random
import re

import pytest
from face import machine, row_of

from comp_comm.configs import strict_yaml
from comp_comm.configs.exporters import ENDINGS, FORMATS, STUDY
from comp_comm.configs.exporters.writing import EXPORTERS
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.searches.emitted import emitted

HARDWARE = "h100-sxm"
SAME = ("gpus", "tp", "cp", "pp", "dp", "micro_batch", "global_batch", "step_s", "memory_gib", "parameters", "mfu")
MODELS = {
    "megatron": ("llama-3-8b", "llama-3.1-70b", "gpt3-13b", "mixtral-8x7b", "qwen2.5-7b", "deepseek-v3", "gpt2-xl",
                 "nemotron-h-8b", "qwen3.5-27b"),
    "torchtitan": ("llama-3.1-8b", "llama-3.1-70b", "deepseek-v3", "llama-2-13b"),
    "nemo": ("llama-3-8b", "llama-3.1-70b", "gpt3-13b", "mixtral-8x7b", "qwen2.5-7b", "nemotron-h-8b"),
    "deepspeed": ("llama-3-8b", "gpt3-13b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b"),
}  # fmt: skip
# What a format has other values of: each draws from its own, and from all that there are now and then.
CHOICES = {
    "zero": (0, 1, 2, 3), "recompute": ("none", "selective", "full", "mlp", "core_attn+layernorm"),
    "overlap_dp": ("on", "off"), "overlap_tp": ("off", "on"), "grad_precision": (None, "fp32", "bf16"),
    "optimizer_precision": ("fp32", "bf16"), "precision": ("bf16", "bf16", "fp8"),
    "offload_optimizer": ("off", "off", "on"), "kernels": ("fused", "compiled"),
    "cp_comm": ("p2p", "all_gather"), "cp_implementation": (None,),
    "placement": ("tp-cp-dp-pp", "tp-cp-dp-pp", "tp-cp-pp-dp"),
    "schedule": ("1f1b", "1f1b", "zero_bubble"), "overlap_pp": ("off", "on"), "seq_len": (2048, 8192),
    "cross_entropy": (None,), "attention_kernel": ("flash_causal", "flash_causal", "unfused"),
    "dp_shard": (None, None, 2),
    "bucket": (None, 1e8), "recompute_layers": (None, 2), "offload_activations": (None, None, 1),
    "gradient_accumulation_fusion": (None,),
}  # fmt: skip
USUAL = {
    "megatron": {"kernels": ("fused",), "cross_entropy": (None, "fused", "fused_native", "unfused"),
                 "gradient_accumulation_fusion": (None, "on", "off")},
    "torchtitan": {
        "kernels": ("compiled",), "cross_entropy": (None, "eager"),
        "cp_implementation": ("torch",), "overlap_tp": ("off", "async"), "zero": (1, 3, 3),
        "offload_optimizer": ("off",), "placement": ("tp-cp-dp-pp",),
        "attention_kernel": ("flash_causal",), "schedule": ("1f1b",), "overlap_pp": ("off",), "bucket": (None,),
        "overlap_dp": ("on",), "recompute_layers": (None,), "recompute": ("none", "per_op", "full"),
        "offload_activations": (None,),
    },
    "nemo": {"kernels": ("fused",), "cross_entropy": (None, "unfused"), "zero": (0, 1, 3),
             "offload_optimizer": ("off",), "schedule": ("1f1b",), "bucket": (None,), "dp_shard": (None,),
             "cp_comm": ("p2p",), "gradient_accumulation_fusion": (None, "on", "off")},
    "deepspeed": {
        "recompute": ("none",), "offload_activations": (None,), "precision": ("bf16", "fp16", "fp32"),
        "optimizer_precision": ("fp32",),
        "attention_kernel": ("flash_causal",), "overlap_tp": ("off",), "placement": ("tp-cp-dp-pp",),
    },
}  # fmt: skip
LAYOUTS = 4


def drawn(kind, seed):
    """Return a study of one point whose layout is drawn, and the row that a search would have of it."""
    draw = random.Random(f"{kind} {seed}")
    model = draw.choice(MODELS[kind])
    alone = kind == "deepspeed"
    tp, pp, cp, dp = draw.choice((1, 2, 4)), draw.choice((1, 1, 2, 4)), draw.choice((1, 1, 2)), draw.choice((1, 2, 8))
    pp, cp = (1, 1) if alone else (pp, cp)
    point = {name: draw.choice({**CHOICES, **USUAL[kind]}[name]) for name in CHOICES}
    if point["recompute"] != "full":
        point["recompute_layers"] = None
    elif kind == "torchtitan" and not point["recompute_layers"]:
        point["recompute_early_stop"] = draw.choice(("off", "on"))
    if point["recompute"] == "full":
        point["offload_activations"] = None
    if not point["zero"] or dp % 2:
        point["dp_shard"] = None
    if kind == "torchtitan" and point["zero"] == 3 and point["optimizer_precision"] != "bf16":
        point["master_weights"] = "shards"
    if kind == "torchtitan" and tp > 1:
        point["sequence_inputs"] = "kept"
    if kind == "torchtitan" and point["zero"] == 3:
        point |= {"fsdp_units": "ends", "gradient_sync": "last" if pp > 1 else "micro_batch"}
    if kind == "deepspeed" and point["zero"]:
        point["zero_implementation"] = "deepspeed"
    if pp == 1:
        point |= {"schedule": "1f1b", "overlap_pp": "off", "placement": "tp-cp-dp-pp"}
    experts = not alone and model in ("mixtral-8x7b", "deepseek-v3")
    vpp = draw.choice((1, 2)) if pp > 1 and point["schedule"] == "1f1b" else 1
    steps = pp * draw.choice((1, 2, 4))
    point |= {
        "gpus": tp * pp * cp * dp, "tp": tp, "pp": pp, "cp": cp, "vpp": vpp, "micro_batch": draw.choice((1, 2)),
        "sp": "on" if tp > 1 and kind != "deepspeed" else draw.choice(("on", "off")),
        "ep": draw.choice((1, dp)) if experts else 1,
    }  # fmt: skip
    if experts:
        point["etp"] = draw.choice((1, tp)) if point["ep"] > 1 else None
        point["ep_dispatch"] = draw.choice(("all_to_all", "deepep", "hybridep")) if point["ep"] > 1 else None
    point["global_batch"] = steps * dp * point["micro_batch"]
    given = {name: value for name, value in point.items() if value is not None}
    study = {"title": f"layout {seed}", "hardware": HARDWARE, "model": model, "set": {**given, "memory_capacity": 1000}}
    return study, {**given, "dp": dp}


def read_again(kind, text, study, compcomm, tmp_path):
    """Return the study that importing a text gives, with what is not in a file of its kind."""
    suffix = {"megatron": "sh", "torchtitan": "toml", "nemo": "yaml", "deepspeed": "json"}[kind]
    path, found = tmp_path / f"written.{suffix}", tmp_path / "study.yaml"
    path.write_text(text)
    beside = ("--model", study["model"], "--set", f"gpus={study['set']['gpus']}") if kind == "deepspeed" else ()
    code, _, err = compcomm("import", path, "--hardware", HARDWARE, *beside, "-o", found)
    assert code == 0, err + text
    data = strict_yaml.load(found.read_bytes(), "study.yaml").data
    more = {"memory_capacity": 1000, **({"seq_len": study["set"]["seq_len"]} if kind == "deepspeed" else {})}
    return {**data, "set": {**data["set"], **more}}


@pytest.mark.parametrize("kind", EXPORTERS)
def test_what_is_written_is_read_as_the_same_layout(kind, compcomm, tmp_path):
    round_trips(kind, LAYOUTS, compcomm, tmp_path)


@pytest.mark.parametrize("kind", ["megatron", "nemo"])
def test_gradients_that_gemms_do_not_add_up_are_written(kind, compcomm, tmp_path):
    point = {"gpus": 8, "tp": 2, "pp": 1, "dp": 4, "cp": 1, "micro_batch": 1, "global_batch": 64, "zero": 1}
    study = {"title": "sums", "hardware": HARDWARE, "model": "llama-3-8b", "set": point}
    apart = {**study, "set": {**point, "gradient_accumulation_fusion": "off"}}
    text = emitted(kind, study_from(apart), apart["set"], HARDWARE)
    again = row_of(read_again(kind, text, apart, compcomm, tmp_path))["step_s"]
    assert again == pytest.approx(row_of(apart)["step_s"], rel=1e-12)
    assert again > 1.001 * row_of(study)["step_s"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPORTERS)
def test_what_is_written_is_read_as_the_same_layout_many_times(kind, compcomm, tmp_path):
    round_trips(kind, 18 * LAYOUTS, compcomm, tmp_path)


def test_a_pipeline_of_torchtitan_takes_the_batch_of_a_replica_in_pieces(compcomm):
    """Of 64 sequences 8 replicas have 8 each, whatever micro-batch a stage has (its `local_batch_size`)."""
    asked = ("search", "--model", "llama-3.1-8b", "--hardware", HARDWARE, "--gpus", "16", "--global-batch", "64",
             "--cp", "1", "--tp", "1", "--pp", "2", "--stack", "torchtitan", "--emit", "torchtitan", "-q")  # fmt: skip
    code, out, err = compcomm(*asked)
    assert code == 0, err
    assert "local_batch_size = 8\n" in out


def round_trips(kind, layouts, compcomm, tmp_path):
    """Write layouts and read them; refused where the framework has no word for a value, and then a field is named."""
    written, reasons = 0, []
    for seed in range(layouts):
        study, row = drawn(kind, seed)
        try:
            expected = row_of(study)
            text = emitted(kind, study_from(study), row, HARDWARE)
        except ConfigError as error:
            reasons.append(str(error))
            continue
        again = row_of(read_again(kind, text, study, compcomm, tmp_path))
        assert [again[name] for name in SAME] == pytest.approx([expected[name] for name in SAME], rel=1e-12), text
        written += 1
    emitting = [reason for reason in reasons if reason.startswith("--emit")]
    assert all(re.search(r"\b(?:give|would be)\b", reason) for reason in emitting), emitting
    assert written >= layouts // 4, "\n".join(sorted(reasons))


@pytest.mark.parametrize(("kind", "model", "more", "said"), [
    ("megatron", "llama-3-8b", {"schedule": "gpipe", "pp": 2}, "schedule gpipe cannot be said there; give --schedule"),
    ("megatron", "llama-3-8b", {"placement": "dp-tp-cp-pp"}, "placement dp-tp-cp-pp cannot be said there; give"),
    ("megatron", "llama-3-8b", {"kernels": "compiled"}, "kernels compiled, and would be fused"),
    ("megatron", "llama-3-8b", {"collective_algorithm": "ring", "tp": 2}, "collective_algorithm ring, and would be be"),
    ("megatron", "llama-3-8b", {"comm_precision": "fp32", "tp": 2}, "comm_precision fp32, and would be not given"),
    ("megatron", "llama-3-8b", {"cross_entropy": "eager"}, "cross_entropy eager cannot be said there; give --cross"),
    ("megatron", "falcon-7b", {}, "parallel_blocks on, and would be off"),
    ("torchtitan", "gpt3-13b", {"kernels": "compiled"}, "no flavor that is gpt3-13b; give --model, one of llama-3.1"),
    ("torchtitan", "llama-3.1-8b", {"zero": 3, "master_weights": "shards", "fsdp_units": "ends"},
     "kernels fused, and would be eager"),
    ("torchtitan", "llama-3.1-8b", {"zero": 1, "kernels": "compiled"}, "zero 1 cannot be said there; FSDP2 is 0 or"),
    ("torchtitan", "llama-3.1-8b", {"vpp": 4, "pp": 2, "kernels": "compiled"}, "vpp 4 cannot be said there; give"),
    ("torchtitan", "llama-3.1-8b", {"zero": 3, "master_weights": "shards", "fsdp_units": "ends", "recompute": "mlp"},
     "recompute mlp cannot be said there; give"),
    ("megatron", "llama-3-8b", {"recompute": "per_op"}, "recompute per_op cannot be said there; give --recompute"),
    ("nemo", "llama-3-8b", {"recompute": "full", "recompute_early_stop": "on"}, "recompute_early_stop on cannot be"),
    ("megatron", "llama-3-8b", {"optimizer": "muon", "zero": 3}, "zero 3 cannot be said there; give --zero 1"),
    ("nemo", "llama-3-8b", {"zero": 2}, "zero 2 cannot be said there; give --zero 0, 1 or 3"),
    ("nemo", "deepseek-v3", {}, "kv_lora_rank 512, and would be not given"),
    ("deepspeed", "llama-3-8b", {"pp": 2}, "pp 2 cannot be said there; give --pp 1"),
    ("deepspeed", "llama-3-8b", {"recompute": "full"}, "recompute full cannot be said there; the program says so"),
])  # fmt: skip
def test_what_a_framework_cannot_say_is_refused(kind, model, more, said):
    point = {"gpus": 16, "seq_len": 2048, "global_batch": 64, "memory_capacity": 1000, **more}
    dp = 16 // (point.get("tp", 1) * point.get("pp", 1))
    study = study_from({"title": "t", "hardware": HARDWARE, "model": model, "set": point})
    with pytest.raises(ConfigError) as error:
        emitted(kind, study, {**point, "dp": dp}, HARDWARE)
    assert str(error.value).startswith(f"--emit {kind}: ")
    assert said in str(error.value)


def test_a_pattern_is_cut_into_chunks_with_its_modules():
    point = {"gpus": 64, "ep": 8, "pp": 2, "vpp": 2, "global_batch": 64, "micro_batch": 1, "memory_capacity": 1000}
    study = study_from({"title": "t", "hardware": HARDWARE, "model": "nemotron-3-super-120b-a12b", "set": point})
    text = emitted("megatron", study, {**point, "dp": 32}, HARDWARE)
    (pattern,) = re.findall(r"--hybrid-layer-pattern '(.*)'", text)
    assert [len(part) for part in pattern.split("/")[0].split("|")] == [22] * 4
    assert pattern.endswith("/*E")
    assert "pretrain_hybrid.py" in text
    assert "--moe-latent-size 1024" in text


ASKED = ("search", "--model", "llama-3-8b", "--hardware", HARDWARE, "--gpus", "16", "--global-batch", "64", "-q")


@pytest.fixture
def best(compcomm):
    def of(*more):
        return json.loads(compcomm(*ASKED, *more, "--format", "json")[1])["rows"][0]

    return of


@pytest.mark.a_third
@pytest.mark.parametrize(("layout", "variable", "checkpoint"), [
    ("--tp 4 --cp 1 --zero 0", True, False), ("--tp 1 --cp 2 --zero 1", True, False),
    ("--tp 1 --cp 1 --zero 1", False, False), ("--tp 2 --cp 1 --zero 2", False, True),
    ("--tp 1 --cp 1 --zero 3", False, True),
])  # fmt: skip
def test_megatron_starts_what_is_written(layout, variable, checkpoint, compcomm):
    """Its arguments.py asserts CUDA_DEVICE_MAX_CONNECTIONS=1 for TP or CP before Blackwell, that it is not 1 with its
    FSDP, and there --ckpt-format fsdp_dtensor."""
    code, out, err = compcomm(*ASKED, "--pp", "1", *layout.split(), "--emit", "megatron")
    assert code == 0, err
    assert out.startswith("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun " if variable else "torchrun ")
    assert ("--ckpt-format fsdp_dtensor" in out, "--use-megatron-fsdp" in out) == (checkpoint, checkpoint)


# What a file of each kind can say, by hand.
SAID = {
    "megatron": ("--placement", "tp-cp-dp-pp,tp-cp-pp-dp"),
    "nemo": ("--placement", "tp-cp-dp-pp,tp-cp-pp-dp", "--zero", "0,1,3", "--cp-comm", "p2p"),
    "deepspeed": ("--pp", "1", "--cp", "1", "--recompute", "none", "--sp", "on", "--placement", "tp-cp-dp-pp"),
}  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("more", [(), ("--precision", "fp8")])
def test_the_best_of_a_search_is_written_to_a_file(kind, more, best, compcomm, tmp_path):
    """Without a word of its choices: the search is of the framework's stack, and tries what its file can say."""
    if kind == "deepspeed" and more:
        return  # a DeepSpeed JSON has no fp8
    path = tmp_path / f"best{ENDINGS[kind][0]}"
    code, out, err = compcomm(*ASKED, *more, "--emit", kind, "-o", path)
    assert (code, out) == (0, ""), err
    assert ("--set gpus=16" in err) == (kind == "deepspeed")
    study = {"model": "llama-3-8b", "set": {"gpus": 16, "seq_len": 8192}}
    again = read_again(kind, path.read_text(), study, compcomm, tmp_path)
    by_hand = best("--stack", kind, *more, *SAID[kind])
    assert row_of(again)["step_s"] == pytest.approx(by_hand["step_s"], rel=1e-12)


@pytest.mark.a_third
@pytest.mark.parametrize("more", [("--tp", "2"), ("--pp", "2"), ("--precision", "fp8", "--pp", "1")])
def test_the_best_of_a_search_is_written_for_torchtitan(more, compcomm, tmp_path):
    asked = ("search", "--model", "llama-3.1-8b", "--hardware", HARDWARE, "--gpus", "16", "--global-batch", "64",
             "--cp", "1", *more)  # fmt: skip
    path = tmp_path / "best.toml"
    code, out, err = compcomm(*asked, "--emit", "torchtitan", "-o", path)
    assert (code, out) == (0, ""), err
    assert "stack torchtitan (torchtitan) gives" in err
    assert "--emit torchtitan: tried is only what its file can say" in err
    shown = json.loads(compcomm(*asked, "--stack", "torchtitan", "--placement", "tp-cp-dp-pp", "--vpp", "1,2",
                                "--format", "json", "-q")[1])["rows"][0]  # fmt: skip
    again = read_again(
        "torchtitan", path.read_text(), {"model": "llama-3.1-8b", "set": {"gpus": 16}}, compcomm, tmp_path
    )
    assert row_of(again)["step_s"] == pytest.approx(shown["step_s"], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "model", "gpus"), [("nemo", "mixtral-8x7b", 64), ("torchtitan", "deepseek-v3", 1024)])
def test_a_search_of_experts_tries_what_a_file_can_say(kind, model, gpus, compcomm):
    """Of exchanges, too: neither file has one that runs beside compute."""
    asked = ("--model", model, "--hardware", HARDWARE, "--gpus", gpus, "--global-batch", 1024, "--cp", 1, "--zero", 1)
    code, _, err = compcomm("search", *map(str, asked), "--emit", kind)
    assert code == 0, err
    assert "overlap_ep off" in err


@pytest.mark.slow
def test_the_best_of_a_search_as_a_study_is_explained(compcomm, tmp_path):
    asked, path = (*ASKED, "--network", "2"), tmp_path / "best.yaml"
    row = json.loads(compcomm(*asked, "--format", "json")[1])["rows"][0]
    assert compcomm(*asked, "--emit", "study", "-o", path)[0] == 0
    code, out, _ = compcomm("explain", path, "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert found["step_s"] == pytest.approx(row["step_s"], rel=1e-12)
    assert found["meta"]["fixed"]["network"] == 2


@pytest.mark.parametrize("kind", ["study", "megatron"])
def test_hardware_and_models_of_files(kind, compcomm, tmp_path):
    profile, model = machine(tmp_path, outer=1e10, flops=1e14, memory=1e12), tmp_path / "model.yaml"
    sizes = {"layers": 4, "hidden": 512, "heads": 8, "vocab": 32000, "seq_len": 1024}
    model.write_text(json.dumps({"name": "own", "title": "Own", "year": 2026, "source": "made up", **sizes}))
    asked = ("search", "--model", model, "--hardware", profile, "--gpus", "16", "--global-batch", "32", "-q")
    path = tmp_path / f"best{ENDINGS[kind][0]}"
    code, _, err = compcomm(*asked, "--emit", kind, "-o", path)
    assert code == 0, err
    if kind == "study":
        data = strict_yaml.load(path.read_bytes(), "best.yaml").data
        assert data["hardware"] == profile
        assert data["set"]["hidden"] == 512
        assert row_of(data)["step_s"] > 0


@pytest.mark.parametrize(("more", "said"), [
    (("--emit", "megatron", "--compare", "--per", "tp"),
     "--emit writes the best layout, and nothing else: leave --compare and --per out"),
    (("--emit", "megatron", "--network", "1,2"), "--emit is about one search, and this searches 2 times"),
    (("--emit", "megatron", "--format", "csv"), "leave --format out"),
    (("--emit", "axolotl"), "there is no 'axolotl' (allowed: megatron,"),
])  # fmt: skip
def test_questions_that_have_no_one_layout(more, said, compcomm):
    code, out, err = compcomm(*ASKED, *more)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.slow
def test_ends_that_take_the_place_of_a_layer_are_said(compcomm):
    """80 layers in 82 chunks: Megatron-LM wants two flags for it, NeMo's launcher has none; 36 chunks nobody has."""
    asked = ("search", "--model", "llama-3-70b", "--hardware", "h100-sxm", "--gpus", "64", "--global-batch", "512",
             "--tp", "8", "--cp", "1", "--sp", "on")  # fmt: skip
    code, out, err = compcomm(*asked, "--pp", "2", "--vpp", "41", "--emit", "megatron")
    assert code == 0, err
    assert "--account-for-embedding-in-pipeline-split" in out
    assert "--account-for-loss-in-pipeline-split" in out
    assert "account-for" not in compcomm(*asked, "--pp", "2", "--vpp", "40", "--emit", "megatron")[1]
    for kind, pp, vpp in (("nemo", "2", "41"), ("megatron", "4", "9"), ("nemo", "4", "9")):
        code, out, err = compcomm(*asked, "--pp", pp, "--vpp", vpp, "--emit", kind)
        assert (code, out) == (2, "")
        assert "divides 80 layers" in err


def test_words_of_the_flag_are_those_of_the_exporters():
    assert (*EXPORTERS, STUDY) == FORMATS

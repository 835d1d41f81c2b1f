"""The catalogue of models: counts against what is published, what list and show say, and what a wrong file is told."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from comp_comm.cli.models import describe
from comp_comm.configs import catalogue, model_names
from comp_comm.configs.model_file import load_model
from comp_comm.configs.model_names import DIMENSIONS
from comp_comm.configs.study import study_from
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import ConfigError
from comp_comm.sweeps.plan import make_plan
from comp_comm.transformer import Transformer, resolved

NAMES = catalogue.names("model")
# Published totals (safetensors headers, model cards, papers), written here a second time: the YAML files may be wrong.
PUBLISHED = {
    "gpt2": 124439808, "gpt2-medium": 354823168, "gpt2-large": 774030080, "gpt2-xl": 1557611200,
    "gpt3-175b": 174604259328, "llama-7b": 6738415616, "llama-13b": 13015864320, "llama-33b": 32528943616,
    "llama-65b": 65285660672, "llama-2-7b": 6738415616, "llama-2-13b": 13015864320, "llama-2-70b": 68976648192,
    "llama-3-8b": 8030261248, "llama-3-70b": 70553706496, "llama-3.1-405b": 405853388800, "llama-3.2-1b": 1235814400,
    "llama-3.2-3b": 3212749824, "mistral-7b": 7241732096, "mixtral-8x7b": 46702792704, "mixtral-8x22b": 140620634112,
    "qwen1.5-72b": 72287920128, "qwen2.5-0.5b": 494032768, "qwen2.5-7b": 7615616512, "qwen2.5-72b": 72706203648,
    "qwen3-0.6b": 596049920, "qwen3-4b": 4022468096, "qwen3-32b": 32762123264, "qwen3-30b-a3b": 30532122624,
    "qwen3-235b-a22b": 235093634560, "deepseek-v2": 235741434880, "deepseek-v2-lite": 15706484224,
    "deepseek-v3": 671026419200, "kimi-k2": 1026408232448, "gpt-oss-20b": 20914757184, "gpt-oss-120b": 116829156672,
    "gemma-2b": 2506172416, "gemma-7b": 8537680896, "gemma-2-2b": 2614341888, "gemma-2-9b": 9241705984,
    "gemma-2-27b": 27227128320, "gemma-3-1b": 999885952, "gemma-3-4b": 3880263168, "gemma-3-27b": 27009346304,
    "falcon-7b": 6921720704, "falcon-40b": 41303293952, "bloom-560m": 559214592, "bloom-7b1": 7069016064,
    "bloom-176b": 176247271424, "opt-125m": 125239296, "opt-6.7b": 6658473984, "opt-30b": 29974540288,
    "mpt-7b": 6649286656, "pythia-70m": 70426624, "pythia-6.9b": 6857302016, "pythia-12b": 11846072320,
    "gpt-neox-20b": 20554567680, "gpt-j-6b": 6050882784, "bert-base": 109482240, "bert-large": 335141888,
    "t5-small": 60506624, "t5-11b": 11307321344, "vit-b-16": 86567656, "vit-l-16": 304326632, "phi-2": 2779683840,
    "dbrx-132b": 131596523520, "olmo-2-7b": 7298617344, "qwen3-next-80b-a3b": 79674391296,
    "nemotron-3-super-120b-a12b": 120668687360, "jamba-v0.1": 51570323328, "minimax-text-01": 456089655296,
    "falcon-h1-34b": 33642221312, "apertus-8b": 8053338176,
}  # fmt: skip
ACTIVE = {"mixtral-8x7b": 12.9e9, "deepseek-v2": 21e9, "deepseek-v3": 37e9, "qwen3-30b-a3b": 3.3e9, "kimi-k2": 32e9,
          "qwen3-235b-a22b": 22e9, "llama-4-scout": 17e9, "dbrx-132b": 36e9, "nemotron-3-super-120b-a12b": 12.77e9,
          "jamba-1.5-large": 94e9, "qwen3-next-80b-a3b": 3.87e9, "dots.llm1": 14e9, "hunyuan-a13b": 13e9,
          "solar-open-100b": 12e9, "ernie-4.5-300b-a47b": 47e9, "moonlight-16b-a3b": 3e9,
          "ling-mini-2.0": 1.4e9, "ling-flash-2.0": 6.1e9, "mistral-large-3-675b": 41e9}  # fmt: skip
# Named by their size without embeddings, or by that of a model with tied ones (arXiv:2408.10197).
OF_THE_STUDY = {"neox-19m": 18.9e6, "neox-49m": 49.2e6, "neox-1.3b": 1.21e9, "neox-13b": 12.6e9}
TABLE_4 = (
    "bert-large",
    "t5-11b",
    "gpt2-xl",
    "megatron-8.3b",
    "turing-nlg-17b",
    "gpt3-175b",
    "mt-nlg-530b",
    "palm-540b",
)


CUT = {"ernie-4.5-21b-a3b"}  # whose publishers leave decimals off: 21.83 billion are called 21


def counts(name):
    return tuple(int(count) for count in model_parameters(load_model(name).transformer()))


def digits(number):
    """How far a printed figure may be from what it stands for: half of its last digit, or 2 %."""
    mantissa = f"{number / 10 ** math.floor(math.log10(number)):.6f}".rstrip("0").rstrip(".")
    places = len(mantissa.partition(".")[2])
    return max(0.5 * 10.0 ** (math.floor(math.log10(number)) - places), 0.02 * number)


def test_the_catalogue_has_every_family():
    assert len(NAMES) >= 70
    families = ("gpt2", "gpt3", "llama-2", "llama-3", "llama-3.1", "mistral", "mixtral", "qwen2.5", "qwen3", "deepseek",
                "gpt-oss", "gemma-2", "gemma-3", "falcon", "bloom", "opt", "mpt", "pythia", "neox", "mt-nlg", "palm",
                "megatron", "vit-22b", "foundation-vit", "foundation-gpt3", "bert", "t5", "turing-nlg")  # fmt: skip
    for family in families:
        assert any(name == family or name.startswith(f"{family}-") for name in NAMES), family
    assert set(TABLE_4) <= set(NAMES)


@pytest.mark.a_third
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_count_is_the_published_one(name):
    assert counts(name)[0] == PUBLISHED[name]


def test_a_count_is_what_its_file_says_is_published():
    for name in NAMES:
        total, published = counts(name)[0], load_model(name).published_parameters
        if published is None:
            assert name.startswith(("neox-", "foundation-")), f"{name}: no figure to hold the count against"
        elif name in CUT:
            assert total // 10**9 * 10**9 == published, name
        elif isinstance(published, int):
            assert total == published, name
        else:
            assert abs(total - published) <= digits(published), name


@pytest.mark.parametrize("name", OF_THE_STUDY)
def test_models_of_the_communication_study_are_named_without_embeddings(name):
    model = load_model(name)
    beside = 2 * model.fields["vocab"] * model.fields["hidden"]
    assert counts(name)[0] - beside == pytest.approx(OF_THE_STUDY[name], rel=5e-3)


def test_the_foundation_models_study_counts_no_embedding():
    """12 e^2 + 10 e parameters in each layer (its published code), and the last norm."""
    for name, e, layers in (("foundation-gpt3-1t", 25600, 128), ("foundation-vit-era5", 12288, 48)):
        assert counts(name)[0] == (12 * e * e + 10 * e) * layers + 2 * e


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters(name):
    assert counts(name)[1] == pytest.approx(ACTIVE[name], rel=0.03)


@pytest.mark.slow
def test_multi_token_prediction_is_counted_apart():
    total, active, apart = counts("deepseek-v3")
    assert (total, active) == (671026419200, 37552297472)
    # A projection of two hidden states, three norms, and a layer of 256 experts.
    assert apart == 11610068224
    assert all((counts(name)[2] > 0) == ("mtp_layers" in load_model(name).fields) for name in NAMES)


# Published with the module of multi-token prediction: of all tensors, or (GLM-4.5) with copies of embedding and head.
WITH_MODULES = {"glm-5": 753864139008, "nemotron-3-super-120b-a12b": 123611012096}
WITH_COPIES = {"glm-4.5": 358337791296, "glm-4.5-air": 110468824832}


@pytest.mark.parametrize("name", [*WITH_MODULES, *WITH_COPIES])
def test_a_count_with_its_modules_is_the_published_one(name):
    total, _, apart = counts(name)
    f = load_model(name).fields
    copies = 2 * f["vocab"] * f["hidden"] if name in WITH_COPIES else 0
    assert total + apart + copies == {**WITH_MODULES, **WITH_COPIES}[name]


def test_a_file_says_where_its_numbers_are_from():
    for name in NAMES:
        model = load_model(name)
        assert model.name == name
        assert model.source, name
        assert 2017 < model.year < 2027, name
        assert {"layers", "hidden", "heads", "seq_len"} <= set(model.fields), name


@pytest.mark.a_third
@pytest.mark.parametrize("name", NAMES)
def test_a_model_makes_a_step(name):
    set_ = {"seq_len": min(int(load_model(name).fields["seq_len"]), 2048)}
    if "encoder_seq_len" in load_model(name).fields:
        set_["encoder_seq_len"] = set_["seq_len"]
    step = make_plan(study_from({"hardware": "h100-sxm", "model": name, "set": set_})).evaluate(())
    assert np.isfinite(step.step_s)
    assert step.step_s > 0


def test_aliases_are_of_one_model_each_and_hide_none():
    seen = {}
    for name in NAMES:
        for alias in load_model(name).aliases:
            assert alias.lower() not in NAMES
            assert seen.setdefault(alias.lower(), name) == name, alias
    assert model_names.aliases() == seen


@pytest.mark.parametrize(("alias", "name"), [
    ("meta-llama/Llama-2-7b-hf", "llama-2-7b"), ("LLAMA-3-8B", "llama-3-8b"), ("bloom", "bloom-176b"),
    ("deepseek-r1", "deepseek-v3"), ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"), ("gpt-3-175b", "gpt3-175b"),
])  # fmt: skip
def test_a_model_goes_by_its_aliases(alias, name, compcomm):
    assert asdict(load_model(alias)) == asdict(load_model(name))
    study = study_from({"hardware": "h100-sxm", "model": alias})
    assert study.model.name == name


def test_a_file_in_the_way_hides_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").write_text("not a model")
    assert load_model("gpt2").fields["hidden"] == 768


def test_a_word_leaves_the_models_that_have_it_in_name_or_title(compcomm):
    code, out, _ = compcomm("models", "list", "BERT", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["name"] for row in rows] == ["bert-base", "bert-large", "megatron-bert-3.9b"]


@pytest.mark.slow
def test_list_in_every_format(compcomm):
    code, out, _ = compcomm("models", "list", "--format", "json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert [row["name"] for row in rows] == NAMES
    one = next(row for row in rows if row["name"] == "qwen3-30b-a3b")
    assert (one["parameters"], one["active_parameters"], one["kv_heads"]) == (30532122624, 3353032704, 4)
    code, out, _ = compcomm("models", "list", "--format", "csv")
    table = list(csv.DictReader(io.StringIO(out)))
    assert len(table) == len(NAMES)
    assert table[NAMES.index("gpt2")]["parameters"] == "124439808"
    assert len(compcomm("models", "list", "--format", "jsonl")[1].splitlines()) == len(NAMES)
    for form in ("table", "markdown"):
        code, out, _ = compcomm("models", "list", "--format", form)
        assert code == 0
        assert all(name in out for name in NAMES)


@pytest.mark.parametrize("name", ["gpt2", "deepseek-v3", "t5-11b", "vit-b-16", "gemma-2-9b"])
def test_show_has_counts_every_dimension_and_the_source(name, compcomm):
    code, out, _ = compcomm("models", "show", name, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["meta"]["command"] == "models show"
    assert all(type(found[key]) is int for key in ("parameters", "active_parameters", "mtp_parameters"))
    assert (found["parameters"], found["active_parameters"], found["mtp_parameters"]) == counts(name)
    assert set(DIMENSIONS) <= set(found)
    assert found["source"] == load_model(name).source
    given = {key: value for key, value in load_model(name).fields.items() if key != "parameters"}
    assert {key: found[key] for key in given} == given


def test_show_resolves_what_is_not_given(compcomm):
    found = json.loads(compcomm("models", "show", "gpt3-175b", "--format", "json")[1])
    assert (found["kv_heads"], found["head_dim"], found["v_head_dim"]) == (96, 128, 128)
    assert found["window"] is None
    assert (found["parameters"], found["nominal_parameters"]) == (174604259328, 175e9)


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "jsonl"])
def test_show_for_people_and_programs(form, compcomm):
    code, out, err = compcomm("models", "show", "deepseek-v3", "--format", form)
    assert (code, err) == (0, "")
    assert ("671,026,419,200" if form in ("table", "markdown") else "671026419200") in out
    assert max(map(len, out.splitlines())) < 130


@pytest.mark.parametrize(("name", "near"), [("lama-3-8b", "llama-3-8b"), ("gpt2-xxl", "gpt2-xl"),
                                            ("mixtral", "mixtral-8x7b"), ("qwen3-32", "qwen3-32b")])  # fmt: skip
def test_an_unknown_name_gets_the_nearest(name, near, compcomm):
    for arguments in (("models", "show", name), ("explain", "--hardware", "h100-sxm", "--model", name)):
        code, out, err = compcomm(*arguments)
        assert (code, out) == (2, "")
        assert f"no model is called '{name}'; did you mean '{near}'?" in err


def test_results_of_the_papers_models_are_what_they_were(compcomm):
    """Eq 10 takes the nominal sizes of Table 4, whatever is counted."""
    code, out, _ = compcomm("required-tp", "--format", "json")
    found = {(row["model"], row["memory_scaling"]): row["required_tp"] for row in json.loads(out)["rows"]}
    assert code == 0
    assert [found[("mt-nlg-530b", 2.0)], found[("palm-540b", 2.0)], found[("palm-540b", 4.4)]] == [544, 554, 252]
    assert {name: load_model(name).fields["parameters"] for name in TABLE_4} == {
        "bert-large": 0.34e9, "t5-11b": 11e9, "gpt2-xl": 1.54e9, "megatron-8.3b": 8.3e9, "turing-nlg-17b": 17e9,
        "gpt3-175b": 175e9, "mt-nlg-530b": 530e9, "palm-540b": 540e9,
    }  # fmt: skip


BASE = {"hidden": 64, "seq_len": 32, "layers": 3, "heads": 4, "vocab": 100}


def count(**fields):
    words = {name: value for name, value in fields.items() if not isinstance(value, str)}
    from comp_comm.fields import FIELDS

    words |= {name: FIELDS[name].words.index(value) for name, value in fields.items() if isinstance(value, str)}
    return int(model_parameters(resolved(Transformer(**{**BASE, **words})))[0])


@pytest.mark.parametrize(("change", "more"), [
    ({"norm": "layernorm_no_weights"}, -14 * 64),
    ({"norm": "layernorm_no_bias"}, -7 * 64), ({"norms": 1}, -3 * 128), ({"norms": 4}, 3 * 2 * 128),
    ({"parallel_blocks": "on"}, 0), ({"bias": "off"}, -3 * (192 + 64 + 256 + 64)),
    ({"bias": "qkv"}, -3 * (64 + 256 + 64)), ({"bias": "attention"}, -3 * (256 + 64)),
    ({"bias": "ffn"}, -3 * (192 + 64)), ({"bias": "not_qkv"}, -3 * 192), ({"qk_norm": "on"}, 3 * 32),
    ({"qk_norm": "whole"}, 3 * 128), ({"attention_sinks": "on"}, 3 * 4), ({"extra_parameters": 77}, 77),
])  # fmt: skip
def test_what_a_choice_adds(change, more):
    assert count(**change) == count() + more


def test_a_router_bias_is_a_number_for_each_expert_and_layer():
    moe = {"experts": 8, "top_k": 2, "dense_layers": 1}
    assert count(**moe, router_bias="on") == count(**moe) + 2 * 8


def step(**fields):
    fixed = {"layers": 8, "hidden": 4096, "heads": 32, "vocab": 32000, "seq_len": 2048, "gpus": 8, "tp": 8, **fields}
    return make_plan(study_from({"hardware": "h100-sxm", "set": fixed})).evaluate(())


def test_blocks_side_by_side_reduce_once_and_keep_less():
    one, other = step(parallel_blocks="on", norms=1), step()
    from face import recorded

    calls = [recorded(each)["comm"]["tp"]["calls"] for each in (one, other)]
    # A gather and a scatter less in each layer, forward and backward, and the gather for the gradient of a weight.
    assert calls[1] - calls[0] == 8 * 5
    assert one.step_s < other.step_s
    assert one.memory_bytes < other.memory_bytes
    assert step(norms=4).step_s > other.step_s


@pytest.mark.parametrize(("text", "parts"), [
    ("hidden: 64\nlayers: 2\nheads: 3\n", ("heads does not divide hidden",)),
    ("hidden: 64\nlayers: 2\n", ("'heads' is missing",)),
    ("hiden: 64\nlayers: 2\nheads: 2\n", ("model.yaml:1: hiden: unknown key; did you mean 'hidden'?",)),
    ("hidden: 64\nlayers: 0\nheads: -1\n", ("model.yaml:2: layers: 0 is out of range", "model.yaml:3: heads: -1")),
    ("hidden: 64\nlayers: 2\nheads: 2\naliases: x\n", ("model.yaml:4: aliases: must be a list of texts",)),
    ("hidden: 64\nlayers: 2\nheads: 2\npublished_parameters: many\n", ("published_parameters: must be a number",)),
    ("hidden: 64\nlayers: 2\nheads: 2\nbias: perhaps\n", ("bias: 'perhaps' is not allowed; must be one of: off, qkv",)),
    ("hidden: 64\nlayers: 2\nheads: 2\nexperts: 4\ntop_k: 5\n", ("top_k exceeds experts",)),
    ("hidden: 64\nlayers: 2\nheads: 2\nexperts: 4\ntop_k: 1\nparallel_blocks: on\n", ("parallel_blocks of experts",)),
    ("", ("is empty",)), ("- 1\n", ("must be a mapping",)), ("hidden: [\n", ("not valid YAML",)),
])  # fmt: skip
def test_a_wrong_file_is_told_what_is_wrong(text, parts, tmp_path, compcomm):
    path = tmp_path / "model.yaml"
    path.write_text(text)
    code, out, err = compcomm("models", "show", path)
    assert (code, out) == (2, "")
    assert all(part in err for part in parts), err


def test_a_rounded_count_is_shown_as_a_whole_number(compcomm):
    lines = compcomm("models", "show", "kimi-k3")[1].splitlines()
    (published,) = (line.split() for line in lines if line.startswith("published_parameters"))
    assert published[1:] == ["2,800,000,000,000", "2,800", "B"]


def test_nothing_is_written_on_failure_and_no_input_written_over(tmp_path, compcomm):
    path = tmp_path / "model.yaml"
    path.write_text("hidden: 64\nlayers: 2\nheads: 3\n")
    assert compcomm("models", "show", path, "-o", tmp_path / "out.json")[0] == 2
    assert not (tmp_path / "out.json").exists()
    path.write_text("hidden: 64\nlayers: 2\nheads: 2\n")
    code, _, err = compcomm("models", "show", path, "--format", "json", "-o", path)
    assert code == 2
    assert "is an input of this command" in err


def test_describe_is_of_plain_values():
    found = describe(load_model("gpt-oss-20b"))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_missing_file_is_no_name():
    with pytest.raises(ConfigError, match="there is no such file"):
        load_model("missing/config.json")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_model("config.json")


@pytest.mark.parametrize("path", ["configs/llama-3-8b.yaml", "models/llama-3-8b.yml"])
def test_a_path_that_is_not_here_to_a_file_of_the_catalogue(path):
    with pytest.raises(ConfigError, match="the catalogue has 'llama-3-8b': give that name alone"):
        load_model(path)

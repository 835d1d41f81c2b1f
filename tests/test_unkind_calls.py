"""Calls that used to go on with what nobody meant, or to say more than was wrong: each is one clear error now."""

import json

import pytest
from face import row_of, search_of, told

from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile
from comp_comm.costmodels.field_groups import NO_EFFECT
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS

POINT = ("--model", "llama-3-8b", "--gpus", "64", "--global-batch", "256")
STEP = (*POINT, "--hardware", "h100-sxm")


@pytest.fixture
def compcomm(capsys):
    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def errors(err):
    """Return the lines of an error message."""
    return [line for line in err.splitlines() if not line.startswith(("Usage", "note"))]


# -- tiers of a profile ---------------------------------------------------------------------------------------------


def profile(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: h100-sxm\nnetwork:\n  {text}\n")
    return str(path)


@pytest.mark.parametrize("name", ["scale-ot", "scale_out", "Scale-Out", "sclae-out", "scaleout"])
def test_a_misspelt_tier_is_refused_where_its_file_is_read(name, tmp_path):
    with pytest.raises(ConfigError, match=r"mine\.yaml:3: network\..*did you mean 'scale-out'\?"):
        load_profile(profile(tmp_path, f"{name}: {{bandwidth: 100 GB/s}}"))


def test_a_misspelt_tier_within_another_one_is_refused_too(tmp_path):
    """One that has a domain of its own, so that only its name shows what is wrong."""
    text = "scale-out: {domain: 64}\n  scale-oute: {bandwidth: 25 GB/s}"
    with pytest.raises(ConfigError, match="did you mean 'scale-out'"):
        load_profile(profile(tmp_path, text))


def test_a_tier_that_no_group_can_reach_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="beyond 'scale-out', which has no domain"):
        load_profile(profile(tmp_path, "rack: {bandwidth: 100 GB/s}"))


def test_a_tier_of_ones_own_is_taken(tmp_path):
    text = "scale-out: {domain: 64}\n  wan: {bandwidth: 1 GB/s}"
    assert load_profile(profile(tmp_path, text)).tiers == ("scale-up", "scale-out", "wan")


# -- what is missing, told once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--precision", "fp8")])
def test_without_hardware_nothing_is_said_of_a_device(more, compcomm):
    code, _, err = compcomm("explain", *POINT, *more)
    assert code == 2
    assert len(errors(err)) == 1
    assert "'hardware' is missing" in err


@pytest.mark.parametrize("command", ["explain", "search", "memory", "volume", "sweep"])
def test_a_model_that_is_none_is_told_alone(command, compcomm):
    code, _, err = compcomm(command, "--model", "llama-3-8bb", "--hardware", "h100", "--gpus", "64",
                            "--batch-tokens", "4M")  # fmt: skip
    assert code == 2
    assert len(errors(err)) == 1
    assert "did you mean 'llama-3-8b'?" in err


# -- empty and impossible values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "said"), [
    (("volume", *POINT, "--steps", "-3"), "--steps must be at least 1, not -3"),
    (("volume", *POINT, "--steps", "3"), "--steps is of a --log, and none is given"),
    (("volume", *POINT, "-o", ""), "-o/--output is empty: give it a value, or leave it out"),
    (("explain", *STEP, "--plot", " "), "--plot is empty"),
    (("trace", *STEP, "--svg", ""), "--svg is empty"),
    (("search", *STEP, "--per", ""), "--per is empty"),
    (("search", *STEP, "--per", ","), "--per: ',' names no field of a layout"),
    (("search", *STEP, "--crossover", ""), "--crossover is empty"),
    (("models", "show", ""), "NAME|FILE is empty"),
    (("import", ""), "FILE is empty"),
    (("sweep", *STEP, "--columns", ","), "--columns: ',' names no column"),
    (("sweep", *STEP, "--columns", ""), "--columns is empty"),
])  # fmt: skip
def test_an_empty_or_impossible_value_is_refused(arguments, said, compcomm):
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert said in err


# -- volume without hardware ----------------------------------------------------------------------------------------


def test_volume_names_no_device_that_nobody_gave(compcomm):
    code, out, err = compcomm("volume", *POINT)
    assert code == 0
    assert "h100" not in out
    assert "on 64 devices" in out
    assert "domains of 8 devices, as those of h100-sxm (--hardware)" in err
    meta = json.loads(compcomm("volume", *POINT, "--format", "json")[1])["meta"]
    assert meta["hardware"] == {}
    assert list(meta["hardware_assumed"]) == ["h100-sxm"]


def test_volume_names_the_device_that_was_given(compcomm):
    code, out, err = compcomm("volume", *POINT, "--set", "hardware=a100-sxm-80gb")
    assert (code, err) == (0, "")
    assert "on 64 a100-sxm-80gb" in out


# -- choices without effect -----------------------------------------------------------------------------------------

SMALL = {"gpus": 8, "global_batch": 64, "optimizer": "muon", "tp": 2, "cp": 2, "pp": 2, "zero": 1,
         "memory_capacity": 100}  # fmt: skip
WITH = {"scatter_gather": {"sp": "off"}, "cp_implementation": {"cp_comm": "all_gather"}}


@pytest.mark.a_third
@pytest.mark.parametrize("name", NO_EFFECT)
def test_a_choice_that_is_said_to_change_nothing_changes_nothing(name):
    other, value = NO_EFFECT[name]

    def numbers(word, least):
        given = {**SMALL, **WITH.get(name, {}), other: least, name: word}
        row = row_of({"hardware": "h100-sxm", "model": "llama-3-8b", "set": given})
        return row["step_s"], row["memory_gib"]

    words = [word for word in FIELDS[name].words if word != "exchanged"]  # which goes with other stages of ZeRO alone
    for least, same in ((value, True), (value + 1, False)):
        assert (len({numbers(word, least) for word in words}) == 1) is same


@pytest.mark.parametrize(("more", "said"), [
    (("--optimizer", "muon", "--muon-tp", "blockwise"), "muon_tp (tp is 1)"),
    (("--optimizer", "muon", "--muon-sharding", "gathered", "--zero", "0"), "muon_sharding (zero is 0)"),
    (("--cp-implementation", "torch", "--cp-comm", "all_gather"), "cp_comm (cp is 1), cp_implementation (cp is 1)"),
    (("--cp-implementation", "torch", "--cp", "1,2"), ""),
    (("--optimizer", "muon", "--muon-tp", "blockwise", "--tp", "1,2,4"), ""),
    (("--optimizer", "muon", "--muon-tp", "duplicated"), ""),  # what it is anyway
    (("--muon-tp", "blockwise"), None),  # a field of another optimizer is refused
])  # fmt: skip
def test_a_choice_without_effect_is_said(more, said, compcomm):
    code, _, err = compcomm("sweep", *STEP, "--memory-capacity", "3", *more)
    assert code == (2 if said is None else 0)
    assert ("without effect here" in err) is bool(said)
    assert (said or "") in err


@pytest.mark.slow
def test_a_search_does_not_depend_on_the_order_of_a_list():
    """Experts split by TP exchange tokens without EP, too, and a choice about it is none without an effect."""
    given = {"hardware": "h100-sxm", "model": "mixtral-8x7b"}
    one = {"global_batch": 64, "memory_capacity": 3, "tp": 2, "etp": 2, "ep": 1, "cp": 1, "pp": 1}
    best = [search_of({**given, "set": one, "sweep": {"overlap_ep": words}}, 8)["rows"][0]["step_s"]
            for words in (["off", "on"], ["on", "off"])]  # fmt: skip
    assert best[0] == best[1]


# -- a stack and what it does not go with -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_of_a_stack_leaves_out_what_muon_does_not_go_with(compcomm):
    """Without a pipeline torchtitan shards weights (ZeRO 3), where Muon exchanges matrices, which TP does not split."""
    small = ("--model", "llama-3.1-8b", "--hardware", "h100-sxm", "--gpus", "16", "--global-batch", "32", "--cp", "1",
             "--stack", "torchtitan", "--optimizer", "muon", "--tp", "2")  # fmt: skip
    code, out, _ = compcomm("search", *small, "--format", "json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert {row["zero"] for row in rows} == {1}
    assert min(row["pp"] for row in rows) > 1
    code, out, _ = compcomm("search", *small, "--zero", "1", "--format", "json")
    assert min(row["pp"] for row in json.loads(out)["rows"]) == 1
    for call in (("explain", *small), ("search", *small, "--pp", "1")):
        code, _, err = compcomm(*call)
        assert code in (2, 3)
        assert "exchanged (zero 2 and 3) goes with tp and etp 1" in err


# -- layers that share blocks ---------------------------------------------------------------------------------------


def test_no_more_blocks_are_shared_than_layers_share_them():
    given = {"hardware": "h100-sxm", "model": "zamba2-2.7b"}
    assert told({**given, "set": {"shared_blocks": 9}})["feasible"] is not None
    with pytest.raises(ConfigError, match=r"shared_blocks exceeds the layers that share them \(Z, Y\)"):
        told({**given, "set": {"shared_blocks": 10}})


def test_a_search_for_a_framework_tries_the_context_parallelism_that_it_has(compcomm):
    """PyTorch's: the default is that of Transformer Engine, which no file of torchtitan can say."""
    code, out, err = compcomm("search", "--model", "llama-3.1-8b", "--hardware", "h100-sxm", "--gpus", "16",
                              "--global-batch", "16", "--cp", "2", "--pp", "1", "--emit", "torchtitan")  # fmt: skip
    assert code == 0, err
    assert "context_parallel_degree = 2" in out


# -- what a newcomer met --------------------------------------------------------------------------------------------

SMALL_SEARCH = ("search", "--model", "llama-3-8b", "--gpus", "8", "--global-batch", "16", "--hardware")


@pytest.mark.parametrize(("arguments", "said"), [
    ((*SMALL_SEARCH, "h100", "--per", "dp"), "it follows from tp, cp, pp"),
    ((*SMALL_SEARCH, "h100,h100-sxm"), "h100, h100-sxm names h100-sxm twice"),
    ((*SMALL_SEARCH, "h100,nope"), "Error: --hardware: no hardware is called 'nope'"),
    ((*SMALL_SEARCH, "h100", "--network", "1,2", "--crossover", "comm=300%"), "a share, at most 1, not 3"),
    ((*SMALL_SEARCH, "h100", "--tp", "3"), "tp does not divide heads (1 tried)"),
    (("sweep", *STEP, "--tp", "1,,2"), "--tp: '1,,2' has no value beside a comma"),
    (("sweep", *STEP, "--tp", ","), "--tp: ',' has no value beside a comma"),
    (("solve", *STEP, "--target", "mfu=200%", "--for", "network"), "mfu is a share, at most 100% \n"),
    (("explain", "--model", "gpt2,gpt2-xl", "--hardware", "h100"), "is several models, and one is wanted"),
    (("hardware", "shwo"), "there is no 'shwo' here; did you mean 'show'?"),
    (("reproduce", "ampd"), "did you mean 'amped'?"),
])  # fmt: skip
def test_a_newcomer_is_told_what_is_meant(arguments, said, compcomm):
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert said.strip() in err
    assert "%%" not in err


def test_the_rule_that_left_nothing_is_told_first(compcomm):
    mixture = ("search", "--model", "mixtral-8x7b", "--hardware", "h100", "--gpus", "8", "--global-batch", "8")
    _, _, err = compcomm(*mixture, "--ep", "3")
    assert "the batch and the model: ep does not divide dp x cp x tp" in err
    _, _, err = compcomm("search", "--model", "gpt2", "--hardware", "mi50", "--precision", "fp16", "--gpus", "8",
                         "--global-batch", "8")  # fmt: skip
    assert "keeps every rule: network.scale-out.bandwidth is blank" in err


@pytest.mark.parametrize(("text", "said", "count"), [
    ("network: {scale-up: 5}", "network.scale-up: must be a mapping", 1),
    ("memory: {capacity: 0 GB}", "out of range: from 0.000931 GiB to 9.31e+08 GiB", 1),
    ("memory:\n\tcapacity: 1 GB", "a tab: lines are indented by blanks", 1),
])  # fmt: skip
def test_what_is_wrong_with_a_profile_is_told_in_short(text, said, count, tmp_path, compcomm):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: h100-sxm\n{text}\n")
    code, _, err = compcomm("hardware", "show", path)
    assert code == 2
    assert said in err
    assert len(errors(err)) == count


# -- what a search says of itself -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_lists_what_it_fixes_itself(compcomm):
    """Of a mixture: how tokens are sent, and beside what; not under what was not tried."""
    mixture = ("search", "--model", "mixtral-8x7b", "--hardware", "h100-sxm", "--gpus", "16", "--global-batch", "16",
               "--seq-len", "4K", "--tp", "1,2", "--cp", "1", "--top", "1")  # fmt: skip
    _, out, _ = compcomm(*mixture)
    said = " ".join(out.split())
    tried, left = said.split("Tried: ")[1].split("Not tried (a list of values tries them): ")
    assert (
        "Set by the search alone, unless given: ep_dispatch deepep (else all_to_all), overlap_ep on (else off)" in tried
    )
    assert "overlap_ep" not in left.split("collective_algorithm")[0]
    _, out, _ = compcomm(*mixture, "--overlap-ep", "off,on", "--ep-dispatch", "all_to_all")
    assert "Set by the search" not in out
    assert "overlap_ep off, on" in " ".join(out.split())


def test_a_search_over_devices_is_titled_by_all_of_them(compcomm):
    _, out, _ = compcomm(*SMALL_SEARCH, "h100,b200", "--tp", "8", "--cp", "1")
    assert out.splitlines()[0] == "Llama 3 8B on 8 h100-sxm, b200-sxm"


def test_near_misses_are_near(compcomm):
    """With a micro-batch of four a step is a little faster, in three times the memory: that is no near miss."""
    llama = ("search", *STEP, "--cp", "1", "--tp", "1", "--pp", "1", "--zero", "1,2", "--format", "json")
    misses = json.loads(compcomm(*llama)[1])["near_misses"]
    assert {row["micro_batch"] for row in misses} == {2}
    assert all(1 < row["memory_times"] <= 2 for row in misses)
    roomy = json.loads(compcomm(*llama, "--memory-capacity", "4", "--top", "1")[1])["rows"]
    assert roomy[0]["micro_batch"] == 4
    assert roomy[0]["step_s"] < min(row["step_s"] for row in misses)


# -- more than there is memory for ----------------------------------------------------------------------------------


def test_too_little_memory_is_one_sentence(compcomm, monkeypatch):
    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr("comp_comm.cli.studies.options.prepare", no_memory)
    code, out, err = compcomm("studies")
    assert (code, out) == (2, "")
    assert err.startswith("Error: this takes more memory than there is here")

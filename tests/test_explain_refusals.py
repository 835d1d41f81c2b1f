"""What explain, memory and compare refuse: everything wrong at once, exit 2, nothing on standard output."""

from __future__ import annotations

import json

import pytest

MODEL = ("--layers", "8", "--hidden", "1024", "--heads", "16", "--vocab", "50257", "--seq-len", "1024")
POINT = ("--hardware", "h100-sxm", *MODEL)
STUDY = """\
cost_model: complete
hardware: h100-sxm
set: {layers: 8, hidden: 1024, heads: 16, vocab: 50257, seq_len: 1024, gpus: 8}
"""


@pytest.fixture
def refused(compcomm):
    """Run a command that must be refused; return what it says."""

    def call(*arguments):
        code, out, err = compcomm(*arguments)
        assert (code, out) == (2, "")
        return err

    return call


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(STUDY)
    return file


@pytest.mark.parametrize("command", ["explain", "memory"])
def test_every_broken_rule_is_listed_at_once(refused, command):
    layout = ("--gpus", "8", "--tp", "3", "--cp", "5", "--zero", "0", "--dp-shard", "2", "--pp", "9", "--vpp", "2",
              "--recompute-layers", "3", "--ep", "2")  # fmt: skip
    said = refused(command, *POINT, *layout)
    for reason in (
        "tp x cp x pp does not divide gpus: tp is 3, cp is 5, pp is 9, gpus is 8",
        "tp does not divide heads: tp is 3, heads is 16",
        "tp does not divide kv_heads, nor kv_heads tp",
        "tp does not divide ffn_hidden",
        "tp does not divide seq_len / cp, which sequence parallelism splits",
        "2 x cp does not divide seq_len: cp is 5, seq_len is 1024",
        "dp_shard shards nothing under zero 0",
        "pp x vpp exceeds the layers: pp is 9, vpp is 2, layers is 8",
        "recompute_layers goes with recompute: full",
        "recompute_layers exceeds the layers of a stage",
        "interleaving needs a multiple of pp micro-batches",
        "ep needs experts",
    ):
        assert reason in said


RULES = [
    (("--tp", "4", "--kv-heads", "2"), "tp exceeds kv_heads: 'kv_replication: on' copies them"),
    (("--heads", "12"), "heads does not divide hidden; or give head_dim"),
    (("--gpus", "8", "--dp", "4"), "tp x cp x pp x dp is not gpus"),
    (("--gpus", "8", "--global-batch", "12"), "dp x micro_batch does not divide global_batch"),
    (("--gpus", "2", "--global-batch", "12", "--accumulation", "4"), "dp x micro_batch x accumulation is not global_"),
    (("--vpp", "2"), "vpp above 1 needs pp above 1"),
    (("--pp", "2", "--schedule", "interleaved"), "schedule: interleaved needs vpp above 1"),
    (("--pp", "2", "--vpp", "2", "--accumulation", "4", "--schedule", "gpipe"), "vpp above 1 goes with schedule 1f1b"),
    (("--dp", "8", "--dp-shard", "3"), "dp_shard does not divide dp x cp"),
    (("--pp", "33"), "pp x vpp exceeds the layers"),
    (
        ("--pp", "4", "--pp-layout", "8|8|8"),
        "pp_layout '8|8|8' has 3 chunks and 24 layers, which is not pp x vpp chunks",
    ),
    (("--pp", "4", "--pp-layout", "8|8|8|9"), "pp_layout '8|8|8|9' has 4 chunks and 33 layers"),
    (("--pp", "4", "--pp-layout", "7|...|6"), "pp_layout '7|...|6' has at least 3 chunks and at least 13 layers"),
    (("--pp", "4", "--pp-layout", "8|8|x|8"), "layers of each chunk"),
    (("--cp", "4", "--tp", "8", "--cp-comm", "all_to_all"), "tp x cp does not divide heads, which all_to_all swaps"),
    (("--cp", "8", "--kv-heads", "4", "--cp-comm", "all_to_all"), "tp x cp does not divide kv_heads, which all_to_all"),
    (("--cp", "2", "--window", "128"), "a window with keys passed round a ring is not modelled"),
    (("--experts", "8"), "a mixture of experts needs top_k"),
    (("--experts", "4", "--top-k", "8"), "top_k exceeds experts"),
    (("--experts", "6", "--top-k", "2", "--ep", "4", "--dp", "4"), "ep does not divide experts"),
    (("--experts", "8", "--top-k", "2", "--ep", "3", "--dp", "4"), "ep x etp does not divide dp x cp x tp"),
    (("--experts", "8", "--top-k", "2", "--tp", "2", "--sp", "off"), "experts with tp above 1 need sequence parallel"),
    (("--experts", "8", "--top-k", "2", "--dense-layers", "9"), "dense_layers exceeds layers"),
    (("--architecture", "vit"), "a vision transformer has no vocabulary"),
    (("--architecture", "encoder-decoder"), "an encoder-decoder needs encoder_layers"),
    (("--encoder-layers", "4"), "encoder_layers is only for architecture encoder-decoder"),
    (("--kv-lora-rank", "64", "--rope-head-dim", "32", "--kv-heads", "4"), "as many kv_heads as heads"),
    (("--collective-algorithm", "in_network", "--gpus", "16"), "the network has no such collective_algorithm for dp"),
    (("--precision", "fp32"), "h100-sxm has no fp32 peak"),
    (
        ("--hardware", "v100-sxm-32gb", "--precision", "fp16", "--offload-optimizer", "on"),
        "memory.host_bandwidth is blank in the hardware profile",
    ),
    (("--top-k", "2"), "top_k means nothing without experts"),
    (("--global-every", "2"), "global_every means nothing without window"),
]


@pytest.mark.parametrize(("more", "reason"), RULES, ids=[" ".join(more) for more, _ in RULES])
def test_a_broken_rule_is_refused_with_its_reason(refused, more, reason):
    given = dict(zip(POINT[::2], POINT[1::2], strict=True)) | dict(zip(more[::2], more[1::2], strict=True))
    assert reason in refused("explain", *(word for pair in given.items() for word in pair))


def test_an_exchange_cannot_be_blank(refused, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: h100-sxm\nnetwork: {scale-up: {exchange_latency: null}}\n")
    said = refused("explain", "--hardware", str(path), *MODEL, "--gpus", "8")
    assert "exchange_latency" in said
    assert "leave it out for what is usual, or give 0" in said


# Each is of something this point does not have.
MEANINGLESS = [("--gpus", "8", "--etp", "2"), ("--encoder-seq-len", "128"), ("--classes", "10"),
               ("--patch-features", "768"), ("--position", "rope", "--max-positions", "512")]  # fmt: skip


@pytest.mark.parametrize("more", MEANINGLESS, ids=lambda more: more[-2])
def test_what_would_be_ignored_is_refused(refused, more):
    assert more[-2].removeprefix("--").replace("-", "_") in refused("explain", *POINT, *more)


def test_wrong_values_are_listed_at_once_each_by_its_flag(refused):
    said = refused("explain", *POINT, "--tp", "0", "--sp", "maybe", "--cp", "x", "--zero", "4", "--micro-batch", "1.5")
    for flag, text in (("--tp", "0 is out of range"), ("--sp", "'maybe' is not allowed; must be one of: off, on"),
                       ("--cp", "'x' is not a number"), ("--zero", "4 is out of range; must be a whole number from 0"),
                       ("--micro-batch", "1.5 is not a whole number")):  # fmt: skip
        assert f"{flag}: {text}" in said


def test_unknown_names_are_answered_with_near_ones(refused):
    assert "unknown key 'hiden'; did you mean 'hidden'?" in refused("explain", *POINT, "--set", "hiden=1")
    assert "did you mean 'h100-sxm'?" in refused("explain", "--hardware", "h100-sx", *MODEL)
    assert "no option is called '--hiden'; did you mean '--hidden'?" in refused("explain", *POINT, "--hiden", "1")
    assert "'flash3' is not allowed" in refused("explain", *POINT, "--attention-kernel", "flash3")


@pytest.mark.parametrize("command", ["explain", "memory"])
def test_hardware_is_needed(refused, command):
    assert "'hardware' is missing" in refused(command, *MODEL)


def test_what_a_model_needs_is_listed(refused):
    said = refused("explain", "--hardware", "h100-sxm", "--layers", "8", "--gpus", "8")
    for name in ("hidden", "heads", "vocab", "seq_len"):
        assert f"'{name}' is missing" in said


def test_points_of_which_none_fits_say_how_much_they_need_as_one_does(compcomm, path, tmp_path):
    large = ("--layers", "80", "--hidden", "16K", "--heads", "128")
    code, out, _ = compcomm("explain", path, *large, "--micro-batch", "1,2", "--format", "json")
    rows = json.loads(out)["rows"]
    assert (code, len(rows)) == (0, 2)
    for row in rows:
        one = ("explain", path, *large, "--micro-batch", row["micro_batch"], "--format", "json")
        assert row["reason"] == json.loads(compcomm(*one)[1])["reason"]
        assert row["reason"].endswith(" GiB needed, 79.6 there)")
    for picture in ("-", tmp_path / "none.png"):
        code, out, err = compcomm("explain", path, *large, "--micro-batch", "1,2", "--plot", picture)
        assert (code, out) == (2, "")
        assert "there is nothing to draw: no point is feasible (does not fit" in err


def test_points_that_all_break_a_rule_are_not_explained(compcomm, path, tmp_path):
    code, out, err = compcomm("explain", path, "--tp", "3,5")
    assert (code, out) == (3, "")
    assert "no feasible point: " in err
    assert "tp does not divide heads" in err
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text(STUDY + "sweep: {tp: [1, 2]}\nwhere: [tp > 10, step_s > 0]\n")
    for command in ("explain", "sweep"):
        code, out, err = compcomm(command, nothing)
        assert (code, out) == (3, "")
        assert "no row passes 'where': tp > 10 holds at no point" in err
        assert "memory" not in err


@pytest.mark.parametrize("command", ["memory", "trace"])
def test_several_points_are_refused(refused, command, path):
    said = refused(command, path, "--set", "tp=[1, 2]", "--micro-batch", "[1, 2]")
    assert "the study has several points" in said
    assert "tp" in said
    assert "micro_batch" in said


@pytest.mark.parametrize("command", ["explain", "memory"])
@pytest.mark.parametrize("words", [("cost_model=comp_vs_comm",), ("phase=inference",)])
def test_other_cost_models_have_no_operations(refused, command, words, tmp_path):
    study = tmp_path / "layer.yaml"
    text = "set: {hidden: 4096, seq_len: 1024, micro_batch: 1, tp: 8}\nhardware: mi210\n"
    study.write_text(text if "cost_model" in words[0] else STUDY)
    said = refused(command, study, *(part for word in words for part in ("--set", word)))
    assert "this is for the cost model complete" in said


def test_both_sides_of_a_comparison_are_checked(refused, path):
    assert "tp does not divide heads" in refused("compare", path, path, "--set-b", "tp=3")
    assert "the study has several points" in refused("compare", path, path, "--set-a", "tp=[1, 2]")
    assert "there is no such file" in refused("compare", path, "missing.yaml")
    assert "write it as key=value" in refused("compare", path, path, "--set-b", "tp")


def test_an_output_that_cannot_be_written_is_refused(refused, tmp_path):
    refused("explain", *POINT, "-o", tmp_path / "no" / "such" / "folder.json")


@pytest.mark.parametrize("command", ["explain", "memory"])
def test_what_does_not_fit_is_shown_and_said(compcomm, command):
    large = ("--hardware", "h100-sxm", "--layers", "96", "--hidden", "12288", "--heads", "96", "--vocab", "50257",
             "--seq-len", "2048", "--gpus", "8", "--tp", "8")  # fmt: skip
    code, out, err = compcomm(command, *large, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["feasible"] is False
    assert found["reason"].startswith("does not fit: memory exceeds that of the device (")
    assert found["reason"] in err
    total = found["total_bytes"] if command == "memory" else found["memory"]["total_bytes"]
    assert total > 80 * 2**30
    _, text, _ = compcomm(command, *large)
    assert f"NOT FEASIBLE: {found['reason']}" in " ".join(text.split())


def test_what_is_assumed_is_said_on_stderr(compcomm):
    code, out, err = compcomm("explain", *POINT, "--gpus", "8", "--format", "json")
    assert code == 0
    assert "neither global_batch nor accumulation is given" in err
    assert json.loads(out)["meta"]["notes"] == [line.removeprefix("note: ") for line in err.splitlines()]
    _, _, quiet = compcomm("explain", *POINT, "--gpus", "8", "--global-batch", "8", "--format", "json")
    assert quiet == "note: attention_kernel flash_causal is cudnn, which training stacks use on this device\n"

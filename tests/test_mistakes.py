"""What people get wrong, and that they are told what is meant: names of other tools, units, files, folders."""

import json

import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import load_study, study_from

POINT = ("--model", "llama-3-8b", "--hardware", "h100", "--gpus", "64")
STEP = ("explain", *POINT, "--global-batch", "512")


@pytest.fixture
def compcomm(capsys):
    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(("arguments", "said"), [
    (("serach",), "did you mean 'search'"),
    ((*STEP, "--tensor-parallel", "8"), "no option is called '--tensor-parallel'; did you mean '--tp'?"),
    ((*STEP, "--tensor-model-parallel-size=8"), "did you mean '--tp'?"),
    ((*STEP, "--pipeline-parallel", "8"), "did you mean '--pp'?"),
    ((*STEP, "--micro-batch-size", "8"), "did you mean '--micro-batch'?"),
    ((*STEP, "--sequence-length", "8"), "did you mean '--seq-len'?"),
    ((*STEP, "--num-gpus", "8"), "did you mean '--gpus'?"),
    ((*STEP, "--gradient-accumulation-steps", "8"), "did you mean '--accumulation'?"),
    ((*STEP, "--price", "2"), "did you mean '--price-per-gpu-hour'?"),
    (("trace", *POINT, "--plot", "x.svg"), "did you mean '--svg'?"),
    ((*STEP, "--set", "tensor_parallel=8"), "unknown key 'tensor_parallel'; did you mean 'tp'?"),
    ((*STEP, "--set", "tp", "8"), "--set tp: write it as key=value"),
    ((*STEP, "--format", "cvs"), "--format: there is no 'cvs'; did you mean 'csv'?"),
    (("explain", "llama-3-8b"), "no study is called 'llama-3-8b'; it is a model: --model llama-3-8b"),
    (("memory", "H100"), "it is a device: --hardware H100"),
    (("compare", "--batch-tokens", "4M"), "no option is called '--batch-tokens'; --set batch_tokens=VALUE gives it"),
    (("compare", "llama-step", "--set-b", "tp=3"), "--set-b tp: tp does not divide heads: tp is 3, heads is 64"),
    (("compare", "llama-step", "--set-a", "tp=3", "--set-b", "tp=4"), "--set-a tp: tp does not divide heads"),
    (("compare", "llama-step", "--set-b", "model=lama"), "Error: --set-b model: no model is called 'lama'"),
    (("compare", "llama-step", "--set-b", "tpp=3"), "--set-b tpp=3: unknown key 'tpp'; did you mean 'tp'?"),
    (("compare", "llama-step", "--model", "gpt2", "--set", "model=bert-base", "--set-b", "tp=4"),
     "--model: model is given twice"),
    ((*STEP, "--lora-rank", "none"), "to have none, leave it out"),
    (("compare", "llama-step", "--set-b", "tp"), "--set-b tp: write it as key=value"),
    (("compare", "llama-step", "--set-b", "tp={a: 1}"), "--set-b tp: a: unknown key (allowed: from, to, steps"),
    ((*STEP, "--set", "tp={form: 1, to: 4}"), "--set tp: form: unknown key; did you mean 'from'?"),
    (("compare", "--set-b", "tp=4"), "A is missing: a study, or --model llama-3-8b"),
    (("search", *POINT[:4], "--gpus", "8,16", "--global-batch", "16", "--tp", "1", "--crossover", "coms=30%"),
     "did you mean 'comm'"),
    (("solve", "llama-step", "--target", "comm=30%", "--for", "gpus"),
     "compcomm search --gpus 64,128,256 --crossover comm=30%"),
    (("solve", "llama-step", "--target", "coms=30%", "--for", "network"), "no column is called 'coms'"),
    (("explain", "--model", "llama-70b"), "did you mean 'llama-2-70b' or 'llama-3-70b'"),
    (("explain", "--hardware", "NVIDIA H100"), "did you mean 'h100'?"),
    (("explain", "--hardware", "h101"), "did you mean 'h100'?"),
    ((*STEP, "--seq-len", "8k"), "'8k' is not a number: write 8K;"),
    ((*STEP, "--network", "2x"), "write 2;"),
    ((*STEP, "--tokens", "15t"), "write 15T;"),
    (("search", *POINT, "--batch-tokens", "4,000,000"), "write 4000000;"),
    (("search", *POINT, "--batch-tokens", "x"), "'x' is not a number; must be"),
    (("search", *POINT), "'global_batch' is missing: give --global-batch or --batch-tokens"),
    (("search", *POINT[:4]), "'gpus' is missing: give --gpus"),
    (("explain", "--hidden", "64"), "'layers' is missing: give --layers"),
    (("explain", "--hidden", "64"), "--model NAME gives what a model is"),
    (("explain", *POINT[:2]), "'hardware' is missing: give the name of a profile (--hardware;"),
    (("search", *POINT, "--global-batch", "8", "--headroom", "20"), "(20% or 0.2), not 20"),
    (("search", *POINT, "--global-batch", "8", "--headroom", "much"), "'much' is no share; write it as 0.2 or 20%"),
    (("search", *POINT, "--global-batch", "8", "--objective", "price"), "did you mean 'cost'?"),
    (("search", *POINT, "--global-batch", "8", "--emit", "megatron-lm"), "did you mean 'megatron'?"),
    (("solve", *POINT, "--target", "mfu=50", "--for", "network"), "mfu is a share, at most 1: write 50%"),
    (("reproduce", "comp-vs-comm", "fig10"), "there is no 'fig10'; did you mean 'fig-10"),
    (("reproduce", "amped", "megatorn"), "did you mean 'megatron'?"),
    (("trends", "share"), "PART: there is no 'share'; did you mean 'shares'?"),
    ((*STEP, "--price-per-gpu-hour", ""), "--price-per-gpu-hour: an empty value is not a number"),
    ((*STEP, "--watts", "700", "--format", "csv"), "its operations, which have no price"),
    (("explain", "llama-step", "-o", "/proc/x.json"), "/proc/x.json: cannot be written to"),
    (("explain", "llama-step", "-o", "/tmp"), "-o /tmp: is a directory; give the name of a file in it"),
    (("trace", "llama-step", "-o", "/tmp"), "/tmp: is a directory"),
    (("sweep", "llama-step", "--tp", "4,8", "--top", "1", "--by", "recompute"), "--by takes a column of numbers"),
])  # fmt: skip
def test_a_mistake_is_met_by_what_is_meant(arguments, said, compcomm):
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert ".tmp" not in err


PROFILE = "vendor: amd\npeak: {bf16: 1 TFLOP/s}\nmemory: {capacity: 1 GiB}\n"
FILES = {"config.json": '{"model_type": "llama", "hidden_size": 64}', "p.yaml": PROFILE, "run.sh": "echo --tp 8\n",
         "m.yaml": "hidden: 64\nlayers: 2\nheads: 4\n", "s.yaml": "hardware: h100\nset: {tp: 8}\n"}  # fmt: skip


@pytest.mark.parametrize(("arguments", "said"), [
    (("explain", "config.json"), "is a config.json of Hugging Face, which is a model, not a study: --model"),
    (("sweep", "./config.json"), "not a study: --model config.json takes it"),
    (("explain", "p.yaml"), "p.yaml: is a hardware profile, not a study: --hardware p.yaml takes it"),
    (("compare", "p.yaml", "--set-b", "tp=4"), "not a study: --hardware p.yaml takes it"),
    (("memory", "m.yaml"), "m.yaml: is a model, not a study: --model m.yaml takes it"),
    (("explain", "run.sh"), "'compcomm import run.sh' makes a study of another tool's file"),
    (("explain", "--model", "gpt2", "--hardware", "s.yaml"), "s.yaml: is a study, not a hardware profile: give it"),
    (("explain", "--model", "gpt2", "--hardware", "m.yaml"), "m.yaml: is a model, not a hardware profile: --model"),
    (("explain", "--hardware", "h100", "--model", "p.yaml"), "p.yaml: is a hardware profile, not a model: --hardware"),
    (("init", "mine.yaml"), "mine.yaml: the file to write is given by -o mine.yaml"),
    (("required-tp", "--model", "m.yaml"), "does not say its parameters ('compcomm models show m.yaml' counts"),
    (("sweep", "future", "--columns", "tp,tp"), "--columns: names tp twice"),
    (("sweep", "future", "--columns", "tp,,hidden"), "--columns: 'tp,,hidden' has no name beside a comma"),
])  # fmt: skip
def test_a_file_or_name_in_the_wrong_place_is_told_in_one_sentence(arguments, said, compcomm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "unknown key" not in err
    assert len(err.removeprefix("Usage: pytest init [OPTIONS]\n").splitlines()) <= 3


def test_what_is_one_is_not_said_to_be_several(compcomm):
    one = ("--model", "gpt2", "--hardware", "h100", "--gpus", "1", "--global-batch", "1")
    out = compcomm("explain", *one)[1]
    assert "\n1 device, dp 1; 1 sequence a step, 1 micro-batch a replica\n" in out
    out = compcomm("volume", *one)[1]
    assert "\n\nNothing is sent: there is one device.\n" in out
    fixed = ("--tp", "1", "--micro-batch", "1", "--zero", "0", "--recompute", "none", "--sp", "off")
    assert "\n1 layout keeps every rule, 1 of them fits with" in compcomm("search", *one, *fixed)[1]


def test_keys_in_the_wrong_place_of_a_study(compcomm, tmp_path):
    (tmp_path / "s.yaml").write_text("gpus: 8\nset: {batch_tokens: 4M, tensor_parallel: 8}\n")
    code, _, err = compcomm("explain", tmp_path / "s.yaml")
    assert code == 2
    for said in ("gpus: is a field: it goes under 'set'", "--batch-tokens on the command line", "did you mean 'tp'?"):
        assert said in err
    (tmp_path / "t.yaml").write_text("sweep: {hardware: [h100, a100]}\nset: {model: gpt2}\n")
    _, _, err = compcomm("sweep", tmp_path / "t.yaml")
    assert "sweep.hardware: is no field but a key of its own: 'hardware:' beside 'sweep'" in err
    assert "set.model: is no field but a key of its own: 'model:' beside 'set'" in err
    (tmp_path / "t.yaml").write_text("set: {hidden: 64}\nhardware: h100\n")
    _, _, err = compcomm("explain", tmp_path / "t.yaml")
    assert "'layers' is missing: give it under 'set' or 'sweep', or --layers" in err


# -- batches in tokens ------------------------------------------------------------------------------------------------


def test_a_batch_in_tokens_is_one_in_sequences():
    study = load_study("llama-step", ["--batch-tokens=16M"])
    assert study.fixed["global_batch"] * study.fixed["seq_len"] == 16 * 2**20
    lengths = study_from({"model": "llama-3-8b"}, overrides=["batch_tokens=1M", "seq_len=4K,8K"])
    (axis,) = lengths.axes
    assert dict(axis.values) == {"seq_len": (4096, 8192), "global_batch": (256, 128)}
    several = study_from({"model": "llama-3-8b"}, overrides=["batch_tokens=1M..4M*2"])
    assert dict(several.axes[0].values) == {"global_batch": (128, 256, 512)}


@pytest.mark.parametrize(("given", "said"), [
    (["batch_tokens=5000"], "sequences of 8,192; 8,192 are"),
    (["batch_tokens=10000"], "8,192 and 16,384 are"),
    (["batch_tokens=4M", "global_batch=8"], "give one of them"),
    (["batch_tokens=1M,2M", "seq_len=4K,8K"], "give one of them one value"),
])  # fmt: skip
def test_a_batch_in_tokens_that_is_none(given, said):
    study = study_from({"model": "llama-3-8b"}, overrides=given)
    assert said in "\n".join(map(str, study.problems.noted))
    assert "the length of a sequence is not known" in str(study_from({}, overrides=["batch_tokens=4M"]).problems.noted)


def test_an_absurd_batch_is_said():
    """4M sequences of 8,192 tokens are 3.4e10 tokens, 4K are 3.4e7."""
    notes = load_study("llama-step", ["global_batch=4M"]).notes
    assert any("4,194,304 sequences of 8,192 tokens: 34.4 billion" in note for note in notes)
    assert any("--batch-tokens 4M" in note for note in notes)
    assert not any("batch" in note for note in load_study("llama-step", ["global_batch=4K"]).notes)
    assert any("--batch-tokens" in note for note in load_study("llama-step", ["global_batch=64K"]).notes)
    assert not any("batch" in note for note in load_study("llama-step", ["global_batch=65536"]).notes)


# -- what is said beside an answer -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_quiet_says_nothing(compcomm, tmp_path):
    for command in (("trace", "-o", tmp_path / "t.json"), ("explain",), ("memory", "--hardware", "h100")):
        assert compcomm(command[0], "llama-step", *command[1:], "-q")[2] == ""
        assert "note: " in compcomm(command[0], "llama-step", *command[1:])[2]


def test_a_piped_table_has_every_column(compcomm, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = compcomm("explain", "llama-step", "--tp", "2,4", "--pp", "8")
    assert "more column" not in out
    assert all(name in out for name in ("optimizer", "serialized_", "exposed_", "bubble", "days"))
    monkeypatch.setenv("COLUMNS", "80")
    _, out, err = compcomm("explain", "llama-step", "--tp", "2,4", "--pp", "8")
    assert "COLUMNS leaves no room for" in err
    assert "bubble_s" in err.partition("COLUMNS")[2]
    assert max(map(len, out.splitlines())) <= 80


def test_rows_that_look_alike_are_told_apart(compcomm):
    """A table whose columns leave out an axis says which, and how to have it."""
    axes = ("sweep", "llama-step", "--network", "1,2", "--hardware", "h100-sxm,b200-sxm", "--columns")
    said = "rows differ in hardware, network, which the table does not show: --columns hardware,network,step_s does"
    assert said in compcomm(*axes, "step_s")[2]
    assert "rows differ in network, which" in compcomm(*axes, "hardware,step_s")[2]
    for quiet in ((*axes, "network,hardware,step_s"), (*axes, "step_s", "--format", "csv"), (*axes, "step_s", "-q")):
        assert "rows differ" not in compcomm(*quiet)[2]


@pytest.mark.slow
def test_what_is_solved_for_goes_by_the_word_of_search(compcomm):
    asked = ("solve", "llama-step", "--for", "network", "--format", "json", "--target")
    assert compcomm(*asked, "comm=30%")[1] == compcomm(*asked, "visible_comm_fraction=30%")[1]


def test_shares_may_be_percentages(compcomm):
    code, out, _ = compcomm("search", *POINT, "--global-batch", "64", "--tp", "8", "--cp", "1", "--pp", "1",
                            "--headroom", "20%", "--format", "json")  # fmt: skip
    assert (code, json.loads(out)["meta"]["headroom"]) == (0, 0.2)
    code, _, err = compcomm("calibrate", "x.csv", "--extends", "h100", "--train", "130%")
    assert (code, "must be between 0 and 1, not 1.3" in err) == (2, True)


def test_help_lists_modules_once(compcomm):
    _, out, _ = compcomm("search", "--help")
    said = " ".join(out.partition("--recompute NAME")[2].partition("\n\n")[0].split())
    assert said.count("mla_up_proj") == 1
    assert "none, selective, full, per_op; or modules with + between them" in said
    assert len(out.splitlines()) < 220

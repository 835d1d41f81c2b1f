"""Names of files and folders to write: refused before any work where they cannot be, or say that they are something
else."""

import pytest

from comp_comm.cli.main import COMMANDS, run

STEP = ("--model", "gpt2", "--hardware", "h100", "--gpus", "8", "--global-batch", "64")
SEARCH = ("search", *STEP)
YAML, JSON = "the name must end in .yaml or .yml", "the name must end in .json"
# Commands that write one answer in a format, as short as they can be called.
ANSWERS = (
    ("sweep", *STEP), ("explain", *STEP), ("memory", *STEP), ("compare", "llama-step", "--set-b", "tp=4"), SEARCH,
    ("volume", *STEP), ("case-study",), ("edge",), ("required-tp",),
    ("solve", "llama-step", "--target", "mfu=0.5", "--for", "network"), ("reproduce", "amped"),
    ("reproduce", "comp-vs-comm", "fig-10a"), ("trends",), ("validate",), ("project", "log.csv"),
    ("calibrate", "--check", "log.csv", "--hardware", "h100"), ("hardware", "list"), ("hardware", "show", "h100"),
    ("hardware", "lint"), ("hardware", "ratio", "v100", "a100"), ("models", "list"), ("models", "show", "gpt2"),
    ("studies",), ("columns",),
)  # fmt: skip
# Those that write one kind of file, and what its name must end in.
KINDS = (
    (("trace", *STEP), JSON), (("schema",), JSON), (("init",), YAML), (("import", "no.json"), YAML),
    (("calibrate", "log.csv", "--extends", "h100"), YAML), (("report", *STEP), "the name must end in .html or .htm"),
    ((*SEARCH, "--emit", "study"), YAML), ((*SEARCH, "--emit", "nemo"), YAML),
    ((*SEARCH, "--emit", "deepspeed"), JSON), ((*SEARCH, "--emit", "torchtitan"), "the name must end in .toml"),
    ((*SEARCH, "--emit", "megatron"), "the name must end in .sh or .txt or .args"),
)  # fmt: skip
FOLDERS = (("measure",), ("trends", "all"), ("reproduce", "all"))
PICTURES = (
    ("sweep", *STEP), ("explain", *STEP), ("memory", *STEP), ("compare", "llama-step", "--set-b", "tp=4"), SEARCH,
    ("volume", *STEP), ("case-study",), ("reproduce", "comp-vs-comm", "fig-10a"), ("trends", "shares"), ("validate",),
    ("calibrate", "--check", "log.csv", "--hardware", "h100"),
)  # fmt: skip


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """Return a call that must be refused, without a word about anything else and without writing anything."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (code, out) == (2, ""), err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
        assert (tmp_path / "file").read_text() == "mine"
        assert len(err.splitlines()) == 1, err
        return err

    return call


def test_every_command_that_writes_is_here():
    seen = {command[0] for command in (*ANSWERS, *(kind for kind, _ in KINDS), *FOLDERS)}
    assert set(COMMANDS) - seen == {"completion"}


@pytest.mark.parametrize("command", ANSWERS, ids=" ".join)
def test_an_answer_that_no_file_can_hold_is_refused(command, refused):
    assert "-o x.foo: the extension says no format" in refused(*command, "-o", "x.foo")
    assert "-o x.csv: the extension says csv, and --format json" in refused(*command, "-o", "x.csv", "--format", "json")
    assert "is a directory; give the name of a file in it" in refused(*command, "-o", "folder")
    assert "is a directory; give the name of a file in it" in refused(*command, "-o", "folder", "--format", "csv")
    assert "missing/x.csv: there is no folder" in refused(*command, "-o", "missing/x.csv")


@pytest.mark.parametrize(
    ("command", "said"), KINDS, ids=[" ".join((*command[:1], *command[-1:])) for command, _ in KINDS]
)
def test_a_file_is_named_after_what_it_is(command, said, refused):
    assert said in refused(*command, "-o", "x.png")
    assert "folder: is a directory" in refused(*command, "-o", "folder")
    assert "there is no folder" in refused(*command, "-o", "missing/x.yaml")


@pytest.mark.parametrize("command", FOLDERS, ids=" ".join)
def test_a_folder_is_none_where_a_file_is(command, refused):
    assert "-o file: is a file; give a folder" in refused(*command, "-o", "file")
    assert "file is a file; give a folder" in refused(*command, "-o", "file/within")


@pytest.mark.parametrize("command", PICTURES, ids=" ".join)
def test_a_picture_has_a_picture_s_name(command, refused):
    assert "x.foo: the extension says no picture format (allowed: .png, .svg, .pdf)" in refused(
        *command, "--plot", "x.foo"
    )
    assert "folder: is a directory" in refused(*command, "--plot", "folder")
    assert "missing/x.png: there is no folder" in refused(*command, "--plot", "missing/x.png")


def test_what_one_asks_for_and_what_a_name_says_may_agree(capsys, tmp_path):
    for name, form in (("x.json", "json"), ("x.txt", "csv"), ("x", "json"), ("x.ndjson", "jsonl")):
        assert run(["edge", "-o", str(tmp_path / name), "--format", form]) == 0
        assert (tmp_path / name).exists()
    assert run([*SEARCH, "--emit", "megatron", "--placement", "tp-cp-dp-pp", "-o", str(tmp_path / "flags")]) == 0, (
        capsys.readouterr().err
    )

"""What a command line gives twice where one is wanted: refused in a sentence, before anything is written."""

import pytest

STEP = ("explain", "llama-step")
SOLVE = ("solve", "llama-step", "--for", "network")


@pytest.fixture
def refused(compcomm, tmp_path, monkeypatch):
    """Run a command in an empty directory; check that it is refused in some words, and writes nothing."""
    monkeypatch.chdir(tmp_path)

    def check(arguments, said):
        code, out, err = compcomm(*arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert list(tmp_path.iterdir()) == []

    return check


@pytest.mark.parametrize(("arguments", "said"), [
    ((*STEP, "--tp", "4", "--tp", "8"), "--tp is given twice: 4 and 8; several values: --tp 4,8"),
    ((*STEP, "--tp=4", "--tp", "4"), "--tp is given twice: 4 and 4; once is enough"),
    ((*STEP, "--tp", "1..4*2", "--tp", "8"), "--tp is given twice: 1..4*2 and 8; several values are one list"),
    ((*STEP, "--hardware", "h100", "--hardware", "b200", "--hardware=a100"),
     "--hardware is given 3 times: h100, b200 and a100; several values: --hardware h100,b200,a100"),
    ((*STEP, "--watts", "700", "--watts", "1000"), "several values: --watts 700,1000"),
    ((*STEP, "--format", "csv", "--format", "json"), "--format is given twice: csv and json; it takes one"),
    ((*STEP, "-o", "a.csv", "-ob.csv"), "-o is given twice: a.csv and b.csv; it takes one"),
    ((*STEP, "-o", "a.csv", "--output", "b.csv"), "-o is given twice: a.csv and b.csv; it takes one"),
    (("sweep", "future", "--columns", "tp", "--columns", "hidden"), "several values: --columns tp,hidden"),
    ((*SOLVE, "--target", "mfu=0.3", "--target", "mfu=0.4"), "--target is given twice: mfu=0.3 and mfu=0.4; it takes"),
    ((*SOLVE, "--target", "mfu=0.3", "--between", "1", "2", "--between", "3", "4"), "given twice: 1 2 and 3 4; it"),
    (("search", "llama-search", "--headroom", "1%", "--headroom", "2%"), "--headroom is given twice: 1% and 2%"),
    (("edge", "--tp", "4", "--tp", "8"), "--tp is given twice: 4 and 8; it takes one"),
    (("hardware", "list", "--format", "csv", "--format", "json"), "--format is given twice: csv and json"),
])  # fmt: skip
def test_a_flag_of_one_value_is_given_once(arguments, said, refused):
    refused(arguments, said)


def test_switches_and_flags_that_may_be_repeated_are_taken_as_often_as_they_come(compcomm):
    code, out, err = compcomm(*STEP, "-q", "--quiet", "--set", "tp=4", "--set", "network=2", "--format", "json")
    assert (code, err) == (0, "")
    assert '"tp": 4' in out
    assert compcomm("edge", "--model", "bert-large", "--model", "palm-540b", "--format", "csv")[1].count("\n") == 3


@pytest.mark.parametrize(("arguments", "said"), [
    (("trace", "llama-step", "-o", "same.svg", "--svg", "same.svg"), "--svg same.svg and -o same.svg are one file"),
    (("trace", "llama-step", "-o", "same.svg", "--svg", "./same.svg"), "--svg ./same.svg and -o same.svg are one file"),
    ((*STEP, "--plot", "same.png", "--roofline", "same.png"), "--plot same.png and --roofline same.png are one file"),
    (("compare", "llama-step", "--set-b", "tp=4", "--plot", "x.png", "-o", "x.png", "--format", "csv"), "are one file"),
    (("sweep", "future", "--plot", "x.svg", "-o", "x.svg", "--format", "csv"), "are one file"),
    (("search", "llama-search", "--plot", "x.svg", "-o", "x.svg", "--format", "csv"), "are one file"),
])  # fmt: skip
def test_two_answers_do_not_go_into_one_file(arguments, said, refused):
    refused(arguments, said)


def test_a_link_to_another_output_is_the_same_file(compcomm, tmp_path):
    (tmp_path / "link.svg").symlink_to(tmp_path / "real.svg")
    code, _, err = compcomm("trace", "llama-step", "-o", tmp_path / "real.svg", "--svg", tmp_path / "link.svg")
    assert code == 2
    assert "are one file" in err


def test_two_answers_may_go_to_one_device(compcomm):
    assert compcomm("trace", "llama-step", "-o", "/dev/null", "--svg", "/dev/null")[0] == 0

"""Calls that used to go on with what nobody meant, or to say more than was wrong: each is one clear error now."""

import json

import pytest

from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError

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

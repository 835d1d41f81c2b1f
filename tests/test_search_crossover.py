"""Where the best layout passes a value, or one kind of layouts is overtaken, as separate searches tell it."""

import json

import pytest
from click.testing import CliRunner

from comp_comm.cli.search import command
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.report.search_table import crossing_said
from comp_comm.searches.answer_rows import number_columns
from comp_comm.searches.build_space import make_space
from comp_comm.searches.crossover import crossings, crossover_of
from comp_comm.searches.result import search
from comp_comm.sweeps.prices import NO_PRICES, Prices

GPUS = (512, 1024, 2048)
POINT = {"global_batch": 2048, "seq_len": 4096, "cp": 1, "pp": 1}
FLAGS = ["--model", "llama-3-70b", "--hardware", "h100-sxm", "--gpus", ",".join(map(str, GPUS)), "--global-batch",
         "2048", "--seq-len", "4096", "--cp", "1", "--pp", "1", "--format", "json", "-q"]  # fmt: skip


def asked(question):
    done = CliRunner().invoke(command, [*FLAGS, "--crossover", question], catch_exceptions=False)
    return json.loads(done.stdout)["crossover"]["rows"]


def best(gpus, **layout):
    swept = {name: list(values) for name, values in layout.items() if isinstance(values, tuple)}
    fixed = {name: value for name, value in layout.items() if name not in swept}
    given = {"hardware": "h100-sxm", "model": "llama-3-70b", "set": {**POINT, **fixed}, "sweep": swept}
    return search(given, gpus)["rows"][0]


@pytest.mark.slow
def test_where_tensor_parallelism_overtakes_fsdp_is_where_two_searches_say_so():
    (row,) = asked("zero==3,tp==1:tp>1")
    assert (row["after"], row["at"], row["reason"]) == (1024, 2048, None)
    for gpus, told in ((1024, row["second_behind_percent_after"]), (2048, row["second_behind_percent_at"])):
        fsdp, split = best(gpus, tp=1, zero=3)["step_s"], best(gpus, tp=(2, 4, 8, 16, 32, 64))["step_s"]
        # Both in percent of the best of all, which is one of them.
        assert told == pytest.approx(100 * (split - fsdp) / min(split, fsdp), rel=1e-9)


@pytest.mark.slow
def test_where_the_best_layout_passes_a_share_of_communication():
    shares = [best(gpus)["visible_comm_fraction"] for gpus in GPUS]
    assert shares == sorted(shares)
    between = (shares[1] + shares[2]) / 2
    (row,) = asked(f"visible_comm_fraction={between}")
    assert (row["after"], row["at"]) == (1024, 2048)
    assert row["visible_comm_fraction_after"] == pytest.approx(shares[1])
    assert row["visible_comm_fraction_at"] == pytest.approx(shares[2])
    (row,) = asked("visible_comm_fraction=90%")
    assert row["after"] is None
    assert row["reason"].startswith("not crossed: visible_comm_fraction is 0.")


def found(gpus, share, *behind):
    """Return what `crossings` reads of a search: its devices, its best row, and how far each TP is behind the best."""
    per = [{"tp": tp, "behind_percent": percent} for tp, percent in zip((1, 2, 4), behind, strict=True)]
    return {"meta": {"gpus": gpus}, "rows": [{"visible_comm_fraction": share}], "per": {"rows": per}}


SEARCHES = [found(16, 0.3, 0.0, 2.0, 5.0), found(8, 0.1, 0.0, 4.0, None), found(32, 0.6, 3.0, 1.0, 0.0)]


@pytest.mark.parametrize(("question", "name", "after", "at"), [
    ("comm=40%", "visible_comm_fraction", (16, 0.3), (32, 0.6)),
    ("comm=20%", "visible_comm_fraction", (8, 0.1), (16, 0.3)),
    ("tp==1:tp>1", "second_behind_percent", (16, 2.0), (32, -3.0)),
    ("tp<=2:tp==4", "second_behind_percent", (16, 5.0), (32, -1.0)),
])  # fmt: skip
def test_crossings_of_searches_that_are_given(question, name, after, at):
    """Of 8, 16 and 32 devices, in whatever order; a kind is as far behind as the nearest of its layouts."""
    (row,) = crossings(crossover_of(question), [{}] * 3, SEARCHES)
    assert (row["after"], row[f"{name}_after"]) == (after[0], pytest.approx(after[1]))
    assert (row["at"], row[f"{name}_at"], row["reason"]) == (at[0], pytest.approx(at[1]), None)


@pytest.mark.parametrize(("question", "said"), [
    ("visible_comm_fraction", "COLUMN=VALUE"), ("step_s=long", "COLUMN=VALUE"), ("a=1:b=2:c=3", "COLUMN=VALUE"),
    ("zero=3:tp>1", "not a comparison"), ("zero==3:tpp>1", "did you mean 'tp'"), ("zero==7:tp>1", "from 0 to 3"),
    ("recompute==ful:tp>1", "did you mean 'full'"), ("sp==1:tp>1", "sp is a word"), ("tp==1.5:tp>2", "whole number"),
    ("feasible:tp>1", "no field of a layout"), ("hidden==64:tp>1", "compares no column"),
])  # fmt: skip
def test_a_question_that_is_none_is_refused(question, said):
    with pytest.raises(ConfigError) as error:
        crossover_of(question)
    assert said in str(error.value)


def test_a_crossover_needs_several_numbers_of_devices():
    flags = [*FLAGS[:5], "64", *FLAGS[6:], "--crossover", "step_s=1"]
    with pytest.raises(ConfigError, match="between numbers of devices"):
        CliRunner().invoke(command, flags, catch_exceptions=False)


@pytest.mark.parametrize(("question", "said"), [
    ("visible_com_fraction=30%", "did you mean 'visible_comm_fraction'"), ("days=3", "--tokens"),
    ("cost=3", "cost_per_million_tokens is one with --price-per-gpu-hour"), ("recompute=1", "is no number of a row"),
    ("gpus==512:gpus==1024", "--crossover: 'gpus' is no field of the layouts that are tried"),
])  # fmt: skip
def test_what_no_row_has_is_refused_before_the_search(question, said, monkeypatch):
    monkeypatch.setattr("comp_comm.cli.search.run_search", lambda *_: pytest.fail("a search was made"))
    with pytest.raises(ConfigError, match=said):
        asked(question)


GPT3 = {"cost_model": "foundation_models", "hardware": "a100-sxm-80gb", "model": "foundation-gpt3-1t"}


@pytest.mark.parametrize("given", [
    {"hardware": "h100-sxm", "model": "gpt2", "set": {"global_batch": 64}},
    {"hardware": "h100-sxm", "model": "qwen1.5-moe-a2.7b", "set": {"global_batch": 64, "tokens": 1e12, "zero": 1},
     "sweep": {"overlap_dp": ["on", "off"]}},
    {**GPT3, "set": {"global_batch": 4096, "tokens": 1e12}},
])  # fmt: skip
@pytest.mark.parametrize("prices", [NO_PRICES, Prices(2.0), Prices(2.0, 700.0)])
def test_the_numbers_of_a_row_are_known_before_it(given, prices):
    gpus = 8 if given["model"] != GPT3["model"] else 512
    row = search(given, gpus, top=1, prices=prices)["rows"][0]
    numbers = [name for name, each in row.items() if isinstance(each, (int, float)) and name != "ties"]
    assert sorted(number_columns(make_space(study_from(given), gpus), prices)) == sorted(numbers)


def test_kinds_may_differ_in_words():
    flags = ["--model", "gpt2", "--hardware", "h100-sxm", "--gpus", "8,16", "--global-batch", "64", "-q", "--format",
             "json", "--crossover", "recompute==full:recompute==none"]  # fmt: skip
    done = CliRunner().invoke(command, flags, catch_exceptions=False)
    (row,) = json.loads(done.stdout)["crossover"]["rows"]
    assert row["reason"].startswith("not crossed: second_behind_percent is -")  # what is not made again is ahead


def test_the_sentence_names_the_kind_that_is_ahead():
    """Less than 0 is where the second kind is ahead: it may be so at first, too."""
    row = {"after": 64, "at": 1024, "second_behind_percent_after": -5.0, "second_behind_percent_at": 8.0}
    assert crossing_said("tp>1:tp==1", {**row, "reason": None}) == (
        "tp>1 is behind tp==1 on 64 devices, by 5 % of the best, and ahead on 1,024, by 8 %"
    )

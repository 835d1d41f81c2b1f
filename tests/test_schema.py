"""JSON Schemas of the files people write: they take every shipped file, and mark what an editor should mark."""

from __future__ import annotations

import copy
import json
import re
from functools import lru_cache
from pathlib import Path

import pytest

from comp_comm.cli.schema import KINDS, made
from comp_comm.configs import catalogue, strict_yaml

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parent.parent


@lru_cache
def checker(kind):
    schema = made(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.slow) for start in range(1, 6))])
def test_every_file_of_the_catalogue_is_valid(kind, start):
    check = checker(kind)
    names = catalogue.names(kind)
    for name in names[start::6]:
        errors = list(check.iter_errors(catalogue.read(kind, name).data))
        assert not errors, (name, errors[0].json_path, errors[0].message)
    assert len(names) > 5


@pytest.mark.parametrize(
    ("kind", "name", "path", "value"),
    [
        ("study", "llama-step", ("set", "tpp"), 8),
        ("study", "llama-step", ("set", "zero"), 4),
        ("study", "llama-step", ("set", "precision"), "fp12"),
        ("study", "llama-step", ("titel",), "x"),
        ("study", "future", ("sweep", "tp"), []),
        ("study", "future", ("plot", "kind"), "pie"),
        ("hardware", "h100-sxm", ("memory", "bandwith"), "1 TB/s"),
        ("hardware", "h100-sxm", ("peak", "bf16"), {"source": "sheet"}),
        ("model", "llama-3-8b", ("layers",), 0),
    ],
)
def test_what_is_wrong_is_marked_where_it_is(kind, name, path, value):
    data = copy.deepcopy(catalogue.read(kind, name).data)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    errors = list(checker(kind).iter_errors(data))
    assert errors
    assert any(path[-1] in (*error.absolute_path, *re.findall(r"\w+", error.message)) for error in errors)


def test_short_values_are_valid():
    study = "set: {seq_len: 128K, tokens: 2T, sp: true, tp: required}\nsweep: {pp: 1..8*2, network: [0.5, 1..4*2]}"
    assert not list(checker("study").iter_errors(strict_yaml.load(study, "x.yaml").data))


def test_the_settings_for_vs_code_are_json_that_names_a_file_the_docs_make():
    page = (ROOT / "docs" / "studies.md").read_text()
    block = next(part for part in re.findall(r"```json\n(.*?)```", page, re.S) if "yaml.schemas" in part)
    (file,) = json.loads(block)["yaml.schemas"]
    assert f"compcomm schema study -o {Path(file).name}" in page

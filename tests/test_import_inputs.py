"""Small files that were once read wrongly, refused badly or crashed: what each of them is, and is told."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from comp_comm.configs import strict_yaml

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
LISTED = CASES / "inputs.yaml"
INPUTS = yaml.safe_load(LISTED.read_text()) if LISTED.is_file() else {}
IMPORTED = {name: each for name, each in INPUTS.items() if each["command"].startswith("import")}
# What the message of a refusal names; and what a note, where the answer is approximate.
NAMED = {
    "flag-with-two-values.sh": ("--cp-comm-type: takes one value a layer", "p2p, a2a", "one, or all the same"),
    "normalization-two-words.sh": ("--normalization: takes one value, not 'RMS', 'Norm'",),
    "redirection-in-array.sh": ("'--num-attention-heads' is missing", "'--seq-length' is missing"),
    "torchtitan-optimizer.toml": ("early_step_in_backward",),
}
# Refused until what they make was modelled: what they are read as.
READ = {"mamba-launch.sh": {"layer_pattern": "Mx24", "ssm_heads": 64, "ssm_groups": 8}}
SAID = {"torchtitan-optimizer.toml": {"optimizer_precision": "bf16"}}
# What is not in a study of one stage, of one device of each group, or of nothing recomputed.
DEFAULTS = {"pp": 1, "zero": 0, "recompute": "none"}

pytestmark = pytest.mark.skipif(not INPUTS, reason=f"{LISTED.name} of the cases kept beside the project is not here")


def options(each):
    """Return the options that a case is imported with: ``import, with --set vocab=N``."""
    return shlex.split(each["command"].partition("with ")[2])


@pytest.mark.parametrize("name", IMPORTED)
def test_a_file_is_read_or_refused_as_is_right(name, compcomm, tmp_path):
    each, study = {**IMPORTED[name]}, tmp_path / "study.yaml"
    if name in READ:
        each = {"command": each["command"], "fields": READ[name]}
    code, out, err = compcomm("import", CASES / "inputs" / name, *options(each), "-o", study)
    assert "Traceback" not in out + err
    assert code == (2 if "refused" in each else 0), err
    assert all(part in err for part in NAMED.get(name, ()))
    assert ("refused" in each or "note" in each) == (name in NAMED), "say here what the message names"
    if code == 0:
        fields = DEFAULTS | strict_yaml.load(study.read_bytes(), "study.yaml").data["set"]
        expected = {key: plain(value) for key, value in {**each.get("fields", {}), **SAID.get(name, {})}.items()}
        assert {key: plain(fields[key]) for key in expected} == expected


def plain(value):
    """Return a value as a study writes it: YAML takes on and off for truths."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def test_there_are_files_of_every_kind():
    assert {Path(name).suffix for name in IMPORTED} == {".sh", ".json", ".yaml", ".toml"}
    assert all((CASES / "inputs" / name).is_file() for name in INPUTS)


def test_a_vocabulary_that_is_not_known_is_asked_for_by_the_remedy_that_works(compcomm):
    name = "tokenizer-name.sh"
    code, _, err = compcomm("import", CASES / "inputs" / name)
    assert code == 2
    assert "--set vocab=" in err

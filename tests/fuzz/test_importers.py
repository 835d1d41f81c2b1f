"""Importers on random inputs: each is read or refused, soon, and never ends in a traceback."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_import_shell import BASH, by_bash, by_reading
from test_importers import CONFIGS, DEEPSPEED, FLAGS, NEMO, SCRIPT, TITAN

from comp_comm.configs.importers.imported import Imported
from comp_comm.configs.importers.reading import import_text, text_of
from comp_comm.configs.importers.shell import Shell
from comp_comm.configs.importers.shell_scope import is_undecided, is_unset
from comp_comm.errors import CompcommError
from fuzz.bounds import CASES, TRIED, bounded
from fuzz.scripts import Writer

pytestmark = pytest.mark.slow

MAPPINGS = [DEEPSPEED, *(config for _, config, *_ in CONFIGS.values())]
TEXTS = [SCRIPT, NEMO, TITAN, f"torchrun pretrain_gpt.py {FLAGS}", json.dumps(DEEPSPEED, indent=1)]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**6), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(["auto", "${a.b}", "${oc.env:X}", "$X", "[0]*3", "([0]*3+[1]*9)", "\x1b[31m", "~", "*a", "1e9999"]),
)  # fmt: skip
NAMES = st.text(max_size=8) | st.sampled_from(["name", "enabled", "stage"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8
)
PIECES = st.sampled_from([
    "\n", "\\\n", "\\", '"', "'", "`", "$(", "$((", "${", "}", ")", "))", "(", "[[", "]]", "<<EOF\n", "EOF", "<(", ">",
    "|", "&&", ";;", "if ", "then ", "fi", "for x in ", "do ", "done", "case $1 in", "esac", "{1..9}", "{a,b}", "--tp ",
    "$@", "$1", "A=(", "+=", "eval ", "bash -c ", "\t", "  ", "- ", ": ", "#", "[a]", "[[a]]", "=", ",", "&x ", "*x",
    "!!python", "<<: ", "---\n", "\x00", "\x1b[2J", "\u2028", "\u00e9", "0x", "1e400", "-", "%", "${X:-", "${A[@]}",
    "$'\\x", "999999999999", "{\U000f92bc", "{\u4e2d",
])  # fmt: skip
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.one_of(PIECES, st.text(max_size=6))), max_size=8)


def tried(text, file="file.dat"):
    """Import a text; return the study, None where it is refused."""
    said = ""
    with bounded():
        try:
            found = import_text(text, file)
        except CompcommError as error:
            found, said = None, str(error)
    assert isinstance(found, Imported) or said
    assert "\x1b" not in "".join([said, *(found.notes if found else ())])
    return found


def places_of(data, here=()):
    for key, value in data.items():
        yield (*here, key)
        if isinstance(value, dict):
            yield from places_of(value, (*here, key))


@TRIED
@given(
    st.sampled_from(MAPPINGS), st.lists(st.tuples(st.integers(0, 10**6), VALUES, st.booleans()), min_size=1, max_size=4)
)
def test_configurations_with_other_values(mapping, changes):
    changed = copy.deepcopy(mapping)
    for number, value, renamed in changes:
        places = list(places_of(changed))
        if places:
            *path, last = places[number % len(places)]
            inner = changed
            for part in path:
                inner = inner[part]
            inner[f"{last}{number % 3}" if renamed else last] = value
    tried(json.dumps(changed))


def edited(text, edits):
    """Return a text with parts of it replaced: a place, how many letters, and what is there instead."""
    for place, length, piece in edits:
        begin = int(place * len(text))
        text = text[:begin] + piece + text[begin + length :]
    return text


@TRIED
@given(st.sampled_from(TEXTS), EDITS)
def test_texts_with_parts_replaced(text, edits):
    tried(edited(text, edits))


@TRIED
@given(st.integers(0, 2**32), EDITS)
def test_scripts(seed, edits):
    """Scripts of all that we know of bash, torn or not, with training at their end."""
    script = Writer(seed).script() + f'torchrun pretrain_gpt.py {FLAGS} "${{V[@]}}" --lr $A\n'
    tried(edited(script, edits))


@TRIED
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=60).map("".join), st.sampled_from(["", FLAGS]))
def test_any_text(text, more):
    tried(f"{text} {more}")


@TRIED
@given(st.binary(max_size=200))
def test_any_bytes(content):
    try:
        text = text_of(content, "file.dat")
    except CompcommError:
        return
    tried(text)


@TRIED
@given(PIECES, st.integers(1, 60_000), st.sampled_from(["", f" {FLAGS}"]))
def test_the_same_again_and_again(piece, count, more):
    tried(piece * min(count, 300_000 // len(piece)) + more)


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize("group", range(10))
def test_scripts_are_read_as_bash_runs_them(group, tmp_path):
    """Where bash has nothing against a script, what its commands are given is the same, or said to be left open."""
    agreed = 0
    for seed in range(group * CASES // 10, (group + 1) * CASES // 10):
        script = Writer(seed).script()
        expected, complaints = by_bash(script, tmp_path, complaints=True)
        if complaints:
            continue
        shell = Shell()
        shell.run(script)
        shown = [command for command in shell.started if command.words[0] == "show"]
        if shell.flaws or not all(command.sure for command in shown) or any(
            is_undecided(word) or is_unset(word) for command in shown for word in command.words
        ):  # fmt: skip
            continue
        assert by_reading(script) == expected, f"seed {seed}:\n{script}"
        agreed += 1
    assert agreed >= CASES // 20

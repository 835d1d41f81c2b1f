"""The reference data of PyTorch, made again by `tests/reference` (extra ``reference``), against what is frozen and us.

The frozen tables are of torch 2.13; what another release keeps beside (the seeds of attention, the table of rotations)
is less than a part in a thousand. Messages, parameters and FLOP are the same to the last one.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import pytest
import test_torch_collectives
import test_torch_models
import test_torch_reference

ROOT = Path(__file__).parent
PROGRAM = [sys.executable, ROOT / "reference"]
without_torch = find_spec("torch") is None
BYTES = ("kept_layer", "kept_ends", "peak", "weights_and_optimizer", "gradients")


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run the program once, two to three minutes; return its tables."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([*PROGRAM, "-o", folder], check=True, capture_output=True, text=True)
    return {path.stem: read(path) for path in folder.iterdir()}


def paired(rows, name, keys):
    """Return every row that was made, with the frozen one of the same keys."""
    frozen = {tuple(row[key] for key in keys): row for row in read(ROOT / "data" / f"{name}.csv")}
    return [(row, frozen[tuple(row[key] for key in keys)]) for row in rows]


@pytest.mark.slow
@pytest.mark.skipif(without_torch, reason="needs PyTorch: pip install 'compcomm[reference]'")
class TestMadeAgain:
    def test_parameters_and_flops(self, made):
        rows = made["torch_models"]
        assert len(rows) >= 90
        assert sum(bool(row["flops"]) for row in rows) >= 18
        assert [row for row, frozen in paired(rows, "torch_models", ("model", "seq_len")) if row != frozen] == []
        for row in rows:
            if row["parameters"]:
                test_torch_models.test_parameters(row)
            if row["flops"]:
                test_torch_models.test_flops(row)

    def test_collectives(self, made):
        rows, keys = made["torch_collectives"], ("case", "group", "collective", "devices")
        cases = [list(rows) for _, rows in groupby(rows, key=lambda row: row["case"])]
        assert len(cases) >= 19
        assert [row for row, frozen in paired(rows, "torch_collectives", keys) if row != frozen] == []
        for case in cases:
            test_torch_collectives.test_collectives_of_a_step(case)

    def test_bytes_kept_peaks_and_states(self, made):
        rows = made["torch_reference"]
        assert len(rows) >= 29
        for row, frozen in paired(rows, "torch_reference", ("case", "model", "fields")):
            for column in BYTES:
                assert bool(row[column]) == bool(frozen[column])
                if row[column]:
                    assert int(row[column]) == pytest.approx(int(frozen[column]), rel=1e-3), (row, column)
            if row["kept_layer"]:
                test_torch_reference.test_what_a_layer_keeps(row)
            if row["kept_ends"]:
                test_torch_reference.test_what_norm_and_logits_keep(row)
            if row["peak"]:
                test_torch_reference.test_activations_and_temporaries_at_the_peak(row)
            if row["gradients"]:
                test_torch_reference.test_states_of_fsdp(row)


@pytest.mark.slow
def test_what_to_install_is_said(tmp_path):
    """A folder that hides PyTorch, if it is there, from the program."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('hidden')\n")
    hidden = f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['reference', '-o', 'none']; "
    run = f"runpy.run_path({str(PROGRAM[1])!r}, run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", hidden + run], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == (
        "Error: making reference data again needs the extra 'reference': pip install 'compcomm[reference]'\n"
    )
    assert ran.stdout == ""

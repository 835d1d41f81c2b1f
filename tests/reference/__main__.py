"""The reference data of tests, made again by PyTorch: two minutes of a CPU, no GPU, no data, one process.

    pip install -e '.[reference]'         # PyTorch; that of the CPU is enough
    python tests/reference -o FOLDER      # writes torch_models.csv, torch_collectives.csv, torch_reference.csv

Cases are those of `tests/data`, or of the tables in another folder (``--cases``): a model of the catalogue and
compcomm's fields of a layout, which are here what a program in PyTorch does. Only what it counts is written: numbers
of the tables are not read. Rows that plain PyTorch cannot make (torchtitan's experts and latents, Megatron-core,
pipelines) are left out, and said on standard error.
"""

from __future__ import annotations

import argparse
import csv
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from comp_comm.configs.model_file import load_model
from comp_comm.errors import MissingExtraError

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit(f"Error: {MissingExtraError('making reference data again', 'reference')}") from None

from meters import flops
from modules import loss_of, without_data
from shapes import NotMadeError, shape_of
from steps import Step, parsed

DATA = Path(__file__).parent.parent / "data"
Row = dict[str, str]
# What libraries have of their own, which is not written out here.
OWN = {"dropout on a CPU": "dropout"}


def model_row(rows: list[Row]) -> Iterator[Row]:
    """Count parameters, and FLOP of eager attention forward and back."""
    (row,) = rows
    changed = {name: int(value) for name, value in (pair.split(" ") for pair in row["fields"].split("; ") if pair)}
    if unknown := changed.keys() - {"top_k", "window", "mtp_layers"}:
        raise NotMadeError(", ".join(unknown))  # no window is computed, and nothing but the next token predicted
    shape = shape_of(load_model(row["model"]).fields, scores=True, **changed)
    model = without_data(shape)
    counted = {"parameters": sum(weight.numel() for weight in model.parameters())}
    if row["flops"]:
        tokens, made = torch.empty(1, int(row["seq_len"]), dtype=torch.long, device="meta"), []
        forward = flops(lambda: made.append(loss_of(model(tokens), tokens)))
        counted |= {"flops_forward": forward, "flops": forward + flops(lambda: made[0].backward())}
    yield row | {name: str(counted[name]) if row[name] else "" for name in ("parameters", "flops_forward", "flops")}


def collective_rows(rows: list[Row]) -> Iterator[Row]:
    """Count every collective of a step, clipped and with a loss unless the case is without."""
    case = {name: rows[0][name] for name in ("case", "model", "fields", "without")}
    if not case["model"]:
        raise NotMadeError("pipelines and other libraries")
    without = case["without"].split("; ")
    step = Step(load_model(case["model"]).fields, parsed(case["fields"]), loss="loss" not in without)
    for (group, collective, devices), (calls, sent) in step.collectives("gradient norm" not in without).items():
        counted = {"group": group, "collective": collective, "devices": devices, "calls": calls, "bytes": sent}
        yield case | {name: str(value) for name, value in counted.items()}


def bytes_row(rows: list[Row]) -> Iterator[Row]:
    """Count what a layer and the ends keep, the peak of a step and states, as far as the case has them."""
    (row,) = rows
    beside = row["beside"].split("; ")
    for kind in OWN.keys() & set(beside):
        raise NotMadeError(OWN[kind])
    step = Step(load_model(row["model"]).fields, parsed(row["fields"]))
    counted = {}
    if row["kept_layer"]:
        # The table of rotations, which all layers share, is the first one's.
        ends, first, second = (step.with_layers(layers).kept() for layers in range(3))
        layer = first - ends if "rotations" in beside else second - first
        counted = {"kept_layer": layer, "kept_ends": ends}
    if row["peak"] or row["total"]:
        counted |= dict(zip(("peak", "total"), step.peak(), strict=True))
    if row["gradients"]:
        counted |= dict(zip(("weights_and_optimizer", "gradients"), step.states(), strict=True))
    yield row | {name: str(value) if row[name] else "" for name, value in counted.items()}


# What makes the rows of a case, and what tells one case from the next.
TABLES: dict[str, tuple[Callable[[list[Row]], Iterator[Row]], tuple[str, ...]]] = {
    "torch_models.csv": (model_row, ("model", "seq_len", "fields")),
    "torch_reference.csv": (bytes_row, ("case", "model", "fields")),
    "torch_collectives.csv": (collective_rows, ("case",)),
}


def main() -> None:
    asked = argparse.ArgumentParser(prog="python tests/reference", description="Make the data of PyTorch again.")
    asked.add_argument("-o", "--output", type=Path, required=True, help="folder for the tables")
    asked.add_argument("--cases", type=Path, default=DATA, help="folder of the tables whose cases are run")
    given = asked.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", module="torch")
    logging.getLogger("torch").setLevel(logging.ERROR)
    for name in filter(lambda name: (given.cases / name).exists(), TABLES):
        make, keys = TABLES[name]
        with (given.cases / name).open(encoding="utf-8", newline="") as file:
            cases = csv.DictReader(file)
            columns = tuple(cases.fieldnames or ())
            groups = [(key, list(rows)) for key, rows in groupby(cases, itemgetter(*keys))]
        with (given.output / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            for key, rows in groups:
                try:
                    writer.writerows(make(rows))
                except NotMadeError as reason:
                    print(
                        f"{name}: left out {key if isinstance(key, str) else ', '.join(filter(None, key))}: {reason}",
                        file=sys.stderr,
                    )


if __name__ == "__main__":
    main()

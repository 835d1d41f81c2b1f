"""Make the tables of this folder again from the project's compilation of public measurements.

``python tests/data/extract.py FOLDER`` reads the compilation's ``hardware.csv``, ``nersc_nccl_measurements.csv`` and
``measured/`` in FOLDER, and writes beside itself what tests need of them: fewer columns, sources once. See README.md.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

HERE = Path(__file__).parent
COLLECTIVE = ("source", "system", "gpu", "n_gpus", "gpus_per_node", "collective", "size_bytes", "time_us")
# Systems whose data sheets are known, by words of a row's system or source (see `test_certainty`).
SYSTEMS = (
    "a100_sxm/comm", "h100_sxm/comm", "h200_sxm/comm", "b200_sxm/comm", "b300_sxm/comm", "gb200/comm", "gb300/comm",
    "DGX-H100 pod", "8x H200 node", "single A100 node", "AWS 1x P6", "AAC8 MI300X", "vidur a100_dgx", "AWS 2x p5.",
    "AWS 2x p4de", "AWS 4x P6", "A3 Ultra", "A3 Mega", "2x MI355X", "A3 High", "2x BM.GPU.H100", "Nebius 2x H100",
    "2x BM.GPU.MI300X",
)  # fmt: skip
PERLMUTTER = ("perlmutter", "nccl-tests on NERSC's Perlmutter (A100 40 GB, Slingshot), published with the code of "
              "arXiv:2410.00273; the mean of in place and out of place")  # fmt: skip
MI210 = ("layernorm", "softmax", "gelu")


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, columns: tuple[str, ...], rows: list[dict[str, str]]) -> None:
    """Write some columns of rows beside this file."""
    with (HERE / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def collectives(folder: Path) -> None:
    """Write collectives of systems whose data sheets are known, each row with the key of its source."""
    keys: dict[tuple[str, str], str] = {}
    found = []
    for row in read(folder / "measured" / "collectives.csv"):
        name = next((name for name in SYSTEMS if name in f"{row['system']} {row['source']}"), None)
        thinned = "/comm" in str(name) and round(math.log2(float(row["size_bytes"]))) % 2  # every other size of these
        if name is None or thinned or row["collective"] == "sendrecv":
            continue
        key = keys.setdefault((row["source"], row["system"]), f"s{len(keys) + 1}")
        found.append({**row, "source": key, "system": name, "time_us": f"{float(row['time_us']):.6g}"})
    names = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
    for row in read(folder / "nersc_nccl_measurements.csv"):
        time = f"{float(row['time_mean_us']):.6g}"
        found.append({**row, "source": "nersc", "system": PERLMUTTER[0], "gpu": "A100-40GB-SXM", "time_us": time,
                      "collective": names[row["op"]]})  # fmt: skip
    write("collectives.csv", COLLECTIVE, found)
    sources = [{"key": key, "system": system, "source": source} for (source, system), key in keys.items()]
    sources.append({"key": "nersc", "system": PERLMUTTER[0], "source": PERLMUTTER[1]})
    write("collectives_sources.csv", ("key", "system", "source"), sources)


def main(folder: Path) -> None:
    """Write every table."""
    hardware = read(folder / "hardware.csv")
    write("hardware.csv", tuple(hardware[0]), hardware)
    kernels = [row for row in read(folder / "measured" / "elementwise.csv")
               if row["gpu"] == "MI210" and row["op"] in MI210]  # fmt: skip
    write("elementwise_mi210.csv", ("source", "gpu", "op", "rows", "cols", "dtype", "time_us"), kernels)
    collectives(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

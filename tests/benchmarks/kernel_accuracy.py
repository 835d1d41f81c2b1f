"""Errors of the shipped profiles on measured kernels and collectives, as a page.

Run it with: python tests/benchmarks/kernel_accuracy.py > page.md

Needs the measurements beside the checkout (../shared/data), or their folder as an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path

from comp_comm.calibrate.readers import read_log
from comp_comm.calibrate.run import check_logs

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
DEVICES = {"a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm",
           "gb200-nvl72": "gb200"}  # fmt: skip
KINDS = ("gemm_bf16", "flash_attention_fwd_bf16", "nccl")
SIZES = ("m, n, k >= 256", "seq_len >= 1024, head_dim 64 and 128")
MIB = "1 MiB"


def rows(profile: str, paths: list[Path], only: dict[str, list[str]] | None = None, timing: str | None = None):
    """Return a line of the table for each operator, collective and size that the targets are about."""
    found = check_logs([read_log(str(path), only) for path in paths], profile, timing=timing)
    for row in found.by_size:
        if row["size"] in SIZES or MIB in row["size"] or row["operator"] == "elementwise":
            errors = (row[name] for name in ("mean_abs_error", "median_abs_error", "p90_abs_error", "bias"))
            cells = (profile, row["collective"] or row["operator"], row["size"], f"{row['n']:,}",
                     *(f"{100 * error:.1f} %" for error in errors))  # fmt: skip
            yield f"| {' | '.join(cells)} |"


def main(data: Path = DATA) -> None:
    """Print the page."""
    print("| profile | operator | size | rows | mean error | median | 90th percentile | bias |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for profile, name in DEVICES.items():
        paths = [path for kind in KINDS if (path := data / "silicon" / f"{kind}_{name}.csv").exists()]
        print(*rows(profile, paths), sep="\n")
    print(*rows("perlmutter", [data / "nersc_nccl_measurements.csv"]), sep="\n")
    kernels = data / "measured"
    print(*rows("mi210", [kernels / "gemms.csv"], {"gpu": ["MI210"]}, "base"), sep="\n")
    streams = {"gpu": ["MI210"], "op": ["layernorm", "softmax"]}
    print(*rows("mi210", [kernels / "elementwise.csv"], streams, "base"), sep="\n")
    print(*rows("mi300x", [kernels / "gemms.csv"], {"gpu": ["MI300X (gfx942)"]}), sep="\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

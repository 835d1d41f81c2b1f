"""The tables of docs/accuracy.md: errors of profiles on measured kernels and collectives, by device and operator.

``python tests/accuracy_page.py`` writes them anew, from the measurements beside the checkout (../shared/data) or in a
folder given. `test_accuracy_page` checks that the page is current.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from comp_comm.calibration.measurements import Log
from comp_comm.calibration.readers import read_log
from comp_comm.calibration.run import Calibration, calibrate_logs, check_logs, select
from comp_comm.configs.hardware_file import load_profile

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
PAGE = ROOT / "docs" / "accuracy.md"
PART = re.compile(r"(<!-- measured: (\w+) -->\n)(.*?)(<!-- end measured -->)", re.DOTALL)
TENTH, SEEDS = 0.1, range(5)
MEASURES = ("mean_abs_error", "median_abs_error", "p90_abs_error", "bias")
HEAD = ("profile", "operator", "size", "rows", "mean error", "median", "90th percentile", "bias")


class Source(NamedTuple):
    """Measurements of one device's operator: its profile, files, the rows meant, and the share of them to fit on.

    ``share`` is that of the rows a fit gets; None where there are so few that each fifth is predicted by the others.
    """

    profile: str
    operator: str
    files: tuple[str, ...]
    only: tuple[tuple[str, str], ...] = ()
    share: float | None = None
    timing: str | None = None

    @property
    def kernel(self) -> str | None:
        """What ran the attention that is measured."""
        return ATTENTION[self.profile] if self.operator == "attention" else None

    def logs(self, data: Path) -> list[Log]:
        """Return the measurements as read."""
        values = select([f"{name}={value}" for name, value in self.only])
        return [read_log(str(data / name), values) for name in self.files]


NVIDIA = {
    "a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm",
    "gb200-nvl72": "gb200", "b300-sxm": "b300_sxm", "gb300-nvl72": "gb300",
}  # fmt: skip
ULTRA = ("b300-sxm", "gb300-nvl72")
# What vLLM, whose attention was timed, runs on a device.
ATTENTION = {"a100-sxm-80gb": "flash_2", "h100-sxm": "flash_3", "b200-sxm": "trtllm"}
WITHOUT = {"attention": ("h200-sxm", "gb200-nvl72", *ULTRA), "collective": ("h200-sxm", *ULTRA)}
KINDS = {
    "gemm": ("gemm_bf16_random", TENTH),
    "attention": ("flash_attention_fwd_bf16", TENTH),
    "collective": ("nccl", None),
}
MI210 = (("gpu", "MI210"),)
MI210_STREAMS = (*MI210, ("op", "layernorm"), ("op", "softmax"), ("op", "gelu"))
SOURCES = (
    *(Source(profile, operator, (f"silicon/{name}_{device}.csv",), share=share)
      for profile, device in NVIDIA.items() for operator, (name, share) in KINDS.items()
      if profile not in WITHOUT.get(operator, ())),
    Source("perlmutter", "collective", ("nersc_nccl_measurements.csv",)),
    Source("mi210", "gemm", ("measured/gemms.csv",), MI210, timing="base"),
    Source("mi210", "elementwise", ("measured/elementwise.csv",), MI210_STREAMS, timing="base"),
    Source("mi300x", "gemm", ("measured/gemms.csv",), (("gpu", "MI300X (gfx942)"),)),
)  # fmt: skip
SIZES = ("m, n, k >= 256", "seq_len >= 1024, head_dim 64 and 128")
# Mean error and its 90th percentile that are aimed at, of rows that the fit did not see.
TARGETS = {
    "m, n, k >= 256": (0.07, 0.15), "seq_len >= 1024, head_dim 64 and 128": (0.10, np.inf), "all": (0.10, np.inf),
    ">= 1 MiB in a domain": (0.08, np.inf), "< 1 MiB in a domain": (0.10, np.inf),
    ">= 1 MiB across domains": (0.06, np.inf), "< 1 MiB across domains": (0.11, np.inf),
}  # fmt: skip
EXCHANGES = (0.10, np.inf)  # of all-to-alls


def target(row: dict[str, Any]) -> tuple[float, float]:
    """Return what is aimed at for a record."""
    return EXCHANGES if row["collective"] == "all_to_all" else TARGETS[row["size"]]


def chosen(source: Source, found: Calibration) -> Iterator[dict[str, Any]]:
    """Yield the records of the sizes that count; element-wise kernels are too few to tell sizes apart."""
    if source.operator == "elementwise":
        yield from ({**row, "size": "all"} for row in found.rows)
    yield from (row for row in found.by_size if row["size"] in SIZES or "domain" in row["size"])


def cells(profile: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a record: what it is of, rows, and errors in percent."""
    errors = (f"{100 * row[name]:.1f} %" for name in MEASURES)
    return profile, row["collective"] or row["operator"], row["size"], f"{row['n']:,}", *errors


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table; numbers are to the right."""
    right = {"rows", "numbers", *HEAD[4:]}
    rule = ("---:" if name in right else "---" for name in head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def calibrations(source: Source, data: Path) -> tuple[list[Calibration], str]:
    """Return fits of a source, one for each draw of rows, and on which rows they are fitted, in words."""
    logs = source.logs(data)
    if source.share is None:
        return [calibrate_logs(logs, source.profile)], "four fifths"
    found = [calibrate_logs(logs, source.profile, train=source.share, seed=seed, attention_kernel=source.kernel)
             for seed in SEEDS]  # fmt: skip
    return found, f"{100 * source.share:g} %"


@functools.cache
def unseen(source: Source, data: Path) -> list[tuple[str, ...]]:
    """Return the rows of one source in the table of what a fit did not see; means over the draws."""
    found, share = calibrations(source, data)
    numbers = max(sum(n.operator == source.operator for n in one.fit.values.values()) for one in found if one.fit)
    lines = []
    for records in zip(*(chosen(source, one) for one in found), strict=True):
        means = {name: float(np.mean([row[name] for row in records])) for name in MEASURES}
        row = {**records[0], **means, "n": round(float(np.mean([row["n"] for row in records])))}
        mean, tail = target(row)
        missed = round(row["mean_abs_error"], 3) > mean or round(row["p90_abs_error"], 3) > tail
        aim = f"{100 * mean:g} %" + (f" / {100 * tail:g} %" if np.isfinite(tail) else "")
        lines.append((*cells(source.profile, row), f"{numbers}", share, f"**missed** ({aim})" if missed else aim))
    return lines


def unseen_table(data: Path = DATA, sources: tuple[Source, ...] = SOURCES) -> str:
    """Return the errors of rows that the fit did not see."""
    lines = [line for source in sources for line in unseen(source, data)]
    return table((*HEAD, "numbers", "fitted on", "target"), lines)


def shipped_table(data: Path = DATA) -> str:
    """Return the errors of the shipped profiles, as they are, on all rows."""
    lines = []
    for source in SOURCES:
        found = check_logs(source.logs(data), source.profile, timing=source.timing, attention_kernel=source.kernel)
        lines += [cells(source.profile, row) for row in chosen(source, found)]
    return table(HEAD, lines)


def missed_list(data: Path = DATA) -> str:
    """Return the targets that are missed, as a list."""
    lines = [line for source in SOURCES for line in unseen(source, data) if "missed" in line[-1]]
    return "".join(f"- `{line[0]}`, {line[1]}, {line[2]}: {line[4]} in the mean, {line[6]} at the 90th percentile\n"
                   for line in lines) or "- none\n"  # fmt: skip


PARTS = {"missed": missed_list, "unseen": unseen_table, "shipped": shipped_table}


def main(data: Path = DATA) -> None:
    """Write the measured parts of the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PART.sub(lambda m: f"{m[1]}\n{PARTS[m[2]](data)}\n{m[4]}", text), encoding="utf-8")


if __name__ == "__main__":
    for name in dict.fromkeys(source.profile for source in SOURCES):
        load_profile(name)  # a profile that does not load is said before minutes of fits
    main(*map(Path, sys.argv[1:]))

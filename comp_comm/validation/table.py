"""A table of measured training runs: a row a run, read from CSV with every problem's file, line and column.

The columns are those of the table that is shipped (``configs/validation/runs.csv``). Few of them have to be there: the
device, the devices' number, the sequence, the batch, the model's name or dimensions, and what was measured. A column
named after a field of a study sets that field; `SHORT` has what else a table of one's own may call its columns.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from comp_comm.configs import catalogue
from comp_comm.errors import ConfigError, Problem, Problems, nearest, one_of
from comp_comm.fields import FIELDS
from comp_comm.validation.cells import COUNTS, LIMITS, NUMBERS, measured_fault, number_fault, parsed, plain

FOLDER = "validation"
MOST_BYTES = 64 * 2**20
METRICS = ("iter_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu")
ARCHES = ("dense", "moe")
PEAKS = ("allocated", "reserved", "nvidia-smi")
# What the software of a run is read from (see `readings`), and what is only said about a run.
SOFTWARE = (
    "zero_stage", "sequence_parallel", "recompute", "precision", "gated_mlp", "attention_kernel", "moe_dispatcher",
    "ep_overlap", "recompute_modules", "cuda_graph", "fp8_recipe", "tp_overlap", "pp_layout", "p2p_overlap",
    "dp_overlap", "param_gather_overlap", "grad_precision", "ce_fusion", "permute_fusion", "router_fusion",
    "grouped_gemm", "offload", "token_drop", "force_balance", "window_sinks", "mtp", "optimizer_kind", "fsdp",
    "software_other",
)  # fmt: skip
ABOUT = (
    "run_id", "group", "source", "model_name", "arch", "gpu", "machine", "measured_metric", "flops_convention",
    "metric2", "value2", "notes", "release", "attention_version", "layout_check", "software_source",
    "software_certainty", "date", "organisation", "not_stated", "corrected", "excluded", "sanity",
    "implied_model_tflops", "peak_mem_kind",
)  # fmt: skip
COLUMNS = (*ABOUT, *COUNTS, *NUMBERS, *SOFTWARE)
MEASURED = ("measured_metric", "measured_value")
NEEDED = ("gpu", "n_gpus", *MEASURED)
# Names that flags and answers have for these columns, and metrics as a column of their own (the value below them).
SHORT = {"model": "model_name", "gpus": "n_gpus"}
METRIC_COLUMNS = {"step_s": "iter_time_s", **{name: name for name in METRICS}}
# What most tables of one's own have.
USUAL = ("model", "gpu", "gpus", "tp", "pp", "micro_batch", "global_batch", "seq_len", "precision")
NEED = "gpu, n_gpus (or gpus), measured_metric and measured_value (or a column step_s)"


@dataclass(frozen=True)
class MeasuredRun:
    """A measured run: the text of every column, empty where it is not stated, and the line it stands on.

    ``written`` are the names of columns in the table's head, where they are not ours.
    """

    run_id: str
    cells: Mapping[str, str]
    file: str
    line: int
    written: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, column: str) -> str:
        return self.cells.get(column, "")

    def number(self, column: str) -> float | None:
        """Return a column of numbers, None where it is not stated."""
        return float(self[column]) if self[column] else None

    def name(self, column: str) -> str:
        """Return what the table calls a column."""
        return self.written.get(column, column)

    def problem(self, column: str, message: str) -> Problem:
        """Return a problem with a column of this run, by the name that the table has for it."""
        return Problem(message, key=self.name(column), file=self.file, line=self.line)

    @property
    def fields(self) -> dict[str, str]:
        """Columns that are named after fields of a study, and nothing else."""
        return {name: text for name, text in self.cells.items() if name not in COLUMNS and text}


LATER = "later_runs.csv"  # found when the model was made: no constant was chosen on them


def shipped(name: str = "runs.csv") -> Path:
    """Return a table of the shipped data.

    >>> shipped().is_file()
    True
    """
    return catalogue.root() / FOLDER / name


def is_shipped(path: str | Path | None) -> bool:
    """Return whether a table is one of the shipped data.

    >>> is_shipped(None), is_shipped(shipped(LATER)), is_shipped("runs.csv")
    (True, True, False)
    """
    return path is None or (str(path) != catalogue.STDIN and shipped().parent.resolve() in Path(path).resolve().parents)


def read_runs(path: str | Path | None = None) -> list[MeasuredRun]:
    """Return the runs of a table, the shipped one if none is named; ``-`` is standard input.

    What was measured stands in ``measured_metric`` and ``measured_value``, or in a column that is named after the
    metric (``step_s`` is ``iter_time_s``); ``model`` and ``gpus`` are ``model_name`` and ``n_gpus``.

    Raises ``ConfigError`` with every problem's line and column: a file that is no such table, an unknown column, a cell
    that is no number, a metric that is none.

    >>> len(read_runs())
    516
    """
    text, shown = _text(path)
    rows = csv.DictReader(StringIO(text, newline=""), restkey="")
    problems = Problems()
    metric, written = _read_head(rows, shown, problems)
    problems.raise_if_any()
    runs = []
    try:
        for row in rows:
            runs.append(_run({**metric, **row}, rows.line_num, shown, written, problems))
    except csv.Error as error:
        problems.add(Problem(f"is no CSV: {error}", file=shown, line=rows.line_num))
    _check_ids(runs, problems)
    if not runs:
        problems.add(Problem("has no rows", file=shown))
    problems.raise_if_any()
    return runs


def _text(path: str | Path | None) -> tuple[str, str]:
    """Return the text of a table, and what messages call it."""
    piped = str(path) == catalogue.STDIN
    place = shipped() if path is None else Path(path)
    shown = place.name if path is None else catalogue.STDIN_SHOWN if piped else str(path)
    try:
        content = catalogue.standard_input(MOST_BYTES + 1) if piped else place.read_bytes()
        if not piped:
            catalogue.FILES_READ.add(place.resolve())
        if len(content) > MOST_BYTES:
            raise ConfigError([Problem(f"is larger than {MOST_BYTES // 2**20} MiB", file=shown)])
        return content.decode("utf-8-sig"), shown
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", file=shown)]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem("is not text in UTF-8", file=shown)]) from None


def _read_head(
    rows: csv.DictReader[str], file: str, problems: Problems
) -> tuple[dict[str, str], dict[str, str]]:  # fmt: skip
    """Give the columns our names; return the cell of the metric that one is named after, and the names they had."""
    given = [name.strip() for name in rows.fieldnames or []]
    metrics = [name for name in given if name in METRIC_COLUMNS]
    names = [SHORT.get(name, "measured_value" if name in METRIC_COLUMNS else name) for name in given]
    metric = {"measured_metric": METRIC_COLUMNS[metrics[0]]} if metrics else {}
    _check_head([*names, *metric], file, problems)
    rows.fieldnames = names
    written = {name: own for name, own in zip([*names, *metric], [*given, *metrics[:1]], strict=True) if name != own}
    return metric, written


def _check_head(names: Sequence[str], file: str, problems: Problems) -> None:
    said = tuple(dict.fromkeys((*USUAL, *METRIC_COLUMNS, *COLUMNS)))
    for name in names:
        if name not in COLUMNS and name not in FIELDS:
            guess = nearest(name, said) or nearest(name, FIELDS)
            problems.add(Problem(f"unknown column{guess} ({one_of(said, 14)}, or a field of a study)",
                                 key=name, file=file, line=1))  # fmt: skip
        elif names.count(name) > 1:
            problems.add(Problem("stands twice", key=name, file=file, line=1))
    missing = [name for name in NEEDED if name not in names]
    if missing:
        are = "columns are" if len(missing) > 1 else "column is"
        problems.add(Problem(f"the {are} missing; a table of runs needs {NEED}", key=", ".join(missing), file=file,
                             line=1))  # fmt: skip


def _run(
    row: Mapping[str, str | None], line: int, file: str, written: Mapping[str, str], problems: Problems
) -> MeasuredRun:  # fmt: skip
    metric = (row["measured_metric"] or "").strip()
    metric = METRIC_COLUMNS.get(metric, metric)
    row = {**row, "measured_metric": metric}
    cells = {name: plain(name, text.strip(), metric) for name, text in row.items() if isinstance(text, str) and name}
    run = MeasuredRun(cells.get("run_id", "") or f"line {line}", cells, file, line, written)
    if "" in row:
        problems.add(Problem("has more cells than the head has columns", file=file, line=line))
    faults = [(name, number_fault(name, run[name])) for name in (*COUNTS, *NUMBERS)]
    if metric in LIMITS:
        faults.append(("measured_value", measured_fault(run["measured_value"], metric)))
    for name, fault in faults:
        if fault:
            problems.add(run.problem(name, fault))
    for name, allowed in (("measured_metric", METRICS), ("arch", ARCHES), ("peak_mem_kind", PEAKS)):
        if run[name] and run[name] not in allowed:
            problems.add(run.problem(name, f"'{run[name]}' is not known{nearest(run[name], allowed)} "
                                     f"({one_of(allowed)})"))  # fmt: skip
    for name, text in run.fields.items():
        try:
            FIELDS[name].parse(parsed(text))
        except ValueError as error:
            problems.add(run.problem(name, str(error)))
    return run


def _check_ids(runs: list[MeasuredRun], problems: Problems) -> None:
    first: dict[str, MeasuredRun] = {}
    for run in runs:
        other = first.setdefault(run.run_id, run)
        if other is not run:
            problems.add(run.problem("run_id", f"'{run.run_id}' is that of line {other.line} as well"))


def field_value(name: str, text: str) -> object:
    """Return a cell of a column that is named after a field, as that field's value.

    >>> field_value("sustained", "0.8"), field_value("schedule", "gpipe")
    (0.8, 'gpipe')
    """
    return FIELDS[name].parse(parsed(text))

"""A sweep as a value: its rows as columns, beside the meta data that says what they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.configs.study import Study, as_study
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import AnyArray
from comp_comm.records import Record, Records
from comp_comm.structs import struct
from comp_comm.sweeps.engine import Progress, Rows, reasons, row_blocks
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import FEASIBLE, REASON, Plan, make_plan
from comp_comm.sweeps.ranking import Ranking, ranked_blocks
from comp_comm.sweeps.stream import Stream
from comp_comm.sweeps.where import Condition

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from comp_comm.sweeps.resume import Checkpoint

MAX_ROWS = 10_000_000
MAX_RANKED_POINTS = 10**15
MAX_TOP = 1_000_000
MOST_COMPARED = 10_000_000  # values of a condition's inputs that are looked at to say why there is no row


@struct
class Result:
    """Rows of a sweep: ``columns`` by name (NaN where a row is infeasible), and ``meta``.

    Examples
    --------
    >>> point = {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}
    >>> result = sweep({"cost_model": "comp_vs_comm", "set": point})
    >>> round(float(result.columns["serialized_comm_fraction"][0]), 3)
    0.478
    """

    columns: dict[str, AnyArray]
    meta: Record

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def to_records(self) -> Records:
        """Return the rows as dictionaries of plain Python values, None where there is no number."""
        return records(Rows(self.columns))


def records(rows: Rows) -> Records:
    """Return rows as dictionaries of plain Python values: whole numbers as int, None for NaN and no reason."""
    plain = plain_columns(rows)
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def plain_columns(rows: Rows) -> dict[str, list[object]]:
    """Return rows as columns of plain Python values (see `records`)."""
    return {name: _plain(name, values) for name, values in rows.columns.items()}


def _plain(name: str, values: AnyArray) -> list[object]:
    if values.dtype == object:
        return [value or None for value in values.tolist()]
    if name in FIELDS and FIELDS[name].kind == "int":
        if (values == np.round(values)).all():
            return values.astype(np.int64).tolist()  # type: ignore[no-any-return]
        # A degree being solved for is not whole, and stays as it is.
        return [_whole(value) for value in values.tolist()]
    if values.dtype == np.float64 and np.isnan(values).any():
        return [None if value != value else value for value in values.tolist()]
    return values.tolist()  # type: ignore[no-any-return]


def _whole(value: float) -> int | float | None:
    if value != value:
        return None
    return int(value) if value == int(value) else value


def sweep(
    study: str | Record | Study,
    overrides: Sequence[str] = (),
    columns: Sequence[str] = (),
    top: int | None = None,
    by: str | None = None,
    ascending: bool = False,
    executor: Executor | None = None,
) -> Result:
    """Evaluate a study: a path or catalogue name, a mapping of the same form, or one already read.

    Parameters
    ----------
    study : str, dict or Study
        What to evaluate.
    overrides : sequence of str
        ``"key=value"`` as ``--set`` takes them.
    columns : sequence of str
        Columns wanted; all of them if none are named.
    top, by, ascending :
        Only the ``top`` rows with the largest (or smallest) ``by``, the cost model's own if not given.
    executor : concurrent.futures.Executor, optional
        Whose workers share the work; the answer is the same, to the last bit.

    Returns
    -------
    Result
        Rows as columns.

    Raises
    ------
    ConfigError
        Everything wrong with the study, at once.
    InfeasibleError
        If no row is feasible.
    """
    return swept(make_plan(as_study(study, overrides)), columns, top, by, ascending, executor)


def swept(
    plan: Plan, columns: Sequence[str] = (), top: int | None = None, by: str | None = None, ascending: bool = False,
    executor: Executor | None = None,
) -> Result:  # fmt: skip
    """Evaluate a plan (see `sweep`)."""
    wanted = check_columns(plan, columns)
    stream = stream_rows(plan, wanted, top, by, ascending, executor=executor)
    parts = list(stream)
    stream.check()
    return Result({name: np.concatenate([part.columns[name] for part in parts]) for name in wanted}, meta(plan))


def stream_rows(
    plan: Plan,
    wanted: Sequence[str],
    top: int | None = None,
    by: str | None = None,
    ascending: bool = False,
    progress: Progress | None = None,
    executor: Executor | None = None,
    checkpoint: Checkpoint | None = None,
) -> Stream:
    """Return the rows of a plan, all or the best, as a stream of blocks with the wanted columns.

    ``progress`` is told of points that are done, and stops the stream by returning True. ``executor`` shares the work
    out; ``checkpoint`` keeps how far a ranking has come.
    """
    check_size(plan, top)
    needed = tuple(dict.fromkeys((*wanted, FEASIBLE, REASON)))
    asks = any(FEASIBLE in condition.columns for condition in plan.where)
    stream = Stream((), wanted, lambda: why_nothing(plan), any_row=asks)

    def watch(points: int) -> bool:
        stream.interrupted = bool(progress and progress(points))
        return stream.interrupted

    if top is None:
        stream.blocks = row_blocks(plan, needed, watch)
        if executor is not None:
            from comp_comm.sweeps.parallel import shared_rows

            stream.blocks = shared_rows(executor, plan, needed, watch)
        return stream
    by = by or plan.model.ranking
    check_columns(plan, [by])
    if by in (FEASIBLE, REASON, HARDWARE) or (by in FIELDS and FIELDS[by].kind in ("choice", "text")):
        raise ConfigError(f"'{by}' has no largest value; --by takes a column of numbers")
    stream.blocks = ranked_blocks(plan, needed, by, top, ascending, watch)
    if executor is not None or checkpoint is not None:
        from comp_comm.sweeps.parallel import shared_ranking

        stream.blocks = shared_ranking(Ranking(plan, by, top, ascending), needed, watch, executor, checkpoint)
    return stream


def why_nothing(plan: Plan) -> str:
    """Return why there is no row: a condition that no input meets, else the rules that points break."""
    never = [condition.text for condition in plan.where if _meets_nowhere(plan, condition)]
    if never:
        return f"no row passes 'where': {', '.join(never)} {'hold' if len(never) > 1 else 'holds'} at no point"
    broken = "; ".join(sorted(reasons(plan)))
    if plan.where:
        return "no row passes 'where'" + (f" (infeasible points: {broken})" if broken else "")
    return f"no feasible point: {broken}"


def _meets_nowhere(plan: Plan, condition: Condition) -> bool:
    """Return whether a condition on inputs alone fails at every point; False where there are too many to say."""
    if not set(condition.columns) <= set(plan.grid.names):
        return False
    lengths = [len(plan.grid.labels(name)) for name in condition.columns]
    if math.prod(lengths) > MOST_COMPARED:
        return False
    whole = tuple(slice(0, n) for n in plan.grid.shape)
    return not condition.holds(lambda name: plan.grid.column(name, whole)).any()


def check_columns(plan: Plan, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns wanted (all if none is named). Raises ``ConfigError`` for an unknown one."""
    known = dict.fromkeys((*plan.columns, *plan.output_columns, *plan.grid.names, *plan.model.fields))
    for name in columns:
        if name not in known:
            raise ConfigError(f"no column is called '{name}'{nearest(name, known)} ({one_of(plan.columns)}; "
                              "others: 'compcomm columns')")  # fmt: skip
    return tuple(dict.fromkeys(columns)) or plan.columns


def check_size(plan: Plan, top: int | None) -> None:
    """Raise ``ConfigError`` where a grid is too large to be written out, or to be ranked."""
    points = plan.grid.points
    if top is None and points > MAX_ROWS:
        raise ConfigError(f"the grid has {points:,} points, more than the {MAX_ROWS:,} rows that are written out; "
                          "ask for the best of them (--top N --by COLUMN) or give fewer values")  # fmt: skip
    if top is not None and points > MAX_RANKED_POINTS:
        raise ConfigError(f"the grid has {points:,} points; at most {MAX_RANKED_POINTS:,} can be ranked")
    if top is not None and not 1 <= top <= MAX_TOP:
        raise ConfigError(f"--top must be from 1 to {MAX_TOP:,}, not {top}")

"""Rows of a sweep on their way to a file, block by block: made by workers, as Parquet, or gone on with after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import IO, Any

from comp_comm.cli import options
from comp_comm.cli.speech import tell
from comp_comm.durable import resolved
from comp_comm.errors import InfeasibleError
from comp_comm.printable import SPREADSHEET
from comp_comm.records import Record
from comp_comm.report import output
from comp_comm.report.pieces import Form, form_of
from comp_comm.sweeps.engine import block_count
from comp_comm.sweeps.meta import identity as version
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.parallel import pieces
from comp_comm.sweeps.plan import Plan
from comp_comm.sweeps.resume import RowFile
from comp_comm.sweeps.stream import Piece, Stream

PARQUET = "parquet"


def write_pieces(
    out: IO[str], plan: Plan, stream: Stream, form: str, progress: options.Progress, executor: Executor | None
) -> None:
    """Write rows that workers have made and encoded; the bytes are those of one process."""
    about = form_of(form, stream.wanted, meta(plan))
    out.write(about.heading.decode())
    for piece in about.joined(_made(plan, stream, about, progress, executor)):
        output.write_shown(out, piece.content)
    out.write(about.ending({"interrupted": True} if stream.interrupted else {}).decode())


def _made(
    plan: Plan, stream: Stream, about: Form, progress: options.Progress, executor: Executor | None, start: int = 0
) -> Iterator[Piece]:
    """Yield the blocks from number ``start`` on, until Ctrl-C; each counts as done when the next is asked for."""
    left = block_count(plan) - start
    for piece in stream.counted(pieces(plan, stream.wanted, about.encode, executor, start)):
        yield piece
        left -= 1
        if progress(piece.points) and left:
            stream.interrupted = True
            return


def write_parquet(
    plan: Plan, stream: Stream, path: str, form: str, progress: options.Progress, executor: Executor | None
) -> int:
    """Write rows, all or the best, as Parquet; return the exit code."""
    from comp_comm.report import parquet

    about = form_of(form, stream.wanted, meta(plan))
    with output.open_whole(path, lambda: stream.interrupted) as target:
        with progress:
            parquet.write_blocks(target, about.heading, (about.encode(block) for block in stream))
        progress.finish()
        stream.check()
    return options.ended(path, stream.interrupted)


def identity(plan: Plan, wanted: tuple[str, ...]) -> Record:
    """Return what decides the rows of a sweep."""
    about = meta(plan)
    return {"version": version()["version"], "study_sha256": about["study_sha256"], "columns": list(wanted),
            "grid": list(plan.grid.shape), "blocks": block_count(plan)}  # fmt: skip


def resume_rows(
    plan: Plan, stream: Stream, path: str, form: str, progress: options.Progress, executor: Executor | None
) -> int:
    """Write rows beside a manifest of them, after those that are there; return the exit code."""
    about, target = form_of(form, stream.wanted, meta(plan)), resolved(path)
    known = {**identity(plan, tuple(stream.wanted)), "format": form}
    if SPREADSHEET.get():
        known["spreadsheet"] = True
    rows = RowFile(target, Path(output.partial_path(str(target))), known, about.heading)
    if rows.finished:
        rows.discard()
        return 0
    try:
        _append(rows, plan, stream, about, progress, executor)
        if stream.interrupted:
            tell(f"interrupted: what was done is in {rows.partial}; the same call goes on with it")
            return options.INTERRUPTED
        try:
            stream.check()
        except InfeasibleError:
            rows.discard()
            raise
        rows.finish(about.ending({}), _assemble(form))
    finally:
        rows.close()
    return 0


def _append(
    rows: RowFile, plan: Plan, stream: Stream, about: Form, progress: options.Progress, executor: Executor | None
) -> None:
    start = rows.done
    if start.blocks:
        stream.rows, stream.feasible = start.rows, start.feasible
        options.note([] if progress.quiet else [f"going on after {start.rows:,} rows that are in {rows.partial}"])
        progress.points -= int(plan.grid.points * start.blocks / block_count(plan))  # about: blocks differ in size
    with progress:
        for piece in about.joined(_made(plan, stream, about, progress, executor, start.blocks), start.rows):
            rows.append(piece)
    progress.finish()


def _assemble(form: str) -> Any:
    if form != PARQUET:
        return None
    from comp_comm.report import parquet

    return parquet.assemble

"""Options of long work: who does it, and whether it is gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from comp_comm.cli.speech import tell
from comp_comm.errors import ConfigError
from comp_comm.report import output

if TYPE_CHECKING:
    from concurrent.futures import Executor

Command = TypeVar("Command", bound=Callable[..., Any])
# Points that pay for starting two processes, which takes 0.2 s of a CPU each: rows written, and rows ranked.
ENOUGH_ROWS, ENOUGH_RANKED = 500_000, 30_000_000
# A search that is shared does two to six times the work: what one worker found does not spare the others theirs.
ENOUGH_LAYOUTS, FEWEST_SEARCHERS = 30_000_000, 6


def options(command: Command) -> Command:
    """Add ``--jobs``, ``--executor`` and ``--resume`` to a command."""
    for decorate in (
        click.option("--resume", is_flag=True, help="With -o FILE: keep what is done in FILE.manifest and a partial "
                     "file, and go on with what an ended run left there."),
        click.option("--executor", metavar="NAME", help="Who works: processes of this machine, dask:tcp://HOST:PORT "
                     "(extra dask), or mpi (extra mpi). [default: processes]"),
        click.option("--jobs", "-j", type=int, metavar="N", help="Share the work among N processes, where that is "
                     "faster. [default: 1]"),
    ):  # fmt: skip
        command = decorate(command)
    return command


def check_resume(path: str | None) -> None:
    """Raise ``ConfigError`` where there is no file to go on with."""
    if path is None or path == "-" or output.is_special(path):
        raise ConfigError("--resume goes with -o FILE, which it keeps what is done beside")


class Workers:
    """The executor that was asked for: by its name, to be used; by ``--jobs`` alone, where it helps."""

    def __init__(self, executor: Executor | None, always: bool, jobs: int, quiet: bool) -> None:
        self.executor, self.always, self.jobs, self.quiet = executor, always, jobs, quiet

    def of(self, points: int, enough: int, fewest: int = 2) -> Executor | None:
        """Return the executor for so many points; None where they are too few for it, which is said once."""
        if self.executor is None or self.always or (points >= enough and self.jobs >= fewest):
            return self.executor
        if not self.quiet:
            tell(f"note: --jobs {self.jobs} is not used: one process is sooner done with {points:,} points "
                 "(--executor processes shares them all the same)")  # fmt: skip
        self.quiet = True
        return None


@contextmanager
def opened(name: str | None, jobs: int | None, quiet: bool) -> Iterator[Workers]:
    """Give the workers asked for; nothing is imported where this process does the work itself."""
    if name is None and jobs in (None, 1):
        yield Workers(None, False, 1, quiet)
        return
    from comp_comm.sweeps.executors import open_executor

    with open_executor(name, jobs) as executor:
        yield Workers(executor, name is not None, jobs or 1, quiet)

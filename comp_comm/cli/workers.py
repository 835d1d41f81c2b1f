"""Options of long work: who does it, and whether it is gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from comp_comm.errors import ConfigError
from comp_comm.report import output

if TYPE_CHECKING:
    from concurrent.futures import Executor

Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Add ``--jobs``, ``--executor`` and ``--resume`` to a command."""
    for decorate in (
        click.option("--resume", is_flag=True, help="With -o FILE: keep what is done in FILE.manifest and a partial "
                     "file, and go on with what an ended run left there."),
        click.option("--executor", metavar="NAME", help="Who works: processes of this machine, dask:tcp://HOST:PORT "
                     "(extra dask), or mpi (extra mpi). [default: processes]"),
        click.option("--jobs", "-j", type=int, metavar="N", help="Share the work among N processes. [default: 1]"),
    ):  # fmt: skip
        command = decorate(command)
    return command


def check_resume(path: str | None) -> None:
    """Raise ``ConfigError`` where there is no file to go on with."""
    if path is None or path == "-" or output.is_special(path):
        raise ConfigError("--resume goes with -o FILE, which it keeps what is done beside")


@contextmanager
def opened(name: str | None, jobs: int | None) -> Iterator[Executor | None]:
    """Give the executor asked for; None, and nothing imported, where this process does the work itself."""
    if name is None and jobs in (None, 1):
        yield None
        return
    from comp_comm.sweeps.executors import open_executor

    with open_executor(name, jobs) as executor:
        yield executor

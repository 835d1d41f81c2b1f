"""What is said on standard error, which may be closed or full: never a reason to fail."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar

import click

from comp_comm.printable import visible

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)  # no notes are wanted


def tell(text: str, newline: bool = True) -> None:
    """Write ``text`` to standard error, if anyone can hear it; control characters in it are shown, not obeyed."""
    begin = text[: text.startswith("\r")]  # of a line of progress, which is written over itself
    try:
        click.echo(begin + visible(text[len(begin) :]), err=True, nl=newline)
    except (OSError, ValueError):
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays for the rest of the process

"""What is said on standard error, which may be closed or full: never a reason to fail."""

from __future__ import annotations

import os
import sys

import click


def tell(text: str, newline: bool = True) -> None:
    """Write ``text`` to standard error, if anyone can hear it."""
    try:
        click.echo(text, err=True, nl=newline)
    except (OSError, ValueError):
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays for the rest of the process

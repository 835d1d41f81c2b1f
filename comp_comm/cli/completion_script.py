"""``compcomm completion``: the script that makes a shell complete."""

from __future__ import annotations

import os
from typing import IO

import click
from click.shell_completion import get_completion_class

from comp_comm.cli import help_text, options, values
from comp_comm.cli.main import cli

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm completion bash >> ~/.bashrc | compcomm completion zsh >> "
               "~/.zshrc | compcomm completion fish > ~/.config/fish/completions/compcomm.fish")  # fmt: skip
@click.argument("shell", type=values.Word(SHELLS), required=False)
def command(shell: str | None) -> int:
    """Print what makes a shell complete commands, flags, names of the catalogue, words of fields, and columns.

    SHELL is the one you run, if not given. The --set KEY=VALUE is completed on both sides of its '='.
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", "bash"))
    made = get_completion_class(chosen if chosen in SHELLS else "bash")
    if made is None:
        raise click.UsageError(f"no completion for {chosen}")
    script = made(cli, {}, "compcomm", "_COMPCOMM_COMPLETE").source()

    def write(out: IO[str]) -> None:
        out.write(script + "\n")

    return options.write(None, write)

"""The command ``compcomm``: finds its commands, and turns errors into one message and an exit code."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from comp_comm.cli.speech import QUIET, tell
from comp_comm.errors import CompcommError, nearest
from comp_comm.printable import SPREADSHEET
from comp_comm.version import __version__

# Module and short help of each command: read without importing any of them, so that --help is fast.
COMMANDS = {
    "sweep": ("comp_comm.cli.sweep", "Evaluate a study: communication shares over every axis it names."),
    "explain": ("comp_comm.cli.explain", "One training step, operation by operation: what it takes, what binds."),
    "memory": ("comp_comm.cli.memory", "What a device has to hold in a training step, by part."),
    "compare": ("comp_comm.cli.compare", "Two training steps side by side, term by term."),
    "search": ("comp_comm.cli.search", "The best layouts of a model on so many devices: every one is evaluated."),
    "trace": ("comp_comm.cli.trace", "The modelled step as a timeline: a trace for Perfetto, an SVG of the pipeline."),
    "report": ("comp_comm.cli.report", "A study as one HTML page: tables, plots, assumptions, sources, an explorer."),
    "volume": ("comp_comm.cli.volume", "Bytes a device sends in a training step: by group, message and size."),
    "case-study": ("comp_comm.cli.case_study", "The paper's Fig 12: serialized and overlapped communication together."),
    "edge": ("comp_comm.cli.edge", "Compute's edge over communication for published models, hardware aside."),
    "required-tp": ("comp_comm.cli.required_tp", "The tensor-parallel degree a model needs to fit (Eq 10)."),
    "solve": ("comp_comm.cli.solve", "The inverse question: the value of a field at which a column meets a target."),
    "reproduce": ("comp_comm.cli.reproduce", "Other papers' published values beside ours, by their own models."),
    "trends": ("comp_comm.cli.trends", "What Comp-vs-Comm foresaw, and what devices and models became to 2026."),
    "calibrate": ("comp_comm.cli.calibrate", "A profile's timing from logs of kernels and collectives; its error."),
    "validate": ("comp_comm.cli.validate", "Published training runs, or your own, predicted and compared."),
    "measure": ("comp_comm.cli.measure", "Time kernels and collectives of this machine, for calibrate."),
    "project": ("comp_comm.cli.project", "Other sizes from one measured iteration: each operator by its own law."),
    "hardware": ("comp_comm.cli.hardware", "List, show, check and compare hardware profiles."),
    "models": ("comp_comm.cli.models", "List and show models: parameters, dimensions, sources."),
    "import": (
        "comp_comm.cli.import_",
        "Make a study of a file you hold: config.json, launch script, NeMo, torchtitan...",
    ),
    "studies": ("comp_comm.cli.studies", "List the catalogue's studies: what each is about."),
    "init": ("comp_comm.cli.init", "Write a study with a comment at every line, to begin with."),
    "schema": ("comp_comm.cli.schema", "JSON Schema of studies, profiles and models, for editors."),
    "columns": ("comp_comm.cli.columns", "What every field and every column means."),
    "completion": ("comp_comm.cli.completion_script", "What makes your shell complete names, flags and values."),
}


EXAMPLES = (
    "compcomm explain --model llama-3-8b --hardware h100 --gpus 64 --tp 8 --global-batch 256",
    "compcomm search --model llama-3-70b --hardware h100 --gpus 64 --batch-tokens 4M --per tp --compare",
    "compcomm search --model llama-3-8b --hardware h100 --gpus 512,1024,2048 --global-batch 512 --crossover comm=10%",
    "compcomm sweep --model llama-3-8b --hardware h100 --gpus 64 --global-batch 256 --tp 1..8*2",
    "compcomm solve llama-step --target mfu=0.5 --for network",
    "compcomm case-study",
)

# Commands that multiply large matrices. For the others the threads that OpenBLAS starts as NumPy is imported are of no
# use, and a fifth of that import on two cores.
MULTIPLIES = ("calibrate", "measure", "validate")
THREADS = "OPENBLAS_NUM_THREADS"

# New objects before the collector looks for circles (of Python's 700): start and tables make many objects, and hardly
# a circle, so that looking as often as that is a tenth of a short command.
OBJECTS = 200_000

# A group without a command: click 8.2 and later raise this, earlier ones print the help themselves.
NO_ARGUMENTS: tuple[type[click.ClickException], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their importance."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; fail with the nearest name for an unknown one."""
        if cmd_name not in COMMANDS:
            raise click.UsageError(f"no command is called '{cmd_name}'{nearest(cmd_name, COMMANDS)}", ctx)
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one example a line (see `comp_comm.cli.help_text`, which is not imported for this: --help is fast)."""
        formatter.write("\nExamples:\n" + "".join(f"  {line}\n" for line in EXAMPLES))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' short helps without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "--version", prog_name="compcomm")
def cli() -> None:
    """How much of a transformer's training time goes to communication, today and on the hardware to come."""


class TerminatedError(BaseException):
    """SIGTERM came: unwind, so that unfinished files are removed."""


def _terminate(*_: object) -> None:
    raise TerminatedError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a check failed, 2 wrong input, 3 nothing feasible, 130 interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    gc.set_threshold(OBJECTS)
    if not set(MULTIPLIES).intersection(sys.argv[1:2] if arguments is None else arguments[:1]):
        os.environ.setdefault(THREADS, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter gets its escape
            stream.reconfigure(errors="backslashreplace")
    code = run(arguments)
    if code == 130:
        # CPython remembers a Ctrl-C that met code made from text (the methods of a dataclass), caught or not, and ends
        # `python -m` by the signal, whatever the code; it forgets with the next such code that comes to its end.
        exec("")
    gc.freeze()  # Python looks for circles once more at its end: in what goes away with it anyway
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error a user can cause is one message on stderr."""
    SPREADSHEET.set(False)
    QUIET.set(False)
    try:
        result: object = cli.main(args=None if arguments is None else list(arguments), standalone_mode=False)
    except CompcommError as error:
        return _say(str(error), error.exit_code)
    except NO_ARGUMENTS as error:
        tell(error.format_message())
        return 2
    except click.NoSuchOption as error:
        from comp_comm.cli.help_text import no_such_option

        return _say(no_such_option(error), 2)
    except click.UsageError as error:
        usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""
        hint = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
        return _say(f"{error.format_message()}{hint}", 2, usage)
    except click.ClickException as error:
        return _say(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", 130)
    except TerminatedError:
        return 143
    except SystemExit:
        # How click ends where the reader went away (head, a pager), after making the streams safe to close: no error.
        return 0
    except MemoryError:
        return _say("this takes more memory than there is here: ask for less (fewer points, smaller shapes)", 2)
    except OSError as error:
        return _say(f"{error.filename or 'output'}: {error.strerror}", 2)
    return result if isinstance(result, int) else 0


def _say(message: str, code: int, usage: str = "") -> int:
    tell(f"{usage}Error: {message}" if code != 130 else message)
    return code

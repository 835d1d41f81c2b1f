"""Options that commands share, and the one way an answer is written."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from comp_comm.cli import completion, help_text, values
from comp_comm.cli.speech import QUIET, tell
from comp_comm.configs import catalogue
from comp_comm.configs.overrides import Override, parse_override
from comp_comm.configs.strict_yaml import load_value
from comp_comm.configs.study import Study, load_study, study_from
from comp_comm.configs.study_title import plain_title
from comp_comm.costmodels import default_model
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.printable import SPREADSHEET
from comp_comm.records import Record
from comp_comm.report import output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Command = TypeVar("Command", bound=Callable[..., Any])
INTERRUPTED = 130
STUDY_OPTIONS = ("study", "overrides", "hardware", "model", "batch_tokens")  # what `point_options` adds beside fields
SPREADSHEET_HELP = "In CSV, put an apostrophe before text that a spreadsheet would run (=, +, -, @ first)."


def _mark_formulas(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    SPREADSHEET.set(value)


def format_options(command: Command, more: Sequence[str] = ()) -> Command:
    """Add ``--format``, ``-o`` and ``--spreadsheet`` to a command; ``more`` are formats of its own."""
    file_help = "Write to FILE, whole or not at all; the format is its extension's."
    for decorate in (
        click.option("-o", "--output", "path", metavar="FILE", help=file_help),
        click.option("--spreadsheet", is_flag=True, expose_value=False, callback=_mark_formulas, help=SPREADSHEET_HELP),
        click.option("--format", "form", type=values.Word([*output.FORMATS, *more]), help="[default: table]"),
    ):
        command = decorate(command)
    return command


def quiet_option(command: Command) -> Command:
    """Add ``--quiet`` to a command whose notes are all that it says beside its answer."""
    return click.option("--quiet", "-q", is_flag=True, expose_value=False, help="No notes on stderr.",
                        callback=lambda _ctx, _param, value: QUIET.set(value))(command)  # fmt: skip


def prepare(form: str | None, path: str | None, more: Sequence[str] = ()) -> str:
    """Begin a command: return the format of its answer, and refuse an output that cannot be written."""
    catalogue.FILES_READ.clear()
    form = output.choose_format(form, path, more)
    output.check_writable(path)
    return form


def set_option(command: Command) -> Command:
    """Add ``--set KEY=VALUE`` to a command."""
    help_text = ("Give a field a value, or an axis ([4, 8]); also hardware, model, cost_model, batch_tokens. May be "
                 "repeated.")  # fmt: skip
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=help_text,
                        shell_complete=completion.settings)(command)  # fmt: skip


def field_options(names: Iterable[str]) -> Callable[[Command], Command]:
    """Add a flag for each field, read and checked by the field table."""

    def add(command: Command) -> Command:
        for name in reversed(list(names)):
            field = FIELDS[name]
            shown, said = help_text.placeholder(field), help_text.meaning(field)
            add_flag = click.option(field.flag, name, metavar=shown, help=said, shell_complete=completion.words(name))
            command = add_flag(command)
        return command

    return add


def model_option(command: Command) -> Command:
    """Add ``--model`` to a command."""
    said = "A model; its dimensions may be changed by other flags."
    return click.option("--model", metavar="NAME|FILE", help=said, shell_complete=completion.names("model"))(command)


def point_options(command: Command, fields: Iterable[str] = default_model().fields) -> Command:
    """Add a study and a flag for each field of a cost model, `complete` if not said: what a point is given by."""
    for decorate in (
        set_option,
        field_options(fields),
        click.option("--batch-tokens", metavar="N", help="tokens of a step, in place of --global-batch: 4M is "
                     "4 x 2^20."),
        model_option,
        click.option("--hardware", metavar="NAME|FILE", help="Hardware profile; several with commas are an axis.",
                     shell_complete=completion.names("hardware")),
        click.argument("study", required=False, shell_complete=completion.names("study")),
    ):  # fmt: skip
        command = decorate(command)
    return command


def point_study(given: Record, hardware: str | None = None) -> Study:
    """Return the study that the options of `point_options` mean; ``hardware`` is what it is on if nothing says so."""
    given = dict(given)
    study, texts = given.pop("study"), given.pop("overrides")
    said = hardware_override(given.pop("hardware"))
    overrides = [parse_override(text) for text in texts]  # before a stray value is taken for a study
    if not study and not (*overrides, *given_flags(**given), *said):
        raise click.UsageError("nothing is asked: give a STUDY ('compcomm studies' lists them), or flags such as "
                               "--model llama-3-8b --hardware h100 --gpus 64", click.get_current_context())  # fmt: skip
    flags = (*overrides, *given_flags(**given), *said)
    if study or not hardware or said or any(each.key == "hardware" for each in overrides):
        return load_study(study, flags) if study else study_from({}, overrides=flags)
    return on_any(study_from({}, overrides=(*flags, *hardware_override(hardware))))


def on_any(study: Study) -> Study:
    """Return a study whose device nobody gave, without its name, and with a note of what is taken from it."""
    if not study.profiles:
        return study
    domain = study.profiles[0].value(f"network.{study.profiles[0].tiers[0]}.domain")
    said = (f"no hardware is given: bytes inside and across domains are of domains of {domain:g} devices, as those of "
            f"{study.profiles[0].name} (--hardware)")  # fmt: skip
    title = plain_title(study.model, (), study.fixed)
    return replace(study, title=title, hardware_assumed=True, notes=(*study.notes, said))


def given_flags(**values: object) -> list[Override]:
    """Return the flags that were given, as overrides of a study."""
    return [Override(name, str(value), f"--{name.replace('_', '-')}") for name, value in values.items()
            if value is not None]  # fmt: skip


def hardware_override(text: str | None) -> list[Override]:
    """Return what ``--hardware`` gives as an override of a study: one name, or with commas or brackets a list."""
    if text is None:
        return []
    names = [part.strip() for part in text.strip("[] ").split(",")]
    return given_flags(hardware=text if len(names) == 1 and "[" not in text else f"[{', '.join(names)}]")


def plot_option(what: str, flag: str = "--plot", name: str = "picture") -> Callable[[Command], Command]:
    """Add ``--plot FILE`` to a command; ``what`` says what is drawn."""
    text = f"Also draw {what} into FILE (.png, .svg or .pdf), or with - below the table, in characters."
    return click.option(flag, name, metavar="FILE|-", help=text)


def check_picture(picture: str | None, form: str) -> bool:
    """Return whether a picture goes into a file; refuse, before the work, one that cannot be made or written."""
    if picture is None:
        return False
    if picture == "-":
        if form != "table":
            raise ConfigError(f"--plot - draws below a table, not in {form}; give a file (.png, .svg, .pdf)")
        return False
    from comp_comm.report.plot import check_plot

    check_plot(picture)
    return True


def draw(picture: str, figure: Figure, meta: Record) -> None:
    """Write a picture into its file, and say so."""
    from comp_comm.report.picture import write_figure

    write_figure(picture, figure, meta)
    tell(f"wrote {picture}")


class Progress:
    """Points done, on stderr, once a second has passed; plain lines where stderr is no terminal.

    Between its ``with`` lines a first Ctrl-C asks for a stop, which the engine obeys after its block; a second one
    interrupts at once.
    """

    def __init__(self, points: int, quiet: bool = False, label: str = "") -> None:
        self.points, self.quiet, self.label, self.done = points, quiet, label, 0
        self.start = self.last = time.monotonic()
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.shown = self.stop = False

    def __enter__(self) -> Progress:
        self.before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self.before)

    def _interrupt(self, *_: object) -> None:
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True

    def __call__(self, points: int) -> bool:
        """Count points as done; return whether to stop."""
        self._show(points)
        return self.stop

    def _show(self, points: int) -> None:
        self.done += points
        now = time.monotonic()
        wait = 0.2 if self.terminal else 10.0
        whole = not self.shown and self.done >= self.points  # nobody waits any more
        if self.quiet or whole or now - self.start < 1.0 or (self.shown and now - self.last < wait):
            return
        self.last, self.shown = now, True
        rate = self.done / (now - self.start)
        share, many = 100 * self.done / self.points, f"{self.done:,} of {self.points:,} points"
        speed = f"{rate / 1e6:.1f} M/s" if rate >= 1e6 else f"{rate / 1e3:.3g} K/s"
        text = f"{self.label}{share:5.1f} %  {many}  {speed}"
        tell(f"\r{text}" if self.terminal else text, newline=not self.terminal)

    def finish(self) -> None:
        """End the line that shows progress on a terminal."""
        if self.shown and self.terminal:
            tell("")


def write(path: str | None, writer: Callable[[IO[str]], None], interrupted: Callable[[], bool] = output.never) -> int:
    """Write an answer to ``path`` or standard output; return the exit code.

    An answer that was interrupted goes to ``NAME.partial.EXT`` instead, so that it never passes for a whole one.
    """
    output.LEFT_OUT.set(())
    with output.open_output(path, interrupted) as out:
        writer(out)
    left_out = output.LEFT_OUT.get()
    if left_out:
        note([f"COLUMNS leaves no room for {', '.join(left_out)}: unset it for whole tables, or give --format csv"])
    return ended(path, interrupted())


def ended(path: str | None, interrupted: bool) -> int:
    """Say where an interrupted answer is, or clear away what an earlier one left; return the exit code."""
    if not interrupted:
        forget_partial(path)
        return 0
    special = path is None or path == "-" or output.is_special(path)
    tell(f"interrupted: what was done is {'above' if special or path is None else 'in ' + output.kept_at(path)}")
    return INTERRUPTED


def forget_partial(path: str | None) -> None:
    """Remove what an interrupted run left beside an answer that is whole now."""
    removed = output.forget_partial(path)
    if removed:
        tell(f"note: removed {removed}, left by an interrupted run")


def note(messages: Iterable[str]) -> None:
    """Say on stderr what a reader should know, unless ``--quiet`` is given."""
    for message in () if QUIET.get() else messages:
        tell(f"note: {message}")


@contextlib.contextmanager
def naming(flag: str) -> Iterator[None]:
    """Say which flag a wrong value came from."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None


def parse_number(text: str) -> float:
    """Return a finite number. Raises ``ValueError`` for anything else."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"must be a finite number, not {text}")
    return number


def check_finite(flag: str, values: Iterable[float]) -> None:
    """Raise ``ConfigError`` where a flag was given NaN or infinity."""
    for value in values:
        if not math.isfinite(value):
            raise ConfigError(f"{flag}: must be a finite number, not {value}")


def parse_field(name: str, text: str) -> Any:
    """Return a flag's text as a value of the field it is named after."""
    with naming(FIELDS[name].flag):
        return FIELDS[name].parse(load_value(text, FIELDS[name].flag, name).data[name])

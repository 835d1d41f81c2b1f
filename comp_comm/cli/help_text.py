"""Help that helps: flags in groups, each with its choices and default; the usual ones, or with --help-all all."""

from __future__ import annotations

from typing import Any

import click

from comp_comm.cli.given_twice import refuse_one_file, refusing_twice
from comp_comm.costmodels import COST_MODELS
from comp_comm.errors import nearest, one_of
from comp_comm.field import Field
from comp_comm.fields import FIELDS
from comp_comm.other_names import nearest_name

SECTIONS = ("What is asked", "Model", "Layout", "Precision", "Hardware", "What-if", "Conventions", "Output", "Work")
OF_GROUP = {"transformer": "Model", "layout": "Layout", "evolution": "Hardware", "convention": "Conventions"}
OF_FIELD = {
    **dict.fromkeys(("comm_offload", "in_network_reduction", "in_memory_reduction", "fused_comm", "fused_tiles",
                     "inter_node_slowdown", "interference"), "What-if"),
    **dict.fromkeys(("timing", "sustained", "framework_gib"), "Hardware"),
}  # fmt: skip
OF_OPTION = {
    **dict.fromkeys(("form", "path", "spreadsheet", "picture", "plot", "columns", "long_form", "quiet", "emit",
                     "elapsed", "help", "_click_default_help", "help_all", "version"), "Output"),
    **dict.fromkeys(("jobs", "executor", "resume"), "Work"),
    "hardware": "Hardware", "model": "Model", "batch_tokens": "Layout",
}  # fmt: skip
# The flags that most questions need; the others are there with --help-all.
USUAL = ("hidden", "layers", "heads", "vocab", "seq_len", "gpus", "global_batch", "micro_batch", "tp", "pp", "vpp",
         "cp", "ep", "dp", "zero", "recompute", "sp", "precision", "flop_vs_bw", "network", "scale_out", "nvs",
         "tokens", "interference", "timing", "stack")  # fmt: skip
OF_A_STUDY = ("model", "hardware", "cost_model", "batch_tokens")  # what --set takes beside fields
SAID_BY_OTHERS = ("overrides", "set_a", "set_b", "price_per_gpu_hour", "watts", "batch_tokens")  # which value is wanted
SHORTEST = 12  # with fewer fields than this, all of them are usual
LONGEST = 36  # of choices in a flag's placeholder; more are listed after its meaning


class Grouped(click.Command):
    """A command whose help has groups, one example a line, and a longer form where it has many flags."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with ``--help-all`` where there is more to show."""
        shown = super().get_params(ctx)
        return [*shown, HELP_ALL] if self._hidden() else shown

    def make_parser(self, ctx: click.Context) -> Any:
        """Return the parser, which refuses a flag of one value that is given twice (click takes the last)."""
        parser: Any = super().make_parser(ctx)
        parser.parse_args = refusing_twice(self, ctx, parser.parse_args)
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments; refuse what was given as an empty text, as a variable of a shell that is not set."""
        left = super().parse_args(ctx, args)
        may_be_empty = {*FIELDS, *SAID_BY_OTHERS}
        for each in self.params:
            given = ctx.params.get(str(each.name))
            texts = given if isinstance(given, tuple) else (given,)
            if each.name not in may_be_empty and any(isinstance(t, str) and not t.strip() for t in texts):
                option = isinstance(each, click.Option)
                flag = "/".join(each.opts) if option else each.human_readable_name.strip("[].")
                raise click.UsageError(f"{flag} is empty: give it a value, or leave it out", ctx)
        if not ctx.resilient_parsing:
            refuse_one_file(self, ctx.params)
        return left

    def _hidden(self) -> list[click.Parameter]:
        fields = [each for each in self.params if isinstance(each, click.Option) and each.name in FIELDS]
        return [each for each in fields if each.name not in USUAL] if len(fields) >= SHORTEST else []

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags by group."""
        hidden = [] if ctx.meta.get("help_all") else self._hidden()
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in SECTIONS}
        for each in self.get_params(ctx):
            record = None if each in hidden else each.get_help_record(ctx)
            if record is not None:
                groups[section_of(str(each.name))].append(record)
        for name, rows in groups.items():
            if rows:
                with formatter.section(name):
                    formatter.write_dl(rows)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{len(hidden)} more flags, one for each field of a study: --help-all shows them, "
                                 "'compcomm columns WORD' looks for one.")  # fmt: skip

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one example a line, so that it can be copied."""
        write_examples(self.epilog, formatter)


class Commands(click.Group):
    """A group of commands with such a help."""

    command_class = Grouped

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; fail with the nearest name for an unknown one."""
        known = self.list_commands(ctx)
        if cmd_name not in known:
            raise click.UsageError(f"there is no '{cmd_name}' here{nearest(cmd_name, known)} ({one_of(known)})", ctx)
        return super().get_command(ctx, cmd_name)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one example a line."""
        write_examples(self.epilog, formatter)


def write_examples(epilog: str | None, formatter: click.HelpFormatter) -> None:
    """Write examples, a line each, none of them broken.

    >>> formatter = click.HelpFormatter()
    >>> write_examples("Examples: compcomm edge | compcomm studies", formatter)
    >>> print(formatter.getvalue())
    <BLANKLINE>
    Examples:
      compcomm edge
      compcomm studies
    <BLANKLINE>
    """
    if epilog:
        _, _, examples = epilog.partition(": ")
        lines = examples.split(" | ")
        title = "Examples" if len(lines) > 1 else "Example"
        formatter.write(f"\n{title}:\n" + "".join(f"  {line}\n" for line in lines))


def no_such_option(error: click.NoSuchOption) -> str:
    """Return what to say of a flag that is none: the nearest that the command has, by what other tools call it."""
    known = error.ctx.command.get_params(error.ctx) if error.ctx else []
    flags = {
        name.lstrip("-"): name for each in known for name in (*each.opts, *each.secondary_opts) if name[:2] == "--"
    }
    given = error.option_name.lstrip("-")
    hint = nearest_name(given, [name.replace("-", "_") for name in flags]) or nearest_name(given, list(flags))
    field = given.replace("-", "_")
    if "set" in flags and field in (*FIELDS, *OF_A_STUDY):
        hint = f"; --set {field}=VALUE gives it"
    for name, flag in flags.items():
        hint = hint.replace(f"'{name.replace('-', '_')}'", f"'{flag}'").replace(f"'{name}'", f"'{flag}'")
    path = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
    return f"no option is called '{error.option_name}'{hint}{path}"


def section_of(name: str) -> str:
    """Return the group that a flag is shown in.

    >>> section_of("tp"), section_of("comm_precision"), section_of("path"), section_of("target")
    ('Layout', 'Precision', 'Output', 'What is asked')
    """
    if name in OF_OPTION:
        return OF_OPTION[name]
    if name not in FIELDS:
        return "What is asked"
    if name.endswith("precision"):
        return "Precision"
    return OF_FIELD.get(name, OF_GROUP[FIELDS[name].group])


def placeholder(field: Field) -> str:
    """Return what stands for a field's value in help: its choices, or the kind of number.

    >>> placeholder(FIELDS["sp"]), placeholder(FIELDS["tp"]), placeholder(FIELDS["network"])
    ('off|on', 'N', 'X')
    """
    if field.kind in ("int", "float"):
        return "N" if field.kind == "int" else "X"
    words = "|".join(field.words)
    return words if field.words and len(words) <= LONGEST else "NAME" if field.kind == "choice" else "TEXT"


def meaning(field: Field) -> str:
    """Return a field's help, with the choices that its placeholder has no room for, and its default."""
    text = field.help
    if field.kind == "choice" and field.words and placeholder(field) == "NAME":
        said = field.allowed() if field.choice is not None and field.choice.allowed() else ", ".join(field.words)
        text += f" (one of: {said.removeprefix('one of: ')})"
    model = next((each for each in COST_MODELS.values() if field.name in each.fields), None)
    default = model.default(field.name) if model else None
    shown = f"{default:g}" if isinstance(default, float) else default
    return text + "." + (f" [default: {shown}]" if default is not None else "")


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta["help_all"] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


HELP_ALL = click.Option(["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_show_all,
                        help="Show all flags and exit.")  # fmt: skip

"""The command of a script that starts training: what launches it, the program, its arguments.

Whose training it is, a `Sought` says: the arguments that tell its command from others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from comp_comm.configs.importers import scheduler
from comp_comm.configs.importers.shell import Shell
from comp_comm.configs.importers.shell_commands import RUNNERS
from comp_comm.configs.importers.shell_machine import Command
from comp_comm.configs.importers.shell_scope import HOLDS_FLAGS, UNDECIDED, ShellLimitError, items, readable
from comp_comm.errors import ConfigError, Problem

ARGUMENT = re.compile(
    r"--(?:num[-_]layers|hidden[-_]size|num[-_]attention[-_]heads|tensor[-_]model[-_]parallel[-_]size)(?![-_\w])"
)
PRINTERS = ("echo", "printf", "cat", "tee", "log", "print", "grep", "sed")
# Flags of what starts a process on each device; the program comes after them.
STARTERS = (
    "--nproc_per_node", "--nproc-per-node", "--nnodes", "--node_rank", "--node-rank", "--master_addr", "--master-addr",
    "--master_port", "--master-port", "--rdzv_id", "--rdzv-id", "--rdzv_backend", "--rdzv-backend", "--rdzv_endpoint",
    "--rdzv-endpoint", "--rdzv_conf", "--rdzv-conf", "--max_restarts", "--max-restarts", "--tee", "--redirects",
    "--log_dir", "--log-dir", "--local_addr", "--local-addr", "--num_gpus", "--num_nodes", "--hostfile", "--standalone",
)  # fmt: skip
NO_VALUE = ("--standalone",)


@dataclass(frozen=True)
class Sought:
    """What the command is known by that starts training: an argument, matched at its beginning, and whose it is."""

    argument: re.Pattern[str]
    owner: str
    example: str = "a list of its arguments alone"

    def has(self, text: str) -> bool:
        """Return whether such an argument is anywhere in a text."""
        return self.argument.search(text) is not None

    def is_one(self, word: str) -> bool:
        """Return whether a word is such an argument."""
        return self.argument.match(word) is not None


MEGATRON = Sought(ARGUMENT, "Megatron-LM")


@dataclass(frozen=True)
class Launch:
    """How a script starts training, and what it says beside that.

    ``launcher`` are the words before the program, those of outer commands first; ``others`` the arguments of further
    commands of the same kind, with their lines; ``unused`` variables that hold arguments which no command is given.
    """

    launcher: list[str]
    program: str
    arguments: list[str]
    line: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    job: scheduler.ClusterJob = field(default_factory=scheduler.ClusterJob)
    others: list[tuple[int, list[str]]] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def notes(self, starts: str = "training") -> list[str]:
        """Return what is said where there are further commands: which one is imported, and what the others start."""
        if not self.others:
            return []
        others = ", ".join(str(line) for line in sorted({line for line, _ in self.others})[:6])
        return [f"the command of line {self.line} is imported; line {others} starts {starts}, too"]


def find_launch(text: str, file: str, sought: Sought = MEGATRON) -> Launch:
    """Return the command of a script that has the arguments that are sought; of a bare list, the arguments.

    Raises ``ConfigError`` where the script starts none, or makes more of itself than is read.
    """
    shell = Shell()
    try:
        shell.run(text)
        _given_commands(shell, sought)
        starting = _started(shell, sought)
        bare = [command for command in shell.started if command.words[0].startswith("-")]
        if not starting and len(bare) == len(shell.started) and bare:
            return _with(shell, [], "", [word for command in bare for word in command.words], bare[0].line)
        if not starting:
            shell.run_rest()
            starting = _started(shell, sought)
    except ShellLimitError as error:
        raise ConfigError([Problem(f"{error}: it is not gone through to its end", file=file)]) from None
    except RecursionError:
        raise ConfigError([Problem("is nested too deeply to be read as a script", file=file)]) from None
    if not starting and not shell.flaws and (held := _held_alone(shell, sought)):
        return _with(shell, [], "", held, 1)
    if not starting:
        raise ConfigError([*(_flaw(line, what, file) for line, what in shell.flaws), _no_launch(shell, file, sought)])
    return _chosen(shell, starting, sought)


def _flaw(line: int, what: str, file: str) -> Problem:
    return Problem(_not_shell(what), file=file, line=line)


def _not_shell(what: str) -> str:
    shown = readable(what)
    return f"'{shown[:60]}' is not understood as part of a shell script" if shown else (
        "a bracket, a quote or a word is missing to be a shell script")  # fmt: skip


def _given_commands(shell: Shell, sought: Sought) -> None:
    """Go through the texts that programs are given as commands to start (``xpk workload create --command "..."``)."""
    for command in list(shell.started):
        for place, word in enumerate(command.words):
            name, equals, value = word.partition("=")
            text = value if equals else command.words[place + 1] if place + 1 < len(command.words) else ""
            if name == "--command" and sought.has(text):
                shell.within(text, [each for each in command.words if each != word and each != text], command.line)


def _started(shell: Shell, sought: Sought) -> list[Command]:
    """Return the commands with such arguments, but for those that only print or hand on a text."""
    return [command for command in shell.started
            if any(map(sought.is_one, command.words)) and not command.words[0].startswith("-")
            and command.words[0].rsplit("/", 1)[-1] not in (*PRINTERS, *RUNNERS)]  # fmt: skip


def _held_alone(shell: Shell, sought: Sought) -> list[str]:
    """Return the arguments that variables hold of a file that other scripts read: none where two describe a model.

    Those that another variable has taken in already, and those of what starts the program, are left out.
    """
    held = {name: _split(items(value)) for name, value in shell.values.items()}
    models = [words for words in held.values() if any(map(sought.is_one, words))]
    if len(models) != 1:
        return []
    words = list(models[0])
    for more in held.values():
        flags = {_name(word) for word in more if word.startswith("--") and len(word) > 2}
        if flags and not flags & ({_name(word) for word in words} | set(STARTERS)):
            words += more
    return words


def _no_launch(shell: Shell, file: str, sought: Sought) -> Problem:
    """Return that no command starts training, and where the arguments are instead."""
    holding = [f"${name}" for name, value in shell.values.items() if any(map(sought.is_one, _split(items(value))))]
    where = f"; {', '.join(holding[:6])} hold{'s' * (len(holding) == 1)} arguments that no command is given" * bool(
        holding
    )
    remedy = f": import the script that starts training, or {sought.example}"
    return Problem(f"no command of the script is given arguments of {sought.owner}{where}{remedy}", file=file)


def _split(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in word.split()]


def _chosen(shell: Shell, starting: Sequence[Command], sought: Sought) -> Launch:
    """Return the command that is imported: of several the one with the most arguments, the first of those."""
    cut = [(command, *_cut(list(command.words), sought)) for command in starting]
    best = max(
        cut, key=lambda each: (each[0].sure, sum(word.startswith("--") or sought.is_one(word) for word in each[3]))
    )
    command, launcher, program, arguments = best
    others = [(each[0].line, each[3]) for each in cut if each is not best and each[2] == program]
    return _with(shell, [*command.launcher, *launcher], program, arguments, command.line, command.environment, others)


def _with(shell: Shell, launcher: list[str], program: str, arguments: list[str], line: int,
          environment: dict[str, str] | None = None,
          others: list[tuple[int, list[str]]] | None = None) -> Launch:  # fmt: skip
    """Return a launch with what the script says beside it."""
    given = {_name(word) for word in arguments if word.startswith("--")}
    undecided = any(word.startswith(f"{UNDECIDED}{HOLDS_FLAGS}") for word in arguments)
    unused = []
    for name, value in shell.values.items():
        flags = {_name(word) for word in _split(items(value)) if word.startswith("--") and len(word) > 2}
        if (
            flags
            and not flags & given
            and not flags <= set(STARTERS)
            and not flags & {_name(word) for word in launcher}
        ):
            unused.append(name)
    problems = [(flaw.line, _not_shell(flaw.text)) for flaw in shell.flaws]
    if launcher or program:
        problems += [(each.line, f"'{each.words[0]}' begins a command of its own: the one before it ends above, at a "
                      "comment or without a backslash, and is not given it")
                     for each in shell.started if each.words[0].startswith("--")]  # fmt: skip
    texts = {name: value for name, value in shell.values.items() if isinstance(value, str)}
    return Launch(launcher, program, arguments, line, environment or {}, texts, scheduler.directives(shell.directives),
                  others or [], [] if undecided else unused, list(shell.scope.asked), shell.sourced,
                  {name: each.text for name, each in shell.files.items()}, problems)  # fmt: skip


def _name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-")


def _cut(words: list[str], sought: Sought = MEGATRON) -> tuple[list[str], str, list[str]]:
    """Cut a command into what launches the program, the program, and its arguments.

    >>> _cut("torchrun --nnodes 2 pretrain_gpt.py --num-layers 2".split())
    (['torchrun', '--nnodes', '2'], 'pretrain_gpt.py', ['--num-layers', '2'])
    """
    first = next((i for i, word in enumerate(words) if sought.is_one(word)), len(words))
    scripts = [i for i in range(first) if words[i].endswith(".py")]
    modules = [i + 1 for i in range(first - 1) if words[i] == "-m" and "torch.distributed" not in words[i + 1]]
    if scripts or modules:
        place = max(scripts or modules)
        return words[:place], words[place], words[place + 1 :]
    starters = [i for i in range(first) if words[i].partition("=")[0] in STARTERS]
    if not starters:
        return words[:1], "", words[1:]
    last = starters[-1]
    place = last + (1 if "=" in words[last] or words[last] in NO_VALUE else 2)
    return words[:place], "", words[place:]

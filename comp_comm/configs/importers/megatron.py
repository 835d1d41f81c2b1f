"""Arguments of Megatron-LM (or Megatron-DeepSpeed), in a launch script or as a list: model and layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from comp_comm.configs.importers import megatron_layout, megatron_model
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys
from comp_comm.configs.importers.megatron_flags import IGNORED, IGNORED_BEGINNINGS, NOTED
from comp_comm.configs.importers.shell import Shell, split
from comp_comm.configs.importers.shell_words import UNDECIDED, UNSET
from comp_comm.configs.strict_yaml import Document, Path, resolve_scalar
from comp_comm.errors import ConfigError, Problem

KIND = "Megatron-LM arguments"
ARGUMENT = re.compile(
    r"--(?:num[-_]layers|hidden[-_]size|num[-_]attention[-_]heads|tensor[-_]model[-_]parallel[-_]size)(?![-_\w])"
)
DEVICES = ("WORLD_SIZE", "NUM_GPUS", "NGPUS", "N_GPUS", "TOTAL_GPUS")  # what scripts call the number of all devices
_MARKED = re.compile(f"[{UNSET}{UNDECIDED}]([^{UNSET}{UNDECIDED}]*)[{UNSET}{UNDECIDED}]")


class Launch(NamedTuple):
    """How a script starts Megatron-LM: words before the program, its name, its arguments, and devices it names."""

    launcher: list[str]
    program: str
    arguments: list[str]
    devices: str = ""


def is_megatron(text: str) -> bool:
    """Return whether a text has arguments of Megatron-LM.

    >>> is_megatron("python pretrain_gpt.py --num-layers 2"), is_megatron("hidden_size: 2")
    (True, False)
    """
    return ARGUMENT.search(text) is not None


def import_arguments(text: str, file: str, given: Given = NOTHING) -> Imported:
    """Return the study that a launch script, or a list of arguments, describes.

    Raises ``ConfigError`` with every argument that is not understood.

    >>> script = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 2 --bf16"
    >>> found = import_arguments(script, "args.txt")
    >>> found.fields["layers"], found.fields["micro_batch"], found.fields["precision"], found.fields["vocab"]
    (4, 2, 'bf16', 50257)
    """
    try:
        launch = find_launch(text)
    except RecursionError:
        raise ConfigError([Problem("is nested too deeply to be read as a script", file=file)]) from None
    data, loose = parse_arguments(launch.arguments)
    lines: dict[Path, int] = {(flag,): line for flag in data if (line := _line_of(text, flag))}
    f = Findings(Document(data, file, lines), given)
    for name in loose:
        f.missing(f"'${name}' depends on a condition that the script does not decide, and may hold arguments")
    keys = Keys(f, data)
    _unresolved(keys)
    megatron_model.read(keys, f, launch.program)
    megatron_layout.read(keys, f)
    megatron_layout.devices(f, launch.launcher, launch.devices)
    _leave_out(keys, f)
    keys.finish()
    f.problems.raise_if_any()
    name = PurePath(file).stem
    return Imported(KIND, name, name, f"{file} ({KIND})", f.fields, tuple(f.notes))


def find_launch(text: str) -> Launch:
    """Return the command of a script that has Megatron-LM's arguments; of a bare list, the arguments."""
    shell = Shell()
    shell.run(text)
    commands = [split(words) for words in shell.commands]
    started = [words for words in commands if any(map(ARGUMENT.match, words)) and not words[0].startswith("-")]
    devices = next((value for name in DEVICES if isinstance(value := shell.values.get(name), str)), "")
    if started:
        return _cut(max(started, key=lambda words: sum(word.startswith("--") for word in words)), devices)
    listed = [word for words in commands if words[0].startswith("-") for word in words]
    if any(map(ARGUMENT.match, listed)):
        return Launch([], "", listed, devices)
    values = (split(value if isinstance(value, list) else [value]) for value in shell.values.values())
    return Launch([], "", [word for words in values if words and words[0].startswith("--") for word in words], devices)


def _cut(words: list[str], devices: str) -> Launch:
    """Cut a command into what launches the program, the program, and its arguments; redirections are left out."""
    end = next((i for i, word in enumerate(words) if re.match(r"\d*[<>]|&>", word)), len(words))
    words = words[:end]
    place = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    if place is None:
        after = [i + 1 for i, word in enumerate(words[:-1]) if word == "-m"]
        modules = [i for i in after if "torch.distributed" not in words[i]]
        first = next(i for i, word in enumerate(words) if word.startswith("--"))
        place = modules[0] if modules else first - 1
    return Launch(words[:place], words[place], words[place + 1 :], devices)


def parse_arguments(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return arguments by flag, as values (true for a switch), and variables that are left undecided between them.

    Underscores in a flag are dashes; the last of two equal flags counts, as for Megatron-LM. A variable that is not
    set leaves nothing, as for a shell, unless a flag needs it.

    >>> parse_arguments(["--num_layers", "4", "--bf16", "--window-size", "128", "0", "--lr=1e-4"])[0]
    {'--num-layers': 4, '--bf16': True, '--window-size': [128, 0], '--lr': 0.0001}
    """
    data: dict[str, Any] = {}
    loose: list[str] = []
    flag, values = "", []  # type: tuple[str, list[str]]

    def end() -> None:
        if flag:
            plain = [resolve_scalar(value) for value in values]
            data[flag] = True if not plain else plain[0] if len(plain) == 1 else plain

    for word in words:
        if word.startswith("--") and len(word) > 2:
            end()
            name, equals, value = word.partition("=")
            flag, values = name.rstrip(":").replace("_", "-"), [value] if equals else []
        elif word.startswith(f"{UNDECIDED}--"):
            loose.append(word.strip(f"{UNDECIDED}-"))
        elif flag and not (values and _MARKED.fullmatch(word)):
            values.append(word)
        elif word.startswith(UNDECIDED):
            loose.append(word.strip(UNDECIDED))
    end()
    return data, loose


def _unresolved(keys: Keys) -> None:
    """Take values that the script leaves to its caller; those of arguments that matter are named."""
    for flag, value in list(keys.mapping.items()):
        marks = [name for part in (value if isinstance(value, list) else [value]) if isinstance(part, str)
                 for name in _MARKED.findall(part)]  # fmt: skip
        if not marks or _is_ignored(flag) or flag == "--deepspeed-config":
            continue
        field = {**megatron_model.NUMBERS, **megatron_layout.NUMBERS}.get(flag)
        if field is None and isinstance(value, str) and flag in megatron_layout.SWITCHES:
            keys.mapping = {**keys.mapping, flag: True}  # a switch, and then a variable that leaves nothing
            continue
        if field not in keys.findings.given:
            hint = f"; give --set {field}=N" if field else ""
            keys.findings.wrong((flag,), f"'${marks[0]}' is not set in the script{hint}")
        keys.ignore((flag,))
        keys.mapping = {name: kept for name, kept in keys.mapping.items() if name != flag}


def _is_ignored(flag: str) -> bool:
    name = flag.removeprefix("--")
    return name in IGNORED or name in NOTED or name.startswith(IGNORED_BEGINNINGS)


def _leave_out(keys: Keys, f: Findings) -> None:
    left = [flag for flag in keys.mapping if _is_ignored(flag) and flag not in keys.used]
    noted = [flag for flag in left if flag.removeprefix("--") in NOTED]
    if noted:
        f.note(f"not modelled, and left out: {', '.join(noted)}")
    keys.ignore(left)


def _line_of(text: str, flag: str) -> int | None:
    """Return the line an argument is on: the last that is no comment."""
    pattern = re.compile(re.escape(flag[2:]).replace(r"\-", "[-_]"))
    found = [number for number, line in enumerate(text.split("\n"), 1)
             if any(match.start() > 1 and line[match.start() - 2 : match.start()] == "--"
                    and not re.match(r"[-_\w]", line[match.end() : match.end() + 1])
                    for match in pattern.finditer(line.split("#")[0]))]  # fmt: skip
    return found[-1] if found else None

"""Arguments of Megatron-LM (or Megatron-DeepSpeed), in a launch script or as a list: model and layout."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from comp_comm.configs.importers import (
    megatron_hybrid,
    megatron_layout,
    megatron_model,
    megatron_refused,
    megatron_sharding,
    mindspeed,
)
from comp_comm.configs.importers.arguments import flag_of, lines_of, parse_arguments
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.launch import ARGUMENT, Launch, find_launch
from comp_comm.configs.importers.megatron_flags import IGNORED, IGNORED_BEGINNINGS, NOTED
from comp_comm.configs.importers.megatron_programs import refused
from comp_comm.configs.importers.shell_scope import MARK, UNDECIDED, names_in, readable
from comp_comm.configs.strict_yaml import Document, Path, resolve_scalar
from comp_comm.errors import Problem
from comp_comm.fields import FIELDS

KIND = "Megatron-LM arguments"
FIELD_OF = {**megatron_model.NUMBERS, **megatron_layout.NUMBERS}
# Fields that stand in for an argument which is not their value as it is.
INSTEAD = {
    "--num-layers-per-virtual-pipeline-stage": "vpp", "--num-virtual-stages-per-pipeline-rank": "vpp",
    "--decoder-first-pipeline-num-layers": "pp_layout", "--decoder-last-pipeline-num-layers": "pp_layout",
    "--pipeline-model-parallel-layout": "pp_layout", "--moe-token-dispatcher-type": "ep_dispatch",
    "--moe-layer-freq": "moe_every", "--moe-shared-expert-intermediate-size": "shared_ffn_hidden",
    "--recompute-granularity": "recompute", "--recompute-num-layers": "recompute_layers",
    "--cp-comm-type": "cp_comm", "--fp8-format": "precision", "--position-embedding-type": "position",
    "--normalization": "norm", "--attention-backend": "attention_kernel",
}  # fmt: skip
# Arguments that may have several values, which are read as a list.
LISTS = ("--num-experts", "--window-size", "--recompute-modules", "--cp-comm-type", "--moe-layer-freq", "--spec",
         "--pipeline-model-parallel-layout")  # fmt: skip
MOST_SHOWN = 6  # names in a note


def is_megatron(text: str) -> bool:
    """Return whether a text has arguments of Megatron-LM.

    >>> is_megatron("python pretrain_gpt.py --num-layers 2"), is_megatron("hidden_size: 2")
    (True, False)
    """
    return ARGUMENT.search(text) is not None


def fits(data: Mapping[str, object]) -> int:
    """Return how well a mapping fits arguments of Megatron-LM, as those of its functional tests; 0 where it is none."""
    inner = [each for each in (data, *data.values()) if isinstance(each, dict)]
    return 4 if any(ARGUMENT.match(str(key)) for each in inner for key in each) else 0


def import_arguments(text: str, file: str, given: Given = NOTHING) -> Imported:
    """Return the study that a launch script, or a list of arguments, describes.

    Raises ``ConfigError`` with every argument that is not understood.

    >>> script = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 2 --bf16"
    >>> found = import_arguments(script, "args.txt")
    >>> found.fields["layers"], found.fields["micro_batch"], found.fields["precision"], found.fields["vocab"]
    (4, 2, 'bf16', 50257)
    """
    launch = find_launch(text, file)
    data, loose = parse_arguments(launch.arguments)
    lines = lines_of(text)
    known: dict[Path, int] = {(flag,): lines[flag] for flag in data if flag in lines}
    f = Findings(Document(data, file, known), given)
    return import_found(f, launch, loose)


def import_mapping(document: Document, given: Given = NOTHING) -> Imported:
    """Return the study that arguments in a mapping (``MODEL_ARGS`` of Megatron-LM's functional tests) describe.

    >>> sizes = {"--num-layers": 2, "--hidden-size": 64, "--num-attention-heads": 2, "--seq-length": 32}
    >>> import_mapping(Document({"MODEL_ARGS": {**sizes, "--swiglu": True}}, "model_config.yaml")).fields["gated"]
    'on'
    """
    data = document.data
    place = next((key for key, inner in data.items() if isinstance(inner, dict) and _has_arguments(inner)), None)
    inner = data if place is None else data[place]
    path: Path = () if place is None else (place,)
    flags = {flag_of(str(key)): yaml_value(value) for key, value in inner.items()}
    lines: dict[Path, int] = {
        (flag_of(str(key)),): line for key in inner if (line := document.lines.get((*path, str(key))))
    }
    kept = {flag: value for flag, value in flags.items() if value is not None}
    f = Findings(Document(kept, document.file, lines, document.duplicates), given)
    if str(data.get("MODE", "pretraining")) not in ("pretraining", "training"):
        f.wrong((), f"MODE is {shown(data['MODE'])}: another mode than pretraining is not modelled")
    return import_found(f, Launch([], "", []))


def _has_arguments(inner: Mapping[object, object]) -> bool:
    return any(ARGUMENT.match(str(key)) for key in inner)


def yaml_value(value: object) -> object:
    """Return a value as the command line has it: false is a switch that is not given, ``[...]`` is several values."""
    if value is False or value is None:
        return None
    if isinstance(value, str) and (quoted := re.fullmatch(r"\s*(['\"])(.*)\1\s*", value)):  # quoted for a shell, too
        value = resolve_scalar(quoted[2])
    if isinstance(value, str) and re.fullmatch(r"\[[^\]]*\]", value.strip()) and "*" not in value:
        return [resolve_scalar(part.strip("'\"")) for part in re.split(r"[,\s]+", value.strip()[1:-1]) if part]
    return value


def import_found(f: Findings, launch: Launch, loose: Sequence[str] = ()) -> Imported:
    """Return the study of arguments that are found, of the launch of a script or of none. Raises ``ConfigError``."""
    file = f.document.file
    keys = Keys(f, f.document.data)
    refused(keys, launch.program)
    mindspeed.translate(keys, f)
    megatron_refused.refuse(keys)
    f.problems.raise_if_any()  # what is not modelled is the reason; details of it are not understood, either
    _script(f, launch, loose)
    _without_positions(keys)
    _unresolved(keys, launch)
    without_lists(keys)
    megatron_model.read(keys, f, launch.program, megatron_hybrid.length(keys))
    megatron_hybrid.read(keys, f, launch.program)
    megatron_layout.read(keys, f, launch.files)
    megatron_hybrid.stages(keys, f)
    megatron_layout.devices(f, launch)
    megatron_sharding.instances(keys, f)
    leave_out(keys, f)
    keys.finish()
    f.problems.raise_if_any()
    name = PurePath(file).stem
    return Imported(KIND, name, name, f"{file} ({KIND})", f.fields, tuple(f.notes))


def _script(f: Findings, launch: Launch, loose: Sequence[str]) -> None:
    """Name what of a script is no shell, or may hold arguments; say what of it is taken as nothing."""
    for line, message in launch.problems:
        f.problems.add(Problem(message, file=f.document.file, line=line))
    if loose:
        depend = "depends on a condition" if len(loose) == 1 else "depend on conditions"
        names = _listed([f"'${name}'" for name in loose])
        f.missing(f"{names} {depend} that the script does not decide, and may hold arguments")
    _several(f, launch)
    _say(f, launch, names_in(" ".join(word for word in launch.arguments if MARK.fullmatch(word))))


def _several(f: Findings, launch: Launch) -> None:
    """Say which of several commands is imported; one that a loop repeats with other values is asked for them."""
    own, _ = parse_arguments(launch.arguments)
    differing: dict[str, list[object]] = {}
    elsewhere: dict[int, set[str]] = {}
    for line, arguments in launch.others:
        other, _ = parse_arguments(arguments)
        flags = {flag for flag in {*own, *other} if own.get(flag) != other.get(flag) and not is_ignored(flag)}
        if line == launch.line:
            for flag in flags:
                differing.setdefault(flag, [own.get(flag)]).append(other.get(flag))
        elif flags:
            elsewhere.setdefault(line, set()).update(flags)
    for flag, values in differing.items():
        field = FIELD_OF.get(flag)
        if field not in f.given:
            hint = f"; give --set {field}=N" if field else ""
            f.wrong((flag,), f"a loop starts training with several: {', '.join(map(str, values[:MOST_SHOWN]))}{hint}")
    if elsewhere:
        different = sorted({flag for each in elsewhere.values() for flag in each})
        others = ", ".join(map(str, sorted(elsewhere)[:MOST_SHOWN]))
        f.note(f"the command of line {launch.line} is imported; those of line {others} differ in {_listed(different)}")


def _say(f: Findings, launch: Launch, left: Sequence[str]) -> None:
    """Say what of the script is taken as nothing: variables that are not set, and those that no command is given."""
    arguments = [name for name in left if name in ("@", "*")]
    empty = [name for name in dict.fromkeys((*left, *launch.asked)) if name not in ("@", "*", "#") and _is_name(name)]
    if empty:
        f.note(f"not set in the script, and taken as nothing: {_listed([f'${name}' for name in empty])}")
    if arguments:
        f.note("the script passes on the arguments that it is called with: there are taken to be none")
    if launch.unused:
        f.note(f"hold arguments that the command is not given: {_listed([f'${name}' for name in launch.unused])}")


def _is_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*|[0-9]+", name) is not None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_SHOWN]) + (f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else "")


def _without_positions(keys: Keys) -> None:
    """Leave out how many positions there are where none has parameters: rotary ones have no longest."""
    kind = keys.mapping.get("--position-embedding-type")
    if keys.has("--use-rotary-position-embeddings") or kind in ("rope", "yarn", "none", "mrope", "alibi"):
        keys.mapping = {name: value for name, value in keys.mapping.items() if name != "--max-position-embeddings"}


def _unresolved(keys: Keys, launch: Launch) -> None:
    """Take values that the script leaves to its caller; those of arguments that matter are named."""
    read = ", ".join(shown(readable(name)) for name in launch.sourced[:2])
    sourced = f" (it reads {read} first)" if read else ""
    for flag, value in list(keys.mapping.items()):
        parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str)]
        marks = [name for part in parts for name in names_in(part)] or [
            name for part in parts for name in re.findall(r"^\$\{?(\w+)\}?$", part)]  # fmt: skip
        if not marks or is_ignored(flag) or flag in ("--deepspeed-config", "--tokenizer-name-or-path"):
            continue
        field = FIELD_OF.get(flag)
        if field is None and isinstance(value, str) and flag in megatron_layout.SWITCHES:
            keys.mapping = {**keys.mapping, flag: True}  # a switch, and then a variable that leaves nothing
            continue
        instead = field or INSTEAD.get(flag)
        if instead not in keys.findings.given:
            value_of = "WORD" if instead and FIELDS[instead].kind in ("choice", "text") else "N"
            hint = f"; give --set {instead}={value_of}" if instead else ""
            sign = "" if marks[0].startswith(("$", "`")) else "$"
            undecided = any(UNDECIDED in part for part in parts)
            why = (
                "depends on a condition that the script does not decide"
                if undecided
                else f"is not set in the script{sourced}"
            )
            keys.findings.wrong((flag,), f"'{sign}{marks[0]}' {why}{hint}")
            keys.findings.named.add(field or flag)
        keys.ignore((flag,))
        keys.mapping = {name: kept for name, kept in keys.mapping.items() if name != flag}


def without_lists(keys: Keys) -> None:
    """Name arguments with several values that take one."""
    for flag, value in list(keys.mapping.items()):
        if isinstance(value, (list, dict)) and flag not in LISTS and not is_ignored(flag):
            values = ", ".join(shown(part) for part in value) if isinstance(value, list) else "a mapping"
            keys.findings.wrong((flag,), f"takes one value, not {values}")
            keys.mapping = {name: kept for name, kept in keys.mapping.items() if name != flag}


def is_ignored(flag: str) -> bool:
    """Return whether an argument changes nothing of a step, or so little that it is only noted."""
    name = flag.removeprefix("--")
    return name in IGNORED or name in NOTED or name.startswith(IGNORED_BEGINNINGS)


def leave_out(keys: Keys, f: Findings) -> None:
    """Take arguments that change nothing of a step; those that change it by little are noted."""
    left = [flag for flag in keys.mapping if is_ignored(flag) and flag not in keys.used]
    noted = [flag for flag in left if flag.removeprefix("--") in NOTED and not is_off(keys.mapping[flag])]
    if noted:
        f.note(f"not modelled, and left out: {', '.join(noted)}")
    keys.ignore(left)

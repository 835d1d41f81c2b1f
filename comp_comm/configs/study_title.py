"""What a study is called: by its own title, or by what was changed of it, or by what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from comp_comm.configs.model_file import Model
from comp_comm.configs.strict_yaml import Document
from comp_comm.fields import Value
from comp_comm.hardware.profile import Profile

COMMAND_LINE = "command line"  # the name of a study that is flags alone
MOST_CHANGES = 5  # of them a title says


def title_of(
    given: str, file: str, overrides: Mapping[str, Document], model: Model | None, profiles: Sequence[Profile],
    fixed: Mapping[str, Value],
) -> str:  # fmt: skip
    """Return what a study is called: ``given`` where nothing of it was overridden."""
    if not given and file == COMMAND_LINE:
        return plain_title(model, profiles, fixed)
    return changed_title(file, overrides) if overrides else given or file


def changed_title(name: str, overrides: Mapping[str, Document]) -> str:
    """Return the title of a study some of whose values were replaced: its own may no longer be true.

    >>> changed_title("configs/llama-step.yaml", {"tp": Document({"tp": [4, 8]}, ""), "sp": Document({"sp": True}, "")})
    'llama-step with tp=4,8, sp=on'
    """
    said = [f"{key}={_said(document.data[key])}" for key, document in overrides.items()]
    more = [f"and {len(said) - MOST_CHANGES} more"] if len(said) > MOST_CHANGES else []
    known = name.removesuffix(".yaml").removesuffix(".yml")
    shown = known if name.startswith("papers/") else Path(known).name
    return f"{shown} with {', '.join([*said[:MOST_CHANGES], *more])}"


def plain_title(model: Model | None, profiles: Sequence[Profile], fixed: Mapping[str, Value]) -> str:
    """Return the title of a study that has none: its model and its devices.

    >>> plain_title(None, (), {"gpus": 8, "hidden": 4096})
    'H 4096 on 8 devices'
    """
    what = model.title if model else f"H {fixed['hidden']}" if "hidden" in fixed else "A model"
    devices = ", ".join(profile.name for profile in profiles) or "devices"
    return f"{what} on {fixed['gpus']} {devices}" if "gpus" in fixed else f"{what} on {devices}"


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(map(_said, value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_said(each)}" for key, each in value.items()) + "}"
    return str(value)

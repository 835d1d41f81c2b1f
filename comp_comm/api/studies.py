"""Studies and profiles as the verbs take them: a path, a name of the catalogue, a mapping, or one already read.

Fields may be given by name as well, as ``--set`` does: ``explain("llama-step", tp=4)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, TypeAlias

from comp_comm.configs import hardware_file
from comp_comm.configs.study import Study, read_study, study_from
from comp_comm.configs.study import load_study as _load_study
from comp_comm.hardware.profile import Profile

StudyLike: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | Study"


def load_study(study: StudyLike = "", overrides: Sequence[str] = (), **fields: Any) -> Study:
    """Return a study, read and checked as far as it can be without evaluating it.

    Parameters
    ----------
    study : str, path, mapping or Study
        A path, a name of the catalogue, what a study file has as a mapping, or one already read; nothing for a study of
        ``fields`` alone.
    overrides : sequence of str
        ``"key=value"``, as ``--set`` takes them.
    **fields :
        Fields by name, which replace what the study says of them; a list makes an axis. ``batch_tokens`` is a batch in
        tokens in the place of ``global_batch``.

    Raises
    ------
    ConfigError
        For a study that is not there, and a key that is unknown or given twice.

    Examples
    --------
    >>> load_study("llama-step", tp=4).fixed["tp"]
    4
    """
    given = as_overrides(overrides, fields)
    if isinstance(study, Study):
        return read_study(study.document, given) if given else study
    if isinstance(study, Mapping):
        return study_from(dict(study), "study", given)
    name = fspath(study)
    return _load_study(name, given) if name else study_from({}, "study", given)


def as_overrides(overrides: Sequence[str], fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return overrides, and fields that were given by name, as ``--set`` takes them."""
    return (*overrides, *(f"{name}={_text(value)}" for name, value in fields.items()))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return fspath(value) if isinstance(value, PathLike) else str(value)


def load_profile(profile: str | PathLike[str] | Profile) -> Profile:
    """Return a hardware profile: a name of the catalogue, a path, or one already read. Raises ``ConfigError``.

    >>> load_profile("h100-sxm").value("memory.bandwidth")
    3350000000000.0
    """
    return profile if isinstance(profile, Profile) else hardware_file.load_profile(fspath(profile))

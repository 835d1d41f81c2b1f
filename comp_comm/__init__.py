"""compcomm: how much of a transformer's training time goes to communication, today and on the hardware to come.

The verbs of the command line are functions here. Importing costs nothing: each is loaded when it is first used.

>>> import comp_comm as cc
>>> point = {"cost_model": "comp_vs_comm", "set": {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}}
>>> round(cc.sweep(point).to_records()[0]["serialized_comm_fraction"], 3)
0.478
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from comp_comm.version import __version__ as __version__

if TYPE_CHECKING:
    from comp_comm import formulas as formulas
    from comp_comm.api.answers import PointAnswer, Table
    from comp_comm.api.calibrated import CalibratedProfile
    from comp_comm.api.measured import calibrate, validate
    from comp_comm.api.studies import load_profile, load_study
    from comp_comm.api.verbs import case_study, compare, explain, memory, search, solve, sweep, volume
    from comp_comm.errors import CompcommError, ConfigError, InfeasibleError

__all__ = [
    "CalibratedProfile", "CompcommError", "ConfigError", "InfeasibleError", "PointAnswer", "Table", "calibrate",
    "case_study", "compare", "explain", "formulas", "load_profile", "load_study", "memory", "search", "solve", "sweep",
    "validate", "volume",
]  # fmt: skip
_ROOMS = {
    "CalibratedProfile": "api.calibrated", "CompcommError": "errors", "ConfigError": "errors",
    "InfeasibleError": "errors", "PointAnswer": "api.answers", "Table": "api.answers",
    "calibrate": "api.measured", "validate": "api.measured", "load_profile": "api.studies", "load_study": "api.studies",
}  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "formulas":
        return import_module("comp_comm.formulas")
    if name not in __all__:
        raise AttributeError(f"module 'comp_comm' has no attribute '{name}'")
    value: object = getattr(import_module(f"comp_comm.{_ROOMS.get(name, 'api.verbs')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

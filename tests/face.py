"""The face of compcomm that tests of numbers look at: studies in, plain rows out.

What is behind it moves; where a function of it does, this file is the one to change. A study is a mapping as a file has
it. `machine` makes hardware on which a step is one kind of work, so that its seconds can be counted by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from comp_comm.cli.main import run
from comp_comm.configs import catalogue
from comp_comm.configs.study import load_study, study_from
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.fields import FIELDS
from comp_comm.searches import search as _search
from comp_comm.sweeps import point as _point
from comp_comm.sweeps.result import sweep as _sweep
from comp_comm.sweeps.solve import ask, solve
from comp_comm.sweeps.volume import volume as _volume
from comp_comm.sweeps.volume import volume_over
from comp_comm.transformer import Transformer, resolved

GIB = 2.0**30


def named(name, *overrides):
    """Return a study of the catalogue, with fields of it set as ``--set`` does."""
    return load_study(name, overrides)


def named_model(name):
    """Return the fields of a model of the catalogue."""
    return catalogue.read("model", name).data


def rows_of(study, columns=(), **more):
    """Return the rows of a sweep."""
    return _sweep(study, columns=columns, **more).to_records()


def row_of(study, columns=(), **more):
    """Return the one row of a study of one point."""
    (row,) = rows_of(study, columns, **more)
    return row


def told(study):
    """Return everything about the one point of a study, as the command tells it."""
    return _point.explain(study)


def explained(study):
    """Return what the one point of a study is made of: half of the work of `told`, which evaluates other hardware."""
    return recorded(_point.point_of(study)[1])


def recorded(step):
    """Return what a step is made of, as a plan evaluates it: counts, numbers, memory, communication, operations."""
    record = step.record()
    parts = {name: record[name] for name in ("memory", "comm", "operations")}
    return {**record["counts"], **record["numbers"], **parts}


def memory_of(study):
    """Return the memory of the one point of a study, bytes by part."""
    found = _point.memory(study)
    return {name.removesuffix("_bytes"): size for name, size in found.items() if name.endswith("_bytes")}


def compared(first, second):
    """Return two points side by side, by term."""
    return {row["term"]: row for row in _point.compare(first, second)}


def solved(study, column, target, field, between=None):
    """Return the values of a field for which a column has a value, for each point of a study."""
    return solve(study_from(study), ask(column, target, field, between))[0]


def volume_of(study):
    """Return what a device sends in the step of a study of one point."""
    return _volume(study_from(study))


def volumes_of(study):
    """Return what a device sends at each point of a study, a row for each group."""
    return volume_over(study_from(study))[0]


def counted_parameters(**fields):
    """Return the parameters of a model, those a token uses, and those of its modules of prediction; lists broadcast."""
    given = {name: value for name, value in fields.items() if name in Transformer.__dataclass_fields__}
    codes = {name: list(FIELDS[name].words).index(value) for name, value in given.items() if isinstance(value, str)}
    arrays = {name: np.asarray(value) for name, value in {**given, **codes}.items()}
    return model_parameters(resolved(Transformer(**arrays)))


def search_of(study, gpus, **more):
    """Return the best layouts of a study on so many devices."""
    return _search(study, gpus, **more)


def command(capsys, *arguments):
    """Run a command line; return its exit code, what it answered (JSON where that was asked for), and stderr."""
    code = run([str(part) for part in arguments])
    out, err = capsys.readouterr()
    return code, json.loads(out) if "json" in arguments and out else out, err


# -- hardware on which only one thing takes time ----------------------------------------------------------------------

NOTHING = {
    "kernel_latency": 0, "gemm_ramp_k": 0, "gemm_ramp_tiles": 0, "stream_latency": 0, "flash_latency": 0,
    "flash_ramp_blocks": 0, "flash_head_exponent": 0, "collective_latency": 0, "grouped_ramp_rows": 0,
}  # fmt: skip
WHOLE = ("gemm_efficiency", "memory_efficiency", "sustained", "stream_efficiency", "flash_efficiency",
         "flash_memory_efficiency", "network_sustained")  # fmt: skip
FREE = {"flops": 1e24, "memory": 1e21, "network": 1e21}


def machine(folder, domain=8, outer=None, capacity=1e15, timing=(), tier=(), **speeds):
    """Write a profile whose ``flops``, ``memory`` and ``network`` (per second) are given; what is not takes no time.

    One domain of ``domain`` devices, and an ``outer`` network of so many bytes a second where that is given (None:
    there is none; "blank": nobody knows how fast it is). A transfer takes its bytes, a product its FLOP, and nothing
    takes time to start.
    """
    speed = {**FREE, **speeds}
    inner = {"domain": domain, "bandwidth": f"{speed['network']:g} B/s", "latency": "0 s", "exchange_latency": "0 s"}
    network = {"scale-up": {**inner, **dict(tier)}}
    if outer is not None:
        reach = None if outer == "blank" else f"{outer:g} B/s"
        network["scale-out"] = {"bandwidth": reach, "latency": "0 s", "entry_latency": "0 s", "tree_latency": "0 s"}
    quick = {name: f"{value} s" if name.endswith("latency") else value for name, value in NOTHING.items()}
    profile = {
        "name": "one-thing", "title": "only one thing takes time",
        "peak": {"dense": True, **dict.fromkeys(("fp16", "bf16", "fp32", "fp8"), f"{speed['flops']:g} FLOP/s")},
        "memory": {"capacity": f"{capacity:g} B", "bandwidth": f"{speed['memory']:g} B/s",
                   "host_bandwidth": f"{speed['network']:g} B/s"},
        "network": network,
        "timing": {**quick, **dict.fromkeys(WHOLE, 1.0), "own_shard": 1e-6, **dict(timing)},
    }  # fmt: skip
    path = Path(folder) / f"machine-{len(list(Path(folder).iterdir()))}.yaml"
    path.write_text(json.dumps(profile), encoding="utf-8")
    return str(path)

"""How many devices a script starts training on: from torchrun, DeepSpeed, srun, mpirun, or the scheduler's lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.configs.importers.launch import Launch
from comp_comm.configs.importers.scheduler import ClusterJob, job_of
from comp_comm.configs.importers.shell_scope import is_undecided, names_in

TOTALS = ("WORLD_SIZE", "NUM_GPUS", "NGPUS", "N_GPUS", "TOTAL_GPUS")  # what scripts call the number of all devices
EACH = ("--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus")
NODES = ("--nnodes", "--num_nodes", "--num-nodes", "--num_machines")
PROCESSES = ("--num_processes",)
MPI = ("mpirun", "mpiexec", "orterun", "prun", "aprun", "mpiexec.hydra", "ibrun", "mpirun_rsh")
MPI_FLAGS = ("-np", "-n", "--np", "--n", "-c")
SRUN = ("srun", "flux", "sbatch", "salloc")
PER_MACHINE = ("gpu", "auto", "cpu")  # as many as a machine has


class Devices(NamedTuple):
    """How many devices there are, None where nothing says; ``note`` is what a reader should know of that."""

    number: int | None
    note: str = ""


def devices_of(launch: Launch) -> Devices:
    """Return the number of devices that a launch says.

    >>> devices_of(Launch(["mpirun", "-np", "16", "python"], "pretrain_gpt.py", [])).number
    16
    """
    words = launch.launcher
    job = _srun(words).beside(launch.job)
    total = _total(_value(words, PROCESSES))
    if total is not None:
        return Devices(total)
    each = _value(words, EACH)
    if each is not None:
        return _by_node(each, _value(words, NODES), job)
    names = [word.rsplit("/", 1)[-1] for word in words]
    for place, name in enumerate(names):
        if name in MPI:
            count = _total(_value(words[place:], MPI_FLAGS))
            if count is not None:
                return Devices(count)
    processes, devices = job.processes(), job.devices()
    if any(name in SRUN for name in names) and processes is not None:
        beside = f"; the job has {devices} devices" if devices not in (None, processes) else ""
        return Devices(
            processes, f"gpus {processes} is one for each process that srun starts{beside}" if beside else ""
        )
    if devices is not None:
        return Devices(devices)
    for name in TOTALS:
        count = _total({**launch.values, **launch.environment}.get(name))
        if count is not None:
            return Devices(count)
    return Devices(processes, _why(words))


def _why(words: Sequence[str]) -> str:
    marked = next((name for word in words for name in names_in(word)), None)
    return "" if marked is None else f"the number of devices depends on ${marked}, which is not set in the file"


def _srun(words: Sequence[str]) -> ClusterJob:
    """Return what the flags of ``srun`` say, up to the program that it starts."""
    job = ClusterJob()
    for place, word in enumerate(words):
        if word.rsplit("/", 1)[-1] in SRUN:
            end = next((i for i in range(place + 1, len(words)) if re.search(r"(?:^|/)(?:python\d?|torchrun|deepspeed)",
                        words[i]) and not words[i - 1].startswith("-")), len(words))  # fmt: skip
            job = job_of(words[place:end]).beside(job)
    return job


def _by_node(each: str, nodes: str | None, job: ClusterJob) -> Devices:
    """Return the devices of so many nodes of so many: a range of nodes is what an elastic run may have."""
    per_node = _total(each)
    if per_node is None:
        per_node = job.gpus_per_node if each in PER_MACHINE or names_in(each) else None
    if per_node is None:
        what = "which the machine decides" if each in PER_MACHINE else "which is not set in the file"
        return Devices(None, f"there are '{_shown(each)}' devices a node, {what}")
    if nodes is None:
        return Devices(per_node)
    ranged = re.fullmatch(r"([0-9]{1,7}):([0-9]{1,7})", nodes)
    if ranged:
        most = int(ranged[2])
        note = f"the run may have {ranged[1]} to {most} nodes: gpus is that of {most}" if ranged[1] != ranged[2] else ""
        return Devices(per_node * most, note)
    count = _total(nodes)
    if count is None:
        count = job.nodes
    if count is None:
        return Devices(None, f"there are {_shown(nodes)} nodes of {per_node} devices, which is not set in the file")
    return Devices(per_node * count)


def _shown(word: str) -> str:
    return f"${names_in(word)[0]}" if names_in(word) else word


def _total(text: str | None) -> int | None:
    """Return a word as a number of devices, None where it is none."""
    if text is None or is_undecided(text) or not re.fullmatch(r"[0-9]{1,7}", text):
        return None
    return int(text) or None


def _value(words: Sequence[str], flags: Sequence[str]) -> str | None:
    """Return the value of the last of these flags."""
    count = None
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in flags:
            count = value if equals else words[place + 1] if place + 1 < len(words) else count
    return count

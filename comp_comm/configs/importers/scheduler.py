"""What a script asks of a cluster's scheduler: ``#SBATCH``, ``#PBS`` and the flags of ``srun``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_FLAGS = {
    "nodes": ("--nodes", "-N", "-nnodes"), "tasks": ("--ntasks", "-n"),
    "tasks_per_node": ("--ntasks-per-node", "--tasks-per-node"), "gpus": ("--gpus", "-G"),
    "gpus_per_node": ("--gpus-per-node", "--gres"), "gpus_per_task": ("--gpus-per-task",),
}  # fmt: skip


@dataclass
class ClusterJob:
    """How many of what a job is given; None where nothing says."""

    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None

    def processes(self) -> int | None:
        """Return how many processes the job starts, where it says."""
        if self.tasks is not None:
            return self.tasks
        if self.tasks_per_node is not None and self.nodes is not None:
            return self.tasks_per_node * self.nodes
        return None

    def devices(self) -> int | None:
        """Return how many devices the job has, where it says: one node unless there are more."""
        if self.gpus is not None:
            return self.gpus
        if self.gpus_per_node is not None:
            return self.gpus_per_node * (self.nodes or 1)
        processes = self.processes()
        return None if self.gpus_per_task is None or processes is None else self.gpus_per_task * processes

    def beside(self, other: ClusterJob) -> ClusterJob:
        """Return the job with what it does not say taken from another."""
        return ClusterJob(*(getattr(self, name) if getattr(self, name) is not None else getattr(other, name)
                     for name in self.__dataclass_fields__))  # fmt: skip


def job_of(words: Sequence[str]) -> ClusterJob:
    """Return what flags say.

    >>> job_of(["-N", "4", "--gres=gpu:a100:8", "--ntasks-per-node", "8"]).devices()
    32
    """
    job = ClusterJob()
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else ""
            short = re.fullmatch(r"(-[NnG])([0-9].*)", word)
            flag, value = (short[1], short[2]) if short else (flag, value)
        for name, flags in _FLAGS.items():
            if flag in flags:
                number = _number(value)
                if number is not None:
                    setattr(job, name, number)
        if flag == "-l":
            _resources(job, value if not equals else word[3:])
    return job


def _number(value: str) -> int | None:
    """Return the number in a value: ``8``, ``gpu:8``, ``gpu:a100:8``, and of a range ``2-4`` the most."""
    if ":" in value or value.startswith("gpu"):
        match = re.match(r"gpu(?::[A-Za-z][\w.-]*)?[:=]([0-9]{1,7})(?![\w-])", value)
        return int(match[1]) if match else None
    match = re.fullmatch(r"(?:[0-9]{1,7}-)?([0-9]{1,7})", value)
    return int(match[1]) if match else None


def _resources(job: ClusterJob, value: str) -> None:
    """Take the resources of PBS: ``select=4:ngpus=8``, ``nodes=4:ppn=8:gpus=8``."""
    for pattern, name in ((r"(?:select|nodes)=([0-9]{1,7})", "nodes"), (r"ngpus=([0-9]{1,5})", "gpus_per_node"),
                          (r"(?<!n)gpus=([0-9]{1,5})", "gpus_per_node"),
                          (r"mpiprocs=([0-9]{1,5})", "tasks_per_node")):  # fmt: skip
        match = re.search(pattern, value)
        if match:
            setattr(job, name, int(match[1]))


def directives(lines: Iterable[str]) -> ClusterJob:
    """Return what the lines of a job's description say; of equal ones the last.

    >>> directives(["--nodes=4 # of them", "--gpus-per-node=8"]).devices()
    32
    """
    job = ClusterJob()
    for line in lines:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        job = job_of(words).beside(job)
    return job


def variables(job: ClusterJob) -> dict[str, str]:
    """Return the variables that Slurm sets for a job."""
    numbers = {
        "SLURM_NNODES": job.nodes, "SLURM_JOB_NUM_NODES": job.nodes, "SLURM_NTASKS": job.processes(),
        "SLURM_NPROCS": job.processes(), "SLURM_NTASKS_PER_NODE": job.tasks_per_node,
        "SLURM_GPUS_PER_NODE": job.gpus_per_node, "SLURM_GPUS_ON_NODE": job.gpus_per_node, "SLURM_GPUS": job.gpus,
    }  # fmt: skip
    return {name: str(value) for name, value in numbers.items() if value is not None}

"""What a program does, counted while it runs on tensors without data: FLOP, bytes kept, collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


def flops(run: Callable[[], Any]) -> int:
    """Return the FLOP of the matrix products in a call."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this device has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class Kept(saved_tensors_hooks):
    """Bytes that autograd keeps for the backward pass, each storage once, ``but`` for parameters and inputs."""

    def __init__(self, but: list[torch.Tensor]):
        super().__init__(self.note, lambda tensor: tensor)
        self.storages: dict[int, Any] = {}
        self.but = [local(tensor.detach()).untyped_storage() for tensor in but]

    def note(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor among what is kept, and return it."""
        storage = local(tensor.detach()).untyped_storage()
        self.storages[storage._cdata] = storage  # held, so that no other one gets its number
        return tensor

    @property
    def bytes(self) -> int:
        own = {storage._cdata for storage in self.but}
        return sum(storage.nbytes() for number, storage in self.storages.items() if number not in own)


# What an operation sends, and which of its arguments has the bytes of the message: all of a gather's output.
PLAIN = {"_allgather_base_": ("all_gather", 0), "_reduce_scatter_base_": ("reduce_scatter", 1),
         "allreduce_": ("all_reduce", 0), "send": ("send", 0), "alltoall_base_": ("all_to_all", 1)}  # fmt: skip
FUNCTIONAL = {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
              "all_reduce": "all_reduce", "all_to_all_single": "all_to_all"}  # fmt: skip
# What a collective brings beside its messages, and what answers another device's.
SILENT = {"wait_tensor", "_wrap_tensor_autograd", "recv_", "recv_any_source_", "barrier", "monitored_barrier_"}


class Collectives(TorchDispatchMode):
    """Calls and bytes of every collective, by (group, collective, devices); ``groups`` names groups by their axis."""

    def __init__(self, groups: dict[str, str]):
        super().__init__()
        self.groups = groups
        self.sent: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it comes again, with what each device does
        namespace, _, name = func.name().split(".")[0].partition("::")
        if namespace in ("c10d", "_c10d_functional") and name not in SILENT:
            self._count(namespace, name, args)
        return func(*args, **(kwargs or {}))

    def _count(self, namespace: str, name: str, args: tuple[Any, ...]) -> None:
        if namespace == "c10d":
            kind, place = PLAIN[name]
            tensors = args[place] if isinstance(args[place], (list, tuple)) else [args[place]]
            group = next(dist.ProcessGroup.unbox(a) for a in args if isinstance(a, torch.ScriptObject))
            devices, label = group.size(), group.group_name
        else:
            kind, tensors, label = FUNCTIONAL[name], [args[0]], next(a for a in reversed(args) if a in self.groups)
            devices = dist.distributed_c10d._resolve_process_group(label).size()
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        counted = self.sent[self.groups[label], kind, devices]
        counted[0] += 1
        counted[1] += size * (devices if name == "all_gather_into_tensor" else 1)

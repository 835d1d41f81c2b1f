"""Steps of PyTorch's own parallelism over a fake process group: FSDP2, HSDP, tensor and sequence parallelism.

A case is said by compcomm's fields; every one of them is used here, or the case is refused. Sharded states are what
each tensor has on this device; messages and kept bytes are counted while the step runs on fake tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._tools.fake_collectives  # gives collectives outputs on fake tensors
from meters import Collectives, Kept, local
from modules import KEPT_BY_POLICY, Decoder, loss_of, without_data
from shapes import NotMadeError, shape_of
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_leaves

WORLD = 64  # devices that are said to be there
# Every field of a case that is known, with its default.
LAYOUT = {"tp": 1, "dp": 1, "dp_shard": 0, "zero": 0, "sp": "on", "micro_batch": 1, "accumulation": 1,
          "gradient_sync": "each", "fsdp_units": "layers", "reshard_after_forward": "on", "grad_precision": "bf16",
          "seq_len": 0, "layers": 0, "kernels": "fused", "norm_kernel": "fused", "recompute": "off",
          "cross_entropy": "eager",
          "master_weights": "shards", "sequence_inputs": "kept", "vocab_multiple": 1,
          "recompute_early_stop": "on"}  # fmt: skip
# What some of them have to be: PyTorch has no other.
ONLY = {"cross_entropy": "eager", "master_weights": "shards", "sequence_inputs": "kept", "vocab_multiple": 1,
        "recompute_early_stop": "on"}  # fmt: skip
KINDS = {"kernels": ("fused", "eager"), "norm_kernel": ("fused", "eager", "eager_fp32"),
         "recompute": ("off", "full", "per_op"), "zero": (0, 3), "gradient_sync": ("each", "last"),
         "fsdp_units": ("layers", "ends"), "grad_precision": ("bf16", "fp32")}  # fmt: skip


def parsed(fields: str) -> dict[str, Any]:
    """Return the fields of a case. Raises ``NotMadeError`` at one that no program here has."""
    pairs = dict(pair.split(" ") for pair in fields.split("; ") if pair)
    found: dict[str, Any] = {name: int(value) if value.isdigit() else value for name, value in pairs.items()}
    for name, value in found.items():
        allowed = KINDS.get(name, (ONLY[name],) if name in ONLY else (value,))
        if name not in LAYOUT or value not in allowed:
            raise NotMadeError(f"{name} {value}")
    whole = LAYOUT | found
    if not whole["seq_len"]:
        raise NotMadeError("no seq_len")
    if (whole["dp"] > 1) != (whole["zero"] == 3) or whole["dp"] * whole["tp"] > WORLD:
        raise NotMadeError(f"zero {whole['zero']} of dp {whole['dp']} and tp {whole['tp']}")
    return whole


GROUPS: dict[str, str] = {}  # what groups are of, by their names


@cache
def mesh_of(replicas: int, shards: int, tp: int) -> DeviceMesh:
    """Return the first devices as a mesh. One process has all meshes: PyTorch remembers groups by their shape."""
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    axes = {name: size for name, size in (("replicate", replicas), ("shard", shards), ("tp", tp)) if size > 1}
    axes = axes or {"shard": 1}
    devices = torch.arange(math.prod(axes.values())).view(*axes.values())
    mesh = DeviceMesh("cpu", devices, mesh_dim_names=tuple(axes))
    GROUPS.update({mesh.get_group(name).group_name: "tp" if name == "tp" else "dp" for name in axes})
    return mesh


class Step:
    """A model on its layout, over a fake process group, on fake tensors while it is entered."""

    def __init__(self, model: dict[str, Any], fields: dict[str, Any], loss: bool = True):
        self.fields, self.loss = fields, loss
        changed = {"layers": fields["layers"]} if fields["layers"] else {}
        self.shape = shape_of({**model, **changed}, eager=fields["kernels"] == "eager",
                              norm_kernel=fields["norm_kernel"], recompute=fields["recompute"])  # fmt: skip

    def with_layers(self, layers: int) -> Step:
        """Return the same with another number of layers, which may be none."""
        other = copy(self)
        other.shape = replace(self.shape, layers=layers)
        return other

    @contextmanager
    def made(self) -> Iterator[Step]:
        """Make the model and its inputs."""
        f = self.fields
        shards = f["dp_shard"] or f["dp"]
        self.mesh = mesh_of(f["dp"] // shards, shards, f["tp"])
        self.model = without_data(self.shape)
        if f["tp"] > 1:
            split(self.model, self.mesh["tp"], f["sp"] == "on")
        if f["zero"] == 3:
            self._shard()
        else:
            self.model.to(torch.bfloat16)
        with FakeTensorMode(allow_non_fake_inputs=True):
            self.model.to_empty(device="cpu")
            size = (f["micro_batch"], f["seq_len"])
            self.tokens, self.targets = torch.zeros(size, dtype=torch.long), torch.zeros(size, dtype=torch.long)
            yield self

    def _shard(self) -> None:
        f = self.fields
        mesh = self.mesh["replicate", "shard"] if "replicate" in self.mesh.mesh_dim_names else self.mesh["shard"]
        reduced = torch.float32 if f["grad_precision"] == "fp32" else torch.bfloat16
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced)
        resharded = f["reshard_after_forward"] == "on"
        units: list[Any] = list(self.model.layers)
        if f["fsdp_units"] == "ends":  # as torchtitan wraps: the last one is needed again at once, and stays
            ends = [self.model.norm, self.model.head]
            if self.shape.tied:  # weights of one unit alone may be shared
                ends.insert(0, self.model.embedding)
            else:
                fully_shard(self.model.embedding, mesh=mesh, mp_policy=policy, reshard_after_forward=resharded)
            fully_shard(ends, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        for unit in units:
            fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=resharded)
        fully_shard(self.model, mesh=mesh, mp_policy=policy, reshard_after_forward=resharded or None)

    def micro_batch(self, last: bool = True) -> None:
        """Go forward and back once."""
        if self.fields["zero"] == 3 and self.fields["gradient_sync"] == "last":
            self.model.set_requires_gradient_sync(last)
        with loss_parallel() if self.fields["tp"] > 1 else nullcontext():
            # Logits have no name here: what is named lives on while the gradients are made.
            loss = loss_of(self.model(self.tokens), self.targets) if self.loss else local(self.model(self.tokens)).sum()
            loss.backward()

    def collectives(self, clipped: bool) -> dict[tuple[str, str, int], list[int]]:
        """Return calls and bytes of a step, by (group, collective, devices)."""
        with self.made(), Collectives(GROUPS) as counted:
            for micro_batch in range(self.fields["accumulation"]):
                self.micro_batch(micro_batch == self.fields["accumulation"] - 1)
            if clipped:
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return dict(counted.sent)

    def kept(self) -> int:
        """Return the bytes that are kept of a forward pass, loss and all."""
        KEPT_BY_POLICY.clear()
        with self.made():
            kept = Kept([*self.model.parameters(), *self.model.buffers(), self.tokens, self.targets])
            with kept, loss_parallel() if self.fields["tp"] > 1 else nullcontext():
                loss = loss_of(self.model(self.tokens), self.targets)
            del loss
            for each in (getattr(leaf, "val", leaf) for leaf in tree_leaves(KEPT_BY_POLICY)):
                if isinstance(each, torch.Tensor):
                    kept.note(each)
        return kept.bytes

    def states(self) -> tuple[int, int]:
        """Return bytes of weights with AdamW's states, and of gradients, after a step."""
        with self.made():
            optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True)
            self.micro_batch()
            optimizer.step()
            moments = [value for state in optimizer.state.values() for value in state.values()]
            weights = list(self.model.parameters())
            return size_of([*weights, *moments]), size_of([weight.grad for weight in weights])

    def peak(self) -> tuple[int, int]:
        """Return activations and temporaries at the peak of a second step, as PyTorch's tracker of FSDP2 has them, and
        all but inputs."""
        with self.made():
            optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True)
            for weight in self.model.parameters():
                weight.grad = torch.zeros_like(weight)
            optimizer.step()  # which makes its moments
            optimizer.zero_grad()
            tracker = FSDPMemTracker(self.model, optimizer)
            tracker.track_inputs((self.tokens, self.targets))
            with tracker:
                self.micro_batch()
                optimizer.step()
            found = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
        kinds = {getattr(kind, "value", kind): size for kind, size in found.items()}
        return kinds["Activation"] + kinds["Temp"], kinds["Total"] - kinds["Inputs"]


def size_of(tensors: list[torch.Tensor]) -> int:
    """Return what this device has of tensors, bytes."""
    return sum(local(tensor).numel() * tensor.element_size() for tensor in tensors)


def split(model: Decoder, mesh: DeviceMesh, sequence: bool) -> None:
    """Split a model over a group as torchtitan and PyTorch's tutorial do, norms by tokens where ``sequence``."""
    p = model.p
    if p.experts or p.kv_lora_rank or p.qk_norm or p.norms != 2 or not p.gated or p.position == "learned" or p.bias:
        raise NotMadeError("tensor parallelism of a layer that is not Llama's")
    between = Shard(1) if sequence else Replicate()
    whole: Callable[..., PrepareModuleInput] = lambda *more: PrepareModuleInput(  # noqa: E731
        input_layouts=(between, *more), desired_input_layouts=(Replicate(), *more))  # fmt: skip
    inputs, outputs = {"use_local_output": False}, {"output_layouts": between}
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate(), **outputs),
        "head": ColwiseParallel(input_layouts=between, output_layouts=Shard(-1), **inputs),
        **({"norm": SequenceParallel()} if sequence else {}),
    })  # fmt: skip
    for layer in model.layers:
        parallelize_module(layer, mesh, {
            "attention": whole(None), "network": whole(),
            **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
            "network.gate": ColwiseParallel(), "network.up": ColwiseParallel(),
            "attention.out": RowwiseParallel(**outputs), "network.down": RowwiseParallel(**outputs),
            **({"attention_norm": SequenceParallel(), "network_norm": SequenceParallel()} if sequence else {}),
        })  # fmt: skip

"""Collectives of torchtitan's own models, made again: a minute or two a step of a CPU, each in a process of its own.

    pip install -e '.[reference]' torchtitan==0.3.0 spmd_types tyro
    python tests/reference/titan.py               # says which of the table's cases are the same
    python tests/reference/titan.py "CASE"        # prints what one case sends

Its steps are those of `tests/data/torch_collectives.csv` that begin with torchtitan and have no context parallelism.
What stands in for what this machine lacks: groups are fake, tensors have no data, attention is PyTorch's own in place
of flex attention, and every device gets as many tokens as any other.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "torch_collectives.csv"
FLAVORS = {"llama-3-8b": ("llama3", "8B"), "llama-3-70b": ("llama3", "70B"), "llama-3.2-1b": ("llama3", "1B"),
           "qwen3-8b": ("qwen3", "8B"), "qwen3-1.7b": ("qwen3", "1.7B"), "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
           "deepseek-v2-lite": ("deepseek_v3", "16B"), "deepseek-v3": ("deepseek_v3", "671B"),
           "gpt-oss-20b": ("gpt_oss", "20b")}  # fmt: skip
GROUPS = {"dp_replicate": "dp", "fsdp": "dp", "efsdp": "dp", "batch": "dp", "loss": "dp", "ep": "ep", "tp": "tp"}
RECOMPUTED = {"full": "FullAC", "per_op": "SelectiveAC"}
Sent = dict[tuple[str, str, int], list[int]]


def cases() -> dict[str, list[dict[str, str]]]:
    with DATA.open(encoding="utf-8", newline="") as file:
        rows = [
            row for row in csv.DictReader(file) if row["case"].startswith("torchtitan") and "cp " not in row["fields"]
        ]
    return {name: list(group) for name, group in groupby(rows, key=lambda row: row["case"])}


class Labels(dict[str, str]):
    """What groups are of, by their names; replicas of experts are of no mesh that torchtitan names."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> str:
        return "dp"


def sent(model: str, fields: dict[str, Any]) -> Sent:
    """Return calls and bytes of a step, by (group, collective, devices)."""
    import torch
    import torch.distributed as dist
    import torch.distributed._tools.fake_collectives  # gives collectives outputs on fake tensors
    import torchtitan.distributed.activation_checkpoint as checkpoints
    import torchtitan.distributed.parallel_dims as dims
    import torchtitan.distributed.utils as utils
    from meters import Collectives, local
    from modules import Untouched
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
    from torchtitan.models.common import attention

    family, flavor = FLAVORS[model]
    package = __import__(f"torchtitan.models.{family}", fromlist=["model_registry"])
    for module in (package, sys.modules["torchtitan.models.common.config_utils"]):
        module.get_attention_config = lambda *_, **__: attention.ScaledDotProductAttention.Config()
    dims.device_type = "cpu"
    utils.set_spmd_backend("partial_dtensor")
    at = fields.get
    dp, tp, ep = at("dp", 1), at("tp", 1), at("ep", 1)
    dist.init_process_group("fake", rank=0, world_size=dp * tp, store=FakeStore())
    parallelism = ParallelismConfig(
        data_parallel_shard_degree=at("dp_shard", dp), data_parallel_replicate_degree=dp // at("dp_shard", dp),
        tensor_parallel_degree=tp, expert_parallel_degree=ep, spmd_backend="partial_dtensor",
        fsdp_reshard_after_forward="never" if at("reshard_after_forward") == "off" else "default",
    )  # fmt: skip
    parallel = dims.ParallelDims.from_config(parallelism, dp * tp)
    parallel.build_mesh()
    spec = package.model_registry(flavor, attn_backend="flex")
    spec.model.layers = spec.model.layers[: fields["layers"]]
    spec.model.update_from_config(config=SimpleNamespace(parallelism=parallelism))
    with torch.device("meta"), Untouched():
        made = spec.model.build()
    policy = RECOMPUTED.get(at("recompute", ""))
    made = spec.parallelize_fn(
        made, parallel_dims=parallel, training=TrainingConfig(seq_len=fields["seq_len"]), parallelism=parallelism,
        compile_config=CompileConfig(enable=False), ac_config=policy and getattr(checkpoints, policy).Config(),
        dump_folder="",
    )  # fmt: skip
    labels = Labels()
    for name, label in GROUPS.items():
        if mesh := parallel.get_optional_mesh(name):
            labels.setdefault(mesh.get_group().group_name, label)
    routers = (layer.moe.router.top_k for layer in spec.model.layers if getattr(layer, "moe", None))
    copies = at("micro_batch", 1) * fields["seq_len"] // (tp if ep > 1 else 1) * next(routers, 1)
    FakeTensor.tolist = lambda counts: [copies // counts.numel()] * counts.numel()
    with FakeTensorMode(allow_non_fake_inputs=True), Collectives(labels) as counted:
        made.to_empty(device="cpu")
        tokens = torch.zeros(at("micro_batch", 1), fields["seq_len"], dtype=torch.long)
        for _ in range(at("accumulation", 1)):
            local(made(tokens, positions=None, attention_masks=None)).float().sum().backward()
    # Experts that lie on all devices share a group with the data: what is exchanged there is theirs.
    return {("ep" if kind == "all_to_all" else group, kind, devices): numbers
            for (group, kind, devices), numbers in counted.sent.items()}  # fmt: skip


def main() -> int:
    known = cases()
    if len(sys.argv) > 1:
        row = known[sys.argv[1]][0]
        pairs = (pair.split(" ") for pair in row["fields"].split("; "))
        found = sent(row["model"], {name: int(value) if value.isdigit() else value for name, value in pairs})
        print(*sorted(f"{','.join(map(str, key))},{calls},{size}" for key, (calls, size) in found.items()), sep="\n")
        return 0
    wrong = 0
    for name, rows in known.items():
        ran = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
        columns = ("group", "collective", "devices", "calls", "bytes")
        same = ran.stdout.split() == sorted(",".join(row[column] for column in columns) for row in rows)
        wrong += not same
        print("same" if same else "other", name, "" if same else ran.stdout + ran.stderr[-500:], flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())

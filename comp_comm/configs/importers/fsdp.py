"""PyTorch's FSDP, as transformers and the tools on it ask for it: words in a list, and a configuration."""

from __future__ import annotations

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.errors import one_of

# Words of transformers' FSDPOption.
SHARDED = ("full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2", "auto_wrap", "offload")


def sharded_stage(top: Keys, f: Findings, listed: str, configured: str) -> int:
    """Return the ZeRO stage of PyTorch's FSDP: 0 where it is not asked for."""
    raw, more = top.take(listed), top.take(configured)
    version = top.take("fsdp_version")
    top.ignore(("fsdp_transformer_layer_cls_to_wrap",))
    words = raw if isinstance(raw, list) else str(raw or "").split()
    strange = [str(word) for word in words if str(word) not in SHARDED]
    if strange:
        top.wrong((listed,), f"{', '.join(strange)}: not understood ({one_of(list(SHARDED))})")
    if not isinstance(more, (dict, type(None))) and not is_off(more):
        top.wrong((configured,), f"{shown(more)} is not a mapping of keys to values")
    keys = {str(key).removeprefix("fsdp_"): value for key, value in more.items()} if isinstance(more, dict) else {}
    if "offload" in words or not is_off(keys.get("offload_params")):
        top.wrong((configured, listed), "weights in the host's memory are not modelled; leave offload_params out")
    if not is_off(keys.get("activation_checkpointing")):
        f.set("recompute", "full")
    if not (words or keys or version):
        return 0
    strategy = str(keys.get("sharding_strategy", "")).lower()
    partly = (
        strategy in ("shard_grad_op", "2") or "shard_grad_op" in words or keys.get("reshard_after_forward") is False
    )
    if "hybrid" in strategy or any("hybrid" in str(word) for word in words):
        f.note("hybrid sharding: states are counted as sharded over all replicas; --set dp_shard=N says over how many")
    return 0 if strategy == "no_shard" or "no_shard" in words else 2 if partly else 3

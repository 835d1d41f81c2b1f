"""How tokens go to experts, as Megatron-LM and those that are built on it say it."""

from __future__ import annotations

from comp_comm.configs.exporters.exported import Exported, Flags

KINDS = {"all_gather": "allgather", "all_to_all": "alltoall", "deepep": "flex", "hybridep": "flex"}


def dispatch_keys(point: Exported) -> Flags:
    """Return the keys of the library's configuration."""
    way, sms = point.word("ep_dispatch") or "all_to_all", point.values.get("ep_sms")
    keys: Flags = {"moe_token_dispatcher_type": KINDS[way], "moe_permute_fusion": point.on("permute_fusion"),
                   "moe_router_num_groups": point.values.get("router_groups"),
                   "moe_router_group_topk": point.values.get("router_group_topk")}  # fmt: skip
    if KINDS[way] != "flex":
        return keys
    return keys | {"moe_flex_dispatcher_backend": way, f"moe_{way}_num_sms": sms}


def dispatch_flags(point: Exported) -> Flags:
    """Return them as arguments."""
    return {f"--{name.replace('_', '-')}": value for name, value in dispatch_keys(point).items()}

"""How tokens go to experts, as Megatron-LM and those that are built on it say it."""

from __future__ import annotations

from collections.abc import Callable

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown

KINDS = {"allgather": "all_gather", "alltoall": "all_to_all", "alltoall_seq": "all_to_all", "flex": ""}
BACKENDS = {"deepep": "deepep", "deepepv2": "deepep", "hybridep": "hybridep", "ncclep": "hybridep"}
NODE = 8  # devices of a node, which a group of experts is on where routing is limited to groups


def read_dispatch(keys: Keys, f: Findings, spelled: Callable[[str], str], default: str | None) -> None:
    """Set how tokens go to experts; ``spelled`` makes a key of a name of the library's configuration.

    ``default`` is what a file means that says nothing (None: it is of another library, and nothing is set).
    """
    kind = keys.take(spelled("moe_token_dispatcher_type"))
    backend = keys.take(spelled("moe_flex_dispatcher_backend"))
    deepep = keys.take(spelled("moe_enable_deepep"))
    sms = {name: keys.take(spelled(f"moe_{name}_num_sms")) for name in ("flex_dispatcher", "deepep", "hybridep")}
    fused = keys.truth(spelled("moe_permute_fusion"))
    groups, chosen = (keys.take(spelled(f"moe_router_{name}")) for name in ("num_groups", "group_topk"))
    if "experts" not in f.fields:
        return
    if not is_off(groups) and not is_off(chosen) and str(groups) != str(chosen):
        f.set("router_groups", groups, keys.place(spelled("moe_router_num_groups")))
        f.set("router_group_topk", chosen, keys.place(spelled("moe_router_group_topk")))
    if default is not None:
        f.set("permute_fusion", fused)
    if f.count("ep", 1) == 1:
        return
    if kind is not None and kind not in KINDS:
        keys.wrong((spelled("moe_token_dispatcher_type"),), f"{shown(kind)} is not understood; only {', '.join(KINDS)}")
        return
    way = KINDS[kind] if kind is not None else default
    if way is None:
        return
    if way == "":
        way = _library(keys, f, spelled, backend if backend is not None or is_off(deepep) else "deepep")
        own = sms[way] if way in sms and sms[way] is not None else sms["flex_dispatcher"]
        if own is not None:
            f.set("ep_sms", own)
    f.set("ep_dispatch", way)


def _library(keys: Keys, f: Findings, spelled: Callable[[str], str], backend: object) -> str:
    """Return the library of a flexible dispatcher: DeepEP where none is named."""
    name = "deepep" if backend is None else str(backend).lower()
    if name not in BACKENDS:
        keys.wrong((spelled("moe_flex_dispatcher_backend"),), f"{shown(backend)} is not understood; only "
                   f"{', '.join(BACKENDS)}")  # fmt: skip
        return "deepep"
    if name == "ncclep":
        f.note("the kernels of NCCL EP are counted as those of HybridEP")
    return BACKENDS[name]

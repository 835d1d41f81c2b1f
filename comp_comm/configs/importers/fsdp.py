"""PyTorch's FSDP, as transformers and the tools on it ask for it: words in a list, and a configuration."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.errors import one_of

# The ZeRO stage that each strategy is, in the order in which accelerate numbers them from 1.
STAGES = {"full_shard": 3, "shard_grad_op": 2, "no_shard": 0, "hybrid_shard": 3, "hybrid_shard_zero2": 2}
WORDS = (*STAGES, "auto_wrap", "offload")  # of transformers' FSDPOption
# What changes nothing that is counted: what is wrapped, how states are loaded and saved, what is fetched early.
IGNORED = (
    "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params", "backward_prefetch", "forward_prefetch",
    "backward_prefetch_policy", "limit_all_gathers", "use_orig_params", "sync_module_states", "state_dict_type",
    "cpu_ram_efficient_loading", "final_state_dict_type", "ignored_modules", "version", "xla", "xla_fsdp_v2",
    "xla_fsdp_settings", "xla_fsdp_grad_ckpt",
)  # fmt: skip


def sharded_stage(top: Keys, f: Findings, listed: str, configured: str) -> int:
    """Return the ZeRO stage of PyTorch's FSDP: 0 where it is not asked for."""
    raw, more = top.take(listed), top.take(configured)
    version = top.take("fsdp_version")
    top.ignore(("fsdp_transformer_layer_cls_to_wrap",))
    if raw is True:  # since transformers 5: FSDP as its configuration says, else whole
        raw = "full_shard"
    words = [str(word) for word in (raw if isinstance(raw, list) else "" if is_off(raw) else str(raw).split())]
    words = [part for word in words for part in word.split()]
    if words == ["fsdp2"]:  # of ms-swift: a configuration that it has itself
        words = ["full_shard"]
    if isinstance(more, str) and words:
        f.note(f"{configured} is {shown(more)}, another file, which is not read: what it recomputes is not known")
        more = None
    strange = [word for word in words if word not in WORDS]
    if strange:
        top.wrong((listed,), f"{', '.join(strange)}: not understood ({one_of(list(WORDS))})")
    if not isinstance(more, (dict, type(None))) and not is_off(more):
        top.wrong((configured,), f"{shown(more)} is not a mapping of keys to values")
    if not (words or more or version):
        return 0
    return stage_of(Keys(f, more if isinstance(more, dict) else {}, top.place(configured)), f, words)


def stage_of(keys: Keys, f: Findings, words: Sequence[str] = ()) -> int:
    """Return the ZeRO stage of a configuration of FSDP, whose keys may all begin with ``fsdp_``."""
    keys.mapping = {str(key).removeprefix("fsdp_"): value for key, value in keys.mapping.items()}
    named = next((word for word in words if word in STAGES), keys.take("sharding_strategy", default="full_shard"))
    again = keys.take("reshard_after_forward", default=True)
    if isinstance(again, str) and again.lower() in STAGES:  # of the first version of FSDP, by the name of the strategy
        named, again = again, True
    strategy = str(named).lower()
    strategy = list(STAGES)[int(strategy) - 1] if strategy in ("1", "2", "3", "4", "5") else strategy
    if strategy not in STAGES:
        keys.wrong(("sharding_strategy",), f"{shown(named)} is not understood; only {', '.join(STAGES).upper()}")
    if "offload" in words or not is_off(keys.take("offload_params", "cpu_offload")):
        keys.wrong(("offload_params",), "weights in the host's memory are not modelled; leave offload_params out")
    if not is_off(keys.take("activation_checkpointing")):
        f.set("recompute", "full")
    keys.ignore(IGNORED)
    keys.finish()
    if "hybrid" in strategy and "dp_shard" not in f.fields:
        f.note("hybrid sharding: states are counted as sharded over all replicas; --set dp_shard=N says over how many")
    stage = STAGES.get(strategy, 3)
    return min(stage, 2) if is_off(again) else stage

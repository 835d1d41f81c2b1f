"""What Megatron-LM's arguments and NeMo's keys say of recomputation by module, and of activations with the host."""

from __future__ import annotations

from comp_comm.choices import MODULES
from comp_comm.configs.importers.imported import Findings, Keys, is_off
from comp_comm.configs.strict_yaml import Path

DEFAULT = ["core_attn"]  # Megatron-LM's, where selective recomputation names no modules


def set_modules(f: Findings, named: object, path: Path) -> None:
    """Set what is recomputed selectively; a module that no layer of the file's model has does nothing there."""
    listed = DEFAULT if named is None else [str(each) for each in (named if isinstance(named, list) else [named])]
    idle = [name for name in listed if name in MODULES and not _has(f, name)]
    kept = list(dict.fromkeys(name for name in listed if name not in idle))
    if idle:
        f.note(f"no layer has {', '.join(idle)}: recomputing it is left out")
    f.set("recompute", "none" if not kept else "selective" if kept == DEFAULT else kept, path)


def _has(f: Findings, name: str) -> bool:
    """Return whether some layer of the model has a module, as far as the file says what its model is."""
    if "layers" not in f.fields:
        return True
    experts, shared = f.count("experts", 0), f.count("shared_experts", 0) + f.count("shared_ffn_hidden", 0)
    has = {"mla_up_proj": f.count("kv_lora_rank", 0), "moe": experts, "moe_act": experts, "shared_experts": shared,
           "mlp": not experts or f.count("dense_layers", 0) or f.count("moe_every") > 1}  # fmt: skip
    return bool(has.get(name, True))


def set_offloading(keys: Keys, f: Findings, layers: str) -> None:
    """Set how many layers keep their activations in the host's memory: none where the number is 0."""
    count = keys.take(layers)
    if not is_off(count):
        f.set("offload_activations", count, keys.place(layers))

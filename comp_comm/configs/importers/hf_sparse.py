"""Sparse attention of a config.json: the indexer of DeepSeek-V3.2 and GLM-5, and layers that take over its choice."""

from __future__ import annotations

from comp_comm.configs.importers.hf_patterns import ATTENTION, MOST_WORDS, networks_of, set_pattern
from comp_comm.configs.importers.imported import Findings, Keys


def indexer(keys: Keys, f: Findings) -> None:
    """Set the indexer of sparse attention (DeepSeek-V3.2, GLM-5), which every layer has."""
    for name, key in (("index_heads", "index_n_heads"), ("index_dim", "index_head_dim"), ("index_topk", "index_topk")):
        if not keys.set(name, key):
            f.missing(f"'{key}' is missing", name)
    _shared_indexers(keys, f)
    kinds = keys.take("layer_types")
    if isinstance(kinds, list) and set(map(str, kinds)) - set(ATTENTION):
        keys.wrong(("layer_types",), f"layers of {', '.join(sorted(set(map(str, kinds))))} are not understood")
    keys.ignore(("indexer_rope_interleave", "index_share_for_mtp_iteration",
                 "mlp_layer_types", "moe_router_dtype", "index_kpool"))  # fmt: skip


def _shared_indexers(keys: Keys, f: Findings) -> None:
    """Set layers that take over what the indexer of an earlier one chose (GLM-5.2): listed, or all but every n-th."""
    types, pattern, layers = keys.take("indexer_types"), keys.take("index_topk_pattern"), f.count("layers", 0)
    frequency = int(keys.number("index_topk_freq", default=1) or 1)
    offset = int(keys.number("index_skip_topk_offset", default=2) or 0)
    own = [max(i - offset + 1, 0) % max(frequency, 1) == 0 for i in range(min(layers, MOST_WORDS))]
    place = keys.place("indexer_types", "index_topk_pattern", "index_topk_freq")
    if isinstance(types, list):
        own = [kind == "full" for kind in types]
    elif pattern is not None:
        own = [kind in ("F", "full") for kind in pattern] if isinstance(pattern, (str, list)) else []
    if len(own) != layers or not own or not own[0]:
        f.wrong(place, f"must say of each of the {layers} layers whether it has an indexer, as the first one has")
    elif not all(own):
        first = f.count("dense_layers", 0)
        networks = networks_of(f, lambda i: i >= first)
        f.fields.pop("dense_layers", None)
        set_pattern(f, ["*" if each else "T" for each in own], networks, place)

"""What a fitted number is of: which kernels or collectives its seconds are those of, and what it says of them."""

from __future__ import annotations

from comp_comm.hardware.profile import Profile

GEMMS, ATTENTION, STREAMS, INSIDE = (
    "GEMMs", "flash attention", "element-wise kernels", "collectives inside a domain"
)  # fmt: skip
OF_TIMING = {
    "gemm_efficiency": (GEMMS, "share of the peak, large ones"),
    "memory_efficiency": (GEMMS, "share of the memory's bandwidth, where that binds"),
    "kernel_latency": (GEMMS, "start of one"),
    "gemm_ramp_k": (GEMMS, "inner dimension at which half of the speed is reached"),
    "gemm_ramp_tiles": (GEMMS, "tiles of 128 by 128 below which one takes no less time"),
    "gemm_split_k": (GEMMS, "steps of the inner dimension that a further part of a split tile costs"),
    "stream_efficiency": (STREAMS, "share of the memory's bandwidth"),
    "stream_latency": (STREAMS, "start of one"),
    "stream_reread": ("LayerNorm and softmax", "share of further reads of a row that reach memory"),
    "stream_row_latency": ("LayerNorm and softmax", "between two rows"),
    "collective_latency": ("all collectives", "start of one"),
    "own_shard": (INSIDE, "share of its wire time that a device's own shard takes"),
}
OF_KERNEL = {
    "efficiency": "share of the peak, heads of 128", "memory_efficiency": "share of the memory's bandwidth",
    "latency": "start of one", "ramp_blocks": "blocks of 128 queries that wait for the longest",
    "ramp_keys": "keys at which half of the speed is reached", "head_exponent": "power of the head dimension below 128",
}  # fmt: skip
OF_TIER = {
    "efficiency": "share of the bandwidth", "latency": "of one hop", "entry_latency": "what crossing the tier adds",
    "tree_latency": "of one level of a tree", "reduction": "share of the bandwidth, reduced by the network",
    "reduction_latency": "of a reduction by the network", "bulk_latency": "of one hop, large messages",
    "bulk_tree_latency": "of one level of a tree, large messages", "alone": "its share with one device a domain",
    "eager": "times a device's bandwidth that small messages are handled at",
    "chunk_latency": "what a full chunk adds to a level of a tree", "chunk_size": "bytes of a chunk",
}  # fmt: skip


def applies_to(key: str, profile: Profile, precision: str) -> str:
    """Return what a number of a profile is of, and what of it: the peak is that of the ``precision`` of the logs.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> h100 = load_profile("h100-sxm")
    >>> applies_to("timing.gemm_efficiency", h100, "bf16")
    'GEMMs in bf16: share of the peak, large ones'
    >>> applies_to("network.scale-out.latency", h100, "bf16"), applies_to("attention.cudnn.latency", h100, "bf16")
    ('collectives between domains (scale-out): of one hop', 'attention by cudnn: start of one')
    """
    block, _, name = key.partition(".")
    owner, _, part = name.rpartition(".")
    if block == "attention":
        return f"attention by {owner}: {OF_KERNEL[part]}"
    if block == "network":
        where = INSIDE if owner == profile.tiers[0] else "collectives between domains"
        return f"{where} ({owner}): {OF_TIER[part]}"
    if part.startswith("flash_"):
        return f"{ATTENTION}: {OF_KERNEL[part.removeprefix('flash_')]}"
    what, said = OF_TIMING[part]
    return f"{what}{f' in {precision}' if what == GEMMS else ''}: {said}"

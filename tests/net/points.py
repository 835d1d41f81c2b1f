"""Random studies of the net, made of a seed and of a catalogue alone: nothing of the package is imported.

A study is a table of points (`zip`) over one device, one model and one cost model: which fields move, and what they
are, is drawn. Most layouts divide what they have to; the others say whether broken rules are told alike.
"""

from __future__ import annotations

import random
from pathlib import Path

import yaml

SEED = 20261128
POINTS = {"complete": 15_000, "inference": 3_500, "comp_vs_comm": 2_500, "foundation_models": 2_000, "amped": 1_500}
OLD = ("p100-sxm", "v100-sxm-16gb", "v100-sxm-32gb", "mi50", "mi60", "mi100")  # these know no bf16
PER_STUDY = 25
DEGREES = (1, 1, 1, 2, 2, 4, 8)
SWITCH = ("off", "on")
PRECISIONS = ("fp32", "fp16", "bf16", "fp8")
COMPUTE = ("bf16", "bf16", "bf16", "bf16", "bf16", "fp8")
GROUPS = ("tp", "cp", "dp", "pp")

# What each field may be, beside what is drawn to fit a model (`_layout`).
MODEL_FIELDS = {
    "gated": SWITCH,
    "norm": ("layernorm", "rmsnorm", "layernorm_no_bias", "layernorm_no_weights"),
    "norms": (1, 2, 4),
    "bias": ("off", "qkv", "on", "attention", "ffn", "not_qkv"),
    "qk_norm": ("off", "on", "whole"),
    "attention_sinks": SWITCH,
    "position": ("rope", "learned", "none"),
    "vocab_multiple": (1, 64, 128),
    "tied": SWITCH,
    "extra_parameters": (0, 1000, 10_000_000),
    "dropout": SWITCH,
    "ffn_hidden": (4096, 11264, 28672),
}
CHOICES = {
    "sp": ("on", "on", "off"),
    "cp_comm": ("p2p", "all_gather"),
    "zero": (0, 1, 2, 3),
    "recompute": ("none", "selective", "full"),
    "schedule": ("1f1b", "gpipe", "zero_bubble"),
    "uneven_stages": SWITCH,
    "kv_replication": SWITCH,
    "offload_optimizer": SWITCH,
    "scatter_gather": SWITCH,
    "overlap_dp": SWITCH,
    "overlap_tp": SWITCH,
    "overlap_pp": SWITCH,
    "overlap_ep": SWITCH,
    "collective_algorithm": ("best", "best", "best", "ring", "tree", "hierarchical", "in_network"),
    "attention_kernel": ("flash_causal", "flash", "unfused"),
    "kernels": ("fused", "eager", "compiled"),
    "bucket": (1e6, 25e6, 5e8),
}
WORLD = {
    "flop_vs_bw": (1, 2, 4),
    "flops": (0.5, 1, 3),
    "network": (0.5, 1, 4),
    "scale_up": (0.5, 1, 2),
    "scale_out": (1, 2, 8),
    "memory_bandwidth": (1, 2),
    "memory_capacity": (1, 1000),
    "latency": (0.1, 1, 10),
    "precision": COMPUTE,
    "comm_precision": PRECISIONS,
    "grad_precision": ("fp32", "bf16"),
    "accumulate_precision": ("fp32", "bf16"),
    "optimizer_precision": ("fp32", "bf16"),
    "count_attention": ("full", "causal"),
    "interference": (1, 1.3),
    "sustained": (0.5, 0.9),
    "framework_gib": (0, 2, 5),
}
SERVING = {"output_len": (1, 100, 1024), "kv_precision": PRECISIONS}
ONE_LAYER = {
    "hidden": (1024, 4096, 12288, 65536),
    "seq_len": (512, 2048, 8192),
    "micro_batch": (1, 2, 8),
    "tp": (1, 2, 8, 64, 256),
    "dp": (1, 2, 8, 64),
    "count": ("complete", "paper_exact"),
    "inter_node_slowdown": (1, 8),
    "interference": (1, 1.2),
    "comm_offload": SWITCH,
    "in_network_reduction": SWITCH,
    "in_memory_reduction": SWITCH,
    "fused_comm": SWITCH,
    "fused_tiles": (1, 4, 64),
    "precision": ("fp16", "fp16", "bf16"),
    "comm_precision": PRECISIONS,
    "flop_vs_bw": (1, 2, 4),
    "flops": (0.5, 1, 3),
    "network": (0.5, 1, 4),
    "memory_bandwidth": (1, 2),
}


def studies(catalogue: Path):
    """Yield random studies with their number, the same for the same catalogue."""
    draw = random.Random(SEED)
    machines = sorted(path.stem for path in (catalogue / "hardware").glob("*.yaml"))
    papers = sorted(f"papers/hardware/{path.stem}" for path in (catalogue / "papers" / "hardware").glob("*.yaml"))
    models = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((catalogue / "models").glob("*.yaml"))}
    usable = {name: _numbers(model) for name, model in models.items()}
    usable = {name: numbers for name, numbers in usable.items() if "layers" in numbers and "heads" in numbers}
    makers = {
        "complete": lambda: _complete(draw, draw.choice(machines), usable),
        "inference": lambda: _inference(draw, draw.choice(machines), usable),
        "comp_vs_comm": lambda: _one_layer(draw),
        "foundation_models": lambda: _foundation(draw, [name for name in papers if "foundation" in name]),
        "amped": lambda: _amped(draw, [name for name in papers if "amped" in name]),
    }
    for cost_model, count in POINTS.items():
        for number in range(-(-count // PER_STUDY)):
            name, study = f"{cost_model}-{number}", makers[cost_model]()
            yield name, study
            # The same point alone, without an axis: the other shape every formula has to answer in.
            yield f"{name}-alone", {**study, "zip": study["zip"][:1]}


def _numbers(model):
    """Return the fields of a model of the catalogue, wherever its file has them."""
    found = dict(model.get("fields", model) or {})
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))}


def _moving(draw, fields, most):
    """Draw which fields move, from point to point, and which are fixed; the others are not given."""
    names = draw.sample(sorted(fields), min(len(fields), draw.randint(0, most)))
    split = draw.randint(0, len(names))
    return names[:split], {name: draw.choice(fields[name]) for name in names[split:]}


def _table(draw, moving, fields, points):
    """Add drawn values of the moving fields to points."""
    return [{**point, **{name: draw.choice(fields[name]) for name in moving}} for point in points]


def _layouts(draw, numbers, trained=True):
    """Draw the points of a table: degrees and batches that fit a model, mostly, given in one way for all of them."""
    ways = {
        "gpus": draw.random() < 0.7,
        "global_batch": draw.random() < 0.7,
        "placed": draw.random() < 0.4,
        "trained": trained,
        "dp_shard": trained and draw.random() < 0.1,
        "recompute_layers": trained and draw.random() < 0.1,
        "nvs": draw.random() < 0.1,
    }
    found = [_layout(draw, numbers, ways) for _ in range(PER_STUDY)]
    return list({str(sorted(point.items())): point for point in found}.values())


def _layout(draw, numbers, ways):
    heads, layers = int(numbers.get("heads", 32)), int(numbers["layers"])
    kv, experts = int(numbers.get("kv_heads", heads)), int(numbers.get("experts", 0) or 0)
    layers += int(numbers.get("encoder_layers", 0) or 0)
    strict, trained = draw.random() < 0.95, ways["trained"]

    def degree(number, choices=DEGREES):
        fits = [n for n in choices if number % n == 0] if strict else choices
        return draw.choice(fits or [1])

    tp, pp = degree(kv), degree(layers, (1, 1, 2, 3, 4, 5, 8, 16))
    cp = draw.choice((1, 1, 1, 2, 4)) if trained else 1
    dp = draw.choice((1, 2, 3, 4, 8, 16, 64))
    point = {"tp": tp, "pp": pp, "cp": cp, "micro_batch": draw.choice((1, 1, 2, 4))}
    if ways["gpus"]:
        point["gpus"] = tp * cp * pp * dp
    else:
        point["dp"] = dp
    if trained:
        steps = draw.choice((1, 2, pp, 2 * pp, 4 * pp))
        if ways["global_batch"]:
            point["global_batch"] = steps * dp * point["micro_batch"]
        else:
            point["accumulation"] = steps
        point["vpp"] = draw.choice([v for v in (1, 1, 2, 3, 5) if layers % (pp * v) == 0] or [1]) if pp > 1 else 1
    if experts:
        point["ep"] = draw.choice([n for n in (1, 2, 4, 8, 16) if experts % n == 0 and (dp * cp * tp) % n == 0] or [1])
        point["etp"] = draw.choice((1, tp))
        point["etp"] = point["etp"] if (dp * cp * tp) % (point["etp"] * point["ep"]) == 0 else 1
    if ways["placed"]:
        point["placement"] = "-".join(draw.sample(GROUPS, 4))
    if ways["dp_shard"]:
        point |= {
            "zero": draw.choice((1, 2, 3)),
            "dp_shard": draw.choice([n for n in (1, 2, 4, 8) if dp * cp % n == 0]),
        }
    if ways["recompute_layers"]:
        point |= {"recompute": "full", "recompute_layers": draw.choice((1, 1, 2, 3))}
    if ways["nvs"]:
        point["nvs"] = draw.choice((4, 8, 16, 64))
    return point


EXPERTS = {"experts": (8, 16, 64), "top_k": (1, 2, 8), "moe_ffn_hidden": (512, 2048)}
MORE_OF_EXPERTS = {
    "shared_experts": (0, 1, 2),
    "dense_layers": (0, 1, 3),
    "moe_every": (1, 2),
    "capacity_factor": (1.0, 1.25),
    "router_bias": SWITCH,
}


def _synthetic(draw):  # noqa: C901 - one family after the other
    """Draw a model that no catalogue has: every family of layers, in every mixture."""
    heads = draw.choice((8, 16, 32, 64))
    fields = {
        "hidden": heads * draw.choice((64, 80, 128)),
        "layers": draw.choice((4, 6, 12, 24, 48, 61)),
        "heads": heads,
        "vocab": draw.choice((32000, 50257, 128256)),
        "seq_len": draw.choice((1024, 4096, 16384)),
    }
    kind = draw.choice(
        ("dense", "gqa", "window", "moe", "mla", "mla-moe", "encoder-decoder", "encoder", "vit", "mtp", "window-moe")
    )
    if kind in ("gqa", "window", "window-moe"):
        fields["kv_heads"] = draw.choice((1, 4, 8))
    if kind in ("window", "window-moe"):
        fields |= {"window": draw.choice((128, 1024, 100_000))}
        if draw.random() < 0.7:
            fields["global_every"] = draw.choice((2, 3, 6))
    if kind in ("moe", "mla-moe", "mtp", "window-moe"):
        fields |= {name: draw.choice(values) for name, values in EXPERTS.items()}
        fields |= {name: draw.choice(values) for name, values in MORE_OF_EXPERTS.items() if draw.random() < 0.5}
    if kind in ("mla", "mla-moe"):
        fields |= {"kv_lora_rank": 512, "rope_head_dim": 64, "head_dim": 128}
        if draw.random() < 0.7:
            fields["q_lora_rank"] = draw.choice((0, 1536))
        if draw.random() < 0.3:
            fields["v_head_dim"] = 64
    if kind == "mtp" or (kind == "dense" and draw.random() < 0.2):
        fields["mtp_layers"] = draw.choice((1, 2))
    if kind == "encoder-decoder":
        fields |= {
            "architecture": kind,
            "encoder_layers": draw.choice((4, 12)),
            "encoder_seq_len": draw.choice((512, 2048)),
        }
    if kind == "encoder":
        fields["architecture"] = "encoder"
    if kind == "vit":
        fields |= {"architecture": "vit", "vocab": 0, "patch_features": 768, "classes": draw.choice((0, 1000))}
    if kind == "dense" and draw.random() < 0.3:
        fields["parallel_blocks"] = "on"
    return fields


def _complete(draw, machine, usable):
    study = {"title": "net", "cost_model": "complete", "hardware": machine}
    if draw.random() < 0.5:
        name = draw.choice(sorted(usable))
        study["model"], numbers = name, usable[name]
        fixed = {"seq_len": draw.choice((1024, 4096, 8192))}
    else:
        numbers = fixed = _synthetic(draw)
        moving, more = _moving(draw, MODEL_FIELDS, 4)
        fixed = {**fixed, **more, **{name: draw.choice(MODEL_FIELDS[name]) for name in moving}}
    moving, more = _moving(draw, {**CHOICES, **WORLD}, 9)
    points = _layouts(draw, numbers)
    moving = [name for name in moving if name not in points[0]]
    return _study(study, {"memory_capacity": 1000, **fixed, **more}, _table(draw, moving, {**CHOICES, **WORLD}, points))


def _inference(draw, machine, usable):
    study = {"title": "net", "cost_model": "complete", "hardware": machine}
    decoders = {
        name: numbers for name, numbers in usable.items() if numbers.get("architecture", "decoder") == "decoder"
    }
    if draw.random() < 0.7:
        name = draw.choice(sorted(decoders))
        study["model"], numbers, fixed = name, decoders[name], {"seq_len": draw.choice((256, 4096))}
    else:
        numbers = fixed = _synthetic(draw)
        for name in ("mtp_layers", "encoder_layers", "encoder_seq_len", "patch_features", "classes"):
            fixed.pop(name, None)
        fixed["architecture"], fixed["vocab"] = "decoder", 32000
    fields = {
        **{name: CHOICES[name] for name in ("kv_replication", "collective_algorithm", "attention_kernel", "kernels")},
        **{
            name: values
            for name, values in WORLD.items()
            if name not in ("grad_precision", "accumulate_precision", "optimizer_precision", "interference")
        },
        **SERVING,
    }
    moving, more = _moving(draw, fields, 6)
    points = _layouts(draw, numbers, trained=False)
    moving = [name for name in moving if name not in points[0]]
    for point in points:
        point.pop("cp")
    fixed = {"phase": "inference", "memory_capacity": 1000, **fixed, **more}
    return _study(study, fixed, _table(draw, moving, fields, points))


def _one_layer(draw):
    study = {
        "title": "net",
        "cost_model": "comp_vs_comm",
        "hardware": draw.choice(("mi210", "a100-sxm-80gb", "h100-sxm", "mi300x")),
    }
    always = ("hidden", "seq_len", "micro_batch", "tp")
    moving, fixed = _moving(draw, {name: values for name, values in ONE_LAYER.items() if name not in always}, 7)
    if study["hardware"] == "mi210" and draw.random() < 0.6:
        fixed["timing"] = draw.choice(("A", "B", "C"))
    return _study(study, fixed, _table(draw, [*always, *moving], ONE_LAYER, [{} for _ in range(PER_STUDY)]))


def _foundation(draw, machines):
    study = {"title": "net", "cost_model": "foundation_models", "hardware": draw.choice(machines)}
    heads = draw.choice((16, 64, 96))
    fixed = {
        "hidden": heads * 128,
        "seq_len": draw.choice((2048, 8192)),
        "heads": heads,
        "layers": draw.choice((32, 96)),
        "strategy": draw.choice(("1d", "2d", "2d-seqp")),
        "formulas": draw.choice(("as_published", "corrected")),
    }
    points = []
    for _ in range(PER_STUDY):
        point = {
            "tp1": draw.choice((1, 2, 4, 8)),
            "tp2": draw.choice((1, 1, 2, 4)) if fixed["strategy"] != "1d" else 1,
            "pp": draw.choice((1, 2, 4, 8)),
            "dp": draw.choice((1, 2, 8, 32)),
            "micro_batch": draw.choice((1, 2, 4)),
        }
        point["global_batch"] = point["dp"] * point["micro_batch"] * draw.choice((1, 4, 16))
        points.append(point)
    if draw.random() < 0.3:
        for point in points:
            point["nv_tp1"] = draw.choice((1, 2, 4))
    more = {
        name: draw.choice(WORLD[name]) for name in draw.sample(("flops", "network", "memory_bandwidth", "latency"), 2)
    }
    return _study(study, {**fixed, **more}, points)


def _amped(draw, machines):
    study = {"title": "net", "cost_model": "amped", "hardware": draw.choice(machines)}
    heads = draw.choice((16, 64, 96))
    fixed = {"hidden": heads * 128, "seq_len": 2048, "heads": heads, "layers": draw.choice((32, 96)), "vocab": 51200}
    if draw.random() < 0.4:
        fixed |= {"experts": draw.choice((8, 64)), "top_k": draw.choice((1, 2))}
    points = []
    for _ in range(PER_STUDY):
        point = {
            "tp": draw.choice((1, 2, 4, 8)),
            "pp": draw.choice((1, 2, 4, 8)),
            "dp": draw.choice((1, 2, 8, 32)),
            "micro_batch": draw.choice((1, 2, 4)),
        }
        point["global_batch"] = point["dp"] * point["micro_batch"] * draw.choice((1, 4, 16))
        points.append(point)
    more = {
        "bubble_ratio": (0, 0.1, 1),
        "zero_overhead": (0.0, 0.5),
        "precision": ("fp16", "bf16"),
        "flops": (1, 2),
        "network": (1, 2),
        "latency": (1, 3),
    }
    moving, given = _moving(draw, more, 3)
    return _study(study, {**fixed, **given}, _table(draw, moving, more, points))


def _study(about, fixed, points):
    """Return a study; what moves is not fixed as well."""
    if about["hardware"] in OLD:
        fixed = {**fixed, "precision": "fp16"}
        points = [{name: value for name, value in point.items() if name != "precision"} for point in points]
    moving = set(points[0])
    points = list({str(sorted(point.items())): point for point in points}.values())
    return {**about, "set": {name: value for name, value in fixed.items() if name not in moving}, "zip": points}

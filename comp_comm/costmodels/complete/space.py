"""The layouts that a search of a complete step tries."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Recompute
from comp_comm.costmodels.layout_space import (
    ChoiceValues,
    Columns,
    Degrees,
    LayoutQuestion,
    LayoutSpace,
    Whole,
    divisors,
)
from comp_comm.costmodels.records import STEP_PARTS
from comp_comm.costmodels.scenario import Scenario
from comp_comm.dispatchers import Dispatcher
from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.formulas.arrays import Mask, distinct, to_float
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.layout import Layout
from comp_comm.stage_layout import ENDS
from comp_comm.transformer import Transformer

TABLE = ("tp", "cp", "pp", "vpp", "ep", "etp", "micro_batch")
MAX_ROWS = 20_000_000
# Of the memory, beside what the framework takes: an 80 GB device reports 79.1 GiB, and PyTorch's allocator reserves
# some 4 to 6 % more than is allocated.
HEADROOM = 0.05


class Joined:
    """A table of degrees: each join adds a column, and drops the rows that break a rule."""

    def __init__(self, question: LayoutQuestion) -> None:
        self.question = question
        self.columns: Columns = {}
        self.dropped: dict[str, int] = {}

    def __getitem__(self, name: str) -> Whole:
        return self.columns[name]

    def join(self, name: str, natural: Whole) -> None:
        """Join every value of a field with every row: those that a study allows, or else its natural ones."""
        allowed = self.question.allowed.get(name, ())
        values = np.asarray(sorted(int(value) for value in allowed), np.int64) if allowed else natural
        rows = len(next(iter(self.columns.values()))) if self.columns else 1
        if rows * len(values) > MAX_ROWS:
            raise ConfigError(f"more than {MAX_ROWS:,} rows of degrees: pin some of {', '.join(TABLE)}")
        self.columns = {other: np.repeat(column, len(values)) for other, column in self.columns.items()}
        self.columns[name] = np.tile(values, rows)

    def keep(self, mask: NDArray[np.bool_], reason: str) -> None:
        """Drop the rows where ``mask`` is false, and count them."""
        lost = int((~mask).sum())
        if lost:
            self.dropped[reason] = self.dropped.get(reason, 0) + lost
        self.columns = {name: column[mask] for name, column in self.columns.items()}


def degrees(question: LayoutQuestion) -> Degrees:
    """Return the degrees, tied by devices, layers, heads and batch, joined divisor by divisor."""
    fixed, gpus = question.fixed, question.gpus
    layers, heads, batch = (int(fixed[name]) for name in ("layers", "heads", "global_batch"))
    layers += int(fixed.get("encoder_layers", 0))
    experts, seq_len = int(fixed.get("experts", 0) or 0), int(fixed["seq_len"])
    t = Joined(question)
    t.join("tp", divisors(gpus))
    t.keep(heads % t["tp"] == 0, "tp does not divide heads")
    t.join("cp", divisors(gpus))
    t.keep(seq_len % t["cp"] == 0, "cp does not divide seq_len")
    t.keep(gpus % (t["tp"] * t["cp"]) == 0, "tp x cp does not divide gpus")
    t.join("pp", divisors(gpus))
    t.keep(t["pp"] <= layers, "pp exceeds the layers")
    t.keep(gpus % (t["tp"] * t["cp"] * t["pp"]) == 0, "tp x cp x pp does not divide gpus")
    t.keep(batch % _replicas(t, gpus) == 0, "dp does not divide global_batch")
    t.join("micro_batch", divisors(batch))
    t.keep(batch % (_replicas(t, gpus) * t["micro_batch"]) == 0, "dp x micro_batch does not divide global_batch")
    _join_chunks(t, layers, batch, gpus)
    _join_experts(t, experts, gpus)
    return Degrees(t.columns, t.dropped)


def _replicas(t: Joined, gpus: int) -> Whole:
    replicas: Whole = gpus // (t["tp"] * t["cp"] * t["pp"])
    return replicas


def _join_chunks(t: Joined, layers: int, batch: int, gpus: int) -> None:
    """Join the chunks a stage may have: those that divide the layers, or all layers with embedding and head."""
    t.join("vpp", distinct(np.concatenate([divisors(layers), divisors(layers + 2)])))
    t.keep((t["vpp"] == 1) | (t["pp"] > 1), "vpp above 1 needs pp above 1")
    t.keep(t["pp"] * t["vpp"] <= layers + ENDS * (t["vpp"] > 1), "pp x vpp exceeds the layers")
    chunks = t["pp"] * t["vpp"]
    even = (layers % chunks == 0) | ((layers + 2) % chunks == 0)
    pinned = bool(t.question.allowed.get("vpp"))
    t.keep(even | (t["vpp"] == 1) | pinned, "interleaved chunks of unequal size: pin vpp to try them")
    micro_batches = batch // (_replicas(t, gpus) * t["micro_batch"])
    t.keep(
        (t["vpp"] == 1) | (micro_batches % t["pp"] == 0), "interleaving needs a multiple of pp micro-batches a replica"
    )


def _join_experts(t: Joined, experts: int, gpus: int) -> None:
    one = np.ones(1, np.int64)
    t.join("ep", divisors(experts) if experts else one)
    t.keep(gpus // t["pp"] % t["ep"] == 0, "ep does not divide dp x cp x tp")
    if experts:
        t.join("etp", divisors(int(t["tp"].max(initial=1))))
        t.keep(t["tp"] % t["etp"] == 0, "etp does not divide tp")
        t.keep(gpus // t["pp"] % (t["ep"] * t["etp"]) == 0, "ep x etp does not divide dp x cp x tp")


def worthwhile(choices: ChoiceValues) -> ChoiceValues:
    """Return choices without recomputation of attention where flash kernels keep nothing of it.

    >>> worthwhile({"attention_kernel": ("flash",), "recompute": ("none", "core_attn+mlp", "mlp")})["recompute"]
    ('none', 'mlp')
    """
    if AttentionKernel.UNFUSED.word in choices.get("attention_kernel", ()) or "recompute" not in choices:
        return choices
    options = [Recompute.of(str(word)) for word in choices["recompute"]]
    modules = {option.modules for option in options if option is not Recompute.FULL}

    def pointless(option: Recompute) -> bool:
        return (
            "core_attn" in option.modules and tuple(each for each in option.modules if each != "core_attn") in modules
        )

    return {**choices, "recompute": tuple(option.word for option in options if not pointless(option))}


def helpful(scenario: Scenario, dispatchers: Iterable[Value]) -> ChoiceValues:
    """Return what software does with fp8 that changes no number of the recipe, takes no memory and no time.

    Weights are quantised before they are gathered, not after it; so are tokens before they go to experts, where these
    take tiles of one token (of a recipe with a scale for a tensor no device has all of it) and a library takes their
    scales along (DeepEP, HybridEP).

    >>> from comp_comm.configs.study import study_from
    >>> from comp_comm.sweeps.plan import make_plan
    >>> fp8 = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 64, "seq_len": 64, "precision": "fp8"}
    >>> plan = make_plan(study_from({"hardware": "h100-sxm", "set": {**fp8, "recipe": "blockwise"}}))
    >>> helpful(plan.grid.scenario(()), ("deepep",))
    {'fp8_param_gather': ('on',)}
    """
    recipe = Recipe.at(int(scenario.formats.recipe))
    if recipe in (Recipe.NONE, Recipe.NVFP4) or not recipe.stored:
        return {}
    tiles = recipe is Recipe.BLOCKWISE and scenario.transformer.has_experts
    once = all(Dispatcher.of(str(way)).once for way in dispatchers)
    return {"fp8_param_gather": ("on",), **({"dispatch_precision": ("fp8",)} if tiles and once else {})}


SPACE = LayoutSpace(
    coupled=TABLE,
    degrees=degrees,
    searched={"zero": (0, 1, 2, 3), "recompute": ("none", "selective", "full"), "sp": ("off", "on")},
    # What stacks use across nodes (inside one, an all-to-all is about as fast), beside another micro-batch's compute.
    searched_with_experts={"ep_dispatch": ("deepep",), "overlap_ep": ("on",), "schedule": ("1f1b", "dualpipe"),
                           "recompute": ("none", "layernorm+moe_act", "full")},
    searched_with_experts_and_mla={"recompute": ("none", "mla_up_proj+layernorm+moe_act", "full")},
    searched_if_listed=(
        "overlap_dp", "overlap_tp", "overlap_pp", "overlap_ep", "schedule", "cp_comm", "cp_implementation",
        "kv_replication", "offload_optimizer", "master_weights", "reshard_after_forward", "gradient_sync",
        "fsdp_units", "zero_implementation", "gradient_accumulation_fusion", "sequence_inputs", "kernels",
        "cross_entropy", "attention_kernel", "cuda_graph", "launch_blocking", "collective_algorithm"),
    formats_if_listed=("optimizer_precision", "grad_precision", "fp8_param_gather", "fp8_activations",
                       "dispatch_precision", "combine_precision"),
    without_dominated=worthwhile,
    dominant=helpful,
    simplest={"gpus": 1, "tp": 1, "cp": 1, "pp": 1, "vpp": 1, "ep": 1, "micro_batch": 1, "dp": 1},
    not_in_simplest=("dp_shard", "reshard_shards", "recompute_layers", "recompute_early_stop", "offload_activations",
                     "pp_layout"),
    derived=dict.fromkeys(("dp", "accumulation"), "pin tp, cp, pp or micro_batch instead"),
    placed=True,
    layout_columns=("gpus", "tp", "cp", "pp", "vpp", "ep", "etp", "dp", "micro_batch", "accumulation", "zero", "sp",
                    "recompute", "placement"),
    result_columns=("step_s", "tokens_per_s", "mfu", "hfu", "memory_gib", "visible_comm_fraction", "bubble_fraction",
                    "compute_s", "recompute_s", "bubble_s", "serialized_comm_s", "hidden_comm_s", "exposed_comm_s",
                    "host_s"),
    time_columns={words: name for name, words in STEP_PARTS.items()},
    objectives=("step", "tokens_per_s", "cost", "energy", "mfu", "days", "gpu-hours", "memory", "comm"),
    headroom=HEADROOM,
)  # fmt: skip


def idle_choices(layout: Layout, t: Transformer) -> dict[str, Mask]:
    """Return where each choice of a layout has no effect, by the field it is about."""
    tp, cp, pp, ep = (to_float(size) == 1 for size in (layout.tp, layout.cp, layout.pp, layout.ep))
    alone = layout.replicas == 1  # experts may have replicas all the same, which ZeRO does not shard
    whole = ep & ((to_float(layout.etp) == 1) | (to_float(t.experts) == 0))
    silent = alone & (layout.expert_replicas <= 1) & (layout.copies <= 1)
    return {"sp": tp, "sequence_inputs": tp, "overlap_tp": tp, "cp_comm": cp, "cp_implementation": cp,
            "overlap_pp": pp, "schedule": pp, "zero": alone, "overlap_dp": silent, "overlap_ep": whole,
            # Without exchanges tokens are still sorted as the dispatcher has it.
            "ep_dispatch": to_float(t.experts) == 0}  # fmt: skip

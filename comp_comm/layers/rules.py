"""What a model and a layout must keep together for every device to get an equal share."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import ContextComm, ContextImplementation, Switch
from comp_comm.dispatchers import Dispatcher, Routing
from comp_comm.formulas.arrays import Numeric, everywhere, somewhere, to_float
from comp_comm.kernel_choices import AttentionKernel, CudaGraph
from comp_comm.layers.adapters import adapter_rules
from comp_comm.layout import NOT_GIVEN, Layout
from comp_comm.stage_layout import ENDS, TORCHTITAN, parse_stage_layout
from comp_comm.transformer import Transformer
from comp_comm.violation import Violation, rule


def layer_rules(t: Transformer, layout: Layout) -> list[Violation]:
    """Return the rules about what a layer of a resolved model is split into on a resolved layout."""
    return [*_tensor_parallel(t, layout), *_context_parallel(t, layout), *_experts(t, layout), *_dispatch(t, layout),
            *_loss(t, layout), *_kernel(t, layout), *adapter_rules(t, layout)]  # fmt: skip


def _kernel(t: Transformer, layout: Layout) -> list[Violation]:
    """Return what attention of a model asks of the kernel that a study names."""
    code = np.asarray(layout.attention_kernel)
    if everywhere(code == AttentionKernel.FLASH_CAUSAL):
        return []
    named = [kernel.word for kernel in AttentionKernel if kernel.sinks]
    return [
        rule((AttentionKernel.look_up("windows", code) == 0) & (to_float(t.window) < np.inf), "this attention_kernel "
             "has no sliding window; all but flash_1 and triton_1 do", "attention_kernel", "window"),
        rule((AttentionKernel.look_up("sinks", code) == 0) & (to_float(t.attention_sinks) > 0), "this attention_kernel "
             f"has no attention sinks; those that do: {', '.join(named)}", "attention_kernel", "attention_sinks"),
    ]  # fmt: skip


def _dispatch(t: Transformer, layout: Layout) -> list[Violation]:
    """Return the rules about how tokens go to experts."""
    none, order = to_float(t.experts) == 0, np.asarray(layout.ep_dispatch)
    once = Dispatcher.look_up("once", order) > 0
    routed = CudaGraph.ROUTER.where(layout.cuda_graph) | CudaGraph.ATTENTION_ROUTER.where(layout.cuda_graph)
    limited, stated = ~np.isnan(to_float(layout.ep_node_limit)), ~np.isnan(to_float(layout.imbalance))
    return [
        rule(none & (order != Dispatcher.ALL_TO_ALL), "ep_dispatch means nothing without experts", "ep_dispatch",
             "experts"),
        rule(none & routed, "a CUDA graph of a router means nothing without experts: cuda_graph none, attention or "
             "full", "cuda_graph", "experts"),
        rule(limited & ~once, "ep_node_limit goes with ep_dispatch deepep or hybridep: others send every copy by "
             "itself", "ep_node_limit", "ep_dispatch"),
        rule(~np.isnan(to_float(layout.ep_sms)) & ~once & Switch.OFF.where(layout.overlap_ep), "ep_sms goes with "
             "ep_dispatch deepep or hybridep, or overlap_ep: on: nothing else runs beside an all-to-all", "ep_sms",
             "ep_dispatch", "overlap_ep"),
        rule(stated & (to_float(t.capacity_factor) != 1), "imbalance goes with capacity_factor 1: all experts take "
             "what their capacity is", "imbalance", "capacity_factor"),
        rule(stated & Routing.RANDOM.where(layout.routing), "imbalance is given, and follows from routing: random; "
             "give one of them", "imbalance", "routing"),
    ]  # fmt: skip


def _loss(t: Transformer, layout: Layout) -> list[Violation]:
    given = np.asarray(np.asarray(layout.cross_entropy) != NOT_GIVEN)
    return [rule(given & (to_float(t.vocab) == 0), "cross_entropy means nothing without a vocabulary", "cross_entropy",
                 "vocab")]  # fmt: skip


def _tensor_parallel(t: Transformer, layout: Layout) -> list[Violation]:
    tp, kv = to_float(layout.tp), to_float(t.kv_heads)
    uneven = (kv % tp != 0) & (tp % kv != 0)
    copied = (tp > kv) & (tp % kv == 0) & Switch.OFF.where(layout.kv_replication)
    dense = t.dense_networks
    share = to_float(t.seq_len) / layout.cp
    return [
        _uneven(t.heads, tp, "tp does not divide heads", "tp", "heads"),
        rule(uneven, "tp does not divide kv_heads, nor kv_heads tp", "tp", "kv_heads"),
        rule(copied, "tp exceeds kv_heads: 'kv_replication: on' copies them", "tp", "kv_heads"),
        rule(dense & (to_float(t.ffn_hidden) % tp != 0), "tp does not divide ffn_hidden", "tp", "ffn_hidden"),
        rule((to_float(layout.sp) > 0) & (share % tp != 0), "tp does not divide seq_len / cp, which sequence "
              "parallelism splits", "tp", "seq_len", "cp"),
        rule(t.encoder_decoder & (to_float(layout.sp) > 0) & (to_float(t.encoder_seq_len) / layout.cp % tp != 0),
              "tp does not divide encoder_seq_len / cp", "tp", "encoder_seq_len"),
    ]  # fmt: skip


def _context_parallel(t: Transformer, layout: Layout) -> list[Violation]:
    cp, tp, whose = to_float(layout.cp), to_float(layout.tp), layout.cp_implementation
    many = cp > 1
    swapped = many & ContextComm.ALL_TO_ALL.where(layout.cp_comm)
    # A causal ring is balanced by giving each device a piece from the front and one from the back.
    pieces = np.where(t.causal & ~swapped, 2 * cp, cp)
    uneven = many & (to_float(t.seq_len) % pieces != 0)
    return [
        rule(uneven & (pieces > cp), "2 x cp does not divide seq_len", "cp", "seq_len"),
        rule(uneven & (pieces == cp), "cp does not divide seq_len", "cp", "seq_len"),
        rule(swapped & (to_float(t.heads) % (tp * cp) != 0), "tp x cp does not divide heads, which all_to_all swaps",
              "cp", "tp", "heads"),
        rule(swapped & (np.maximum(to_float(t.kv_heads), tp) % (tp * cp) != 0),
              "tp x cp does not divide kv_heads, which all_to_all swaps", "cp", "tp", "kv_heads"),
        rule(many & (to_float(t.window) < np.inf) & ContextComm.P2P.where(layout.cp_comm), "a window with keys passed "
              "round a ring is not modelled: cp_comm all_gather or all_to_all", "cp", "window", "cp_comm"),
        rule(swapped & ~ContextImplementation.TRANSFORMER_ENGINE.where(whose), "cp_implementation is of keys that are "
              "passed round or gathered: cp_comm p2p or all_gather", "cp_implementation", "cp_comm"),
        rule(many & ContextComm.P2P.where(layout.cp_comm) & ContextImplementation.FLEX.where(whose),
              "cp_implementation: flex gathers keys: cp_comm all_gather", "cp_implementation", "cp_comm"),
    ]  # fmt: skip


def stage_rules(t: Transformer, given: Layout, layout: Layout) -> list[Violation]:
    """Return the rules about stages of layers; ``given`` is the layout before it is resolved."""
    pp, vpp, chunks = to_float(layout.pp), to_float(layout.vpp), layout.model_chunks
    layers = to_float(t.all_layers)
    full, away = to_float(given.recompute_layers), to_float(given.offload_activations)
    most = layers + np.where(to_float(layout.vpp) > 1, ENDS, 0.0)
    return [
        rule(most < pp * vpp, "pp x vpp exceeds the layers", "pp", "vpp", "layers"),
        rule((layers < chunks) & (most >= pp * vpp) & (chunks > pp * vpp), "schedule: zb_v has two chunks a stage, and "
              "2 x pp exceeds the layers", "schedule", "pp", "layers"),
        rule(~np.isnan(full) & (full > np.ceil(layers / pp)), "recompute_layers exceeds the layers of a stage",
             "recompute_layers", "layers", "pp"),
        rule(~np.isnan(away) & (away > np.ceil(layers / pp)), "offload_activations exceeds the layers of a stage",
             "offload_activations", "layers", "pp"),
        *_stated_stages(layout, layers, chunks),
    ]  # fmt: skip


def _stated_stages(layout: Layout, layers: Numeric, chunks: Numeric) -> list[Violation]:
    """Return the rules that a stated layout of stages must keep: as many chunks as there are, and all layers."""
    stated = layout.pp_layout
    rules = []
    for code, text in enumerate(stated.texts):
        if text in ("", TORCHTITAN):
            continue
        stages = parse_stage_layout(text)
        left = to_float(layers) - sum(count or 0 for count in stages.chunks)
        share = to_float(chunks) - sum(count is not None for count in stages.chunks)
        wrong = (left != 0) | (share != 0)
        if stages.open:
            wrong = (share < 1) | (left < 0) | (left % np.maximum(share, 1) != 0)
        reason = (
            f"pp_layout '{text}' has {_said(stages.chunks)}, which is not pp x vpp chunks with all layers of the model"
        )
        rules.append(rule((stated.codes == code) & wrong, reason, "pp_layout", "pp", "vpp", "layers"))
    return rules


def _said(chunks: tuple[int | None, ...]) -> str:
    """Return what a layout of stages has, in words."""
    layers, open_ended = sum(count or 0 for count in chunks), None in chunks
    at_least = "at least " if open_ended else ""
    return f"{at_least}{len(chunks)} chunks and {at_least}{layers} layers"


def _experts(t: Transformer, layout: Layout) -> list[Violation]:
    experts, ep = to_float(t.experts), to_float(layout.ep)
    moe = experts > 0
    if not somewhere(moe):
        return [rule(ep > 1, "ep needs experts", "ep", "experts")]
    shared = to_float(t.shared_ffn_hidden)
    return [
        rule(~moe & (ep > 1), "ep needs experts", "ep", "experts"),
        rule(moe & (experts % ep != 0), "ep does not divide experts", "ep", "experts"),
        rule(moe & (to_float(t.moe_ffn_hidden) % layout.etp != 0), "etp does not divide moe_ffn_hidden", "etp",
              "moe_ffn_hidden", "tp"),
        rule(moe & (shared % layout.tp != 0), "tp does not divide the width of the shared experts", "tp",
              "shared_ffn_hidden", "shared_experts"),
        rule(moe & (to_float(layout.tp) > 1) & (to_float(layout.sp) == 0),
              "experts with tp above 1 need sequence parallelism ('sp: on')", "sp", "tp", "experts"),
    ]  # fmt: skip


def _uneven(number: Numeric, divisor: Numeric, reason: str, *names: str) -> Violation:
    return rule(np.asarray(to_float(number) % divisor != 0), reason, *names)

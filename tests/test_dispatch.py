"""Tokens on their way to experts: copies counted one by one, published seconds, what overlap hides, what is refused."""

import itertools
import json

import numpy as np
import pytest
from face import explained, row_of, told

from comp_comm.configs import catalogue
from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.model_file import load_model
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.operation_times import OperationTimes
from comp_comm.dispatchers import Dispatcher
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import to_float
from comp_comm.formulas.dispatch import distinct_places, expected_imbalance, group_limit, remote_copies
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.layout import Layout
from comp_comm.operations.shapes import Elementwise, TokenExchange
from comp_comm.timing.dispatch import exchange_seconds
from comp_comm.timing.passes import Passes
from comp_comm.timing.paths import path_of
from comp_comm.timing.timed_collectives import TimedCollective
from comp_comm.timing.timed_operations import TimedOperation

MODEL = {
    "layers": 4, "hidden": 1024, "heads": 16, "vocab": 32000, "seq_len": 1024, "gated": "on", "experts": 64, "top_k": 4,
    "moe_ffn_hidden": 512, "gpus": 32, "ep": 32, "micro_batch": 2, "global_batch": 128,
}  # fmt: skip


def step(**fields):
    return explained({"hardware": fields.pop("hardware", "h100-sxm"), "set": {**MODEL, **fields}})


def exchange_of(found, name, phase="forward"):
    return next(op for op in found["operations"] if op["operation"] == name and op["phase"] == phase)


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "experts"), [(1, 3), (2, 1), (2, 4), (3, 3), (4, 5)])
def test_copies_are_those_of_every_way_that_experts_can_fall_on_nodes(nodes, experts):
    ways = [set(way) for way in itertools.product(range(nodes), repeat=experts)]
    assert float(distinct_places(nodes, experts)) == pytest.approx(np.mean([len(way) for way in ways]), rel=1e-12)
    remote = np.mean([len(way - {0}) for way in ways])
    assert float(remote_copies(nodes, experts)) == pytest.approx(remote, rel=1e-12, abs=1e-12)


def test_a_limit_chooses_nodes_first_and_then_experts_on_them():
    nodes, limit, experts, remote = 4, 2, 3, []
    for able in itertools.combinations(range(nodes), limit):
        remote += [len(set(way) - {0}) for way in itertools.product(able, repeat=experts)]
    assert float(remote_copies(nodes, experts, limit)) == pytest.approx(np.mean(remote), rel=1e-12)
    assert float(remote_copies(nodes, experts, 9)) == float(remote_copies(nodes, experts))


def test_bytes_by_tier_are_those_of_routed_tokens():
    """Experts of a token are all different ones, drawn at random; devices are on nodes of eight."""
    rng, tokens, devices = np.random.default_rng(1), 4000, MODEL["ep"]
    chosen = np.argsort(rng.random((tokens, MODEL["experts"])), axis=1)[:, : MODEL["top_k"]]
    ranks = chosen // (MODEL["experts"] // devices)
    home = np.arange(tokens) % devices
    across = np.mean([len(set(row // 8) - {me // 8}) for row, me in zip(ranks, home, strict=True)])
    # A copy arrives at the device of its node with the sender's number, and is passed on to the others.
    inside = np.mean([len({r for r in row if r % 8 != me % 8}) for row, me in zip(ranks, home, strict=True)])
    one_copy = 2 * 1024 * 1024 * 2
    for way in ("deepep", "hybridep"):
        for name in ("expert dispatch", "expert combine"):
            found = exchange_of(step(ep_dispatch=way), name)
            assert found["across_bytes"] == pytest.approx(across * one_copy, rel=0.02)
            assert found["inside_bytes"] == pytest.approx(inside * one_copy, rel=0.03)
            assert found["wire_bytes"] == found["inside_bytes"] + found["across_bytes"]
    plain = exchange_of(step(), "expert dispatch")
    assert plain["across_bytes"] == pytest.approx(4 * one_copy * 24 / 32)
    assert plain["inside_bytes"] == pytest.approx(4 * one_copy * 7 / 32)
    everywhere = exchange_of(step(ep_dispatch="all_gather"), "expert combine")
    assert (everywhere["kind"], everywhere["message_bytes"]) == ("reduce_scatter", 32 * one_copy)


def test_formats_on_the_way_are_those_of_one_direction_in_both_passes():
    same, less = (step(ep_dispatch="deepep", **more) for more in ({}, {"dispatch_precision": "fp8"}))
    for phase in ("forward", "backward"):
        for name, share in (("expert dispatch", 0.5), ("expert combine", 1.0)):
            one, other = (exchange_of(found, name, phase) for found in (same, less))
            assert other["wire_bytes"] == pytest.approx(share * one["wire_bytes"])


# -- seconds ----------------------------------------------------------------------------------------------------------

H800 = Hardware(1, 1, 1, (Tier(8, 200e9, 0.0, 1.0), Tier(np.inf, 50e9, 0.0, 1.0)), Timing())
# deepseek-ai/DeepEP, docs/legacy.md: GB/s of 4096 tokens of 7168 numbers, top 8 in 4 nodes, fp8 out and bf16 back.
# Bytes are those of all copies to devices in one node, to nodes (the own one among them) on more.
DEEPEP = [(8, 153, 158), (16, 43, 43), (32, 58, 57), (64, 51, 50)]


def exchange(ep, size, way=Dispatcher.DEEPEP, limit=4, sms=20, to_experts=True):
    sent = 4096 * 7168 * size
    group, token = Group(ep), 7168 * size
    return TokenExchange(
        "",
        "",
        count=1,
        kind="all_to_all",
        parallelism="ep",
        message_bytes=8 * sent,
        backward_count=1,
        group=group,
        dispatcher=way,
        all_tokens_bytes=sent,
        token_bytes=token,
        top_k=8,
        node_limit=limit,
        sms=sms,
        imbalance=1,
        to_experts=to_experts,
    )


def seconds(ep, size, way=Dispatcher.DEEPEP, limit=4, hardware=H800, sms=20):
    call = exchange(ep, size, way, limit, sms)
    return float(exchange_seconds(hardware, path_of(hardware, call.group), call))


@pytest.mark.parametrize(("ep", "out", "back"), DEEPEP)
def test_seconds_of_deepep_are_the_published_ones(ep, out, back):
    nodes = ep // 8
    copies = 8 * (1 - (7 / 8) ** 8) if nodes == 1 else min(nodes, 4) * (1 - (1 - 1 / min(nodes, 4)) ** 8)
    for size, rate in ((1, out), (2, back)):
        assert seconds(ep, size) == pytest.approx(4096 * 7168 * copies * size / (rate * 1e9), rel=0.12)


def test_four_calls_on_64_devices_take_14_milliseconds():
    once = 2 * (seconds(64, 1) + seconds(64, 2))
    assert once == pytest.approx(14e-3, rel=0.15)
    assert 2 * (seconds(64, 1, Dispatcher.ALL_TO_ALL) + seconds(64, 2, Dispatcher.ALL_TO_ALL)) > 1.8 * once


@pytest.mark.parametrize(
    ("sms", "size", "rate"), [(16, 1, 246), (16, 2, 348), (24, 2, 494), (32, 1, 443), (48, 2, 646)]
)
def test_kernels_are_as_fast_as_their_multiprocessors(sms, size, rate):
    """DeepEP on eight B200, dispatch (HybridEP's README)."""
    b200 = Hardware(1, 1, 1, (Tier(8, 900e9, 0.0, 1.0),), Timing())
    copies = 8 * (1 - (7 / 8) ** 8)
    ours = seconds(8, size, hardware=b200, sms=sms, limit=np.inf)
    assert ours == pytest.approx(4096 * 7168 * copies * size / (rate * 1e9), rel=0.12)


@pytest.mark.parametrize("devices", [2, 16, 256])
def test_the_fullest_device_is_that_of_many_draws(devices):
    drawn = np.random.default_rng(2).multinomial(devices * 512, [1 / devices] * devices, 2000).max(axis=1)
    assert float(expected_imbalance(512, devices)) - 1 == pytest.approx(drawn.mean() / 512 - 1, rel=0.07)


def test_an_uneven_load_slows_exchanges_and_experts_and_takes_memory():
    even, uneven, random = step(), step(imbalance=1.5), step(routing="random")
    start = 2e-4
    for name in ("expert dispatch", "expert combine"):
        one, other = (exchange_of(found, name)["seconds"] / 16 for found in (even, uneven))
        assert one < other < 1.5 * one + start
    flops = [exchange_of(found, "experts up")["flops"] for found in (even, uneven)]
    assert flops[1] == pytest.approx(1.5 * flops[0])
    assert even["memory"]["activations_bytes"] < uneven["memory"]["activations_bytes"]
    assert even["step_s"] < random["step_s"] < uneven["step_s"]
    assert even["model_flops"] == uneven["model_flops"]


# -- overlap ----------------------------------------------------------------------------------------------------------


def test_a_fast_network_hides_a_share_of_each_exchange_less_what_kernels_take():
    fast = {"ep_dispatch": "deepep", "network": 1000, "ep_sms": 33, "cuda_graph": "full"}
    off, on = (step(**fast, overlap_ep=word) for word in ("off", "on"))
    spent = off["comm"]["ep"]["serialized_s"]
    assert on["comm"]["ep"]["hidden_s"] == pytest.approx(0.65 * (1 - 33 / 132) * spent)
    assert off["step_s"] - on["step_s"] == pytest.approx(on["comm"]["ep"]["hidden_s"])


def test_a_slow_network_hides_as_much_as_the_layers_of_experts_compute():
    found = step(overlap_ep="on", network=1e-4)
    inside = [op for op in found["operations"] if op["layers"] == MODEL["layers"]]
    compute = sum(op["seconds"] for op in inside if op["group"] is None and op["phase"] in ("forward", "backward"))
    assert compute > 0
    assert found["comm"]["ep"]["hidden_s"] == pytest.approx((1 - 16 / 132) * compute, rel=1e-6)


@pytest.mark.parametrize(("out", "back", "forward", "backward"), [
    (1000, 0, 50, 10),  # tokens under experts backward, gradients under attention forward
    (0, 1000, 30, 20),  # results under attention backward, gradients of tokens under experts forward
    (20, 40, 13 + 26, 10 + 20),
])  # fmt: skip
def test_an_exchange_runs_beside_its_part_of_the_other_micro_batch(out, back, forward, backward):
    """Attention takes 10 seconds forward and 30 backward, experts 20 and 50; kernels take no multiprocessors."""
    path = path_of(H800, Group(16))
    attention, experts = (
        TimedOperation(Elementwise(name, "", 1, 1, 1), Passes(*map(to_float, passes)))
        for name, passes in (("attention", (10, 30, 0)), ("experts", (20, 50, 0)))
    )
    calls = [TimedCollective(exchange(16, 2, to_experts=inward, sms=0), to_float(taken), path)
             for inward, taken in ((True, out), (False, back))]  # fmt: skip
    layer = LayerTimes(Layout(overlap_ep=1), OperationTimes([attention, experts], [experts]), calls, 1.0)
    assert float(layer.forward_comm["ep"].hidden) == pytest.approx(forward)
    assert float(layer.backward_comm["ep"].hidden) == pytest.approx(backward)
    assert float(layer.forward_comm["ep"].exposed) == pytest.approx(out + back - forward)


QWEN = {"gpus": 16, "ep": 16, "micro_batch": 1, "global_batch": 1024, "seq_len": 4096, "grad_precision": "bf16"}


@pytest.mark.parametrize(("way", "alone", "beside"), [("hybridep", 24.71, 20.99), ("all_to_all", 41.25, 31.31)])
def test_qwen3_30b_on_16_h100_with_overlap_and_without(way, alone, beside):
    """Seconds of a step that Megatron-LM published; the host's own, a tenth of them, are not counted here."""
    off, on = (
        explained({"hardware": "h100-sxm", "model": "qwen3-30b-a3b", "set": {**QWEN, "ep_dispatch": way,
                   "overlap_ep": word}})["step_s"] for word in ("off", "on")
    )  # fmt: skip
    assert on / off == pytest.approx(beside / alone, abs=0.06)
    assert (off, on) == (pytest.approx(alone, rel=0.15), pytest.approx(beside, rel=0.15))


# -- what is refused, and what files say ------------------------------------------------------------------------------


@pytest.mark.parametrize(("fields", "part"), [
    ({"experts": 0, "ep": 1, "top_k": None, "moe_ffn_hidden": None, "ep_dispatch": "deepep"}, "without experts"),
    ({"ep": None, "ep_dispatch": "deepep"}, "ep_dispatch means nothing without ep"),
    ({"ep": None, "imbalance": 1.1}, "imbalance means nothing without ep"),
    ({"ep_node_limit": 2}, "ep_node_limit goes with"),
    ({"imbalance": 1.1, "routing": "random"}, "give one of them"),
    ({"imbalance": 1.1, "capacity_factor": 1.2}, "imbalance goes with capacity_factor 1"),
    ({"imbalance": 0.5}, "out of range"),
    ({"ep_dispatch": "deepep2"}, "deepep2"),
    ({"router_groups": 8}, "router_groups means nothing without router_group_topk"),
    ({"experts": 0, "ep": 1, "top_k": None, "moe_ffn_hidden": None, "cuda_graph": "router"}, "of a router means"),
    ({"ep_sms": 8}, "ep_sms goes with ep_dispatch deepep or hybridep"),
    ({"experts": 0, "ep": 1, "top_k": None, "moe_ffn_hidden": None, "cuda_graph": "attention_router"}, "of a router"),
    ({"gradient_sync": "replicas_last", "zero": 3}, "replicas_last needs dp_shard"),
])  # fmt: skip
def test_what_means_nothing_is_refused(fields, part):
    given = {name: value for name, value in {**MODEL, **fields}.items() if value is not None}
    with pytest.raises(ConfigError, match=part):
        explained({"hardware": "h100-sxm", "set": given})


def test_what_is_taken_for_granted_is_said():
    said = {word: told({"hardware": "h100-sxm", "set": {**MODEL, **more}})["meta"]["notes"]
            for word, more in {"loss": {}, "bias": {"router_bias": "on", "bias": "off"},
                               "trained": {"router_bias": "on", "bias": "on"},
                               "given": {"load_balancing": "off"}}.items()}  # fmt: skip
    assert "load_balancing is loss" in said["loss"]
    assert "load_balancing is loss" in said["trained"]  # gpt-oss: the router's bias is one of a linear layer
    assert "load_balancing is bias, which the router has" in said["bias"]
    assert not [note for note in said["given"] if "load_balancing" in note]


SCRIPT = ("torchrun --nproc-per-node 8 --nnodes 8 pretrain_gpt.py --num-layers 6 --hidden-size 256 --seq-length 128 "
          "--num-attention-heads 4 --micro-batch-size 1 --global-batch-size 64 --vocab-size 1000 --num-experts 64 "
          "--expert-model-parallel-size 64 --moe-router-topk 8 ")  # fmt: skip


@pytest.mark.parametrize(("flags", "fields"), [
    ("", {"ep_dispatch": "all_gather"}),
    ("--moe-token-dispatcher-type allgather", {"ep_dispatch": "all_gather"}),
    ("--moe-token-dispatcher-type alltoall --moe-deepep-num-sms 24", {"ep_dispatch": "all_to_all"}),
    ("--moe-token-dispatcher-type flex", {"ep_dispatch": "deepep"}),
    ("--moe-token-dispatcher-type flex --moe-enable-deepep --moe-deepep-num-sms 24",
     {"ep_dispatch": "deepep", "ep_sms": 24}),
    ("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep --moe-hybridep-num-sms 32",
     {"ep_dispatch": "hybridep", "ep_sms": 32}),
    ("--moe-token-dispatcher-type flex --moe-router-num-groups 8 --moe-router-group-topk 4",
     {"ep_dispatch": "deepep", "router_groups": 8, "router_group_topk": 4}),
    ("--moe-token-dispatcher-type alltoall --moe-router-num-groups 4 --moe-router-group-topk 4",
     {"ep_dispatch": "all_to_all"}),
    ("--moe-token-dispatcher-type alltoall --moe-permute-fusion",
     {"ep_dispatch": "all_to_all", "permute_fusion": "on"}),
])  # fmt: skip
def test_a_script_says_how_tokens_are_dispatched(flags, fields):
    found = import_text(SCRIPT + flags, "train.sh").fields
    named = ("ep_dispatch", "ep_sms", "router_groups", "router_group_topk", "permute_fusion")
    assert {name: found[name] for name in named if name in found} == {"permute_fusion": "off", **fields}


# -- routers that choose from groups of experts -----------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_no_token_goes_to_more_nodes_than_its_groups_are_on(nodes):
    """Tokens drawn: 4 of 8 groups at random, 8 experts of these; experts lie on nodes in their order."""
    chance, experts, groups, chosen, k, tokens = np.random.default_rng(7), 256, 8, 4, 8, 4000
    score = chance.random((tokens, groups)).argsort(axis=1)[:, :chosen]
    members = (score[:, :, None] * (experts // groups) + np.arange(experts // groups)).reshape(tokens, -1)
    taken = np.take_along_axis(members, chance.random(members.shape).argsort(axis=1)[:, :k], axis=1)
    reached = np.array([len(set(each)) for each in (taken * nodes // experts).tolist()])
    limit = float(group_limit(nodes, groups, chosen))
    assert reached.max() <= limit
    home = chance.integers(nodes, size=tokens)
    places = (taken * nodes // experts).tolist()
    away = np.mean([len(set(each) - {own}) for each, own in zip(places, home.tolist(), strict=True)])
    counted = float(remote_copies(nodes, k, limit))
    assert away <= 1.03 * counted
    if nodes >= groups:  # a group has nodes of its own: the draw is the formula's, but for experts being different ones
        assert away == pytest.approx(counted, rel=0.03)


def test_the_nodes_of_a_token_follow_from_its_router():
    """DeepSeek-V3: 4 of 8 groups, on 8 nodes at EP 64, on 16 at EP 128; within a node of EP 8 nothing is limited."""

    def seconds(**more):
        fields = {"gpus": 256, "tp": 1, "etp": 1, "global_batch": 512, "pp": 2, "ep_dispatch": "deepep",
                  "memory_capacity": 100, **more}  # fmt: skip
        return row_of({"hardware": "h800-sxm", "model": "deepseek-v3", "set": fields})["step_s"]

    for ep, limit in ((64, 4), (128, 8), (32, 4)):
        assert seconds(ep=ep) == seconds(ep=ep, ep_node_limit=limit)
    assert seconds(ep=64) < seconds(ep=64, ep_node_limit=8)
    assert seconds(ep=8) == seconds(ep=8, ep_node_limit=1)
    assert seconds(ep=64, router_groups=1, router_group_topk=1) == seconds(ep=64, ep_node_limit=8)


CONFIG = {"model_type": "deepseek_v3", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
          "vocab_size": 1000, "intermediate_size": 1024, "max_position_embeddings": 512, "n_routed_experts": 64,
          "num_experts_per_tok": 4, "moe_intermediate_size": 128, "q_lora_rank": 64, "kv_lora_rank": 32,
          "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "first_k_dense_replace": 1}  # fmt: skip


@pytest.mark.parametrize(("keys", "said"), [
    ({"n_group": 8, "topk_group": 4, "topk_method": "noaux_tc"}, (8, 4)),
    ({"n_group": 8, "topk_group": 3, "topk_method": "group_limited_greedy"}, (8, 3)),
    ({"n_group": 8, "topk_group": 4, "topk_method": "greedy"}, (None, None)),
    ({"n_group": 1, "topk_group": 1}, (None, None)), ({}, (8, 4)),  # as transformers' class has them
])  # fmt: skip
def test_groups_of_a_router_are_read_from_a_configuration(keys, said):
    found = import_text(json.dumps({**CONFIG, **keys}), "config.json").fields
    assert (found.get("router_groups"), found.get("router_group_topk")) == said


def test_models_of_the_catalogue_have_the_groups_of_their_routers():
    """n_group and topk_group of the published config.json; all others choose from all experts (1 of 1)."""
    published = {
        "deepseek-v2": (8, 3),
        "deepseek-v3": (8, 4),
        "deepseek-v3.2": (8, 4),
        "ling-mini-2.0": (8, 4),
        "ling-flash-2.0": (8, 4),
        "ling-1t": (8, 4),
    }
    for name in catalogue.names("model"):
        fields = load_model(name).fields
        assert (fields.get("router_groups"), fields.get("router_group_topk")) == published.get(name, (None, None))


@pytest.mark.parametrize(("fields", "said"), [
    ({"router_groups": 3, "router_group_topk": 1}, "router_groups does not divide experts"),
    ({"router_groups": 4, "router_group_topk": 8}, "router_group_topk exceeds router_groups"),
    ({"router_groups": 8, "router_group_topk": 1, "top_k": 2}, "top_k exceeds the experts of router_group_topk groups"),
    ({"router_group_topk": 1}, "means nothing without router_groups"),
])  # fmt: skip
def test_groups_that_no_router_can_have(fields, said):
    small = {"layers": 2, "hidden": 256, "heads": 4, "vocab": 1000, "seq_len": 256, "experts": 8, "top_k": 2}
    with pytest.raises(ConfigError, match=said):
        row_of({"hardware": "h100-sxm", "set": {**small, **fields}})

"""Bytes and calls of a step against closed forms: arXiv:2408.10197, Megatron-LM, ZeRO, Ulysses, by hand.

Psi are the parameters a device holds, counted weight by weight; p bytes a number, t, d and n the sizes of groups, M
micro-batches, b s h those of a micro-batch.
"""

from __future__ import annotations

import itertools

import pytest
from face import explained, volume_of
from state_dict import of_experts, state_dict

from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError

# No vocabulary: nothing beside the layers communicates, and all stages are alike.
MODEL = {"layers": 8, "hidden": 1024, "heads": 16, "vocab": 0, "seq_len": 512}
MOE = {**MODEL, "experts": 16, "top_k": 2, "moe_ffn_hidden": 256, "bias": "off", "norm": "rmsnorm"}
EACH = 2 * 512 * 1024  # p s h: one sequence's hidden states in 16 bit


# Small ones, which have tests of their own.
SMALL = ("partial gradients all-reduce", "expert token counts", "expert load all-reduce of a micro-batch",
         "gradient norms over TP", "gradient norms of tensors", "gradient norm over stages")  # fmt: skip
SUMMED = {"calls": "calls", "message_bytes": "total_message_bytes", "volume_bytes": "volume_bytes",
          "wire_bytes": "wire_bytes"}  # fmt: skip


def comm(**point):
    """Return the communication of each group without small collectives."""
    study = {"hardware": "h100-sxm", "set": {**MODEL, **point}}
    groups = explained(study_from(study))["comm"]
    for row in volume_of(study)["messages"]:
        if row["message"] in SMALL:
            for name, column in SUMMED.items():
                groups[row["group"]][name] -= row[column]
    return {group: sums for group, sums in groups.items() if sums["calls"]}


def calls(**point):
    """Return how often each collective is called, and its bytes, by name."""
    found = explained(study_from({"hardware": "h100-sxm", "set": {**MODEL, **point}}))["operations"]
    rows = {}
    for op in found:
        if op["group"]:
            before = rows.get(op["operation"], (0, 0))[0]
            rows[op["operation"]] = (before + op["calls"], op["message_bytes"])
    return rows


def held(tp=1, ep=1, etp=1, layers=MODEL["layers"], **point):
    """Return the parameters of a device in its layers, without and with those of experts."""
    p = {**MODEL, **point, "layers": layers}
    kv = min(tp, p.get("kv_heads", p["heads"]))
    parts = {"": 1, "tp": tp, "kv": kv}
    weights = [w for w in state_dict(p) if w.name.startswith("layers")]
    experts = sum(w.size for w in weights if of_experts(w)) / (ep * etp)  # without biases
    return sum(w.size / parts[w.split] for w in weights if not of_experts(w)), experts


# -- gradients and weights --------------------------------------------------------------------------------------------


FINAL_NORM = 2 * MODEL["hidden"]  # states are those of the stage that has most: the last one


@pytest.mark.a_third
@pytest.mark.parametrize("point", [{}, {"tp": 4}, {"tp": 4, "pp": 4}, {"pp": 2, "vpp": 2}, {"kv_heads": 4, "tp": 4}],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("steps", [4, 12])
def test_states_move_what_their_zero_stage_says(point, steps):
    d = 8
    layers = MODEL["layers"] // point.get("pp", 1)
    own = {name: point[name] for name in ("tp", "kv_heads") if name in point}
    psi = held(layers=layers, **own)[0] + FINAL_NORM
    expected = {0: 2, 1: 2, 2: steps + 1, 3: 3 * steps}  # in units of p Psi
    for zero, times in expected.items():
        dp = comm(**point, dp=d, zero=zero, accumulation=steps)["dp"]
        assert dp["volume_bytes"] == pytest.approx(times * 2 * psi, rel=1e-12)
        assert dp["wire_bytes"] == pytest.approx(times * 2 * psi * (d - 1) / d, rel=1e-12)
        units = layers + 1  # ZeRO 3 goes layer by layer, and by what is beside them
        alike = {0: 1, 1: 2, 2: steps + 1, 3: 3 * steps * units}
        assert dp["calls"] == alike[zero]


def test_gradients_have_a_format_of_their_own():
    psi, d = held()[0] + FINAL_NORM, 4
    for zero, volume in ((0, 2 * 4), (1, 4 + 2), (2, 3 * 4 + 2), (3, 3 * (2 * 2 + 4))):
        dp = comm(dp=d, zero=zero, accumulation=3, grad_precision="fp32")["dp"]
        assert dp["volume_bytes"] == pytest.approx(volume * psi, rel=1e-12)


@pytest.mark.a_third
@pytest.mark.parametrize(("shard", "zero"), list(itertools.product((2, 4, 8), (1, 2, 3))))
def test_hsdp_shards_inside_and_reduces_shards_outside(shard, zero):
    psi, d, steps = held()[0] + FINAL_NORM, 16, 3
    inside = {1: 2, 2: steps + 1, 3: 3 * steps}[zero] * 2 * psi
    outside = 2 * (2 * psi / shard) * (steps if zero == 3 else 1)  # of the shard
    dp = comm(dp=d, zero=zero, dp_shard=shard, accumulation=steps)["dp"]
    others = d // shard
    assert dp["volume_bytes"] == pytest.approx(inside + outside, rel=1e-12)
    wire = inside * (shard - 1) / shard + outside * (others - 1) / others
    assert dp["wire_bytes"] == pytest.approx(wire, rel=1e-12)


def test_a_shard_of_all_replicas_is_no_hsdp_and_of_one_is_ddp():
    assert comm(dp=8, zero=1, dp_shard=8)["dp"] == comm(dp=8, zero=1)["dp"]
    one, ddp = comm(dp=8, zero=1, dp_shard=1)["dp"], comm(dp=8, zero=0)["dp"]
    assert {name: one[name] for name in ("volume_bytes", "wire_bytes", "calls")} == pytest.approx(
        {name: ddp[name] for name in ("volume_bytes", "wire_bytes", "calls")})  # fmt: skip


def test_context_parallel_devices_are_replicas_too():
    psi = held()[0] + FINAL_NORM
    dp = comm(dp=2, cp=4, zero=0)["dp"]
    assert dp["wire_bytes"] == pytest.approx(2 * 2 * psi * 7 / 8, rel=1e-12)


@pytest.mark.a_third
@pytest.mark.parametrize(("ep", "tp", "etp"), [(1, 1, 1), (4, 1, 1), (8, 2, 1), (4, 2, 2), (2, 4, 2)])
def test_experts_have_fewer_replicas_than_the_rest(ep, tp, etp):
    dp, d = 8, 8
    dense, experts = held(tp=tp, ep=ep, etp=etp, **{k: v for k, v in MOE.items() if k not in MODEL or MODEL[k] != v})
    dense += MODEL["hidden"]
    n = dp * tp // (ep * etp)
    found = comm(**MOE, dp=dp, tp=tp, ep=ep, etp=etp, zero=0)["dp"]
    wire = 4 * dense * (d - 1) / d + 4 * experts * (n - 1) / n
    assert found["wire_bytes"] == pytest.approx(wire, rel=1e-12)


# -- tensor parallelism -----------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("sp", ["off", "on"])
@pytest.mark.parametrize(("recompute", "each"), [("none", 4), ("selective", 4), ("full", 6)])
@pytest.mark.parametrize(("t", "pp", "b"), [(2, 1, 1), (8, 1, 2), (4, 4, 1), (8, 2, 4)])
def test_tensor_parallelism_sends_four_or_six_messages_a_layer(sp, recompute, each, t, pp, b):
    steps = 8
    found = comm(tp=t, pp=pp, micro_batch=b, sp=sp, recompute=recompute, accumulation=steps, scatter_gather="off")["tp"]
    layers = MODEL["layers"] / pp
    # Under sequence parallelism halves of an all-reduce, and the inputs of both blocks once more, for their weights.
    halves = 2 * each + 2 * (sp == "on")
    assert found["wire_bytes"] == pytest.approx(halves * layers * steps * b * EACH * (t - 1) / t, rel=1e-12)
    assert found["volume_bytes"] == pytest.approx(halves * layers * steps * b * EACH, rel=1e-12)
    assert found["calls"] == (halves if sp == "on" else each) * layers * steps


def test_only_the_layers_computed_again_communicate_again():
    some, none = (comm(tp=4, pp=2, recompute="full", recompute_layers=1)["tp"], comm(tp=4, pp=2)["tp"])
    assert some["volume_bytes"] / none["volume_bytes"] == pytest.approx((4 * 5 + 2) / (4 * 5))


@pytest.mark.a_third
@pytest.mark.parametrize("sp", ["off", "on"])
@pytest.mark.parametrize("steps", [1, 6])
def test_embedding_and_logits_add_a_message_each_and_three_numbers_a_token(sp, steps):
    t, tokens = 8, MODEL["seq_len"]
    plain, words = (comm(tp=t, sp=sp, accumulation=steps, vocab=v)["tp"] for v in (0, 50257))
    more = steps * ((2 * 2 + (sp == "on")) * EACH + 3 * 2 * 4 * tokens)
    assert words["volume_bytes"] - plain["volume_bytes"] == pytest.approx(more, rel=1e-12)
    assert words["wire_bytes"] - plain["wire_bytes"] == pytest.approx(more * (t - 1) / t, rel=1e-12)


def test_blocks_side_by_side_are_reduced_once():
    assert comm(tp=4, parallel_blocks="on")["tp"]["volume_bytes"] == comm(tp=4)["tp"]["volume_bytes"] / 2


@pytest.mark.parametrize("sp", ["off", "on"])
def test_an_encoder_decoder_reduces_three_blocks_a_decoder_layer_and_two_an_encoder_layer(sp):
    both = {"architecture": "encoder-decoder", "encoder_layers": 4, "encoder_seq_len": 256}
    found = comm(**both, tp=4, sp=sp)["tp"]
    messages = 3 * 8 * EACH + 2 * 4 * EACH / 2
    assert found["volume_bytes"] == pytest.approx((2 * 2 + (sp == "on")) * messages, rel=1e-12)


@pytest.mark.parametrize(("inputs", "backward"), [("again", 18), ("kept", 9)])
def test_gathers_and_scatters_of_sequence_parallelism_are_those_of_frameworks(inputs, backward):
    """Calls of a step of 4 layers with embedding and logits: megatron-core 0.16 gathered 9 times forward, 18 backward,
    and scattered 9 times in both; DTensor does not gather its inputs again."""
    point = {**MODEL, "layers": 4, "vocab": 1024, "tp": 2, "sp": "on", "sequence_inputs": inputs}
    rows = volume_of({"hardware": "h100-sxm", "set": point})["messages"]
    calls = {kind: sum(row["calls"] for row in rows if row["group"] == "tp" and row["collective"] == kind)
             for kind in ("all_gather", "reduce_scatter")}  # fmt: skip
    assert calls == {"all_gather": 9 + backward, "reduce_scatter": 18}


def test_inputs_are_gathered_again_beside_the_products_of_their_gradients():
    graph = {**MODEL, "tp": 2, "cuda_graph": "full"}  # the host launches it at once
    again, kept = (explained(study_from({"hardware": "h100-sxm", "set": {**graph, "sequence_inputs": word}}))
                   for word in ("again", "kept"))  # fmt: skip
    assert again["comm"]["tp"]["hidden_s"] > 0 == kept["comm"]["tp"]["hidden_s"]
    norms = [op["seconds"] for step in (again, kept) for op in step["operations"] if "partial" in op["operation"]]
    # All of it is hidden inside a node, but for gradients of norms: in one message, or in as many as norms.
    assert again["step_s"] - norms[0] == pytest.approx(kept["step_s"] - norms[1], rel=1e-12)
    slow = [explained(study_from({"hardware": "h100-sxm", "set": {**MODEL, "tp": 2, "network": 1e-3,
                                                                "sequence_inputs": word}}))["step_s"]
            for word in ("again", "kept")]  # fmt: skip
    assert slow[0] > slow[1]
    with pytest.raises(ConfigError, match="sequence_inputs: kept needs sp: on"):
        explained(
            study_from({"hardware": "h100-sxm", "set": {**MODEL, "tp": 2, "sp": "off", "sequence_inputs": "kept"}})
        )


# -- stages, sequences, experts ---------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize(("vpp", "steps"), [(1, 4), (2, 8)])
@pytest.mark.parametrize(("tp", "more", "share"), [
    (1, {}, 1), (4, {"sp": "on"}, 4), (4, {"sp": "off", "scatter_gather": "off"}, 1),
])  # fmt: skip
def test_a_boundary_carries_two_messages_a_micro_batch_and_chunk(tp, more, share, vpp, steps):
    pp, b = 4, 2
    found = comm(tp=tp, pp=pp, vpp=vpp, micro_batch=b, accumulation=steps, **more)["pp"]
    assert found["calls"] == 2 * steps * vpp
    assert found["wire_bytes"] == found["volume_bytes"] == 2 * steps * vpp * b * EACH / share


def test_a_message_scattered_over_a_boundary_is_gathered_after_it():
    steps, t = 4, 4
    point = {"tp": t, "pp": 2, "accumulation": steps, "sp": "off"}
    rows = calls(**point)
    assert rows["stage boundary"] == (2 * steps, EACH / t)
    assert rows["gather after a boundary"] == (2 * steps, EACH)
    assert comm(**point)["pp"]["wire_bytes"] == 2 * steps * (EACH / t + EACH * (t - 1) / t)


@pytest.mark.a_third
@pytest.mark.parametrize(("cp", "tp", "kv"), [(2, 1, 16), (4, 2, 4), (8, 4, 4)])
def test_context_parallelism_passes_or_gathers_keys_and_values(cp, tp, kv):
    steps, layers, b = 3, MODEL["layers"], 2
    pair = 2 * b * 512 * 2 * kv * 64 / tp  # p b s (k and v) of this device's heads, of the whole sequence
    point = {"cp": cp, "tp": tp, "kv_heads": kv, "micro_batch": b, "accumulation": steps}
    ring = comm(**point)["cp"]
    assert ring["volume_bytes"] == ring["wire_bytes"] == pytest.approx(3 * (cp - 1) * steps * layers * pair / cp)
    gather = comm(**point, cp_comm="all_gather")["cp"]
    assert gather["volume_bytes"] == pytest.approx(3 * steps * layers * pair)
    assert gather["wire_bytes"] == pytest.approx(ring["wire_bytes"])
    again = comm(**point, recompute="full")["cp"]["volume_bytes"]
    assert again == pytest.approx(4 / 3 * ring["volume_bytes"])  # and once more forward


@pytest.mark.parametrize(("n", "tp", "kv"), [(4, 1, 16), (4, 2, 8), (2, 4, 16)])
def test_ulysses_swaps_queries_keys_values_and_output(n, tp, kv):
    steps, layers = 3, MODEL["layers"]
    found = comm(cp=n, tp=tp, kv_heads=kv, cp_comm="all_to_all", accumulation=steps)["cp"]
    assert found["calls"] == 8 * steps * layers
    message = EACH / n / tp  # of queries, and of the output
    forward = 2 * message + 2 * message * kv / 16
    assert found["volume_bytes"] == pytest.approx(2 * steps * layers * forward)
    assert found["wire_bytes"] == pytest.approx(2 * steps * layers * forward * (n - 1) / n)


@pytest.mark.a_third
@pytest.mark.parametrize(("recompute", "each"), [("none", 4), ("full", 6)])
@pytest.mark.parametrize(("ep", "tp", "cp", "k", "c"), [(8, 1, 1, 2, 1), (4, 2, 1, 4, 1.25), (16, 1, 2, 1, 1)])
def test_tokens_go_to_their_experts_and_back(recompute, each, ep, tp, cp, k, c):
    steps, dp = 2, 16
    point = {**MOE, "top_k": k, "capacity_factor": c, "ep": ep, "tp": tp, "cp": cp, "dp": dp, "etp": 1}
    found = comm(**point, recompute=recompute, accumulation=steps)["ep"]
    message = k * c * EACH / cp / tp
    assert found["calls"] == each * steps * MODEL["layers"]
    assert found["volume_bytes"] == pytest.approx(each * steps * MODEL["layers"] * message)
    assert found["wire_bytes"] == pytest.approx(each * steps * MODEL["layers"] * message * (ep - 1) / ep)


def test_only_expert_layers_send_tokens():
    point = {"ep": 4, "dp": 8, "dense_layers": 2, "moe_every": 3}  # layers 5 and 8 of eight
    assert comm(**MOE, **point)["ep"]["calls"] == 4 * 2


def test_a_split_expert_gathers_the_tokens_of_its_devices_and_scatters_them():
    point = {**MOE, "tp": 4, "etp": 4, "dp": 4}
    rows = calls(**point, ep=4)
    for name in ("expert all-gather", "expert reduce-scatter"):
        assert rows[name] == (2 * MODEL["layers"], MOE["top_k"] * EACH)
    alone = calls(**point, ep=1)
    assert alone["expert all-gather"] == (2 * MODEL["layers"], EACH)
    assert "expert dispatch" not in alone


# -- names of bytes ---------------------------------------------------------------------------------------------------

EVERYTHING = {"vocab": 1024, "tp": 2, "cp": 2, "pp": 2, "dp": 4, "accumulation": 4, "zero": 3, "dp_shard": 4}
VARIANTS = [{}, {"sp": "off"}, {"cp_comm": "all_gather"}, {"cp_comm": "all_to_all", "recompute": "full"},
            {**MOE, "ep": 4, "etp": 2}]  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize("more", VARIANTS, ids=range(len(VARIANTS)))
def test_wire_volume_and_message_are_what_their_collective_makes_them(more):
    found = explained(study_from({"hardware": "h100-sxm", "set": {**MODEL, **EVERYTHING, **more}}))
    sums = {}
    sizes = {"tp": 2, "cp": 2, "pp": None, "ep": None, "dp": None, "world": 32}
    for op in found["operations"]:
        group, kind = op["group"], op["kind"]
        if not group or op["operation"] in SMALL:
            continue
        volume = op["message_bytes"] * (2 if kind == "all_reduce" else 1)
        sent = op["wire_bytes"] / volume
        if kind == "send":
            assert sent == 1
        elif sizes[group]:
            assert sent == pytest.approx(1 - 1 / sizes[group])
        else:
            n = 1 / (1 - sent)
            assert n == pytest.approx(round(n))
            assert n > 1.5
        row = sums.setdefault(group, dict.fromkeys(("message_bytes", "volume_bytes", "wire_bytes", "calls"), 0))
        for name, size in (("message_bytes", op["message_bytes"]), ("volume_bytes", volume),
                           ("wire_bytes", op["wire_bytes"]), ("calls", 1)):  # fmt: skip
            row[name] += op["calls"] * size
    sent = comm(**{**EVERYTHING, **more})
    assert set(sums) == set(sent)
    for group, row in sums.items():
        assert {name: sent[group][name] for name in row} == pytest.approx(row, rel=1e-12)


def test_the_format_on_the_wire_is_that_of_activations_not_of_gradients():
    point = {"tp": 2, "pp": 2, "dp": 2, "cp": 2}
    usual, wide = comm(**point), comm(**point, comm_precision="fp32")
    ratio = {group: wide[group]["wire_bytes"] / usual[group]["wire_bytes"] for group in usual}
    assert ratio == {"tp": 2, "cp": 2, "pp": 2, "dp": 1, "world": 1}


def test_the_norm_of_the_gradients_is_one_number_of_all_devices():
    rows = calls(tp=2, dp=4)
    assert rows["gradient norm"] == (1, 4)


def test_gradients_of_tied_embeddings_are_reduced_between_the_first_and_the_last_stage():
    point = {"vocab": 51200, "tied": "on", "pp": 4, "tp": 2, "accumulation": 4}
    name = "tied embedding all-reduce"
    assert calls(**point, grad_precision="fp32")[name] == (1, 4 * 51200 // 2 * 1024)
    for more in ({"tied": "off"}, {"pp": 1}, {"schedule": "zb_v", "accumulation": 8},
                 {"schedule": "dualpipe", "accumulation": 8}):  # fmt: skip
        assert name not in calls(**{**point, **more})
    both, sends = comm(**point)["pp"], comm(**{**point, "tied": "off"})["pp"]  # each stage sends as much
    assert both["volume_bytes"] - sends["volume_bytes"] == 2 * 2 * 51200 // 2 * 1024
    assert both["serialized_s"] > sends["serialized_s"]


# -- small ones -------------------------------------------------------------------------------------------------------


def small(**point):
    """Return the small collectives of a step: group, devices, calls, bytes of one."""
    rows = volume_of({"hardware": "h100-sxm", "set": {**MODEL, **point}})["messages"]
    return {row["message"]: tuple(row[name] for name in ("group", "devices", "calls", "message_bytes"))
            for row in rows if row["message"] in (*SMALL, "gradient norm", "expert load all-reduce")}  # fmt: skip


def test_gradients_of_norms_are_summed_over_tensor_parallelism():
    """Two norms and two biases after a reduction a layer, of 1,024 numbers, and the norms' biases: once a step."""
    h, layers = 1024, 8
    held = layers * (2 * 2 * h + 2 * h) + 2 * h  # and the last norm
    for grad, size in (("bf16", 2), ("fp32", 4)):
        found = small(tp=4, sp="on", accumulation=3, grad_precision=grad)
        assert found["partial gradients all-reduce"] == ("tp", 4, 1, size * held)
    assert "partial gradients all-reduce" not in small(tp=4, sp="off")
    half = small(tp=4, sp="on", pp=2, accumulation=4)["partial gradients all-reduce"]
    assert half == ("tp", 4, 1, 2 * (held - 4 * 6 * h))  # the last stage has most


MLA = {"heads": 16, "head_dim": 64, "v_head_dim": 64, "rope_head_dim": 32, "q_lora_rank": 96, "kv_lora_rank": 128}
MIXER = {"ssm_heads": 2048, "ssm_state": 16, "ssm_dt_rank": 32, "ssm_groups": 4, "ssm_norm": "off", "head_dim": 128,
         "heads": 16, "layer_pattern": "SYSYSYSY"}  # fmt: skip


@pytest.mark.parametrize(
    ("what", "alike"),
    [
        ({"norm": "rmsnorm"}, 17 * 1024),
        ({"norm": "rmsnorm", "attn_res_block": 3}, 17 * 1024 + 2 * 17 * 1024),
        ({**MLA, "norm": "rmsnorm", "attention_gate": "headwise"}, 17 * 1024 + 8 * (1024 * (96 + 160 + 16) + 96 + 128)),
        ({**MLA, "norm": "rmsnorm", "attention_gate": "on"}, 17 * 1024 + 8 * (1024 * (96 + 160) + 96 + 128)),
        (
            {
                **MOE,
                "ep": 4,
                "etp": 1,
                "moe_latent_hidden": 128,
                "moe_latent_norm": "on",
                "shared_expert_gate": "on",
                "shared_experts": 1,
            },
            17 * 1024 + 8 * (1024 * (16 + 1 + 2 * 128) + 128),
        ),
        ({**MIXER, "norm": "rmsnorm"}, (8 + 1 + 3) * 1024 + 4 * 1024**2),
        ({"norm": "rmsnorm", "mtp_layers": 1}, (17 + 2 + 3) * 1024),
    ],
)
def test_gradients_that_are_summed_are_of_all_parameters_that_tensor_parallelism_does_not_split(what, alike):
    """A device of TP n holds R + S / n parameters, so that R is twice those of 4 devices without those of 2."""
    point = {
        **MODEL,
        "vocab": 1024,
        "bias": "off",
        "vocab_multiple": 1,
        "position": "none",
        "zero": 0,
        "gpus": 4,
        "sp": "on",
        **what,
    }
    held = [
        explained({"hardware": "h100-sxm", "set": {**point, "tp": tp}})["memory"]["weights_bytes"] / 2 for tp in (2, 4)
    ]
    of_experts = 8 * 4 * 2 * 128 * 256 if "experts" in what else 0  # which EP shares out, and TP leaves whole
    assert 2 * held[1] - held[0] - of_experts == alike
    assert small(**{**point, "tp": 4})["partial gradients all-reduce"][3] == 2 * alike


@pytest.mark.parametrize(
    ("what", "tensors", "alike"),
    [
        ({"norm": "rmsnorm", "attn_res_block": 3}, 3 * 17, 3 * 17 * 1024),
        ({**MLA, "norm": "rmsnorm", "attention_gate": "headwise"}, 17 + 8 * 5,
         17 * 1024 + 8 * (1024 * (96 + 160 + 16) + 96 + 128)),
        ({**MOE, "ep": 4, "etp": 1, "moe_latent_hidden": 128, "moe_latent_norm": "on", "shared_experts": 1},
         17 + 8 * 4, 17 * 1024 + 8 * (1024 * (16 + 2 * 128) + 128)),
    ],
)  # fmt: skip
def test_dtensor_sums_them_a_tensor_each(what, tensors, alike):
    point = {**MODEL, "bias": "off", "position": "none", "gpus": 4, "tp": 4, "sp": "on", **what, "vocab": 1024}
    record = explained({"hardware": "h100-sxm", "set": {**point, "sequence_inputs": "kept", "accumulation": 3}})
    sums = [op for op in record["operations"] if op["operation"] == "partial gradients all-reduce"]
    assert sum(op["calls"] for op in sums) == 3 * tensors
    assert sum(op["calls"] * op["message_bytes"] for op in sums) == pytest.approx(3 * 2 * alike)


def test_counts_of_tokens_are_summed_for_a_loss_or_for_a_bias():
    point = {**MOE, "tp": 2, "cp": 2, "dp": 4, "ep": 4, "etp": 1, "accumulation": 3}
    found = small(**point)
    assert found["expert load all-reduce of a micro-batch"] == ("tp", 4, 3 * 8, 8 * 16)
    assert found["expert token counts"] == ("ep", 4, 3 * 8, 8 * 16)
    assert found["gradient norm"] == ("world", 16, 2, 4)  # of experts apart
    moved = small(**point, load_balancing="bias")
    assert moved["expert load all-reduce"] == ("dp", 16, 1, 4 * 16 * 8)
    assert small(**point, router_bias="on").keys() == moved.keys()
    none = small(**point, load_balancing="off", ep_dispatch="deepep")
    assert not [name for name in none if name.startswith("expert")]
    with pytest.raises(ConfigError, match="load_balancing means nothing without experts"):
        small(load_balancing="loss")


def test_the_norm_of_gradients_is_over_who_holds_parts_of_the_model():
    assert small(tp=2, pp=2, dp=4, zero=0, accumulation=4)["gradient norm"] == ("world", 4, 1, 4)
    assert small(tp=2, pp=2, dp=4, zero=1, accumulation=4)["gradient norm"] == ("world", 16, 1, 4)
    assert "gradient norm" not in small(dp=4, zero=0)

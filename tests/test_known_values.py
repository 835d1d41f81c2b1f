"""Published values: every entry of data/known_values.yaml, and every key of it, is read by a check here."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from face import explained

from comp_comm.choices import CollectiveAlgorithm
from comp_comm.configs.strict_yaml import load
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.operations.shapes import Collective
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import memory
from comp_comm.timing.network import collective_seconds

FILE = Path(__file__).parent / "data" / "known_values.yaml"
DATA = load(FILE.read_text(encoding="utf-8"), FILE.name).data
PROSE = {"source", "why", "note", "model"}  # said for people; a model is looked up by the checks that need it
BIASES = {True: "on", False: "off", "qkv-only": "qkv"}
SAME = ("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "moe_ffn_hidden", "experts", "top_k", "vocab", "norm")
QWEN3_30B_A3B = {
    "layers": 48, "hidden": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128, "moe_ffn_hidden": 768, "experts": 128,
    "top_k": 8, "vocab": 151936, "gated": "on", "norm": "rmsnorm", "bias": "off", "qk_norm": "on",
}  # fmt: skip


class Entry(dict):
    """A mapping that knows which of its keys were read."""

    def __init__(self, entry):
        super().__init__(entry)
        self.unread = set(entry)

    def __getitem__(self, key):
        self.unread.discard(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.unread.discard(key)
        return super().get(key, default)


def fields_of(entry):
    """Return the fields of a model that an entry describes."""
    found = {name: entry[name] for name in SAME if name in entry}
    found |= {name: "on" if entry[name] else "off" for name in ("gated", "tied") if name in entry}
    if "bias" in entry:
        found["bias"] = BIASES[entry["bias"]]
    if "position" in entry:
        kind, _, positions = entry["position"].partition("-")
        found |= {"position": kind, **({"max_positions": int(positions)} if positions else {})}
    return found


MODELS = {entry["model"]: fields_of(entry) for entry in DATA["parameters"]} | {"qwen3-30b-a3b": QWEN3_30B_A3B}
# What the list leaves out, because all of them have it.
MODELS["mixtral-8x7b"] |= {"norm": "rmsnorm", "bias": "off"}


def study(**point):
    return study_from({"hardware": "h100-sxm", "set": point})


def step(**point):
    return make_plan(study(**point)).evaluate(())


def small(**more):
    """A model whose sizes divide by anything."""
    return {"layers": 2, "hidden": 1024, "heads": 16, "vocab": 1024, "seq_len": 512, **more}


def exactly(value, entry):
    return pytest.approx(value, rel=entry.get("rtol", 0), abs=0)


# -- one check for each kind of entry ---------------------------------------------------------------------------------


def check_parameters(entry):
    missing = {name: MODELS[entry["model"]][name] for name in ("norm", "bias") if name not in entry}
    answer = step(**fields_of(entry), **missing, seq_len=1024)
    assert int(answer.work.parameters) == entry["total"]
    assert int(answer.work.active_parameters) == entry.get("active", entry["total"])


def check_training_flops(entry):
    point = {**MODELS[entry["model"]], "seq_len": entry.get("seq_len", entry.get("tokens"))}
    point |= {name: entry[name] for name in ("vocab", "recompute") if name in entry}
    point["global_batch"] = entry.get("batch", 1)
    point["attention_kernel"] = "flash"  # published counts are those of all scores
    found = explained(study(**point))
    if "part" in entry:
        names = {"logits": ("logits",), "ffn": ("FFN up", "FFN down")}[entry["part"]]
        parts = [op for op in found["operations"] if op["operation"] in names]
        assert {op["phase"] for op in parts} == {"forward", "backward"}
        counted = sum(op["flops"] * op["calls"] for op in parts)
        assert counted == exactly(entry["model_flops"], entry)
        return
    tokens = point["seq_len"] if entry.get("per_token") else 1
    for name in ("model_flops", "hardware_flops"):
        if name in entry:
            assert found[name] / tokens == exactly(entry[name], entry)
    done = sum(op["flops"] * op["calls"] for op in found["operations"])
    assert done == pytest.approx(found["hardware_flops"], rel=1e-12)


def check_collectives(entry):
    if "tensor_parallel" in entry:
        return check_tensor_parallel(entry)
    n, kind = entry["n"], entry["collective"]
    speed = entry.get("effective_link_GBps", entry.get("busbw_GBps", 100)) * 1e9
    device = Hardware(1, 1, 1, (Tier(n, speed, 0, 1),), Timing(collective_latency=0, own_shard=0))
    ring = CollectiveAlgorithm.of(entry.get("algorithm", "ring"))
    size = entry.get("size_bytes", 1e9)
    seconds = float(collective_seconds(device, kind, size, Group(n), ring))
    if "time_s" in entry:
        assert seconds == exactly(entry["time_s"], entry)
    if "algbw_GBps" in entry:
        assert size / seconds / 1e9 == pytest.approx(entry["algbw_GBps"], rel=1e-6)
        assert seconds == pytest.approx(entry["time_per_GB_s"], rel=1e-4)
    if "busbw_over_algbw" in entry:
        assert speed / (size / seconds) == pytest.approx(entry["busbw_over_algbw"], rel=1e-12)
        sent = Collective(
            "", "", count=1, kind=kind, parallelism="tp", message_bytes=size, backward_count=0, group=Group(n)
        ).wire_bytes
        assert float(sent) / size == entry["busbw_over_algbw"]
    return None


def check_tensor_parallel(entry):
    """Gives the same bytes with all-reduces as with a gather and a scatter for each (sequence parallelism).

    Inputs that are gathered once more for the gradients of weights come on top, and are left out."""
    point = {name: entry[name] for name in ("hidden", "micro_batch", "seq_len")}
    assert entry["precision_bytes"] == 2
    point |= {"layers": 3, "heads": 96, "vocab": 0, "tp": entry["tensor_parallel"], "precision": "bf16"}
    for sp, rings in (({"sp": "off"}, 1), ({"sp": "on", "sequence_inputs": "kept"}, 2)):
        found = explained(study(**point, **sp))
        sent = [op for op in found["operations"] if op["operation"].startswith("layer ")]
        assert {op["message_bytes"] for op in sent} == {entry["message_bytes"]}
        assert sum(op["calls"] for op in sent) == 3 * entry["per_layer_all_reduces"] * rings
        assert {op["wire_bytes"] * rings for op in sent} == {entry["ring_wire_bytes_each"]}


MEMORY_FORMATS = {
    "bf16 weights and gradients, fp32 master+m+v: 2P + 14P/N": {},
    "DeepSpeed with fp32 gradients kept: 2P + 18P/N": {"accumulate_precision": "fp32"},
}


def check_memory(entry):
    point = small(precision="bf16", dp=entry["n"], zero=entry["zero"], **MEMORY_FORMATS[entry["convention"]])
    parts = memory(study(**point))
    held = sum(parts[f"{name}_bytes"] for name in ("weights", "gradients", "optimizer"))
    assert held / int(step(**point).work.parameters) * entry["parameters"] == pytest.approx(entry["model_state_bytes"])


def check_validity(entry):
    point = small(layers=2, hidden=5120, tp=entry["tp"])
    if "padded_vocab" in entry:
        point |= {"vocab": entry["vocab"], "heads": 8}
        logits = next(op for op in explained(study(**point))["operations"] if op["operation"] == "logits")
        rows = logits["flops"] * entry["tp"] / (2 * point["seq_len"] * point["hidden"])
        assert rows == entry["padded_vocab"]
        return
    point |= {"heads": entry["heads"], "kv_heads": entry["kv_heads"], "head_dim": 128}
    assert entry["expect"].startswith("error")
    with pytest.raises(ConfigError, match="kv_heads"):
        make_plan(study(**point))
    if "replication" not in entry["expect"]:
        with pytest.raises(ConfigError, match="tp does not divide kv_heads, nor kv_heads tp"):
            make_plan(study(**point, kv_replication="on"))
        return
    # One head a rank, replicated twice: what eight heads of keys and values would take on eight ranks.
    copied, whole = memory(study(**point, kv_replication="on")), memory(study(**{**point, "kv_heads": entry["tp"]}))
    assert copied["weights_bytes"] == whole["weights_bytes"]
    assert copied["activations_bytes"] == whole["activations_bytes"]


def check_yaml(entry):
    text, expected = entry["text"], entry["expect"]
    if expected.startswith("error"):
        with pytest.raises(ConfigError) as error:
            load(text, "x.yaml")
        assert str(error.value) == "x.yaml:2: duplicate key 'a' (lines 1 and 2)"
        return
    (value,) = load(text, "x.yaml").data.values()
    number = re.fullmatch(r"(\S+) float", expected)
    if number:
        assert type(value) is float
        assert value == float(number[1])
        return
    assert re.match(r"(the|a) string", expected)
    assert value == text.partition(": ")[2]
    with pytest.raises(ConfigError, match=f"'{value}' is not a number"):
        make_plan(study(**small(hidden=value)))


def written(formula, **symbols):
    """Return the number that a formula of the list means: factors side by side, / and + as usual."""
    multiplied = re.sub(r"(?<=[\w)])\s+(?=[\w(])", " * ", formula)
    return eval(multiplied, {"__builtins__": {}}, symbols)


ACTIVATION_LAYOUTS = {
    "no parallelism": {"tp": 1},
    "TP": {"sp": "off"},
    "TP + SP": {"sp": "on"},
    "TP + selective": {"sp": "off", "recompute": "selective"},
    "TP + SP + selective": {"sp": "on", "recompute": "selective"},
    "full recompute": {"sp": "off", "recompute": "full"},
}
SHAPES = [(2048, 1, 6144, 64, 8), (512, 3, 768, 12, 2), (1024, 2, 12288, 96, 4)]  # s, b, h, a, t


def of_a_layer(**point):
    """What one layer more adds to the activations kept."""
    three, two = (memory(study(**point, layers=layers))["activations_bytes"] for layers in (3, 2))
    return three - two


def check_activation_memory(entry):
    for s, b, h, a, t in SHAPES:
        point = {"hidden": h, "heads": a, "vocab": 0, "seq_len": s, "micro_batch": b, "tp": t, "precision": "fp16"}
        if "layout" not in entry:
            assert entry["note"].startswith("flash attention removes the 5 a s / h term by itself")
            flash, unfused = (of_a_layer(**point, attention_kernel=kernel) for kernel in ("flash_causal", "unfused"))
            assert unfused - flash == written("5 a s s b / t", s=s, b=b, a=a, t=t)
            continue
        point |= {"attention_kernel": "unfused", **ACTIVATION_LAYOUTS[entry["layout"]]}
        found = of_a_layer(**point)
        assert found == pytest.approx(written(entry["bytes"], s=s, b=b, h=h, a=a, t=t), rel=1e-12)


CHECKS = {
    "parameters": check_parameters,
    "training_flops": check_training_flops,
    "collectives": check_collectives,
    "memory": check_memory,
    "validity": check_validity,
    "yaml": check_yaml,
    "activation_memory": check_activation_memory,
}


def test_every_kind_of_entry_is_checked():
    assert set(CHECKS) == set(DATA)
    assert all(DATA.values())


ENTRIES = [pytest.param(kind, entry, id=f"{kind}-{number}") for kind, entries in DATA.items()
           for number, entry in enumerate(entries)]  # fmt: skip


@pytest.mark.parametrize(("kind", "entry"), ENTRIES)
def test_the_value_is_the_published_one(kind, entry):
    read = Entry(entry)
    CHECKS[kind](read)
    assert read.unread <= PROSE, "keys of the entry that no check reads"


# -- what the notes beside the values say -----------------------------------------------------------------------------


def test_of_mixtral_only_the_experts_a_token_uses_are_counted():
    point = {**MODELS["mixtral-8x7b"], "seq_len": 1024}
    assert float(step(**{**point, "top_k": 8}).work.model_flops) == pytest.approx(287.78e12, rel=1e-3)
    assert float(step(**{**point, "top_k": 1}).work.model_flops) == pytest.approx(45.34e12, rel=1e-3)


def test_an_all_reduce_moves_twice_its_message():
    message = Collective(
        "",
        "",
        count=1,
        kind="all_reduce",
        parallelism="tp",
        message_bytes=1e9,
        backward_count=0,
        group=Group(np.array([1, 2, 8])),
    )
    assert float(message.volume_bytes) == 2e9
    np.testing.assert_allclose(message.wire_bytes, [0, 1e9, 1.75e9])


@pytest.mark.parametrize("name", [name for name in MODELS if name != "qwen3-30b-a3b"])
def test_the_catalogue_has_the_published_parameters(name):
    published = {entry["model"]: entry for entry in DATA["parameters"]}[name]
    answer = make_plan(study_from({"hardware": "h100-sxm", "model": name})).evaluate(())
    assert int(answer.work.parameters) == published["total"]

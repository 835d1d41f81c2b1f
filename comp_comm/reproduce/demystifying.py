"""What is known of "Demystifying the Communication Characteristics for Distributed Transformer Models" (2408.10197).

We had its abstract and a summary, with three facts; its equations, tables and histograms were not at hand.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from comp_comm.configs.study import study_from
from comp_comm.records import Record, Records
from comp_comm.reproduce.figure import Chart, Figure, Series, about, trend, unknown
from comp_comm.sweeps.result import sweep
from comp_comm.sweeps.volume import distribution, volume

PAPER = "demystifying"
MODELS = ("neox-19m", "neox-125m", "neox-1.3b", "neox-13b")
SHAPES = (("neox-19m", 70.4e6), ("neox-125m", 162e6), ("neox-1.3b", 1.42e9), ("neox-13b", 13.1e9))
# Schemes side by side: their layout of 64 devices (GCDs) of Frontier.
SCHEMES: dict[str, Record] = {
    "DP": {"zero": 0}, "ZeRO-1": {"zero": 1}, "ZeRO-3": {"zero": 3}, "TP 8": {"tp": 8, "zero": 0, "sp": "off"},
    "PP 8": {"pp": 8, "zero": 0, "global_batch": 256}, "TP 4, PP 4": {"tp": 4, "pp": 4, "zero": 0, "global_batch": 128},
}  # fmt: skip
GPUS = 64
BUCKET = 500_000_000  # elements sent at once, as GPT-NeoX configures DeepSpeed
NO_TEXT = "its equations, tables and histograms were not at hand; three facts are quoted by a summary"
GB = 1e9


@cache
def _volume(scheme: str, model: str = "neox-13b") -> Record:
    fixed = {"gpus": GPUS, "precision": "fp16", "micro_batch": 4, "recompute": "full", "grad_precision": "fp16",
             "overlap_dp": "on", "bucket": BUCKET, **SCHEMES[scheme]}  # fmt: skip
    return volume(study_from({"hardware": "frontier", "model": model, "set": fixed}))


def _group(scheme: str, group: str, what: str = "volume_bytes") -> float:
    return float(_volume(scheme)["groups"].get(group, {}).get(what, 0.0))


def volumes() -> Figure:
    """Return the volume of each scheme: its equations as far as they are quoted, beside the messages of a step."""
    parameters = {
        name: float(
            sweep(
                {"model": name, "hardware": "frontier", "set": {"gpus": GPUS, "zero": 3}}, columns=["parameters"]
            ).columns["parameters"][0]
        )
        for name, _ in SHAPES
    }
    expected = 4 * parameters["neox-13b"] / GB
    message = _group("DP", "dp", "message_bytes")
    gathers = [
        row for row in _volume("ZeRO-3")["messages"] if row["collective"] == "all_gather" and row["group"] == "dp"
    ]
    ratio = _group("ZeRO-3", "dp") / _group("DP", "dp")
    said = (
        about("all-reduce volume over its message m", 2, _group("DP", "dp") / message, 0.001, "m", "quoted"),
        about("all-gather volume over its message m", 1, sum(row["volume_bytes"] for row in gathers)
              / sum(row["message_bytes"] * row["calls"] for row in gathers), 0.001, "m", "quoted"),
        about("ZeRO-3 over DP", 1.5, ratio, 0.05, "x", "quoted as roughly 1.5"),
        about("ZeRO-1 over DP", 1, _group("ZeRO-1", "dp") / _group("DP", "dp"), 0.05, "x",
              "by the quote that ZeRO-3 needs 1.5 times DP, ZeRO-1 and ZeRO-2"),
        about("DP of 13B: 2 x parameters x 2 bytes", expected, _group("DP", "dp") / GB, 0.01, "GB"),
        unknown("volume of TP 8 in a step", _group("TP 8", "tp") / GB, "GB", NO_TEXT),
    )  # fmt: skip
    rows: Records = [{"scheme": scheme, **{group: _group(scheme, group) / GB for group in ("dp", "tp", "pp")}}
                     for scheme in SCHEMES]  # fmt: skip
    chart = Chart("volume of a device in a step, 13B on 64 GCDs", "", "GB", tuple(
        Series(group.upper(), [row["scheme"] for row in rows], [row[group] for row in rows], "stack")
        for group in ("dp", "tp", "pp")))  # fmt: skip
    return Figure(PAPER, "volumes", "Volume by scheme", said, rows, (chart,), "", (
        NO_TEXT, "GPT-NeoX 13B, fp16, micro-batch 4, full recomputation; volume counts an all-reduce twice",
        "a run's own log: compcomm volume --log (DeepSpeed's comms_logger) puts both side by side"))  # fmt: skip


def messages() -> Figure:
    """Return message sizes of each scheme, side by side, and the small point-to-point messages."""
    rows: Records = []
    for scheme in SCHEMES:
        for one in distribution(_volume(scheme)["messages"]):
            rows.append({"scheme": scheme, **{name: one[name] for name in ("group", "from_bytes", "calls",
                                                                          "volume_bytes")}})  # fmt: skip
    sends = sorted(((scheme, row) for scheme in SCHEMES for row in _volume(scheme)["messages"]
                    if row["collective"] == "send"), key=lambda pair: pair[1]["message_bytes"])  # fmt: skip
    small = min(row["message_bytes"] for _, row in sends)
    gradients = max(row["message_bytes"] for row in _volume("DP")["messages"])
    said = (
        trend(
            "point-to-point messages of a pipeline are small beside gradients",
            small < 0.05 * gradients,
            f"{small / 2**20:.0f} MiB against {gradients / 2**20:,.0f} MiB: what the abstract asks to optimise",
        ),
        unknown("histogram of each scheme", None, "", NO_TEXT),
    )
    charts = tuple(Chart(scheme, "size of a message (bytes)", "calls in a step", tuple(
        Series(group, [row["from_bytes"] for row in rows if (row["scheme"], row["group"]) == (scheme, group)],
               [row["calls"] for row in rows if (row["scheme"], row["group"]) == (scheme, group)], "points")
        for group in ("dp", "tp", "pp", "world")), 2, 10) for scheme in SCHEMES)  # fmt: skip
    ranked: Records = [{"scheme": scheme, "message": row["message"], "message_bytes": row["message_bytes"],
                        "calls": row["calls"]} for scheme, row in sends]  # fmt: skip
    return Figure(
        PAPER,
        "messages",
        "Sizes of messages, scheme by scheme",
        said,
        [*rows],
        charts,
        "",
        (
            "smallest point-to-point messages first: "
            + "; ".join(
                f"{row['scheme']} {row['message_bytes'] / 2**20:.0f} MiB, {row['calls']:.0f} calls" for row in ranked
            ),
        ),
    )


def throughput() -> Figure:
    """Return throughput over sequence length and model size."""
    lengths = [1024, 2048, 4096, 8192]
    rates: dict[str, list[float]] = {}
    rows: Records = []
    for model in MODELS:
        study = {"hardware": "frontier", "model": model, "set": {
            "gpus": GPUS, "precision": "fp16", "recompute": "full", "zero": 1, "global_batch": 256, "micro_batch": 1},
            "sweep": {"seq_len": lengths}}  # fmt: skip
        result = sweep(study_from(study), columns=["seq_len", "tflops_per_gpu", "visible_comm_fraction", "reason"])
        rows += [{"model": model, **row} for row in result.to_records()]
        rates[model] = result.columns["tflops_per_gpu"].tolist()
    longer = [np.diff([value for value in values if value == value]) for values in rates.values()]
    sizes = [next(value for value in values if value == value) for values in rates.values()]
    said = (
        trend(
            "per-GPU throughput goes with sequence length",
            all((each > 0).all() for each in longer),
            "the abstract: correlations between sequence length, per-GPU throughput, model size",
        ),
        trend("per-GPU throughput goes with model size", (np.diff(sizes[:3]) > 0).all()),
        unknown("throughput on Frontier", sizes[-1], "TFLOP/s", NO_TEXT),
    )
    chart = Chart("64 GCDs of Frontier, ZeRO-1", "sequence length", "TFLOP/s a GCD", tuple(
        Series(model, lengths, values) for model, values in rates.items()), 2)  # fmt: skip
    return Figure(PAPER, "throughput", "Sequence length, throughput and model size", said, rows, (chart,), "", (
        NO_TEXT, "per-GCD model FLOP/s, modelled on the profile of Frontier"))  # fmt: skip


FIGURES = {"volumes": volumes, "messages": messages, "throughput": throughput}

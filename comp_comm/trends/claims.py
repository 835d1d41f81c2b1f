"""What the paper foresaw, and what came: claims judged by numbers of the other parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from comp_comm.formulas.growth import rank_correlation
from comp_comm.records import Record, Records
from comp_comm.trends.device_parts import fixed_layout_part, wide_tp_part
from comp_comm.trends.generations import STATED, band, generations
from comp_comm.trends.growth import model_growth
from comp_comm.trends.model_parts import edges_part, required_tp_part, shares_part
from comp_comm.trends.part import Part, PartSettings
from comp_comm.trends.steps import trained_steps

HELD, HALF, FAILED = "held", "half", "did not hold"
SHARE = (0.40, 0.75)  # of serialized communication that future models were to have: abstract, section 4.3.6
LARGE = 100e9
TP = (250, 550)  # section 4.3.2


def claims_part(asked: PartSettings) -> Part:
    """Return the claims with what became of them; three are what the paper rests on, the others follow."""
    shares, edges, required = (make(PartSettings()) for make in (shares_part, edges_part, required_tp_part))
    makers: tuple[Callable[[], Record], ...] = (
        _flop_vs_bw,
        lambda: _serialized(shares),
        lambda: _required(required),
        lambda: _shapes(),
        lambda: _batch(),
        lambda: _edge(edges),
        lambda: _slack(edges),
        _hardware,
        _width,
        lambda: _experts(shares),
    )
    rows: Records = [make() for make in makers]
    return Part(
        "claims",
        "What Comp-vs-Comm foresaw in 2023, and what came",
        rows,
        ("claim", "foreseen", "came", "verdict"),
        (
            "the verdict follows from the numbers by the rule in 'rule' (--format json has it), not by opinion",
            "shares are modelled, not measured: see 'compcomm trends errors'",
        ),
    )


def _row(claim: str, foreseen: str, came: str, verdict: str, rule: str, why: str) -> Record:
    return {"claim": claim, "foreseen": foreseen, "came": came, "verdict": verdict, "rule": rule, "why": why}


def _flop_vs_bw() -> Record:
    rows = generations()
    (count, of, _), middle = band(rows, "scale_up_16_bit"), band(rows, "scale_up_16_bit", since=2023)[2]
    (best, of_best, _), best_middle = (
        band(rows, "scale_up_fastest_format"),
        band(rows, "scale_up_fastest_format", since=2023)[2],
    )
    low, _ = STATED
    verdict = HELD if middle >= low else HALF if best_middle >= low or best / of_best >= 0.33 else FAILED
    return _row(
        "FLOP/s outgrow links",
        "2 to 4 times a generation",
        f"16 bit: {count} of {of} generations, median since 2023 {middle:.2f}; fastest format: {best} of "
        f"{of_best}, median {best_middle:.2f}",
        verdict,
        "held: median since 2023 in 16 bit at least 2; half: in the fastest format, or a third of generations",
        "NVLink doubled with each generation; FLOP/s grew by narrower formats, whose messages stay in 16 bits",
    )


def _serialized(shares: Part) -> Record:
    rows = [row for row in shares.rows if (row["parameters"] or 0) >= LARGE and row["year"] >= 2023]
    visible, none = (
        np.asarray([row[name] for row in rows]) for name in ("visible_fraction", "none_overlapped_fraction")
    )
    eq10 = np.asarray([row["paper_eq10_fraction"] for row in rows])
    low, high = SHARE
    inside = int((visible >= low).sum())
    verdict = HELD if inside >= len(rows) / 2 else HALF if (none >= low).sum() >= len(rows) / 2 else FAILED
    dated = np.asarray([[row["year"], row["visible_fraction"]] for row in shares.rows])
    trend = rank_correlation(dated[:, 0], dated[:, 1])
    return _row(
        "communication takes most of the step",
        f"{100 * low:.0f} to {100 * high:.0f} % serialized",
        f"of {len(rows)} models of 100 billion and more since 2023: median {100 * np.median(visible):.0f} % "
        f"visible, {inside} above {100 * low:.0f} % ({int((none >= low).sum())} if nothing overlapped); the "
        f"paper's formula with the TP of Eq 10 gives {100 * np.median(eq10):.0f} %; rank correlation with the "
        f"date {trend:+.2f}",
        verdict,
        "held: half of them at least at 40 % visible; half: with nothing overlapped",
        "TP stayed inside a node, pipelines and ZeRO split the rest; tensor, data and expert traffic overlap",
    )


def _required(required: Part) -> Record:
    rows = [row for row in required.rows if row["year"] >= 2023]
    used = np.asarray([row["tp"] for row in rows])
    ratio, split = (np.asarray([row[name] for row in rows]) for name in ("required_over_tp", "required_over_sharding"))
    middle, of_split = float(np.median(ratio)), float(np.median(split))
    verdict = HELD if middle <= 2 else HALF if 1 / 3 <= of_split <= 3 else FAILED
    return _row(
        "models need TP of hundreds (Eq 10)",
        f"TP of {TP[0]} to {TP[1]} at 530 billion parameters",
        f"largest TP {used.max():.0f}, median {np.median(used):.0f}; Eq 10 over TP used {middle:.0f}, over the "
        f"devices that weights are split over {of_split:.1f}",
        verdict,
        "held: Eq 10 over TP used at most 2 in the median; half: over all that splits weights within 3",
        "Eq 10 foretold how far weights are split; pipelines, ZeRO and experts did it, not TP",
    )


def _shapes() -> Record:
    grown = {(row["of"], row["quantity"]): row for row in model_growth()}
    hidden, length = (grown["2023 to 2026", name] for name in ("H", "SL"))
    verdict = (
        HELD if min(hidden["low"], length["low"]) > 1 else HALF if max(hidden["low"], length["low"]) > 1 else FAILED
    )
    return _row(
        "H and SL go on growing",
        "H to 64K (PaLM-3x)",
        f"since 2023 H {hidden['a_year']:.2f} a year ({hidden['low']:.2f} to {hidden['high']:.2f}), SL "
        f"{length['a_year']:.2f} ({length['low']:.2f} to {length['high']:.2f})",
        verdict,
        "held: both intervals above 1; half: one of them",
        "compute-optimal training and experts: parameters went into tokens and experts, not into width",
    )


def _batch() -> Record:
    (row,) = (
        row
        for row in model_growth()
        if (row["of"], row["quantity"]) == ("2018 to 2022", "B, sequences of a micro-batch")
    )
    ones = float((trained_steps().since(2023).field("micro_batch") == 1).mean())
    return _row(
        "B falls to 1",
        "B = 1",
        f"{100 * ones:.0f} % of micro-batches since 2023 are 1; {row['a_year']:.2f} a year before",
        HELD if ones >= 0.5 else FAILED,
        "held: half of them at least are 1",
        "pipelines want many small ones",
    )


def _edge(edges: Part) -> Record:
    fit, over = edges.extra["edge"], edges.extra["edge_over_flop_vs_bw"]
    verdict = HELD if fit["high"] < 1 else HALF if over["high"] < 1 else FAILED
    return _row(
        "compute's edge shrinks",
        "(H + SL) / TP falls as TP grows",
        f"{fit['factor']:.2f} a year ({fit['low']:.2f} to {fit['high']:.2f}); over flop-vs-bw "
        f"{over['factor']:.2f} ({over['low']:.2f} to {over['high']:.2f})",
        verdict,
        "held: the interval is below 1; half: that over flop-vs-bw is",
        "TP did not grow",
    )


def _slack(edges: Part) -> Record:
    fit, slack = edges.extra["margin"], edges.extra["slack"]
    rows = [row for row in edges.rows if row["margin"] is not None and row["year"] >= 2023]
    below = sum(row["margin"] < 1 for row in rows)
    verdict = HELD if below > 0.5 * len(rows) else HALF if below > 0.2 * len(rows) else FAILED
    return _row(
        "slack shrinks, DP gets exposed",
        "SL x B falls",
        f"SL x B {slack['factor']:.2f} a year ({slack['low']:.2f} to {slack['high']:.2f}); {below} of "
        f"{len(rows)} models since 2023 have fewer tokens between reductions than hide them (margin "
        f"{fit['factor']:.2f} a year)",
        verdict,
        "held: more than half have a margin below 1; half: more than a fifth",
        "gradients are reduced once a step, and batches grew to 10^7 tokens; ZeRO-3 spends that slack",
    )


def _hardware() -> Record:
    rows = {
        (row["hardware"], row["precision"]): row["visible_comm_fraction"]
        for row in fixed_layout_part(PartSettings()).rows
    }
    first, last = rows["a100-sxm-80gb", "bf16"], rows["rubin-nvl72", "fp8"]
    return _row(
        "hardware alone raises the share",
        "20 to 50 % become 40 to 75 % at 4x flop-vs-bw",
        f"405B in one layout, nothing overlapped: A100 {100 * first:.0f} %, H100 "
        f"{100 * rows['h100-sxm', 'bf16']:.0f} (fp8 {100 * rows['h100-sxm', 'fp8']:.0f}), GB200 fp8 "
        f"{100 * rows['gb200-nvl72', 'fp8']:.0f}, Rubin fp8 {100 * last:.0f}",
        HELD if last / first >= 2 else FAILED,
        "held: the share at least doubled from A100 to Rubin",
        "layouts took it back",
    )


def _width() -> Record:
    rows = {(row["hardware"], row["tp"]): row["visible_comm_fraction"] for row in wide_tp_part(PartSettings()).rows}
    shares = [rows["h100-sxm", tp] for tp in (8, 32, 64, 128)]
    inside = sum(share >= SHARE[0] for share in shares[1:])
    return _row(
        "TP of hundreds means 40 to 75 %",
        "40 to 75 %",
        "405B on H100 at TP 8, 32, 64, 128: " + ", ".join(f"{100 * share:.0f} %" for share in shares),
        HELD if inside == len(shares) - 1 else FAILED,
        "held: 40 % and more at TP 32, 64 and 128",
        "the algebra was right; such layouts were designed away",
    )


def _experts(shares: Part) -> Record:
    rows = [row for row in shares.rows if row["year"] >= 2024]
    kinds = {
        arch: np.asarray([row["none_overlapped_fraction"] for row in rows if row["arch"] == arch])
        for arch in ("dense", "moe")
    }
    dense, moe = (float(np.median(values)) for values in kinds.values())
    experts = [
        row["ep_fraction"] / row["visible_fraction"] for row in rows if row["arch"] == "moe" and row["visible_fraction"]
    ]
    return _row(
        "mixtures of experts make it worse",
        "all-to-alls on the critical path (section 6.1.1)",
        f"since 2024, nothing overlapped: dense {100 * dense:.0f} %, mixtures {100 * moe:.0f} % (medians of "
        f"{kinds['dense'].size} and {kinds['moe'].size}); experts are "
        f"{100 * float(np.median(experts)):.0f} % of what shows of mixtures'",
        HELD if moe > dense else FAILED,
        "held: mixtures have the larger median",
        "k copies of H a token, and small experts",
    )


__all__ = ["claims_part"]

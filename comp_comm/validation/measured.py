"""What was measured, as the seconds of a step, whatever the source gives."""

from __future__ import annotations

import re

from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array
from comp_comm.validation.table import MeasuredRun

TERA = 1e12


def counts_causal(run: MeasuredRun) -> bool:
    """Return whether a source's model FLOP count only the scores that a causal mask leaves (6 L h s, not 12 L h s).

    Megatron-Bridge counts them so (utils/flop_utils.py); NeMo before it, Megatron-LM and llm-foundry count all.
    """
    convention = run["flops_convention"].replace(" ", "")
    return "6P+6Lhs" in convention or "causal" in convention or (
        convention.startswith("model") and "bridge" in run["group"]
    )  # fmt: skip


def counts_recomputed(run: MeasuredRun) -> bool:
    """Return whether a source's FLOP are those of the hardware, recomputation counted."""
    return run["flops_convention"].startswith("hw") or "likely hw" in run["flops_convention"]


def megatron_flops(run: MeasuredRun, factor: int) -> float:
    """Return the FLOP of a step as Megatron-LM counts them: 24 x factor B s L h^2 (1 + s / 6h + V / 2 factor x 8 L h).

    ``factor`` is 4 with full recomputation and 3 without (arXiv:2104.04473, Eq 3, where it is 4: 96 B s L h^2 (1 +
    s / 6h + V / 16 L h)). The term of the vocabulary is 6 B s h V for both.

    Raises ``ValueError`` where the table lacks a number that the count needs.
    """
    names = ("global_batch", "seq_len", "layers", "hidden", "vocab")
    numbers = [run.number(name) for name in names]
    missing = [name for name, number in zip(names, numbers, strict=True) if number is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} not stated, which the source's count of FLOP needs")
    batch, seq_len, layers, hidden, vocab = (float(number or 0) for number in numbers)
    tokens = batch * seq_len
    return 24 * factor * tokens * layers * hidden**2 * (1 + seq_len / (6 * hidden)) + 6 * tokens * hidden * vocab


def step_seconds(run: MeasuredRun, work: Work, at: int) -> float:
    """Return the measured seconds of a step.

    ``work`` is that of the run, whose point ``at`` it is: its model FLOP, where a source counts FLOP as the model does.
    Raises ``ValueError`` where the source does not say what a rate is of.
    """
    metric, value, devices = run["measured_metric"], float(run["measured_value"]), float(run["n_gpus"])
    if metric == "iter_time_s":
        return value
    if metric == "tokens_per_s_per_gpu":
        batch, seq_len = run.number("global_batch"), run.number("seq_len")
        if batch is None or seq_len is None:
            raise ValueError("global_batch or seq_len not stated, and so not how many tokens a step has")
        return batch * seq_len / (devices * value)
    if metric == "mfu":
        return _at(work.model_flops, at) / (value * devices * _at(work.peak_flops, at))
    flops = megatron_flops(run, _passes(run)) if counts_recomputed(run) else _at(work.model_flops, at)
    return flops / (value * TERA * devices)


def _passes(run: MeasuredRun) -> int:
    """Return how often the forward pass' FLOP are counted: once, twice backward, and once again if recomputed."""
    match = re.match(r"hw\w*\(?(\d+)?", run["flops_convention"])
    stated = match[1] if match else None
    return 4 if stated in (None, "96", "8") else 3


def _at(numbers: Array, at: int) -> float:
    return float(numbers) if numbers.ndim == 0 else float(numbers.reshape(-1)[at if numbers.size > 1 else 0])

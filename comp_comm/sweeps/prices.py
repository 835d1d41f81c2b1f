"""What a layout costs, and the energy it takes, where a device's price or power is given."""

from __future__ import annotations

import math

from comp_comm.records import Record
from comp_comm.structs import struct


@struct
class Prices:
    """What a device costs an hour, and the watts it draws; None where they are not given."""

    per_gpu_hour: float | None = None
    watts: float | None = None


NO_PRICES = Prices()  # neither is given: no cost is told, rather than a cost of 0


def priced(prices: Prices, row: Record, run_tokens: object) -> dict[str, float]:
    """Return cost and energy of the step of a row of results; nothing where it has no step.

    >>> priced(Prices(per_gpu_hour=2.0), {"step_s": 36.0, "gpus": 100, "tokens_per_s": 1e6 / 36}, None)
    {'cost_per_million_tokens': 2.0}
    """
    if row.get("step_s") is None or row.get("tokens_per_s") is None:
        return {}
    tokens = float(run_tokens) if isinstance(run_tokens, (int, float)) else math.nan
    return costs(prices, row["step_s"], row["gpus"], row["tokens_per_s"] * row["step_s"], tokens)


def costs(prices: Prices, step_s: float, gpus: float, step_tokens: float, run_tokens: float) -> dict[str, float]:
    """Return cost and energy, of a million tokens, and of the run where its tokens are known (else NaN).

    >>> costs(Prices(per_gpu_hour=2.0), step_s=36.0, gpus=100, step_tokens=1e6, run_tokens=1e9)
    {'cost_per_million_tokens': 2.0, 'cost_of_run': 2000.0}
    """
    hours = step_s * gpus / 3600
    told: dict[str, float] = {}
    for name, price, scale in (("cost", prices.per_gpu_hour, 1.0), ("energy_kwh", prices.watts, 1e-3)):
        if price is not None:
            told[f"{name}_per_million_tokens"] = hours * price * scale * (1e6 / step_tokens)
            if not math.isnan(run_tokens):
                told[f"{name}_of_run"] = hours * price * scale * (run_tokens / step_tokens)
    return told

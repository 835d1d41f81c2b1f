"""What a layout costs, and the energy it takes, where a device's price or power is given."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """What a device costs an hour, and the watts it draws; None where they are not given."""

    per_gpu_hour: float | None = None
    watts: float | None = None


FREE = Prices()


def costs(prices: Prices, step_s: float, gpus: float, step_tokens: float, run_tokens: float) -> dict[str, float]:
    """Return cost and energy, of a million tokens, and of the run where its tokens are known (else NaN).

    >>> costs(Prices(per_gpu_hour=2.0), step_s=36.0, gpus=100, step_tokens=1e6, run_tokens=1e9)
    {'cost_per_million_tokens': 2.0, 'cost_of_run': 2000.0}
    """
    hours = step_s * gpus / 3600
    priced = {}
    for name, price, scale in (("cost", prices.per_gpu_hour, 1.0), ("energy_kwh", prices.watts, 1e-3)):
        if price is not None:
            priced[f"{name}_per_million_tokens"] = hours * price * scale * (1e6 / step_tokens)
            if not math.isnan(run_tokens):
                priced[f"{name}_of_run"] = hours * price * scale * (run_tokens / step_tokens)
    return priced

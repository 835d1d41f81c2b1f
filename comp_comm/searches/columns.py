"""What a search adds to the columns of its cost model: name, unit, meaning."""

from __future__ import annotations

COLUMNS = {
    "ties": ("", "layouts that no number tells apart from this one, itself among them"),
    "also": ("", "in what those layouts differ"),
    "behind_percent": ("%", "how much worse than the best of all, by the objective"),
    "memory_times": ("", "memory that a faster layout needs, over what may be filled"),
    "headroom_percent": ("%", "share of the memory that is left free"),
    "candidates": ("", "different layouts that keep every rule"),
    "feasible": ("", "how many of them fit"),
    "speedup": ("", "tokens a second, over those of the first row"),
    "efficiency": ("", "speedup over the first row on the same hardware, by how many times its devices"),
    "cost_per_million_tokens": ("", "of --price-per-gpu-hour, in its money"),
    "cost_of_run": ("", "of all tokens (--tokens), in the money of --price-per-gpu-hour"),
    "energy_kwh_per_million_tokens": ("kWh", "of --watts"),
    "energy_kwh_of_run": ("kWh", "of all tokens (--tokens), of --watts"),
}

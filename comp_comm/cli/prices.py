"""What a device costs and draws, given by flags: to ``explain`` and ``search`` alike."""

from __future__ import annotations

from collections.abc import Sequence

import click

from comp_comm.cli import options
from comp_comm.errors import ConfigError
from comp_comm.sweeps.prices import Prices

LEAST_PRICE, MOST_PRICE = 1e-6, 1e6  # an hour, or watts
FLAGS = ("price_per_gpu_hour", "watts")


def price_options(command: options.Command) -> options.Command:
    """Add ``--price-per-gpu-hour`` and ``--watts`` to a command."""
    for decorate in (
        click.option("--watts", metavar="N[,N]", help="What a device draws, for energy_kwh_per_million_tokens (and "
                     "_of_run); one for each hardware."),
        click.option("--price-per-gpu-hour", metavar="N[,N]", help="What a device costs an hour, for cost_per_million_"
                     "tokens, and with --tokens cost_of_run; one for each hardware."),
    ):  # fmt: skip
        command = decorate(command)
    return command


def read_prices(texts: Sequence[object], names: Sequence[object]) -> dict[object, Prices]:
    """Return what each device costs and draws, by its name: one number is that of all.

    Raises ``ConfigError`` for what is no price, and for as many as there are no devices.
    """
    columns: list[list[float | None]] = []
    for flag, text in zip(("--price-per-gpu-hour", "--watts"), texts, strict=True):
        with options.naming(flag):
            if text is not None and not split(text):
                raise ValueError("an empty value is not a number")
            numbers: list[float | None] = [options.parse_number(part) for part in split(text)]
            low, high = LEAST_PRICE, MOST_PRICE
            if any(number is not None and not low <= number <= high for number in numbers):
                raise ValueError(f"must be from {low:g} to {high:,.0f}")
        if len(numbers) not in (0, 1, len(names)):
            raise ConfigError(f"{flag}: {len(numbers)} numbers for {len(names)} hardware profiles; give one, or one "
                              "each")  # fmt: skip
        columns.append((numbers or [None]) * (len(names) if len(numbers) < 2 else 1))
    return {name: Prices(price, watts) for name, price, watts in zip(names, *columns, strict=True)}


def split(text: object) -> list[str]:
    """Return what is between commas.

    >>> split("[2.5, 4]"), split(None)
    (['2.5', '4'], [])
    """
    return [part.strip() for part in str(text).strip("[]").split(",") if part.strip()] if text else []

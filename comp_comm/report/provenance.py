"""Where the numbers of a profile are from, as rows."""

from __future__ import annotations

from comp_comm.configs.hardware_file import SWITCH_KEYS
from comp_comm.configs.hardware_numbers import switch_word
from comp_comm.hardware.profile import Number, Profile
from comp_comm.records import Record, Records
from comp_comm.units import format_quantity

PER_SI = {"FLOP/s": 1e12, "bytes": 2.0**30, "bytes/s": 1e9}


def number_rows(profile: Profile) -> Records:
    """Return every number of a profile with its source and certainty, those of its timing presets last."""
    presets = {f"presets.{p}.{key}": n for p, numbers in profile.presets.items() for key, n in numbers.items()}
    return [_number_row(key, number) for key, number in {**profile.numbers, **presets}.items()]


def _number_row(key: str, number: Number) -> Record:
    group, name = key.rsplit(".", 1)
    text: str | None = None
    if number.value is None:
        pass
    elif number.kind == "switch":
        text = switch_word(name, number.value)
        key = f"{group}.{next(word for word, switch in SWITCH_KEYS.items() if switch == name)}"
    elif number.kind in PER_SI or number.kind == "seconds":
        text = format_quantity(number.value, number.kind)
    else:
        text = f"{number.value:.12g}"
    return {"key": key, "value": text, "si": number.value, "certainty": number.certainty, "source": number.source,
            "date": number.date}  # fmt: skip

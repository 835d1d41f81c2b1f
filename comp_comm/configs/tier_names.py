"""Names of network tiers: one that is new to a profile, and most likely another one's, misspelt."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

USUAL_TIERS = ("scale-up", "scale-out")  # what the tiers of every profile of the catalogue are called
ALIKE = 0.84  # of a ratio of letters in common; 'scale-in' and 'scale-up' have 0.75, 'scaleout' and 'scale-out' 0.94


def meant(name: str, known: Collection[str]) -> str | None:
    """Return the tier of which a name is a misspelling, None where it is one of its own.

    Names that differ in their numbers alone ('rail-1', 'rail-2') are of several tiers.

    >>> meant("scale_out", USUAL_TIERS), meant("sclae-out", ["scale-up", "scale-out"])
    ('scale-out', 'scale-out')
    >>> meant("rack", USUAL_TIERS), meant("scale-up", ["scale-out"]), meant("rail-2", ["rail-1"])
    (None, None, None)
    """
    if name in (*known, *USUAL_TIERS):
        return None
    alike = [tier for tier in known if re.findall(r"\d+", tier) == re.findall(r"\d+", name)]
    import difflib  # here: only a new tier needs it

    close = difflib.get_close_matches(name.lower(), alike, n=1, cutoff=ALIKE)
    return close[0] if close else None


def wrong_tiers(tiers: Sequence[str], new: Collection[str], domains: Mapping[str, float | None]) -> dict[str, str]:
    """Return what is wrong with the new ones of a profile's tiers, which are from the inside out.

    ``domains`` are the devices that tiers connect; one without connects all there are, and no group gets beyond it.

    >>> wrong_tiers(["scale-up", "scale-out", "scale-oot"], ["scale-oot"], {"scale-up": 8})
    {'scale-oot': "is a new tier; did you mean 'scale-out'? (tiers: scale-up, scale-out)"}
    >>> wrong_tiers(["scale-up", "scale-out", "rack"], ["rack"], {"scale-up": 8})["rack"]
    "is a new tier beyond 'scale-out', which has no domain and so connects all devices: give 'scale-out' a domain"
    """
    wrong = {}
    for place, name in enumerate(tiers):
        if name not in new:
            continue
        known = [tier for tier in tiers if tier not in new]
        tier = meant(name, tuple(dict.fromkeys((*known, *USUAL_TIERS))))
        unbounded = next((each for each in tiers[:place] if domains.get(each) is None), None)
        if tier:
            others = f" (tiers: {', '.join(known)})" if known else ""
            wrong[name] = f"is a new tier; did you mean '{tier}'?{others}"
        elif unbounded:
            wrong[name] = (f"is a new tier beyond '{unbounded}', which has no domain and so connects all devices: "
                           f"give '{unbounded}' a domain")  # fmt: skip
    return wrong

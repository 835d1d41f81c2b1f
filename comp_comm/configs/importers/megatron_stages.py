"""Pipeline stages in Megatron-LM's arguments: how many layers each holds, where a script says so."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown

MOST = 10_000  # layers and stages that a layout is read for
_PART = re.compile(r"\((?P<group>[^()]*)\)(?:\*(?P<times>\d{1,4}))?|(?P<one>[EtmLR|])(?:\*(?P<count>\d{1,4}))?|[,\s]")
FLAGS = {
    "first": ("--decoder-first-pipeline-num-layers", "--num-layers-in-first-pipeline-stage"),
    "last": ("--decoder-last-pipeline-num-layers", "--num-layers-in-last-pipeline-stage"),
}


def read(keys: Keys, f: Findings) -> None:
    """Set how many chunks a stage has, and whether stages differ, from a layout by hand."""
    raw = keys.take("--pipeline-model-parallel-layout")
    first, last = (keys.number(*FLAGS[end]) or 0 for end in ("first", "last"))
    stages, layers = f.count("pp", 1), f.count("layers", 0)
    if not is_off(raw):
        place: tuple[str, ...] = ("--pipeline-model-parallel-layout",)
        chunks = layers_of(str(raw))
        if chunks is None or sum(chunks) != layers or len(chunks) % stages:
            held = "" if chunks is None else f" (it has {sum(chunks)} layers in {len(chunks)} parts)"
            message = (
                f"{shown(raw)} is not understood{held}; E, t, m and L for {layers} layers, cut by | into pp x vpp parts"
            )
            keys.wrong(place, message)
            return
        if len(chunks) > stages and "vpp" not in f.given:
            f.set("vpp", len(chunks) // stages, place)
    elif (first or last) and stages > 1:
        place = FLAGS["first" if first else "last"]
        between = stages - (first > 0) - (last > 0)
        rest = layers - int(first) - int(last)
        if rest < 0 or (between and rest % between):
            keys.wrong(place, f"the other {between} stages cannot share {rest} layers evenly")
            return
        chunks = [
            *[int(first)] * (first > 0),
            *[rest // between if between else 0] * between,
            *[int(last)] * (last > 0),
        ]
    else:
        return
    _set(keys, f, chunks, place)


def _set(keys: Keys, f: Findings, chunks: Sequence[int], place: tuple[str, ...]) -> None:
    """Allow uneven stages, where the largest is what they are timed as; refuse them where one is larger."""
    layers, dense = sum(chunks), f.count("dense_layers", 0)
    even = len(set(chunks)) == 1
    ends = [*chunks]
    ends[0], ends[-1] = ends[0] + 1, ends[-1] + 1
    if even or (len(set(ends)) == 1 and (layers + 2) % len(chunks) == 0):
        return
    most = math.ceil(layers / len(chunks))
    costly = [chunks[0] - min(dense, chunks[0]), *chunks[1:]]
    parts = ", ".join(map(str, chunks[:8])) + (", ..." if len(chunks) > 8 else "")
    if max(costly) > most:
        allowed = f"only as even as {layers} layers allow, {most} at most"
        keys.wrong(place, f"is not understood: stages of {parts} layers are not modelled; {allowed}")
        return
    f.set("uneven_stages", True)
    f.note(f"stages of {parts} layers are counted as {most} each, fewest in the last")


def layers_of(layout: str) -> list[int] | None:
    """Return how many layers each part of a layout has; None where it is none.

    >>> layers_of("Et*2|(tt|)*2tmL"), layers_of("Ex|L")
    ([2, 2, 2, 1], None)
    """
    text = ""
    for _ in range(2):  # a group may not hold another
        text, place = "", 0
        while place < len(layout):
            match = _PART.match(layout, place)
            if match is None or len(text) > MOST:
                return None
            group, one = match["group"], match["one"]
            if group is not None:
                text += group * min(int(match["times"] or 1), MOST)
            elif one:
                text += one * min(int(match["count"] or 1), MOST)
            place = match.end()
        layout = text
    return [part.count("t") for part in text.split("|")] if len(text) <= MOST else None

"""Pipeline stages in Megatron-LM's arguments: how many layers each holds, where a script says so."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.stage_layout import parse_stage_layout

LAYOUT = "--pipeline-model-parallel-layout"
FLAGS = {
    "first": ("--decoder-first-pipeline-num-layers", "--num-layers-in-first-pipeline-stage"),
    "last": ("--decoder-last-pipeline-num-layers", "--num-layers-in-last-pipeline-stage"),
}
COUNTED = ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
MOST_SHOWN = 8


def read(keys: Keys, f: Findings) -> None:
    """Set which layers each chunk of the pipeline has, where they are laid out by hand or not all as many."""
    raw = keys.take(LAYOUT)
    first, last = (int(keys.number(*FLAGS[end]) or 0) for end in ("first", "last"))
    embedding, loss = (int(keys.truth(flag)) for flag in COUNTED)
    if not is_off(raw):
        _by_hand(keys, f, str(raw))
    elif f.count("pp", 1) == 1:
        return
    elif first or last:
        _ends(keys, f, first, last)
    elif embedding or loss:
        _counted(keys, f, embedding, loss)


def _by_hand(keys: Keys, f: Findings, text: str) -> None:
    """Set the layout that a script gives as Megatron-LM writes it."""
    stages, layers, place = f.count("pp", 1), f.count("layers", 0), (LAYOUT,)
    try:
        counts = [count or 0 for count in parse_stage_layout(text).chunks]
    except ValueError as error:
        keys.wrong(place, str(error))
        return
    if sum(counts) != layers or len(counts) % stages:
        keys.wrong(place, f"{shown(text)} is not understood (it has {sum(counts)} layers in {len(counts)} parts); "
                          f"E, t, m and L for {layers} layers, cut by | into pp x vpp parts")  # fmt: skip
        return
    if len(counts) > stages and "vpp" not in f.given:
        f.set("vpp", len(counts) // stages, place)
    if stages > 1 and (len(set(counts)) > 1 or parse_stage_layout(text).mtp):
        f.set("pp_layout", text, place)


def _ends(keys: Keys, f: Findings, first: int, last: int) -> None:
    """Set the layers of the first and the last stage; the others share the rest evenly, chunk by chunk."""
    stages, chunks, layers = f.count("pp", 1), f.count("vpp", 1), f.count("layers", 0)
    place = FLAGS["first" if first else "last"]
    between = stages - (first > 0) - (last > 0)
    rest = layers - first - last
    if rest < 0 or (not between and rest) or (between and rest % between):
        keys.wrong(place, f"the other {between} stages cannot share {rest} layers evenly")
        return
    of_stages = [*[first] * (first > 0), *[rest // between if between else 0] * between, *[last] * (last > 0)]
    if any(count % chunks for count in of_stages):
        keys.wrong(place, f"stages of {_listed(of_stages)} layers cannot be cut into {chunks} chunks each")
        return
    _set(f, [count // chunks for count in of_stages] * chunks, place)


def _counted(keys: Keys, f: Findings, embedding: int, loss: int) -> None:
    """Set stages in which the embedding, the loss, or both take the place of a layer."""
    chunks, layers = f.count("pp", 1) * f.count("vpp", 1), f.count("layers", 0)
    each, left = divmod(layers + embedding + loss, chunks)
    if left or each < 1:
        ends = " and ".join(word for word, counted in (("embedding", embedding), ("loss", loss)) if counted)
        told = f"{layers} layers with the {ends} in the place of a layer cannot be shared out to {chunks} chunks evenly"
        keys.wrong(COUNTED[:1] if embedding else COUNTED[1:], told)
        return
    counts = [each] * chunks
    counts[0], counts[-1] = counts[0] - embedding, counts[-1] - loss
    if not (embedding and loss and layers % chunks):  # what is taken without a word is written without one
        _set(f, counts, COUNTED[:1])


def _set(f: Findings, counts: Sequence[int], place: Sequence[str]) -> None:
    """Set a layout of so many layers a chunk, where they are not all as many."""
    if len(set(counts)) > 1:
        f.set("pp_layout", "|".join(map(str, counts)), tuple(place))


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts[:MOST_SHOWN])) + (", ..." if len(counts) > MOST_SHOWN else "")

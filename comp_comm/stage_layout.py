"""How a study says which layers each pipeline stage has: the text of the field ``pp_layout``.

Chunks of a pipeline are separated by ``|``, in the order in which a micro-batch goes through them; with interleaving a
stage has several, as Megatron-LM deals them out. A chunk is a number of layers, or what Megatron-LM writes: ``t`` for a
layer, ``E`` for the embedding, ``m`` for a module of multi-token prediction, ``L`` for the loss. ``*n`` repeats what is
before it, ``(...)`` holds it together, and ``...`` stands for chunks that share out evenly what the others leave.
"""

from __future__ import annotations

import re
from functools import lru_cache

from comp_comm.structs import struct

TORCHTITAN = "torchtitan"  # the word for that framework's rule, which counts embedding and head as a layer each
MOST_CHUNKS = 100_000
# The first chunk of an interleaved pipeline may have the embedding alone, the last the loss, in the place of a layer.
ENDS = 2
_TOKEN = r"\s*(?:(\d+)|([EtmL])|(\()|(\))|(\|)|\*\s*(\d+)|(\.\.\.)|(,))"


@struct
class StageLayout:
    """Layers of each chunk of a pipeline, None for the one place where the rest is shared out evenly.

    ``mtp`` is how many chunks before the last one the module of multi-token prediction is.
    """

    chunks: tuple[int | None, ...]
    mtp: int = 0

    @property
    def open(self) -> bool:
        """Whether some chunks get what the others leave."""
        return None in self.chunks

    def layers(self, chunks: int, layers: int) -> tuple[int, ...] | None:
        """Return the layers of each of so many chunks of a model; None where the layout does not fit them.

        >>> parse_stage_layout("7|...|6").layers(4, 29)
        (7, 8, 8, 6)
        >>> parse_stage_layout("4*3").layers(4, 12) is None
        True
        """
        given = [count for count in self.chunks if count is not None]
        if not self.open:
            return tuple(given) if (len(given), sum(given)) == (chunks, layers) else None
        left, share = layers - sum(given), chunks - len(given)
        if share < 1 or left < 0 or left % share:
            return None
        at = self.chunks.index(None)
        return (*given[:at], *[left // share] * share, *given[at:])


@lru_cache(maxsize=256)
def parse_stage_layout(text: str) -> StageLayout:
    """Return what a text says of the layers of each chunk. Raises ``ValueError`` where it says nothing that is known.

    >>> deepseek = parse_stage_layout("Et*3|(tt|)*29,m|L")
    >>> deepseek.chunks[:2], sum(deepseek.chunks), deepseek.mtp
    ((3, 2), 61, 1)
    >>> parse_stage_layout("3|4*14|2").chunks[-2:], parse_stage_layout("Ett|(t|)*2ttL").chunks
    ((4, 2), (2, 1, 1, 2))
    """
    tokens = _tokens(text)
    items, rest = _sequence(tokens, 0, text)
    if rest != len(tokens):
        raise ValueError(f"'{text}': ')' without a '('")
    chunks: list[int | None] = [0]
    mtp: int | None = None
    for item in items:
        if item == "|":
            chunks.append(0)
        elif item == "m":
            mtp = len(chunks) - 1
        elif item == "...":
            if chunks[-1] != 0 or None in chunks:
                raise ValueError(f"'{text}': '...' stands for chunks of its own, once")
            chunks[-1] = None
        elif isinstance(item, int):
            if chunks[-1] is None:
                raise ValueError(f"'{text}': '...' stands for chunks of its own, once")
            chunks[-1] += item
    if len(chunks) > MOST_CHUNKS:
        raise ValueError(f"more than {MOST_CHUNKS:,} chunks")
    return StageLayout(tuple(chunks), len(chunks) - 1 - mtp if mtp is not None else 0)


def check_stage_layout(text: str) -> None:
    """Raise ``ValueError`` where a text is no layout of stages, saying what one looks like."""
    if text == TORCHTITAN:
        return
    try:
        parse_stage_layout(text)
    except ValueError as error:
        raise ValueError(f"{error}; layers of each chunk are written '7|8*14|6' or '7|...|6' or, as Megatron-LM does, "
                         f"'Ett|(ttt|)*14L'; '{TORCHTITAN}' is that framework's rule") from None  # fmt: skip


def _tokens(text: str) -> list[tuple[str, str]]:
    token, tokens, at = re.compile(_TOKEN), [], 0
    names = ("number", "letter", "open", "close", "bar", "times", "rest", "comma")
    while at < len(text.rstrip()):
        match = token.match(text, at)
        if match is None:
            raise ValueError(f"'{text}': cannot read '{text[at : at + 10]}'")
        name, value = next((n, v) for n, v in zip(names, match.groups(), strict=True) if v is not None)
        tokens.append((name, value))
        at = match.end()
    if not tokens:
        raise ValueError("an empty layout")
    return tokens


Item = int | str


def _sequence(tokens: list[tuple[str, str]], at: int, text: str) -> tuple[list[Item], int]:
    """Return layers and bars from a place on up to the end or a closing bracket, repetitions written out."""
    items: list[Item] = []
    last: list[Item] = []
    numbered = False
    while at < len(tokens) and tokens[at][0] != "close":
        name, value = tokens[at]
        at += 1
        if name == "times":
            _repeat(items, last, int(value), text)
            if numbered:
                items.pop()  # numbers are separated by bars, and what follows has its own
            last = []
            continue
        if name == "open":
            last, at = _sequence(tokens, at, text)
            if at == len(tokens):
                raise ValueError(f"'{text}': '(' without a ')'")
            at += 1
        else:
            last = _single(tokens, at, name, value)
        items += last
        numbered = name == "number"
    return items, at


def _single(tokens: list[tuple[str, str]], at: int, name: str, value: str) -> list[Item]:
    if name == "number":
        # '4*14' is fourteen chunks of four layers, not one of fifty-six.
        repeated = at < len(tokens) and tokens[at][0] == "times"
        return [int(value), "|"] if repeated else [int(value)]
    letters: dict[str, list[Item]] = {"t": [1], "m": ["m"]}
    signs: dict[str, list[Item]] = {"bar": ["|"], "rest": ["..."], "comma": []}
    return letters.get(value, []) if name == "letter" else signs[name]


def _repeat(items: list[Item], last: list[Item], times: int, text: str) -> None:
    if times < 1 or not last:
        raise ValueError(f"'{text}': '*{times}' repeats nothing")
    if len(last) * times > 4 * MOST_CHUNKS:
        raise ValueError(f"more than {MOST_CHUNKS:,} chunks")
    items += last * (times - 1)

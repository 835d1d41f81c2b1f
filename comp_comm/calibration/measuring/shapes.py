"""Which shapes to measure: every size of an octave and more, as many as the time allows."""

from __future__ import annotations

import itertools
import random

GEMM_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROWS, COLUMNS = (1, 16, 256, 1024, 4096, 16384), (256, 1024, 4096, 16384)
MESSAGE_SIZES = tuple(2**power for power in range(10, 29))


def gemm_shapes(count: int, largest: int, seed: int = 0) -> list[tuple[int, int, int]]:
    """Return m, n and k of so many products, none of more elements a side than ``largest``, drawn by ``seed``.

    The smallest and the largest cubes are always there: they tell the launch and the rate.

    >>> gemm_shapes(3, 256)[:2]
    [(256, 256, 256), (32, 32, 32)]
    """
    sizes = [size for size in GEMM_SIZES if size <= largest] or [largest]
    shapes = list(itertools.product(sizes, sizes, sizes))
    random.Random(seed).shuffle(shapes)
    first = [(size, size, size) for size in (sizes[-1], sizes[0], sizes[len(sizes) // 2])]
    return list(dict.fromkeys([*first, *shapes]))[:count]


def stream_shapes(count: int, largest: int, seed: int = 0) -> list[tuple[int, int]]:
    """Return rows and columns of so many element-wise kernels of at most ``largest`` elements.

    >>> stream_shapes(2, 2**20)
    [(4096, 256), (1, 256)]
    """
    shapes = [shape for shape in itertools.product(ROWS, COLUMNS) if shape[0] * shape[1] <= largest]
    shapes.sort(key=lambda shape: shape[0] * shape[1])
    ends = [shapes[-1], shapes[0]] if shapes else []
    random.Random(seed).shuffle(shapes)
    return list(dict.fromkeys([*ends, *shapes]))[:count]


def attention_shapes(count: int, largest: int) -> list[tuple[int, int, int, int]]:
    """Return batch, tokens, heads and head dimension of so many kernels of attention.

    >>> attention_shapes(2, 1024)
    [(1, 1024, 8, 64), (1, 512, 8, 64)]
    """
    tokens = [size for size in (4096, 2048, 1024, 512, 256, 128) if size <= largest]
    shapes = [(batch, size, heads, dim) for batch, heads, dim in ((1, 8, 64), (4, 16, 128), (2, 8, 128))
             for size in tokens]  # fmt: skip
    return shapes[:count]

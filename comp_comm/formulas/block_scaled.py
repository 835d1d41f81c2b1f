"""Products with scales for blocks of numbers, in tiles that a library chooses to fill the device (DeepGEMM, Hopper)."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, maximum, to_float, where

ROWS = 128.0  # of a tile, and numbers that have a scale in common
FEW = 64.0  # rows up to which a tile has so many
WIDEST, NARROWEST, STEP = 128.0, 16.0, 8.0  # columns of a tile: so many at most and at least, and multiples of STEP
# Times longer that a tile takes whose columns do not divide 128: it has two scales, and room for fewer stages (as
# DeepGEMM counts its shared memory). From 1.1 to 1.2 the tables of H100 and H200 are fitted alike; chosen on both.
TWO_SCALES = 1.15


def chosen_columns(row_tiles: Numeric, columns: Numeric, wave: Numeric) -> Array:
    r"""Return the columns of a tile that need the fewest waves, and of those the ones that fill the last wave most.

    .. math:: w = \lceil R \lceil n / 128 \rceil / W \rceil, \qquad
              b = \max\left(16, 8 \left\lceil \frac{n}{8 \lfloor w W / R \rfloor} \right\rceil\right)

    Tiles of 128 columns need the fewest waves w. As many tiles to a row of them as w waves hold make the narrowest
    ones: DeepGEMM tries all multiples of 8 from 16 to 128, and ends there.

    Parameters
    ----------
    row_tiles : array_like
        R, tiles above each other.
    columns : array_like
        n, columns of the result.
    wave : array_like
        W, tiles that run at a time: multiprocessors.

    Returns
    -------
    ndarray of float64
        Columns of a tile, from 16 to 128.

    References
    ----------
    .. [1] DeepSeek, DeepGEMM (github.com/deepseek-ai/DeepGEMM), 2025: get_best_configs, as of 2025 and as TensorRT-LLM
       has it (rows of 128, or 64 for up to 64 of the result).

    Examples
    --------
    Two rows of 18 tiles leave 96 of 132 multiprocessors idle; of 40 columns each, 118 tiles run at a time:

    >>> float(chosen_columns(2, 2304, 132)), float(chosen_columns(32, 4096, 132))
    (40.0, 128.0)
    """
    tall, n, together = to_float(row_tiles), to_float(columns), to_float(wave)
    waves = np.ceil(tall * np.ceil(n * (1 / WIDEST)) / together)
    most = maximum(np.floor(waves * together / tall), 1.0)
    return maximum(NARROWEST, STEP * np.ceil(n / (STEP * most)))


def block_scaled_flops(rows: Numeric, columns: Numeric, inner: Numeric, wave: Numeric, whole: Numeric = 1.0) -> Array:
    r"""Return the FLOP of whole waves of tiles, as many as run at a time in each, the idle ones among them.

    .. math:: C = 2 \cdot 128\, b\, k\, W \lceil R \lceil n / b \rceil / W \rceil \cdot (1.15 \text{ if } b \nmid 128)

    with b of `chosen_columns`, and R the rows in tiles of 128 (of 64 where there are no more).

    Parameters
    ----------
    rows, columns, inner : array_like
        m, n and k; rows of all products where there are several.
    wave : array_like
        W, tiles that run at a time.
    whole : array_like
        1 where rows fill whole tiles; 0 where they are padded already, as those of experts are.

    Returns
    -------
    ndarray of float64
        FLOP.

    References
    ----------
    .. [1] See `chosen_columns`.

    Examples
    --------
    257 rows are three tiles; four columns of 40 would be 117 of 132 tiles (n = 1536), each with two scales:

    >>> float(block_scaled_flops(257, 1536, 1, 132)) / (2 * 128 * 40 * 132)
    1.15
    """
    m, n, together = to_float(rows), to_float(columns), to_float(wave)
    high = where(m <= FEW, FEW, ROWS)
    tall = where(to_float(whole) > 0, np.ceil(m / high), m / high)
    tall = where(tall > 0, tall, 1.0)
    wide = chosen_columns(tall, n, together)
    waves = np.ceil(tall * np.ceil(n / wide) / together)
    scales = where(ROWS % wide == 0, 1.0, TWO_SCALES)
    return (2 * together * waves) * (high * wide * scales) * to_float(inner)

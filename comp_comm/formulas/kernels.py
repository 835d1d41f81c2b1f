"""Seconds of single kernels: GEMMs in tiles, fused attention, streams of memory.

A few numbers with a physical meaning each; seconds, bytes and FLOP, float64, broadcastable.
"""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, somewhere, sqrt, to_float, where

TILE = 128.0  # rows and columns of a tile of the result that one core makes at a time
SPLITS = (2.0, 4.0, 8.0, 16.0, 32.0)  # into how many parts a library cuts a tile's inner dimension
ROWS = 64.0  # of the shortest tile: rows of a result are padded to a multiple of it
WAVE = 16 * TILE  # rows and columns of the result made at a time: two tiles a core, and devices have 108 to 152 cores
WARM_UP = 3e-3  # seconds in which a product reaches half of what a warm machine adds to it


def lone_tile_steps(k: Numeric, split_k: Numeric) -> Array:
    r"""Return the steps in K of a tile that has the whole device for itself.

    .. math:: h = k \;(k \le r), \qquad h = 2 \sqrt{k r} - r \;(k > r)

    Parameters
    ----------
    k : array_like
        Inner dimension of the product.
    split_k : array_like
        r, steps in K that each further part of a split costs: the sum of the partial results.

    Returns
    -------
    ndarray of float64
        Steps in K, at most k.

    Notes
    -----
    Cut into p parts it takes k / p + r (p - 1) steps, least for :math:`p = \sqrt{k / r}`.

    References
    ----------
    .. [1] M. Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
       GPU", PPoPP 2023 (split K).

    Examples
    --------
    >>> lone_tile_steps([100, 400, 1600], 400)
    array([ 100.,  400., 1200.])
    """
    inner, part = to_float(k), to_float(split_k)
    return where(inner > part, 2 * sqrt(inner * part) - part, inner)


def tile_steps(tiles: Numeric, steps: Numeric, split_k: Numeric = 0.0, wave: Numeric = 0.0) -> Array:
    r"""Return the steps in K of all tiles together, those of an idle part of the device among them.

    .. math:: S = \min_{p \in 1, 2, 4 .. 32} w \frac{\lceil p\, T / w \rceil}{p} \left( s + r (p - 1) \right)

    or simply T s where tiles are not in waves (w = 0), as in libraries whose kernels stay on the device and take the
    next tile as they finish one.

    Parameters
    ----------
    tiles : array_like
        T, tiles of 128 by 128 of the result; need not be whole.
    steps : array_like
        s, steps of one tile.
    split_k : array_like
        r, steps that each further part of a tile costs.
    wave : array_like
        w, tiles that run at a time; 0 for no waves.

    Returns
    -------
    ndarray of float64
        Tiles times steps.

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide", 2023 (tile and wave quantization).

    Examples
    --------
    A tile more than a wave: half of the device waits, unless tiles are cut, which here costs 100 steps a part.

    >>> float(tile_steps(217, 1000, split_k=np.inf, wave=216)), float(tile_steps(217, 1000, split_k=100, wave=216))
    (432000.0, 351000.0)
    """
    steps = to_float(steps)
    plain = to_float(tiles) * steps
    waves = to_float(wave)
    if not somewhere(waves > 0):
        return plain
    filled = to_float(tiles) / where(waves > 0, waves, 1.0)
    best = np.ceil(filled) * steps
    for parts in SPLITS:
        best = minimum(best, np.ceil(parts * filled) * ((steps + to_float(split_k) * (parts - 1)) / parts))
    return where(waves > 0, best * waves, plain)


def reread_bytes(rows: Numeric, columns: Numeric, inner: Numeric, element: Numeric, cache: Numeric) -> Array:
    r"""Return the bytes of its operands that a matrix product reads again, as they are larger than the cache.

    .. math:: V_r = \max(b m k - z, 0) \left( \frac{n}{\max(w, w^2 / m)} - 1 \right)^+
                    + \max(b n k - z, 0) \left( \frac{m}{\max(w, w^2 / n)} - 1 \right)^+

    Tiles run in waves, w = 2048 elements of the result high and as wide, for which a wave reads least, or longer where
    the result is narrower. Every wave reads its rows and columns of the operands; what of an operand does not fit in
    the cache comes from memory again.

    Parameters
    ----------
    rows, columns, inner : array_like
        m, n and k: the result is m by n, its operands m by k and k by n.
    element : array_like
        b, bytes of an element of an operand.
    cache : array_like
        z, bytes of an operand that the cache keeps. Where each half of a device has a cache of its own (A100 and
        later), both keep what both use: z is half of what the data sheet says.

    Returns
    -------
    ndarray of float64
        Bytes, beyond those of reading each operand once.

    Notes
    -----
    w is two tiles of 128 by 128 on each of 128 cores, the same for every device; nothing here is fitted.

    References
    ----------
    .. [1] NVIDIA, "CUTLASS: Efficient GEMM in CUDA", 2023 (threadblock rasterization).
    .. [2] D. Irony, S. Toledo, A. Tiskin, "Communication lower bounds for distributed-memory matrix multiplication",
       JPDC 64(9), 2004 (a square part of the result needs least of the operands).

    Examples
    --------
    A wave of 1024 by 4096, which has all columns; waves of 2048 by 2048, of which eight read a weight of 34 MB:

    >>> [round(float(read) / 1e6) for read in reread_bytes([1024, 16384], [4096, 2048], 8192, 2, 25e6)]
    [0, 60]
    """
    m, n, each = to_float(rows), to_float(columns), to_float(element) * to_float(inner)
    again: Array = maximum(each * m - cache, 0.0) * maximum(n * minimum(m * (1 / WAVE**2), 1 / WAVE) - 1, 0.0)
    return again + maximum(each * n - cache, 0.0) * maximum(m * minimum(n * (1 / WAVE**2), 1 / WAVE) - 1, 0.0)


def padded_rows(rows: Numeric) -> Array:
    r"""Return the rows that a product's tiles have, :math:`64 \lceil m / 64 \rceil`, or m where it is at most 64.

    Parameters
    ----------
    rows : array_like
        m, rows of the result: its tokens. For few there are other kernels. Columns are those of weights, and multiples
        of 64 nearly always.

    Returns
    -------
    ndarray of float64
        Rows, at least m.

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide", 2023 (tile quantization).

    Examples
    --------
    >>> padded_rows([1, 65, 2048])
    array([1.000e+00, 1.280e+02, 2.048e+03])
    """
    m = to_float(rows)
    return where(m > ROWS, np.ceil(m * (1 / ROWS)) * ROWS, m)


def gemm_seconds(
    flops: Numeric, k: Numeric, moved: Numeric, seconds_per_flop: Numeric, seconds_per_byte: Numeric,
    start: Numeric = 0.0, ramp_k: Numeric = 0.0, ramp_tiles: Numeric = 0.0, split_k: Numeric = 0.0, wave: Numeric = 0.0,
    warm: Numeric = 1.0,
) -> Array:  # fmt: skip
    r"""Return the seconds of a matrix product on a device that works in tiles.

    .. math:: t = t_0 + \sqrt{(2 c^2 S u)^2 + (2 c^2 F (h + k_0) u)^2 + (V v)^2}

    with c = 128 a tile's side, S the steps of all tiles (`tile_steps`, each k + k_0 long), F (h + k_0) those of a
    device that too few tiles leave idle (`lone_tile_steps`), u and v the seconds of a FLOP and of a byte. Whichever
    bound is the largest prevails; two that are equal take 1.4 of each.

    Timed again and again in a burst, a long product warms the device that it runs on: it takes 1 + (p - 1) C / (C + w)
    times its seconds C on a cold one, where p is ``warm`` and w 3 ms.

    Parameters
    ----------
    flops, k : array_like
        2 m k n, times the number of products in a batch, and the inner dimension.
    moved : array_like
        V, bytes of memory read and written.
    seconds_per_flop, seconds_per_byte : array_like
        u and v, at the achieved rates.
    start : array_like
        t_0, seconds before anything runs.
    ramp_k : array_like
        k_0, steps in K that starting and ending a tile take.
    ramp_tiles : array_like
        F, tiles below which the product takes no less time.
    split_k, wave : array_like
        See `tile_steps`.
    warm : array_like
        p, how many times longer it takes on a warm machine, where the seconds of a FLOP are those of a cold one; 1
        where they are those of the machine as it is.

    Returns
    -------
    ndarray of float64
        Seconds.

    Notes
    -----
    Six numbers a device (u, v, t_0, k_0, F, r), fitted on a tenth of the products of a public database with operands of
    random numbers, leave 5.3 to 7.4 % of mean error on the others with m, n and k from 256 up, on seven devices from
    the A100 to the GB300. The same product in two libraries differs by 2 to 7 % (over the square root of 2). Tiles in
    waves, a choice among their sizes, and other sums of the bounds predict rows not seen no better, but on the A100.

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.

    Examples
    --------
    >>> float(gemm_seconds(2e9, 1000, 6e6, 1e-12, 0.0)), round(float(gemm_seconds(2e9, 1000, 6e6, 1e-12, 1e-9)), 6)
    (0.002, 0.006325)
    """
    inner = where(to_float(k) > 0, k, 1.0)  # where there is no product (k is 0) there are no FLOP either
    ramped = inner + ramp_k
    per_flop = to_float(seconds_per_flop)
    each = (2 * TILE**2) * per_flop
    if somewhere(to_float(wave) > 0):
        computing = each * tile_steps(to_float(flops) / (2 * TILE**2 * inner), ramped, split_k, wave)
    else:
        computing = to_float(flops) * per_flop * (ramped / inner)
    if somewhere(to_float(warm) != 1):
        computing = computing * (1 + (to_float(warm) - 1) * computing / (computing + WARM_UP))
    moving = to_float(moved) * to_float(seconds_per_byte)
    bounds = computing * computing + moving * moving
    if somewhere(to_float(ramp_tiles) > 0):
        idle = (lone_tile_steps(inner, split_k) + ramp_k) * (each * to_float(ramp_tiles))
        bounds = bounds + idle * idle
    return sqrt(bounds) + start


def fused_attention_seconds(
    flops: Numeric, row_block_flops: Numeric, moved: Numeric, seconds_per_flop: Numeric, seconds_per_byte: Numeric,
    start: Numeric = 0.0, ramp_blocks: Numeric = 0.0,
) -> Array:  # fmt: skip
    r"""Return the seconds of fused (flash) attention, forward.

    .. math:: t = t_0 + (C + F\, C_b)\, u + V v

    Parameters
    ----------
    flops, row_block_flops : array_like
        C, the FLOP of all scores that a mask leaves, and C_b, those of the longest block of 128 queries: a device that
        is nearly done waits for it.
    moved : array_like
        V, bytes of queries, keys, values and results.
    seconds_per_flop, seconds_per_byte : array_like
        u and v, at the achieved rates.
    start : array_like
        t_0, seconds of the launch, of the first keys and values, and of the softmax's ends.
    ramp_blocks : array_like
        F, blocks of queries that the device works on at a time, or more where it is hard to fill.

    Returns
    -------
    ndarray of float64
        Seconds.

    Notes
    -----
    Nothing hides the memory it moves: a sum fits kernels of three generations better than a maximum (4.2, 9.0 and 5.9 %
    against 5.3, 11.0 and 7.7 % on A100, H100 and B200, from 1024 tokens up).

    References
    ----------
    .. [1] T. Dao, "FlashAttention-2", arXiv:2307.08691 (a block of queries to a core, the loop over keys inside).

    Examples
    --------
    >>> float(fused_attention_seconds(4e9, 1e7, 1e6, 1e-12, 1e-12, start=1e-5, ramp_blocks=100))
    0.005011
    """
    work = to_float(flops) + to_float(ramp_blocks) * to_float(row_block_flops)
    return work * to_float(seconds_per_flop) + (to_float(moved) * to_float(seconds_per_byte) + start)


def stream_seconds(
    moved: Numeric, seconds_per_byte: Numeric, start: Numeric = 0.0, rows: Numeric = 0.0, seconds_per_row: Numeric = 0.0
) -> Array:
    r"""Return the seconds of a kernel that only moves memory.

    .. math:: t = t_0 + \sqrt{(V v)^2 + (R w)^2}

    or simply :math:`t_0 + V v` where no row has a time of its own.

    Parameters
    ----------
    moved : array_like
        V, bytes read and written.
    seconds_per_byte : array_like
        v, at the achieved rate.
    start : array_like
        t_0, seconds before anything moves.
    rows, seconds_per_row : array_like
        R and w: rows that a block of threads each works on (a LayerNorm, a softmax), and the seconds between the ends
        of two blocks however short their rows are.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] R. W. Hockney, C. R. Jesshope, "Parallel Computers 2", 1988 (half-performance length).

    Examples
    --------
    >>> float(stream_seconds(1e9, 1e-12, start=1e-5)), float(stream_seconds(3e9, 1e-12, 0.0, 4e6, 1e-9))
    (0.00101, 0.005)
    """
    moving: Array = to_float(moved) * to_float(seconds_per_byte)
    if somewhere(to_float(seconds_per_row) > 0):
        moving = np.hypot(moving, to_float(rows) * to_float(seconds_per_row))
    return moving + start

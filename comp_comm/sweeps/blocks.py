"""How a grid is cut into blocks: slabs in row order, or boxes on which the cost model's own arrays stay small.

A slab is what is written next; a box is what is cheap. The arrays of a cost model have few axes each: on a slab, which
has one value of the slow axes and all of the fast ones, an array over the fast axes is as large as the slab itself,
while a box of the same points has some of each axis, and no array is large. Ranking may take points in any order, so it
takes boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Block = tuple[slice, ...]


def slabs(shape: Sequence[int], max_points: int) -> Iterator[Block]:
    """Yield blocks of at most ``max_points`` points, in row order: trailing axes stay whole as far as they fit.

    >>> list(slabs((2, 3), 3))
    [(slice(0, 1, None), slice(0, 3, None)), (slice(1, 2, None), slice(0, 3, None))]
    """
    yield from boxes(shape, slab_size(shape, max_points))


def slab_size(shape: Sequence[int], max_points: int) -> list[int]:
    """Return how much of each axis a slab of at most ``max_points`` points takes.

    >>> slab_size((9, 2, 3), 12)
    [2, 2, 3]
    """
    size, split = 1, len(shape)
    while split and size * shape[split - 1] <= max_points:
        split -= 1
        size *= shape[split]
    return [1] * max(0, split - 1) + [max(1, max_points // size)] * (split > 0) + list(shape[split:])


def boxes(shape: Sequence[int], chunk: Sequence[int]) -> Iterator[Block]:
    """Yield blocks of at most ``chunk`` points along each axis, the last axis fastest.

    >>> list(boxes((3,), (2,)))
    [(slice(0, 2, None),), (slice(2, 3, None),)]
    """
    for number in range(box_count(shape, chunk)):
        yield nth_box(shape, chunk, number)


def box_count(shape: Sequence[int], chunk: Sequence[int]) -> int:
    """Return how many such blocks there are.

    >>> box_count((3, 4), (2, 4))
    2
    """
    count = 1
    for length, part in zip(shape, chunk, strict=True):
        count *= -(-length // part)
    return count


def nth_box(shape: Sequence[int], chunk: Sequence[int], number: int) -> Block:
    """Return one of `boxes` by its number, without making those before it.

    >>> nth_box((3, 4), (2, 2), 3)
    (slice(2, 3, None), slice(2, 4, None))
    """
    box: list[slice] = []
    for length, part in zip(reversed(shape), reversed(chunk), strict=True):
        number, place = divmod(number, -(-length // part))
        box.append(slice(place * part, min((place + 1) * part, length)))
    return tuple(reversed(box))


def box_size(
    shape: Sequence[int], supports: Sequence[Sequence[bool]], max_numbers: int, max_points: int = 2**62
) -> list[int]:
    """Return how much of each axis a box takes, so that many points share few numbers.

    ``supports`` says for each array of the cost model which axes it has. Starting from one point, the axis is doubled
    that adds least to those arrays for the points it adds, until the arrays together hold ``max_numbers`` numbers, or
    the box ``max_points`` points.

    >>> box_size((1000, 1000), [(True, False), (False, True)], 600)
    [256, 256]
    """
    chunk = [1] * len(shape)
    while True:
        grown = [_grown(chunk, axis, shape) for axis in range(len(shape)) if chunk[axis] < shape[axis]]
        fitting = [one for one in grown if _numbers(one, supports) <= max_numbers and _points(one) <= max_points]
        if not fitting:
            return chunk
        chunk = min(fitting, key=lambda one: _numbers(one, supports) / _points(one))


def _grown(chunk: list[int], axis: int, shape: Sequence[int]) -> list[int]:
    return [*chunk[:axis], min(2 * chunk[axis], shape[axis]), *chunk[axis + 1 :]]


def _numbers(chunk: Sequence[int], supports: Sequence[Sequence[bool]]) -> int:
    return sum(_points([n for n, has in zip(chunk, support, strict=True) if has]) for support in supports)


def _points(chunk: Sequence[int]) -> int:
    count = 1
    for length in chunk:
        count *= length
    return count


def extent(block: Block) -> tuple[int, ...]:
    """Return the shape of a block."""
    return tuple(part.stop - part.start for part in block)


def inside(outer: Block, inner: Block) -> Block:
    """Return a block of a block as slices of the whole grid."""
    return tuple(slice(o.start + i.start, o.start + i.stop) for o, i in zip(outer, inner, strict=True))

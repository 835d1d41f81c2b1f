"""Pipelines pass by pass: what each stage does in which order, as papers and frameworks define it, and when.

A pass is (kind, micro-batch, chunk): F, B (gradients of inputs) or W (those of weights) of a chunk of the model, from
0 in the order in which a micro-batch goes through them. What a stage does at once is a tuple of passes. Nothing here
is a formula: times come from walking through the passes, each of which waits for what it needs.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise


def order(schedule, p, v, m, rank):
    """Return what a stage does, in order."""
    if schedule == "gpipe":
        passes = [("F", j, rank) for j in range(m)] + [("B", j, rank) for j in range(m)]
        return whole(passes)
    if schedule == "zero_bubble":
        return split(m, rank, ahead=p - rank, late=rank)
    if schedule == "zb_h2":
        return split(m, rank, ahead=2 * (p - rank) - 1, late=2 * rank)
    if schedule == "zb_v":
        return v_shaped(p, m, rank)
    if schedule == "dualpipe":
        return Dual(p, m, rank).done
    return one_forward_one_backward(p, v, m, rank)


def whole(passes):
    """Return passes with the gradients of weights right after those of inputs, in one go."""
    return [(op,) if op[0] == "F" else (op, ("W", *op[1:])) for op in passes]


def one_forward_one_backward(p, v, m, rank):
    """1F1B, interleaved where there are several chunks (Megatron-LM)."""
    total = m * v

    def passed(number, kind):
        turn = number % (p * v) // p
        return kind, number // (p * v) * p + number % p, (turn if kind == "F" else v - 1 - turn) * p + rank

    ahead = min(total, 2 * (p - rank - 1) + (v - 1) * p if v > 1 else p - rank - 1)
    found = [passed(k, "F") for k in range(ahead)]
    for k in range(total - ahead):
        found += [passed(ahead + k, "F"), passed(k, "B")]
    return whole(found + [passed(k, "B") for k in range(total - ahead, total)])


def split(m, rank, ahead, late):
    """ZB-H1 and H2: so many forward passes ahead, gradients of weights late by so many micro-batches."""
    ahead, done = min(m, ahead), 0
    found = [("F", j, rank) for j in range(ahead)]
    for j in range(m):
        found.append(("B", j, rank))
        if j - done >= late:
            found.append(("W", done, rank))
            done += 1
        if ahead < m:
            found.append(("F", ahead, rank))
            ahead += 1
    return [(op,) for op in [*found, *(("W", j, rank) for j in range(done, m))]]


def v_shaped(p, m, rank):
    """ZB-V: chunks down the stages and up again (arXiv:2401.10241, section 6)."""
    down, up, count = rank, 2 * p - 1 - rank, Counter()
    found = []

    def do(kinds, chunk):
        for kind in kinds:
            found.append((kind, count[kind, chunk], chunk))
            count[kind, chunk] += 1

    for _ in range(2 * (p - rank) - 1):
        do("F", down)
    for _ in range(rank):
        do("F", up)
        do("F", down)
    for _ in range(p - rank):
        do("FBW", up)
    for _ in range(m - 2 * p + rank + 1):
        do("FBW", down)
        do("FBW", up)
    while count["F", up] < m:
        do("BW", down)
        do("FBW", up)
    for _ in range(rank):
        do("B", down)
        do("B", up)
    for _ in range(p - rank):
        do("BW", down)
    for chunk in (up, down):
        while count["W", chunk] < m:
            do("W", chunk)
    return [(op,) for op in found]


class Dual:
    """DualPipe: half of the micro-batches from each end (arXiv:2412.19437, figure 5, and DeepSeek's published code).

    A micro-batch is (direction, number); ``near`` is the direction whose beginning is nearer to the stage.
    """

    def __init__(self, p, m, rank):
        self.p, self.rank, self.count, self.done, self.late = p, rank, Counter(), [], []
        half, place = p // 2, min(rank, p - 1 - rank)
        inner = half - place - 1
        near, far = (0, 1) if rank < half else (1, 0)
        for _ in range(2 * inner):
            self.forward(near)
        for _ in range(place + 1):
            self.forward(near)
            self.forward(far)
        for _ in range(inner):
            self.backward(far, late=True)
            self.weights()
            self.forward(far)
        for _ in range(m // 2 - p + place + 1):
            self.both(near, far)
            self.both(far, near)
        for _ in range(inner):
            self.backward(far)
            self.both(far, near)
        ends = [far, near] * (place + 1)
        for number, direction in enumerate(ends):
            self.backward(direction, late=number >= place + 1)
        for _ in range(inner):
            self.weights()
            self.backward(near, late=True)
        while self.late:
            self.weights()

    def next(self, kind, direction):
        number = self.count[kind, direction]
        self.count[kind, direction] += 1
        return kind, (direction, number), self.p - 1 - self.rank if direction else self.rank

    def forward(self, direction):
        self.done.append((self.next("F", direction),))

    def backward(self, direction, late=False):
        op = self.next("B", direction)
        weights = ("W", *op[1:])
        self.done.append((op,) if late else (op, weights))
        if late:
            self.late.append(weights)

    def weights(self):
        self.done.append((self.late.pop(0),))

    def both(self, ahead, back):
        op = self.next("B", back)
        self.done.append((self.next("F", ahead), op, ("W", *op[1:])))


def chunks_of(schedule, p, v):
    """Return how many chunks a micro-batch goes through."""
    return 2 * p if schedule == "zb_v" else p * v


def needs(op, last):
    """Return the passes that one waits for."""
    kind, j, chunk = op
    if kind == "W":
        return [("B", j, chunk)]
    if kind == "F":
        return [("F", j, chunk - 1)] if chunk else []
    return [("F", j, chunk), *([("B", j, chunk + 1)] if chunk < last else [])]


def times(schedule, p, v, m, seconds, repeats=1, lag=0.0):
    """Return when each stage begins and ends each of so many steps, one right after the other.

    ``seconds`` are those of the passes F, B and W of a chunk, for each stage, or in a dict for each chunk. What comes
    from another stage does so ``lag`` after it ended there.
    """
    last = chunks_of(schedule, p, v) - 1
    orders = [[(again, done) for again in range(repeats) for done in order(schedule, p, v, m, rank)]
              for rank in range(p)]  # fmt: skip
    ends, free, place, where = {}, [0.0] * p, [0] * p, {}
    spans = [[[None, None] for _ in range(repeats)] for _ in range(p)]
    left = sum(map(len, orders))
    while left:
        before = left
        for rank in range(p):
            while place[rank] < len(orders[rank]):
                again, done = orders[rank][place[rank]]
                waits = [(again, need) for op in done for need in needs(op, last) if need not in done]
                if any(need not in ends for need in waits):
                    break
                came = [ends[need] + (lag if where[need] != rank else 0) for need in waits]
                start = max([free[rank], *came])
                free[rank] = start + sum(seconds[op[2] if isinstance(seconds, dict) else rank][op[0]] for op in done)
                ends.update({(again, op): free[rank] for op in done})
                where.update({(again, op): rank for op in done})
                span = spans[rank][again]
                span[:] = [start if span[0] is None else span[0], free[rank]]
                place[rank] += 1
                left -= 1
        assert left < before, "the order waits for itself"
    return spans


def took(schedule, p, v, m, seconds, lag=0.0):
    """Return how long a step takes, from the first pass of any stage to the last one of any."""
    return max(end for ((_, end),) in times(schedule, p, v, m, seconds, lag=lag))


def took_in_a_row(schedule, p, v, m, seconds, lag=0.0, repeats=3):
    """Return how long a step takes where no stage waits for the others between two steps."""
    ends = [
        max(stage[again][1] for stage in times(schedule, p, v, m, seconds, repeats, lag)) for again in range(repeats)
    ]
    lengths = [later - earlier for earlier, later in pairwise(ends)]
    assert max(lengths) - min(lengths) < 1e-9 * ends[-1]
    return lengths[-1]


def most_held(schedule, p, v, m, rank):
    """Return how many chunks' activations a stage holds at most: from their forward pass to that of their weights."""
    held = most = 0
    for done in order(schedule, p, v, m, rank):
        held += sum(kind == "F" for kind, _, _ in done)
        most = max(most, held)
        held -= sum(kind == "W" for kind, _, _ in done)
    assert held == 0
    return most


def sends(schedule, p, v, m, rank):
    """Return how many forward passes of a stage are followed by a send to another one."""
    where = {op[1:]: other for other in range(p) for done in order(schedule, p, v, m, other) for op in done}
    passes = [op for done in order(schedule, p, v, m, rank) for op in done if op[0] == "F"]
    return sum(where.get((j, chunk + 1), rank) != rank for _, j, chunk in passes)

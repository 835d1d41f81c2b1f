"""The matrices of a layer's weights, as an optimizer sees them that works on whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layers.kind import LayerKind
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Gemm
from comp_comm.structs import struct

QKV = "QKV projection"


@struct
class Matrix:
    """Matrices of one shape in a layer: how many a device has a part of, rows and columns of the whole, and the numbers
    of it on the device; whether they are of experts."""

    name: str
    count: Array
    rows: Array
    columns: Array
    local_size: Array
    experts: bool

    @property
    def size(self) -> Array:
        """Numbers of the whole matrix."""
        return self.rows * self.columns

    @property
    def split(self) -> Array:
        """1 where TP (or ETP) splits it."""
        return to_float(self.local_size < self.size)


def matrices(kind: LayerKind, c: Context) -> list[Matrix]:
    """Return the matrices of a layer: one each of queries, keys and values; both matrices up of a gate are one.

    Those are Megatron-LM's (its Muon splits Q, K and V unless it is told not to); each expert has its own.
    """
    unsplit = replace(c, layout=replace(c.layout, tp=1, etp=1, sp=0))
    local, entire = (_weights(kind, kind.context(each)) for each in (c, unsplit))
    return [
        Matrix(name, to_float(count), to_float(rows), to_float(columns), to_float(own[1]) * own[2], experts)
        for (name, rows, columns, count, experts), own in zip(entire, local, strict=True)
    ]


def _weights(kind: LayerKind, c: Context) -> list[tuple[str, Numeric, Numeric, Numeric, bool]]:
    return [part for op in kind.operations(c) if isinstance(op, Gemm) for part in _parts(c, op)]


def _parts(c: Context, op: Gemm) -> Iterator[tuple[str, Numeric, Numeric, Numeric, bool]]:
    """Yield name, rows, columns, count, and whether it is of experts, of the matrices that a product multiplies by."""
    count = to_float(op.count) * op.groups
    if op.name != QKV:
        yield op.name, op.k, op.n, count, op.grouped
        return
    keys, values = c.kv_heads * c.key_dim, c.kv_heads * to_float(c.t.v_head_dim)
    for name, columns in (("Q", to_float(op.n) - keys - values), ("K", keys), ("V", values)):
        yield name, op.k, columns, np.where(columns > 0, count, 0.0), False

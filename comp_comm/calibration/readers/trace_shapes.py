"""Shapes of products, attention and collectives, as the arguments of a trace's events give them."""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, GemmRow, Row
from comp_comm.calibration.readers.kernel_tables import collective_kind, number_format
from comp_comm.records import Record

# Operators whose operands have the shapes of one product; where the first operand is a bias, they come after it.
PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::_scaled_mm": 0}
# Attention whose operands have the shapes of what its kernel does.
SOFT = (
    "aten::_flash_attention_forward", "aten::_efficient_attention_forward",
    "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention",
)  # fmt: skip
# What says that it is causal follows the dropout, the first number with a point: where that is, differs from version to
# version of PyTorch. The kind of a mask is 0 for none, 1 and 2 for a causal one from either corner.
DROPOUT = re.compile(r"[0-9]{1,20}\.[0-9]{0,20}(?:e-?[0-9]{1,3})?$")
CAUSAL = {"True": True, "False": False, "0": False, "1": True, "2": True}
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "fp64": 8, "int8": 1, "uint8": 1, "long": 8, "int": 4}
LONGEST_SIDE = 2**40
MOST_ELEMENTS = 2**50
MOST_DEVICES = 1_000_000
Arguments = Record


def operator_shape(name: str, args: Arguments) -> Row | None:
    """Return the measurement that an operator's kernel is, its seconds left open; None where its shape is not known."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list) or not types:
        return None
    if name in PRODUCTS:
        return _product(dims[PRODUCTS[name] :], _format(types[1] if len(types) > 1 else types[0]))
    return _attention(name, dims, args, _format(types[0])) if name in SOFT else None


def collective_shape(args: Arguments) -> Row | None:
    """Return the measurement that a collective's kernel is, its seconds left open; None where it does not say."""
    kind = collective_kind(str(args.get("Collective name", ""))[:40].removeprefix("_").removesuffix("_base"))
    counts = [args.get(name) for name in ("In msg nelems", "Out msg nelems")]
    group, dtype = args.get("Group size"), _format(args.get("dtype", ""))
    sizes = [count for count in counts if _is_count(count, MOST_ELEMENTS)]
    if kind is None or not _is_count(group, MOST_DEVICES) or group < 2 or not sizes or dtype not in BYTES:
        return None
    return CollectiveRow(0.0, dtype, 0, kind, max(sizes) * BYTES[dtype], group)


def _format(value: object) -> str:
    return number_format(value[:40]) if isinstance(value, str) else ""


def _is_count(value: object, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


def _is_shape(value: object, rank: int) -> bool:
    return isinstance(value, list) and len(value) == rank and all(_is_count(n, LONGEST_SIDE) for n in value)


def _product(dims: list[Any], dtype: str) -> Row | None:
    output = "bf16" if dtype == "fp8" else ""  # what a scaled product gives unless it is told otherwise
    if len(dims) >= 2 and _is_shape(dims[0], 2) and _is_shape(dims[1], 2) and dims[0][1] == dims[1][0]:
        return GemmRow(0.0, dtype, 0, dims[0][0], dims[1][1], dims[0][1], 1, output)
    if len(dims) >= 2 and _is_shape(dims[0], 3) and _is_shape(dims[1], 3) and dims[0][2] == dims[1][1]:
        return GemmRow(0.0, dtype, 0, dims[0][1], dims[1][2], dims[0][2], dims[0][0], output)
    return None


def _attention(name: str, dims: list[Any], given: Arguments, dtype: str) -> Row | None:
    if len(dims) < 2 or not (_is_shape(dims[0], 4) and _is_shape(dims[1], 4)):
        return None
    heads_first = "scaled_dot_product" in name  # (batch, heads, tokens, dim), the others (batch, tokens, heads, dim)
    batch, first, second, dim = dims[0]
    heads, tokens = (first, second) if heads_first else (second, first)
    key_heads, keys = (dims[1][1], dims[1][2]) if heads_first else (dims[1][2], dims[1][1])
    if tokens != keys:
        return None
    causal = _causal(given.get("Concrete Inputs"))
    if causal is None:
        return None  # half the work or all of it: not to be guessed
    return AttentionRow(0.0, dtype, 0, batch, tokens, heads, key_heads, dim, causal)


def _causal(arguments: object) -> bool | None:
    """Return whether attention is causal by its recorded arguments, None where they do not say.

    >>> _causal(["", "", "", "0.", "True", "False", "0.125"]), _causal(["", "", "", "", "", "0.", "0"]), _causal(None)
    (True, False, None)
    """
    texts = [value if isinstance(value, str) else "" for value in arguments] if isinstance(arguments, list) else []
    after = next((place + 1 for place, text in enumerate(texts) if DROPOUT.match(text)), len(texts))
    return CAUSAL.get(texts[after]) if after < len(texts) else None

"""The transformer as the cost models see it: numbers that broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from comp_comm.formulas.arrays import Numeric


@dataclass(frozen=True)
class Transformer:
    """Dimensions of a transformer: hidden H and sequence length SL (tokens), numbers or arrays."""

    hidden: Numeric
    seq_len: Numeric


class GemmCount(NamedTuple):
    """How many GEMMs of a layer are counted (see `comp_comm.formulas.transformer`)."""

    fc_gemms: Numeric
    attention_gemms: Numeric
    linear_gemms: Numeric


# The paper's Eqs 1-3 print one FC GEMM of two, one attention GEMM of two, three linear ones of four.
GEMM_COUNTS = {"complete": GemmCount(2, 2, 4), "paper_exact": GemmCount(1, 1, 3)}

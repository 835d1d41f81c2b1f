"""Optimizers: what they keep of each parameter, and how matrices that Muon orthogonalises come to be whole."""

from __future__ import annotations

from comp_comm.choice import Choice
from comp_comm.formulas.arrays import Array, Mask, Numeric, to_float, where


class Optimizer(Choice):
    """An optimizer, with the moments that it keeps of a number of a matrix.

    Muon (Moonlight, arXiv:2502.16982) keeps one of matrices, and makes of it a matrix with singular values near 1;
    embeddings, head, norms, biases and convolutions are AdamW's all the same, with two moments.
    """

    ADAMW = "adamw", 2
    MUON = "muon", 1

    def __init__(self, word: str, moments: float) -> None:
        self.moments = moments


class MuonSharding(Choice):
    """What a device has of Muon's matrices where states are sharded.

    - ``whole``: whole matrices, dealt out to devices (Megatron-LM's layer-wise optimizer: ZeRO 1).
    - ``gathered``: an equal part of all numbers, as AdamW has; of matrices cut at its ends the rest is gathered in 16
      bits (ZeRO 1: Moonlight's Distributed Muon, arXiv:2502.16982, algorithm 1; ZeRO 1 and 2: DeepSpeed, which reduces
      it to every device that has a part).
    - ``exchanged``: an equal part of each matrix. Momentum in 16 bits goes all to all, so that each device has some
      matrices whole, and the updates go back (ZeRO 2 and 3: FSDP2's Muon of microsoft/dion, `dion/muon.py`, and of
      torchtitan, `flex_shard/dist_muon.py`).
    """

    WHOLE = "whole"
    GATHERED = "gathered"
    EXCHANGED = "exchanged"


class MuonTensor(Choice):
    """How matrices that TP splits are orthogonalised: gathered, on each device; or part by part."""

    DUPLICATED = "duplicated"
    BLOCKWISE = "blockwise"


def usual_sharding(zero: Numeric, deepspeed: Mask) -> Array:
    """Return the codes of `MuonSharding` where a study gives none: what stacks with that stage of ZeRO do.

    >>> import numpy as np
    >>> [MuonSharding.at(int(usual_sharding(zero, np.asarray(False)))).word for zero in (1, 2, 3)]
    ['whole', 'exchanged', 'exchanged']
    """
    sharded = where(to_float(zero) >= 2, int(MuonSharding.EXCHANGED), int(MuonSharding.WHOLE))
    return where(deepspeed & (to_float(zero) > 0) & (to_float(zero) < 3), int(MuonSharding.GATHERED), sharded)

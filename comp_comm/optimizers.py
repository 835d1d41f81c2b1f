"""Optimizers: what they keep of each parameter, and how matrices that Muon orthogonalises come to be whole."""

from __future__ import annotations

from comp_comm.choice import Choice
from comp_comm.choices import Switch
from comp_comm.formulas.arrays import Numeric, somewhere, to_float
from comp_comm.violation import Violation, rule


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
    """What of ZeRO 1 a device has of Muon's matrices.

    - ``whole``: whole matrices, dealt out to devices (Megatron-LM's layer-wise optimizer).
    - ``gathered``: an equal part of all numbers, as AdamW has; of matrices cut at its ends the rest is gathered in 16
      bits (Moonlight's Distributed Muon, arXiv:2502.16982, algorithm 1).
    """

    WHOLE = "whole"
    GATHERED = "gathered"


class MuonTensor(Choice):
    """How matrices that TP splits are orthogonalised: gathered, on each device; or part by part."""

    DUPLICATED = "duplicated"
    BLOCKWISE = "blockwise"


def optimizer_rules(optimizer: Numeric, zero: Numeric, offload: Numeric) -> list[Violation]:
    """Return what an optimizer and the way its states are sharded must keep together."""
    muon = Optimizer.MUON.where(optimizer)
    if not somewhere(muon):
        return []
    return [
        rule(muon & (to_float(zero) > 1), "optimizer: muon goes with zero 0 or 1: it needs whole gradients of a "
             "matrix, which ZeRO 2 and 3 do not keep", "optimizer", "zero"),
        rule(muon & Switch.ON.where(offload), "optimizer: muon with its states in the host's memory is not modelled",
             "optimizer", "offload_optimizer"),
    ]  # fmt: skip

"""How the loss is made of logits, in the words of Megatron-LM and of those that have its switches."""

from __future__ import annotations

from comp_comm.configs.importers.imported import Findings, Keys
from comp_comm.kernel_choices import CrossEntropy

IMPLEMENTATIONS = {"native": CrossEntropy.FUSED_NATIVE.word, "te": CrossEntropy.FUSED.word}


def set_loss(keys: Keys, f: Findings, fusion: str, *implementation: str, off: str = "") -> None:
    """Set how the loss is made: by its own code unless a switch fuses it, in PyTorch or by Transformer Engine.

    Not fused is the default of every release of Megatron-LM (`cross_entropy_loss_fusion`), and of NeMo's launcher;
    ``native`` is that of the implementation. A model without a vocabulary has no such loss.
    """
    word = keys.choice(implementation, IMPLEMENTATIONS, "native")
    fused = keys.truth(fusion) and not (off and keys.truth(off))
    if word is not None and "vocab" in f.fields and f.count("vocab", 0) != 0:
        f.set("cross_entropy", word if fused else CrossEntropy.UNFUSED.word)

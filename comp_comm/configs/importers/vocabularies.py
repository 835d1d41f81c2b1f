"""How many entries the vocabulary of a named tokenizer has, where a file names one and gives no number."""

from __future__ import annotations

from comp_comm.configs import catalogue
from comp_comm.configs.importers.adapters import model_of

TOKENIZERS = {
    "GPT2BPETokenizer": 50257, "BertWordPieceLowerCase": 30522, "BertWordPieceCase": 28996, "Llama2Tokenizer": 32000,
}  # fmt: skip


def vocabulary_of(model: str) -> int | None:
    """Return the vocabulary of the model a tokenizer is from, None for a model that the catalogue does not have.

    >>> vocabulary_of("meta-llama/Meta-Llama-3-8B"), vocabulary_of("someone/something")
    (128256, None)
    """
    name = model_of(model.rstrip("/"))
    if name is None:
        return None
    return int(catalogue.read("model", name).data["vocab"])

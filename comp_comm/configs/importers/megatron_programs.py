"""What the programs of Megatron-LM make, by the name of the script that is started, and by ``--spec``."""

from __future__ import annotations

import re
from typing import NamedTuple

from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.configs.importers.shell_scope import names_in, readable

DECODER, ENCODER, BOTH = "decoder", "encoder", "encoder-decoder"
EXAMPLES = "pretrain_gpt.py, pretrain_bert.py, pretrain_t5.py, and those of decoders such as pretrain_llama.py"
# Words in a program's name that say that it makes something else, and what: the first that fits counts.
OTHERS = (
    (r"retro", "a model with retrieval"),
    (r"vlm|(?:^|_)vl(?:_|$)|llava|multimodal|mimo|omni|vision|vit|dino|inpaint|image|audio|esm",
     "a model of more than text"),
    (r"ict|realm|biencoder|retriever", "a retriever"),
    (r"huggingface|(?:^|_)hf|ds_train", "a model of Hugging Face, whatever these arguments say"),
    (r"eagle|distill|quantize|prune|export|convert|hf2m|checkpoint|merge", "another model from one that is trained"),
    (r"evaluate|eval|generat|inference|server|sampl|validate|mmlu|report|analy|preprocess|index|test|main|feature|"
     r"offline", "no training step"),
    (r"_rl|grpo|ppo|dpo|reward", "reinforcement learning"),
)  # fmt: skip
DECODERS = (
    r"gpt|llama|qwen|mistral|mixtral|deepseek|baichuan|falcon|galactica|starcoder|chatglm|glm|bloom|gemma|phi|yi|"
    r"internlm|opt|mamba|hybrid|qwen3_next|prefix_lm|t0|aquila|minicpm|olmo|moe|language_model|causal_lm|(?:^|_)lm(?:_|$)"
)
SPECS_OF_DECODERS = re.compile(r"gpt|mamba|hybrid|local|decoder_block|transformer_layer|bert|t5", re.I)


class ProgramModel(NamedTuple):
    """What a program makes: a kind of transformer, or why it is none of those that are modelled."""

    architecture: str
    refused: str = ""
    assumed: bool = False


def made_by(program: str) -> ProgramModel:
    """Return what a program makes; without a program, a decoder is assumed.

    >>> made_by("/opt/megatron/pretrain_gpt.py").architecture, made_by("pretrain_retro.py").refused
    ('decoder', 'a model with retrieval')
    """
    stem = program.rsplit("/", 1)[-1].removesuffix(".py").rsplit(".", 1)[-1].lower()
    if not stem or names_in(stem):
        return ProgramModel(DECODER, assumed=True)
    if re.search(r"(?:^|_)t5(?:_|$)", stem):
        return ProgramModel(BOTH)
    for pattern, what in OTHERS:
        if re.search(pattern, stem):
            return ProgramModel("", what)
    if "bert" in stem:
        return ProgramModel(ENCODER)
    if re.search(DECODERS, stem):
        return ProgramModel(DECODER)
    folders = program.lower().rsplit("/", 1)[0]
    return ProgramModel("", next((what for pattern, what in OTHERS[:4] if re.search(pattern, folders)), "?"))


def refused(keys: Keys, program: str) -> None:
    """Refuse a program, or layers of a ``--spec``, that make what is not modelled: whatever the arguments say.

    Raises ``ConfigError``.
    """
    f, made = keys.findings, made_by(program)
    if made.refused == "?":
        f.missing(f"what the program {shown(readable(program))} makes is not known; known are {EXAMPLES}")
    elif made.refused:
        f.missing(f"the program {shown(readable(program))} makes {made.refused}, which is not modelled")
    f.problems.raise_if_any()


def architecture(keys: Keys, f: Findings, program: str) -> str:
    """Return the kind of transformer that a program and ``--spec`` make; a problem where it is not modelled."""
    made = made_by(program)
    spec = keys.take("--spec")
    text = " ".join(map(str, spec)) if isinstance(spec, list) else str(spec or "local")
    if re.search(r"heterogeneous", text):
        keys.wrong(("--spec",), f"{shown(text)} makes layers of another kind, which are not modelled")
    elif not SPECS_OF_DECODERS.search(text):
        keys.wrong(("--spec",), f"what {shown(text)} makes is not known; only the layers of megatron.core.models.gpt")
    if not made.assumed:
        return made.architecture or DECODER
    kind, program = _assumed(keys)
    if program != "pretrain_t5.py":
        f.note(f"the file names no program: its arguments are taken as those of {program}")
    return kind


def _assumed(keys: Keys) -> tuple[str, str]:
    """Return what arguments make that name no program: what only an encoder-decoder has, or the data of BERT."""
    named = " ".join(str(keys.mapping.get(flag, "")) for flag in ("--data-path", "--vocab-file", "--load", "--save"))
    words = str(keys.mapping.get("--tokenizer-type", "")).startswith("BertWordPiece")
    if keys.has("--decoder-num-layers", "--decoder-seq-length") or (words and keys.has("--vocab-extra-ids")):
        return BOTH, "pretrain_t5.py"
    if words or "bert" in named.lower():
        return ENCODER, "pretrain_bert.py"
    return DECODER, "pretrain_gpt.py, a decoder"

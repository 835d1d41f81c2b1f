"""Where a model's own weights are frozen: which linear layers have adapters of a low rank (LoRA), and their format."""

from __future__ import annotations

from itertools import product

from comp_comm.choice import Choice

# By Hugging Face's names of Llama's layers; qkv_proj and gate_up_proj have one adapter for matrices that are one
# (linear_qkv and linear_fc1 of Megatron-LM). Of each row one option is taken: some of its parts, or none.
PARTS = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "gate_up_proj", "down_proj")
_QKV = ("", "q_proj", "k_proj", "v_proj", "q_proj+k_proj", "q_proj+v_proj", "k_proj+v_proj", "q_proj+k_proj+v_proj",
        "qkv_proj")  # fmt: skip
_UP = ("", "gate_proj", "up_proj", "gate_proj+up_proj", "gate_up_proj")


class LoraTargets(Choice):
    """Linear layers with adapters: each with a matrix from its input down to the rank, and one up to its output.

    An option for each set of them: ``q_proj+v_proj`` (arXiv:2106.09685; the default of Hugging Face's PEFT for Llama).
    """

    _ignore_ = "each named spelling"

    each = vars()
    for named in product(_QKV, ("", "o_proj"), _UP, ("", "down_proj")):
        spelling = "+".join(filter(None, named))
        if spelling:
            each[spelling.replace("+", "_").upper()] = (spelling,)

    def __init__(self, word: str) -> None:
        self.parts = tuple(word.split("+"))

    @classmethod
    def spelled(cls, raw: object) -> object:
        """Return the word of layers that are named in any order, with + between them, as a list, or ``all``.

        Raises ``ValueError`` for a name that is no layer, is there twice, or goes with none beside it.

        >>> LoraTargets.spelled("v_proj + q_proj"), LoraTargets.spelled(["o_proj"])
        ('q_proj+v_proj', 'o_proj')
        >>> LoraTargets.spelled("all")
        'q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj'
        """
        if raw == "all":
            return "+".join(name for name in PARTS if name not in ("qkv_proj", "gate_up_proj"))
        if not isinstance(raw, (list, str)):
            return raw
        names = [str(name).strip() for name in (raw.split("+") if isinstance(raw, str) else raw)]
        for name in names:
            if name not in PARTS:
                raise ValueError(f"'{name}' is no layer that has adapters; layers are {', '.join(PARTS)}")
        ordered = "+".join(name for name in PARTS if name in names)
        if len(set(names)) < len(names) or ordered not in cls.words():
            raise ValueError("names a layer twice: qkv_proj and gate_up_proj are all of their parts")
        return ordered

    @classmethod
    def allowed(cls) -> str:
        """Return what a value may be, in words."""
        return f"all, or layers with + between them: {', '.join(PARTS)}"

    def has(self, part: str) -> bool:
        """Return whether a layer has an adapter."""
        return part in self.parts


class FrozenPrecision(Choice):
    """A format of frozen weights: bytes of a number, of its share of the scales, and kernels that make 16 bits of it.

    4-bit NormalFloat (QLoRA, arXiv:2305.14314, section 3): of 64 numbers a scale, in 8 bits with one in 32 bits for 256
    of these (double quantisation: 8/64 + 32/(64 * 256) = 0.127 bit a number), or in 32 bits (0.5 bit). Scales in 8 bits
    take two kernels of their own (bitsandbytes, `dequantize_4bit`).
    """

    NF4 = "nf4", 0.5, (8 / 64 + 32 / (64 * 256)) / 8, 3
    NF4_SINGLE = "nf4_single", 0.5, 32 / 64 / 8, 1

    def __init__(self, word: str, size: float, scales: float, kernels: float) -> None:
        self.size, self.scales, self.kernels = size, scales, kernels


USUAL_TARGETS = LoraTargets.of("q_proj+v_proj")

"""What the columns of a run say about its study: one table, from a column's words to a field's value.

A line of ``READINGS`` is a column, the field it sets, and what its words mean: the first pattern that a cell has in it
decides. A column may say several things (several lines); a field may be said by several columns: the first that says
something counts. ``NOTHING`` is for words that are known to say nothing of the field, so that its default, what the
common stack does, stands. A cell whose words are not known is named in the answer, never passed over in silence.

To read another column, add a line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from comp_comm.costmodels import default_model
from comp_comm.fields import FIELDS, Value
from comp_comm.validation.table import SOFTWARE, MeasuredRun

NOTHING = ""
Meaning = Value | Callable[[re.Match[str]], Value]


@dataclass(frozen=True)
class Reading:
    """A column, the field it says something about, and what its words mean, whatever their case.

    ``when`` is another column and a pattern that it has to have.
    """

    column: str
    field: str
    meanings: tuple[tuple[str, Meaning], ...]
    when: tuple[str, str] = ("", "")

    def applies(self, run: MeasuredRun) -> bool:
        """Return whether a run says what else it has to say for this to mean anything."""
        column, pattern = self.when
        return bool(run[self.column]) and (not column or bool(re.search(pattern, run[column], re.IGNORECASE)))


def _lower(match: re.Match[str]) -> Value:
    return match[0].lower()


ON_OFF = ((r"^(yes|on|true)\b|^1$", "on"), (r"^(no|off|false)\b|^0$", "off"), (r"^n/a", NOTHING))
MODULES = r"(?:mla_up_proj|layernorm|moe_act|mlp|core_attn|shared_experts|moe)"
# Checkpoints stop early since torch 2.1: it, and what came with it; not a run that says an older one.
MODERN_TORCH = ("software_other", r"^(?!.*torch (1\.|2\.0)).*(torch 2\.[1-9]|torch\.compile|compiled autograd|eager)")
FLASH = r"\b(?:fa|flash[-_ ]?(?:attn|attention)?)[-_ ]?v?{}\b"  # FA2, FlashAttention-2, flash_attn v2, flash 2
SPLIT = ("tp", r"^([2-9]|\d{2,})$")
SEQUENCES = ("cp", r"^([2-9]|\d{2,})$")
PIPELINED = ("pp", r"^([2-9]|\d{2,})$")
NO_CHUNKS = ("vpp", r"^$")
READINGS = (
    Reading("sequence_parallel", "sp", ON_OFF),
    Reading("fsdp", "sequence_inputs", ((r"fsdp2", "kept"), (r"", NOTHING)), SPLIT),
    # Sharding: what FSDP or DeepSpeed is said to do goes before the stage that the table has.
    Reading("fsdp", "zero", ((r"shard_grad_op|no reshard", 3), (r"zero-2", 2), (r"zero-3|fsdp|hsdp", 3),
                             (r"zero-1", 1), (r"dist(ributed)?[ -]optim", 1), (r"^no", NOTHING))),
    Reading("zero_stage", "zero", ((r"^[0-3]$", lambda match: int(match[0])), (r"fsdp|hsdp", 3),
                                   (r"dist-opt", 1), (r"^ddp", 0))),
    Reading("optimizer_kind", "zero", ((r"dist(-|ributed_)", 1), (r"", NOTHING))),
    Reading("fsdp", "zero", ((r"^no$", 0), (r"", NOTHING))),
    Reading("fsdp", "reshard_after_forward", ((r"shard_grad_op|no reshard", "off"), (r"", NOTHING))),
    # torchtitan keeps weights whole between micro-batches of a pipeline, and reduces gradients after the last one.
    Reading("fsdp", "reshard_after_forward", ((r"fsdp2", "off"), (r"", NOTHING)), PIPELINED),
    Reading("fsdp", "gradient_sync", ((r"fsdp2|no reshard", "last"), (r"", NOTHING)), PIPELINED),
    Reading("fsdp", "master_weights", ((r"megatron|bf16 params", NOTHING), (r"fsdp1|fsdp2", "shards"), (r"", NOTHING))),
    Reading("optimizer_kind", "zero_implementation", ((r"deepspeed", "deepspeed"), (r"", NOTHING))),
    Reading("fsdp", "zero_implementation", ((r"^zero-[123]|bf16_optimizer", "deepspeed"), (r"", NOTHING))),
    Reading("optimizer_kind", "optimizer_precision", ((r"bf16 moments", "bf16"), (r"", NOTHING))),
    Reading("software_other", "gradient_accumulation_fusion", ((r"no gradient accumulation fusion", "off"),
                                                               (r"", NOTHING))),
    # Recomputation: modules and policies go before the three words of the layout.
    Reading("recompute_modules", "recompute", ((r"per-op", "per_op"), (rf"^{MODULES}(\+{MODULES})*$", _lower),
                                               (r"^none", "none"), (r"^full", "full"), (r"", NOTHING))),
    Reading("recompute", "recompute", ((r"^(none|selective|full)$", _lower),)),
    Reading("recompute_modules", "recompute", ((r"selective|core.att", "selective"), (r"", NOTHING))),
    Reading("recompute_modules", "recompute_early_stop", ((r"^full (per )?block", "on"), (r"", NOTHING)), MODERN_TORCH),
    Reading("offload", "offload_activations", ((r"activation offload (\d+) layers", lambda match: int(match[1])),
                                               (r"^none", NOTHING))),
    # Kernels.
    Reading("attention_kernel", "attention_kernel", (
        (r"unfused", "unfused"), (r"triton fa1", "triton_1"), (FLASH.format(1), "flash_1"),
        (r"rocm|turbo|\bck\b", NOTHING),
        (FLASH.format(2), "flash_2"), (FLASH.format(3), "flash_3"), (r"cudnn", "cudnn"),
        (r"flash", NOTHING))),
    Reading("software_other", "kernels", ((r"no torch\.compile|\beager\b", "eager"), (r"torch\.compile", "compiled"),
                                          (r"", NOTHING))),
    Reading("ce_fusion", "cross_entropy", (
        (r"chunk", "chunked"), (r"unfused|vocab-parallel native|fusion flag false", "unfused"),
        (r"native fused", "fused_native"), (r"compiled\b(?! autograd)|, compiled", "compiled"),
        (r"f\.cross_entropy|eager", "eager"), (r"fused_crossentropy", "fused_metrics"),
        (r"fused|xentropy", "fused"))),
    Reading("grouped_gemm", "expert_kernels", ((r"cutedsl", "fused"), (r"grouped", "separate"))),
    Reading("cuda_graph", "cuda_graph", (
        (r"impl none with scope", NOTHING), (r"^none", "none"), (r"^full|local graphs", "full"),
        (r"attn.*router", "attention_router"), (r"router", "router"), (r"attn", "attention"), (r"", NOTHING))),
    Reading("cuda_graph", "launch_blocking", ((r"launch_blocking=1", "on"), (r"", NOTHING))),
    # Overlap, exchanges and formats on the wire.
    Reading("software_other", "cp_comm", ((r"cp a2a|ulysses", "all_to_all"), (r"cp .*ring", "p2p"), (r"", NOTHING))),
    Reading("fsdp", "cp_implementation", ((r"fsdp2", "torch"), (r"", NOTHING)), SEQUENCES),
    Reading("dp_overlap", "overlap_dp", ON_OFF),
    Reading("tp_overlap", "overlap_tp", ((r"user buffer|collective matmul", "on"), (r"async", "async"),
                                        (r"off|^no", "off"), (r"n/a", NOTHING))),
    # MegaScale (arXiv:2402.15627, 3.1 and 3.2): blocks in parallel, and what TP sends under parts of its GEMMs.
    Reading("notes", "parallel_blocks", ((r"parallel transformer block", "on"), (r"", NOTHING))),
    Reading("model_name", "overlap_tp", ((r"\(MegaScale\)", "on"), (r"", NOTHING))),
    Reading("p2p_overlap", "overlap_pp", ((r"^yes", "on"), (r"^no|false", "off"), (r"^n/a", NOTHING))),
    Reading("ep_overlap", "overlap_ep", ((r"1f1b|overlap \+", "on"), (r"none|shared-expert", "off"))),
    Reading("moe_dispatcher", "ep_dispatch", ((r"hybridep", "hybridep"), (r"deepep", "deepep"),
                                              (r"all.?to.?all", "all_to_all"), (r"all.?gather", "all_gather"))),
    Reading("moe_dispatcher", "ep_sms", ((r"(\d+) sms", lambda match: int(match[1])), (r"", NOTHING))),
    Reading("permute_fusion", "permute_fusion", ON_OFF),
    Reading("force_balance", "routing", ((r"^yes|^no", "balanced"),)),
    Reading("grad_precision", "grad_precision", ((r"^(bf16|fp16|fp32)", _lower),)),
    # What the model and its stages are.
    Reading("token_drop", "capacity_factor", ((r"^capacity factor ([\d.]+)", lambda match: float(match[1])),
                                              (r"dropless", NOTHING))),
    Reading("mtp", "mtp_layers", ((r"^(\d)", lambda match: int(match[1])),)),
    Reading("pp_layout", "pp_layout", (
        (r"(?-i:^E[tmL|*()\d]+(?= |$))", lambda match: match[0]),
        (r"units per stage.*5,4x14,3|embed\+4 layers, 4 layers x14, 1 layer", "Etttt|(tttt|)*14tmL"),
        (r"5, ?4x14, ?2", "Etttt|(tttt|)*14tL"), (r"\(7 a stage, last stage 1\)", "7*11|1"),
        (r"", NOTHING))),
    # Chunks of a stage that are interleaved and not counted. Llama 3's first chunk is the embedding alone and its last
    # one the head, a layer less on both stages (arXiv:2407.21783, 3.3.2): a layer a chunk. torchtitan takes 2, and so
    # few at least has Megatron-LM where it overlaps sends, which it does between chunks alone.
    Reading("pp_layout", "vpp", ((r"layer less; interleaved", 8), (r"(?<!non-)interleaved", 2), (r"", NOTHING)),
            NO_CHUNKS),
    Reading("p2p_overlap", "vpp", ((r"^yes \(default\)", 2), (r"", NOTHING)), NO_CHUNKS),
    Reading("precision", "precision", (
        (r"nvfp4|fp4", "nvfp4"), (r"fp8|float8", "fp8"), (r"bf16", "bf16"), (r"fp16", "fp16"), (r"tf32", "tf32"),
        (r"fp32", "fp32"))),
    Reading("fp8_recipe", "fp8_param_gather", ((r"fp8 param gather", "on"), (r"", NOTHING)), ("precision", "fp8")),
    Reading("fp8_recipe", "fp8_attention", ((r"fp8 attention", "on"), (r"", NOTHING)), ("precision", "fp8")),
    Reading("fp8_recipe", "fp8_head", ((r"fp8 lm-head", "on"), (r"", NOTHING)), ("precision", "fp8")),
    Reading("fp8_recipe", "recipe", (
        (r"nvfp4|fp4", "nvfp4"), (r"mxfp8", "mxfp8"), (r"delayed or current", NOTHING),
        (r"blockwise|sub-channel", "blockwise"), (r"delayed|te hybrid", "delayed"),
        (r"current|tensorwise", "tensorwise"), (r"rowwise", "rowwise"), (r"", NOTHING))),
)  # fmt: skip
# Read elsewhere: the model (`model`), the machine (`machines`); with nothing in them that time or memory depends on.
ELSEWHERE = ("gated_mlp", "window_sinks")


@dataclass
class Silent:
    """What runs say that a prediction does not use: fields that do not exist, and words that are not known."""

    not_modelled: Counter[str] = field(default_factory=Counter)
    not_understood: dict[str, list[str]] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Return what to say of both."""
        counts = ", ".join(f"{what}: {count} rows" for what, count in sorted(self.not_modelled.items()))
        said = [f"said by runs and not modelled: {counts}"] if counts else []
        for column, texts in sorted(self.not_understood.items()):
            shown = ", ".join(f"'{text[:60]}'" for text in dict.fromkeys(texts))
            said.append(f"{column}: not understood, the default stands: {shown}")
        return said


def takes(name: str, value: Value) -> bool:
    """Return whether the cost model has a field, with this word if it has words.

    >>> takes("zero", 3), takes("precision", "fp8"), takes("colour", "red")
    (True, True, False)
    """
    if name not in default_model().fields:
        return False
    try:
        FIELDS[name].parse(value)
    except ValueError:
        return False
    return True


def read_software(run: MeasuredRun, silent: Silent) -> dict[str, Value]:
    """Return the fields that the software columns of a run say, and note what they say in vain.

    Raises ``ValueError`` where a run had what no prediction can do without, and the cost model does not take it.
    """
    said: dict[str, Value] = {}
    understood: dict[str, bool] = {}
    for reading in READINGS:
        if not reading.applies(run):
            continue
        value = _meaning(reading, run[reading.column])
        understood[reading.column] = understood.get(reading.column, False) or value is not None
        if value is None or value == NOTHING or reading.field in said:
            continue
        if takes(reading.field, value):
            said[reading.field] = value
        elif reading.field in ("precision", "recipe"):
            raise ValueError(f"{reading.field} {value} is not modelled")
        else:
            silent.not_modelled[f"{reading.column} ({reading.field} {value})"] += 1
    _note_silent(run, understood, silent)
    return said


def field_word(name: str, text: str) -> Value | None:
    """Return the word of a field that a text is, None where the field has none, or there is no such field.

    >>> field_word("recompute", "mlp+core_attn"), field_word("recompute", "ful"), field_word("zero_stage", "3")
    ('core_attn+mlp', None, None)
    """
    if name not in FIELDS or not FIELDS[name].words:
        return None
    try:
        return FIELDS[name].parse(text.lower())
    except ValueError:
        return None


def understands(column: str, text: str) -> bool:
    """Return whether a word of a column is known to say something, or nothing; a pattern of all words does not count.

    >>> understands("precision", "FP8-CS"), understands("precision", "bf15"), understands("cuda_graph", "ful")
    (True, False, False)
    """
    if field_word(column, text) is not None:
        return True
    readings = (reading for reading in READINGS if reading.column == column)
    patterns = (pattern for reading in readings for pattern, _ in reading.meanings)
    return any(pattern and re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _meaning(reading: Reading, text: str) -> Value | None:
    """Return what a text means: a word of the field that its column is named after, or by the first pattern it has.

    None where it has none.
    """
    word = field_word(reading.field, text) if reading.column == reading.field else None
    if word is not None:
        return word
    for pattern, meaning in reading.meanings:
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            return meaning(match) if callable(meaning) else meaning
    return None


def _note_silent(run: MeasuredRun, understood: dict[str, bool], silent: Silent) -> None:
    for column, known in understood.items():
        if not known:
            silent.not_understood.setdefault(column, []).append(run[column])
    for column in SOFTWARE:
        says = not re.match(r"none|n/a|no$|^$", run[column])
        if says and column not in understood and column not in ELSEWHERE:
            silent.not_modelled[column] += 1

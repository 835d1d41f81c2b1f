"""Arguments of Megatron-LM on a model that is named, not described: what they say of the layout, and override of it."""

from __future__ import annotations

from comp_comm.configs.importers import megatron, megatron_layout, megatron_model, megatron_refused, megatron_sharding
from comp_comm.configs.importers.hf_parts import expert_layers
from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.configs.importers.launch import Launch
from comp_comm.configs.importers.model_dimensions import dimensions_of
from comp_comm.fields import Value

DIMENSION_FLAGS = {"--num-experts": "experts"} | {
    flag: name for flag, name in megatron_model.NUMBERS.items() if name not in ("seq_len", "max_positions")
}
# Arguments that a model has already, as the catalogue has it.
OF_MODEL = (
    "--max-position-embeddings", "--tokenizer-type", "--tokenizer-model", "--model-type", "--params-dtype", "--spec",
    "--make-vocab-size-divisible-by", "--rotary-base", "--rotary-percent", "--norm-epsilon",
)  # fmt: skip
# Arguments that describe layers of a model beside attention: the catalogue's are counted, whatever they say.
OF_LAYERS = (
    "--hybrid-layer-pattern", "--hybrid-override-pattern", "--mamba-state-dim", "--mamba-head-dim",
    "--mamba-num-groups", "--mamba-num-heads", "--mamba-chunk-size", "--mtp-hybrid-override-pattern",
)  # fmt: skip


def read_on_model(keys: Keys, f: Findings, model: str, launch: Launch | None = None) -> None:
    """Set the fields that arguments of Megatron-LM say of a layout, on the dimensions of a model of the catalogue.

    ``f.fields`` then has those dimensions, too: `own_fields` leaves them out. Raises ``ConfigError``.
    """
    megatron_refused.refuse(keys)
    f.problems.raise_if_any()
    given = {**f.fields}
    f.fields = {**dimensions_of(model), **f.fields}
    megatron.without_lists(keys)
    keys.set("seq_len", "--seq-length")
    read_shape(keys, f)
    precision = given.get("precision")
    megatron_layout.read(keys, f, {})
    if precision is not None:
        f.set("precision", precision)
    megatron_layout.devices(f, launch or Launch([], "", []))
    megatron_sharding.instances(keys, f)
    set_chunks(keys, f)
    keys.ignore(OF_MODEL)
    described = [flag for flag in OF_LAYERS if keys.has(flag)]
    if described and dimensions_of(model).get("layer_pattern"):
        f.note(f"{', '.join(described)}: the catalogue's {model} is counted all the same")
        keys.ignore(described)
    megatron.leave_out(keys, f)
    keys.finish()
    f.problems.raise_if_any()


def set_chunks(keys: Keys, f: Findings) -> None:
    """Set the chunks of a stage, as Megatron's configuration in Python says them: their number; and their sends."""
    keys.ignore(("--virtual-pipeline-model-parallel-size",))
    if keys.has("--virtual-pipeline-model-parallel-size") and f.count("pp") > 1:
        f.set("vpp", keys.mapping["--virtual-pipeline-model-parallel-size"])
        if f.count("vpp") > 1 and keys.truth("--no-overlap-p2p-communication"):
            f.set("overlap_pp", False)


def read_shape(keys: Keys, f: Findings) -> None:
    """Set dimensions of the model that are overridden; those that a model has already change nothing."""
    for flag, name in DIMENSION_FLAGS.items():
        if keys.has(flag):
            keys.set(name, flag)
    if keys.truth("--multi-latent-attention") and "kv_lora_rank" not in f.fields:
        keys.wrong(("--multi-latent-attention",), "the model has no latent attention; give --model NAME")
    if str(keys.take("--position-embedding-type", default="rope")) not in ("rope", "yarn", "none", "mrope"):
        keys.wrong(("--position-embedding-type",), "another position embedding than the model's is not understood")
    rates = [keys.number(flag) for flag in ("--attention-dropout", "--hidden-dropout")]
    if any(rate is not None for rate in rates):
        f.set("dropout", any(rate for rate in rates if rate))
    frequency = keys.take("--moe-layer-freq")
    if frequency is not None and "experts" in f.fields:
        which = megatron_model.pattern(frequency, f.count("layers", 0))
        if which is None or len(which) != f.count("layers", 0):
            keys.wrong(("--moe-layer-freq",), f"{shown(frequency)} is not understood; 0 or 1 for each of the layers")
            return
        for name in ("dense_layers", "moe_every"):
            f.fields.pop(name, None)
        expert_layers(f, which, ("--moe-layer-freq",))


def own_fields(f: Findings, model: str) -> dict[str, Value]:
    """Return the fields that are not the model's own."""
    base = dimensions_of(model)
    return {
        name: value for name, value in f.fields.items() if name not in base or base[name] != value or name in f.given
    }

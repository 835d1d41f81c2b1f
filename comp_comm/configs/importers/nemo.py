"""A NeMo YAML (of NeMo-Megatron's launcher): the model, the layout and the devices."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers import nemo_layout, nemo_model, nemo_sides
from comp_comm.configs.importers.adapters import set_adapters
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.megatron_layout import fewest_devices, set_devices
from comp_comm.configs.importers.nemo_ignored import IGNORED, NOTED, TOP, TRAINER
from comp_comm.configs.importers.nemo_references import resolve
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "NeMo YAML"
SHAPE = ("num_layers", "tensor_model_parallel_size", "encoder", "hidden_size", "micro_batch_size")
# What makes something else than a transformer of text or images, whatever else is said of it: keys of the model.
OTHERS = {
    "mm_cfg": "a model of more than text", "vision": "a model of more than text", "text": "a model of more than text",
    "retro": "retrieval", "unet_config": "diffusion", "unet": "diffusion", "first_stage_config": "diffusion",
    "cond_stage_config": "diffusion", "nerf": "a field of rays",
    "reward": "a reward model", "ppo": "reinforcement learning", "steerlm": "a reward model",
    "sample_rate": "a model of sound", "preprocessor": "a model of sound",
    "ul2": "other objectives on one model", "hiddens": "a model with a bottleneck", "prompt_encoder": "prompt learning",
    "adapter_tuning": "training a part of the weights", "ia3_tuning": "training a part of the weights",
    "virtual_prompt_style": "prompt learning", "p_tuning": "prompt learning", "quantization": "quantisation",
}  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits NeMo's: a model as Megatron-LM has it, beside a trainer; 0 where it does not."""
    model = data.get("model")
    flagscale = isinstance(data.get("system"), dict)  # arguments of Megatron-LM in sections of other names
    bridge = isinstance(data.get("train"), dict) and isinstance(data.get("optimizer"), dict)  # Megatron-Bridge
    levanter = isinstance(model, dict) and "type" in model and "num_layers" in model and "hidden_size" not in model
    if not isinstance(model, dict) or levanter or flagscale or bridge or not any(key in model for key in SHAPE):
        return 0
    return 2 + ("num_layers" in model or "tensor_model_parallel_size" in model) + isinstance(data.get("trainer"), dict)


def import_nemo(document: Document, given: Given = NOTHING) -> Imported:
    """Return the study that a NeMo configuration describes.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    f = Findings(document, given)
    data = resolve(document.data, document.file)
    top = Keys(f, data)
    run = data.get("run")
    name = run.get("name") if isinstance(run, dict) else None
    model = top.mapping_of("model") or Keys(f, {})
    _others(model, f)
    _adapters(model, f)
    sides = model.mapping_of("encoder"), model.mapping_of("decoder")
    if sides[0] is not None and sides[1] is not None:
        nemo_sides.read(model, sides[0], sides[1], f)
    else:
        nemo_model.read(model, f, f"{data.get('name', '')} {model.mapping.get('name', '')}")
        nemo_model.hybrid(model, f, str(data.get("name", "")))
    trainer = top.mapping_of("trainer")
    nemo_layout.read(model, f, "bf16" if trainer is None else str(trainer.mapping.get("precision", "bf16")))
    if trainer is not None:
        _trainer(trainer, f)
    elif "gpus" not in given:
        fewest_devices(f, "the number of devices is not in the file")
    top.ignore(TOP)
    noted = [key for key in NOTED if not is_off(model.take(key))]
    if noted:
        f.note(f"not modelled, and left out: {', '.join(noted)}")
    model.ignore(IGNORED)
    model.finish()
    top.finish()
    f.problems.raise_if_any()
    named = name if isinstance(name, str) and "$" not in name else PurePath(document.file).stem
    return Imported(KIND, named, named, f"{document.file} ({KIND})", f.fields, tuple(f.notes))


def _others(model: Keys, f: Findings) -> None:
    """Refuse what makes something else than a transformer, that alone. Raises ``ConfigError``."""
    for key, what in OTHERS.items():
        if key in model.mapping and not is_off(model.mapping[key]):
            model.wrong((key,), f"{what} is not modelled")
            f.problems.raise_if_any()
    model.ignore(OTHERS)
    sides = model.mapping.get("encoder")
    shape = sides if isinstance(sides, dict) else model.mapping
    sized = any(shape.get(key) is not None for key in ("num_layers", "hidden_size"))
    if not sized and not {"layers", "hidden"} <= set(f.given):
        elsewhere = "a file that its defaults name" if "defaults" in f.document.data else "a checkpoint"
        f.missing(f"'model.num_layers' is missing, and what else describes the model: it is in {elsewhere}")
        f.problems.raise_if_any()


def _adapters(model: Keys, f: Findings) -> None:
    """Set adapters of a low rank; refuse other ways to train a part of the weights."""
    keys = model.mapping_of("peft")
    scheme = None if keys is None else keys.take("peft_scheme", "name")
    if keys is None or is_off(scheme):
        return
    if scheme not in ("lora", "canonical_lora"):
        keys.wrong(
            ("peft_scheme", "name"), f"{shown(scheme)}: training a part of the weights but by lora is not modelled"
        )
        f.problems.raise_if_any()
    inner = keys.mapping_of("lora_tuning") or keys
    set_adapters(inner, f, ("adapter_dim", "dim"), ("target_modules",))
    if inner.mapping.get("target_modules") is None:  # NeMo's own default
        f.set("lora_targets", "qkv_proj")
    if not is_off(inner.take("adapter_dropout", "dropout")):
        f.note("adapter_dropout: masks of its inputs are not counted")


def _trainer(keys: Keys, f: Findings) -> None:
    nodes, each = keys.take("num_nodes", default=1), keys.take("devices", default=1)
    precision = keys.take("precision", default="bf16")
    if str(precision) not in nemo_layout.FORMATS:
        keys.wrong(("precision",), f"{shown(precision)} is not understood; only {', '.join(nemo_layout.FORMATS)}")
    elif f.fields.get("precision") != "fp8":
        f.set("precision", nemo_layout.FORMATS[str(precision)])
    keys.only("accumulate_grad_batches", 1)
    keys.ignore(TRAINER)
    keys.finish()
    if "gpus" in f.given:
        return
    if type(nodes) is not int or type(each) is not int or min(nodes, each) < 1:
        fewest_devices(f, "the number of devices is not in the file")
        return
    set_devices(f, nodes * each)

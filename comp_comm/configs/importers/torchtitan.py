"""A torchtitan TOML: a model of the catalogue by name and flavor, and the layout."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs import catalogue
from comp_comm.configs.importers import torchtitan_layout
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.torchtitan_ignored import FLOAT8, FLOAT8_RECIPES, MODEL, OPTIMIZER, SECTIONS, TRAINING
from comp_comm.configs.model_names import catalogue_name
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import nearest, one_of
from comp_comm.kernel_choices import CrossEntropy
from comp_comm.records import Record

KIND = "torchtitan TOML"
# What torchtitan calls a model, and the catalogue: name and flavor.
MODELS = {
    ("llama3", "8b"): "llama-3.1-8b", ("llama3", "70b"): "llama-3.1-70b", ("llama3", "405b"): "llama-3.1-405b",
    ("llama2", "7b"): "llama-2-7b", ("llama2", "13b"): "llama-2-13b", ("llama2", "70b"): "llama-2-70b",
    ("deepseek_v3", "16b"): "deepseek-v2-lite", ("deepseek_v3", "671b"): "deepseek-v3",
    ("llama4", "17bx16e"): "llama-4-scout", ("llama4", "17bx128e"): "llama-4-maverick",
    ("gpt_oss", "20b"): "gpt-oss-20b", ("gpt_oss", "120b"): "gpt-oss-120b",
}  # fmt: skip
OTHERS = {"flux": "a model of images by diffusion", "vlm": "a model of more than text", "llama3_siglip2": "a model of "
          "more than text", "qwen3_vl": "a model of more than text", "qwen3_5": "linear attention"}  # fmt: skip
FORMATS = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
ADAM = ("AdamW", "Adam")


def fits(data: Record) -> int:
    """Return how well a mapping fits torchtitan's configuration; 0 where it does not."""
    if not isinstance(data.get("training"), dict):
        return 0
    return 2 * isinstance(data.get("model"), dict) + 2 * isinstance(data.get("parallelism"), dict)


def import_torchtitan(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a torchtitan configuration describes; ``model`` stands in for the model it names.

    Raises ``ConfigError`` with everything that is not understood.
    """
    f = Findings(document, given)
    top = Keys(f, document.data)
    named = _model(top, f, model)
    training = top.mapping_of("training") or Keys(f, {})
    parallel = torchtitan_layout.parallelism(top, f)
    training.set("seq_len", "seq_len", default=2048)
    training.set("micro_batch", "local_batch_size", "batch_size", default=8)
    batch = training.take("global_batch_size", default=-1)
    if batch != -1:
        f.set("global_batch", batch, training.place("global_batch_size"))
    _formats(training, f)
    _optimizer(top, f)
    model_too, loss_too = _compiled(top)
    compiled = training.truth("compile") | model_too
    f.fields.setdefault("kernels", "compiled" if compiled else "eager")
    if model_too != loss_too:
        f.set("cross_entropy", (CrossEntropy.COMPILED if loss_too else CrossEntropy.EAGER).word)
    torchtitan_layout.read(training, parallel, f)
    if f.fields.get("zero") == 3 and f.fields.get("optimizer_precision") != "bf16":
        f.set("master_weights", "shards")
    torchtitan_layout.recompute(top, f, _layers_of(named))
    _sections(top, f)
    training.ignore(TRAINING)
    for keys in (training, parallel, top):
        keys.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    job = document.data.get("job")
    title = str(job.get("description") or name) if isinstance(job, dict) else name
    return Imported(KIND, name, title, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=named)


def _model(top: Keys, f: Findings, instead: str) -> str:
    keys = top.mapping_of("model") or Keys(f, {})
    name, flavor = str(keys.take("name", default="llama3")), str(keys.take("flavor", default="debugmodel"))
    if name in OTHERS and not instead:
        keys.wrong(("name",), f"{shown(name)} is {OTHERS[name]}, which is not modelled")
        f.problems.raise_if_any()
    keys.ignore(MODEL)
    if keys.take("norm_type", default="rmsnorm") not in ("rmsnorm", "fused_rmsnorm", "compiled_rmsnorm"):
        keys.wrong(("norm_type",), "another norm than the model's own is not modelled; only rmsnorm")
    _converters(top, keys, f)
    keys.finish()
    backend = top.mapping_of("hf_transformers")
    if backend is not None:
        name, flavor = "", str(backend.take("model", default=flavor))
        backend.finish()
    if instead:
        return instead
    dashed = f"{name}-{flavor}".replace("_", "-").lower()
    known_as = MODELS.get((name, flavor.lower())) or catalogue_name(dashed) or catalogue_name(flavor)
    if known_as is None:
        known = [" ".join(pair) for pair in MODELS]
        guess = nearest(dashed, catalogue.names("model"))
        message = f"no model is called {shown(name)} {shown(flavor)}{guess} ({one_of(known)}, or give --model NAME)"
        f.wrong(("model", "flavor"), message)
        return ""
    return known_as


def _converters(top: Keys, keys: Keys, f: Findings) -> None:
    """Set fp8 where layers are converted to it; other conversions are refused."""
    converters = keys.take("converters", default=[])
    names = [str(each) for each in converters] if isinstance(converters, list) else [str(converters)]
    others = [each for each in names if each and "float8" not in each and each.split(".")[-1] != "mx"]
    if others:
        keys.wrong(("converters",), f"{shown(others[0])} is not understood; only float8 and mx")
    on = bool(set(names) - {""})
    for section in ("float8", "mx", "quantize"):
        on = _quantised(top.mapping_of(section), f) or on
    if on:
        f.set("precision", "fp8")
    else:
        for name in ("fp8_param_gather", "recipe"):
            f.fields.pop(name, None)


def _quantised(keys: Keys | None, f: Findings) -> bool:
    """Take a section about fp8, and those in it; return whether it turns fp8 on (before there were converters)."""
    if keys is None:
        return False
    on = keys.truth("enable_float8_linear")
    if keys.truth("enable_fsdp_float8_all_gather"):
        f.set("fp8_param_gather", True)
    recipe = keys.take("recipe_name")
    name = "mxfp8" if str(recipe).startswith("mxfp8") else str(recipe)
    if "fp4" in name:
        keys.wrong(("recipe_name",), "number formats of 4 bit are not modelled")
    elif recipe is not None and name != "mxfp8" and name not in FLOAT8_RECIPES:
        known = ", ".join(FLOAT8_RECIPES)
        keys.wrong(("recipe_name",), f"{shown(recipe)} is not understood; only {known} and mxfp8_...")
    elif recipe is not None:
        f.set("recipe", name, keys.place("recipe_name"))
    for inner in ("linear", "grouped_mm", "float8", "mx"):
        on = _quantised(keys.mapping_of(inner), f) or on
    keys.ignore(FLOAT8)
    keys.finish()
    return on


def _optimizer(top: Keys, f: Findings) -> None:
    """Set what Adam's moments are in; another optimizer is refused."""
    keys = top.mapping_of("optimizer")
    if keys is None:
        return
    name = str(keys.take("name", default="AdamW"))
    if name not in ADAM:
        keys.wrong(("name",), f"{shown(name)}: another optimizer than Adam is not modelled; only {', '.join(ADAM)}")
    if keys.truth("early_step_in_backward", "in_backward"):
        f.note(
            "early_step_in_backward frees each gradient as soon as it is used: the gradients of all layers are counted"
        )
    states = keys.take("state_dtype", "moment_dtype")
    if states is not None:
        f.set("optimizer_precision", FORMATS.get(str(states), states), keys.place("state_dtype", "moment_dtype"))
    keys.ignore(OPTIMIZER)
    keys.finish()


def _compiled(top: Keys) -> tuple[bool, bool]:
    """Return whether the model is compiled, and whether the loss is."""
    keys = top.mapping_of("compile")
    if keys is None:
        return False, False
    components = keys.take("components", default=["model", "loss"])
    keys.ignore(("backend", "fullgraph", "passes", "joint_passes"))
    on = keys.truth("enable")
    keys.finish()
    model, loss = (on and (not isinstance(components, list) or name in components) for name in ("model", "loss"))
    return model, loss


def _sections(top: Keys, f: Findings) -> None:
    """Take sections that change nothing of a step, key by key."""
    for section, known in SECTIONS.items():
        keys = top.mapping_of(section)
        if keys is not None:
            keys.ignore(known)
            if section == "experimental":
                keys.ignore(torchtitan_layout.EXPERIMENTAL)
            keys.finish()
    tolerance = top.mapping_of("fault_tolerance")
    if tolerance is not None and not is_off(tolerance.mapping.get("enable")):
        tolerance.wrong(
            ("enable",), "replicas that come and go, or exchange gradients less than once a step, are not modelled"
        )


def _formats(training: Keys, f: Findings) -> None:
    weights = training.take("mixed_precision_param", default="bfloat16")
    reduced = training.take("mixed_precision_reduce", default="float32")
    dtype = training.take("dtype", default="float32")
    for name, value, key in (("precision", weights, "mixed_precision_param"),
                             ("grad_precision", reduced, "mixed_precision_reduce")):  # fmt: skip
        if f.fields.get(name) != "fp8":
            f.set(name, FORMATS.get(str(value), value), training.place(key))
    if dtype == "bfloat16":
        f.set("optimizer_precision", "bf16")
        f.note("dtype bfloat16 keeps no weights in 32 bit; a copy of them is counted")
    elif dtype != "float32":
        training.wrong(("dtype",), f"{shown(dtype)} is not understood; only float32 and bfloat16")


def _layers_of(model: str) -> int | None:
    """Return the layers of a model of the catalogue."""
    name = catalogue_name(model)
    return None if name is None else int(catalogue.read("model", name).data["layers"])

"""The model of a run: one of the catalogue's, or the dimensions that the run states, in the style of its family."""

from __future__ import annotations

import difflib
import re
from functools import cache

from comp_comm.configs import catalogue
from comp_comm.configs.model_file import load_model
from comp_comm.configs.model_names import aliases, catalogue_name
from comp_comm.errors import ConfigError, nearest
from comp_comm.fields import Value
from comp_comm.validation.table import MeasuredRun

# Families by words of a model's name: the catalogue's model that has what dimensions do not say (norm, biases,
# positions, tied embeddings). Those of gated networks without a family are Llama's, the others' GPT's.
FAMILIES = (
    (r"mpt", "mpt-7b"), (r"neox", "gpt-neox-20b"), (r"opt\b|opt-", "opt-6.7b"), (r"qwen", "qwen2.5-7b"),
    (r"llama", "llama-2-7b"), (r"mistral", "mistral-7b"),
)  # fmt: skip
GATED, PLAIN = "llama-2-7b", "megatron-22b"
NEMOTRON = {"norm": "layernorm", "bias": "off", "position": "rope", "tied": "off", "dropout": "off"}
# BLOOM and its trials: ALiBi and a norm after the embedding, whatever the dimensions.
ALIBI = {"position": "none"}
SIZES = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "seq_len")
SHAPES = (*SIZES, "head_dim", "max_positions", "extra_parameters", "parameters")
HEADS = (64, 96, 128, 80, 72)  # usual dimensions of a head, where a run does not state its heads
VOCAB = 51200  # GPT-2's vocabulary, padded as Megatron-LM pads it, where a run does not state it
NEARLY = 0.87  # how near a name is that may be a slip, as `difflib` has it: a letter in ten or so
MIXTURE_SIZES = ("layers", "hidden", "seq_len")  # of a mixture of the catalogue, what a run may have otherwise


def plain(name: str) -> str:
    """Return a model's name without what people write differently.

    >>> plain("Qwen3_30B_a3B") == plain("qwen3-30b-a3b")
    True
    """
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)", "", name.lower()))


@cache
def _known() -> dict[str, str]:
    names = {plain(alias): name for alias, name in aliases().items()}
    return names | {plain(name): name for name in catalogue.names("model")}


@cache
def _of_catalogue(reference: str, beside: str) -> tuple[tuple[str, Value], ...]:
    return tuple((name, value) for name, value in load_model(reference, beside).fields.items() if name != "parameters")


def _fields(reference: str, beside: str = "") -> dict[str, Value]:
    return dict(_of_catalogue(reference, beside))


@cache
def named(name: str) -> str | None:
    """Return the catalogue's name of a model, None where it has no such model.

    >>> named("LLAMA3.1_405B"), named("DeepSeekV3"), named("llama3-405b"), named("GPT-39.1B")
    ('llama-3.1-405b', 'deepseek-v3', 'llama-3.1-405b', None)
    """
    exact = catalogue_name(name)
    text = plain(name)
    older = re.sub(r"^llama3(?=405)", "llama31", text)
    return exact or _known().get(text) or _known().get(older) or _known().get(re.sub(r"instruct$|base$", "", text))


def doubtful_name(run: MeasuredRun) -> str:
    """Return what to say of a name that nearly is the catalogue's, or is its, where the row's dimensions are taken.

    Nothing where the model is the catalogue's (perhaps with fewer layers), or has a name of its own: one with other
    numbers is of another size, and no slip.
    """
    name, hidden, layers = run["model_name"], run.number("hidden"), run.number("layers")
    if not name or "/" in name or hidden is None or layers is None:
        return ""
    reference = named(name)
    if reference:
        known = _fields(reference)["hidden"]
        taken = f"'{name}' is {reference}, whose hidden is {known} and not {hidden:g}: taken for another model"
        return taken if hidden != known else ""
    numbers = [known for known in _known() if re.findall(r"\d+", known) == re.findall(r"\d+", plain(name))]
    close = difflib.get_close_matches(plain(name), numbers, n=1, cutoff=NEARLY)
    if not close:
        return ""
    reference = _known()[close[0]]
    fields = _fields(reference)
    same = (fields["layers"], fields["hidden"]) == (layers, hidden)
    own = "has these dimensions, and says its norms, biases and positions, too" if same else "has other dimensions"
    return f"'{name}' is no model of the catalogue, and taken as the row has it; did you mean '{reference}'? It {own}"


def transformer_fields(run: MeasuredRun) -> tuple[dict[str, Value], list[str]]:
    """Return the fields of a run's model, and the columns that were assumed for it.

    Raises ``ValueError`` where the run does not say which model it was.
    """
    name = run["model_name"]
    reference = name if "/" in name and "." in name.rsplit("/", 1)[-1] else named(name)
    try:
        known = _fields(reference, run.file if "/" in reference else "") if reference else {}
    except ConfigError as error:
        raise ValueError(f"{run.name('model_name')}: {error}") from None
    hidden = run.number("hidden")
    if known and hidden is not None and known.get("hidden") != hidden:
        known = {}  # another model of the same name
    if known and known.get("experts"):
        return _mixture(run, known), []
    if run["arch"] == "moe" and not run.fields.get("experts"):
        raise ValueError(f"'{name}' is a mixture of experts that the catalogue does not have, and the table does not "
                         "say its experts (columns experts, top_k, moe_ffn_hidden)")  # fmt: skip
    return _dense(run, known)


def _stated(run: MeasuredRun, names: tuple[str, ...]) -> dict[str, Value]:
    return {name: int(float(run[name])) for name in names if run[name]}


def _mixture(run: MeasuredRun, known: dict[str, Value]) -> dict[str, Value]:
    fields = known | _stated(run, MIXTURE_SIZES)
    words = f"{run['notes']}; {run['layout_check']}"
    match = (
        re.search(r"(\d+) dense layer|dense_layers ?= ?(\d+)", words) if fields["layers"] != known["layers"] else None
    )
    if match:
        fields["dense_layers"] = int(match[1] or match[2])
    return fields


def _dense(run: MeasuredRun, known: dict[str, Value]) -> tuple[dict[str, Value], list[str]]:
    style = known or _style(run)
    fields = {**style, **_stated(run, SIZES)}
    if run["gated_mlp"] in ("0", "1") and not known:
        fields["gated"] = "on" if run["gated_mlp"] == "1" else "off"
    missing = [name for name in ("layers", "hidden", "seq_len") if name not in fields]
    if missing:
        name = run["model_name"]
        if not name:
            raise ValueError(f"{run.name('model_name')} not stated, nor all dimensions ({', '.join(missing)})")
        guess = nearest(name, catalogue.names("model")) or nearest(name, aliases())
        raise ValueError(f"{', '.join(missing)} not stated, and the catalogue has no model '{name}'{guess}")
    assumed = []
    if "heads" not in fields:
        assumed.append("heads")
        fields["heads"] = usual_heads(int(fields["hidden"]), int(run.number("tp") or 1))
    if "vocab" not in fields:
        assumed.append("vocab")
        fields["vocab"] = VOCAB
    if fields.get("position") == "learned" and not known:
        fields["max_positions"] = fields["seq_len"]
    return fields, assumed


def usual_heads(hidden: int, tp: int) -> int:
    """Return heads where a run does not state them: of 64, or the next usual dimension that TP can split.

    >>> usual_heads(2304, 4), usual_heads(2304, 8)
    (36, 24)
    """
    fitting = (hidden // size for size in HEADS if hidden % size == 0 and (hidden // size) % tp == 0)
    return next(fitting, max(1, hidden // HEADS[0]))


def _style(run: MeasuredRun) -> dict[str, Value]:
    model = run["model_name"].lower()
    usual = GATED if run["gated_mlp"] == "1" else PLAIN
    family = next((one for pattern, one in FAMILIES if re.search(pattern, model)), usual)
    base = {name: value for name, value in _fields(family).items() if name not in SHAPES}
    if "nemotron" in model:
        base |= NEMOTRON
    if re.search(r"alibi", f"{run['notes']} {run['attention_kernel']}", re.IGNORECASE) or "bloom" in model:
        base |= ALIBI
    return base


__all__ = ["named", "plain", "transformer_fields"]

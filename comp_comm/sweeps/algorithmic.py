"""The hardware-independent analysis of the paper's sections 3.3-3.5 and Eq 10, over published models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comp_comm.choices import CountedGemms, Precision
from comp_comm.configs.model_file import Model, load_model
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.formulas import edges, scaling
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.records import Record, Records
from comp_comm.transformer import gemm_count

# Table 4 of arXiv:2302.02825, in its order; Eq 10 is about those that came after Megatron-LM (Fig 9).
TABLE_4 = (
    "bert-large", "t5-11b", "gpt2-xl", "megatron-8.3b", "turing-nlg-17b", "gpt3-175b", "mt-nlg-530b", "palm-540b"
)  # fmt: skip
SINCE_MEGATRON = TABLE_4[4:]
MEMORY_SCALINGS = (2.0, 4.4)


def edge_table(
    models: Sequence[str] = TABLE_4,
    tp: int | None = None,
    micro_batch: int = 1,
    memory_scaling: float = 2.0,
    count: str = "complete",
    precision: str = "fp16",
) -> Records:
    """Return Amdahl's law edge and slack of published models, and how they moved from the first of them.

    ``tp`` is the degree every model is taken at; None takes each model's required TP (Eq 10 at ``memory_scaling``),
    rounded up to a divisor of its hidden dimension.

    Examples
    --------
    >>> bert, *_, palm = edge_table()
    >>> palm["tp"], round(palm["edge_ratio"], 3)
    (576, 0.029)
    """
    loaded = [_complete(name) for name in models]
    hidden, seq_len, parameters = (_column(loaded, name) for name in ("hidden", "seq_len", "parameters"))
    required = scaling.required_tp(parameters, memory_scaling)
    degree = scaling.next_divisor(hidden, np.maximum(required, 1)) if tp is None else np.full(hidden.shape, float(tp))
    for model, wide in zip(loaded, hidden, strict=True):
        if tp is not None and wide % tp:
            raise ConfigError(f"tp {tp} does not divide the hidden dimension of {model.name} ({wide:.0f})")
    gemms, size = gemm_count(CountedGemms.of(count)), Precision.of(precision).size
    alone = edges.amdahl_edge(hidden, seq_len, 1, size, *gemms)
    edge = alone / degree
    slack = edges.slack_advantage(seq_len, micro_batch, size)
    demand = scaling.memory_demand(hidden, seq_len)
    numbers = {
        "tp": degree,
        "edge_at_tp1_flop_per_byte": alone,
        "amdahl_edge_flop_per_byte": edge,
        "edge_ratio": edge / edge[0],
        "slack_flop_per_byte": slack,
        "slack_ratio": slack / slack[0],
        "memory_demand_ratio": demand / demand[0],
    }
    return [
        {**_identity(model), "layers": model.fields["layers"], "hidden": model.fields["hidden"],
         "seq_len": model.fields["seq_len"], "micro_batch": micro_batch,
         **{name: _number(name, values[i]) for name, values in numbers.items()}}
        for i, model in enumerate(loaded)
    ]  # fmt: skip


def required_tp_table(
    models: Sequence[str] = SINCE_MEGATRON,
    parameters: Sequence[float] = (),
    memory_scalings: Sequence[float] = MEMORY_SCALINGS,
    base_tp: float = scaling.BASE_TP,
    base_parameters: float = scaling.BASE_PARAMETERS,
) -> Records:
    """Return the required TP (Eq 10) of published models, and of bare parameter counts, at each memory scaling.

    ``required_tp`` is rounded to the nearest whole number, as the paper reads it; ``tp`` is the next divisor of the
    model's hidden dimension, None where that is not known or too small.

    Examples
    --------
    >>> [row["required_tp"] for row in required_tp_table(["mt-nlg-530b", "palm-540b"])]
    [544, 247, 554, 252]
    """
    loaded = [_complete(name, needs=("parameters",)) for name in models]
    sizes = to_float([*(float(model.fields["parameters"]) for model in loaded), *parameters])
    exact = scaling.required_tp(sizes[:, None], to_float(memory_scalings), base_tp, base_parameters)
    hidden = to_float([*(float(model.fields["hidden"]) for model in loaded), *(np.nan for _ in parameters)])
    known = np.where(np.isnan(hidden), 1.0, hidden)[:, None]
    divisors = np.where(np.isnan(hidden)[:, None], np.nan, scaling.next_divisor(known, np.maximum(exact, 1)))
    names = [*map(_identity, loaded), *({"model": f"{size:g} parameters", "title": "", "year": None,
                                         "parameters": float(size)} for size in parameters)]  # fmt: skip
    return [
        {**names[i], "parameter_ratio": float(sizes[i] / base_parameters), "memory_scaling": float(scale),
         "tp_scaling": float(exact[i, j] / base_tp), "required_tp": round(float(exact[i, j])),
         "required_tp_exact": float(exact[i, j]), "tp": _number("tp", divisors[i, j])}
        for i in range(len(names)) for j, scale in enumerate(memory_scalings)
    ]  # fmt: skip


def _complete(reference: str, needs: Sequence[str] = ("layers", "hidden", "seq_len", "parameters")) -> Model:
    """Return a model that says what is needed of it; ``ConfigError`` names it as it was asked for where it does not."""
    model = load_model(reference)
    missing = [name for name in needs if name not in model.fields]
    if missing:
        counted = f" ('compcomm models show {reference}' counts them)" if "parameters" in missing else ""
        raise ConfigError(f"--model {reference}: does not say its {', '.join(missing)}{counted}; a model file does, "
                          f"with '{missing[0]}: N'")  # fmt: skip
    return model


def _identity(model: Model) -> Record:
    return {"model": model.name, "title": model.title, "year": model.year or None,
            "parameters": model.fields["parameters"]}  # fmt: skip


def _column(models: Sequence[Model], name: str) -> Array:
    return to_float([float(model.fields[name]) for model in models])


def _number(name: str, value: float) -> float | int | None:
    if np.isnan(value):
        return None
    return int(value) if name in FIELDS and FIELDS[name].kind == "int" else float(value)

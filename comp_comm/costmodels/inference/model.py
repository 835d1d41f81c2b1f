"""The cost model of serving: the layers, timing and network of `complete`, without what only training has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from comp_comm.costmodels.inference import columns, fields
from comp_comm.costmodels.model import NO_PARTS, CostModel, Parts
from comp_comm.costmodels.scenario import Scenario
from comp_comm.dispatchers import LoadBalancing
from comp_comm.formulas.arrays import to_float

if TYPE_CHECKING:
    from comp_comm.costmodels.inference.serving import Serving


def evaluate(scenario: Scenario, parts: Parts = NO_PARTS) -> Serving:
    """Return the serving of a scenario; broken rules are listed, not raised.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> h100 = load_profile("h100-sxm").hardware("bf16")
    >>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
    >>> serving = evaluate(Scenario(llama, Layout(gpus=1), h100))
    >>> int(serving.cache_bytes_per_token)  # 2 (keys and values) x 32 layers x 8 heads x 128 x 2 bytes
    131072
    """
    from comp_comm.costmodels.inference.serving import Serving
    from comp_comm.costmodels.machine import work_in_training

    work = work_in_training(scenario)
    serves = replace(work.layout, sp=to_float(0.0), scatter_gather=1, load_balancing=int(LoadBalancing.OFF))
    return Serving(replace(work, layout=serves))


MODEL = CostModel(
    "inference",
    "serving: prefill and decode with a KV cache ('phase: inference' of complete)",
    evaluate,
    fields.FIELDS,
    fields.REQUIRED,
    columns.COLUMNS,
    ranking="tokens_per_s",
    headline="decode_comm_fraction",
    shown=fields.SHOWN,
    derived=columns.DERIVED,
    defaults=fields.DEFAULTS,
    needs=fields.NEEDS,
    needs_word=fields.NEEDS_WORD,
    base_timing=True,
)

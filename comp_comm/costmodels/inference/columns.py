"""Columns of the cost model `inference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from comp_comm.costmodels.answer import Column, table_of
from comp_comm.formulas.arrays import Array
from comp_comm.units import GIB

if TYPE_CHECKING:
    from comp_comm.costmodels.inference.serving import Serving

_COLUMNS: tuple[Column[Serving], ...] = (
    Column("ttft_s", "s", "time to first token: prefill of a micro-batch of prompts", lambda b: b.ttft_s),
    Column("tpot_s", "s", "time per output token: one decode step", lambda b: b.tpot_s),
    Column("request_s", "s", "a whole answer of output_len tokens", lambda b: b.request_s),
    Column("tokens_per_s", "tokens/s", "tokens decoded a second by all devices", lambda b: b.tokens_per_s),
    Column("prefill_compute_s", "s", "compute of prefill", lambda b: b.prefill.compute_s),
    Column("prefill_comm_s", "s", "communication of prefill", lambda b: b.prefill.comm_s),
    Column("decode_compute_s", "s", "compute (and reading of weights and cache) of a decode step",
           lambda b: b.decode.compute_s),
    Column("decode_comm_s", "s", "communication of a decode step", lambda b: b.decode.comm_s),
    Column("prefill_comm_fraction", "", "communication / prefill", lambda b: b.prefill.comm_s / b.ttft_s),
    Column("decode_comm_fraction", "", "communication / decode step", lambda b: b.decode.comm_s / b.tpot_s),
    Column("prefill_flops", "FLOP", "FLOP of one prompt's forward pass", lambda b: b.prefill_flops),
    Column("decode_flops_per_token", "FLOP", "FLOP of one token's decode step", lambda b: b.decode_flops_per_token),
    Column("kv_cache_bytes_per_token", "B", "KV cache of a token, over all layers", lambda b: b.cache_bytes_per_token),
    Column("decode_message_bytes_per_token", "B", "messages of a decode step / its tokens",
           lambda b: b.decode.message_bytes / b.batch),
    Column("decode_wire_bytes_per_token", "B", "bytes a device sends in a decode step / its tokens",
           lambda b: b.decode.wire_bytes / b.batch),
    Column("weights_gib", "GiB", "weights on a device", lambda b: b.weight_bytes / GIB),
    Column("kv_cache_gib", "GiB", "KV cache on a device", lambda b: b.cache_bytes / GIB),
    Column("memory_gib", "GiB", "memory of a device", lambda b: b.memory_bytes / GIB),
    Column("parameters", "", "parameters of the model", lambda b: b.work.parameters),
    Column("active_parameters", "", "parameters a token uses", lambda b: b.work.active_parameters),
)  # fmt: skip

COLUMNS = table_of(_COLUMNS)
# Inputs that follow from others where they are not given.
DERIVED: dict[str, Callable[[Serving], Array]] = {"gpus": lambda b: b.work.gpus, "dp": lambda b: b.work.dp}

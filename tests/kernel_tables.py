"""Tables of kernels measured alone, of a folder beside the checkout, as the product predicts them.

The folder is not part of the project: what needs it is skipped where it is not there. A table is one kind of kernel on
one device; a fit of a few numbers of the profile to some of its rows is judged on the others.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from comp_comm.calibration.least_squares import minimise
from comp_comm.choices import Precision
from comp_comm.configs.hardware_file import load_profile
from comp_comm.dispatchers import SORTED
from comp_comm.formulas.kernels import TILE
from comp_comm.hardware.numbers import FlashKernel
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.operations.shapes import Attention, Gemm
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.passes import Passes

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "silicon"
DEVICES = {
    "a100_sxm": "a100-sxm-80gb", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200-sxm",
    "gb200": "gb200-nvl72", "b300_sxm": "b300-sxm", "gb300": "gb300-nvl72",
}  # fmt: skip
FP8_DEVICES = tuple(name for name in DEVICES if name != "a100_sxm")
PROFILES = {**DEVICES, "rtx_pro_6000_server": "rtx-pro-6000"}  # which has GDDR memory and a large cache: judged apart
BLACKWELL = ("b200_sxm", "gb200", "b300_sxm", "gb300")
FORMATS = {"bf16_random": ("bf16", Recipe.NONE), "fp8": ("fp8", Recipe.TENSORWISE),
           "fp8block": ("fp8", Recipe.BLOCKWISE), "nvfp4": ("nvfp4", Recipe.NVFP4)}  # fmt: skip


@cache
def rows_of(name):
    """Return the rows of a table as arrays by column; words where they are no numbers."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: column([row[key] for row in rows]) for key in rows[0]}


def column(cells):
    try:
        return np.asarray([float(cell) for cell in cells])
    except ValueError:
        return np.asarray(cells)


def picked(rows, mask):
    return {key: values[mask] for key, values in rows.items()}


@cache
def device(name, precision):
    return load_profile(PROFILES[name]).hardware(precision)


@dataclass
class Table:
    """Rows, what predicts their seconds from hardware, and the numbers that a fit may set: of timing, with bounds."""

    hardware: object
    rows: dict
    predict: object
    numbers: dict
    put: object
    usual: float = 0.0  # by how much a fit prefers numbers near where it starts: an error for each factor of e

    @property
    def seconds(self):
        return self.rows["time_s"]

    def fitted(self, mask):
        """Return the numbers that predict the rows of a mask best."""
        names, bounds = list(self.numbers), np.asarray(list(self.numbers.values()), float)
        start, low, high = bounds.T
        logs = np.asarray([not name.endswith("exponent") for name in names])

        def plain(x):
            return np.where(logs, np.exp(np.where(logs, x, 0)), x)

        def logged(values):
            return np.where(logs, np.log(np.where(logs, values, 1.0)), values)

        rows = picked(self.rows, mask)

        def predicted(x):
            # Of several values of each number there are rows of seconds: these formulas take one of each.
            if np.ndim(x[0]):
                return np.stack(
                    [predicted(np.asarray(each)) for each in zip(*map(np.ravel, np.broadcast_arrays(*x)), strict=True)]
                )
            seconds = self.predict(self.put(self.hardware, dict(zip(names, plain(x), strict=True))), rows)
            return np.concatenate([seconds, np.exp(self.usual * (np.asarray(x) - logged(start)))])

        measured = np.concatenate([self.seconds[mask], np.ones(len(names))])
        solution = minimise(predicted, measured, logged(start), logged(low), logged(high))
        return dict(zip(names, plain(solution.x), strict=True))

    def errors(self, numbers, mask):
        rows = picked(self.rows, mask)
        return self.predict(self.put(self.hardware, numbers), rows) / self.seconds[mask] - 1

    def held_out(self, usable, judged, share=0.1, seeds=(0, 1, 2)):
        """Return the errors of judged rows, of fits on a share of the usable ones each."""
        found = []
        for seed in seeds:
            drawn = np.random.default_rng(seed).random(len(self.seconds)) < share
            found.append(self.errors(self.fitted(usable & drawn), judged & ~drawn))
        return np.concatenate(found)


def timing_put(hardware, numbers):
    return replace(hardware, timing=replace(hardware.timing, **numbers))


# -- GEMMs ------------------------------------------------------------------------------------------------------------

SHAPES = {"gemm_ramp_k": (120, 1, 5e3), "gemm_ramp_tiles": (45, 0.1, 5e3), "gemm_split_k": (1000, 10, 5e4)}
GEMM_NUMBERS = {
    "bf16_random": {"gemm_efficiency": (0.75, 0.05, 1), "memory_efficiency": (0.7, 0.05, 1),
                    "kernel_latency": (3e-6, 2e-7, 5e-4), **SHAPES},
    "fp8": {"fp8_efficiency": (0.6, 0.05, 1)},
    "fp8block": {"fp8_block_efficiency": (0.6, 0.05, 1)},
    "nvfp4": {"nvfp4_efficiency": (0.5, 0.05, 1), "nvfp4_ramp_k": (200, 1, 5e3), "nvfp4_ramp_tiles": (150, 0.1, 5e3)},
}  # fmt: skip


def gemms(kind, name, library="trtllm"):
    """Return a table of GEMMs of one library, with quantising of their activations where there is any."""
    rows = rows_of(f"gemm_{kind}_{name}")
    rows = picked(rows, np.char.startswith(rows["backend"], library))
    precision, recipe = FORMATS[kind]

    def predict(hardware, rows):
        m, n, k = (rows[key] for key in "mnk")
        kernels = Kernels(hardware, float(Precision.of(precision).size), 2.0, isolated=True, recipe=recipe)
        product = Gemm("", "", count=1, m=m, k=k, n=n)
        run = kernels.run(product)
        seconds = kernels.product(product.padded_flops, (m, n, k), product.moved(run.operand, 2.0), 1, run)
        return seconds + run.quantised * kernels.quantising.seconds(m * k, orientations=1)

    return Table(device(name, precision), rows, predict, GEMM_NUMBERS[kind], timing_put)


def smallest(table):
    return np.minimum(np.minimum(table.rows["m"], table.rows["n"]), table.rows["k"])


# -- attention --------------------------------------------------------------------------------------------------------

FORWARD = {"efficiency": (0.6, 0.02, 3), "latency": (8e-6, 2e-7, 5e-4), "memory_efficiency": (0.4, 0.02, 10),
           "ramp_keys": (200, 1, 5e3), "window_keys": (100, 1, 2e3), "ramp_blocks": (50, 0.1, 2e3),
           "head_exponent": (0.5, -1, 2.5),
           "wide_exponent": (0.1, -2, 2)}  # fmt: skip
BACKWARD = {"backward_efficiency": (0.5, 0.02, 3), "backward_ramp_keys": (200, 1, 5e3),
            "backward_head_exponent": (0.5, -1, 2.5), "backward_wide_exponent": (0.0, -3, 2)}  # fmt: skip


def attention_put(hardware, numbers):
    kernel = replace(hardware.attention[0], **numbers)
    return replace(hardware, attention=(kernel,) * len(AttentionKernel))


# TensorRT-LLM's kernels in 16 bits and in fp8: the share of the peak of products that nothing slows, in either;
# exponentials a second, and what else the two have in common; a window's edges are those of blocks, which differ.
TRTLLM = {"products": (0.7, 0.05, 2), "products_8": (1.1, 0.05, 4), "exponentials": (3e12, 2e11, 5e13),
          "latency": (1.5e-5, 2e-7, 5e-4), "row_latency": (2e-10, 1e-13, 1e-8), "ramp_keys": (200, 1, 5e3),
          "window_keys": (150, 1, 2e3), "window_keys_8": (150, 1, 2e3), "ramp_blocks": (80, 0.1, 2e3)}  # fmt: skip


def trtllm_numbers(hardware, numbers):
    """Return the numbers of the kernels in 16 bits and in fp8 that a profile has, from those of a fit."""
    own = {name: value for name, value in numbers.items() if name not in ("products", "exponentials")}
    shared = {name: value for name, value in own.items() if not name.endswith("_8") and name != "window_keys"}
    found = []
    for end in ("", "_8"):
        products = numbers[f"products{end}"]
        dim = products * hardware.attention_peak_flops / (4 * numbers["exponentials"])
        found.append({**shared, "window_keys": numbers[f"window_keys{end}"], "softmax_dim": dim,
                      "efficiency": products / np.hypot(1, dim / 128), "memory_efficiency": 10.0})  # fmt: skip
    return found


def trtllm_put(hardware, numbers):
    if not numbers:
        return hardware
    kernels = [(FlashKernel(**each),) * len(AttentionKernel) for each in trtllm_numbers(hardware, numbers)]
    return replace(hardware, attention=kernels[0], fp8_attention=kernels[1])


def attention(rows, name, numbers, kernel=None, code=AttentionKernel.CUDNN, put=attention_put):
    """Return a table of attention of one kernel; a window of 0 is none, and ``pass`` what is timed.

    Rows whose ``eight`` is 1 are in fp8. Heads of one dimension are ``prepared`` in the time of kernels that do so.
    """
    count = len(rows["time_s"])
    seq, heads = rows["seq_len"], rows["heads"]
    window = np.where(rows.get("window", np.zeros(count)) > 0, rows.get("window", np.zeros(count)), seq)
    rows = {**rows, "kept": np.minimum(window, seq)}
    rows.setdefault("causal", np.ones(count))
    rows.setdefault("kv_heads", heads)
    rows.setdefault("key_dim", rows.get("head_dim_qk", rows.get("head_dim")))
    rows.setdefault("value_dim", rows.get("head_dim_v", rows.get("head_dim")))
    rows.setdefault("passes", np.full(count, "fwd"))
    rows.setdefault("eight", np.zeros(count))

    def predict(hardware, rows):
        seq, kept, causal = rows["seq_len"], rows["kept"], rows["causal"] > 0
        seen = np.where(causal, np.where(kept < seq, kept - kept**2 / (2 * seq), seq / 2), kept)
        op = Attention(
            "",
            "",
            count=1,
            sequences=rows["batch"],
            heads=rows["heads"],
            queries=seq,
            keys=kept,
            seen=seen,
            key_dim=rows["key_dim"],
            value_dim=rows["value_dim"],
            key_heads=rows["kv_heads"],
            prepared=1.0 * (rows["key_dim"] == rows["value_dim"]),
        )
        whole = np.where(causal, seq / 2, seq)
        kernels = Kernels(hardware, isolated=True, fp8_attention=rows["eight"].astype(int))
        passes, plain = (kernels.attention(each, int(code)) for each in (replace(op, unwindowed=whole), op))
        passes = Passes(*(np.where(kept < seq, one, other) for one, other in zip(passes, plain, strict=True)))
        which = rows["passes"]
        return np.where(which == "fwd", passes.forward,
                        np.where(which == "bwd", passes.backward, passes.forward + passes.backward))  # fmt: skip

    hardware = device(name, "bf16")
    if code == AttentionKernel.CUDNN:
        used = hardware.attention[code] if kernel == "cudnn" else FlashKernel(0.5, backward_efficiency=0.5)
        hardware = attention_put(replace(hardware, attention=(used,)), {})
    return Table(hardware, rows, predict, numbers, put)


def joined(tables):
    return {key: np.concatenate([table[key] for table in tables]) for key in tables[0]}


def forward_kernels(name, dtype, library="trtllm:torch_flow", latent="trtllm:default"):
    """Return causal kernels of one library; windows of 8192 apart, which are chunks; with MLA's in bf16."""
    rows = rows_of(f"attention_fwd_{name}")
    rows = picked(rows, (rows["backend"] == library) & (rows["dtype"] == dtype) & (rows["window"] != 8192))
    plain = {key: rows[key] for key in ("batch", "seq_len", "heads", "kv_heads", "window", "time_s")}
    tables = [{**plain, "key_dim": rows["head_dim"], "value_dim": rows["head_dim"]}]
    if dtype == "bfloat16":
        rows = rows_of(f"mla_context_fwd_{name}")
        rows = picked(rows, rows["backend"] == latent)
        none = 0 * rows["batch"]
        tables.append({**{key: rows[key] for key in ("batch", "seq_len", "heads", "time_s")}, "kv_heads": rows["heads"],
                       "window": none, "key_dim": none + 192, "value_dim": none + 128})  # fmt: skip
    return joined(tables)


def both_formats(name):
    """Return a table of TensorRT-LLM's forward kernels on a device, in 16 bits and in fp8 together.

    A tenth of it has one or two kernels with a window of either: a number that they hardly tell stays near its start,
    which is the same for all devices.
    """
    tables = [forward_kernels(name, dtype) for dtype in ("bfloat16", "fp8")]
    rows = joined([{**rows, "eight": np.full(len(rows["time_s"]), float(which))} for which, rows in enumerate(tables)])
    return replace(attention(rows, name, TRTLLM, code=AttentionKernel.TRTLLM, put=trtllm_put), usual=0.1)


def training_kernels(name, passes, dtype="bfloat16"):
    """Return cuDNN's kernels of one pass, without those that are deterministic."""
    rows = rows_of(f"attention_train_{name}")
    rows = {**rows, "passes": rows["pass"], "causal": (rows["mask"] == "causal").astype(float)}
    return picked(rows, (rows["dtype"] == dtype) & (rows["deterministic"] == 0) & (rows["pass"] == passes))


# -- experts ----------------------------------------------------------------------------------------------------------

EXPERTS = {"bfloat16": ("bf16", Recipe.NONE, "trtllm:cutlass", "gemm_efficiency"),
           "fp8_block": ("fp8", Recipe.BLOCKWISE, "trtllm:deepgemm", "fp8_block_efficiency")}  # fmt: skip


def experts(name, dtype):
    """Return layers of experts with balanced loads: sorting as the product counts it, GEMMs, and activation.

    The database's layers have the weights that memory happens to hold (zeros mostly; its collect_moe loads none), which
    do not warm a device as random numbers do. Loads are the same for all experts: each fills up its last tile alone.
    A fit prefers numbers near the profile's, which are of other products.
    """
    precision, recipe, library, efficiency = EXPERTS[dtype]
    rows = rows_of(f"moe_grouped_gemm_{name}")
    rows = picked(rows, (rows["backend"] == library) & (rows["dtype"] == dtype) & (rows["distribution"] == "balanced"))
    local = rows["experts"] / rows["ep"]
    tokens = rows["tokens"] * rows["topk"] / rows["ep"]
    rows = {**rows, "local": local, "all": tokens, "rows": tokens / local}

    def predict(hardware, rows):
        kernels = Kernels(hardware, float(Precision.of(precision).size), 2.0, isolated=True, recipe=recipe)
        hidden, width, local = rows["hidden"], rows["inter"] / rows["tp"], rows["local"]
        each, gates = np.maximum(rows["rows"], 1), 1 + rows["gated"]
        sorted_s = 2 * SORTED * rows["all"] * hidden * kernels.per_streamed_byte
        seconds = hardware.timing.kernel_latency * 6 + sorted_s
        for inner, columns in ((hidden, gates * width), (width, hidden)):
            op = Gemm("", "", count=1, m=each, k=inner, n=columns, groups=local, grouped=True)
            run = kernels.run(op)
            moved, padded = op.moved(run.operand, 2.0), np.ceil(each / TILE) * TILE / each
            seconds = seconds + kernels.product(op.flops * padded, (each, columns, inner), moved, local, run)
            seconds = seconds + run.quantised * kernels.quantising.seconds(rows["all"] * inner, orientations=1)
        return seconds + 2 * (1 + gates) * rows["all"] * width * kernels.per_streamed_byte

    timing = device(name, precision).timing
    numbers = {efficiency: (getattr(timing, efficiency), 0.05, 1),
               "memory_efficiency": (timing.memory_efficiency, 0.1, 1),
               "kernel_latency": (timing.kernel_latency, 2e-7, 5e-5)}  # fmt: skip
    hardware = timing_put(device(name, precision), {"power_ratio": 1.0})
    return Table(hardware, rows, predict, numbers, timing_put, usual=0.1)

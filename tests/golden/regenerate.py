"""Golden files: outputs of the formulas and of two commands, kept so that no change of a number goes unseen.

They are not a proof that the numbers are right (the other tests are): they say that they are what they were. After a
change that is meant to change numbers, and whose new ones were checked, write them anew and look at the difference:

    python tests/golden/regenerate.py
    git diff --stat tests/golden
"""

import contextlib
import io
import json
from pathlib import Path

import numpy as np

from comp_comm.choices import CountedGemms
from comp_comm.cli.main import run
from comp_comm.formulas import collectives, edges, scaling, transformer
from comp_comm.transformer import gemm_count

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent

# Table 2 of arXiv:2302.02825 in full: 392 points, hidden slowest, TP fastest.
TABLE_2 = {
    "hidden": [1024, 2048, 4096, 8192, 16384, 32768, 65536],
    "seq_len": [1024, 2048, 4096, 8192],
    "micro_batch": [1, 4],
    "tp": [4, 8, 16, 32, 64, 128, 256],
}
COMMANDS = {
    "future": ["sweep", str(ROOT / "configs" / "future.yaml"), "--format", "json", "--quiet"],
    "case-study": ["case-study", "--format", "json"],
}
# What may differ from one version to the next though every number is the same: digests, and words for a reader.
UNSTABLE = ("version", "study_sha256", "sha256", "seconds", "title", "setup", "notes")


def rounded(values):
    """Return numbers with 12 significant digits, whole ones as int: compact, and finer than any test compares."""
    texts = (f"{value:.12g}" for value in np.asarray(values, dtype=float).reshape(-1).tolist())
    return [int(float(text)) if float(text).is_integer() and abs(float(text)) < 1e15 else float(text) for text in texts]


def formulas():
    """Return every formula's output over Table 2, in both counts; constants along an axis are kept once."""
    hidden, seq_len, batch, tp = np.ix_(*TABLE_2.values())
    point = (hidden, seq_len, batch, tp)
    found = {}
    for counted in CountedGemms:
        name, count = counted.word, gemm_count(counted)
        forward = transformer.layer_forward_flops(*point, *count)
        weights = transformer.layer_weights(hidden, tp, count.fc_gemms, count.linear_gemms)
        edge, forward_edge = (edges.amdahl_edge(hidden, seq_len, tp, 2, *count, *passes) for passes in ((3, 4), (1, 2)))
        found[name] = {
            "layer_forward_flops": forward,
            "training_flops": transformer.training_flops(forward),
            "fc_forward_flops": transformer.fc_forward_flops(*point, count.fc_gemms),
            "attention_forward_flops": transformer.attention_forward_flops(*point, count.attention_gemms),
            "linear_forward_flops": transformer.linear_forward_flops(*point, count.linear_gemms),
            "layer_weights": weights,
            "amdahl_edge": edge,
            "amdahl_edge_forward": forward_edge,
            "layer_slack_advantage": edges.layer_slack_advantage(hidden, seq_len, batch, 2, *count),
            "serialized_fraction_at_x_2129": edges.serialized_fraction(edge, 2129.0),
        }
    message = transformer.activation_message_bytes(hidden, seq_len, batch)
    found["either"] = {
        "fc_backward_flops": transformer.fc_backward_flops(*point),
        "activation_message_bytes": message,
        "all_reduce_wire_bytes": collectives.all_reduce_wire_bytes(message, tp),
        "slack_advantage": edges.slack_advantage(seq_len, batch),
        "overlap_ratio_at_x_2129": edges.overlap_ratio(2129.0, edges.slack_advantage(seq_len, batch)),
        "required_tp": scaling.required_tp(transformer.core_parameters(96, hidden), 2),
        "next_divisor": scaling.next_divisor(hidden, tp * 1.5),
        "memory_demand": scaling.memory_demand(hidden, seq_len),
    }
    return {
        group: {name: {"shape": list(np.shape(values)), "values": rounded(values)} for name, values in outputs.items()}
        for group, outputs in found.items()
    }


def stable(value):
    """Return an answer without what may differ from version to version, digests included."""
    if isinstance(value, dict):
        return {name: stable(part) for name, part in value.items() if name not in UNSTABLE}
    return [stable(part) for part in value] if isinstance(value, list) else value


def command(name):
    """Return what a command prints as JSON, its rows as columns."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run(COMMANDS[name])
    if code != 0:
        raise RuntimeError(f"compcomm {' '.join(COMMANDS[name])}: exit code {code}")
    answer = json.loads(out.getvalue())
    columns = {column: [row[column] for row in answer["rows"]] for column in answer["rows"][0]}
    return {"meta": stable(answer["meta"]), "columns": {column: packed(values) for column, values in columns.items()}}


def packed(values):
    """Return a column with its distinct values once, and for each row which of them; numbers with 12 digits."""
    kept = [rounded([value])[0] if isinstance(value, float) else value for value in values]
    distinct = list(dict.fromkeys(kept))
    if len(distinct) * 2 > len(kept):
        return {"values": kept}
    place = {value: i for i, value in enumerate(distinct)}
    return {"distinct": distinct, "rows": [place[value] for value in kept]}


def unpacked(column):
    """Return the column that `packed` made compact."""
    return column["values"] if "values" in column else [column["distinct"][i] for i in column["rows"]]


def answers():
    """Return everything that is kept, by file name."""
    return {"formulas.json": formulas(), **{f"{name}.json": command(name) for name in COMMANDS}}


if __name__ == "__main__":
    for file_name, content in answers().items():
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        # A line for each column keeps differences readable.
        (FOLDER / file_name).write_text(text.replace('},"', '},\n"').replace('],"', '],\n"') + "\n")
        print(f"{file_name}: {len(text) / 1000:.0f} kB")

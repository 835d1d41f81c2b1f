"""Sweep from Python: how far can TP go before half of a layer's time is communication, today and at 4x flop-vs-bw?

Run it with: python examples/sweep_from_python.py
"""

import comp_comm as cc

MODELS = {"4K wide": 4096, "16K wide": 16384, "64K wide": 65536}


def largest_tp(hidden: int, flop_vs_bw: float) -> int | None:
    """Return the largest TP of the axis at which serialized communication takes at most half of the time."""
    study = {
        "hardware": "mi210",
        "cost_model": "comp_vs_comm",
        "set": {"hidden": hidden, "seq_len": "4K", "micro_batch": 1, "flop_vs_bw": flop_vs_bw},
        "sweep": {"tp": {"from": 1, "to": 256, "steps": 9, "scale": "log"}},  # 1, 2, 4 ... 256
    }
    table = cc.sweep(study)  # its columns are NumPy arrays
    good = table["tp"][table["serialized_comm_fraction"] <= 0.5]
    return int(good.max()) if good.size else None


def main() -> None:
    for name, hidden in MODELS.items():
        print(f"{name}: TP {largest_tp(hidden, 1)} today, TP {largest_tp(hidden, 4)} at flop-vs-bw 4")
    # A study file works too, and what --set takes is given by name. Rows can be had as plain dictionaries.
    best = cc.sweep("future", flop_vs_bw=4, top=1, by="visible_comm_fraction", ascending=True)
    row = best.to_records()[0]
    print(f"least exposed of Table 2 at flop-vs-bw 4: H {row['hidden']}, SL {row['seq_len']}, TP {row['tp']}:"
          f" {100 * row['visible_comm_fraction']:.1f} %")  # fmt: skip


if __name__ == "__main__":
    main()

"""Find the fastest layout of a study, and say where its time goes and what would make it faster.

Run it with: python examples/explain_the_best.py
"""

from pathlib import Path

import comp_comm as cc

STUDY = str(Path(__file__).with_name("layouts.yaml"))
AXES = ("tp", "pp", "micro_batch")
PARTS = {"compute_s": "compute", "recompute_s": "recomputation", "serialized_comm_s": "serialized communication",
         "exposed_comm_s": "exposed communication", "bubble_s": "bubble", "optimizer_s": "optimizer"}  # fmt: skip


def main() -> None:
    rows = cc.sweep(STUDY, top=3, by="tokens_per_s").to_records()
    for row in rows:
        print(f"TP {row['tp']}, PP {row['pp']}, DP {row['dp']}, micro-batch {row['micro_batch']}:"
              f" {row['step_s']:.3f} s, {row['memory_gib']:.0f} GiB, {row['days']:.0f} days")  # fmt: skip
    # The same study at one of its points: a field that is given replaces its axis by one value, as --set does.
    step = cc.explain(STUDY, **{name: rows[0][name] for name in AXES})
    print("the first:")
    for key, what in PARTS.items():
        print(f"  {what}: {100 * step[key] / step['step_s']:.1f} %")
    gains = [row for row in step["sensitivity"] if row["factor"] == 2]
    best = min(gains, key=lambda row: row["step_s"])
    print(f"twice the {best['number']} would take {-100 * best['change']:.0f} % off the step")


if __name__ == "__main__":
    main()

"""Find the fastest layout of a study, and say where its time goes and what would make it faster.

Run it with: python examples/explain_the_best.py
"""

from pathlib import Path

from comp_comm.configs.study import load_study
from comp_comm.sweeps import sweep
from comp_comm.sweeps.point import explain

STUDY = str(Path(__file__).with_name("layouts.yaml"))
AXES = ("tp", "pp", "micro_batch")
PARTS = {"compute_s": "compute", "recompute_s": "recomputation", "serialized_comm_s": "serialized communication",
         "exposed_comm_s": "exposed communication", "bubble_s": "bubble", "optimizer_s": "optimizer"}  # fmt: skip


def main() -> None:
    rows = sweep(STUDY, top=3, by="tokens_per_s").to_records()
    for row in rows:
        print(f"TP {row['tp']}, PP {row['pp']}, DP {row['dp']}, micro-batch {row['micro_batch']}:"
              f" {row['step_s']:.3f} s, {row['memory_gib']:.0f} GiB, {row['days']:.0f} days")  # fmt: skip
    # The same study at one of its points: an override replaces an axis by one value, as --set does.
    step = explain(load_study(STUDY, [f"{name}={rows[0][name]}" for name in AXES]))
    print("the first:")
    for key, what in PARTS.items():
        print(f"  {what}: {100 * step[key] / step['step_s']:.1f} %")
    gains = [row for row in step["sensitivity"] if row["factor"] == 2]
    best = min(gains, key=lambda row: row["step_s"])
    print(f"twice the {best['number']} would take {-100 * best['change']:.0f} % off the step")


if __name__ == "__main__":
    main()

"""The net: what two revisions say of 20,000 random points and of every command, compared.

    python tests/net                      # this working tree against HEAD
    python tests/net --base cbc5a2e       # against another revision
    python tests/net --points complete    # only points whose name begins so, and no commands

Numbers may differ by a part in 10^9, texts not at all. What differs is listed by column: how many points, which fields
and values they share more often than others do, and the worst of them. It is no part of the ordinary test run.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
sys.path.insert(0, str(FOLDER))
TOLERANCE = 1e-9
PROCESSES = 2


def main():
    asked = argparse.ArgumentParser(description="Compare what two revisions say.")
    asked.add_argument("--base", default="HEAD", help="revision to compare with")
    asked.add_argument("--points", default="", help="only points whose name begins so; no commands")
    asked.add_argument("--keep", type=Path, help="folder for what the base said, used again if it is there")
    asked.add_argument("--texts", action="store_true", help="show the first differing line of every command")
    given = asked.parse_args()
    base = subprocess.run(
        ["git", "rev-parse", given.base], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        work = given.keep or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        old = work / f"base-{base[:12]}{given.points}"
        if not old.with_suffix(".done").exists():
            tree = Path(folder) / "tree"
            subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), base], cwd=ROOT, check=True)
            try:
                _write_points(tree / "configs", work / "points.jsonl", given.points)
                _run(tree, work / "points.jsonl", old, not given.points)
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
            old.with_suffix(".done").write_text("")
        new = work / "new"
        _run(ROOT, work / "points.jsonl", new, not given.points)
        differing = _compare_points(work / "points.jsonl", _answers(old), _answers(new))
        if not given.points:
            differing += _compare_texts(_texts(old), _texts(new), given.texts)
    return 1 if differing else 0


def _write_points(catalogue, target, wanted):
    import points

    with open(target, "w", encoding="utf-8") as out:
        for name, study in points.studies(catalogue):
            if name.startswith(wanted):
                out.write(json.dumps([name, study]) + "\n")


def _run(tree, points, target, commands):
    runs = [
        subprocess.Popen(
            [
                sys.executable,
                str(FOLDER / "run.py"),
                str(tree),
                str(points),
                f"{target}-{part}",
                str(part),
                str(PROCESSES),
                *(["commands"] if commands else []),
            ],
            cwd=tree,
        )
        for part in range(PROCESSES)
    ]
    if any(run.wait() for run in runs):
        raise SystemExit(f"{tree}: the net could not be run")


def _answers(target):
    found = {}
    for part in range(PROCESSES):
        found |= json.loads(Path(f"{target}-{part}").read_text(encoding="utf-8"))
    return found


def _texts(target):
    return json.loads(Path(f"{target}-0.commands.json").read_text(encoding="utf-8"))


def _differs(a, b):
    if (
        isinstance(a, (int, float))
        and isinstance(b, (int, float))
        and not isinstance(a, bool)
        and not isinstance(b, bool)
    ):
        return not math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-300)
    return a != b


def _compare_points(points, old, new):
    """Print by column what differs; return how many columns do."""
    studies = dict(map(json.loads, points.read_text(encoding="utf-8").splitlines()))
    moved, worst, everywhere, count, refused = {}, {}, Counter(), 0, Counter()
    for name, study in studies.items():
        before, after = old[name], new[name]
        if before["code"] != after["code"] or before["err"] != after["err"]:
            refused[(before["code"], after["code"], _first_difference(before["err"], after["err"]))] += 1
        for point, a, b in zip(study["zip"], before["rows"], after["rows"]):  # noqa: B905 - one may be refused
            count += a.get("feasible") is True
            facts = _facts(name, study, point)
            everywhere.update(facts)
            for column in a:
                if _differs(a[column], b.get(column)):
                    moved.setdefault(column, Counter()).update([*facts, "points"])
                    ratio = b[column] / a[column] if _ratio(a[column], b.get(column)) else math.inf
                    if column not in worst or abs(math.log(abs(ratio) or 1e-300)) > worst[column][0]:
                        worst[column] = (abs(math.log(abs(ratio) or 1e-300)), name, point, a[column], b.get(column))
    points_in_all = sum(len(study["zip"]) for study in studies.values())
    print(f"{points_in_all:,} points, {count:,} of them feasible; {len(moved)} columns differ")
    for column, facts in sorted(moved.items(), key=lambda item: -item[1]["points"]):
        shares = sorted(
            (fact for fact in facts if fact != "points"),
            key=lambda f: -(facts[f] / facts["points"] - everywhere[f] / points_in_all),
        )
        said = ", ".join(
            f"{fact} {facts[fact] / facts['points']:.0%} of {everywhere[fact] / points_in_all:.0%}"
            for fact in shares[:4]
        )
        _, name, point, a, b = worst[column]
        print(f"  {column}: {facts['points']:,} points ({said}); worst {name} {json.dumps(point)}: {a} -> {b}")
    for (before, after, text), number in refused.most_common(40):
        print(f"  exit {before} -> {after} in {number} studies: {text}")
    return len(moved) + len(refused)


def _ratio(a, b):
    return all(isinstance(n, (int, float)) and not isinstance(n, bool) and n for n in (a, b))


def _facts(name, study, point):
    """Return fields with their values, as far as they are few: what points that differ may have in common."""
    given = {**study["set"], **point, "model": study.get("model"), "cost model": name.rpartition("-")[0]}
    return [f"{field}={value}" for field, value in given.items()]


def _compare_texts(old, new, show):
    """Print which commands say something else; return how many do."""
    differing = [line for line in old if old[line] != new.get(line)]
    print(f"{len(old)} command lines; {len(differing)} differ")
    for line in differing:
        (code, out, err), (code2, out2, err2) = old[line], new.get(line, (None, "", ""))
        said = f"exit {code} -> {code2}; " if code != code2 else ""
        print(f"  {line}: {said}{_first_difference(out + err, out2 + err2) if show else ''}")
    return len(differing)


def _first_difference(a, b):
    for left, right in zip(a.splitlines(), b.splitlines()):  # noqa: B905 - of different lengths
        if left != right:
            return f"{left.strip()[:160]!r} -> {right.strip()[:160]!r}"
    return f"{len(a.splitlines())} lines -> {len(b.splitlines())}"


if __name__ == "__main__":
    sys.exit(main())

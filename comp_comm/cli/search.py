"""``compcomm search``: the fastest layouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from comp_comm.cli import options, workers
from comp_comm.cli.speech import tell
from comp_comm.configs.study import Study
from comp_comm.errors import ConfigError, InfeasibleError
from comp_comm.search.engine import run_search
from comp_comm.search.objectives import OBJECTIVES
from comp_comm.search.result import Prices, answer, breakdown, check_question, scaling
from comp_comm.search.space import make_space

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from comp_comm.search.engine import Keeper
    from comp_comm.sweep.resume import Checkpoint

OBJECTIVE_HELP = "; ".join(f"{name}: {aim.meaning}" for name, aim in OBJECTIVES.items())
SHOWN = ("tp", "cp", "pp", "vpp", "ep", "dp", "micro_batch", "zero", "sp", "recompute", "placement", "step_s", "mfu",
         "memory_gib", "exposed_comm_fraction")  # fmt: skip
SIDE = ("hardware", "gpus", "tp", "cp", "pp", "vpp", "ep", "dp", "micro_batch", "zero", "recompute", "step_s", "mfu",
        "memory_gib", "exposed_comm_fraction", "speedup", "efficiency")  # fmt: skip

Record = dict[str, Any]
Asked = dict[str, Any]
Call = tuple[Study, int, Prices]


@click.command(epilog="Examples: compcomm search --model gpt3-175b --hardware a100-sxm-80gb --gpus 512 --global-batch "
               "1024 | compcomm search llama-search --gpus [256,512,1024] --tp 8 --plot scaling.png | "
               "compcomm search llama-search --hardware h100-sxm,b200-sxm --price-per-gpu-hour 2.5,4")  # fmt: skip
@options.point_options
@click.option("--objective", default="step", show_default=True, metavar="NAME", help=f"What is best. {OBJECTIVE_HELP}.")
@click.option("--top", type=int, default=10, show_default=True, metavar="N", help="How many of the best to show.")
@click.option("--price-per-gpu-hour", metavar="N[,N]", help="What a device costs an hour; one for each hardware.")
@click.option("--watts", metavar="N[,N]", help="What a device draws; one for each hardware.")
@click.option("--plot", "picture", metavar="FILE", help="Also draw step time against memory, or against devices.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@workers.options
@options.format_options
def command(path: str | None, form: str | None, **given: Any) -> int:
    """The best layouts of a model on so many devices: every one is evaluated.

    tp, cp, pp, vpp, ep, micro_batch, zero, recompute, sp and placement are searched unless they are given; a list tries
    only its values. Overlaps, schedules and kernels are as given, and searched if a list is given. Several --gpus or
    --hardware give the best on each. With --jobs or --executor the work is shared out; the answer is the same.
    """
    form = options.prepare(form, path)
    asked = {name: given.pop(name) for name in ("objective", "top", "picture", "quiet", "jobs", "executor", "resume")}
    if asked["resume"]:
        workers.check_resume(path)
    prices = [given.pop(name) for name in ("price_per_gpu_hour", "watts")]
    machines = _split(given.pop("hardware"))
    if asked["picture"]:
        from comp_comm.report.plot import check_plot

        check_plot(asked["picture"])
    names: list[str | None] = [*machines] or [None]
    studies = [options.point_study({**given, "hardware": name}) for name in names]
    studies = [one for study in studies for one in _each_machine(study)]
    costs = _prices(prices, len(studies))
    calls = [(study, gpus, cost) for study, cost in zip(studies, costs, strict=True) for gpus in _devices(study)]
    kept = _checkpoint(path, calls, asked) if asked["resume"] and path else None
    with workers.opened(asked["executor"], asked["jobs"]) as executor:
        results = _results(calls, asked, executor, kept)
    code = _answer(results, path, form, asked)
    if kept and code == 0:
        kept.remove()
    return code


def _results(
    calls: list[Call], asked: Asked, executor: Executor | None, kept: Checkpoint | None
) -> list[tuple[Study, Record]]:
    """Return the study and result of every search, up to Ctrl-C; where several are asked for, of those that fit."""
    results: list[tuple[Study, Record]] = []
    for number, (study, gpus, prices) in enumerate(calls):
        try:
            keeper = kept.part(str(number)) if kept else None
            results.append((study, _searched(study, gpus, prices, asked, executor, keeper)))
        except InfeasibleError as error:
            if len(calls) == 1:
                raise
            tell(f"note: {study.profiles[0].name}, {gpus} devices: {error}")
            continue
        if results[-1][1]["meta"]["interrupted"]:
            break
    if not results:
        raise InfeasibleError("nothing fits on any of them")
    return results


def _checkpoint(path: str, calls: list[Call], asked: Asked) -> Checkpoint:
    """Return what keeps how far the searches have come."""
    import comp_comm
    from comp_comm.sweep.resume import Checkpoint

    known = {"version": comp_comm.__version__, "study_sha256": [study.sha256() for study, _, _ in calls],
             "gpus": [gpus for _, gpus, _ in calls], "objective": asked["objective"], "top": asked["top"]}  # fmt: skip
    return Checkpoint(Path(path).resolve(), known)


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in text.strip("[]").split(",") if part.strip()] if text else []


def _each_machine(study: Study) -> list[Study]:
    """Return a study for each hardware profile of a study."""
    return [replace(study, profiles=(profile,), hardware_axis=False) for profile in study.profiles]


def _devices(study: Study) -> list[int]:
    axis = next((axis.values["gpus"] for axis in study.axes if "gpus" in axis.values), ())
    found = [int(value) for value in axis] or ([int(study.fixed["gpus"])] if "gpus" in study.fixed else [])
    if not found:
        study.problem("gpus", "'gpus' is missing: how many devices, or a list of such numbers")
        study.problems.raise_if_any()
    return found


def _prices(texts: list[str | None], count: int) -> list[Prices]:
    columns: list[list[float | None]] = []
    for flag, text in zip(("--price-per-gpu-hour", "--watts"), texts, strict=True):
        with options.naming(flag):
            numbers: list[float | None] = [options.parse_number(part) for part in _split(text)]
            if any(number is not None and number <= 0 for number in numbers):
                raise ValueError("must be above 0")
        if len(numbers) not in (0, 1, count):
            raise ConfigError(f"{flag}: {len(numbers)} numbers for {count} hardware profiles; give one, or one each")
        columns.append((numbers or [None]) * (count if len(numbers) < 2 else 1))
    return [Prices(price, watts) for price, watts in zip(*columns, strict=True)]


def _searched(
    study: Study, gpus: int, prices: Prices, asked: Asked, executor: Executor | None, keeper: Keeper | None
) -> Record:
    """Return the result on so many devices, or what there is of it after Ctrl-C."""
    aim = check_question(study, asked["objective"], asked["top"])
    space = make_space(replace(study, axes=tuple(axis for axis in study.axes if "gpus" not in axis.values)), gpus)
    progress = options.Progress(space.points, asked["quiet"])
    with progress:
        found = run_search(space, aim, asked["top"], progress, executor, keeper)
    progress.finish()
    if found.interrupted and not found.feasible:
        raise KeyboardInterrupt  # there is nothing to show
    return answer(space, found, asked["objective"], prices)


def _answer(searched: list[tuple[Study, Record]], path: str | None, form: str, asked: Asked) -> int:
    results, several = [result for _, result in searched], len(searched) > 1
    found: Record = results[0]
    if several:
        found = {"meta": {**results[0]["meta"], "searches": [result["meta"] for result in results]},
                 "rows": scaling(results)}  # fmt: skip
    else:
        found = {**found, "best": breakdown(searched[0][0], found["rows"][0])}
    interrupted: bool = results[-1]["meta"]["interrupted"]
    code = options.write(path, lambda out: _write(out, found, form, several), lambda: interrupted)
    if asked["picture"] and code == 0:
        from comp_comm.report.search_plot import save_search

        save_search(asked["picture"], found)
        tell(f"wrote {asked['picture']}")
    return code


def _write(out: IO[str], found: dict[str, Any], form: str, several: bool) -> None:
    from comp_comm.report import machine
    from comp_comm.report.search_table import write_search

    if form == "json":
        machine.write_record(out, found)
    elif form in machine.WRITERS:
        machine.write_rows(out, found["rows"], form)
    else:
        write_search(out, found, form, SIDE if several else SHOWN)

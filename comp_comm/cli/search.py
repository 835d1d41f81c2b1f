"""``compcomm search``: the fastest layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from comp_comm.cli import help_text, options, prices, values, workers
from comp_comm.cli.search_answer import write_search
from comp_comm.cli.speech import tell
from comp_comm.configs import catalogue
from comp_comm.configs.exporters import ENDINGS, FORMATS
from comp_comm.configs.overrides import parse_override
from comp_comm.durable import resolved
from comp_comm.errors import ConfigError, InfeasibleError
from comp_comm.records import Record
from comp_comm.report import output
from comp_comm.searches.build_space import make_space
from comp_comm.searches.design import Case, Design, make_design
from comp_comm.searches.objectives import OBJECTIVES
from comp_comm.searches.per_value import check_per
from comp_comm.searches.question import aim_of, check_question
from comp_comm.searches.result import SearchAnswer, answer, checked
from comp_comm.searches.run import run_search
from comp_comm.searches.runner_up import degree_fields
from comp_comm.sweeps.prices import Prices

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from comp_comm.searches.crossover import Crossover
    from comp_comm.searches.run import Keeper
    from comp_comm.sweeps.resume import Checkpoint

OBJECTIVE_HELP = "; ".join(f"{name}: {aim.meaning}" for name, aim in OBJECTIVES.items())

STATE_FORM = 3  # of what a search that is gone on with has kept
Asked = Record
Share: TypeAlias = "Callable[[int], Executor | None]"  # the workers for so many points
ASKED = ("objective", "top", "headroom", "per", "explained", "compared", "picture", "quiet", "jobs",
         "executor", "resume", "emit", "crossover")  # fmt: skip


EXAMPLES = (
    "search --model llama-3-70b --hardware h100 --gpus 64 --batch-tokens 4M --per tp --headroom 20% --compare",
    "search --model config.json --hardware mi300x --gpus 32 --batch-tokens 2M",
    "search --model llama-3-8b --hardware h100 --gpus 64 --seq-len 128K --batch-tokens 4M --cp 2,4,8",
    "search llama-search --gpus 256,512,1024 --crossover comm=10% --plot scaling.png",
    "search llama-search --tokens 15T --price-per-gpu-hour 2.5 --objective cost",
    "search llama-search --network 0.5,1,2,4 --nvs 4,8,16,32 --plot heat.png",
    "search llama-search --hardware h100-sxm,b200-sxm --price-per-gpu-hour 2.5,4",
)


@click.command(cls=help_text.Grouped, epilog=f"Examples: {' | '.join(f'compcomm {line}' for line in EXAMPLES)}")
@options.point_options
@click.option("--objective", default="step", show_default=True, metavar="NAME", help=f"What is best. {OBJECTIVE_HELP}.")
@click.option("--top", type=int, default=10, show_default=True, metavar="N", help="How many of the best to show.")
@click.option("--per", metavar="FIELD[,FIELD]", help="Also the best for each value of these (tp, say, or pp,zero), and "
              "what it costs to differ from the best of all.")  # fmt: skip
@click.option("--crossover", metavar="QUESTION", help="Between which of several --gpus the best passes a value "
              "(comm=30%, of the step), or one kind of layouts falls behind another, FSDP behind TP say "
              "(zero==3,tp==1:tp>1).")  # fmt: skip
@click.option("--headroom", type=values.Share(), metavar="SHARE", help="Share of the memory left free (20% or 0.2): "
              "what devices report less and allocators waste. [default: 0.05; 0 for foundation_models]")  # fmt: skip
@click.option("--explain", "explained", is_flag=True, help="Also explain the best, operation by operation.")
@click.option("--compare", "compared", is_flag=True, help="Also put the best and the best one of "
              "other degrees side by side, term by term.")  # fmt: skip
@prices.price_options
@click.option("--plot", "picture", metavar="FILE", help="Also draw it: step time against memory; over devices or a "
              "factor; or as a heat map over two factors.")  # fmt: skip
@click.option("--emit", type=values.Word(FORMATS), help="Write the best layout alone, as a framework's flags or "
              "configuration, or as a study; what that cannot say is refused.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@workers.options
@options.format_options
def command(path: str | None, form: str | None, **given: Any) -> int:
    """The best layouts of a model on so many devices: every one is evaluated.

    tp, cp, pp, vpp, ep, micro_batch, zero, recompute, sp and placement are searched unless they are given; a list tries
    only its values. Overlaps, schedules and kernels are as given, and searched if a list is given. Several --gpus,
    --hardware or factors on it (--flops, --network, --nvs and so on), batches, sequence lengths or precisions give the
    best at each. With --jobs or --executor the work is shared out; the answer is the same.
    """
    asked = {name: given.pop(name) for name in ASKED}
    form = _format(asked, form, path)
    if asked["resume"]:
        workers.check_resume(path)
    given_prices = [given.pop(name) for name in prices.FLAGS]
    machines = prices.split(given.pop("hardware"))
    if asked["picture"]:
        from comp_comm.report.plot import check_plot

        check_plot(asked["picture"])
    twice = [name for name in dict.fromkeys(machines) if machines.count(name) > 1]
    if twice:
        raise ConfigError(f"--hardware: names {twice[0]} twice")
    names: list[str | None] = [*machines] or [None]
    overrides = given["overrides"]
    studies = [options.point_study({**given, "hardware": name}) for name in names]
    if asked["emit"]:
        from comp_comm.searches.emitted import written_as  # every importer and exporter is behind it

        studies = [written_as(study, asked["emit"]) for study in studies]
    named = [profile.name for study in studies for profile in study.profiles]
    again = next((name for name in named if named.count(name) > 1), None)
    if again and len(machines) > 1:
        raise ConfigError(f"--hardware: {', '.join(machines)} names {again} twice")
    design = make_design(studies)
    asked["per"] = _per(asked["per"])
    asked["crossover"] = _crossover(asked["crossover"])
    _check_one(design, asked)
    asked["machine"] = _machine(machines, overrides, design.cases[0])
    costs = prices.read_prices(given_prices, list(dict.fromkeys(case.place["hardware"] for case in design.cases)))
    if asked["picture"]:
        from comp_comm.report.search_plot import check_design

        check_design(design.axes)
        if design.cases[0].study.plot and not asked["quiet"]:
            options.note(["the study's 'plot' is for sweep; a search draws what it found"])
    kept = _checkpoint(path, design, asked) if asked["resume"] and path else None
    try:
        with workers.opened(asked["executor"], asked["jobs"], asked["quiet"]) as those:
            results, interrupted = _results(design, costs, asked, those, kept)
        code = write_search(design, results, interrupted, path, form, asked)
        if kept and code == 0:
            kept.remove()
            options.forget_partial(path)
    except InfeasibleError:
        if kept:
            kept.remove()
        raise
    finally:
        if kept:
            kept.close()
    return code


def _per(given: str | None) -> tuple[str, ...]:
    """Return the fields that ``--per`` names. Raises ``ConfigError`` where it is given and names none."""
    names = tuple(prices.split(given))
    if given is not None and not names:
        raise ConfigError(f"--per: '{given}' names no field of a layout (tp, say, or pp,zero)")
    return names


def _crossover(given: str | None) -> Crossover | None:
    """Return the question of ``--crossover``. Raises ``ConfigError`` where it is none."""
    if not given:
        return None
    from comp_comm.searches.crossover import crossover_of

    return crossover_of(given)


def _check_one(design: Design, asked: Asked) -> None:
    """Raise ``ConfigError`` where something is asked about the one search of several."""
    for flag, name in (("emit", "emit"), ("explain", "explained"), ("compare", "compared"), ("per", "per")):
        if asked[name] and len(design.cases) > 1:
            raise ConfigError(f"--{flag} is about one search, and this searches {len(design.cases)} times: give "
                              "hardware, devices, batches, factors and stack one value each")  # fmt: skip
    if asked["crossover"] and len({case.gpus for case in design.cases}) < 2:
        raise ConfigError("--crossover is between numbers of devices: give several (--gpus 64,128,256)")


def _format(asked: Asked, form: str | None, path: str | None) -> str:
    """Return the format of the answer; with ``--emit`` it has none of its own, and any file may hold it."""
    if not asked["emit"]:
        return options.prepare(form, path)
    if form:
        raise ConfigError("--emit has a format of its own: leave --format out")
    shown = [flag for flag, name in (("explain", "explained"), ("compare", "compared"), ("per", "per")) if asked[name]]
    if shown:
        raise ConfigError(f"--emit writes the best layout, and nothing else: leave --{' and --'.join(shown)} out")
    catalogue.FILES_READ.clear()
    output.check_ending("-o", path, f"--emit {asked['emit']} writes another kind of file", ENDINGS[asked["emit"]])
    return ""


def _machine(flags: list[str], overrides: tuple[str, ...], case: Case) -> str:
    """Return what the one device of a search is called where it was given: a name, or a path."""
    of_set = [each.value.strip() for each in map(parse_override, overrides) if each.key == "hardware"]
    of_study = case.study.document.data.get("hardware")
    known = [*flags, *of_set, *([of_study] if isinstance(of_study, str) else []), str(case.place["hardware"])]
    return known[0]


def _results(
    design: Design, costs: dict[object, Prices], asked: Asked, those: workers.Workers, kept: Checkpoint | None
) -> tuple[list[SearchAnswer], bool]:
    """Return the result of every search up to Ctrl-C, and whether that came."""
    results: list[SearchAnswer] = []

    def share(points: int) -> Executor | None:
        return those.of(points * len(design.cases), workers.ENOUGH_LAYOUTS, workers.FEWEST_SEARCHERS)

    for number, case in enumerate(design.cases):
        keeper = kept.part(str(number)) if kept else None
        try:
            label = f"search {number + 1} of {len(design.cases)}: " if len(design.cases) > 1 else ""
            results.append(_searched(case, costs[case.place["hardware"]], asked, share, keeper, label))
        except ConfigError as error:
            if len(costs) == 1 or not case.place["hardware"]:  # what is wrong with a device names it
                raise
            raise ConfigError(f"{case.place['hardware']}: {error}") from None
        except KeyboardInterrupt:
            if not results:
                raise
            return results, True
        if number == 0 and not asked["quiet"]:
            options.note(results[0]["meta"].get("notes", ()))
        if results[-1]["meta"]["interrupted"]:
            return results, True
        if len(design.cases) == 1:
            checked(results[0])
    _note_nothing(design, results)
    return results, False


def _note_nothing(design: Design, results: list[SearchAnswer]) -> None:
    """Say where nothing fits, and why at the first of these: the rows have all reasons."""
    failed = [(case, result["reason"]) for case, result in zip(design.cases, results, strict=False) if result["reason"]]
    if failed and len(failed) < len(results):
        (case, reason), others = failed[0], len(failed) - 1
        also = f" (nor at {others} other points: see 'reason' in their rows, --format csv or json)" if others else ""
        tell(f"note: {case.name}: {reason}{also}")


def _checkpoint(path: str, design: Design, asked: Asked) -> Checkpoint:
    """Return what keeps how far the searches have come."""
    from comp_comm.sweeps.resume import Checkpoint
    from comp_comm.version import __version__

    known = {"version": __version__, "study_sha256": [case.study.sha256() for case in design.cases],
             "gpus": [case.gpus for case in design.cases], "objective": asked["objective"],
             "top": asked["top"], "headroom": asked["headroom"],
             "per": [*asked["per"], *(asked["crossover"].fields if asked["crossover"] else ())],
             "compare": asked["compared"], "form": STATE_FORM}  # fmt: skip
    return Checkpoint(resolved(path), known)


def _searched(case: Case, cost: Prices, asked: Asked, share: Share, keeper: Keeper | None, label: str) -> SearchAnswer:
    """Return the result of one search, or what there is of it after Ctrl-C."""
    aim = aim_of(case.study, check_question(case.study, asked["objective"], asked["top"], cost), asked["headroom"])
    space = make_space(case.study, case.gpus)
    per = asked["crossover"].fields if asked["crossover"] else asked["per"]
    if asked["crossover"]:
        asked["crossover"].check(space, cost)
    else:
        check_per(space, per)
    space = space.grouped(tuple(dict.fromkeys((*per, *(degree_fields(space) if asked["compared"] else ())))))
    progress = options.Progress(space.points, asked["quiet"], label)
    with progress:
        state = run_search(space, aim, asked["top"], progress, share(space.points), keeper)
    progress.finish()
    if state.interrupted and not state.feasible:
        raise KeyboardInterrupt  # there is nothing to show
    return answer(space, state, aim, cost, per)

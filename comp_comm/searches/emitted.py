"""The best layout of a search as a file of a framework, or as a study: what is written is read again, and compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from comp_comm.configs import catalogue
from comp_comm.configs.exporters.exported import Exported
from comp_comm.configs.exporters.writing import EXPORTERS, STUDY, TRIED, written_study
from comp_comm.configs.importers.imported import Imported
from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.importers.study_text import study_of
from comp_comm.configs.study import Study, study_from
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS, Value
from comp_comm.sweeps.point import ComparedTerm, compare
from comp_comm.sweeps.stacked import STACK, with_stack

MODEL = COST_MODELS[DEFAULT_COST_MODEL]
DERIVED = ("dp", "accumulation")  # they follow from devices, degrees and batches
# What is not of a layout, but of machines and of how they are counted: no framework's file has it.
AROUND = (
    *(name for name in MODEL.fields if FIELDS[name].group == "evolution"),
    "sustained", "framework_gib", "interference", "tokens", "count_attention", "phase", "routing", "imbalance",
)  # fmt: skip
# A DeepSpeed JSON is beside a program, which has the model, and a launcher, which has the devices.
BESIDE_DEEPSPEED = ("gpus", *(name for name in MODEL.fields if FIELDS[name].group == "transformer"))
OF_EXPERTS = ("overlap_ep", "ep_dispatch", "routed_weights")
SAME = 1e-12
MOST_NAMED = 6


def emitted(kind: str, study: Study, row: Mapping[str, object], machine: str) -> str:
    """Return the best layout of a study's search, a row of its answer, as a text of a kind.

    ``machine`` is what the study calls its hardware. Raises ``ConfigError`` where a framework's file cannot say
    something of the layout, or its model: what importing it would change is named.
    """
    best = _best(study, row, machine)
    if kind == STUDY:
        return written_study(best)
    if (study.cost_model or DEFAULT_COST_MODEL) != DEFAULT_COST_MODEL:
        raise ConfigError(f"--emit {kind}: layouts of {study.cost_model} are none of a framework; give --emit {STUDY}")
    values = _filled({**study.fixed, **best.fields, "dp": _plain(row["dp"])})
    try:
        text = EXPORTERS[kind](Exported(study.title, study.model.name if study.model else "", values))
        _check(kind, text, best, values)
    except ConfigError as error:
        if values.get(STACK) == kind:
            raise
        raise ConfigError(f"{error}; or all that {kind} does: --stack {kind}") from None
    return text


def written_as(study: Study, kind: str) -> Study:
    """Return a study whose search tries only what a file of a kind can say, with the stack that the file is for.

    >>> found = written_as(study_from({"set": {"zero": 3}}), "deepspeed")
    >>> found.fixed["stack"], found.fixed["pp"], found.fixed["recompute"]
    ('deepspeed', 1, 'none')
    """
    if kind not in TRIED or (study.cost_model or DEFAULT_COST_MODEL) != DEFAULT_COST_MODEL:
        return study
    moving = {name for axis in study.axes for name in axis.values}
    known = {*(study.model.fields if study.model else ()), *study.fixed, *moving}
    limits = {name: values for name, values in TRIED[kind].items()
              if name not in {*study.fixed, *moving} and (name not in OF_EXPERTS or "experts" in known)}  # fmt: skip
    stack = {} if STACK in {*study.fixed, *moving} else {STACK: kind}
    told = ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in limits.items())
    note = f"--emit {kind}: tried is only what its file can say" + (f" ({told})" if told else "")
    return replace(study, fixed={**study.fixed, **stack, **{name: values[0] for name, values in limits.items()}},
                   stacked={**study.stacked, **limits}, notes=(*study.notes, note))  # fmt: skip


def study_of_row(study: Study, row: Mapping[str, object], machine: str) -> Study:
    """Return a layout of a study's search, a row of its answer, as a study of one point."""
    return study_from(study_of(_best(study, row, machine)))


def _best(study: Study, row: Mapping[str, object], machine: str) -> Imported:
    """Return the one point of a study that a row is, with the fields that its model does not say."""
    results = [column for column in MODEL.columns if column not in FIELDS]
    chosen = {name: _plain(value) for name, value in row.items() if name in FIELDS and name not in results}
    others = {name: values for name, values in study.stacked.items() if name not in chosen}
    cost_model = COST_MODELS.get(study.cost_model or DEFAULT_COST_MODEL, MODEL)
    study = with_stack(replace(study, fixed={**study.fixed, **chosen}, stacked=others), cost_model)
    known = study.model.name if study.model and study.model.name in catalogue.names("model") else ""
    brought = study.model.fields if study.model and known else {}
    fixed = {name: value for name, value in study.fixed.items() if brought.get(name) != value}
    fields = {name: value for name, value in {**fixed, **chosen}.items() if name not in DERIVED}
    title = study.title
    return Imported("search", "best", title, f"a search: {title}", fields, model=known, hardware=machine,
                    cost_model=study.cost_model or "")  # fmt: skip


def _plain(value: object) -> Value:
    return value if isinstance(value, (int, float, str)) else str(value)


def _filled(values: Mapping[str, Value]) -> dict[str, Value | None]:
    """Return every field of the cost model, with its default where it is not given."""
    return {name: values.get(name, MODEL.default(name)) for name in MODEL.fields}


def _check(kind: str, text: str, best: Imported, values: Mapping[str, Value | None]) -> None:
    """Raise ``ConfigError`` where a text does not mean the point that it was written from."""
    carried = (*AROUND, *(BESIDE_DEEPSPEED if kind == "deepspeed" else ()))
    kept = {name: value for name, value in best.fields.items() if name in carried}
    try:
        again = import_text(text, f"--emit {kind}")
        again = replace(again, fields={**again.fields, **kept}, hardware=best.hardware, model=again.model or (
            best.model if again.needs_model else ""))  # fmt: skip
        terms = compare(study_from(study_of(best)), study_from(study_of(again)))
    except ConfigError as error:
        raise ConfigError(f"--emit {kind}: cannot say this layout: {error}") from None
    if _differs(terms):
        raise ConfigError(f"--emit {kind}: cannot say this layout: {_differing(best, again, values)}")


def _differs(terms: Sequence[ComparedTerm]) -> bool:
    return any(not math.isclose(term["a"], term["b"], rel_tol=SAME) for term in terms)


def _differing(best: Imported, again: Imported, values: Mapping[str, Value | None]) -> str:
    """Return which fields come back as something else, in words; of those, what alone makes another point of it."""
    back = _filled(study_from(study_of(again)).fixed)
    names = [name for name in MODEL.fields if values[name] != back[name] and name not in (*DERIVED, *AROUND)]
    complete = replace(best, model="", fields=study_from(study_of(best)).fixed)
    names = [name for name in names if _matters(complete, name, back[name])] or names
    parts = [f"{name} {'is not given' if values[name] is None else values[name]}, and would be "
             f"{'not given' if back[name] is None else back[name]}" for name in names[:MOST_NAMED]]  # fmt: skip
    more = f"; and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return "; ".join(parts) + more + ". Give a value that it has (--set KEY=VALUE), or another format"


def _matters(complete: Imported, name: str, value: Value | None) -> bool:
    """Return whether a point, with all that its model says, is another one, or none, where one field is another."""
    others = {field: given for field, given in complete.fields.items() if field != name}
    changed = replace(complete, fields=others if value is None else {**others, name: value})
    try:
        return _differs(compare(study_from(study_of(complete)), study_from(study_of(changed))))
    except ConfigError:
        return True


__all__ = ["emitted", "study_of_row"]

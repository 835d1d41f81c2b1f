"""Rules of the model, of the layout, and of both together, which points of a step break."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from comp_comm.choices import MODULES, Recompute
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import distinct_codes, to_codes, to_float
from comp_comm.kernel_choices import Recipe
from comp_comm.layers.rules import stage_rules
from comp_comm.layout_rules import layout_rules
from comp_comm.model_rules import model_rules
from comp_comm.violation import Violation, broken_rules, rule


def layout_violations(work: Work, of_layers: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return the rules of model and layout that points break; those of a layer are known."""
    given, layout, t = work.scenario.layout, work.layout, work.transformer
    rules = [
        *model_rules(work.scenario.transformer, t),
        *layout_rules(given, layout),
        *of_layers,
        *_module_rules(work),
        *_adapter_rules(work),
    ]
    return (*work.scenario.violations, *broken_rules([*rules, *stage_rules(t, given, layout)]))


def block_rules(work: Work) -> list[Violation]:
    """Return what the blocks of layers ask of model and layout, at points that have such layers."""
    asked = [(number, asked_rule) for number, kind in enumerate(work.pattern.kinds)
             for asked_rule in kind.rules(kind.context(work.context))]  # fmt: skip
    counts = work.pattern.totals if asked else []
    return [replace(each, broken=each.broken & (counts[number] > 0)) for number, each in asked]


def _adapter_rules(work: Work) -> list[Violation]:
    """Return whether any layer of a frozen model has the linear layers that are to have adapters."""
    if not work.context.frozen:
        return []
    none = "no layer has the linear layers that lora_targets names"
    f, split = work.scenario.formats, (to_float(work.layout.tp) > 1) | (to_float(work.layout.etp) > 1)
    return [
        rule(work.trained_parameters == 0, none, "lora_targets", "lora_rank"),
        rule(f.packs & split, "frozen_precision goes with tp and etp 1: no stack splits weights of 4 bits",
             "frozen_precision", "tp", "etp"),
        rule(f.packs & (to_codes(f.recipe) != int(Recipe.NONE)), "frozen_precision goes with a precision of 16 "
             "bits: weights of 4 bits are made 16 for their products", "frozen_precision", "precision"),
    ]  # fmt: skip


def _module_rules(work: Work) -> list[Violation]:
    """Return whether a layer of the model has each of the modules that are to be recomputed."""
    codes = np.asarray(work.layout.recompute)
    asked = [name for name in MODULES[1:] if any(name in Recompute.at(code).modules for code in distinct_codes(codes))]
    if not asked:
        return []
    present = dict.fromkeys(asked, np.asarray(False))
    for kind, count in zip(work.pattern.kinds, work.pattern.totals, strict=True):
        for module in (module for block in kind.modules(kind.context(work.context), asked) for module in block):
            if module.name in present:
                present[module.name] = present[module.name] | ((module.freed > 0) & (count > 0))
    named = {name: np.isin(codes, [option for option in Recompute if name in option.modules]) for name in asked}
    return [rule(named[name] & ~present[name], f"no layer has {name}, which recompute names", "recompute")
            for name in asked]  # fmt: skip

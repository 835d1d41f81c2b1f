"""Number formats of a training run, as bytes: what is computed with, kept, sent and accumulated."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Precision, Switch
from comp_comm.formulas.arrays import (
    Array,
    Mask,
    Numeric,
    everywhere,
    isnan,
    maximum,
    somewhere,
    to_codes,
    to_float,
    where,
)
from comp_comm.kernel_choices import Recipe
from comp_comm.lazy import cached_property
from comp_comm.lora import FrozenPrecision
from comp_comm.structs import struct
from comp_comm.violation import Violation, rule

Code = int | NDArray[np.intp]
# Fields of formats, and of how GEMMs run in few bits.
FORMATS = ("precision", "comm_precision", "grad_precision", "accumulate_precision", "optimizer_precision",
           "dispatch_precision", "combine_precision", "frozen_precision")  # fmt: skip
RECIPE = ("recipe", "fp8_attention", "fp8_head", "fp8_param_gather", "fp8_activations")
NONE = -1  # the code of a format that is not given


@struct
class Formats:
    """Bytes an element takes: as a GEMM's operand, as activation, on the wire, as weight, gradient and Adam moment.

    ``dispatch`` and ``combine`` are those on the wire to experts and back (NaN: as others). ``accumulate`` is a second
    gradient buffer (0 for none), ``master`` the optimizer's copy of the weights. ``recipe`` is the code of what GEMMs
    run in; ``fp8_attention`` and ``fp8_head`` are 1 where attention and the output layer do, too. ``operand_comm`` are
    the bytes on the wire of an activation that a GEMM takes as its operand, ``gathered`` those of a layer's weight, and
    ``copies`` those that this takes in memory beside ``weight``, as the recipe has it. ``frozen`` is the code of the
    format of frozen weights (-1: as others).
    """

    operand: Numeric = 2
    activation: Numeric = 2
    comm: Numeric = 2
    weight: Numeric = 2
    grad: Numeric = 2
    accumulate: Numeric = 0
    moment: Numeric = 4
    master: Numeric = 4
    recipe: Code = Recipe.NONE
    fp8_attention: Numeric = 0
    fp8_head: Numeric = 0
    fp8_param_gather: Numeric = 0
    fp8_activations: Numeric = 0
    gathered: Numeric = 2
    copies: Numeric = 0
    dispatch: Numeric = np.nan
    combine: Numeric = np.nan
    frozen: Code = NONE

    @property
    def main_grad(self) -> Array:
        """Bytes of a gradient in the sum over micro-batches: of the second buffer, where there is one."""
        return where(to_float(self.accumulate) > 0, self.accumulate, self.grad)

    @property
    def packs(self) -> Mask:
        """Where frozen weights have a format of few bits."""
        return np.asarray(to_codes(self.frozen) != NONE)

    def packed(self, part: str) -> Array:
        """Return the bytes that a frozen weight takes: of its number (``size``), or of its ``scales``; or ``kernels``.

        >>> [float(replace(BF16, frozen=int(FrozenPrecision.NF4_SINGLE)).packed(part)) for part in ("size", "scales")]
        [0.5, 0.0625]
        """
        return FrozenPrecision.look_up(part, np.maximum(to_codes(self.frozen), 0))

    def on_the_way(self, direction: str) -> Numeric:
        """Return the bytes of a number on its way to an expert (``dispatch``) or back (``combine``).

        >>> float(BF16.on_the_way("dispatch")), float(replace(BF16, dispatch=1).on_the_way("dispatch"))
        (2.0, 1.0)
        """
        given = np.asarray(getattr(self, direction), np.float64)
        blank = isnan(given)
        return self.comm if everywhere(blank) else where(blank, self.comm, given)

    operand_comm: Numeric = 2

    @cached_property
    def nonlinear_kept(self) -> Numeric:
        """Bytes of an input of a nonlinearity that is kept for the backward pass."""
        few = Switch.ON.where(self.fp8_activations)
        return where(few, 1.0, self.activation) if somewhere(few) else self.activation

    def held(self, shards: Mask) -> Formats:
        """Return the formats of what a device holds, where the shards of weights are the optimizer's copy.

        >>> held = BF16.held(np.asarray(True))
        >>> float(held.weight), float(held.grad), float(held.master)
        (4.0, 4.0, 0.0)
        """
        if not somewhere(shards):
            return self
        full = maximum(self.weight, self.master)
        return replace(
            self,
            weight=where(shards, full, self.weight),
            grad=where(shards, maximum(self.grad, full), self.grad),
            master=where(shards, 0.0, self.master),
        )


BF16 = Formats()


class Quantised(NamedTuple):
    """Codes of what GEMMs in fewer than 16 bits do, and whether the device wants operands in both orientations.

    ``usual`` is the code of the recipe that the device's stacks use in fp8, ``recipe`` that of a study (-1: not given).
    """

    usual: Numeric = Recipe.TENSORWISE
    transposed: Numeric = 1.0
    recipe: Code = NONE
    fp8_attention: Code = Switch.OFF
    fp8_head: Code = Switch.OFF
    fp8_param_gather: Code = Switch.OFF
    fp8_activations: Code = Switch.OFF


def recipe_of(precision: Code, recipe: Code, usual: Numeric) -> NDArray[np.intp]:
    """Return the codes of the recipes that GEMMs run by: those given, or the usual one of a precision.

    >>> int(recipe_of(Precision.FP8, NONE, Recipe.MXFP8)) == Recipe.MXFP8
    True
    """
    of_precision = np.where(Precision.FP8.where(precision), to_codes(usual), int(Recipe.NONE))
    of_precision = np.where(Precision.NVFP4.where(precision), int(Recipe.NVFP4), of_precision)
    given = to_codes(recipe)
    return to_codes(np.where(given == NONE, of_precision, given))


def format_rules(precision: Code, quantised: Quantised) -> list[Violation]:
    """Return the rules that a precision, a recipe and its switches must keep together."""
    code, given = to_codes(precision), to_codes(quantised.recipe)
    fp8, fp4 = Precision.FP8.where(code), Precision.NVFP4.where(code)
    by_fp4, none = Recipe.NVFP4.where(given), Recipe.NONE.where(given)
    by_fp8 = (given != NONE) & ~none & ~by_fp4
    few = fp8 | fp4
    by_row = Recipe.ROWWISE.where(given) | Recipe.ROWWISE_WITH_GW_HP.where(given)
    switches = (("fp8_attention", quantised.fp8_attention), ("fp8_head", quantised.fp8_head),
                ("fp8_param_gather", quantised.fp8_param_gather),
                ("fp8_activations", quantised.fp8_activations))  # fmt: skip
    return [
        rule(by_fp8 & ~fp8, "this recipe goes with precision: fp8", "recipe", "precision"),
        rule(by_fp4 & ~fp4, "recipe: nvfp4 goes with precision: nvfp4", "recipe", "precision"),
        rule(none & few, "recipe: none goes with a precision of 16 bits or more", "recipe", "precision"),
        *(rule(Switch.ON.where(on) & ~few, f"{name} goes with precision fp8 or nvfp4", name, "precision")
          for name, on in switches),
        rule(Switch.ON.where(quantised.fp8_param_gather) & fp4, "fp8_param_gather goes with precision: fp8; weights in "
             "nvfp4 are gathered in 16 bits", "fp8_param_gather", "precision"),
        rule(Switch.ON.where(quantised.fp8_param_gather) & by_row, "fp8_param_gather is of recipes with a scale for a "
             "tensor or a block: with one for each row weights are gathered in 16 bits", "fp8_param_gather", "recipe"),
    ]  # fmt: skip


def make_formats(
    quantised: Quantised,
    precision: Code,
    comm: Code,
    grad: Code,
    accumulate: Code,
    optimizer: Code,
    dispatch: Code = NONE,
    combine: Code = NONE,
    frozen: Code = NONE,
) -> Formats:
    """Return the bytes of a run in these formats, codes of `comp_comm.choices.Precision` (-1: not given).

    FP8 and NVFP4 are formats of GEMM operands: what is kept and sent has 16 bits. 32-bit weights need no master copy.
    Quantised weights are kept beside those of 16 bits, in both orientations but for per-tensor ones that need only one;
    with ``fp8_param_gather`` they are all there is. With a scale for each row nothing is kept, nor sent, quantised.

    >>> fp8 = make_formats(Quantised(), Precision.FP8, NONE, Precision.FP32, NONE, Precision.FP32)
    >>> float(fp8.weight), float(fp8.grad)
    (2.0, 4.0)
    """
    operand = Precision.look_up("size", precision)
    kept = maximum(operand, 2.0)
    recipe = recipe_of(precision, quantised.recipe, quantised.usual)
    copies, gathered, sent = to_float(0.0), kept, _given(comm, kept)
    operands = sent
    if somewhere(recipe != int(Recipe.NONE)):
        size = where(recipe != int(Recipe.NONE), Recipe.look_up("size", recipe), 0.0)
        single = Recipe.look_up("per_tensor", recipe) * (1 - to_float(quantised.transposed))
        gathers = to_float(Switch.ON.where(quantised.fp8_param_gather))
        stored = (recipe != int(Recipe.NONE)) & (Recipe.look_up("stored", recipe) > 0)
        copies = where(stored, size * (2.0 - single) - gathers * kept, 0.0)
        gathered = where(gathers > 0, size, kept)
        operands = _given(comm, where(stored, size, kept))
    return Formats(
        operand=operand,
        activation=kept,
        comm=sent,
        weight=kept,
        grad=_given(grad, kept),
        accumulate=_given(accumulate, 0.0),
        moment=_given(optimizer, 4.0),
        master=where(kept < 4, 4.0, 0.0),
        recipe=recipe,
        fp8_attention=to_float(quantised.fp8_attention),
        fp8_head=to_float(quantised.fp8_head),
        fp8_param_gather=to_float(quantised.fp8_param_gather),
        fp8_activations=to_float(quantised.fp8_activations),
        gathered=gathered,
        copies=copies,
        dispatch=_given(dispatch, np.nan),
        combine=_given(combine, np.nan),
        operand_comm=operands,
        frozen=frozen,
    )


def _given(code: Code, otherwise: Numeric) -> Array:
    number = to_codes(code)
    return where(number == NONE, otherwise, Precision.look_up("size", number))  # of NONE: any

"""A formula takes anything NumPy turns into numbers, for any of its arguments: a list is its members one by one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

from comp_comm import formulas

# They take or give something else than numbers: devices, stages; `growth` is statistics of whole series.
OTHERS = {
    "all_reduce_seconds", "all_to_all_seconds", "boundary_seconds", "collective_seconds", "hop_seconds", "summa_gemm",
    "uneven_bubble_seconds", "interleaved_seconds", "interleaved_is_known", "more_chunks_seconds",
    "gpipe_bubble_seconds", "student_975",
}  # fmt: skip
GIVEN = (3.0, 5.0)


def all_formulas():
    for info in pkgutil.iter_modules(formulas.__path__):
        module = importlib.import_module(f"comp_comm.formulas.{info.name}")
        for name, made in vars(module).items():
            own = inspect.isfunction(made) and made.__module__ == module.__name__ and not name.startswith("_")
            if own and info.name not in ("arrays", "growth") and name not in OTHERS:
                yield pytest.param(made, id=f"{info.name}.{name}")


def numbers(answer):
    """Return the numbers of an answer, of which it may have several."""
    return [np.asarray(part, float) for part in answer] if isinstance(answer, tuple) else [np.asarray(answer, float)]


@pytest.mark.parametrize("formula", list(all_formulas()))
def test_a_list_is_its_members(formula):
    parameters = inspect.signature(formula).parameters.values()
    usual = [GIVEN[0] if p.default is inspect.Parameter.empty else p.default for p in parameters]
    with np.errstate(all="ignore"):
        for place, value in enumerate(usual):
            if type(value) not in (int, float):
                continue
            first, second, both = ([*usual[:place], given, *usual[place + 1 :]] for given in (*GIVEN, list(GIVEN)))
            singles = zip(numbers(formula(*first)), numbers(formula(*second)), strict=True)
            for found, (one, other) in zip(numbers(formula(*both)), singles, strict=True):
                if not one.ndim:
                    np.testing.assert_allclose(np.broadcast_to(found, 2), [float(one), float(other)], rtol=1e-12)

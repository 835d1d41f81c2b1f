"""What a choice is: a field whose values are words, each with a code and with coefficients.

Formulas see codes in arrays, users see words. Both are looked up by the option's name, never by its place in a list.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Option = TypeVar("Option", bound="Choice")


class Choice(IntEnum):
    """The options of a field. A member is its code; ``word`` is what users write and read.

    >>> from comp_comm.choices import Recompute
    >>> Recompute.of("full") is Recompute.FULL, Recompute.words()[:5]
    (True, ('none', 'selective', 'full', 'per_op', 'core_attn'))
    """

    word: str

    def __new__(cls: type[Option], word: str, *coefficients: float) -> Option:
        """Number the options in the order they are listed in."""
        code = len(cls.__members__)
        member = int.__new__(cls, code)
        member._value_ = code
        member.word = word
        return member

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """Return the words of the options, in the order of their codes."""
        return tuple(_codes(cls))

    @classmethod
    def of(cls: type[Option], word: str) -> Option:
        """Return the option of a word. Raises ``ValueError`` for a word that is none."""
        code = _codes(cls).get(word)
        if code is None:
            raise ValueError(f"'{word}' is no {cls.__name__}; it is one of: {', '.join(cls.words())}")
        return cls.at(code)

    @classmethod
    def at(cls: type[Option], code: int) -> Option:
        """Return the option of a code."""
        option: Option = _options(cls)[code]
        return option

    @classmethod
    def spelled(cls, raw: object) -> object:
        """Return the word that is meant by another spelling of it; what has none is returned as it is."""
        return raw

    @classmethod
    def allowed(cls) -> str:
        """Return what a value may be, in words; nothing where the words say it."""
        return ""

    @classmethod
    def table(cls, coefficient: str) -> NDArray[np.float64]:
        """Return a coefficient of every option, in the order of their codes."""
        return _table(cls, coefficient)

    @classmethod
    def look_up(cls, coefficient: str, codes: ArrayLike) -> NDArray[np.float64]:
        """Return a coefficient of the option at each point.

        >>> from comp_comm.kernel_choices import ElementwiseKernels
        >>> ElementwiseKernels.look_up("cost", [0, 1])
        array([1. , 1.5])
        """
        if isinstance(codes, np.generic):
            return _table(cls, coefficient)[int(codes)]  # type: ignore[no-any-return]
        return np.asarray(_table(cls, coefficient)[np.asarray(codes, np.intp)])

    def where(self, codes: ArrayLike) -> NDArray[np.bool_]:
        """Return where this option is chosen.

        >>> from comp_comm.choices import Recompute
        >>> Recompute.FULL.where([0, 2])
        array([False,  True])
        """
        if isinstance(codes, np.generic):
            return codes == int(self)  # type: ignore[no-any-return]
        return np.asarray(np.asarray(codes) == int(self))


@cache
def _options(choice: type[Option]) -> tuple[Option, ...]:
    return tuple(choice)


@cache
def _codes(choice: type[Choice]) -> dict[str, int]:
    return {option.word: int(option) for option in choice}


@cache
def _table(choice: type[Choice], coefficient: str) -> NDArray[np.float64]:
    return np.asarray([getattr(option, coefficient) for option in choice], dtype=np.float64)

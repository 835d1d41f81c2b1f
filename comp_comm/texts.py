"""A text at each point of a grid: codes of the distinct texts there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Texts:
    """Which of the ``texts`` each point has; a text that is not given is empty."""

    codes: NDArray[np.intp]
    texts: tuple[str, ...]

    @property
    def given(self) -> bool:
        """Whether any point has a text."""
        return any(self.texts)


NO_TEXT = Texts(np.asarray(0, np.intp), ("",))

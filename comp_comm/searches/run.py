"""A search, run by this process or shared out among workers; gone on with where it was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from comp_comm.records import Record
from comp_comm.searches.best import BestPoints
from comp_comm.searches.block_search import NEAR_MISSES, Progress, keep_memory, search_block
from comp_comm.searches.groups import GroupResults
from comp_comm.searches.objectives import Aim
from comp_comm.searches.partition import block_count
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Keeper(Protocol):
    """What keeps the state of a search, so that a killed one can be gone on with."""

    @property
    def state(self) -> Record | None:
        """What was kept, None at the beginning."""

    def keep(self, make: Callable[[], Record], now: bool = False) -> None:
        """Keep the state that ``make`` returns, if it is time to, or ``now``."""


def run_search(
    space: SearchSpace,
    aim: Aim,
    top: int,
    progress: Progress | None = None,
    executor: Executor | None = None,
    keeper: Keeper | None = None,
    near_misses: int = NEAR_MISSES,
) -> SearchState:
    """Decide every layout of a space and return what was found.

    ``top`` best layouts are kept, and ``near_misses`` faster ones that do not fit: with none, these take no time.
    ``executor`` shares the work out; ``keeper`` gives back what a killed search had found, and keeps what this one has.
    """
    keep_memory()
    kept = _parallel().unpacked_state(keeper.state) if keeper is not None and keeper.state is not None else None
    groups = GroupResults.of(len(space.grouping.values)) if space.grouping else None
    state = kept or SearchState(BestPoints(top), BestPoints(near_misses), groups=groups)
    steps = _steps if executor is None else partial(_parallel().steps, executor=executor)
    for points in steps(state, space, aim):
        stop, complete = bool(progress and progress(points)), state.blocks == block_count(space)
        state.interrupted = stop and not complete
        if keeper is not None:
            keeper.keep(partial(_parallel().packed_state, state), now=stop or complete)
        if stop:
            break
    return state


def _parallel() -> ModuleType:
    """Return what shares a search out and packs its state: imported for those alone, as most are done here at once."""
    from comp_comm.searches import parallel

    return parallel


def _steps(state: SearchState, space: SearchSpace, aim: Aim) -> Iterator[int]:
    """Search the blocks that are left; yield the points of each when it is done."""
    while state.blocks < block_count(space):
        yield search_block(state, aim, space, state.blocks)

"""Sweeps over a study's grid, the best of them, and the inverse question. Knows nothing of how a cost model counts."""

from comp_comm.sweeps.engine import row_blocks
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.ranking import ranked_blocks
from comp_comm.sweeps.result import Result, sweep

__all__ = ["Plan", "Result", "make_plan", "ranked_blocks", "row_blocks", "sweep"]

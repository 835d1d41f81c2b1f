"""The fastest layouts of a model on so many devices: every one of them is evaluated."""

from comp_comm.search.engine import Found, run_search
from comp_comm.search.result import search
from comp_comm.search.space import Space, make_space

__all__ = ["Found", "Space", "make_space", "run_search", "search"]

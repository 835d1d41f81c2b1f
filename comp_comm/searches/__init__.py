"""The fastest layouts of a model on so many devices: every one of them is decided."""

from comp_comm.searches.build_space import make_space
from comp_comm.searches.result import search
from comp_comm.searches.run import run_search
from comp_comm.searches.space import SearchSpace

__all__ = ["SearchSpace", "make_space", "run_search", "search"]

"""Searches: the best layouts of a model on so many devices. Every layout is decided, none is sampled.

Read in the order of a search, which `result.search` goes through (`docs/architecture.md` has it in prose):

======================= ===============================================================================
``design``              several searches in one: a search for each device, number of devices, factor
``question``            what is asked: objective, how many, how much memory is left free
``build_space``         a study's `SearchSpace` (``space``), by ``row_choices``, ``valid_rows``, ``placements``
``run``, ``parallel``   all blocks (``partition``) in this process, or shared out; kept, and gone on with
``block_search``        one block (``blocks``): count, bound (``bounds``), time, keep
``state``               what is kept: ``best``, ``near_optimal``, ``pareto_front``, ``groups``
``result``              the answer: ``answer_rows``, ``alternatives``, ``runner_up``, ``per_value``, ``coverage``
``crossover``           between which numbers of devices the answers of several searches cross a value
``emitted``             the best layout as a framework's file
======================= ===============================================================================

One search by hand, the one whose space is told in ``space``. The space is made of the study, an aim says what is best:

>>> import numpy as np
>>> from comp_comm.configs.study import study_from
>>> from comp_comm.searches import make_space, run_search
>>> from comp_comm.searches.objectives import OBJECTIVES, Aim
>>> given = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 8, "seq_len": 8192, "cp": 1}}
>>> space = make_space(study_from(given), 8)
>>> state = run_search(space, Aim(OBJECTIVES["step"], headroom=0.05), top=3)

All layouts were counted, and most of them fit on 80 GB. It was one block; a block has half a million points:

>>> state.candidates, state.feasible > 1500, state.blocks
(1884, True, 1)

The best is one point of the plan: its place on the axes of ZeRO, recomputation, sequence parallelism and rows. The
numbers that tell it from others are its score (seconds of a step, here) and its bytes of memory:

>>> best = state.best.ties[0]
>>> len(best.place), best.numbers[0] == best.score
(4, True)
>>> layout = space.point(best.place)
>>> layout["tp"], layout["pp"], layout["placement"]
(1, 1, 'tp-cp-dp-pp')

It is the first of the Pareto front, along which less memory is paid for with time. Whatever is asked of the best with
less memory is read from there:

>>> float(state.front.scores[0]) == best.score, state.front.places[0] == best.place
(True, True)
>>> bool((np.diff(state.front.scores) > 0).all() and (np.diff(state.front.memory) < 0).all())
True
"""

from comp_comm.searches.build_space import make_space
from comp_comm.searches.result import search
from comp_comm.searches.run import run_search
from comp_comm.searches.space import SearchSpace

__all__ = ["SearchSpace", "make_space", "run_search", "search"]

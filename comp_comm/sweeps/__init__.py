"""Sweeps over a study's grid, the best of them, and the inverse question. Knows nothing of how a cost model counts.

Read in the order of a sweep (`docs/architecture.md` has it in prose):

=================================== ===================================================================
``plan``, ``stacked``, ``where``    a study, checked: a `Plan` with its cost model, columns, conditions
``plan_notes``, ``no_effect``       what a reader of its answers should know
``grid``, ``nouns``, ``machines``   its axes as arrays, and the scenario of any part of them
``blocks``                          how a grid is cut
``shared_parts``                    what many rows of a table have in common, evaluated once
``engine``, ``ranking``             rows block by block: all, or the best
``result``, ``stream``, ``meta``    rows as a value, or on their way out; what an answer says of itself
``parallel``, ``executors``         the same by many workers
``resume``, ``manifest``            the same after a kill
``point``, ``explain_over``,        a point, or a few, operation by operation
``volume``, ``differences``
``solve``                           the inverse question: where a column meets a target
``case_study``, ``what_if``,        what one paper (arXiv:2302.02825) asks
``algorithmic``
=================================== ===================================================================

What makes a sweep fast is that every array has only the axes that it depends on, up to the columns. Here tp is an axis
of three values and the network's speed one of two:

>>> from comp_comm.configs.study import study_from
>>> from comp_comm.sweeps.engine import row_blocks
>>> from comp_comm.sweeps.plan import make_plan
>>> point = {"hidden": 4096, "seq_len": 2048, "micro_batch": 1}
>>> given = {"cost_model": "comp_vs_comm", "set": point, "sweep": {"tp": [1, 2, 4], "network": [1, 2]}}
>>> plan = make_plan(study_from(given))
>>> everything = tuple(slice(0, length) for length in plan.grid.shape)
>>> scenario = plan.grid.scenario(everything)
>>> scenario.transformer.hidden.shape, scenario.layout.tp.shape, scenario.hardware.tiers[0].bandwidth.shape
((), (3, 1), (1, 2))
>>> answer = plan.evaluate(everything)
>>> answer.compute_s.shape, answer.serialized_comm_s.shape
((3, 1), (3, 2))
>>> [len(rows) for rows in row_blocks(plan, ["tp", "network", "compute_s"])]
[6]
"""

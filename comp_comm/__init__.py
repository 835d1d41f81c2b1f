"""compcomm: how much of a transformer's training time goes to communication, today and on the hardware to come.

The command line and the Python rooms are the same verbs; nothing is imported here, so that importing costs nothing.

>>> from comp_comm.sweep import sweep
>>> point = {"cost_model": "comp_vs_comm", "set": {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}}
>>> round(sweep(point).to_records()[0]["serialized_comm_fraction"], 3)
0.478
"""

__version__ = "0.1.0"

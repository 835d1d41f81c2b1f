"""One layer under tensor and data parallelism, as in arXiv:2302.02825."""

from comp_comm.costmodels.comp_vs_comm.model import MODEL

__all__ = ["MODEL"]

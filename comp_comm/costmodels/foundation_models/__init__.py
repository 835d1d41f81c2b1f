"""A training step under 1D, 2D or sequence-split TP, as in arXiv:2410.00273."""

from comp_comm.costmodels.foundation_models.model import MODEL

__all__ = ["MODEL"]

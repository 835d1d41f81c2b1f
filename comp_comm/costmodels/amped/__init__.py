"""A training step on nodes, as in AMPeD (ISPASS 2023)."""

from comp_comm.costmodels.amped.model import MODEL

__all__ = ["MODEL"]

"""Timing kernels and collectives of the machine at hand, into the tables that the readers read."""

"""The door: what ``import comp_comm as cc`` offers."""

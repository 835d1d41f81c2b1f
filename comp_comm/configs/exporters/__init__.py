"""Layouts as the configuration of a framework: one file a framework, each the other way round of its importer."""

STUDY = "study"
FORMATS = ("megatron", "torchtitan", "nemo", "deepspeed", STUDY)  # words of the exporters, without loading any

__all__ = ["FORMATS", "STUDY"]

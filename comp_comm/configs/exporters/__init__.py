"""Layouts as the configuration of a framework: one file a framework, each the other way round of its importer."""

from comp_comm.configs.catalogue import SUFFIXES as YAML

STUDY = "study"
# Words of the exporters, without loading any, and what the names of their files may end in: arguments have no such.
ENDINGS = {"megatron": (".sh", ".txt", ".args", ""), "torchtitan": (".toml",), "nemo": YAML, "deepspeed": (".json",),
           STUDY: YAML}  # fmt: skip
FORMATS = tuple(ENDINGS)

__all__ = ["ENDINGS", "FORMATS", "STUDY"]

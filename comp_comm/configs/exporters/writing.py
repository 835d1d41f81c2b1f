"""Every format that a layout can be written in, by its word; and a study as a YAML of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from comp_comm.configs.exporters import STUDY as STUDY
from comp_comm.configs.exporters import deepspeed, megatron, nemo, torchtitan
from comp_comm.configs.exporters.exported import Exported
from comp_comm.configs.importers.imported import Imported
from comp_comm.configs.importers.study_text import study_text
from comp_comm.field import Value

EXPORTERS: dict[str, Callable[[Exported], str]] = {
    each.KIND: each.export for each in (megatron, torchtitan, nemo, deepspeed)
}
TRIED: dict[str, Mapping[str, tuple[Value, ...]]] = {
    each.KIND: each.TRIED for each in (megatron, torchtitan, nemo, deepspeed)
}


def written_study(imported: Imported) -> str:
    """Return a study that has one point, the best of a search, as a YAML text.

    >>> found = Imported("search", "best", "Best", "a search", {"tp": 8}, hardware="h100-sxm")
    >>> print(written_study(found).splitlines()[0])
    # The best layout of a search.
    """
    _, _, body = study_text(imported).partition("\n")
    return f"# The best layout of {imported.source}.\n{body}"

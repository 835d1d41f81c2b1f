"""The figures of the four papers, by paper and name."""

from __future__ import annotations

from collections.abc import Mapping

from comp_comm.reproduce import (
    amped_figures,
    comp_vs_comm,
    comp_vs_comm_discussion,
    comp_vs_comm_method,
    demystifying,
    foundation_figures,
)
from comp_comm.reproduce.figure import Figure, Maker

_ORDER = ("section-2.4", "fig-4", "fig-5", "fig-6", "section-4.3.1", "fig-9", "fig-10a", "fig-10b", "fig-11a",
          "fig-11b", "fig-12", "fig-13", "section-4.3.8", "section-6.1.3", "section-6.2", "section-6.3", "section-6.4",
          "table-4")  # fmt: skip
_COMP_VS_COMM = {**comp_vs_comm.FIGURES, **comp_vs_comm_method.FIGURES, **comp_vs_comm_discussion.FIGURES}
PAPERS: dict[str, Mapping[str, Maker]] = {
    comp_vs_comm.PAPER: {name: _COMP_VS_COMM[name] for name in _ORDER},
    demystifying.PAPER: demystifying.FIGURES,
    foundation_figures.PAPER: foundation_figures.FIGURES,
    amped_figures.PAPER: amped_figures.FIGURES,
}
TITLES = {
    "comp-vs-comm": "Comp-vs-Comm (arXiv:2302.02825)", "demystifying": "Demystifying (arXiv:2408.10197)",
    "foundation-models": "Foundation models (arXiv:2410.00273)", "amped": "AMPeD (ISPASS 2023)",
}  # fmt: skip


def figures_of(paper: str, name: str = "all") -> list[Figure]:
    """Return the figures of a paper, all or one.

    >>> figures_of("comp-vs-comm", "fig-12")[0].counts()["met"]
    3
    """
    makers = PAPERS[paper]
    return [makers[each]() for each in (makers if name == "all" else [name])]


__all__ = ["PAPERS", "TITLES", "figures_of"]

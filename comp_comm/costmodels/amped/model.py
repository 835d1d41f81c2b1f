"""AMPeD, "An Analytical Model for Performance in Distributed Training of Transformers" (ISPASS 2023)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from comp_comm.costmodels.amped import columns, fields
from comp_comm.costmodels.dense_notes import unseen
from comp_comm.costmodels.model import NO_PARTS, CostModel, Parts
from comp_comm.costmodels.scenario import Scenario

if TYPE_CHECKING:
    from comp_comm.costmodels.amped.step import AmpedStep


def evaluate(scenario: Scenario, parts: Parts = NO_PARTS) -> AmpedStep:
    """Return the step of a scenario; broken rules are listed, not raised.

    References
    ----------
    .. [1] D. Moolchandani et al., ISPASS 2023, IEEE 10158196.

    Examples
    --------
    >>> from comp_comm.choices import Recompute
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> a100 = load_profile("papers/hardware/amped-a100").hardware("fp16")
    >>> gpt = Transformer(12288, 2048, layers=80, heads=96, vocab=51200)
    >>> layout = Layout(tp=8, pp=8, gpus=1536, micro_batch=2, vpp=2, global_batch=2304, recompute=Recompute.FULL)
    >>> step = evaluate(Scenario(gpt, layout, a100))
    >>> round(float(step.hardware_flops / (step.work.gpus * step.step_s)) / 1e12)
    148
    """
    from comp_comm.costmodels.amped.step import AmpedStep
    from comp_comm.costmodels.work import work_of

    return AmpedStep(work_of(scenario, scenario.hardware))


MODEL = CostModel(
    "amped",
    "a training step on nodes, its mapping within and between them, as in AMPeD (ISPASS 2023)",
    evaluate,
    fields.FIELDS,
    fields.REQUIRED,
    columns.COLUMNS,
    ranking="tokens_per_s",
    headline="visible_comm_fraction",
    shown=fields.SHOWN,
    derived=columns.DERIVED,
    defaults=fields.DEFAULTS,
    needs=fields.NEEDS,
    notes=partial(unseen, name="amped", fields=fields.FIELDS),
    plain_gpt=True,
)

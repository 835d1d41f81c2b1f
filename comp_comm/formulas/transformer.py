"""One transformer layer under tensor parallelism, as arXiv:2302.02825 counts it: Eqs 1-5, 7 and 8.

Its FLOP are in `comp_comm.formulas.layer_flops`, its messages and weights in `comp_comm.formulas.layer_sizes`.
"""

from __future__ import annotations

from comp_comm.formulas.layer_flops import (
    attention_forward_flops,
    fc_backward_flops,
    fc_forward_flops,
    flops_per_activation,
    layer_forward_flops,
    linear_forward_flops,
    tokens,
    training_flops,
)
from comp_comm.formulas.layer_sizes import (
    activation_message_bytes,
    core_parameters,
    layer_weights,
)

__all__ = [
    "activation_message_bytes",
    "attention_forward_flops",
    "core_parameters",
    "fc_backward_flops",
    "fc_forward_flops",
    "flops_per_activation",
    "layer_forward_flops",
    "layer_weights",
    "linear_forward_flops",
    "tokens",
    "training_flops",
]

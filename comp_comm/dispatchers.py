"""Choices of how tokens go to their experts."""

from __future__ import annotations

import numpy as np

from comp_comm.choice import Choice

# Bytes of a number and expert that a fused kernel reads and writes, once. Tokens are sorted by expert before experts
# and back after them, and by all-to-alls also before they are sent and after they are back, where a device has several
# experts (Megatron-LM, token_dispatcher.py: `permute`, `sort_chunks_by_idxs`, `unpermute`).
SORTED = 4.0


class Dispatcher(Choice):
    """How tokens go to their experts: whether a token is sent once to a node, whatever experts it has there, and the
    kernels of that: multiprocessors they take, seconds that one of these needs for a copy, and bytes/s it moves.

    - ``all_gather``: every device gets all tokens of the group, and keeps what its experts need.
    - ``all_to_all``: each copy of a token is sent by itself, by the library of collectives (NCCL).
    - ``deepep``, ``hybridep``: a token goes once to each node over the network, and copies go on inside.

    Of DeepEP we fitted the two numbers on kernels inside one node of H100, H200 and B200, 4 to 24 multiprocessors
    and 2048 to 7168 numbers a token (AIConfigurator database); of HybridEP on 16 multiprocessors of B200 in fp8 and
    bf16 (its README); it sends the router's weights of all experts of a domain in 32 bit with every copy, and
    gathers a byte for each token and expert of the group before. Multiprocessors are what the libraries take unless
    told otherwise: NCCL 16 on machines of eight adapters, none of which it shares with compute (NVIDIA/nccl, issues
    689 and 1598).
    """

    ALL_TO_ALL = "all_to_all", 0, 16.0, 0.0, np.inf, 20
    ALL_GATHER = "all_gather", 0, 16.0, 0.0, np.inf, 20
    DEEPEP = "deepep", 1, 20.0, 150e-9, 26e9, 12
    HYBRIDEP = "hybridep", 1, 16.0, 130e-9, 48e9, 12, 4.0, 1.0

    @property
    def sorts_again(self) -> bool:
        """Whether each copy is put in order before it is sent, too."""
        return self.word == "all_to_all"

    def __init__(
        self, word: str, once: float, sms: float, copy_s: float, sm_bandwidth: float, launches: float,
        weight: float = 0.0, routed: float = 0.0,
    ) -> None:  # fmt: skip
        self.weight, self.routed = weight, routed  # bytes of an expert beside a copy, and in the map that is gathered
        self.once, self.sms, self.copy_s, self.sm_bandwidth = once, sms, copy_s, sm_bandwidth
        self.launches = launches  # kernels of preparation, dispatch and combination that the host launches


class Routing(Choice):
    """How tokens fall on experts: on all alike (forced, or balanced by a loss), or at random."""

    BALANCED = "balanced"
    RANDOM = "random"


class LoadBalancing(Choice):
    """What keeps experts evenly loaded, with what is sent for it.

    - ``off``: nothing.
    - ``loss``: an auxiliary loss of each micro-batch, for which tokens of every expert are counted over TP and CP.
    - ``bias``: a bias of the router that is moved once a step, by the tokens of every expert of all devices of a stage
      (DeepSeek-V3, arXiv:2412.19437, section 2.1.2).
    """

    OFF = "off"
    LOSS = "loss"
    BIAS = "bias"


class RoutedWeights(Choice):
    """The format in which copies of a token are weighted after their experts: that of compute, or 32 bits (torchtitan).

    ``size`` are the bytes of a number that is kept for it; that of compute where 0.
    """

    COMPUTE = "compute", 0.0
    FP32 = "fp32", 4.0

    def __init__(self, word: str, size: float) -> None:
        self.size = size


class RouterPrecision(Choice):
    """The format of a router's product: that of compute, or 32 bits (DeepSeek-V3, GLM-4.5, dots.llm1 in transformers).

    ``size`` are the bytes of a number of the copies that are made for it, and kept: of its input, and of its weights.
    """

    COMPUTE = "compute", 0.0
    FP32 = "fp32", 4.0

    def __init__(self, word: str, size: float) -> None:
        self.size = size


class PermuteFusion(Choice):
    """Whether tokens are sorted by expert in one kernel or in several: bytes of a token's number and expert that move
    beyond those of the fused kernels (`SORTED`).

    Unfused: as much more as fusion saved NVIDIA's DeepSeek-V3 on 256 GB200, 494.5 to 529.6 TFLOP/s (Megatron-LM's
    guide), some of it time of the host.
    """

    OFF = "off", 24.0
    ON = "on", 0.0

    def __init__(self, word: str, more: float) -> None:
        self.more = more

"""What a block of a layer has to say of itself: everything the cost models ask of it stands in one class.

A block is what lies between two residual sums: attention, a feed-forward network, a mixture of experts. All answers are
those of one device, of a forward pass of one micro-batch; they broadcast over the points of a sweep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from comp_comm.choices import ActivationFunction, Bias
from comp_comm.formulas.arrays import Array, Numeric, maximum, to_float, where
from comp_comm.kernel_choices import CudaGraph, ElementwiseKernels
from comp_comm.layers.module import Module
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation
from comp_comm.violation import Violation

MASK = 1.0  # bytes of a dropout mask's element


class LayerParameters(NamedTuple):
    """Parameters a device holds: those that all its replicas hold too, and those of its experts.

    Where these are frozen, ``adapters`` and ``expert_adapters`` are those of them that are trained; ``packed`` and
    ``expert_packed`` are those frozen ones that have a format of few bits, ``widest`` the largest matrix of these.
    """

    dense: Array
    experts: Array = to_float(0.0)
    adapters: Array | None = None
    expert_adapters: Array = to_float(0.0)
    packed: Array = to_float(0.0)
    expert_packed: Array = to_float(0.0)
    widest: Array = to_float(0.0)

    @property
    def trained(self) -> LayerParameters:
        """Those of them that are trained."""
        return self if self.adapters is None else LayerParameters(self.adapters, self.expert_adapters)


class TpReplicated(NamedTuple):
    """Parameters that TP does not split: every device of it has them alike, and sees a part of the tokens; and tensors.

    Under sequence parallelism each device makes a part of their gradients. Of them ``biases`` are parameters that are
    added to what TP sums, one tensor for so many; their gradients are whole where the sums' gradients are gathered
    first (DTensor).
    """

    parameters: Array = to_float(0.0)
    tensors: Array = to_float(0.0)
    biases: Array = to_float(0.0)
    bias_tensors: Array = to_float(0.0)


class SavedActivations(NamedTuple):
    """Bytes of activations saved for the backward pass, by the module that makes them."""

    module: str
    size: Array


class Cache(NamedTuple):
    """What a block keeps of every token while it generates: numbers of a token, and the work of attending to them.

    ``numbers`` are kept in all, ``held_numbers`` on one device; ``attended`` tokens are looked at in a step, at
    ``flops`` for each of them and each sequence, over all devices. ``held_state`` are bytes on one device of a state
    that does not grow with the sequence: read and written in every step.
    """

    numbers: Array
    held_numbers: Array
    attended: Array
    flops: Array
    held_state: Array = to_float(0.0)


@dataclass(frozen=True)
class Block(ABC):
    """A block of a layer. Those beside the residual stream say so with ``residual``: they add no sum and no norms."""

    residual: ClassVar[bool] = True
    kernels: ClassVar[float] = 4.0  # that the host launches in a forward pass
    graph: ClassVar[str] = "others"  # which part of a layer it is for CUDA graphs
    quantises_input: ClassVar[bool] = True  # GEMMs alone read its input, in their format
    synchronises: ClassVar[bool] = False  # whether the host must know a result of the device before it goes on

    @abstractmethod
    def operations(self, c: Context) -> Sequence[Operation]:
        """Return the operations of a forward pass."""

    @abstractmethod
    def parameters(self, c: Context) -> LayerParameters:
        """Return the parameters held, without the norms before and after the block."""

    @abstractmethod
    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return the activations saved for the backward pass, without the inputs of the block and of its norms."""

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return which of them every device of TP has alike; without norms before and after the block."""
        return TpReplicated()

    def tensors(self, c: Context) -> Array:
        """Return how many tensors the parameters are, as PyTorch's modules have them: here the weights of its GEMMs."""
        gemms = (op for op in self.operations(c) if isinstance(op, Gemm))
        return to_float(sum((to_float(op.matrices) * (to_float(op.count) > 0) for op in gemms), to_float(0.0)))

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the collectives of a block's own; those of tensor parallelism around it are the layer's."""
        return []

    def launches(self, c: Context) -> Array:
        """Return the kernels that the host launches one by one in a forward pass."""
        return self.kernels * CudaGraph.look_up(self.graph, c.layout.cuda_graph)

    def splits(self, c: Context) -> Numeric:
        """Return how many of the layer's gathers and reductions over TP the block needs: 1, or none."""
        return 1.0

    def gathers_itself(self, c: Context) -> Numeric:
        """Return for how many of those the layer need not gather: the block gathers something else, or has it."""
        return 0.0

    def rules(self, c: Context) -> Sequence[Violation]:
        """Return what model and layout must keep together for the block; points that have no such layer are passed."""
        return []

    def modules(self, c: Context) -> Sequence[Module]:
        """Return the parts of the block that the backward pass can recompute, by Megatron-LM's names."""
        return []

    def last_gemm(self, c: Context) -> str:
        """Return the name of the GEMM that ends the block, after which nothing is kept; empty where there is none."""
        return ""

    def last_input(self, c: Context) -> Array:
        """Return the bytes of the input of the GEMM that ends a network: of what it keeps, the backward pass's first.

        They are free again when the gradients of all its weights are there. Other blocks keep little, and say 0.
        """
        return to_float(0.0)

    def cache(self, c: Context, length: Array) -> Cache | None:
        """Return what is kept of ``length`` tokens while generating; None where nothing is.

        Raises ``NotImplementedError`` where a block cannot generate tokens, as far as is known here.
        """
        return None


def biased(c: Context, part: str) -> Array:
    """Return 1 where the linear layers of a part (``qkv``, ``output``, ``ffn``) have a bias."""
    return Bias.look_up(part, c.t.bias)


def activation(c: Context, name: str, elements: Array, count: Numeric = 1.0) -> Elementwise:
    """Return the nonlinearity of a feed-forward network: it reads one or two inputs, and writes one.

    Written out, it is the operations of its function, and the product with the gate.
    """
    size = c.formats.activation * elements
    moved, formula = (1.0 + c.gates) * size, "(2, gated 3) T F / tp elements"
    parts = written_out(c)
    if not any_of(parts):
        return Elementwise(
            name, formula, count=count, forward_bytes=moved, backward_bytes=1.5 * moved, factor=c.kernel_cost
        )
    apart = ActivationFunction.look_up("forward", c.t.activation_function) + 3.0 * (c.gates - 1.0)
    back = ActivationFunction.look_up("backward", c.t.activation_function) + 5.0 * (c.gates - 1.0)
    forward, backward = (where(parts > 0, size * numbers / ElementwiseKernels.EAGER.cost, once)
                         for numbers, once in ((apart, moved), (back, 1.5 * moved)))  # fmt: skip
    return Elementwise(
        name,
        f"{formula}, written out more",
        count=count,
        forward_bytes=forward,
        backward_bytes=backward,
        factor=c.kernel_cost,
    )


def written_out(c: Context) -> Array:
    """Return the numbers that a nonlinearity keeps beside its input where it is written out: kernels run one by one."""
    eager = ElementwiseKernels.EAGER.where(c.layout.kernels)
    return eager * ActivationFunction.look_up("parts", c.t.activation_function)


def nonlinearity_inputs(c: Context) -> Array:
    """Return the bytes a feed-forward network keeps of each number of its width for its nonlinearity: one or two.

    A rectifier needs none: its output is kept. One in a kernel with the product keeps the two inputs of that kernel.
    """
    separate = (c.gates == 1) | ElementwiseKernels.EAGER.where(c.layout.kernels)
    unread = separate * (1.0 - ActivationFunction.look_up("input_kept", c.t.activation_function))
    return to_float((c.gates - unread) * c.formats.nonlinear_kept + written_out(c) * c.formats.activation)


def nonlinearity_outputs(c: Context) -> Array:
    """Return the bytes that it keeps of what its nonlinearity makes: the input of the matrix down.

    Where kernels run one by one, also the gate after its nonlinearity, an input of the product.
    """
    gate_saved = ElementwiseKernels.look_up("gate_kept", c.layout.kernels)
    return to_float(c.operand_kept + gate_saved * (c.gates - 1.0) * c.formats.activation)


def mlp_parameters(c: Context, width: Array) -> Array:
    """Return the parameters of a feed-forward network of so many columns on this device."""
    h = to_float(c.t.hidden)
    return (c.gates + 1) * h * width + biased(c, "ffn") * (c.gates * width + h)


def at_least_one(value: Numeric) -> Array:
    """Return a number that a kind of layer needs, 1 at points that have no such layer: it is not counted there."""
    return maximum(to_float(value), 1.0)

"""A kind of layer: blocks one after the other, with the norms, residual sums and TP collectives around them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from comp_comm.choices import PER_OPERATOR, Norm, Switch
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Array, Numeric, add_up, largest, maximum, somewhere, to_codes, to_float, where
from comp_comm.formulas.host import CHECKPOINT_LAUNCHES
from comp_comm.kernel_choices import CudaGraph, ElementwiseKernels, NormKernel
from comp_comm.layers.adapters import (
    adapter_activations,
    adapter_collectives,
    adapter_launches,
    adapter_operations,
    adapter_parameters,
    down_unread,
    input_unread,
    replicated_adapters,
)
from comp_comm.layers.attention_residual import (
    residual_bytes,
    residual_operations,
    residual_parameters,
    residual_tensors,
)
from comp_comm.layers.block import (
    MASK,
    Block,
    Cache,
    LayerParameters,
    SavedActivations,
    TpReplicated,
)
from comp_comm.layers.frozen_weights import frozen, packed_weights, unpacking, unpacking_launches
from comp_comm.layers.module import Module
from comp_comm.layers.per_operator import saved_outputs
from comp_comm.layers.tensor_parallel import ALL_REDUCE, GATHER, SCATTER, partial_gradients, tp_collectives
from comp_comm.layout import NOT_GIVEN
from comp_comm.lazy import cached_property
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Elementwise, Operation
from comp_comm.violation import Violation

# Elements of H a token moves: a norm reads and writes; a residual sum with dropout reads two and writes one, of both
# blocks' outputs at once where they are side by side.
NORM_PASSES, SUM_PASSES, PARALLEL_SUM_PASSES = 2.0, 3.0, 2.0
NORMS_AND_SUMS = "norms, residuals, dropout"


@dataclass(frozen=True)
class LayerKind:
    """Layers that are alike: their name, which tells them from others of a model, and their blocks in order.

    Those ``of_encoder`` read the encoder's own sequence; those ``of_prediction`` are modules of multi-token prediction,
    which have no place among the layers.
    """

    name: str = field(compare=False)
    blocks: tuple[Block, ...]
    of_encoder: bool = False
    of_prediction: bool = False

    @cached_property
    def _residuals(self) -> int:
        """Blocks with a residual sum after them."""
        return sum(block.residual for block in self.blocks)

    def context(self, c: Context) -> Context:
        """Return the context of these layers."""
        return c.of_encoder() if self.of_encoder else c

    def operations(self, c: Context) -> list[Operation]:
        """Return the operations of a forward pass of one micro-batch, on one device."""
        return [operation for part in self.operations_by_block(c) for operation in part]

    def operations_by_block(self, c: Context) -> list[Sequence[Operation]]:
        """Return the operations of each block in order, and then those around them."""
        around: list[Operation] = [self._norms_and_sums(c), *residual_operations(c, self._residuals)]
        if not c.frozen:
            return [*(block.operations(c) for block in self.blocks), around]
        of_blocks = [(block, frozen(block.operations(c))) for block in self.blocks]
        return [*([*unpacking(c, ops), *ops, *adapter_operations(c, block)] for block, ops in of_blocks), around]

    def collectives(self, c: Context) -> list[Collective]:
        """Return the collectives of one layer and micro-batch."""
        of_blocks = [collective for block in self.blocks for collective in block.collectives(c)]
        of_adapters = [each for block in self.blocks for each in adapter_collectives(c, block)] if c.frozen else []
        return [*self._tensor_parallel(c), *of_blocks, *of_adapters]

    def launches(self, c: Context) -> Array:
        """Return the kernels that the host launches one by one in a forward pass: the blocks', norms and sums."""
        sums = self._residuals * (1.0 + (to_float(c.t.attn_res_block) > 0))
        around = CudaGraph.look_up("others", c.layout.cuda_graph) * (self._norms(c) + sums)
        launched = around + to_float(sum((block.launches(c) for block in self.blocks), to_float(0.0)))
        if not c.frozen:
            return launched
        more = (CudaGraph.look_up(block.graph, c.layout.cuda_graph)
                * (adapter_launches(c, block) + unpacking_launches(c, block.operations(c)))
                for block in self.blocks)  # fmt: skip
        return launched + add_up(more)

    @property
    def synchronises(self) -> bool:
        """Whether the host must know a result of the device before it goes on."""
        return any(block.synchronises for block in self.blocks)

    def parameters(self, c: Context) -> LayerParameters:
        """Return the parameters of one layer that a device holds."""
        parts = [block.parameters(c) for block in self.blocks]
        norms = self._norms(c) * to_float(c.t.hidden) * Norm.look_up("weights", c.t.norm)
        norms = norms + residual_parameters(c, self._residuals)
        dense, experts = (
            sum(sizes, to_float(0.0)) for sizes in zip(*((part.dense, part.experts) for part in parts), strict=True)
        )
        if not c.frozen:
            return LayerParameters(to_float(dense + norms), to_float(experts))
        trained, of_experts = (to_float(add_up(adapter_parameters(c, block, each) for block in self.blocks))
                               for each in (False, True))  # fmt: skip
        packed = [packed_weights(c, block.operations(c)) for block in self.blocks]
        return LayerParameters(
            dense=to_float(dense + norms + trained),
            experts=to_float(experts + of_experts),
            adapters=trained,
            expert_adapters=of_experts,
            packed=to_float(add_up(each.dense for each in packed)),
            expert_packed=to_float(add_up(each.experts for each in packed)),
            widest=largest(each.widest for each in packed),
        )

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return the parameters of one layer that every device of TP has alike: norms, and those of the blocks.

        Where these are frozen, those of adapters.
        """
        if c.frozen:
            sizes = zip(*(replicated_adapters(c, block) for block in self.blocks), strict=True)
            return TpReplicated(*(add_up(each) for each in sizes))
        parts = [block.tp_replicated(c) for block in self.blocks]
        tensors = self._own_tensors(c)
        parameters = add_up((tensors * to_float(c.t.hidden), *(part.parameters for part in parts)))
        biases, of_biases = (add_up(sizes) for sizes in zip(*((part.biases, part.bias_tensors) for part in parts),
                                                            strict=True))  # fmt: skip
        return TpReplicated(parameters, add_up((tensors, *(part.tensors for part in parts))), biases, of_biases)

    def tensors(self, c: Context) -> Array:
        """Return how many tensors the parameters of one layer are, as PyTorch's modules have them."""
        return add_up((self._own_tensors(c), *(block.tensors(c) for block in self.blocks)))

    def saved_activations(self, c: Context) -> list[SavedActivations]:
        """Return the activations that one layer saves of a micro-batch: inputs of norms and blocks, and the blocks'.

        With GELU, dropout and unfused attention in 16 bit: s b h (10 + 24 / t) and 5 a s^2 b / t without sequence
        parallelism, the first s b h 34 / t with it (Korthikanti et al., arXiv:2205.05198, Table 2).
        """
        size, drop = to_float(c.formats.activation), to_float(Switch.ON.where(c.t.dropout))
        # Side by side, the blocks have one input between them.
        inputs = self._residuals - Switch.ON.where(c.t.parallel_blocks)
        around = c.split_tokens * c.t.hidden * (self._norms(c) * size + self._residuals * MASK * drop)
        around = around + inputs * self._input_size(c) * c.kept_input_tokens * c.t.hidden
        around = around - self._ungathered(c) * self._input_size(c) * c.t.hidden
        around = around + self._norms(c) * c.norm_saved * c.split_tokens * c.t.hidden
        around = around + residual_bytes(c, self._residuals)
        of_blocks = (saved for block in self.blocks for saved in block.saved_activations(c))
        saved = [SavedActivations("layernorm", to_float(around)), *of_blocks]
        return [*saved, SavedActivations("adapters", self._of_adapters(c))] if c.frozen else saved

    def last_input(self, c: Context) -> Array:
        """Return the bytes of the input of its last network's last matrix."""
        return self.blocks[-1].last_input(c)

    def modules(self, c: Context, named: Collection[str]) -> list[list[Module]]:
        """Return what can be recomputed of the layer: norms, parts of blocks, and by torchtitan's policy if named."""
        return [*self.block_modules(c), [self.per_operator(c)] if PER_OPERATOR in named else []]

    def block_modules(self, c: Context) -> list[list[Module]]:
        """Return what can be recomputed of the layer's norms, and of each block."""
        inputs = self._residuals - Switch.ON.where(c.t.parallel_blocks)
        before = np.minimum(self._norms(c), inputs)
        norm, _ = self._norm_bytes(c)
        passes = before * norm / maximum(self._norms(c) * norm + self._sum_bytes(c), 1.0)
        statistics = c.norm_saved * c.split_tokens
        freed = to_float((self._input_size(c) * c.kept_input_tokens + statistics) * c.t.hidden * before)
        norms = Module("layernorm", freed, {NORMS_AND_SUMS: passes}, launches=before * _checkpoint(c))
        return [[norms], *([self._in_layer(c, block, module) for module in block.modules(c)] for block in self.blocks)]

    def skipped_by_early_stop(self, c: Context) -> Module:
        """Return what full recomputation need not do once all is there that the backward pass needs (early stop).

        That is the layer's last GEMM and its reduction, where no norm after it, nor dropout, keeps what it makes.
        """
        name = self.blocks[-1].last_gemm(c)
        last = to_float((to_float(c.t.norms) <= 2) & Switch.OFF.where(c.t.dropout)) * bool(name)
        reduced = last * (to_float(c.layout.tp) > 1)
        calls = {SCATTER: reduced * c.layout.sp, ALL_REDUCE: reduced * (1.0 - to_float(c.layout.sp))}
        return Module("last GEMM", to_float(0.0), {name: last}, calls)

    def _of_adapters(self, c: Context) -> Array:
        """Return the bytes that adapters keep, less those of inputs that frozen layers without adapters do not."""
        of_input = self._input_size(c) * c.kept_input_tokens * c.t.hidden
        width = c.tokens * to_float(c.t.ffn_hidden) / c.layout.tp
        return to_float(add_up(
            adapter_activations(c, block)
            - input_unread(c, block) * of_input
            - down_unread(c, block) * width * c.operand_kept
            for block in self.blocks
        ))  # fmt: skip

    def _in_layer(self, c: Context, block: Block, module: Module) -> Module:
        """Return a module of a block with the gathers and reductions of TP by name, and what the host does for it."""
        module = replace(module, launches=_checkpoint(c, block.graph))
        split = to_float(module.splits) * (to_float(c.layout.tp) > 1)
        if not any_of(split):
            return module
        scattered = split * c.layout.sp
        calls = {GATHER: scattered, SCATTER: scattered, ALL_REDUCE: split - scattered}
        return replace(module, collectives={**module.collectives, **calls})

    def per_operator(self, c: Context) -> Module:
        """Return what torchtitan's policy recomputes: all but the outputs that it keeps, and the layer's input."""
        saved = saved_outputs(c, self.operations(c), self.collectives(c))
        entry = c.formats.activation * c.split_tokens * c.t.hidden
        freed = add_up(each.size for each in self.saved_activations(c)) - (entry + saved.size)
        return Module(PER_OPERATOR, to_float(freed), saved.operations, saved.collectives, launches=_checkpoint(c))

    def caches(self, c: Context, length: Array) -> list[Cache]:
        """Return what the blocks keep of ``length`` tokens while generating.

        Raises ``ConfigError`` where that is not known of one of them.
        """
        try:
            return [cache for block in self.blocks if (cache := block.cache(c, length)) is not None]
        except NotImplementedError:
            raise ConfigError(f"inference does not model what a {self.name} keeps of a token") from None

    def rules(self, c: Context) -> list[Violation]:
        """Return the rules of the blocks."""
        return [rule for block in self.blocks for rule in block.rules(c)]

    def _norms(self, c: Context) -> Array:
        """Return how many norms there are: ``norms`` of a layer of two blocks, half of them of each block more."""
        return np.ceil(to_float(c.t.norms) * self._residuals / 2)

    def _own_tensors(self, c: Context) -> Array:
        """Return how many tensors of hidden numbers are beside the blocks: of norms, and of attention residuals."""
        norms = self._norms(c) * Norm.look_up("weights", c.t.norm)
        return to_float(norms + residual_tensors(c, self._residuals))

    def _input_size(self, c: Context) -> Array:
        """Return the bytes of a number that is kept of a block's input, of all blocks in the mean."""
        inside = sum(block.residual and block.quantises_input for block in self.blocks) / self._residuals
        return inside * c.operand_kept + (1.0 - inside) * c.formats.activation

    def _ungathered(self, c: Context) -> Array:
        """Return the tokens that are not kept of inputs because their block gathers none: experts read their part."""
        gathered_tokens = c.kept_input_tokens - c.split_tokens
        if not any_of(gathered_tokens):
            return to_float(0.0)
        without_gather = (block.residual * (to_float(block.splits(c)) == 0) for block in self.blocks)
        return to_float(gathered_tokens * sum(without_gather, to_float(0.0)))

    def _sum_bytes(self, c: Context) -> Array:
        """Return the bytes of an element that residual sums move forward."""
        passes = where(Switch.ON.where(c.t.parallel_blocks), PARALLEL_SUM_PASSES, SUM_PASSES)
        return to_float(c.formats.activation * passes * self._residuals)

    def _norm_bytes(self, c: Context) -> tuple[Array, Array]:
        """Return the bytes of an element that a norm moves, forward and backward, without what kernels cost more."""
        fused = to_float(c.formats.activation * NORM_PASSES)
        given = to_codes(c.layout.norm_kernel)
        as_kernels = ElementwiseKernels.EAGER.where(c.layout.kernels) * int(NormKernel.EAGER)
        kernel = np.where(given == NOT_GIVEN, as_kernels, given)
        apart = Norm.RMSNORM.where(c.t.norm) & ~NormKernel.FUSED.where(kernel)
        if not somewhere(apart):
            return fused, 1.5 * fused
        forward, backward = (NormKernel.look_up(way, kernel) / c.kernel_cost for way in ("forward", "backward"))
        return where(apart, forward, fused), where(apart, backward, 1.5 * fused)

    def _norms_and_sums(self, c: Context) -> Operation:
        elements, sums, norms = c.split_tokens * c.t.hidden, self._sum_bytes(c), self._norms(c)
        forward, backward = (elements * (norms * norm + times * sums)
                             for norm, times in zip(self._norm_bytes(c), (1.0, 1.5), strict=True))  # fmt: skip
        return Elementwise(
            NORMS_AND_SUMS,
            "(2 norms + 6) T_s H elements",
            count=1.0,
            forward_bytes=forward,
            backward_bytes=backward,
            factor=c.kernel_cost,
        )

    def _tensor_parallel(self, c: Context) -> list[Collective]:
        """Return TP's: an all-reduce after each block, or a gather before and a scatter after it (SP).

        Each is done once forward and once backward (Megatron-LM: 4 of m = b s H a layer); blocks side by side are
        summed before they are reduced. Experts that are not shared have their own.
        """
        many = to_float(to_float(c.layout.tp) > 1)
        if not any_of(many):
            return []
        times: Numeric = sum((block.splits(c) for block in self.blocks), to_float(0.0))
        message = c.tokens * c.t.hidden * c.formats.comm
        own_gathers = to_float(sum((block.gathers_itself(c) for block in self.blocks), to_float(0.0))) * many
        count = (times - to_float(c.t.parallel_blocks)) * many
        calls = tp_collectives(c, "layer", message, count, own_gathers)
        return [*calls, *partial_gradients(c, self.tp_replicated(c), many)]


def _checkpoint(c: Context, graph: str = "others") -> Array:
    """Return the launches in whose time the host has a part recomputed, of a layer's part for CUDA graphs."""
    return CHECKPOINT_LAUNCHES * CudaGraph.look_up(graph, c.layout.cuda_graph)

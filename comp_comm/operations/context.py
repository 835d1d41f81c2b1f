"""What every builder of operations asks: the model and layout resolved, and the numbers that follow from both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Architecture, Bias, MasterWeights, Norm, SequenceInputs, Switch
from comp_comm.dispatchers import LoadBalancing
from comp_comm.formats import Formats
from comp_comm.formulas.arrays import Array, Numeric, everywhere, maximum, somewhere, to_codes, to_float, where
from comp_comm.group import Group
from comp_comm.kernel_choices import ElementwiseKernels, NormKernel, Recipe
from comp_comm.layout import NOT_GIVEN, Layout
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.transformer import Transformer


@struct
class Context:
    """A resolved model on a resolved layout, in number formats."""

    t: Transformer
    layout: Layout
    formats: Formats

    def of_encoder(self) -> Context:
        """Return the context of an encoder that stands beside a decoder: its own sequence, and no mask."""
        t = replace(self.t, seq_len=self.t.encoder_seq_len, architecture=int(Architecture.ENCODER))
        return replace(self, t=t)

    @cached_property
    def tokens(self) -> Array:
        """Tokens of a micro-batch on this device."""
        return to_float(self.layout.micro_batch) * self.t.seq_len / self.layout.cp

    @cached_property
    def encoder_tokens(self) -> Array:
        """Tokens of a micro-batch that the encoder of an encoder-decoder reads on this device."""
        return to_float(self.layout.micro_batch) * self.t.encoder_seq_len / self.layout.cp

    @cached_property
    def sequence_split(self) -> Numeric:
        """What sequence parallelism divides the tokens outside TP's GEMMs by."""
        sp = Switch.ON.where(self.layout.sp)
        if not somewhere(sp):
            return to_float(1.0)
        return self.layout.tp if everywhere(sp) else where(sp, self.layout.tp, 1.0)

    @cached_property
    def split_tokens(self) -> Array:
        """Tokens on this device outside TP's GEMMs."""
        return self.tokens / self.sequence_split

    @cached_property
    def kept_input_tokens(self) -> Array:
        """Tokens that are kept of what TP's GEMMs have for input: all where what was gathered is kept."""
        kept = SequenceInputs.KEPT.where(self.layout.sequence_inputs)
        return where(kept, self.tokens, self.split_tokens) if somewhere(kept) else self.split_tokens

    @cached_property
    def split_inputs(self) -> Array:
        """1 where sequence parallelism splits the inputs of TP's GEMMs, and gathers them again backward."""
        again = SequenceInputs.AGAIN.where(self.layout.sequence_inputs)
        return to_float(Switch.ON.where(self.layout.sp) & (to_float(self.layout.tp) > 1) & again)

    @cached_property
    def operand_kept(self) -> Array:
        """Bytes of a number that a GEMM keeps of its input for the backward pass.

        Transformer Engine keeps what it quantised, in the one orientation that weight gradients need; where shards are
        the optimizer's weights (torchao's float8 under FSDP2), and with a scale for each row, it is what comes in,
        quantised again.
        """
        f = self.formats
        stored = (to_codes(f.recipe) != int(Recipe.NONE)) & (Recipe.look_up("stored", np.maximum(f.recipe, 0)) > 0)
        theirs = stored & MasterWeights.COPY.where(self.layout.master_weights)
        if not somewhere(theirs):
            return to_float(f.activation)
        return np.where(theirs, Recipe.look_up("size", np.maximum(f.recipe, 0)), f.activation)

    @cached_property
    def tp_group(self) -> Group:
        """Devices that split tensors."""
        return self.layout.group("tp")

    @cached_property
    def cp_group(self) -> Group:
        """Devices that split the sequence."""
        return self.layout.group("cp")

    @cached_property
    def ep_group(self) -> Group:
        """Devices that share the experts out."""
        return self.layout.ep_group

    @cached_property
    def etp_group(self) -> Group:
        """Devices that split an expert."""
        return self.layout.etp_group

    @cached_property
    def heads(self) -> Array:
        """Query heads on this device."""
        return to_float(self.t.heads) / self.layout.tp

    @cached_property
    def kv_heads(self) -> Array:
        """Key and value heads on this device: at least one, copied where TP exceeds them."""
        return maximum(to_float(self.t.kv_heads) / self.layout.tp, 1.0)

    @cached_property
    def key_dim(self) -> Array:
        """Dimension of a query or key: with its rotary part, in multi-head latent attention."""
        return to_float(self.t.head_dim) + self.t.rope_head_dim

    @cached_property
    def gates(self) -> Array:
        """Matrices into a feed-forward network: 2 where it is gated."""
        return 1.0 + to_float(self.t.gated)

    @cached_property
    def kernel_cost(self) -> Array:
        """Factor on element-wise traffic of how the kernels are made."""
        return ElementwiseKernels.look_up("cost", self.layout.kernels)

    @cached_property
    def norm_saved(self) -> Array:
        """Bytes of a number that a norm keeps beside its input."""
        given = to_codes(self.layout.norm_kernel)
        apart = given != NOT_GIVEN
        if not somewhere(apart):
            return to_float(0.0)
        names = ("beside", "of_weights", "beside_layernorm", "of_layernorm_weights")
        rms, of_weights, other, of_others = (NormKernel.look_up(name, np.maximum(given, 0)) for name in names)
        if self.frozen:
            rms, other = rms - of_weights, other - of_others
        return where(apart, where(Norm.RMSNORM.where(self.t.norm), rms, other), 0.0)

    @cached_property
    def frozen(self) -> bool:
        """Whether the model's own weights are frozen, and adapters are trained."""
        return not bool(np.isnan(to_float(self.t.lora_rank)).all())

    @cached_property
    def router_balances(self) -> Array:
        """1 where the router's bias keeps experts evenly loaded, without a gradient: no layer beside it has a bias.

        gpt-oss has biases everywhere, which are trained.
        """
        return to_float(self.t.router_bias) * (1.0 - Bias.look_up("ffn", self.t.bias))

    @cached_property
    def balancing(self) -> NDArray[np.intp]:
        """What keeps experts evenly loaded, a code of `LoadBalancing`: if it is not given, what the router has."""
        given = np.asarray(self.layout.load_balancing, np.intp)
        usual = np.where(self.router_balances > 0, int(LoadBalancing.BIAS), int(LoadBalancing.LOSS))
        return np.where(given == NOT_GIVEN, usual, given)

    @cached_property
    def has_vocab(self) -> bool:
        """Whether any point has an embedding and logits."""
        return somewhere(to_float(self.t.vocab) > 0)

    @cached_property
    def is_vit(self) -> bool:
        """Whether any point is a vision transformer."""
        return bool(somewhere(Architecture.VIT.where(self.t.architecture)))


def any_of(value: Numeric) -> bool:
    """Return whether a count is anywhere above 0: operations nobody does are left out.

    >>> any_of(0.0), any_of(to_float([0, 1]))
    (False, True)
    """
    return somewhere(to_float(value) > 0)

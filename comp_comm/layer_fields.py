"""Fields of kinds of layers beside attention to everything or a window: mixers with a state, sparse attention, latents.

They are part of the one table, `comp_comm.fields`.
"""

from __future__ import annotations

from comp_comm.choices import AttentionGate, KdaGates, Switch
from comp_comm.field import Field
from comp_comm.layer_pattern import check_layer_pattern


def _size(name: str, help_text: str, high: float = 2**20, essential: bool = False) -> Field:
    return Field(name, "transformer", "int", help_text, low=1, high=high, essential=essential)


LAYER_FIELDS = (
    Field("layer_pattern", "transformer", "text", "the blocks of each layer, where they are not all attention and a "
          "network: 'M-M-*-' (a block a layer) or '(GE GE GE *E)x12'; * attention, W over the window, T sparse "
          "attention to the tokens an earlier layer's indexer chose, M Mamba-2, S Mamba-1, G Gated DeltaNet, K Kimi "
          "Delta Attention, L lightning attention, H attention beside Mamba-2, Z a shared block before Mamba-2, Y "
          "one before Mamba-1, - dense network, E experts",
          checked=check_layer_pattern, essential=True),
    _size("ssm_heads", "heads of a mixer with a state (of its values); channels, in Mamba-1"),
    _size("ssm_head_dim", "dimension of a head's values in a mixer with a state; 1 in Mamba-1, if not given"),
    _size("ssm_groups", "heads of keys in a mixer with a state: groups of B and C in Mamba-2, of channels with B, C "
          "and time step of their own in Mamba-1 (Zamba); ssm_heads if not given, 1 in Mamba-1 and Mamba-2"),
    _size("ssm_state", "dimension of a head's keys in a mixer with a state: the state size N of Mamba; ssm_head_dim "
          "if not given"),
    _size("ssm_conv", "width of the convolution of a mixer with a state; 4 if not given"),
    _size("ssm_dt_rank", "rank of the time step in Mamba-1; hidden / 16 if not given"),
    _size("ssm_chunk", "tokens of a chunk in which a mixer with a state is computed by matrix products; 64 for the "
          "delta rule, 256 for the others, if not given"),
    Field("ssm_norm", "transformer", "choice", "norms with weights within Mamba: of the gated output in Mamba-2, of "
          "time step, B and C in Mamba-1", words=Switch.words(), default="on", choice=Switch),
    Field("attention_gate", "transformer", "choice", "a gate on the output of attention, made of the layer's input: a "
          "number for each of a head's, or one for each head", words=AttentionGate.words(), default="off",
          choice=AttentionGate),
    Field("kda_gates", "transformer", "choice", "Kimi Delta Attention: decay and output gate come of a low rank, the "
          "output gate is of full rank (Kimi K3), or both are (Ling 3)", words=KdaGates.words(), default="low_rank",
          choice=KdaGates),
    _size("shared_blocks", "blocks of attention and network that layers Z (or Y) share, in turn; 1 if not given"),
    _size("shared_rank", "rank of the adapter that a layer Z has of its own on the shared network; none if not given"),
    _size("shared_attention_rank", "rank of the adapters that a layer Z has of its own on queries, keys and values; "
          "none if not given"),
    _size("index_heads", "heads of the indexer of sparse attention (DeepSeek-V3.2), which it turns on",
          essential=True),
    _size("index_dim", "dimension of a head of the indexer; 128 if not given"),
    _size("index_topk", "tokens that the indexer chooses for a query; 2048 if not given", 2**30),
    _size("attn_res_block", "layers of a block of attention residuals (Kimi K3): what blocks of layers have made is "
          "summed by learned weights before attention and network, in place of the plain sum of all", 1e5,
          essential=True),
    Field("moe_latent_norm", "transformer", "choice", "a norm of what experts make of a latent, before it is projected "
          "back (Kimi K3)", words=Switch.words(), default="off", choice=Switch),
    _size("moe_latent_hidden", "dimension that tokens are projected to before they are sent to their experts; hidden "
          "(no projection) if not given", 2**24, essential=True),
)  # fmt: skip

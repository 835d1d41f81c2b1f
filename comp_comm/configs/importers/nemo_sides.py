"""A NeMo YAML of an encoder and a decoder (T5): a mapping for either side, which must be of one shape."""

from __future__ import annotations

from comp_comm.configs.importers import nemo_model
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.nemo_ignored import IGNORED

# Of either side of an encoder-decoder: what must be the same on the other.
ALIKE = ("hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels", "activation", "normalization", "bias",
         "position_embedding_type")  # fmt: skip

CHECKPOINTS = tuple(f"activations_checkpoint_{key}" for key in ("granularity", "method", "num_layers"))


def read(keys: Keys, encoder: Keys, decoder: Keys, f: Findings) -> None:
    """Set the fields of the model, ``keys``, and of its two sides."""
    keys.set("vocab_multiple", "make_vocab_size_divisible_by")
    for key in ALIKE:
        one, other = encoder.mapping.get(key), decoder.mapping.get(key)
        if one != other:
            decoder.wrong((key,), f"{shown(other)} differs from the encoder's {shown(one)}, which is not modelled")
    nemo_model.shape(encoder, f)
    f.set("architecture", "encoder-decoder")
    f.set("encoder_layers", f.fields.get("layers", 1))
    decoder.set("layers", "num_layers")
    _lengths(keys, f)
    encoder.mapping = {"max_position_embeddings": keys.take("max_position_embeddings"), **encoder.mapping}
    nemo_model.blocks(encoder, f, "")
    _embeddings(keys, encoder, decoder, f)
    nemo_model.dropout(encoder, f)
    nemo_model.dropout(decoder, Findings(f.document))
    nemo_model.tokenizer(keys, f)
    for key in CHECKPOINTS:
        if key not in keys.mapping:
            keys.mapping = {**keys.mapping, key: encoder.take(key)}
    for side in (encoder, decoder):
        _rest(side)
    _stages(keys, f)


def _lengths(keys: Keys, f: Findings) -> None:
    """Set the tokens that either side reads, which are the data's."""
    data = keys.mapping_of("data")
    lengths = data.mapping if data is not None else {}
    for name, key, usual in (("encoder_seq_len", "seq_length", 512), ("seq_len", "seq_length_dec", 128)):
        own = keys.take("seq_length", "encoder_seq_length") if name == "encoder_seq_len" else None
        if lengths.get(key) is None and own is None:
            f.note(f"data.{key} is not in the file: {name} is {usual}")
        f.set(name, own if own is not None else lengths.get(key, usual))


def _embeddings(keys: Keys, encoder: Keys, decoder: Keys, f: Findings) -> None:
    """Set what shares the embedding, and what the relative positions of either side add."""
    sides = keys.take("share_token_embeddings", default=True)
    head = keys.take("share_decoder_tokens_head_embeddings", default=True)
    f.set("tied", not is_off(sides) and not is_off(head))
    if is_off(sides):
        keys.wrong(("share_token_embeddings",), "an embedding of its own for either side is not modelled")
    buckets = encoder.take("relative_attention_num_buckets", default=32)
    decoder.take("relative_attention_num_buckets")
    if encoder.mapping.get("position_embedding_type") == "relative" and isinstance(buckets, int):
        f.set("extra_parameters", 2 * buckets * f.count("heads", 0))


def _rest(side: Keys) -> None:
    """Take what is left of a side."""
    side.only("arch", "transformer")
    side.only("transformer_block_type", "pre_ln")
    side.off(("headscale", "fp32_residual_connection"))
    side.ignore((*IGNORED, *ALIKE, *CHECKPOINTS, "relative_attention_max_distance", "hidden_steps",
                 "relative_position_bias_self_attention_only", "num_self_attention_per_cross_attention",
                 "num_moe_experts", "moe_frequency", "moe_dropout", "use_flash_attention",
                 "megatron_legacy"))  # fmt: skip
    side.finish()


def _stages(keys: Keys, f: Findings) -> None:
    """Set the pipeline, half of whose stages are the encoder's."""
    split = keys.take("pipeline_model_parallel_split_rank")
    keys.set("pp", "pipeline_model_parallel_size")
    if f.count("pp") > 1 and split not in (None, f.count("pp") // 2):
        message = f"{shown(split)}: stages of the encoder are not as many as its layers ask for, which is not modelled"
        keys.wrong(("pipeline_model_parallel_split_rank",), message)

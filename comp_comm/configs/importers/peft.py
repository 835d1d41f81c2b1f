"""An adapter_config.json of Hugging Face's PEFT: the model that adapters are for, their rank, and where they are."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.adapters import model_of, set_adapters
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "PEFT adapter_config.json"
IGNORED = """
    auto_mapping fan_in_fan_out inference_mode init_lora_weights lora_alpha revision task_type use_rslora loftq_config
    megatron_config megatron_core peft_version qalora_group_size corda_config eva_config lora_ga_config arrow_config
    ensure_weight_tying alora_invocation_tokens
"""
DEFAULT_RANK = 8  # of LoraConfig
OFF = ("alpha_pattern", "rank_pattern", "layers_pattern", "layers_to_transform", "layer_replication", "modules_to_save",
       "lora_bias", "use_dora", "use_qalora", "exclude_modules", "target_parameters", "trainable_token_indices",
       "use_bdlora")  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits PEFT's."""
    return 4 if "peft_type" in data and "base_model_name_or_path" in data else 0


def import_peft(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the model with adapters that an adapter_config.json describes. Raises ``ConfigError``.

    >>> data = {"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16,
    ...     "target_modules": ["q_proj", "v_proj"]}
    >>> found = import_peft(Document(data, "adapter_config.json"))
    >>> found.model, found.fields["lora_rank"], found.fields["lora_targets"]
    ('llama-3.1-8b', 16, 'q_proj+v_proj')
    """
    f = Findings(document, given)
    keys = Keys(f, document.data)
    kind = keys.take("peft_type")
    if kind != "LORA":
        keys.wrong(("peft_type",), f"{shown(kind)}: training a part of the weights but by LORA is not modelled")
        f.problems.raise_if_any()
    source = str(keys.take("base_model_name_or_path", default=""))
    known = model_of(source) or model
    if not known:
        keys.wrong(("base_model_name_or_path",), f"no model of the catalogue is {shown(source)}; give --model NAME")
    set_adapters(keys, f, ("r",), ("target_modules",))
    f.fields.setdefault("lora_rank", DEFAULT_RANK)
    keys.off(OFF)
    keys.only("bias", "none")
    if not is_off(keys.take("lora_dropout")):
        f.note("lora_dropout: masks of its inputs are not counted")
    keys.ignore(IGNORED.split())
    keys.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=known)

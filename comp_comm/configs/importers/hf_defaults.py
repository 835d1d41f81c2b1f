"""What a config.json means where it leaves a key out: the defaults of its family's class of configurations.

`hf_defaults.json` has those of transformers 5.24 that shapes depend on (`tests/reference/hub_configs.py` makes it), by
``model_type``. Files of the hub leave out what is as the class has it: Gemma 3's, its heads and its vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from comp_comm.configs.importers import hf_parts as parts
from comp_comm.configs.importers.hf_patterns import WINDOW
from comp_comm.records import Record

_FILE = Path(__file__).with_suffix(".json")
# Spellings of the same: where a file has one, no other is filled in.
_NESTED: dict[str, Record] = {"mpt": {"attn_config": {"alibi": True}}}  # mappings of a class in its configuration
_SAME = (*parts.NEEDED.values(), *parts.OPTIONAL.values(), parts.POSITIONS, parts.EXPERTS, parts.TOP_K, parts.SHARED,
         parts.SHARED_WIDTHS, WINDOW, parts.PERIOD, parts.FUNCTIONS)  # fmt: skip


@lru_cache(maxsize=1)
def _known() -> dict[str, Record]:
    return dict(json.loads(_FILE.read_text(encoding="utf-8")))


def left_out(data: Record, own: Mapping[str, object]) -> Record:
    """Return the keys that a config.json leaves out, as its class has them; ``own`` are those the class only implies.

    A key that is null is not left out.

    >>> left_out({"model_type": "mistral", "sliding_window": None}, {})["num_key_value_heads"]
    8
    >>> "sliding_window" in left_out({"model_type": "mistral", "sliding_window": None}, {})
    False
    """
    spelled = {name for group in _SAME if any(name in data for name in group) for name in group}
    kind = str(data.get("model_type"))
    defaults = {**_known().get(kind, {}), **_NESTED.get(kind, {}), **own}
    return {name: value for name, value in defaults.items() if name not in data and name not in spelled}

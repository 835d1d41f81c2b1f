"""What models of papers that know only a plain GPT do not see of a model."""

from __future__ import annotations

from comp_comm.costmodels.model import Asked
from comp_comm.field import Value
from comp_comm.fields import FIELDS


def unseen(asked: Asked, name: str, fields: tuple[str, ...]) -> list[str]:
    """Return a note about what the cost model ``name``, which knows only some ``fields``, does not see of a model."""
    f = asked.model_fields
    if asked.model_name is None:
        return []
    plain: dict[str, Value | None] = {"kv_heads": f.get("heads"), "gated": "off",
                                      "ffn_hidden": 4 * int(f.get("hidden", 0))}  # fmt: skip
    plain |= {field.name: field.default for field in FIELDS.values() if field.essential}
    unlike = {field: f[field] for field, usual in plain.items() if field not in fields and f.get(field, usual) != usual}
    if not unlike:
        return []
    has = ", ".join(f"{field} {value}" for field, value in unlike.items())
    return [f"{name} takes {asked.model_name} for a plain GPT: it does not see {has}"]

"""Names of tiers: numbered ones are several, however alike their letters are; others are misspelt."""

from __future__ import annotations

import pytest

from comp_comm.configs.tier_names import meant, wrong_tiers


@pytest.mark.parametrize(("name", "known", "tier"), [
    ("rail-group-2", ["rail-group-1"], None), ("rail-gruop-1", ["rail-group-1"], "rail-group-1"),
    ("dragonfly-10", ["dragonfly-1"], None), ("dragonfly-1", ["dragonfly-1"], None),
    ("Scale_Out", ["scale-out"], "scale-out"), ("spine", ["leaf"], None),
])  # fmt: skip
def test_a_tier_is_meant_where_its_letters_and_its_numbers_are(name, known, tier):
    assert meant(name, known) == tier


def test_a_new_tier_of_several_with_numbers_is_right():
    tiers = ["scale-up", "rail-group-1", "rail-group-2"]
    assert wrong_tiers(tiers, ["rail-group-2"], {"scale-up": 8, "rail-group-1": 64}) == {}

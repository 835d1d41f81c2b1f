"""A share is asked for as one: all of it is a share, and 30 of them are none."""

from __future__ import annotations

import pytest

from comp_comm.errors import ConfigError
from comp_comm.searches.crossover import crossover_of


@pytest.mark.parametrize(("text", "value"), [("mfu=1", 1.0), ("mfu=100%", 1.0), ("mfu=0.3", 0.3), ("step_s=30", 30.0)])
def test_a_share_up_to_all_is_one(text, value):
    assert crossover_of(text).value == value


@pytest.mark.parametrize("text", ["mfu=30", "hfu=2", "visible_comm_fraction=300%"])
def test_more_than_all_is_refused(text):
    with pytest.raises(ConfigError, match="is a share, at most 1"):
        crossover_of(text)


def test_less_than_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"is a share, at least 0, not -0\.05"):
        crossover_of("comm=-5%")
    assert crossover_of("step_s=-1").value == -1


def test_a_value_is_of_a_column():
    with pytest.raises(ConfigError, match="COLUMN=VALUE"):
        crossover_of("=30%")

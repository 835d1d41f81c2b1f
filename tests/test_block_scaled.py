"""Products with scales for blocks: the tiles that DeepGEMM would choose, tried one by one."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from comp_comm.configs.hardware_file import load_profile
from comp_comm.formulas.block_scaled import block_scaled_flops, chosen_columns
from comp_comm.hardware.numbers import Hardware, Timing
from comp_comm.kernel_choices import Recipe
from comp_comm.operations.shapes import Gemm
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.quantising import Quantising


def tried(rows, columns, wave):
    """Return the width that wins where all are tried in order: fewer waves, then a fuller last one, then narrower."""
    best = None
    for wide in range(16, 129, 8):
        tiles = rows * math.ceil(columns / wide)
        key = (math.ceil(tiles / wave), -(tiles % wave or wave), wide)
        best = min(best, key) if best else key
    return best[2]


def test_casts_of_four_bits_read_a_number_twice_and_write_it_twice_with_its_scales():
    """16 bits read for rows, and again for columns; written half a byte, and a byte of scale for 16 numbers."""
    hardware = Hardware(1.0, 1.0, 1e12, (), Timing())
    found = Quantising(hardware, np.asarray(int(Recipe.NVFP4))).seconds(1e9)
    assert float(found) == pytest.approx(5e-6 + 1e9 * 2 * (2 + 0.5 + 1 / 16) / 0.44e12)


@pytest.mark.parametrize("wave", [132, 78, 7])
def test_the_width_is_the_one_that_wins_of_all(wave):
    cases = list(itertools.product([1, 2, 3, 11, 32, 256], [16, 64, 257, 512, 1536, 4096, 5120, 7168, 12288, 129280]))
    rows, columns = np.array(cases, float).T
    assert chosen_columns(rows, columns, wave).tolist() == [tried(*case, wave) for case in cases]


@pytest.mark.parametrize(("rows", "tall", "high"), [(40, 1, 64), (64, 1, 64), (65, 1, 128), (257, 3, 128)])
def test_idle_tiles_count(rows, tall, high):
    wide = tried(tall, 4096, 132)
    waves = math.ceil(tall * math.ceil(4096 / wide) / 132)
    slower = 1.0 if 128 % wide == 0 else 1.15
    expected = 2 * high * wide * 512 * 132 * waves * slower
    assert float(block_scaled_flops(rows, 4096, 512, 132)) == pytest.approx(expected)


def seconds(recipe, m, groups=1, **timing):
    hardware = load_profile("h100-sxm").hardware("fp8")
    hardware = replace(hardware, timing=replace(hardware.timing, **timing))
    op = Gemm("", "", count=1, m=m, k=4096, n=7168, groups=groups, grouped=groups > 1)
    return float(Kernels(hardware, 1.0, recipe=int(recipe)).gemm(op).forward)


def test_only_blockwise_products_run_in_such_waves():
    for recipe, moved in ((Recipe.TENSORWISE, False), (Recipe.BLOCKWISE, True)):
        assert (seconds(recipe, 1281) != seconds(recipe, 1281, fp8_block_wave=0)) == moved
    assert load_profile("b200-sxm").hardware("fp8").timing.fp8_block_wave == 0


def test_a_row_more_than_a_tile_takes_a_tile_more():
    assert seconds(Recipe.BLOCKWISE, 1281) > 1.05 * seconds(Recipe.BLOCKWISE, 1280)


def test_experts_are_padded_as_their_loads_are():
    """Where there are many tiles their waves are full: as long as without, but for one width's scales."""
    in_waves, plain = (seconds(Recipe.BLOCKWISE, 2048, 64, fp8_block_wave=wave) for wave in (132, 0))
    assert in_waves == pytest.approx(plain, rel=0.02)

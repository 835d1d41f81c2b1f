"""The numbers are what they were (tests/golden), and the golden numbers are what a hand calculation gives."""

import json

import numpy as np
import pytest
from golden import regenerate

RTOL = 1e-9


def stored(name):
    return json.loads((regenerate.FOLDER / name).read_text())


@pytest.fixture(scope="module")
def commands():
    return {name: regenerate.command(name) for name in regenerate.COMMANDS}


def assert_close(got, kept):
    """Numbers to 1e-9, everything else exactly."""
    assert len(got) == len(kept)
    assert [value for value in got if not is_number(value)] == [value for value in kept if not is_number(value)]
    numbers, expected = ([v for v in values if is_number(v)] for values in (got, kept))
    np.testing.assert_allclose(numbers, expected, rtol=RTOL, atol=0)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@pytest.mark.parametrize("group", ["complete", "paper_exact", "either"])
def test_formulas_are_what_they_were(group):
    kept, got = stored("formulas.json")[group], regenerate.formulas()[group]
    assert got.keys() == kept.keys()
    for name, output in kept.items():
        assert got[name]["shape"] == output["shape"], name
        np.testing.assert_allclose(got[name]["values"], output["values"], rtol=RTOL, atol=0, err_msg=name)


@pytest.mark.parametrize("name", regenerate.COMMANDS)
def test_commands_are_what_they_were(commands, name):
    kept, got = stored(f"{name}.json"), commands[name]
    assert got["meta"] == kept["meta"]
    assert list(got["columns"]) == list(kept["columns"])
    for column, values in kept["columns"].items():
        assert_close(regenerate.unpacked(got["columns"][column]), regenerate.unpacked(values))


def test_the_sweep_has_the_rows_of_table_2(commands):
    columns = {name: regenerate.unpacked(values) for name, values in commands["future"]["columns"].items()}
    rows = list(zip(*(columns[name] for name in (*regenerate.TABLE_2, "flop_vs_bw")), strict=True))
    assert len(rows) == len(set(rows)) == 392 * 3
    for name, values in regenerate.TABLE_2.items():
        assert set(columns[name]) == set(values)
    assert set(columns["flop_vs_bw"]) == {1, 2, 4}
    assert {
        "compute_s", "serialized_comm_s", "overlapped_comm_s", "serialized_comm_fraction", "overlap_ratio",
        "amdahl_edge_flop_per_byte", "slack_flop_per_byte",
    } <= columns.keys()  # fmt: skip
    assert all(columns["feasible"])


# --- the golden values against calculations by hand, with the numbers notes prints -----------------------------


def golden(name, group, **point):
    """Return one stored output of a formula."""
    output = stored("formulas.json")[group][name]
    index = tuple(regenerate.TABLE_2[axis].index(value) for axis, value in point.items())
    return np.broadcast_to(np.array(output["values"]).reshape(output["shape"]), (7, 4, 2, 7))[index]


def row(k, **point):
    """Return one stored row of the sweep."""
    columns = {name: regenerate.unpacked(values) for name, values in stored("future.json")["columns"].items()}
    wanted = {**point, "flop_vs_bw": k}
    (number,) = (i for i in range(1176) if all(columns[name][i] == value for name, value in wanted.items()))
    return {name: values[number] for name, values in columns.items()}


LARGEST = {"hidden": 65536, "seq_len": 4096, "micro_batch": 1, "tp": 256}
SMALLEST = {"hidden": 1024, "seq_len": 1024, "micro_batch": 1, "tp": 4}


def test_golden_formulas_by_hand():
    def exactly(value):
        return pytest.approx(value, rel=1e-11)  # 12 digits are kept

    # 24 H^2 T / TP = 24 * 2^32 * 2^12 / 2^8 = 24 * 2^36, and 4 H SL T / TP = 4 * 2^16 * 2^12 * 2^12 / 2^8 = 2^34.
    assert golden("layer_forward_flops", "complete", **LARGEST) == exactly(24 * 2**36 + 2**34)
    # (14 H^2 + 2 H SL) T / TP = 14 * 2^36 + 2^33.
    assert golden("layer_forward_flops", "paper_exact", **LARGEST) == exactly(14 * 2**36 + 2**33)
    assert golden("training_flops", "complete", **SMALLEST) == 3 * (24 * 2**28 + 4 * 2**28)  # T = H = SL = 2^10
    # 1.5 (6 * 64K + 4K) / 256 and 0.75 (7 * 64K + 4K) / 256.
    assert golden("amdahl_edge", "complete", **LARGEST) == 2328
    assert golden("amdahl_edge", "paper_exact", **LARGEST) == 1356
    assert golden("amdahl_edge_forward", "complete", **LARGEST) == 1552
    assert golden("layer_weights", "complete", **LARGEST) == 12 * 2**24
    assert golden("layer_weights", "paper_exact", **LARGEST) == 7 * 2**24
    assert golden("activation_message_bytes", "either", **LARGEST) == 2**29
    assert golden("all_reduce_wire_bytes", "either", **LARGEST) == 2 * 2**29 * 255 / 256
    assert golden("slack_advantage", "either", **{**LARGEST, "micro_batch": 4}) == 32768
    assert golden("serialized_fraction_at_x_2129", "complete", **LARGEST) == pytest.approx(2129 / (2129 + 2328))
    assert golden("overlap_ratio_at_x_2129", "either", **LARGEST) == pytest.approx(0.26, abs=0.0005)
    assert golden("required_tp", "either", **SMALLEST) == pytest.approx(8 * 96 * 12 * 1024**2 / 3.9e9 / 2)
    assert golden("next_divisor", "either", **LARGEST) == 512


def test_golden_sweep_by_hand():
    for k, percent in ((1, 47.8), (2, 64.7), (4, 78.5)):
        assert row(k, **LARGEST)["serialized_comm_fraction"] == pytest.approx(percent / 100, abs=5e-4)
    small = row(1, **SMALLEST)
    # 3 * 28 * 2^28 FLOP at 119.46 TFLOP/s; 4 messages of 2 MiB, each byte twice, at 112.2 GB/s.
    assert small["compute_s"] == pytest.approx(3 * 28 * 2**28 / 119.46e12)
    assert small["serialized_comm_s"] == pytest.approx(4 * 2 * 2**21 / 112.2e9)
    assert small["overlapped_comm_s"] == pytest.approx(2 * 6 * 2**20 / 112.2e9)  # 12 H^2 / 4 weights of 2 bytes
    assert small["overlap_ratio"] == pytest.approx(1.04, abs=0.0005)  # X / 2T = 2129.4 / 2048
    assert small["serialized_comm_fraction"] == pytest.approx(0.44, abs=0.005)
    assert (small["amdahl_edge_flop_per_byte"], small["slack_flop_per_byte"]) == (2688, 2048)


def test_golden_case_study_by_hand():
    """notes 1.6: .478 / .090, then 8 times .090 over .348 of backward compute, then 9.6 times."""
    columns = {name: regenerate.unpacked(values) for name, values in stored("case-study.json")["columns"].items()}
    base = columns["step_s"][0]
    assert base == pytest.approx(3 * 1666447310848 / 119.46e12 + 4 * 2 * 2**29 / 112.2e9)
    assert [t / base for t in columns["step_s"]] == pytest.approx([1, 1.368, 1.513], abs=0.002)
    assert [t / base for t in columns["overlappable_comm_s"]] == pytest.approx([0.09, 0.717, 0.861], abs=0.0015)
    assert [t / base for t in columns["exposed_comm_s"]] == pytest.approx([0, 0.3695, 0.513], abs=0.002)
    assert columns["visible_comm_fraction"] == pytest.approx([0.478, 0.618, 0.655], abs=0.003)


def test_golden_files_are_small():
    files = sorted(path.name for path in regenerate.FOLDER.glob("*.json"))
    assert files == sorted(["formulas.json", *(f"{name}.json" for name in regenerate.COMMANDS)])
    assert sum((regenerate.FOLDER / name).stat().st_size for name in files) < 300_000

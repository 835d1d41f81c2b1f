"""GEMM and layer formulas against operations that are really counted: loops, and a layer run on ranks of a TP group."""

import inspect
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from comp_comm.choices import CountedGemms
from comp_comm.formulas import (
    collective_time,
    collectives,
    edges,
    gemm,
    layer_flops,
    layer_sizes,
    scaling,
    transformer,
    wire_bytes,
)  # fmt: skip
from comp_comm.formulas.arrays import take
from comp_comm.transformer import gemm_count

COMPLETE, PAPER = gemm_count(CountedGemms.COMPLETE), gemm_count(CountedGemms.PAPER_EXACT)
CONFIGS = [(1024, 512, 1, 4), (4096, 1024, 4, 16), (65536, 4096, 1, 256), (12288, 2048, 3, 8)]


# --- matrix multiplication -------------------------------------------------------------------------------------------


def counted_matmul(a, b):
    """Multiply by three loops; return the product and how many multiplications and additions that took."""
    operations, result = 0, np.zeros((a.shape[0], b.shape[1]))
    for i, j, k in product(range(a.shape[0]), range(b.shape[1]), range(a.shape[1])):
        result[i, j] += a[i, k] * b[k, j]
        operations += 2
    return result, operations


@pytest.mark.parametrize(("m", "n", "k", "batch"), [(1, 1, 1, 1), (2, 3, 4, 1), (5, 2, 7, 3), (4, 6, 1, 2)])
def test_gemm_flops_are_the_operations_of_the_loops(m, n, k, batch):
    random = np.random.default_rng(m)
    counted = 0
    for _ in range(batch):
        a, b = random.normal(size=(m, k)), random.normal(size=(k, n))
        result, operations = counted_matmul(a, b)
        assert np.allclose(result, a @ b)
        counted += operations
    assert gemm.gemm_flops(m, n, k, batch) == counted
    if batch == 1:
        assert gemm.gemm_flops(m, n, k) == counted


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("m", "n", "k", "batch"), [(2, 3, 4, 1), (16, 8, 32, 5), (7, 1, 9, 2)])
def test_gemm_bytes_are_the_sizes_of_the_arrays(m, n, k, batch, dtype):
    a, b = np.zeros((batch, m, k), dtype), np.zeros((batch, k, n), dtype)
    moved = a.nbytes + b.nbytes + (a @ b).nbytes
    assert gemm.gemm_bytes(m, n, k, batch, a.itemsize) == moved
    if dtype is np.float16 and batch == 1:
        assert gemm.gemm_bytes(m, n, k) == moved


def test_arithmetic_intensity_of_cubes_and_of_a_matrix_times_a_vector():
    # Williams et al.: a cube of side s moves 3 s^2 elements for 2 s^3 FLOP.
    assert gemm.arithmetic_intensity(3072, 3072, 3072) == 1024
    assert gemm.arithmetic_intensity(300, 300, 300, element_bytes=4) == 50
    # 2 x 3 times 3 x 4: 48 FLOP over 26 elements of 1 byte.
    assert gemm.arithmetic_intensity(2, 4, 3, element_bytes=1) == pytest.approx(48 / 26)
    # A matrix times a vector has one multiply-add per weight: 1 FLOP/B at 2 bytes, however large.
    assert gemm.arithmetic_intensity(8192, 1, 8192) == pytest.approx(1, rel=3e-4)


# --- a layer, really run ---------------------------------------------------------------------------------------------


class Machine:
    """Multiplies matrices and notes what each product took, by name; reduces over ranks and notes the bytes."""

    def __init__(self):
        self.flops, self.messages = [], []

    def multiply(self, name, a, b):
        """Return a @ b for (..., m, k) and (..., k, n): a multiply-add for each entry of the result and each k."""
        result = a @ b
        self.flops.append((name, 2 * result.size * a.shape[-1]))
        return result

    def all_reduce(self, parts, element_bytes):
        self.messages.append(parts[0].size * element_bytes)
        return sum(parts)

    def total(self, *names):
        return sum(flops for name, flops in self.flops if name in names)


FORWARD = ("fc1", "fc2", "qk", "pv", "q", "k", "v", "out")


def split_heads(x, heads):
    """(B, SL, H') -> (B, heads, SL, head)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def swap(x):
    return np.swapaxes(x, -1, -2)


class Rank:
    """One device's share of a layer, Megatron-LM's way: columns of QKV and FC1, rows of the output and of FC2.

    No softmax, no norm, no activation: they are no GEMMs.
    """

    def __init__(self, weights, rank, tp, heads, machine):
        hidden = weights["out"].shape[0]
        part, wide = hidden // tp, 4 * hidden // tp
        mine, mine4 = slice(rank * part, (rank + 1) * part), slice(rank * wide, (rank + 1) * wide)
        self.w = {name: weights[name][:, mine] for name in "qkv"}
        self.w |= {"out": weights["out"][mine], "fc1": weights["fc1"][:, mine4], "fc2": weights["fc2"][mine4]}
        self.heads, self.machine, self.saved, self.grads = heads // tp, machine, {}, {}

    def linear(self, name, x):
        self.saved[name] = x
        return self.machine.multiply(name, x, self.w[name])

    def linear_backward(self, name, dy):
        x = self.saved[name].reshape(-1, self.saved[name].shape[-1])
        self.grads[name] = self.machine.multiply(name + "'w", x.T, dy.reshape(-1, dy.shape[-1]))
        return self.machine.multiply(name + "'x", dy, self.w[name].T)

    def attention(self, x):
        q, k, v = (split_heads(self.linear(name, x), self.heads) for name in "qkv")
        scores = self.machine.multiply("qk", q, swap(k))
        self.saved |= {"Q": q, "K": k, "V": v, "S": scores}
        return self.linear("out", join_heads(self.machine.multiply("pv", scores, v)))

    def attention_backward(self, dy):
        do = split_heads(self.linear_backward("out", dy), self.heads)
        ds = self.machine.multiply("pv'x", do, swap(self.saved["V"]))
        dv = self.machine.multiply("pv'w", swap(self.saved["S"]), do)
        dq = self.machine.multiply("qk'x", ds, self.saved["K"])
        dk = self.machine.multiply("qk'w", swap(ds), self.saved["Q"])
        return sum(self.linear_backward(n, join_heads(d)) for n, d in (("q", dq), ("k", dk), ("v", dv)))

    def fc(self, x):
        return self.linear("fc2", self.linear("fc1", x))

    def fc_backward(self, dy):
        return self.linear_backward("fc1", self.linear_backward("fc2", dy))


def run_layer(weights, x, dy, tp, heads, element_bytes=2):
    """Run a layer forward and backward on ``tp`` ranks; return output, input gradient, ranks, forward and all work."""
    machine, network = [Machine() for _ in range(tp)], Machine()
    ranks = [Rank(weights, i, tp, heads, machine[i]) for i in range(tp)]
    middle = network.all_reduce([rank.attention(x) for rank in ranks], element_bytes)
    y = network.all_reduce([rank.fc(middle) for rank in ranks], element_bytes)
    dmiddle = network.all_reduce([rank.fc_backward(dy) for rank in ranks], element_bytes)
    dx = network.all_reduce([rank.attention_backward(dmiddle) for rank in ranks], element_bytes)
    return y, dx, ranks, network


H, SL, B, HEADS = 16, 6, 3, 4


@pytest.fixture(scope="module")
def layer():
    random = np.random.default_rng(0)
    shapes = {**dict.fromkeys(("q", "k", "v", "out"), (H, H)), "fc1": (H, 4 * H), "fc2": (4 * H, H)}
    weights = {name: random.normal(size=shape) / H for name, shape in shapes.items()}
    x, dy = random.normal(size=(B, SL, H)), random.normal(size=(B, SL, H))
    return weights, x, dy


@pytest.fixture(scope="module", params=[1, 2, 4])
def run(request, layer):
    tp = request.param
    return tp, *run_layer(*layer, tp, HEADS)


def test_the_simulated_layer_is_a_layer(layer, run):
    """Sharding leaves the result alone, and the backward pass is the derivative of the forward pass."""
    weights, x, dy = layer
    _, y, dx, ranks, _ = run
    whole_y, whole_dx, (whole,), _ = run_layer(weights, x, dy, 1, HEADS)
    assert np.allclose(y, whole_y)
    assert np.allclose(dx, whole_dx)
    assert np.allclose(np.concatenate([rank.grads["fc1"] for rank in ranks], axis=1), whole.grads["fc1"])
    step, direction = 1e-6, np.random.default_rng(1).normal(size=x.shape)
    up, down = (run_layer(weights, x + s * step * direction, dy, 1, HEADS)[0] for s in (1, -1))
    assert np.sum(dy * (up - down)) / (2 * step) == pytest.approx(np.sum(dx * direction), rel=1e-6)


def test_forward_flops_are_those_of_the_simulated_rank(run):
    tp, _, _, ranks, _ = run
    machine = ranks[0].machine
    assert transformer.fc_forward_flops(H, SL, B, tp) == machine.total("fc1", "fc2")
    assert transformer.attention_forward_flops(H, SL, B, tp) == machine.total("qk", "pv")
    assert transformer.linear_forward_flops(H, SL, B, tp) == machine.total("q", "k", "v", "out")
    assert transformer.layer_forward_flops(H, SL, B, tp) == machine.total(*FORWARD)


def test_the_papers_count_leaves_out_one_gemm_of_each_kind(run):
    tp, _, _, ranks, _ = run
    machine = ranks[0].machine
    assert transformer.fc_forward_flops(H, SL, B, tp, PAPER.fc_gemms) == machine.total("fc1")
    assert transformer.attention_forward_flops(H, SL, B, tp, PAPER.attention_gemms) == machine.total("qk")
    assert transformer.linear_forward_flops(H, SL, B, tp, PAPER.linear_gemms) == machine.total("q", "k", "v")
    assert transformer.layer_forward_flops(H, SL, B, tp, *PAPER) == machine.total("fc1", "qk", "q", "k", "v")


def test_training_is_all_gemms_of_the_simulated_rank(run):
    tp, _, _, ranks, _ = run
    machine = ranks[0].machine
    forward, everything = machine.total(*FORWARD), sum(flops for _, flops in machine.flops)
    formula = transformer.layer_forward_flops(H, SL, B, tp)
    assert transformer.training_flops(formula) == everything
    assert transformer.training_flops(formula, recomputed=1) == everything + forward
    assert transformer.training_flops(formula, recomputed=0.5) == everything + forward / 2
    assert transformer.fc_backward_flops(H, SL, B, tp) == machine.total("fc1'w", "fc1'x")
    assert transformer.fc_backward_flops(H, SL, B, tp, gemms=2) == machine.total("fc1'w", "fc1'x", "fc2'w", "fc2'x")


def test_weights_are_those_of_the_simulated_rank(run):
    tp, _, _, ranks, _ = run
    sizes = {name: weight.size for name, weight in ranks[0].w.items()}
    assert transformer.layer_weights(H, tp) == sum(sizes.values())
    assert transformer.layer_weights(H, tp, 1, 3) == sum(sizes[n] for n in ("fc1", "q", "k", "v"))
    assert transformer.layer_weights(H, tp, 1, 0) == sizes["fc1"] == ranks[0].grads["fc1"].size
    if tp == 1:
        assert transformer.layer_weights(H) == sum(sizes.values())
        assert transformer.core_parameters(5, H) == 5 * sum(sizes.values())


def test_messages_are_four_whole_activations(run):
    _, _, _, _, network = run
    assert network.messages == [transformer.activation_message_bytes(H, SL, B)] * 4


def test_message_bytes_follow_the_precision(layer):
    for size in (1, 2, 4):
        messages = run_layer(*layer, 2, HEADS, element_bytes=size)[3].messages
        assert transformer.activation_message_bytes(H, SL, B, size) == messages[0]


def test_tokens_are_the_rows_of_the_activation(layer):
    assert transformer.tokens(SL, B) == layer[1].reshape(-1, H).shape[0]


# --- published: notes 1.1 and 1.2 (arXiv:2302.02825 Eqs 1-8), exact in rational numbers --------------------------


@pytest.mark.parametrize(("hidden", "seq_len", "batch", "tp"), CONFIGS)
def test_table_of_constant_factors(hidden, seq_len, batch, tp):
    """The rows "FC fwd" to "weight grads" of the table of both counts."""
    h, sl, t = Fraction(hidden), Fraction(seq_len), Fraction(seq_len * batch)
    point = (hidden, seq_len, batch, tp)
    assert transformer.fc_forward_flops(*point, 1) == 8 * h**2 * t / tp
    assert transformer.fc_forward_flops(*point) == 16 * h**2 * t / tp
    assert transformer.attention_forward_flops(*point, 1) == 2 * h * sl * t / tp
    assert transformer.attention_forward_flops(*point) == 4 * h * sl * t / tp
    assert transformer.linear_forward_flops(*point, 3) == 6 * h**2 * t / tp
    assert transformer.linear_forward_flops(*point) == 8 * h**2 * t / tp
    assert transformer.layer_forward_flops(*point, *PAPER) == (14 * h**2 + 2 * h * sl) * t / tp
    assert transformer.layer_forward_flops(*point) == 4 * h * t * (6 * h + sl) / tp
    assert transformer.layer_forward_flops(*point, *COMPLETE) == transformer.layer_forward_flops(*point)
    assert transformer.fc_backward_flops(*point) == 16 * h**2 * t / tp
    assert transformer.layer_weights(hidden, tp, 1, 3) * 2 == 7 * h**2 * 2 / tp
    assert transformer.layer_weights(hidden, tp) * 2 == 12 * h**2 * 2 / tp
    assert transformer.activation_message_bytes(hidden, seq_len, batch) == 2 * h * t


def test_the_two_counts_differ_by_24_over_14_to_2():
    """notes 1.2: 1.714 for SL << H, 2 for SL >> H."""
    wide, long = (2**24, 1, 1, 1), (1, 2**24, 1, 1)
    for point, ratio in ((wide, 24 / 14), (long, 2)):
        complete, paper = transformer.layer_forward_flops(*point), transformer.layer_forward_flops(*point, *PAPER)
        assert complete / paper == pytest.approx(ratio, rel=1e-5)


@pytest.mark.parametrize(
    ("layers", "hidden", "billions", "printed"),
    [
        (24, 1024, 0.34, 0.30), (24, 1024, 11, 0.30), (48, 1600, 1.54, 1.47), (74, 3072, 8.3, 8.38),
        (78, 4256, 17, 17.0), (96, 12288, 175, 174), (105, 20480, 530, 528), (118, 18432, 540, 481),
    ],
)  # fmt: skip
def test_core_parameters_of_table_4(layers, hidden, billions, printed):
    """notes 1.3: the check of 12 L H^2 against Table 4 (T5-11B and PaLM are known to differ)."""
    got = float(transformer.core_parameters(layers, hidden)) / 1e9
    assert got == pytest.approx(printed, rel=0.006, abs=0.005)
    if billions not in (11, 540):
        assert got == pytest.approx(billions, rel=0.12)


# --- the contract of every formula -----------------------------------------------------------------------------------

FORMULAS = [
    function
    for module in (gemm, layer_flops, layer_sizes, wire_bytes, collective_time, edges, scaling)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and "__" not in name  # a mutation tester adds names with "__"
]


def arguments(function):
    """Distinct whole numbers for every argument, such that nothing is degenerate."""
    if function is scaling.next_divisor:
        return [42.0, 6.0]
    return [float(2 + 3 * i) for i, _ in enumerate(inspect.signature(function).parameters)]


def test_the_contract_covers_the_formulas():
    assert len(FORMULAS) >= 30
    assert {"gemm_flops", "amdahl_edge", "ring_time", "required_tp"} <= {f.__name__ for f in FORMULAS}


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f.__name__)
class TestContract:
    def test_a_point_gives_a_float64_number(self, function):
        result = function(*arguments(function))
        assert np.shape(result) == ()
        assert np.asarray(result).dtype == np.float64

    def test_python_ints_and_floats_are_the_same(self, function):
        values = arguments(function)
        assert function(*map(int, values)) == function(*values)

    def test_arrays_of_any_type_give_float64(self, function):
        values = arguments(function)
        numbers = [function(*values), function(*(value + 1 for value in values))]
        for dtype in (np.int8, np.int32, np.int64, np.float16, np.float32, np.float64):
            result = function(*(np.array([value, value + 1], dtype) for value in values))
            assert result.dtype == np.float64, dtype
            assert result.tolist() == numbers, dtype

    def test_one_array_among_numbers_broadcasts(self, function):
        values = arguments(function)
        for place in range(len(values)):
            mixed = [*values]
            mixed[place] = np.array([[values[place]], [values[place] + 1]])
            result = function(*mixed)
            assert result.shape == (2, 1)
            assert result[0, 0] == function(*values)

    def test_every_argument_on_an_axis_of_its_own(self, function):
        values = arguments(function)
        open_grid = np.ix_(*([value, value + 1] for value in values))
        result = function(*open_grid)
        assert result.shape == (2,) * len(values)
        assert result[(0,) * len(values)] == function(*values)
        assert result[(1,) * len(values)] == function(*(value + 1 for value in values))
        assert result[(*(0,) * (len(values) - 1), 1)] == function(*values[:-1], values[-1] + 1)

    def test_arguments_are_left_alone(self, function):
        arrays = [np.array([value, value + 1]) for value in arguments(function)]
        before = [array.copy() for array in arrays]
        result = function(*arrays)
        for array, old in zip(arrays, before, strict=True):
            assert np.array_equal(array, old)
        assert result.shape == (2,)

    def test_what_does_not_broadcast_is_an_error(self, function):
        if len(arguments(function)) > 1:
            with pytest.raises(ValueError, match=r"broadcast|shape mismatch"):
                function(*(np.ones(2 + i) for i, _ in enumerate(arguments(function))))


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f.__name__)
def test_a_list_is_an_array(function):
    values = arguments(function)
    required = sum(p.default is p.empty for p in inspect.signature(function).parameters.values())
    for place in range(required):
        mixed = [*values[:required]]
        mixed[place] = [values[place], values[place] + 1]
        assert function(*mixed)[0] == function(*values[:required])


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f.__name__)
def test_a_zero_dimensional_result_is_a_numpy_number(function):
    """As `comp_comm.formulas` promises."""
    assert isinstance(function(*arguments(function)), np.float64)


def test_a_block_of_an_open_grid():
    """Axes of length 1 stand for every index; lists of indices are taken axis by axis, as `numpy.ix_` does."""
    array = np.arange(12.0).reshape(3, 1, 4)
    assert np.array_equal(take(array, (slice(1, 3), slice(5, 6), slice(0, 2))), array[1:3, :, 0:2])
    picked = take(array, (np.array([0, 2]), np.array([7, 8, 9]), np.array([1, 3])))
    assert np.array_equal(picked, array[np.ix_([0, 2], [0], [1, 3])])
    assert np.array_equal(take(array, (np.array([2]), slice(0, 1), slice(1, 2))), array[[2], :, 1:2])
    assert take(np.float64(7), (slice(0, 1), slice(0, 1))) == 7
    with pytest.raises(ValueError, match="shorter"):
        take(array, (slice(0, 1), slice(0, 1)))


# One array more than int32, or int64, holds: H^2 T at the largest model of Table 2 and beyond.
BIG = (65536, 8192, 4, 4)


@pytest.mark.parametrize("kind", [int, np.int32, np.int64, lambda v: np.array([v], np.int32), lambda v: np.array(v)])
def test_no_product_overflows(kind):
    hidden, seq_len, batch, tp = map(kind, BIG)
    exact = 65536 * 8192 * 4 * (6 * 65536 + 8192)
    assert exact > 2**49
    assert transformer.layer_forward_flops(hidden, seq_len, batch, tp) == float(exact)
    assert transformer.fc_forward_flops(hidden, seq_len, batch, tp) == float(16 * 65536**2 * 8192)
    assert transformer.attention_forward_flops(hidden, seq_len, batch, tp) == float(4 * 65536 * 8192**2)
    assert transformer.linear_forward_flops(hidden, seq_len, batch, tp) == float(8 * 65536**2 * 8192)
    assert transformer.layer_weights(hidden) == float(12 * 65536**2)
    assert transformer.core_parameters(kind(1000), hidden) == float(12000 * 65536**2)
    assert transformer.activation_message_bytes(hidden, seq_len, batch) == float(2 * 65536 * 8192 * 4)
    assert gemm.gemm_flops(hidden, hidden, hidden) == float(2 * 65536**3)
    assert gemm.gemm_bytes(hidden, hidden, hidden) == float(6 * 65536**2)
    assert scaling.memory_demand(hidden, hidden) == float(65536**2)
    assert edges.amdahl_edge(hidden, seq_len, tp) == 1.5 * (6 * 65536 + 8192) / 4
    assert edges.layer_slack_advantage(hidden, seq_len, batch) == pytest.approx(2 * 32768 * (1 + 8192 / (6 * 65536)))
    assert collectives.all_reduce_wire_bytes(kind(2**31 - 1), tp) == 2 * (2**31 - 1) * 0.75


def test_python_integers_beyond_int64():
    assert gemm.gemm_flops(2**40, 2**40, 2**40) == 2.0**121
    assert transformer.layer_weights(10**12) == pytest.approx(12e24)

"""Traces and tables of kernels: what launched a kernel, what is none, and what numbers and words may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comp_comm.calibration.measurements import AttentionRow, CollectiveRow, GemmRow, KernelTime
from comp_comm.calibration.readers import json_events, pytorch_trace, read_log
from comp_comm.errors import ConfigError

INPUTS = Path(__file__).resolve().parents[2] / "shared" / "cases" / "inputs"
needs_inputs = pytest.mark.skipif(not INPUTS.is_dir(), reason="the inputs of the project are not beside the checkout")
TYPES = ["c10::BFloat16", "c10::BFloat16"]


@pytest.fixture
def trace(tmp_path):
    def write(events, name="trace.json"):
        path = tmp_path / name
        path.write_text(events if isinstance(events, str) else json.dumps({"traceEvents": events}))
        return str(path)

    return write


def product(number, begin, dims, name="aten::mm", thread=1, lasts=50):
    args = {"Input Dims": dims, "Input type": TYPES}
    args |= {} if number is None else {"External id": number}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": lasts, "args": args}


def launch(correlation, begin, thread=1):
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": thread, "ts": begin,
            "dur": 5, "args": {"correlation": correlation}}  # fmt: skip


def kernel(duration, name="ampere_bf16_s16816gemm", **args):
    named = {"External id" if key == "external" else key: value for key, value in args.items()}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 500, "dur": duration, "args": named}


def shapes(found):
    return {(row.m, row.n, row.k): row.seconds for row in found.rows if isinstance(row, GemmRow)}


SMALL, LARGE = [[64, 32], [32, 16]], [[128, 64], [64, 256]]


def test_kernels_are_tied_by_correlation_where_the_external_id_is_the_calls(trace):
    """The External id of a kernel is its correlation here, and by chance that of another operator too."""
    events = [product(7, 0, SMALL), launch(8, 10), product(8, 100, LARGE), launch(7, 110),
              kernel(3, external=8, correlation=8), kernel(40, external=7, correlation=7)]  # fmt: skip
    assert shapes(read_log(trace(events))) == {(64, 16, 32): pytest.approx(3e-6), (128, 256, 64): pytest.approx(40e-6)}


def test_scaled_products_are_of_8_bits_and_give_16(trace):
    operator = product(7, 0, LARGE, name="aten::_scaled_mm")
    operator["args"]["Input type"] = ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"]
    found = read_log(trace([operator, launch(7, 10), kernel(9, external=7, correlation=7)]))
    row = next(row for row in found.rows if isinstance(row, GemmRow))
    assert (row.dtype, row.output, row.m, row.n, row.k) == ("fp8", "bf16", 128, 256, 64)


@pytest.mark.parametrize("backwards", [False, True])
def test_kernels_are_tied_by_external_id_where_it_is_the_operators(trace, backwards):
    events = [product(1, 0, SMALL), product(2, 100, LARGE), launch(11, 10), launch(12, 110),
              kernel(3, external=1, correlation=11), kernel(40, external=2, correlation=12)]  # fmt: skip
    found = shapes(read_log(trace(events[::-1] if backwards else events)))
    assert found == {(64, 16, 32): pytest.approx(3e-6), (128, 256, 64): pytest.approx(40e-6)}


def test_the_innermost_operator_of_the_same_thread_launches(trace):
    """Another thread's product goes on at the same time; an outer one goes on around the one that launches."""
    events = [product(None, 0, LARGE, thread=2, lasts=1000), product(None, 0, LARGE, "aten::bmm", lasts=900),
              product(None, 5, SMALL), launch(1, 10), kernel(3, correlation=1),
              launch(2, 700), kernel(9, correlation=2), launch(3, 5000), kernel(5, correlation=3)]  # fmt: skip
    events[1]["args"]["Input Dims"] = [[4, 8, 16], [4, 16, 32]]
    found = read_log(trace(events))
    assert shapes(found) == {(64, 16, 32): pytest.approx(3e-6), (8, 32, 16): pytest.approx(9e-6)}
    assert [row for row in found.rows if isinstance(row, KernelTime)] == [
        KernelTime(pytest.approx(5e-6), "", 0, "gemm", "ampere_bf16_s16816gemm", 1)
    ]


def test_an_identity_that_several_calls_have_ties_nothing(trace):
    """Traces of several processes in one file: their correlations are not one another's."""
    events = [product(None, 0, SMALL), launch(1, 10), launch(1, 20), kernel(3, correlation=1)]
    assert shapes(read_log(trace(events))) == {}


def test_two_kernels_of_one_product_are_one_time(trace):
    """A product whose parts are added up by a second kernel takes both; a kernel twice is two calls."""
    events = [product(1, 0, SMALL), launch(1, 10), launch(2, 20), kernel(30, correlation=1),
              kernel(6, name="splitKreduce_kernel", correlation=2)]  # fmt: skip
    assert shapes(read_log(trace(events))) == {(64, 16, 32): pytest.approx(36e-6)}
    again = [product(1, 0, SMALL), *(kernel(duration, external=1) for duration in (10, 20, 60))]
    assert shapes(read_log(trace(again))) == {(64, 16, 32): pytest.approx(30e-6)}


# Recorded arguments, by the signatures of PyTorch 2.1 to 2.6: three tensors, and what each version has after them.
FLASH, EFFICIENT = "aten::_flash_attention_forward", "aten::_efficient_attention_forward"
SOFT_FLASH, SOFT_CUDNN = "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention"


@pytest.mark.parametrize(("name", "further", "causal"), [
    (FLASH, ["", "", "128", "128", "0.", "True", "False", "0.125"], True),
    (FLASH, ["", "", "128", "128", "0.", "False", "False", "0.125"], False),
    (EFFICIENT, ["", "", "", "128", "128", "0.", "1", "True", "0.125"], True),  # from 2.3 on
    (EFFICIENT, ["", "", "", "128", "128", "0.10000000000000001", "0", "True", ""], False),
    (EFFICIENT, ["", "", "", "128", "0.", "1", "True", ""], True),  # to 2.2
    (EFFICIENT, ["", "", "", "128", "0.", "2", "False", ""], True),
    (SOFT_FLASH, ["0.", "True", "False", "0.125"], True),
    (SOFT_CUDNN, ["", "True", "0.", "True", "False", ""], True),  # from 2.5 on
    (SOFT_CUDNN, ["", "True", "0.", "False", "False", ""], False),
    (SOFT_CUDNN, ["0.", "True", "False", ""], True),  # 2.4
])  # fmt: skip
def test_which_argument_says_that_attention_is_causal(trace, name, further, causal):
    heads_first = "scaled_dot" in name
    dims = [[2, 8, 128, 64] if heads_first else [2, 128, 8, 64]] * 3
    event = product(1, 0, dims, name)
    event["args"]["Concrete Inputs"] = ["", "", "", *further]
    found = read_log(trace([event, kernel(20, name="flash_fwd_kernel", external=1)]))
    assert found.rows == [AttentionRow(pytest.approx(20e-6), "bf16", 0, 2, 128, 8, 8, 64, causal)]
    for unsaid in ([], ["", "", "", "", "", "0.125"], ["0.", ""], None):
        event["args"]["Concrete Inputs"] = unsaid
        assert isinstance(read_log(trace([event, kernel(20, name="flash_fwd_kernel", external=1)])).rows[0], KernelTime)


def collective(**args):
    given = {"Collective name": "allreduce", "In msg nelems": 1000, "Group size": 8, "dtype": "BFloat16", **args}
    return {"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum", "dur": 10, "args": given}


@pytest.mark.parametrize("odd", [
    {"Collective name": ["allreduce"]}, {"In msg nelems": [1000]}, {"In msg nelems": 10**60}, {"Group size": [8]},
    {"Group size": 10**60}, {"Group size": True}, {"dtype": ["BFloat16"]}, {"dtype": 7}, {"Collective name": None},
])  # fmt: skip
def test_a_collective_that_does_not_say_its_shape_is_a_kernel(trace, odd):
    assert isinstance(read_log(trace([collective()])).rows[0], CollectiveRow)
    (row,) = read_log(trace([collective(**odd)])).rows
    assert (type(row), row.operator) == (KernelTime, "collective")


def test_that_collectives_wait_for_others_is_said_with_how_much(trace):
    """Of three calls the median is 20 us, and the quickest 10; nothing is said where there is no collective."""
    log = read_log(trace([{**collective(), "dur": dur} for dur in (40, 10, 20)]))
    assert log.rows[0].seconds == pytest.approx(20e-6)
    (said,) = [note for note in log.notes if "waiting for others" in note]
    assert "3 calls of 1 collective:" in said
    assert "the quickest took 50 % of it" in said
    assert not [note for note in read_log(trace([kernel(10)])).notes if "waiting" in note]


@pytest.mark.parametrize(("event", "said"), [
    (kernel(10, external=[1]), "'External id' must be a number, not a list"),
    (kernel(10, external={"a": 1}), "'External id' must be a number, not an object"),
    (kernel(10, external="abc"), "'External id' must be a number, not text"),
    (kernel(10, correlation=True), "'correlation' must be a number, not true or false"),
    (kernel(10, correlation=10**30), "'correlation' must be a number"),
    (kernel(10, correlation=float("inf")), "'correlation' must be a number"),
    (kernel("10"), "'dur' must be a number, not text"),
    (kernel([10]), "'dur' must be a number, not a list"),
    (kernel(1e308), r"a duration of 1e\+300 us is none"),
    (kernel(10**400), r"a duration of 1e\+300 us is none"),
    (kernel(float("inf")), r"a duration of 1e\+300 us is none"),
    (kernel(9e10), "us is none"),
    (kernel(float("nan")), "'dur' must be a number"),
    (kernel(10, name=["gemm"]), "'name' must be a word, not a list"),
    (kernel(10, name=7), "'name' must be a word"),
    ({**kernel(10), "args": [1]}, "'args' must be an object, not a list"),
    ({**product(1, 0, SMALL), "ts": "0"}, "'ts' must be a number, not text"),
    ({**launch(1, 0), "ts": [0]}, "'ts' must be a number, not a list"),
])  # fmt: skip
def test_what_is_no_number_or_word_is_refused(trace, event, said):
    with pytest.raises(ConfigError, match=said):
        read_log(trace([event, kernel(1)]))


@pytest.mark.parametrize("event", [
    {"cat": ["kernel"]}, {"cat": 7, "dur": "x"}, {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    product(1, 0, "x"), product(1, 0, [["a", 2], [2, 2]]), product(1, 0, [[10**30, 2], [2, 2]]),
    product(1, 0, [[[[1]]], None]), {**product(1, 0, SMALL), "pid": ["x"], "tid": {"y": 1}},
    {**product(1, 0, SMALL), "name": None}, kernel(0), kernel(-5), kernel(3, external="12", correlation=1.0),
])  # fmt: skip
def test_what_is_odd_and_says_nothing_is_left_alone(trace, event):
    found = read_log(trace([event, kernel(5, name="elementwise")]))
    assert found.totals["elementwise"] == pytest.approx(5e-6)


@pytest.mark.parametrize(("content", "said"), [
    ('{"traceEvents": [{"cat": "kernel"}, {"cat": ', "is not whole JSON.*it ends early"),
    ('{"traceEvents": [{"cat": "kern', "is not whole JSON.*it ends early"),
    ('{"traceEvents": [{"cat": "kernel" "name": 1}]}', "is not whole JSON: Expecting ',' delimiter"),
    ('{"traceEvents": []} junk', "Extra data"),
    ('{"traceEvents": {"a": 1}}', "no list 'traceEvents'"),
    ('{"a": [1, 2], "b": {"traceEvents": [{}]}}', "no list 'traceEvents'"),
    ("[1, 2]", "no known kind"),
    ('[{"cat": "kernel"}, 7]', "no list 'traceEvents' of events"),
    ('{"traceEvents": [' + '{"args": ' * 100_000, "nested too deeply"),
    ('{"traceEvents": [{"dur": ' + "9" * 5000 + "}]}", "a number that none can be"),
    ('{"x": "' + "a" * 2**26 + '"}', "one value of it is longer than 16 MiB"),
])  # fmt: skip
def test_what_is_no_trace_is_refused(trace, content, said):
    with pytest.raises(ConfigError, match=said):
        read_log(trace(content))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_trace_is_the_same_in_whatever_pieces_it_is_read(trace, monkeypatch, size):
    """Blocks that end in the middle of a name, an escape, a number."""
    events = [product(1, 0, SMALL), launch(1, 10.5), kernel(30.25, correlation=1),
              kernel(2, name='é "quoted" \\ back \N{GRINNING FACE}')]  # fmt: skip
    path = trace(json.dumps({"schemaVersion": 1, "traceEvents": events, "more": [1.5e3, {"a": None}]}))
    plain = read_log(path)
    monkeypatch.setattr("comp_comm.calibration.readers.text.CHUNK", size)
    assert read_log(path).rows == plain.rows
    assert list(json_events.events(read_source(path))) == events


def read_source(path):
    from comp_comm.calibration.readers.text import open_source

    return open_source(path)


@pytest.mark.parametrize("change", [
    lambda text: text.replace("}]}", "},\n]}"), lambda text: text[:-1] + ",}",
    lambda text: text.replace("sgemm", "s\tge\nmm"),
])  # fmt: skip
def test_json_that_is_a_little_off_is_read(trace, change):
    """A comma after the last event or member, as Chrome reads it; a tab in a name."""
    found = read_log(trace(change(json.dumps({"traceEvents": [kernel(3, "volta_sgemm"), kernel(4, "volta_sgemm")]}))))
    assert [(row.calls, row.seconds) for row in found.rows] == [(2, pytest.approx(7e-6))]
    with pytest.raises(ConfigError, match="ends early"):
        read_log(trace('{"traceEvents": [' + json.dumps(kernel(3)) + ",\n"))


def test_steps_of_the_profiler_are_said(trace):
    steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 0, "dur": 1} for n in (3, 4)]
    assert any("2 steps of the profiler" in note for note in read_log(trace([*steps, kernel(3)])).notes)


def test_more_than_is_kept_is_refused(trace, monkeypatch):
    monkeypatch.setattr(pytorch_trace, "MOST_KEPT", 3)
    with pytest.raises(ConfigError, match="more than 3 operators"):
        read_log(trace([product(n, n, SMALL) for n in range(5)]))
    with pytest.raises(ConfigError, match="more than 6 calls"):
        read_log(trace([launch(n, n) for n in range(9)]))


@needs_inputs
def test_the_inputs_of_the_project(compcomm):
    (row,) = read_log(str(INPUTS / "trace-linked-by-correlation.json")).rows
    assert (row.m, row.n, row.k, row.dtype) == (1024, 256, 512, "bf16")
    assert any("4 calls of kernels with shapes" in note
               for note in read_log(str(INPUTS / "trace-linked-by-correlation.json")).notes)  # fmt: skip
    code, out, err = compcomm("calibrate", INPUTS / "trace-external-id-list.json", "--extends", "h100-sxm")
    assert (code, out) == (2, "")
    assert "'External id' must be a number, not a list" in err
    code, out, err = compcomm("project", INPUTS / "trace-huge-duration.json", "--baseline",
                              "hidden=1024,seq_len=512,micro_batch=1,tp=2", "--hidden", "2048")  # fmt: skip
    assert (code, out) == (2, "")
    assert "is none" in err

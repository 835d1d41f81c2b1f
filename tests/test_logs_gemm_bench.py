"""What rocblas-bench and hipblaslt-bench print: one row a product or many of one, with a lot around them."""

from __future__ import annotations

import pytest

from comp_comm.calibration.measurements import GemmRow
from comp_comm.calibration.readers import read_log
from comp_comm.errors import ConfigError

LT = ("transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,a_type,b_type,c_type,d_type,"
      "compute_type,activation_type,hipblaslt-Gflops,hipblaslt-GB/s,us")  # fmt: skip
OLD_LT = "transA,transB,grouped_gemm,batch_count,m,n,k,alpha,d_type,compute_type,hipblaslt-Gflops,us"
ROC = "transA,transB,M,N,K,alpha,lda,beta,ldb,ldc,rocblas-Gflops,us"


@pytest.fixture
def log(tmp_path):
    def write(*lines):
        path = tmp_path / "bench.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    return write


def lt(m, n, k, us, kind="bf16_r", batch=1, grouped=0, compute="f32_r", out="bf16_r", rate=None):
    """Return a row; its rate is by the definition of a product's FLOP."""
    rate = 2 * m * n * k * batch / us / 1e3 if rate is None else rate
    return (f"    T,N,{grouped},{batch},{m},{n},{k},1,{k},{m * k},0,{k},{kind},{kind},{out},{out},{compute},none,"
            f"{rate:.6g},99.5,{us}")  # fmt: skip


def rows(found):
    return [(row.m, row.n, row.k, row.batch, row.dtype, row.output, pytest.approx(row.seconds)) for row in found.rows]


@pytest.mark.parametrize("mark", ["", "    ", "[0]", "[0]:"])
def test_hipblaslt_bench(log, mark):
    found = read_log(log("hipBLASLt version: 1300", "Is supported 1 / Total solutions: 1", mark + LT,
                         lt(4096, 512, 1024, 25.5), "    --Solution index: 30", "    --kernel name:  Cijk_Alik",
                         mark + LT, lt(64, 32, 16, 3.25, "f8_r", 12)))  # fmt: skip
    assert rows(found) == [(4096, 512, 1024, 1, "bf16", "", 25.5e-6), (64, 32, 16, 12, "fp8", "bf16", 3.25e-6)]
    assert (found.rows[0].line, found.skipped, found.notes) == (4, {}, [])


def test_of_all_kernels_that_were_tried_the_fastest_counts(log):
    found = read_log(log(LT, lt(64, 64, 64, 9.0), LT, lt(64, 64, 64, 4.0), LT, lt(64, 64, 64, 5.0), "Winner:", LT,
                         lt(64, 64, 64, 4.0), LT, lt(64, 64, 64, 7.0, "f16_r", out="f16_r")))  # fmt: skip
    assert rows(found) == [(64, 64, 64, 1, "bf16", "", 4e-6), (64, 64, 64, 1, "fp16", "", 7e-6)]
    assert "5 rows of 2 shapes: the fastest of each counts" in found.notes[0]


def test_formats_by_columns_and_by_the_command(log):
    found = read_log(log("[0]" + OLD_LT, "N,N,0,1,896,896,896,1,fp16_r,f32_r, 58624.5, 24.54",
                         LT, lt(64, 64, 64, 2.0, "f32_r", compute="f32_xf32_r", out="f32_r")))  # fmt: skip
    assert [(row.m, row.dtype) for row in found.rows] == [(896, "fp16"), (64, "tf32")]
    assert found.rows[0].seconds == pytest.approx(24.54e-6)
    for call, dtype in (("-f gemm -r s -m 400", "fp32"), ("-f gemm_ex --a_type bf16_r -m 400", "bf16"), ("", "")):
        found = read_log(log(f"$ ./rocblas-bench {call}", "rocBLAS info: 1 device", ROC,
                             "N,T,400,300,200,1,400,0,400,400, 4800, 10"))  # fmt: skip
        assert rows(found) == [(400, 300, 200, 1, dtype, "", 10e-6)]
        assert any("number format is not said" in note for note in found.notes) == (not dtype)


def test_columns_of_a_check_on_the_host_are_not_the_times_of_the_device(log):
    found = read_log(log("rocblas-bench -r s", ROC + ",CPU-Gflops,us,norm_error",
                         "N,T,400,300,200,1,400,0,400,400, 4800, 10, 24, 2000, 1e-7"))  # fmt: skip
    assert rows(found) == [(400, 300, 200, 1, "fp32", "", 10e-6)]


def test_rows_that_are_left_out_are_said(log):
    found = read_log(log(LT, lt(64, 64, 64, 4.0), lt(64, 64, 32, 4.0, grouped=1), lt(64, 64, 16, 4.0, rate=1.0),
                         lt(64, 0, 16, 4.0)))  # fmt: skip
    assert [row.k for row in found.rows] == [64]
    assert found.skipped == {"grouped GEMMs": 1, "a dimension or a time of 0": 1,
                             "time and Gflop/s that do not fit together (complex numbers?)": 1}  # fmt: skip


@pytest.mark.parametrize(("lines", "said"), [
    ((LT,), "no row that can be used: the run stopped"),
    ((LT, lt(64, 64, 64, 4.0, grouped=1)), "no row that can be used: grouped GEMMs"),
    ((LT, lt(64, 64, 64, 4.0)[:-14]), "no row that can be used"),
    ((LT, lt(2.5, 64, 64, 4.0)), r"bench.log:2: 'm' must be a whole number, not '2.5'"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused(log, lines, said):
    with pytest.raises(ConfigError, match=said):
        read_log(log(*lines))


def test_a_table_of_ones_own_is_still_one(log):
    found = read_log(log("m,n,k,dtype,time_us", "64,64,64,bf16,4.0"))
    assert found.rows == [GemmRow(4e-6, "bf16", 2, 64, 64, 64)]

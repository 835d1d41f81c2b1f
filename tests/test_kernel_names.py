"""Which operator a kernel is of, by names as libraries give them: what stands in a name is not always what it does."""

from __future__ import annotations

import pytest

from comp_comm.calibration.readers.kernel_names import operator_of_kernel

# Inductor's names list the operators near a kernel; poi, red and per go point by point or reduce, tem is a template.
INDUCTOR = {
    "triton_poi_fused_addmm_gelu_view_3": "elementwise",
    "triton_red_fused_add_addmm_mul_native_layer_norm_view_7": "elementwise",
    "triton_per_fused__to_copy_addmm_mean_pow_view_1": "elementwise",
    "triton_poi_fused__scaled_dot_product_flash_attention_cat_view_2": "elementwise",
    "triton_poi_fused_all_reduce_wait_tensor_0": "elementwise",
    "triton_poi_fused_convolution_relu_5": "elementwise",
    "triton_tem_fused_mm_5": "gemm",
    "triton_tem_fused_addmm_gelu_0": "gemm",
    "triton_tem_fused_flex_attention_1": "attention",
    "triton_tem_fused_convolution_4": "other",
}
# NCCL before 2.11, to 2.18, and after; RCCL's one kernel for all, MSCCL's.
COLLECTIVES = (
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "ncclAllGatherRingLL128Kernel_copy_i8(ncclColl)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic_1(ncclDevComm*, unsigned long)",
    "ncclSymkDevKernel_AllReduce_AGxLLMC_R(ncclSymkDevWorkArgs)", "mscclKernel_Sum_half_Simple_false(ncclDevComm*)",
    "void deep_ep::internode::dispatch<false, 8, false, 8>(int4*, float*)",
    "void lab::ep::internode::combine<false, 8, __nv_bfloat16>(int4*, float*)",
    "void intranode::notify_dispatch<8>(int const*)",
    "void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(vllm::RankData*)",
)  # fmt: skip
OTHERS = {
    # a cache of keys and values is copied into, embeddings are looked up (fbgemm is the library's name)
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(__nv_bfloat16 const*)": "elementwise",
    "void split_embedding_codegen_forward_unweighted_kernel<float>(fbgemm_gpu::FixedDivisor)": "elementwise",
    "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float)": "elementwise",
    "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)": "elementwise",
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_TN_dynB_sm100f": "gemm",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu": "gemm",
    "sage_fwd": "attention",
    "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1": "other",  # a convolution
    "cudnn_volta_scudnn_128x128_stridedB_splitK_medium_nn_v1": "other",
}


@pytest.mark.parametrize("name", INDUCTOR)
def test_kernels_of_inductor_are_what_their_kind_says(name):
    assert operator_of_kernel(name) == INDUCTOR[name]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_of_all_versions(name):
    assert operator_of_kernel(name) == "collective"


@pytest.mark.parametrize("name", OTHERS)
def test_names_that_say_something_else_too(name):
    assert operator_of_kernel(name) == OTHERS[name]

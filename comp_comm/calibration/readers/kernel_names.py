"""Which operator a GPU kernel is of, by its name: NVIDIA and AMD libraries, PyTorch, Triton."""

from __future__ import annotations

import re
from functools import lru_cache

# Inductor names a kernel by all operators near it. Kernels that go point by point or reduce are neither GEMM, attention
# nor collective, whatever stands in their names; nor are copies into a cache of keys, or look-ups in embedding tables.
_WHATEVER_ELSE = (
    ("elementwise", r"triton_(?:poi|red|per)_fused|reshape_and_cache|store_kv_?cache|split_embedding|"
                    r"create_flash\w*_indices|quantize_with_block|_finalize_matmul_scatter"),
    ("attention", r"triton_tem_fused\w*attention"),
    ("gemm", r"triton_tem_fused(?!\w*conv)"),
)  # fmt: skip
# In the order they are tried: a fused attention kernel has a GEMM in its name, a reduction of a collective a sum.
_PATTERNS = (
    ("collective", r"nccl|rccl|msccl|nvshmem|userbuffers|cross_device_reduce|one_?shot_all|two_?shot_all|multimem_all|"
                   r"deep_?ep|::ep::|int(?:er|ra)node(?:_ll)?::|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all(?!ow)"),
    ("attention", r"flash|fmha|mha_|attention(?!.*norm)|attn_(?:fwd|bwd)|aotriton|bwd_kernel_dk_dv|bwd_kernel_dq|"
                  r"cudnn.*sdpa|paged_attn|sage_fwd|sage_?attn|qk_int8?_sv"),
    ("gemm", r"gemm|\bbmm_|cijk_|nvjet|wgmma|cutlass.*tensorop|cutlass::kernel|xmma(?!.*conv)|matmul|matrix_multipl|"
             r"splitkreduce|cublas|hipblas|::dot_kernel|\bdot_kernel|addmm|linear_kernel"),
    ("elementwise", r"elementwise|norm|softmax|reduce|dropout|gelu|silu|swiglu|relu|activation|"
                    r"copy|fill|memset|memcpy|multi_tensor|adam|optimizer|index|embedding|gather|scatter|cat|"
                    r"transpose|rowwisemoments|gammabeta|gradgamma|"
                    r"rotary|rope|cast|add|mul|scale|mask|random|distribution|foreach|triton_|loss|topk|sort|scan|"
                    r"subtensorop|pool"),
)  # fmt: skip
WHATEVER_ELSE, PATTERNS = (
    tuple((operator, re.compile(pattern, re.IGNORECASE)) for operator, pattern in patterns)
    for patterns in (_WHATEVER_ELSE, _PATTERNS)
)
# Implicit GEMMs are convolutions: our models have none.
CONVOLUTION = re.compile(
    r"igemm_(?:fwd|bwd|wrw)|scudnn|conv(?:olve|olution|2d|_)|cudnn.*(?:fprop|dgrad|wgrad)|miopen|winograd",
    re.IGNORECASE,
)


MOST_READ = 4096  # characters of a name: templates go on, and say no more


@lru_cache(maxsize=4096)
def operator_of_kernel(name: str) -> str:
    """Return the operator of a kernel: gemm, attention, elementwise, collective, or other.

    >>> operator_of_kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)")
    'collective'
    >>> operator_of_kernel("Cijk_Ailk_Bjlk_BBS_BH_MT128x64x32_MI32x32x1_SN")
    'gemm'
    >>> operator_of_kernel("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>")
    'attention'
    >>> operator_of_kernel("igemm_wrw_gtcx2_nhwc_bf16_bx0"), operator_of_kernel("mystery_kernel")
    ('other', 'other')
    """
    name = name[:MOST_READ]
    told = _first(WHATEVER_ELSE, name)
    if told or CONVOLUTION.search(name):
        return told or "other"
    return _first(PATTERNS, name) or "other"


def _first(patterns: tuple[tuple[str, re.Pattern[str]], ...], name: str) -> str:
    return next((operator for operator, pattern in patterns if pattern.search(name)), "")

"""The host that launches kernels: how long a device waits for it."""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, maximum, somewhere, sqrt, to_float, where

# Kernels of a backward pass over those of the forward pass: a product has two gradients, most other work has one.
BACKWARD_LAUNCHES = 1.6
# Seconds that a launch and the wait for its kernel take beyond a launch alone: 9.65 us against 2.7 on A100 with AMD's
# hosts, for a kernel that does nothing (CSCS, `gpu_kernel_latency_check` of cscs-reframe-tests).
BLOCKED_S = 7e-6
# Launches in whose time the host has a part of a layer made again: 0.13 ms at 2.6 GHz beside the part's own kernels.
# PyTorch 2.13 takes so long for what Megatron-core's CheckpointWithoutOutput does of it: states of random numbers taken
# and set, storage freed and given back, a backward pass within another (`tests/reference/checkpoints.py`).
CHECKPOINT_LAUNCHES = 4.0


def host_wait_seconds(device: Numeric, launching: Numeric, synchronises: Numeric, blocking: Numeric = 0.0) -> Array:
    r"""Return the seconds a device waits for the kernels that the host launches one by one.

    .. math:: t = \begin{cases} t_h & \text{the host waits for every kernel} \\
        \sqrt{t_d^2 + t_h^2} - t_d & \text{the host must know a result of the device once a layer} \\
        \max(t_h - t_d, 0) & \text{the host runs ahead} \end{cases}

    A host that runs ahead of the device is not seen until it is the slower of the two. Where it needs a number from the
    device (how many tokens each expert got), it begins again behind it, and both show: some kernels of a layer are
    shorter than their launch and some longer, of which the root of the sum of squares is an approximation, with the
    right ends.

    Parameters
    ----------
    device : array_like
        t_d, seconds of work on the device.
    launching : array_like
        t_h, seconds the host takes to launch it, and to see that it is done where it waits for every kernel.
    synchronises : array_like
        1 where the host needs a result of the device within the layer.
    blocking : array_like
        1 where each launch waits for its kernel (``CUDA_LAUNCH_BLOCKING=1``).

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] NVIDIA, "Optimizing DeepSeek-V3 training on GB200" (Megatron-LM discussions): in its steps CUDA graphs,
       binding of processes and fewer kernels of the router bring 1.32 of 1.96 times.

    Examples
    --------
    >>> float(host_wait_seconds(3.0, 4.0, 1)), float(host_wait_seconds(3.0, 4.0, 0)), float(host_wait_seconds(4, 3, 0))
    (2.0, 1.0, 0.0)
    >>> float(host_wait_seconds(3.0, 4.0, 0, blocking=1))
    4.0
    """
    device, launching = to_float(device), to_float(launching)
    ahead = maximum(launching - device, 0.0)
    synchronous = to_float(synchronises) > 0
    if somewhere(synchronous):
        ahead = where(synchronous, sqrt(device * device + launching * launching) - device, ahead)
    return to_float(where(to_float(blocking) > 0, launching, ahead) if somewhere(blocking) else ahead)

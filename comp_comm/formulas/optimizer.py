"""What the Muon optimizer computes."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float


def newton_schulz_flops(rows: Numeric, columns: Numeric, steps: Numeric = 5) -> Array:
    r"""Return the FLOP of making a matrix orthogonal by Newton-Schulz steps.

    .. math:: F = n_s (4 a^2 b + 2 a^3), \qquad a = \min(m, n), \; b = \max(m, n)

    of :math:`A = X X^T`, :math:`B = b A + c A^2` and :math:`X \leftarrow a X + B X` in each step.

    Parameters
    ----------
    rows, columns : array_like
        m and n of the matrix.
    steps : array_like
        n_s, steps.

    Returns
    -------
    ndarray of float64
        FLOP.

    References
    ----------
    .. [1] K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024); J. Liu et al., "Muon is
       Scalable for LLM Training", arXiv:2502.16982, section 2.1.

    Examples
    --------
    A square matrix takes six times its number of rows to the third power, five times over.

    >>> float(newton_schulz_flops(4096, 4096)) == 5 * 6 * 4096**3
    True
    """
    small, large = np.minimum(rows, columns), np.maximum(rows, columns)
    small, large = to_float(small), to_float(large)
    return to_float(steps) * (4 * small**2 * large + 2 * small**3)

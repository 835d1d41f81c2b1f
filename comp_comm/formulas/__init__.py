"""Closed-form formulas: numbers or NumPy arrays in, float64 arrays out, SI units, no state.

The contract of every function here: arguments are numbers or arrays that broadcast against each other; the
result is float64 with the broadcast shape (a 0-d result is a NumPy scalar). Nothing is validated and nothing
is rounded: ``ValueError`` is raised only where shapes do not broadcast. Counts are floats, so that a degree may
be fractional while it is being solved for and no product overflows.
"""

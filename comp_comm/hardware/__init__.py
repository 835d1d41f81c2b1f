"""Hardware: profiles, their numbers, how they evolve, and what makes them suspicious."""

from comp_comm.hardware.evolution import evolve
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.hardware.profile import Number, Profile

__all__ = ["Hardware", "Number", "Profile", "Tier", "Timing", "evolve"]

"""Bytes of a device's memory: states, kept activations, buffers; the stage that needs most."""

"""Stages of a pipeline: seconds of their passes, in which order they run, and how long they wait for each other."""

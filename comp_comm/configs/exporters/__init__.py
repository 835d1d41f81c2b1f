"""Layouts as the configuration of a framework: one file a framework, each the other way round of its importer."""

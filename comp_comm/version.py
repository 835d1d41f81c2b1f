"""The version of compcomm."""

__version__ = "0.1.0"

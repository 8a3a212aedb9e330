"""The version of this package."""

__version__ = "0.8.0"

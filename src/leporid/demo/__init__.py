"""The demonstration: real films, four recommenders, a few minutes on a laptop."""

from leporid.demo.stages import DemoResult, DemoSettings, run_demo

__all__ = ["DemoResult", "DemoSettings", "run_demo"]

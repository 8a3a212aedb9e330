"""Choosing settings on validation, with the same budget for every model."""

from __future__ import annotations

from leporid.tuning.space import Choice, Float, Int, SearchSpace
from leporid.tuning.study import TuningResult, tune

__all__ = ["Choice", "Float", "Int", "SearchSpace", "TuningResult", "tune"]

"""Masked top-k, metrics, strata, intervals and significance.

Names are loaded on first use: `models` needs `TopK` without the compiled kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leporid.evaluation.metric_table import Interval, MetricTable
    from leporid.evaluation.ranking import masked_top_k, masked_top_k_torch
    from leporid.evaluation.recommendations import Recommendations
    from leporid.evaluation.significance import Comparison, Significance, compare
    from leporid.evaluation.topk import TopK

_HOMES = {
    "Comparison": "significance",
    "Interval": "metric_table",
    "MetricTable": "metric_table",
    "Recommendations": "recommendations",
    "Significance": "significance",
    "TopK": "topk",
    "compare": "significance",
    "masked_top_k": "ranking",
    "masked_top_k_torch": "ranking",
}

__all__ = [
    "Comparison",
    "Interval",
    "MetricTable",
    "Recommendations",
    "Significance",
    "TopK",
    "compare",
    "masked_top_k",
    "masked_top_k_torch",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"leporid.evaluation.{_HOMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'leporid.evaluation' has no attribute {name!r}")

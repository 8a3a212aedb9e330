"""leporid: where should your embeddings start?

Manifold-informed starting vectors for recommenders (LEPORID, KDD 2021), the recommenders that
start from them, and the evaluation that says whether it helped.

Public names are loaded on first use, so that `import leporid` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leporid._version import __version__

if TYPE_CHECKING:
    from leporid import errors, initializers, models
    from leporid.data.interactions import Interactions
    from leporid.data.load import load
    from leporid.data.split import Split
    from leporid.data.splitting import (
        global_time_split,
        leave_last_out,
        rehearsal,
        temporal_split,
    )
    from leporid.data.synthetic import synthesize
    from leporid.evaluation.evaluate import evaluate
    from leporid.evaluation.metric_table import MetricTable
    from leporid.graph.knn import knn_graph
    from leporid.graph.types import KnnGraph
    from leporid.interop.initialize import initialize
    from leporid.models.base import Recommender
    from leporid.spectral.embedding import Embedding
    from leporid.spectral.estimators import LaplacianEigenmaps, Leporid
    from leporid.training.train import train
    from leporid.tuning import tune

__all__ = [
    "Embedding",
    "Interactions",
    "KnnGraph",
    "LaplacianEigenmaps",
    "Leporid",
    "MetricTable",
    "Recommender",
    "Split",
    "__version__",
    "errors",
    "evaluate",
    "global_time_split",
    "initialize",
    "initializers",
    "knn_graph",
    "leave_last_out",
    "load",
    "models",
    "rehearsal",
    "synthesize",
    "temporal_split",
    "train",
    "tune",
]

_HOMES = {
    "Embedding": "leporid.spectral.embedding",
    "Interactions": "leporid.data.interactions",
    "KnnGraph": "leporid.graph.types",
    "LaplacianEigenmaps": "leporid.spectral.estimators",
    "Leporid": "leporid.spectral.estimators",
    "MetricTable": "leporid.evaluation.metric_table",
    "Recommender": "leporid.models.base",
    "Split": "leporid.data.split",
    "evaluate": "leporid.evaluation.evaluate",
    "global_time_split": "leporid.data.splitting",
    "initialize": "leporid.interop.initialize",
    "knn_graph": "leporid.graph.knn",
    "leave_last_out": "leporid.data.splitting",
    "load": "leporid.data.load",
    "rehearsal": "leporid.data.splitting",
    "synthesize": "leporid.data.synthetic",
    "temporal_split": "leporid.data.splitting",
    "train": "leporid.training.train",
    "tune": "leporid.tuning",
}
_MODULES = {"errors", "initializers", "models"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"leporid.{name}")
    raise AttributeError(f"module 'leporid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

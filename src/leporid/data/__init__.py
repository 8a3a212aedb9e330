"""The data room: from a raw log to `Interactions` and `Split`.

`load` reads files, frames, matrices and named data sets; `core_filter`, `dataset_stats` and the
three splits work on what it returns; `synthesize` makes logs whose geometry is known. External
ids stop here (`IdMap`): every other room sees contiguous integers only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leporid.data.core_filter import core_filter
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions, Sequences
from leporid.data.load import load
from leporid.data.raw import LoadReport
from leporid.data.split import Split
from leporid.data.splitting import (
    global_time_split,
    leave_last_out,
    rehearsal,
    temporal_split,
)
from leporid.data.stats import DatasetStats, dataset_stats

if TYPE_CHECKING:
    from leporid.data.datasets import fetch
    from leporid.data.item_titles import ItemInfo, load_items
    from leporid.data.synthetic import (
        SyntheticData,
        recovery_score,
        synthesize,
        synthesize_planted,
    )

__all__ = [
    "DatasetStats",
    "IdMap",
    "Interactions",
    "ItemInfo",
    "LoadReport",
    "Sequences",
    "Split",
    "SyntheticData",
    "core_filter",
    "dataset_stats",
    "fetch",
    "global_time_split",
    "leave_last_out",
    "load",
    "load_items",
    "recovery_score",
    "rehearsal",
    "synthesize",
    "synthesize_planted",
    "temporal_split",
]

_LATER = {
    "ItemInfo": "item_titles",
    "SyntheticData": "synthetic",
    "fetch": "datasets",
    "load_items": "item_titles",
    "recovery_score": "synthetic",
    "synthesize": "synthetic",
    "synthesize_planted": "synthetic",
}
"""Names whose module is rarely needed or needs numba, imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'leporid.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"leporid.data.{_LATER[name]}"), name)

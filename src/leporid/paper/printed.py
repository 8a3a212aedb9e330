"""The figures the paper prints, as data, under the names this library uses."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from leporid.errors import UnknownNameError

__all__ = ["TABLES", "paper_dataset", "paper_rows"]

TABLES = ("table1", "table2", "table3", "table4", "table5", "table6")


@cache
def _values() -> dict[str, Any]:
    text = resources.files("leporid.paper").joinpath("paper_values.json").read_text("utf-8")
    values: dict[str, Any] = json.loads(text)
    return values


def paper_dataset(dataset: str) -> str | None:
    """The paper's data set that ours corresponds to: 'ml-1m-r3' stands beside 'ml-1m'."""
    for name in ("ml-1m", "steam", "anime"):
        if dataset == name or dataset.startswith(f"{name}-"):
            return name
    return None


def paper_rows(table: str, dataset: str | None = None) -> list[dict[str, Any]]:
    """The printed rows of a table; with `dataset`, only those of its counterpart."""
    if table not in TABLES:
        raise UnknownNameError("table", table, TABLES)
    rows: list[dict[str, Any]] = _values()[table]
    wanted = dataset and paper_dataset(dataset)
    return rows if dataset is None else [row for row in rows if row["dataset"] == wanted]

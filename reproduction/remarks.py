"""The numbers in the remarks of docs/verdict.md: claims of the paper that are no test of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness import RECORDS
from leporid.foundation import read_json
from reproduction.store import PackedResults
from reproduction.tables import DATA_SETS, METRICS, measurements, paper_rows

_INFORMED = ("le", "leporid")
_PRINTED_SETS = ("ml-1m", "steam", "anime")
_K = 1000
"""Neighbours of a node in the paper."""

Cells = Mapping[tuple[str, str, str], Mapping[str, float]]
"""By data set, model and metric: the value of each initialisation."""


def remark_values(root: str | Path) -> dict[str, str]:
    """Every number that a remark of `claims.toml` names in braces."""
    return {**_time(root), **_growth(), **_sparsity(), **_first_and_second(root)}


def counts(cells: Cells) -> tuple[int, int, int]:
    """Number of cells, of those where SVD leads the baselines, and where LE is among the two best.

    A baseline is an initialisation other than LE and LEPORID.
    """
    svd = sum(_ranked(cell, _INFORMED)[0] == "svd" for cell in cells.values())
    second = sum("le" in _ranked(cell)[:2] for cell in cells.values())
    return len(cells), svd, second


def _ranked(cell: Mapping[str, float], without: Sequence[str] = ()) -> list[str]:
    return sorted((init for init in cell if init not in without), key=lambda init: -cell[init])


def _printed_cells() -> Cells:
    rows = ((name, row) for name in _PRINTED_SETS for row in paper_rows("table3", name))
    return _cells((name, row["model"], row["init"], row) for name, row in rows)


def _our_cells(root: str | Path, dataset: str) -> Cells:
    runs: dict[tuple[str, str], list[Mapping[str, float]]] = defaultdict(list)
    for record in PackedResults(root).records(dataset, ["initialisers"]):
        runs[record.model, str(record.init)].append(record.metrics)
    return _cells(
        (dataset, model, init, {metric: fmean(run[metric] for run in own) for metric in METRICS})
        for (model, init), own in runs.items()
    )


def _cells(rows: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> Cells:
    cells: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for dataset, model, init, row in rows:
        for metric in METRICS:
            if row[metric] is not None:
                cells[dataset, model, metric][init] = row[metric]
    return cells


def _first_and_second(root: str | Path) -> dict[str, str]:
    printed = counts(_printed_cells())
    numbers = dict(zip(("cells", "svd", "le"), map(str, printed), strict=True))
    sentences = []
    for dataset in DATA_SETS:
        if cells := _our_cells(root, dataset):
            all_cells, svd, second = counts(cells)
            sentences.append(f"{svd} and {second} of {all_cells} on `{dataset}`")
    return {**numbers, "our_cells": "; ".join(sentences)}


def _time(root: str | Path) -> dict[str, str]:
    """Seconds of the graph of the users with its eigenvectors, and of training BPR."""
    parts = []
    for dataset in DATA_SETS:
        rows = measurements(root, dataset).get("time_cost", ())
        steps = [row["seconds"] for row in rows if "scipy" not in row["step"]]
        runs = PackedResults(root).records(dataset, ["models", "bpr"])
        bpr = [run.seconds for run in runs if (run.model, run.init) == ("bpr", "random")]
        if steps and bpr:
            parts.append(f"{sum(steps):.2f} s against {fmean(bpr):.1f} s on `{dataset}`")
    return {"seconds": ", ".join(parts)}


def _growth() -> dict[str, str]:
    """Seconds of 64 eigenvectors of the exact graph by the number of users."""
    rows = [
        row
        for row in read_json(RECORDS / "scale.json")["rows"]
        if row["method"] == "exact" and row["K"] == _K
    ]
    users = ", ".join(f"{row['users']:,}" for row in rows)
    seconds = ", ".join(f"{row['eigenvectors s']:.1f}" for row in rows)
    return {"scale_users": users, "scale_seconds": seconds}


def _sparsity() -> dict[str, str]:
    """The bound for the paper's Anime graph as printed, as it follows, and a measured graph."""
    (anime,) = paper_rows("table2", "anime")
    n = anime["users"]
    rows = read_json(RECORDS / "eigenvectors.json")["rows"]
    measured = next(row for row in rows if row["data"] == "anime-shaped")
    return {
        "bound": f"{100 * (1 - 2 * _K**2 / n**2):.2f}",
        "right_bound": f"{100 * (1 - 2 * _K / n):.2f}",
        "measured": f"{100 * (1 - measured['edges'] / measured['rows'] ** 2):.2f}",
    }

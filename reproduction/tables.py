"""The paper's tables from our records: our value, the printed one, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from leporid.errors import DataError, UnknownNameError
from leporid.foundation import read_json
from leporid.runs import RunRecord
from reproduction.gains import have_seen

METRICS = ("HR@5", "HR@10", "F1@5", "F1@10")
DATA_SETS = ("ml-1m", "ml-1m-r3", "anime-5k")
"""What stands for the paper's data sets, its own data first."""
DATA_NAMES = {
    "ml-1m": "MovieLens-1M",
    "ml-1m-r3": "MovieLens-1M, ratings of 3 and above",
    "anime-5k": "Anime, 5,000 users",
    "ml-100k": "MovieLens-100K",
    "lastfm": "LastFM",
    "movietweetings-100k": "MovieTweetings",
    "steam-200k": "Steam-200k",
}
"""The data sets of tables and claims as a reader knows them."""
TAIL = "table5"
"""The table of tail users."""
BY_VARIANT = ("table6", "table7", "authors")
"""Tables whose rows are variants of one model."""
NOT_FETCHED = "not run: data must be fetched by hand"
TITLES = {
    "table3": "Table 3: initialisers x models",
    "table4": "Table 4: algorithms",
    "table5": "Table 5: tail users (25% with the fewest interactions)",
    "table6": "Table 6: losses and inference branches of DLR2",
    "table7": "Table 7: architectures of DLR2",
    "authors": "DLR2 by the authors' program: embeddings frozen and trained",
}


@dataclass(frozen=True)
class Value:
    """One number of a table: the mean over our seeds, and the paper's."""

    ours: float | None
    deviation: float | None
    """Standard deviation over seeds; None with one seed."""
    seeds: int
    paper: float | None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.ours is None or self.paper is None:
            return None
        return self.ours - self.paper


@dataclass(frozen=True)
class TableRow:
    """The name of a row (model, initialiser, variant) and its values by metric."""

    key: tuple[str, ...]
    values: Mapping[str, Value]
    records: tuple[RunRecord, ...] = ()

    @property
    def history(self) -> str:
        """The part of each user's history that our runs were given when they were tested."""
        return have_seen(self.records)


@dataclass(frozen=True)
class PaperTable:
    """A table ready to be rendered."""

    name: str
    title: str
    dataset: str
    key_columns: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """Shown in place of a value of ours that does not exist."""
        return NOT_FETCHED if self.dataset == "steam" else "not run yet"

    @property
    def compared(self) -> bool:
        """Whether the paper prints anything to compare with."""
        return any(value.paper is not None for row in self.rows for value in row.values.values())

    def ranked(self, metric: str, group: str | None = None) -> list[int]:
        """Row numbers with one of our values, best first, within a group (first key column)."""
        scored = [
            (-value, number)
            for number, row in enumerate(self.rows)
            if (value := row.values[metric].ours) is not None and group in (None, row.key[0])
        ]
        return [number for _, number in sorted(scored)]


@cache
def _printed() -> dict[str, Any]:
    return dict(read_json(Path(__file__).with_name("paper_values.json")))


def measurements(root: str | Path, dataset: str) -> dict[str, Any]:
    """What is on record of a data set itself: `statistics` and `time_cost`, or nothing."""
    path = Path(root) / "measurements.json"
    return dict(read_json(path).get(dataset, {})) if path.is_file() else {}


def paper_dataset(dataset: str) -> str | None:
    """The paper's data set that ours corresponds to: 'ml-1m-r3' stands beside 'ml-1m'."""
    names = ("ml-1m", "steam", "anime")
    return next((name for name in names if f"{dataset}-".startswith(f"{name}-")), None)


def paper_rows(table: str, dataset: str) -> list[dict[str, Any]]:
    """The rows the paper prints in a table for the counterpart of a data set of ours."""
    tables = [name for name in _printed() if name.startswith("table")]
    if table not in tables:
        raise UnknownNameError("table", table, tables)
    counterpart = paper_dataset(dataset)
    return [row for row in _printed()[table] if row["dataset"] == counterpart]


def _printed_rows(table: str, dataset: str) -> list[dict[str, Any]]:
    """`paper_rows`; the authors' program printed DLR2's rows of Table 3, random init trained."""
    if table != "authors":
        return paper_rows(table, dataset)
    rows = {r["init"]: r for r in paper_rows("table3", dataset) if r["model"] == "dlr2"}
    return [
        {
            **(rows.get(init, {}) if (how == "trained") is (init == "random") else {}),
            "variant": f"{init}-{how}",
        }
        for init in ("random", "svd", "le", "leporid")
        for how in ("frozen", "trained")
    ]


def build_table(name: str, records: Sequence[RunRecord], dataset: str) -> PaperTable:
    """Group records into the rows of one of the paper's tables 3 to 7, or of the authors' grid.

    Rows the paper prints come first, in its order; runs of ours that it does not have follow.
    """
    if name not in TITLES:
        raise DataError(f"{name} is not made from run records: choose from {', '.join(TITLES)}")
    by_variant = name in BY_VARIANT
    columns = ("variant",) if by_variant else ("model", "init")
    printed = {
        tuple(row[column] or "-" for column in columns): row for row in _printed_rows(name, dataset)
    }
    ours: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        # A variant is another experiment: it must not enter the mean of the plain runs.
        if by_variant or not record.variant:
            recipe = "" if record.recipe in (None, "paper") else f" ({record.recipe})"
            parts = [record.variant] if by_variant else [record.model + recipe, record.init or "-"]
            ours.setdefault(tuple(map(str, parts)), []).append(record)
    rows = []
    for key in [*printed, *(key for key in ours if key not in printed)]:
        runs = ours.get(key, [])
        measured = [run.tail_metrics if name == TAIL else run.metrics for run in runs]
        values = {metric: _value(measured, printed.get(key, {}), metric) for metric in METRICS}
        rows.append(TableRow(key, values, tuple(runs)))
    notes = tuple(_notes(name, dataset, rows))
    return PaperTable(name, TITLES[name], dataset, columns, METRICS, tuple(rows), notes)


def _value(runs: Sequence[Mapping[str, float]], printed: Mapping[str, Any], metric: str) -> Value:
    numbers = [run[metric] for run in runs if metric in run]
    mean = fmean(numbers) if numbers else None
    deviation = stdev(numbers) if len(numbers) > 1 else None
    return Value(mean, deviation, len(numbers), printed.get(metric))


def _notes(name: str, dataset: str, rows: Sequence[TableRow]) -> list[str]:
    notes = []
    counterpart = paper_dataset(dataset)
    if counterpart is None:
        notes.append(f"The paper has no data set like {dataset}; there is nothing to compare with.")
    elif counterpart != dataset:
        where = f"Ours is measured on {dataset}, the paper's on {counterpart}"
        notes.append(f"{where}: close, not the same data.")
    notes += _against_the_paper(rows)
    if missing := [" ".join(row.key) for row in rows if row.values["HR@10"].ours is None]:
        notes.append(
            f"Not run yet: {', '.join(missing)}; run them with `{command(name, dataset)}`."
        )
    return notes


def command(name: str, dataset: str) -> str:
    """The command that runs and renders a table or figure."""
    return f"python -m reproduction {name} --dataset {dataset}"


def _against_the_paper(rows: Sequence[TableRow]) -> list[str]:
    """A sentence per model where LEPORID is below an initialiser here and above it in the paper."""
    notes = []
    values = {
        row.key: (value.ours, value.paper)
        for row in rows
        if len(row.key) == 2 and (value := row.values["HR@10"])
        if value.ours is not None and value.paper is not None
    }
    for (model, initialiser), (own, printed) in values.items():
        above = [
            f"{init} ({ours:.4f})"
            for (name, init), (ours, paper) in values.items()
            if name == model and ours > own and paper < printed
        ]
        if initialiser == "leporid" and above:
            better = f"{model} reaches a higher HR@10 here from {', '.join(above)}"
            notes.append(f"Against the paper: {better} than from leporid ({own:.4f}).")
    return notes

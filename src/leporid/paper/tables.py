"""The paper's tables from our records: our value, the printed one, and the difference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leporid.errors import DataError
from leporid.paper.printed import paper_dataset, paper_rows
from leporid.runs.record import RunRecord, safe_name

__all__ = ["PaperTable", "TableRow", "Value", "build_table", "read_records"]

METRICS = ("HR@5", "HR@10", "F1@5", "F1@10")

TITLES = {
    "table2": "Table 2: initialisers x models",
    "table3": "Table 3: algorithms",
    "table4": "Table 4: tail users (25% with the fewest interactions)",
    "table5": "Table 5: losses and inference branches of DLR2",
    "table6": "Table 6: architectures of DLR2",
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


@dataclass(frozen=True)
class PaperTable:
    """A table ready to be rendered."""

    name: str
    title: str
    dataset: str
    key_columns: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def compared(self) -> bool:
        """Whether the paper prints anything to compare with."""
        return any(value.paper is not None for row in self.rows for value in row.values.values())

    def ranked(self, metric: str, group: str | None = None) -> list[int]:
        """Row numbers with one of our values, best first, within a group (first key column)."""
        scored = [
            (row.values[metric].ours, number)
            for number, row in enumerate(self.rows)
            if row.values[metric].ours is not None and (group is None or row.key[0] == group)
        ]
        return [number for _, number in sorted(scored, key=lambda pair: (-(pair[0] or 0), pair[1]))]


def read_records(root: str | Path, dataset: str, experiments: Iterable[str]) -> list[RunRecord]:
    """All records of some experiments on a data set, in file order."""
    found: list[RunRecord] = []
    for experiment in experiments:
        folder = Path(root) / safe_name(dataset) / safe_name(experiment)
        paths = (p for p in sorted(folder.glob("*.json")) if not p.name.endswith(".error.json"))
        found += [RunRecord.read(path) for path in paths]
    return found


def build_table(name: str, records: Sequence[RunRecord], dataset: str) -> PaperTable:
    """Group records into the rows of one of the paper's tables 2 to 6.

    Rows the paper prints come first, in its order; runs of ours that it does not have follow.
    """
    if name not in TITLES:
        raise DataError(f"{name} is not made from run records: choose from {', '.join(TITLES)}")
    by_variant = name in ("table5", "table6")
    tail = name == "table4"
    printed = {_paper_key(row, by_variant): row for row in paper_rows(name, dataset)}
    ours: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        # A variant is another experiment: it must not enter the mean of the plain runs.
        if by_variant or not _variant(record):
            ours.setdefault(_record_key(record, by_variant), []).append(record)
    keys = [*printed, *(key for key in ours if key not in printed)]
    rows = []
    for key in keys:
        runs = ours.get(key, [])
        values = {
            metric: _value([_metrics(run, tail) for run in runs], printed.get(key), metric)
            for metric in METRICS
        }
        rows.append(TableRow(key, values, tuple(runs)))
    return PaperTable(
        name,
        TITLES[name],
        dataset,
        ("variant",) if by_variant else ("model", "init"),
        METRICS,
        tuple(rows),
        tuple(_notes(dataset, rows)),
    )


def _paper_key(row: Mapping[str, Any], by_variant: bool) -> tuple[str, ...]:
    return (row["variant"],) if by_variant else (row["model"], row["init"] or "-")


def _record_key(record: RunRecord, by_variant: bool) -> tuple[str, ...]:
    if by_variant:
        return (str(_variant(record)),)
    model = record.model
    if record.recipe not in (None, "paper"):
        model = f"{model} ({record.recipe})"
    return (model, record.init or "-")


def _variant(record: RunRecord) -> str | None:
    name: str | None = record.extra.get("cell", {}).get("variant")
    return name


def _metrics(record: RunRecord, tail: bool) -> Mapping[str, float]:
    return record.tail_metrics if tail else record.metrics


def _value(
    runs: Sequence[Mapping[str, float]], printed: Mapping[str, Any] | None, metric: str
) -> Value:
    numbers = [run[metric] for run in runs if metric in run]
    paper = printed.get(metric) if printed else None
    if not numbers:
        return Value(None, None, 0, paper)
    mean = sum(numbers) / len(numbers)
    deviation = None
    if len(numbers) > 1:
        deviation = math.sqrt(sum((n - mean) ** 2 for n in numbers) / (len(numbers) - 1))
    return Value(mean, deviation, len(numbers), paper)


def _notes(dataset: str, rows: Sequence[TableRow]) -> list[str]:
    notes = []
    counterpart = paper_dataset(dataset)
    if counterpart is None:
        notes.append(f"The paper has no data set like {dataset}; there is nothing to compare with.")
    elif counterpart != dataset:
        notes.append(
            f"Ours is measured on {dataset}, the paper's on {counterpart}: "
            "close, not the same data."
        )
    notes += _against_the_paper(rows)
    missing = [" ".join(row.key) for row in rows if row.values["HR@10"].ours is None]
    if missing:
        notes.append(f"Not run here: {', '.join(missing)}.")
    return notes


def _against_the_paper(rows: Sequence[TableRow]) -> list[str]:
    """A sentence for each model where the paper prints LEPORID above a start and ours is below."""
    notes = []
    values = {row.key: row.values["HR@10"] for row in rows if len(row.key) == 2}
    for model in dict.fromkeys(key[0] for key in values):
        own = values.get((model, "leporid"))
        if own is None or own.ours is None or own.paper is None:
            continue
        above = [
            f"{key[1]} ({value.ours:.4f})"
            for key, value in values.items()
            if key[0] == model
            and value.ours is not None
            and value.paper is not None
            and value.ours > own.ours
            and value.paper < own.paper
        ]
        if above:
            notes.append(
                f"Against the paper: {model} reaches a higher HR@10 here from "
                f"{', '.join(above)} than from leporid ({own.ours:.4f})."
            )
    return notes

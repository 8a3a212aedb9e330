"""docs/paper.md: our values, the printed ones, the differences and the best two."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from reproduction.audit.checks import Audit, Table, tables
from reproduction.audit.records import (
    COUNTERPARTS,
    METRICS,
    PRINTED,
    Record,
    Store,
    history,
    mean,
    variant,
)


class PaperAudit:
    """Checks the tables of the paper."""

    def __init__(self, audit: Audit, store: Store) -> None:
        self.audit, self.store = audit, store

    def paper(self, text: str) -> None:
        """Tables 2 to 7: ours, the printed values, the difference, and the best two."""
        for table in tables(text):
            found = re.fullmatch(r"Table (\d): .* \((\S+)\)", table.heading)
            if table.heading.startswith("Table 2"):
                self._sizes(table)
            elif found:
                self._paper_table(f"table{found[1]}", found[2], table)
            else:
                self.audit.left.append(f"{self.audit.page}: {table.heading}")

    def _sizes(self, table: Table) -> None:
        measured = json.loads((self.store.root / "measurements.json").read_text("utf-8"))
        names = {
            "MovieLens-1M, no filter": ("ml-1m", "statistics_before_core"),
            "MovieLens-1M, 20-core": ("ml-1m", "statistics"),
            "MovieLens-1M, ratings of 3 and above, 20-core": ("ml-1m-r3", "statistics"),
            "Anime, 5,000 users, 20-core": ("anime-5k", "statistics"),
        }
        keys = ("users", "items", "interactions", "density", "tail_user_share", "tail_item_share")
        for name, *cells in table.rows:
            if name in names:
                dataset, which = names[name]
                row = measured[dataset][which]
            else:
                dataset = name.removeprefix("printed: ")
                [row] = [row for row in PRINTED["table2"] if row["dataset"] == dataset]
            for cell, key in zip(cells, keys, strict=True):
                self.audit.number(cell, row[key], f"Table 2, {name}, {key}")

    def _paper_table(self, name: str, dataset: str, table: Table) -> None:
        by_variant = name in ("table6", "table7")
        keys = 1 if by_variant else 2
        experiments = {
            "table3": ["initialisers"],
            "table4": ["baselines", "bpr", "initialisers", "models", "softmax"],
            "table5": ["initialisers"],
            "table6": ["losses"],
            "table7": ["architectures"],
        }[name]
        part = "tail_metrics" if name == "table5" else "metrics"
        compares = "paper" in table.header
        width = 3 if compares else 1
        shown: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
        for row in table.rows:
            where = f"{name}, {dataset}, {' '.join(row[:keys])}"
            runs = self._of_row(dataset, experiments, row[:keys])
            if runs:
                self.audit.word(row[keys], " / ".join(sorted({*map(history, runs)})), where)
            for place, metric in enumerate(METRICS):
                cell, *rest = row[keys + 1 + place * width :][:width]
                if runs:
                    value = mean(runs, metric, part)
                    group = row[0] if name == "table3" else ""
                    shown[group, metric].append((cell, round(value, 12)))
                    own, _, spread = cell.strip("*_").partition(" ± ")
                    self.audit.number(own, value, where)
                    if spread:
                        values = np.array([run[part][metric] for run in runs])
                        self.audit.number(spread, float(values.std(ddof=1)), where)
                if compares:
                    self._beside(name, dataset, row[:keys], metric, rest, runs, part)
        for (group, metric), cells in shown.items():
            ranked = sorted({value for _, value in cells}, reverse=True)
            for cell, value in cells:
                mark = {ranked[0]: "**", ranked[min(1, len(ranked) - 1)]: "_"}.get(value, "")
                mark = "**" if value == ranked[0] else mark
                given = "**" if cell.startswith("**") else "_" if cell.startswith("_") else ""
                self.audit.word(given, mark, f"{name}, {dataset}, {group} {metric}: mark of {cell}")

    def _of_row(self, dataset: str, experiments: Sequence[str], key: Sequence[str]) -> list[Record]:
        if len(key) == 1:
            found = self.store.select(dataset, experiments)
            return [record for record in found if variant(record) == key[0]]
        model, _, recipe = key[0].partition(" (")
        init = None if key[1] == "-" else key[1]
        found = self.store.select(dataset, experiments, model=model, init=init, variant=None)
        wanted = {recipe.rstrip(")")} if recipe else {None, "paper"}
        return [record for record in found if record["recipe"] in wanted]

    def _beside(
        self,
        name: str,
        dataset: str,
        key: Sequence[str],
        metric: str,
        cells: Sequence[str],
        runs: Sequence[Record],
        part: str,
    ) -> None:
        """The printed value and the difference."""
        where = f"{name}, {dataset}, {' '.join(key)}, {metric}: paper"
        names = ("variant",) if len(key) == 1 else ("model", "init")
        rows = [
            row
            for row in PRINTED[name]
            if row["dataset"] == COUNTERPARTS.get(dataset)
            and tuple(row[one] or "-" for one in names) == tuple(key)
        ]
        value = rows[0][metric] if rows else None
        if value is None:
            self.audit.word(cells[0], "-", where)
            self.audit.word(cells[1], "-", where)
            return
        self.audit.number(cells[0], value, where)
        if runs:
            self.audit.number(cells[1], mean(runs, metric, part) - value, where)

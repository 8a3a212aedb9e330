"""docs/initialisation.md: means, gains, words of each hypothesis, steps and tail users."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from reproduction.audit.checks import Audit, Table, tables
from reproduction.audit.records import Found, Record, Store, compared, holm, mean, variant


class StudyAudit:
    """Checks the study of initialisations."""

    def __init__(self, audit: Audit, store: Store) -> None:
        self.audit, self.store = audit, store

    def initialisation(self, text: str) -> None:
        """The study: means, gains, words of each hypothesis, steps and tail users."""
        for table in tables(text):
            if table.header[0] == "log":
                self._frozen(table)
            elif table.header[-1] == "adapted against":
                self._trained(table)
            elif "best step of random" in table.header:
                self._steps(table)
            elif "most active quarter, %" in table.header:
                self._tail(table)
            elif table.header[-1] == "adapted over random, %":
                self._tenth(table)
            else:
                self.audit.left.append(f"{self.audit.page}: {table.heading}")

    def study(self, dataset: str, kind: str, init: str) -> list[Record]:
        """The runs of a model and initialisation, if there are five."""
        model, recipe, *rest = kind.split(" ")
        runs = self.store.select(
            dataset, ["initialisation-study"], model=model, recipe=recipe, init=init
        )
        runs = [run for run in runs if (variant(run) or "") == " ".join(rest)]
        return runs if len(runs) == 5 else []

    def studied(
        self, dataset: str, kind: str, a: str, b: str, quartile: int = 0, metric: str = "NDCG@10"
    ) -> Found:
        """One comparison of the study."""
        sides = [
            self.store.side(self.study(dataset, kind, init), metric, quartile) for init in (a, b)
        ]
        return compared(sides[0], sides[1])

    def _means(self, dataset: str, kind: str, names: Sequence[str], cells: Sequence[str]) -> None:
        for init, cell in zip(names, cells, strict=True):
            runs = self.study(dataset, kind, init)
            if runs:
                self.audit.number(cell, mean(runs, "NDCG@10"), f"{dataset}, {kind}, {init}")
            else:
                self.audit.word(cell, "-", f"{dataset}, {kind}, {init}")

    def _frozen(self, table: Table) -> None:
        others = ("random", "svd", "le", "leporid")
        kind = "two_tower general"
        pairs = [(row[0], other) for row in table.rows for other in others]
        family = holm([self.studied(d, kind, "adapted", other) for d, other in pairs])
        found = dict(zip(pairs, family, strict=True))
        for row in table.rows:
            self._means(row[0], kind, table.header[1:7], row[1:7])
            self._listed(row[7], {other: found[row[0], other] for other in others}, row[0])

    def _listed(self, cell: str, expected: Mapping[str, Found], where: str) -> None:
        """'better: random, le; inconclusive: svd'."""
        given = {
            name: part.partition(": ")[0]
            for part in cell.split("; ")
            for name in part.partition(": ")[2].split(", ")
        }
        for name, found in expected.items():
            self.audit.word(given.get(name, "not there"), found.word, f"{where}, adapted - {name}")

    def _trained(self, table: Table) -> None:
        places = [(row[1], row[0]) for row in table.rows]

        def family(*pairs: tuple[str, str]) -> dict[tuple[str, str, str], Found]:
            keys = [(*place, *pair) for place in places for pair in pairs]
            adjusted = holm([self.studied(*key) for key in keys])
            return {(key[0], key[1], key[3]): one for key, one in zip(keys, adjusted, strict=True)}

        gains = family(("adapted", "random"))
        order = family(("leporid", "shuffled"))
        others = family(("adapted", "leporid"), ("adapted", "svd"))
        for row in table.rows:
            kind, dataset = row[:2]
            where = f"{dataset}, {kind}"
            self._means(dataset, kind, table.header[2:8], row[2:8])
            self._percent(row[8], gains[dataset, kind, "random"], where)
            self.audit.word(row[9], order[dataset, kind, "shuffled"].word, where)
            expected = {other: others[dataset, kind, other] for other in ("leporid", "svd")}
            self._listed(row[10], expected, where)

    def _percent(self, cell: str, found: Found, where: str) -> None:
        """'+7.6 [+3.0, +12.2] better'."""
        numbers, _, word = cell.rpartition(" ")
        ends = (found.difference, found.low, found.high)
        self.audit.many(numbers, [found.percent(end) for end in ends], where)
        self.audit.word(word, found.word, where)

    def _steps(self, table: Table) -> None:
        lines: list[tuple[str, str, list[float]]] = []
        means: dict[str, list[float]] = defaultdict(list)
        models = [row for row in table.rows if row[0] != "geometric mean"]
        for row in models:
            kind, dataset = row[:2]
            best = [
                run["extra"]["training"]["best_step"] for run in self.study(dataset, kind, "random")
            ]
            self.audit.number(row[2], sum(best) / len(best), f"{dataset}, {kind}: best step")
            for cell, init in ((row[3], "leporid"), (row[4], "adapted")):
                logs = self._log_ratios(dataset, kind, init)
                lines.append((f"steps, {dataset}, {kind}, {init}", cell, logs))
                means[init].append(float(np.mean(logs)))
        family = holm([_against_zero(logs) for *_, logs in lines])
        for (where, cell, logs), found in zip(lines, family, strict=True):
            numbers, _, rest = cell.partition("] ")
            values = [math.exp(x) for x in (found.difference, found.low, found.high)]
            self.audit.many(numbers, values, where)
            word = {"better": "more", "worse": "fewer"}.get(found.word, "inconclusive")
            self.audit.word(rest.partition(",")[0], word, where)
            if len(logs) < 5:
                self.audit.number(rest.partition(", ")[2].split(" ")[0], len(logs), where)
        for row in (row for row in table.rows if row not in models):
            value = math.exp(float(np.mean(means[row[1]])))
            self.audit.number(row[3], value, f"steps, mean of {row[1]}")

    def _log_ratios(self, dataset: str, kind: str, init: str) -> list[float]:
        """Steps to 99% of the random run's best over those of that run, seed by seed."""
        base = {run["seed"]: run["extra"]["curve"] for run in self.study(dataset, kind, "random")}
        logs = []
        for run in self.study(dataset, kind, init):
            other = base[run["seed"]]
            goal = 0.99 * max(point[1] for point in other)
            there = [point[0] for point in run["extra"]["curve"] if point[1] >= goal]
            first = [point[0] for point in other if point[1] >= goal]
            if there:
                logs.append(math.log(there[0] / first[0]))
        return logs

    def _tail(self, table: Table) -> None:
        paper = [row for row in table.rows if row[4]]
        family = holm([self.studied(row[1], row[0], "leporid", "le", 1, "HR@10") for row in paper])
        for row in table.rows:
            where = f"tail, {row[1]}, {row[0]}"
            for cell, quartile in ((row[2], 1), (row[3], 4)):
                found = self.studied(row[1], row[0], "adapted", "random", quartile)
                self._percent(cell, found, where)
        for row, found in zip(paper, family, strict=True):
            numbers, _, word = row[4].rpartition(" ")
            self.audit.many(numbers, [found.difference, found.low, found.high], row[1])
            self.audit.word(word, found.word, row[1])

    def _tenth(self, table: Table) -> None:
        for row in table.rows:
            kind, dataset = row[:2]
            self._means(dataset, kind, table.header[2:8], row[2:8])
            for cell, init in ((row[8], "leporid"), (row[9], "adapted")):
                if cell != "-":
                    found = self.studied(dataset, kind, init, "random")
                    self._percent(cell, found, f"a tenth, {dataset}, {kind}, {init}")


def _against_zero(values: Sequence[float]) -> Found:
    """The one-sample t test of a mean."""
    center, freedom = float(np.mean(values)), len(values) - 1
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = error * float(stats.t.isf(0.025, freedom))
    p = 2 * float(stats.t.cdf(-abs(center) / error, freedom)) if error else 0.0
    return Found(center, 0.0, center, half, p)

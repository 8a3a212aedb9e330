"""docs/leaderboard.md: rows, differences with their words, counts and mean ranks."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
from scipy import stats

from reproduction.audit.board import OURS, Board
from reproduction.audit.checks import Audit, Table, tables
from reproduction.audit.records import Found, Store, compared, deviation, history, holm, mean


class LeaderboardAudit:
    """Checks the leaderboard, and computes what other pages count of it."""

    def __init__(self, audit: Audit, store: Store) -> None:
        self.audit, self.store, self.board = audit, store, Board(store)

    def leaderboard(self, text: str) -> None:
        """Rows of each data set, differences with their words, counts and mean ranks."""
        for table in tables(text):
            if table.header[:3] == ("log", "model", "against"):
                self._initialisers(table)
            elif table.header[:2] == ("log", "against"):
                self._rivals(table)
            elif table.header[:3] == ("model", "init", "seeds"):
                self._rows_of(table)
            elif table.header[:2] == ("row", "mean rank, NDCG@10"):
                self._ranks(table)
            elif table.header[:2] == ("log", "users x items, density"):
                self._families(table)
            elif table.header[:2] == ("", "comparisons"):
                self.audit.counts(table, self.board.initialiser_words, "LEPORID against ")
            elif table.header[:2] == ("against", "logs"):
                self._rival_counts(table)
            else:
                self.audit.left.append(f"{self.audit.page}: {table.heading} {table.header[:3]}")

    def _initialisers(self, table: Table) -> None:
        families = self.board.initialiser_families
        expected = sum(map(len, families.values()))
        self.audit.number(str(len(table.rows)), expected, "lines of initialisers")
        for dataset, model, base, cell, percent, word in table.rows:
            where = f"{dataset}, {model} against {base}"
            self._difference(families[base][dataset, model], cell, percent, word, where)

    def _difference(self, found: Found, cell: str, percent: str, word: str, where: str) -> None:
        self.audit.many(cell, [found.difference, found.low, found.high], where)
        self.audit.number(percent, found.percent(found.difference), where)
        self.audit.word(word, found.word, where)

    def _rivals(self, table: Table) -> None:
        families: dict[str, list[tuple[tuple[str, ...], Found]]] = defaultdict(list)
        for row in table.rows:
            family, _, name = row[1].partition(" (")
            other = name.rstrip(")") or family
            if name:
                self.audit.word(
                    other, self.board.best_classical(row[0]), f"{row[0]}: best classical"
                )
            sides = [
                self.store.side(self.board.row(row[0], one), "NDCG@10") for one in (OURS, other)
            ]
            families[family].append((row, compared(sides[0], sides[1])))
        for lines in families.values():
            for (row, _), found in zip(lines, holm([one for _, one in lines]), strict=True):
                where = f"{row[0]}, DLR2 against {row[1]}"
                self.audit.number(row[2], found.first, where)
                self.audit.number(row[3], found.second, where)
                self._difference(found, row[4], row[5], row[6], where)

    def _rival_counts(self, table: Table) -> None:
        for row in table.rows:
            family = self.board.rivals("" if row[0] == "best classical model" else row[0])
            percents = [found.percent(found.difference) for found in family]
            self.audit.number(row[1], len(family), row[0])
            self.audit.number(row[2], sum(percent > 0 for percent in percents), row[0])
            counts = Counter(found.word for found in family)
            for cell, word in zip(row[3:7], table.header[3:7], strict=True):
                self.audit.number(cell, counts[word], f"{row[0]}, {word}")
            self.audit.number(row[7], min(percents), row[0])

    def _rows_of(self, table: Table) -> None:
        dataset = table.heading
        for row in table.rows:
            name = row[0] if row[1] == "-" else f"{row[0]} from {row[1]}"
            where = f"{dataset}, {name}"
            runs = self.board.row(dataset, name)
            self.audit.number(row[2], len(runs), where)
            for cell, metric in zip(row[3:6], ("HR@10", "F1@10", "NDCG@10"), strict=True):
                value, _, spread = cell.partition(" ± ")
                self.audit.number(value, mean(runs, metric), where)
                if spread:
                    self.audit.number(spread, deviation(runs, metric), where)
            if row[6] != "-":
                self.audit.number(row[6], mean(runs, "HR@10", "tail_metrics"), where)
            seconds = sum(run["seconds"] for run in runs) / len(runs)
            self.audit.word(row[7], f"{seconds:.3g}", where)
            self.audit.word(row[8], " / ".join(sorted({run["device"] for run in runs})), where)
            self.audit.word(row[9], " / ".join(sorted({*map(history, runs)})), where)

    def _ranks(self, table: Table) -> None:
        where = f"ranks of {table.heading}"
        pattern = (
            r"(\d+) rows on (\d+) logs \((.*?)\); critical difference ([\d.]+\d)"
            r"(?:; Friedman p (\S+\d))?"
        )
        rows, logs, names_of, difference, p_shown = self.audit.search(pattern, table.before, where)
        datasets = names_of.split(", ")
        names = [row[0] for row in table.rows]
        values = {
            metric: np.array(
                [[mean(self.board.row(d, n), metric) for n in names] for d in datasets]
            )
            for metric in ("NDCG@10", "HR@10")
        }
        for column, metric in ((1, "NDCG@10"), (2, "HR@10")):
            table_of = values[metric].round(12)
            above = (table_of[:, None, :] > table_of[:, :, None]).sum(axis=2)
            ties = (table_of[:, None, :] == table_of[:, :, None]).sum(axis=2)
            ranks = (above + (ties + 1) / 2).mean(axis=0)
            for row, rank in zip(table.rows, ranks, strict=True):
                self.audit.number(row[column], rank, f"{where}, {row[0]}")
        k, n = len(names), len(datasets)
        q = stats.studentized_range.isf(0.05, k, np.inf)
        self.audit.number(rows, k, where)
        self.audit.number(logs, n, where)
        self.audit.number(difference, q * math.sqrt(k * (k + 1) / (12 * n)), where)
        if p_shown:
            p = stats.friedmanchisquare(*values["NDCG@10"].T).pvalue
            self.audit.number(p_shown, p, where)

    def _families(self, table: Table) -> None:
        for row in table.rows:
            for cell in (cell for cell in row[2:] if cell != "not run yet"):
                numbers, _, name = cell.replace("**", "").replace(" †", "").partition(" / ")
                hits, _, name = name.partition(" ")
                runs = self.board.row(row[0], name)
                self.audit.number(numbers, mean(runs, "NDCG@10"), f"{row[0]}, {name}")
                self.audit.number(hits, mean(runs, "HR@10"), f"{row[0]}, {name}")

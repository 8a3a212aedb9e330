"""docs/results.md, and the README's table and first sentences."""

from __future__ import annotations

import json
from collections import Counter

from reproduction.audit.board import Board
from reproduction.audit.checks import Audit, Table, tables
from reproduction.audit.records import (
    BENCHMARKS,
    Found,
    Record,
    Store,
    compared,
    holm,
    mean,
    variant,
)


class ResultsAudit:
    """Checks the page of results."""

    def __init__(self, audit: Audit, store: Store) -> None:
        self.audit, self.store, self.board = audit, store, Board(store)

    def results(self, text: str) -> None:
        """The tables of the page of results, by the first cells of their headers."""
        checks = {
            ("log", "best classical model"): self._default_models,
            ("against", "comparisons"): self._by_initialisation,
            ("model", "comparisons"): self._by_model,
            ("model", "history"): self._gains,
            ("model", "seeds"): self._last_item,
            ("model", "ml-100k"): self._global_time,
            ("model", "settings"): self._studies,
            ("data set", "runs on record that read its test part"): self._reads,
            ("log", "best step, random"): self._two_tower,
        }
        for table in tables(text):
            if check := checks.get((table.header[0], table.header[1])):
                check(table)
            else:
                self.audit.left.append(f"{self.audit.page}: {table.heading}")

    def _by_initialisation(self, table: Table) -> None:
        self.audit.counts(table, self.board.initialiser_words)

    def _by_model(self, table: Table) -> None:
        self.audit.counts(table, self.board.by_model())

    def _reads(self, table: Table) -> None:
        for name, count in table.rows:
            self.audit.number(count, len(self.store.records(name)), f"reads of {name}")

    def _two_tower(self, table: Table) -> None:
        path = BENCHMARKS / "two_tower.json"
        rows = {row["log"]: row for row in json.loads(path.read_text("utf-8"))["rows"]}
        for name, *cells in table.rows:
            row = rows[name]
            means = [row["NDCG@10, random"], row["LEPORID"]]
            steps = [row["best step, random"], row["LEPORID is there after"]]
            tail = [row["tail users, random"], row["tail users, LEPORID"]]
            ends = [means[1] - means[0], row["low"], row["high"]]
            for cell, value in zip(cells[:4], [*steps, *means], strict=True):
                self.audit.number(cell, value, f"two-tower, {name}")
            self.audit.many(cells[4], ends, f"two-tower, {name}")
            for cell, value in zip(cells[5:], tail, strict=True):
                self.audit.number(cell, value, f"two-tower, {name}")

    def _studies(self, table: Table) -> None:
        path = self.store.root / "ml-1m-r3" / "inner-validation-studies.json"
        studies = json.loads(path.read_text("utf-8"))["studies"]
        for row in table.rows:
            sides = [
                {
                    json.dumps(trial["settings"], sort_keys=True): trial["value"]
                    for trial in study["trials"]
                }
                for init in ("random", "leporid")
                for study in studies
                if (study["model"], study["init"]) == (row[0], init)
            ]
            common = sides[0].keys() & sides[1].keys()
            pairs = [(sides[0][key], sides[1][key]) for key in common]
            values = [len(pairs), sum(b > a for a, b in pairs)]
            values += [sum(column) / len(pairs) for column in zip(*pairs, strict=True)]
            values += [min(column) for column in zip(*pairs, strict=True)]
            values += [max(side.values()) for side in sides]
            for cell, value in zip(row[1:], values, strict=True):
                self.audit.number(cell, value, f"studies, {row[0]}")

    def _default_models(self, table: Table) -> None:
        for dataset, *cells in table.rows:
            classical = self.board.best_classical(dataset)
            names = [classical, "sasrec as it comes from leporid", "dlr2 as it comes from leporid"]
            values = [mean(self.board.row(dataset, name), "NDCG@10") for name in names]
            for cell, value in zip(cells, values, strict=True):
                bold = cell.startswith("**")
                self.audit.number(cell.strip("*").split(" ")[0].strip("*"), value, dataset)
                self.audit.word(str(bold), str(value == max(values)), f"{dataset}: bold {cell}")
            self.audit.word(cells[0].rpartition(" ")[2], classical, dataset)

    def _gains(self, table: Table) -> None:
        is_small = (
            table.heading == "How much is left after tuning"
            and "MovieLens-100K" in (table.before.rpartition("<!--")[0].rpartition("-->")[2])
        )
        dataset, experiment = ("ml-100k", "models") if is_small else ("ml-1m-r3", "rehearsed")
        for row in table.rows:
            where = f"{experiment}, {row[0]}"
            sides = [
                self.store.select(dataset, [experiment], model=row[0], init=init, variant=None)
                for init in ("random", "leporid")
            ]
            found = compared(*(self.store.side(side, "HR@10") for side in reversed(sides)))
            self.audit.number(row[2], len(sides[0]), where)
            cells = [mean(side, metric) for metric in ("HR@10", "F1@10") for side in sides]
            for cell, value in zip(row[3:7], cells, strict=True):
                self.audit.number(cell, value, where)
            self.audit.many(row[7], [found.difference, found.low, found.high], where)

    def _last_item(self, table: Table) -> None:
        """Only the lines that name their own variant: others are changes of settings."""
        variants = {
            "SASRec as it comes": "as it comes",
            "without the linear part": "no linear part",
            "64 dimensions instead of 128": "64 dimensions",
            "dropout .5 instead of .35": "dropout .5",
            "constant rate .001, no averaged weights": "constant rate, no average",
            "random embeddings": "random embeddings",
            "the same with two layers": "two layers",
        }
        families: list[tuple[str, str, Found]] = []
        for start, dataset in ((2, "beauty"), (6, "toys")):
            every = self.store.select(dataset, ["leave-last-out"])
            base = [record for record in every if variant(record) == "as it comes"]
            for row in table.rows:
                if row[0].startswith("printed"):
                    continue
                runs = [r for r in every if variant(r) == variants.get(row[0], "-")]
                if row[0].startswith("DLR2"):
                    runs = [r for r in every if r["model"] == "dlr2"]
                elif row[0].startswith("recipe of"):
                    runs = [r for r in every if variant(r) is None and _is_plain(r)]
                where = f"last item, {dataset}, {row[0]}"
                cells = row[start : start + 4]
                self.audit.number(cells[0], mean(runs, "NDCG@10", "valid_metrics"), where)
                self.audit.number(cells[1], mean(runs, "HR@10"), where)
                self.audit.number(cells[2], mean(runs, "NDCG@10"), where)
                if cells[3] != "-":
                    sides = [self.store.side(side, "NDCG@10") for side in (runs, base)]
                    families.append((where, cells[3], compared(sides[0], sides[1])))
        adjusted = holm([found for *_, found in families])
        for (where, cell, _), found in zip(families, adjusted, strict=True):
            numbers, _, word = cell.rpartition(" ")
            ends = (found.difference, found.low, found.high)
            self.audit.many(numbers, [found.percent(end) for end in ends], where)
            self.audit.word(word, found.word, where)

    def _global_time(self, table: Table) -> None:
        columns = [(name, place) for place, name in enumerate(table.header) if "-" in name]
        lines: list[tuple[str, str, Found]] = []
        for dataset, place in columns:
            every = self.store.select(dataset, ["global-time"])
            every = [r for r in every if r["init"] in (None, "leporid") and variant(r) is None]
            ours = self.store.side([r for r in every if r["model"] == "dlr2"], "NDCG@10")
            for row in table.rows:
                runs = [record for record in every if record["model"] == row[0]]
                where = f"before a date, {dataset}, {row[0]}"
                self.audit.number(row[place], mean(runs, "NDCG@10"), where)
                values = [
                    mean([r for r in every if r["model"] == one[0]], "NDCG@10")
                    for one in table.rows
                ]
                own = values[[one[0] for one in table.rows].index(row[0])]
                self.audit.number(row[place + 1], 1 + sum(v > own for v in values), where)
                if row[place + 3] != "-":
                    found = compared(ours, self.store.side(runs, "NDCG@10"))
                    lines.append((where, row[place + 3], found))
        adjusted = holm([found for *_, found in lines])
        for (where, cell, _), found in zip(lines, adjusted, strict=True):
            word, _, seen = cell.partition(" (")
            self.audit.word(word, found.word, where)
            if seen:
                self.audit.number(seen.rstrip("%)"), found.percent(found.half), where)

    def readme(self, text: str) -> None:
        """The table of results, and the counts of the first sentences."""
        for table in tables(text):
            if table.header == ("log", "best classical model", "SASRec", "DLR2"):
                self._default_models(table)
        opening = " ".join(text.partition("<!-- first-screen:begin -->")[2].split())
        shown = self.audit.search(
            r"closed-form model, .*?, on (\d+) of (\d+) data sets and loses on (\w+)\. "
            r"It beats SASRec on (\w+) and loses on (\w+)\..*? better than random numbers in "
            r"(\d+) of (\d+) pairs of data set and model, and worse in (\d+)",
            opening,
            "first sentences",
        )
        families = [self.board.rivals(""), self.board.rivals("sasrec as it comes from leporid")]
        closed_form, sasrec = (Counter(found.word for found in family) for family in families)
        ours = self.board.initialiser_words["random"]
        expected = [closed_form["better"], closed_form.total(), closed_form["worse"]]
        expected += [sasrec["better"], sasrec["worse"]]
        expected += [ours["better"], ours.total(), ours["worse"]]
        for number, value in zip(shown, expected, strict=False):
            self.audit.number("0" if number == "none" else number, value, "first sentences")


def _is_plain(record: Record) -> bool:
    """SASRec's recipe of 0.7.0 with nothing changed."""
    settings = record["extra"]["cell"]["settings"]
    return (record["model"], record["init"]) == ("sasrec", "leporid") and not (
        settings.keys() - {"metric"}
    )

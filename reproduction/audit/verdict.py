"""docs/verdict.md: the details of each claim, the short table, the remarks."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from reproduction.audit.checks import WORDS, Audit, Table, tables
from reproduction.audit.records import (
    BENCHMARKS,
    COUNTERPARTS,
    METRICS,
    PRINTED,
    ROOT,
    Found,
    Record,
    Store,
    compared,
    holm,
    mean,
    ratios,
    variant,
)

CLAIMS = tomllib.loads((ROOT / "reproduction" / "claims.toml").read_text("utf-8"))["claims"]


class VerdictAudit:
    """Checks the page of claims."""

    def __init__(self, audit: Audit, store: Store) -> None:
        self.audit, self.store = audit, store

    def verdict(self, text: str) -> None:
        """The details of each claim, then the short table and the remarks."""
        by_claim: dict[str, list[tuple[str, tuple[str, ...], Found]]] = {}
        claims = {claim["id"]: claim for claim in CLAIMS}
        short, *rest = tables(text)
        verdicts: dict[str, str] = {}
        for table in rest:
            if table.header[:2] != ("data", "compared"):
                continue
            family = holm([self._of_claim(row[0], row[1]) for row in table.rows])
            pairs = [(row[0], row, found) for row, found in zip(table.rows, family, strict=True)]
            by_claim[table.anchor] = list(pairs)
            for dataset, row, found in pairs:
                self._detail(table.anchor, dataset, row, found)
            self._complete(claims[table.anchor], table)
            verdicts[table.anchor] = self._judge(claims[table.anchor], table, family)
        self._short(short, by_claim, verdicts)
        counted = Counter(verdicts.values())
        pattern = r"Of (\d+) claims that comparisons of runs can judge, (.*)\."
        number, parts = self.audit.search(pattern, text, "opening") or ("", "")
        self.audit.number(number, len(claims), "number of claims")
        for part in filter(None, parts.split(", ")):
            count, _, name = part.partition(" ")
            self.audit.number(count, counted[name.partition(" ")[2]], f"claims {name}")
        self._remarks(text)

    def _of_claim(self, dataset: str, compared_as: str) -> Found:
        """What a line of the details compares, by its own words."""
        what, _, measure = compared_as.partition(", tail users")
        if ", bpr: bpr" in compared_as:
            what = what.replace("models, bpr: ", "models+bpr: ")
        first, _, second = what.partition(" - ")
        experiment, _, label = first.partition(": ")
        other, _, other_label = second.rpartition(": ")
        sides = [
            self._runs(dataset, experiment, label),
            self._runs(dataset, other or experiment, other_label),
        ]
        is_tail = ", tail users" in compared_as
        if is_tail and measure.startswith("' ratio"):
            a, b = (self.store.side(side, "HR@10") for side in sides)
            digest = sides[0][0]["extra"]["data_digest"]
            return ratios(a, b, self.store.quartiles[digest] == 1)
        a, b = (self.store.side(side, "HR@10", int(is_tail)) for side in sides)
        return compared(a, b)

    def _runs(self, dataset: str, experiments: str, label: str) -> list[Record]:
        """'dlr2 svd-frozen (authors)': a model, its variant or initialisation, its recipe."""
        label, _, recipe = label.partition(" (")
        model, _, start = label.partition(" ")
        found = self.store.select(dataset, experiments.split("+"), model=model)
        if recipe:
            found = [record for record in found if record["recipe"] == recipe.rstrip(")")]
        elif experiments == "initialisation-study":
            found = [record for record in found if record["recipe"] == "paper"]
        plain = [r for r in found if variant(r) is None and (r["init"] or "") == start]
        return plain or [record for record in found if variant(record) == start]

    def _detail(self, claim: str, dataset: str, row: tuple[str, ...], found: Found) -> None:
        where = f"{claim}: {dataset}, {row[1]}"
        audit = self.audit
        what = row[1].replace("models, bpr: ", "models+bpr: ").partition(", tail users")[0]
        first, _, second = what.partition(" - ")
        experiment, _, label = first.partition(": ")
        other, _, other_label = second.rpartition(": ")
        sides = [
            self._runs(dataset, experiment, label),
            self._runs(dataset, other or experiment, other_label),
        ]
        audit.many(row[2], [len(side) for side in sides], where)
        audit.number(row[3], found.first, where)
        audit.number(row[4], found.second, where)
        audit.many(row[5], [found.difference, found.low, found.high], where)
        audit.number(row[6], found.percent(found.difference), where)
        printed = self._printed(dataset, row[1], sides)
        if printed is None:
            audit.word(row[7], "-", where)
        else:
            audit.number(row[7].partition(",")[0], 100 * printed, where)
            inside = found.low <= printed * found.second <= found.high
            audit.word(row[7].partition(",")[2].strip(), "" if inside else "outside", where)
        audit.word(row[8], found.word, where)
        if found.word == "inconclusive":
            audit.number(row[9], found.percent(found.half), where)

    def _printed(self, dataset: str, what: str, sides: Sequence[Sequence[Record]]) -> float | None:
        """The paper's own difference, as a share."""
        experiment = sides[0][0]["experiment"]
        by_variant = experiment in ("losses", "architectures")
        is_other = not by_variant and variant(sides[0][0]) is not None
        if "ratio" in what or is_other:
            return None
        if any(side[0]["recipe"] not in (None, "paper") for side in sides):
            return None
        names = ["table3", "table4"]
        if by_variant:
            names = ["table6" if experiment == "losses" else "table7"]
        elif ", tail users" in what:
            names = ["table5"]
        values = []
        for side in sides:
            record = side[0]
            for row in (row for name in names for row in PRINTED[name]):
                same = (
                    row.get("variant") == variant(record)
                    if by_variant
                    else (row["model"], row["init"]) == (record["model"], record["init"])
                )
                if same and row["dataset"] == COUNTERPARTS.get(dataset):
                    values.append(row["HR@10"])
                    break
        if len(values) < 2 or None in values:
            return None
        return float((values[0] - values[1]) / values[1])

    def _complete(self, claim: Mapping[str, Any], table: Table) -> None:
        """Every comparison that the claim asks for and that has enough runs has its line."""
        expected = 0
        for entry in claim["compare"]:
            firsts = _expanded(entry["first"])
            seconds = entry["second"] if isinstance(entry["second"], list) else [entry["second"]]
            for dataset in entry["data"]:
                for first in firsts:
                    for second in (one for s in seconds for one in _expanded({**first, **s})):
                        sides = [self._selected(dataset, one) for one in (first, second)]
                        expected += all(
                            len(side) >= (1 if side and side[0]["init"] is None else 3)
                            for side in sides
                        )
        self.audit.number(str(len(table.rows)), expected, f"{claim['id']}: lines of the details")

    def _selected(self, dataset: str, one: Mapping[str, Any]) -> list[Record]:
        experiments = one["experiment"]
        names = [experiments] if isinstance(experiments, str) else experiments
        fields = {key: one[key] or None for key in ("model", "init", "recipe") if key in one}
        found = self.store.select(dataset, names, **fields)
        return [record for record in found if variant(record) == one.get("variant")]

    def _judge(self, claim: Mapping[str, Any], table: Table, family: Sequence[Found]) -> str:
        """The verdict by the rules of the page, overall and by data set."""
        where = claim["id"]
        counts = Counter(found.word for found in family)
        summary = re.findall(r"<summary>(\d+) comparisons?: ([^;<]*)", table.before)[-1]
        self.audit.number(summary[0], len(family), where)
        shown = dict(part.split(" ")[::-1] for part in summary[1].split(", "))
        for word in WORDS:
            self.audit.number(shown.get(word, "0"), counts[word], f"{where}: {word}")
        line = re.findall(r"By data set: (.*)\.", table.before)[-1]
        datasets = dict.fromkeys(row[0] for row in table.rows)
        for part, dataset in zip(line.split("; "), datasets, strict=True):
            places = [i for i, row in enumerate(table.rows) if row[0] == dataset]
            own = _verdict(claim, [family[i] for i in places], [table.rows[i] for i in places])
            self.audit.word(part.partition(" on ")[0], own, f"{where}, {dataset}")
        overall = _verdict(claim, family, table.rows)
        stated = re.findall(r"\*\*([A-Z][a-z ]+)\.\*\*", table.before)[-1].lower()
        self.audit.word(stated, overall, where)
        return overall

    def _short(
        self,
        table: Table,
        by_claim: Mapping[str, Sequence[tuple[str, tuple[str, ...], Found]]],
        verdicts: Mapping[str, str],
    ) -> None:
        """The first table shows the first line of each claim on the first of its data sets."""
        for row in table.rows:
            claim = row[0].partition("(#")[2].rstrip(")")
            lines = by_claim[claim]
            order = [*COUNTERPARTS, *(line[0] for line in lines)]
            dataset, _, found = min(lines, key=lambda line: order.index(line[0]))
            verdict, _, counts = row[1].partition(" (")
            self.audit.word(verdict.strip("*"), verdicts[claim], f"{claim}: short table")
            words = Counter(line[2].word for line in lines)
            for part in counts.rstrip(")").split(", "):
                self.audit.number(part.split(" ")[0], words[part.split(" ")[1]], claim)
            size, _, ends = row[3].partition(" [")
            percent = found.percent(found.difference)
            self.audit.number(size.split(" ")[0], abs(percent), claim)
            self.audit.word(size.split(" ")[1], "higher" if percent >= 0 else "lower", claim)
            self.audit.many(ends, [found.percent(found.low), found.percent(found.high)], claim)
            self.audit.word(row[4], found.word, claim)
            names = {"ml-1m": "MovieLens-1M", "ml-1m-r3": "MovieLens-1M, ratings of 3 and above"}
            names["steam-200k"] = "Steam-200k"
            self.audit.word(row[5], names.get(dataset, dataset), claim)

    def _remarks(self, text: str) -> None:
        """Numbers in sentences, by the records that they name."""
        self._growth(text)
        self._sparsity(text)
        self._cells(text)
        self._seconds(text)

    def _growth(self, text: str) -> None:
        where = "remark on growth"
        rows = json.loads((BENCHMARKS / "scale.json").read_text("utf-8"))["rows"]
        exact = [row for row in rows if (row["method"], row["K"]) == ("exact", 1000)]
        pattern = r"64 eigenvectors of ([\d, ]+) users take ([\d., ]+) seconds"
        shown = self.audit.search(pattern, text, where)
        for numbers, key in zip(shown, ("users", "eigenvectors s"), strict=False):
            for part, row in zip(numbers.split(", "), exact, strict=True):
                self.audit.number(part, row[key], where)

    def _sparsity(self, text: str) -> None:
        where = "remark on sparsity"
        [n] = [row["users"] for row in PRINTED["table2"] if row["dataset"] == "anime"]
        graph = json.loads((BENCHMARKS / "eigenvectors.json").read_text("utf-8"))["rows"][0]
        share = graph["edges"] / graph["rows"] ** 2
        pattern = r"the bound is ([\d.]+)%.*which is ([\d.]+)%.*has ([\d.]+)%"
        shown = self.audit.search(pattern, text, where)
        bounds = (1 - 2e6 / n**2, 1 - 2e3 / n, 1 - share)
        for number, value in zip(shown, bounds, strict=False):
            self.audit.number(number, 100 * value, where)

    def _cells(self, text: str) -> None:
        where = "remark on cells"
        pattern = r"printed table agrees: (\d+) and (\d+) of (\d+)\..*?are: (.*?)\. They"
        shown = self.audit.search(pattern, text, where)
        cells, svd, second = _counts(PRINTED["table3"])
        for number, value in zip(shown[:3], (svd, second, cells), strict=False):
            self.audit.number(number, value, where)
        for part in "".join(shown[3:]).split("; "):
            numbers, _, dataset = part.partition(" on ")
            self.audit.many(numbers, self._own_counts(dataset.strip("`")), where)

    def _seconds(self, text: str) -> None:
        where = "remark on seconds"
        shown = self.audit.search(r"shared \((.*?)\)\.", text, where)
        measured = json.loads((self.store.root / "measurements.json").read_text("utf-8"))
        for part in "".join(shown).split(", "):
            numbers, _, dataset = part.replace("`", "").partition(" on ")
            cost = measured[dataset]["time_cost"]
            ours = sum(row["seconds"] for row in cost if "scipy" not in row["step"])
            runs = self.store.select(dataset, ["models", "bpr"], model="bpr", init="random")
            seconds = sum(run["seconds"] for run in runs) / len(runs)
            self.audit.many(numbers, [ours, seconds], where)

    def _own_counts(self, dataset: str) -> list[float]:
        groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.store.select(dataset, ["initialisers"]):
            groups[record["model"], record["init"]].append(record)
        rows = [
            {"dataset": dataset, "model": model, "init": init}
            | {metric: mean(runs, metric) for metric in METRICS}
            for (model, init), runs in groups.items()
        ]
        cells, svd, second = _counts(rows)
        return [svd, second, cells]


def _expanded(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A list of models, initialisations or variants is one selection each."""
    found = [dict(one)]
    for key in ("model", "init", "variant"):
        if isinstance(one.get(key), list):
            found = [{**each, key: value} for each in found for value in one[key]]
    return found


def _verdict(
    claim: Mapping[str, Any], family: Sequence[Found], rows: Sequence[tuple[str, ...]]
) -> str:
    """The rules as the page states them."""
    expects = claim.get("expects", "better")
    supports = {"better": "better", "not worse": "better equivalent", "equivalent": "equivalent"}
    denies = {"better": "worse", "not worse": "worse", "equivalent": "better worse"}
    words = [found.word for found in family]
    yes = sum(word in supports[expects].split() for word in words)
    no = sum(word in denies[expects].split() for word in words)
    if yes == len(words):
        return "confirmed"
    if yes > no:
        return "confirmed in part"
    misses = any(
        "outside" in row[7]
        and float(row[7].partition("%")[0]) > found.percent(found.high)
        and float(row[7].partition("%")[0]) > 0
        for row, found in zip(rows, family, strict=True)
    )
    return "not confirmed" if no or "equivalent" in words or misses else "undecided"


def _counts(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Cells, those whose best baseline is SVD, and those with LE among the two best."""
    cells: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        for metric in METRICS:
            if row[metric] is not None:
                cells[row["dataset"], row["model"], metric][row["init"]] = row[metric]
    svd = second = 0
    for cell in cells.values():
        baselines = [value for init, value in cell.items() if init not in ("le", "leporid")]
        svd += cell["svd"] == max(baselines)
        second += sum(value > cell["le"] for value in cell.values()) < 2
    return len(cells), svd, second

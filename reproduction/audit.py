"""The auditor: recomputes the numbers and words of the pages from records, by code of its own.

    python -m reproduction.audit [--docs docs] [--results results]

It reads the tables of the pages as text. What a row is about stands in its first cells; every
other cell is computed again and compared, numbers to half a unit of the last printed digit. It
prints how many numbers and words it checked on each page, which tables it does not cover, and ends
with status 1 if anything differs. Write the pages first: `python docs/make_pages.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from reproduction.audit_records import (
    Found,
    Record,
    Store,
    compared,
    deviation,
    history,
    holm,
    mean,
    ratios,
    variant,
)

HERE = Path(__file__).parent
ROOT = HERE.parent
WORDS = ("better", "equivalent", "inconclusive", "worse")
NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?")
SHORT = ("HR@5", "HR@10", "F1@5", "F1@10")
CLASSICAL = set("toppop userknn itemknn slim ease p3alpha rp3beta gfcf turbocf ials".split())
NOT_COVERED = (
    "tables of benchmarks/records on initialisers.md, models.md, new-items.md, scale.md, "
    "benchmarks.md",
    "numbers in sentences, except the remarks of verdict.md and the opening of README.md",
    "figures",
)
DATA_OF_THE_PAPER = ("ml-1m", "ml-1m-r3", "anime-5k")


@dataclass(frozen=True)
class Table:
    """A Markdown table and what stands before it."""

    heading: str
    anchor: str
    before: str
    """The text between the heading and the table."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass
class Audit:
    """What was checked and what differs."""

    page: str = ""
    numbers: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Tables that are not covered."""

    def number(self, shown: str, value: float, where: str) -> None:
        """A printed number is the value, to half a unit of its last digit."""
        text = shown.replace(",", "").replace("*", "").replace("_", "").replace("%", "").strip()
        self.numbers[self.page] += 1
        found = NUMBER.fullmatch(text.lstrip("±").strip())
        if not found:
            self.wrong.append(f"{self.page}, {where}: {shown!r} is no number, {value:.6g} expected")
            return
        digits = len(text.partition(".")[2].partition("e")[0])
        unit = 10.0**-digits * 10.0 ** int(text.partition("e")[2] or 0)
        if abs(float(text.lstrip("±")) - value) > unit / 2 * (1 + 1e-6):
            self.wrong.append(f"{self.page}, {where}: {shown!r} is shown, {value:.6g} is right")

    def word(self, shown: str, expected: str, where: str) -> None:
        """A printed word is the expected one."""
        self.words[self.page] += 1
        if shown.strip() != expected:
            self.wrong.append(f"{self.page}, {where}: {shown!r} is shown, {expected!r} is right")

    def many(self, shown: str, values: Sequence[float], where: str) -> None:
        """All numbers of a cell, in their order."""
        texts = re.findall(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|[-+]?\.\d+", shown)
        if len(texts) != len(values):
            self.wrong.append(f"{self.page}, {where}: {shown!r} has {len(texts)} numbers")
        for text, value in zip(texts, values, strict=False):
            self.number(text, value, where)


def tables(text: str) -> Iterator[Table]:
    """The tables of a page; of a folded table the whole one."""
    found: list[Table] = []
    heading, anchor, before = "", "", ""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            block.append(line)
            continue
        if len(block) > 2:
            cells = [tuple(c.strip() for c in row.strip()[1:-1].split("|")) for row in block]
            found.append(Table(heading, anchor, before, cells[0], tuple(cells[2:])))
        block = []
        if line.startswith("#"):
            heading, before = line.lstrip("# "), ""
        elif line.startswith("<a id="):
            anchor = line.split('"')[1]
        else:
            before += f"{line}\n"
    for table, following in zip(found, [*found[1:], None], strict=True):
        same = following and following.header == table.header
        if not (same and following and following.rows[: len(table.rows)] == table.rows):
            yield table


class Auditor:
    """Every page by its name."""

    def __init__(self, docs: Path, results: Path) -> None:
        self.docs, self.root, self.store = docs, results, Store(results)
        self.audit = Audit()
        self.printed = json.loads((HERE / "paper_values.json").read_text("utf-8"))
        self.claims = tomllib.loads((HERE / "claims.toml").read_text("utf-8"))

    def run(self) -> Audit:
        """Check all pages."""
        pages: dict[str, Callable[[str], None]] = {
            "verdict.md": self.verdict,
            "paper.md": self.paper,
            "leaderboard.md": self.leaderboard,
            "results.md": self.results,
            "initialisation.md": self.initialisation,
            "../README.md": self.readme,
        }
        for name, check in pages.items():
            self.audit.page = name
            path = self.docs / name
            if not path.is_file():
                self.audit.wrong.append(f"{name} is not there: run `python docs/make_pages.py`")
                continue
            check(path.read_text(encoding="utf-8"))
        return self.audit

    # docs/verdict.md

    def verdict(self, text: str) -> None:
        """The details of each claim, then the short table and the remarks."""
        by_claim: dict[str, list[tuple[str, tuple[str, ...], Found | None]]] = {}
        claims = {claim["id"]: claim for claim in self.claims["claims"]}
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
        opening = re.search(r"Of (\d+) claims that comparisons of runs can judge, (.*)\.", text)
        assert opening is not None
        self.audit.number(opening[1], len(claims), "number of claims")
        for part in opening[2].split(", "):
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
            for row in (row for name in names for row in self.printed[name]):
                same = (
                    row.get("variant") == variant(record)
                    if by_variant
                    else (row["model"], row["init"]) == (record["model"], record["init"])
                )
                if same and row["dataset"] == _counterpart(dataset):
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
        by_claim: Mapping[str, Sequence[tuple[str, tuple[str, ...], Found | None]]],
        verdicts: Mapping[str, str],
    ) -> None:
        """The first table shows the first line of each claim on the first of its data sets."""
        for row in table.rows:
            claim = row[0].partition("(#")[2].rstrip(")")
            lines = by_claim[claim]
            order = [*DATA_OF_THE_PAPER, *(line[0] for line in lines)]
            dataset, _, found = min(lines, key=lambda line: order.index(line[0]))
            assert found is not None
            verdict, _, counts = row[1].partition(" (")
            self.audit.word(verdict.strip("*"), verdicts[claim], f"{claim}: short table")
            words = Counter(line[2].word for line in lines if line[2])
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
        audit = self.audit
        records = ROOT / "benchmarks" / "records"
        scale = json.loads((records / "scale.json").read_text("utf-8"))["rows"]
        exact = [row for row in scale if (row["method"], row["K"]) == ("exact", 1000)]
        found = re.search(r"64 eigenvectors of ([\d, ]+) users take ([\d., ]+) seconds", text)
        assert found is not None
        for shown, key in ((found[1], "users"), (found[2], "eigenvectors s")):
            for part, row in zip(shown.split(", "), exact, strict=True):
                audit.number(part, row[key], f"remark on growth, {key}")
        [n] = [row["users"] for row in self.printed["table2"] if row["dataset"] == "anime"]
        graph = json.loads((records / "eigenvectors.json").read_text("utf-8"))["rows"][0]
        found = re.search(r"the bound is ([\d.]+)%.*which is ([\d.]+)%.*has ([\d.]+)%", text)
        assert found is not None
        share = graph["edges"] / graph["rows"] ** 2
        bounds = (1 - 2e6 / n**2, 1 - 2e3 / n, 1 - share)
        for shown, value in zip(found.groups(), bounds, strict=True):
            audit.number(shown, 100 * value, "remark on sparsity")
        found = re.search(
            r"printed table agrees: (\d+) and (\d+) of (\d+)\..*?are: (.*?)\. They", text
        )
        assert found is not None
        cells, svd, second = _counts(self.printed["table3"])
        for shown, value in zip(found.groups()[:3], (svd, second, cells), strict=True):
            audit.number(shown, value, "remark on cells, printed")
        for part in found[4].split("; "):
            numbers, _, dataset = part.partition(" on ")
            audit.many(numbers, self._own_counts(dataset.strip("`")), f"remark on cells, {dataset}")
        found = re.search(r"shared \((.*?)\)\.", text)
        assert found is not None
        measured = json.loads((self.root / "measurements.json").read_text("utf-8"))
        for part in found[1].split(", "):
            dataset = part.split("`")[1]
            cost = measured[dataset]["time_cost"]
            ours = sum(row["seconds"] for row in cost if "scipy" not in row["step"])
            runs = self.store.select(dataset, ["models", "bpr"], model="bpr", init="random")
            seconds = sum(run["seconds"] for run in runs) / len(runs)
            audit.many(part.partition(" on ")[0], [ours, seconds], "remark on seconds")

    def _own_counts(self, dataset: str) -> list[float]:
        groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.store.select(dataset, ["initialisers"]):
            groups[record["model"], record["init"]].append(record)
        rows = [
            {"dataset": dataset, "model": model, "init": init}
            | {metric: mean(runs, metric) for metric in SHORT}
            for (model, init), runs in groups.items()
        ]
        cells, svd, second = _counts(rows)
        return [svd, second, cells]

    # docs/paper.md

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
        measured = json.loads((self.root / "measurements.json").read_text("utf-8"))
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
                [row] = [row for row in self.printed["table2"] if row["dataset"] == dataset]
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
            for place, metric in enumerate(SHORT):
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
            for row in self.printed[name]
            if row["dataset"] == _counterpart(dataset)
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

    # docs/leaderboard.md

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
                self._counts(table, self.initialiser_words, "LEPORID against ")
            elif table.header[:2] == ("against", "logs"):
                continue
            else:
                self.audit.left.append(f"{self.audit.page}: {table.heading} {table.header[:3]}")

    def row(self, dataset: str, name: str) -> list[Record]:
        """'sasrec as it comes from svd', 'dlr2 from le', 'ease'."""
        model, _, init = name.partition(" from ")
        if model.endswith(" as it comes"):
            short = model.removesuffix(" as it comes")
            return self.store.select(dataset, ["default"], model=short, init=init)
        experiments = ["leaderboard"] if init else ["baselines"]
        return self.store.select(dataset, experiments, model=model, init=init or None, variant=None)

    @property
    def initialiser_words(self) -> dict[str, Counter[str]]:
        """How often each word stands in the comparisons of initialisers, by the other one."""
        return {
            base: Counter(found.word for found in family.values())
            for base, family in self.initialiser_families.items()
        }

    @property
    def initialiser_families(self) -> dict[str, dict[tuple[str, str], Found]]:
        """LEPORID against each other initialiser on all data sets: a family each."""
        families: dict[str, dict[tuple[str, str], Found]] = defaultdict(dict)
        for dataset in self.store.datasets:
            runs: dict[tuple[str, str], list[Record]] = defaultdict(list)
            for record in self.store.select(dataset, ["leaderboard"]):
                runs[record["model"], record["init"]].append(record)
            for (model, init), own in runs.items():
                ours = runs.get((model, "leporid"))
                if init != "leporid" and ours:
                    sides = [self.store.side(side, "NDCG@10") for side in (ours, own)]
                    families[init][dataset, model] = compared(sides[0], sides[1])
        return {
            base: dict(zip(family, holm(list(family.values())), strict=True))
            for base, family in families.items()
        }

    def _initialisers(self, table: Table) -> None:
        families = self.initialiser_families
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
                self.audit.word(other, self.best_classical(row[0]), f"{row[0]}: best classical")
            sides = [
                self.store.side(self.row(row[0], one), "NDCG@10")
                for one in ("dlr2 as it comes from leporid", other)
            ]
            families[family].append((row, compared(sides[0], sides[1])))
        for lines in families.values():
            for (row, _), found in zip(lines, holm([one for _, one in lines]), strict=True):
                where = f"{row[0]}, DLR2 against {row[1]}"
                self.audit.number(row[2], found.first, where)
                self.audit.number(row[3], found.second, where)
                self._difference(found, row[4], row[5], row[6], where)

    def best_classical(self, dataset: str) -> str:
        """The classical model with the highest NDCG@10 on validation."""
        runs = [r for r in self.store.select(dataset, ["baselines"]) if r["model"] in CLASSICAL]
        best = max(runs, key=lambda run: run["valid_metrics"]["NDCG@10"])
        return str(best["model"])

    def _rows_of(self, table: Table) -> None:
        dataset = table.heading
        for row in table.rows:
            name = row[0] if row[1] == "-" else f"{row[0]} from {row[1]}"
            where = f"{dataset}, {name}"
            runs = self.row(dataset, name)
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
        found = re.search(
            r"(\d+) rows on (\d+) logs \((.*?)\); critical difference ([\d.]+)(?:; Friedman p (\S+))?\.",
            table.before,
        )
        assert found is not None
        datasets = found[3].split(", ")
        names = [row[0] for row in table.rows]
        where = f"ranks of {table.heading}"
        values = {
            metric: np.array([[mean(self.row(d, n), metric) for n in names] for d in datasets])
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
        self.audit.number(found[1], k, where)
        self.audit.number(found[2], n, where)
        self.audit.number(found[4], q * math.sqrt(k * (k + 1) / (12 * n)), where)
        if found[5]:
            p = stats.friedmanchisquare(*values["NDCG@10"].T).pvalue
            self.audit.number(found[5].rstrip(";,"), p, where)

    def _families(self, table: Table) -> None:
        for row in table.rows:
            for cell in row[2:]:
                numbers, _, name = cell.replace("**", "").replace(" †", "").partition(" / ")
                hits, _, name = name.partition(" ")
                runs = self.row(row[0], name)
                self.audit.number(numbers, mean(runs, "NDCG@10"), f"{row[0]}, {name}")
                self.audit.number(hits, mean(runs, "HR@10"), f"{row[0]}, {name}")

    def _counts(self, table: Table, words: Mapping[str, Counter[str]], before: str) -> None:
        for row in table.rows:
            counts = words[row[0].removeprefix(before)]
            self.audit.number(row[1], counts.total(), row[0])
            for cell, word in zip(row[2:], table.header[2:], strict=True):
                if word in WORDS:
                    self.audit.number(cell, counts[word], f"{row[0]}, {word}")

    # docs/results.md

    def results(self, text: str) -> None:
        """The tables of the page of results, by their headings."""
        for table in tables(text):
            if table.header == ("log", "best classical model", "SASRec", "DLR2"):
                self._default_models(table)
            elif table.header[0] == "against" and "comparisons" in table.header:
                self._counts(table, self.initialiser_words, "")
            elif table.header[:2] == ("model", "comparisons"):
                self._counts(table, self._by_model(), "")
            elif table.header[:2] == ("model", "history"):
                self._gains(table, text)
            elif table.header[:2] == ("model", "seeds"):
                self._last_item(table)
            elif table.header[0] == "model" and "DLR2 is" in table.header:
                self._global_time(table)
            elif table.header[0] == "data set":
                for name, count in table.rows:
                    self.audit.number(count, len(self.store.records(name)), f"reads of {name}")
            elif table.header[:2] == ("log", "best step, random"):
                self._two_tower(table)
            elif table.header[:3] == ("model", "settings", "LEPORID ahead"):
                self._studies(table)
            else:
                self.audit.left.append(f"{self.audit.page}: {table.heading}")

    def _two_tower(self, table: Table) -> None:
        path = ROOT / "benchmarks" / "records" / "two_tower.json"
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
        path = self.root / "ml-1m-r3" / "inner-validation-studies.json"
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
            classical = self.best_classical(dataset)
            names = [classical, "sasrec as it comes from leporid", "dlr2 as it comes from leporid"]
            values = [mean(self.row(dataset, name), "NDCG@10") for name in names]
            for cell, value in zip(cells, values, strict=True):
                bold = cell.startswith("**")
                self.audit.number(cell.strip("*").split(" ")[0].strip("*"), value, dataset)
                self.audit.word(str(bold), str(value == max(values)), f"{dataset}: bold {cell}")
            self.audit.word(cells[0].rpartition(" ")[2], classical, dataset)

    def _by_model(self) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for (_, model), found in self.initialiser_families["random"].items():
            counts[model][found.word] += 1
        return counts

    def _gains(self, table: Table, text: str) -> None:
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

    # README.md

    def readme(self, text: str) -> None:
        """The table of results, and the counts of the first sentences."""
        for table in tables(text):
            if table.header == ("log", "best classical model", "SASRec", "DLR2"):
                self._default_models(table)
        opening = " ".join(text.partition("<!-- first-screen:begin -->")[2].split())
        found = re.search(
            r"classical model on (\d+) of (\d+) public data sets and loses on (\w+);.*?on (\d+) and "
            r"loses on (\d+)\..*? on (\w+) of (\d+) data sets, equivalent on (\w+) and inconclusive on "
            r"(\w+)\. Over.*?in (\d+) of (\d+) pairs of data set and model, and worse in (\d+)",
            opening,
        )
        assert found is not None
        classical = self._rival_words("")
        rival = self._rival_words("sasrec as it comes from leporid")
        ours = self.initialiser_words["random"]
        network = self._by_model()["dlr2"]
        expected = [classical["better"], classical.total(), classical["worse"]]
        expected += [rival["better"], rival["worse"], network["better"], network.total()]
        expected += [network["equivalent"], network["inconclusive"]]
        expected += [ours["better"], ours.total(), ours["worse"]]
        for shown, value in zip(found.groups(), expected, strict=True):
            self.audit.number("0" if shown == "none" else shown, value, "first sentences")

    def _rival_words(self, name: str) -> Counter[str]:
        """DLR2 against a row of the leaderboard; "" is the best classical model of each data set."""
        family = []
        for dataset in self.store.datasets:
            ours = self.row(dataset, "dlr2 as it comes from leporid")
            if ours:
                other = self.row(dataset, name or self.best_classical(dataset))
                sides = [self.store.side(side, "NDCG@10") for side in (ours, other)]
                family.append(compared(sides[0], sides[1]))
        return Counter(found.word for found in holm(family))

    # docs/initialisation.md

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
        ratios_of: dict[str, list[float]] = defaultdict(list)
        for row in table.rows:
            if row[0] == "geometric mean":
                continue
            kind, dataset = row[:2]
            base = {run["seed"]: run for run in self.study(dataset, kind, "random")}
            best = [run["extra"]["training"]["best_step"] for run in base.values()]
            self.audit.number(row[2], sum(best) / len(best), f"{dataset}, {kind}: best step")
            for cell, init in ((row[3], "leporid"), (row[4], "adapted")):
                logs = []
                for run in self.study(dataset, kind, init):
                    other = base[run["seed"]]["extra"]["curve"]
                    goal = 0.99 * max(point[1] for point in other)
                    there = [point[0] for point in run["extra"]["curve"] if point[1] >= goal]
                    first = [point[0] for point in other if point[1] >= goal]
                    if there:
                        logs.append(math.log(there[0] / first[0]))
                lines.append((f"steps, {dataset}, {kind}, {init}", cell, logs))
                ratios_of[init].append(float(np.mean(logs)))
        tests = []
        for _, _, logs in lines:
            error = np.std(logs, ddof=1) / math.sqrt(len(logs))
            half = error * stats.t.isf(0.025, len(logs) - 1)
            p = 2 * stats.t.cdf(-abs(np.mean(logs)) / error, len(logs) - 1) if error else 0.0
            center = float(np.mean(logs))
            tests.append(Found(center, 0.0, center, float(half), float(p)))
        for (where, cell, logs), found in zip(lines, holm(tests), strict=True):
            numbers, _, rest = cell.partition("] ")
            values = [math.exp(x) for x in (found.difference, found.low, found.high)]
            self.audit.many(numbers, values, where)
            word = {"better": "more", "worse": "fewer"}.get(found.word, "inconclusive")
            self.audit.word(rest.partition(",")[0], word, where)
            if len(logs) < 5:
                self.audit.number(rest.partition(", ")[2].split(" ")[0], len(logs), where)
        for row in table.rows:
            if row[0] == "geometric mean":
                value = math.exp(float(np.mean(ratios_of[row[1]])))
                self.audit.number(row[3], value, f"steps, mean of {row[1]}")

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


def _counterpart(dataset: str) -> str | None:
    """The data set of the paper that one of ours stands for."""
    return {"ml-1m": "ml-1m", "ml-1m-r3": "ml-1m", "anime-5k": "anime"}.get(dataset)


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
        for metric in SHORT:
            if row[metric] is not None:
                cells[row["dataset"], row["model"], metric][row["init"]] = row[metric]
    svd = second = 0
    for cell in cells.values():
        baselines = [value for init, value in cell.items() if init not in ("le", "leporid")]
        svd += cell["svd"] == max(baselines)
        second += sum(value > cell["le"] for value in cell.values()) < 2
    return len(cells), svd, second


def _is_plain(record: Record) -> bool:
    """SASRec's recipe of 0.7.0 with nothing changed."""
    settings = record["extra"]["cell"]["settings"]
    return (record["model"], record["init"]) == ("sasrec", "leporid") and not (
        settings.keys() - {"metric"}
    )


def main() -> None:
    """Print what was checked; status 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    audit = Auditor(given.docs, given.results).run()
    for page in audit.numbers:
        print(f"{page}: {audit.numbers[page]:,} numbers and {audit.words[page]:,} words checked")
    print(f"all: {audit.numbers.total():,} numbers and {audit.words.total():,} words checked")
    for one in [*audit.left, *NOT_COVERED]:
        print(f"not covered: {one}")
    for one in audit.wrong:
        print(f"wrong: {one}")
    sys.exit(bool(audit.wrong))


if __name__ == "__main__":
    main()

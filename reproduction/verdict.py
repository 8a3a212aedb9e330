"""The paper's claims evaluated on our records: numbers computed, sentences written.

`claims.toml` holds each claim with its sentence, its verdict and the comparisons behind it.
`evaluate_claims` makes the comparisons; `Claim.contradiction` says where a written verdict is not
what they give; `verdict_page` is docs/verdict.md.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from leporid.evaluation import Comparison as Tested
from leporid.evaluation import MetricTable, compare, holm
from leporid.foundation import fill_template
from leporid.runs import RunRecord
from reproduction.store import PackedResults
from reproduction.tables import DATA_SETS, measurements, paper_rows

METRIC = "HR@10"
_SEEDS = 3
"""A model that is trained needs this many runs to count."""
_EFFECT = 0.05
"""The size of an effect that matters where the paper prints none, as a share of the value."""
_TABLES = {"losses": ["table6"], "architectures": ["table7"]}
"""Where the paper prints the runs of an experiment; others are in tables 3 and 4."""


@dataclass(frozen=True)
class Comparison:
    """One number against another on one data set; `tested` is None where either was not run."""

    dataset: str
    what: str
    """Which records are compared."""
    seeds: tuple[int, int]
    tested: Tested | None = None
    counted: bool = True
    """Whether each trained side has three runs: fewer are shown, and decide nothing."""
    printed: float | None = None
    """The difference that the paper prints, as a share of its second value."""

    @property
    def percent(self) -> float:
        """The difference in percent of the second value."""
        return self.tested.percent if self.tested else math.nan

    @property
    def reading(self) -> str:
        """What the interval says, with p-values adjusted within the claim."""
        if self.tested is None:
            return "not run yet"
        if not self.counted:
            return "too few seeds"
        if self.tested.outcome != "level":
            return self.tested.outcome
        return "level" if self.tested.high < self._effect else "cannot tell"

    @property
    def same(self) -> bool:
        """Whether the whole interval is within five per cent."""
        assert self.tested is not None
        return max(-self.tested.low, self.tested.high) < _EFFECT * self.tested.mean_b

    @property
    def _effect(self) -> float:
        """The printed difference, or five per cent, of our second value."""
        assert self.tested is not None
        share = self.printed if self.printed and self.printed > 0 else _EFFECT
        return share * self.tested.mean_b


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we say of it, and the comparisons behind both."""

    title: str
    paper: str
    sentence: str
    verdict: str
    command: str
    """The name that makes `python -m reproduction` run what is missing."""
    comparisons: tuple[Comparison, ...]
    expects: str = "above"
    """What the paper says of the first value: above the second, or about the same ("same")."""

    @property
    def run(self) -> list[Comparison]:
        """The comparisons there are records for."""
        return [comparison for comparison in self.comparisons if comparison.tested is not None]

    @property
    def missing(self) -> list[str]:
        """The data sets on which something was not run."""
        gone = (c.dataset for c in self.comparisons if c.tested is None)
        return list(dict.fromkeys(gone))

    def computed(self, datasets: Collection[str] | None = None) -> str:
        """The verdict of the numbers, over all data sets or some."""
        asked = [c for c in self.comparisons if datasets is None or c.dataset in datasets]
        if not any(c.tested for c in asked):
            return "not run yet" if asked else "-"
        counted = [c for c in asked if c.tested and c.counted]
        readings = [c.reading for c in counted]
        if self.expects == "same":
            readings = ["above" if c.same else _unlike(c.reading) for c in counted]
        above, below = readings.count("above"), readings.count("below")
        if counted and above == len(counted):
            return "confirmed"
        if above > below:
            return "confirmed in part"
        return "not confirmed" if below or "level" in readings else "beyond our power"

    @property
    def contradiction(self) -> str | None:
        """Where the written verdict is not that of the numbers."""
        if (computed := self.computed()) == self.verdict:
            return None
        return f"{self.title!r} is said to be {self.verdict!r}, the records say {computed!r}"


def _unlike(reading: str) -> str:
    """What a difference says of the claim that there is none."""
    return "below" if reading in ("above", "below") else "cannot tell"


def evaluate_claims(
    root: str | Path, claims: Sequence[Mapping[str, Any]] | None = None
) -> list[Claim]:
    """Every claim of `claims.toml` (or of `claims`) on the records under `root`."""
    comparer = _Comparer(root)
    words = ("title", "paper", "sentence", "verdict", "command")
    return [
        Claim(
            **{key: entry[key] for key in words},
            comparisons=_adjusted(comparer.comparisons(entry["compare"])),
            expects=entry.get("expects", "above"),
        )
        for entry in (read_claims()["claims"] if claims is None else claims)
    ]


def read_claims() -> dict[str, Any]:
    """What `claims.toml` holds: claims, and remarks on those that are no comparison of runs."""
    return tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf-8"))


def _adjusted(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons of a claim are one family."""
    found = list(comparisons)
    places = [i for i, c in enumerate(found) if c.tested is not None and c.counted]
    family = holm(found[i].tested for i in places)  # type: ignore[misc]
    for i, tested in zip(places, family, strict=True):
        found[i] = replace(found[i], tested=tested)
    return tuple(found)


def verdict_page(root: str | Path) -> str:
    """docs/verdict.md."""
    claims = evaluate_claims(root)
    others = {c.dataset for claim in claims for c in claim.comparisons} - set(DATA_SETS)
    columns = {"ML-1M": ["ml-1m-r3"], "Anime": ["anime-5k"], "other logs": sorted(others)}
    filters = {"signed": lambda value: f"{value:+.4f}", "percent": lambda value: f"{value:+.1f}%"}
    values: dict[str, Any] = {"claims": claims, "columns": columns}
    values["remarks"] = read_claims()["remarks"]
    return fill_template("reproduction", "verdict.md", filters, **values)


class _Comparer:
    """Comparisons from the records of one folder."""

    def __init__(self, root: str | Path) -> None:
        self.root, self.results = root, PackedResults(root)
        self._records = cache(lambda data, group: tuple(self.results.records(data, [group])))

    def comparisons(self, entries: Sequence[Mapping[str, Any]]) -> Iterable[Comparison]:
        for entry in entries:
            seconds, measure = entry["second"], entry.get("measure", METRIC)
            seconds = seconds if isinstance(seconds, list) else [seconds]
            for first, dataset in product(_each(entry["first"]), entry["data"]):
                for second in (one for named in seconds for one in _each({**first, **named})):
                    yield self._compare(dataset, first, second, measure)

    def _compare(
        self, dataset: str, first: Mapping[str, Any], second: Mapping[str, Any], measure: str
    ) -> Comparison:
        where = [str(side["experiment"]).strip("[]").replace("'", "") for side in (first, second)]
        what = f"{where[0]}: {_label(first)} - " + (f"{where[1]}: " if len({*where}) > 1 else "")
        what += _label(second)
        if measure == "seconds":
            return self._seconds(dataset, first)
        sides = [self._select(dataset, chosen) for chosen in (first, second)]
        seeds = len(sides[0]), len(sides[1])
        if measure != METRIC:
            what += f", {measure}"
        if not all(sides):
            return Comparison(dataset, what, seeds)
        counted = all(side[0].init is None or len(side) >= _SEEDS for side in sides)
        printed = _printed(dataset, first, second, measure)
        return Comparison(dataset, what, seeds, self._tested(sides, measure), counted, printed)

    def _tested(self, sides: Sequence[Sequence[RunRecord]], measure: str) -> Tested:
        """`compare` where hits per user are kept; for tail users from their means."""
        tables = [self._tables(side) for side in sides]
        if measure == METRIC and all(tables) and _same_users(tables):
            return compare(tables[0], tables[1], METRIC)
        means = [_mean(side) for side in sides]
        tail = [_mean(side, tail=True) for side in sides]
        users, every = self._user_error(sides, tables), 10**6
        errors = [(users, every), *(_seed_error(side) for side in sides)]
        # Records keep means of tail users only: a quarter of the users, twice the error.
        tail_errors = [(2 * users, every), *(_seed_error(side, tail=True) for side in sides)]
        if measure == "tail users":
            means, errors = tail, tail_errors
        elif measure == "tail users' ratio against all users'":
            errors = [(e / means[1], n) for e, n in errors]
            errors += [(e / tail[1], n) for e, n in tail_errors]
            means = [tail[0] / tail[1], means[0] / means[1]]
        return _by_t(means, errors, [len(side) for side in sides])

    def _seconds(self, dataset: str, first: Mapping[str, Any]) -> Comparison:
        """Seconds of runs against the measured ones of our own graph and eigenvectors."""
        rows, runs = measurements(self.root, dataset).get("time_cost"), self._select(dataset, first)
        what = f"seconds of {_label(first)} - of the user graph and its eigenvectors"
        if not rows or not runs:
            return Comparison(dataset, what, (len(runs), 0))
        ours = sum(row["seconds"] for row in rows if "scipy" not in row["step"])
        theirs = sum(run.seconds for run in runs) / len(runs)
        tested = _by_t([theirs, ours], [], [len(runs), 1])
        return Comparison(dataset, what, (len(runs), 1), tested)

    def _select(self, dataset: str, chosen: Mapping[str, Any]) -> list[RunRecord]:
        groups = chosen["experiment"]
        groups = [groups] if isinstance(groups, str) else groups
        records = [record for group in groups for record in self._records(dataset, group)]
        named = {key: chosen[key] for key in ("model", "init", "recipe") if key in chosen}
        return [
            record
            for record in records
            if record.variant == chosen.get("variant")
            and all(getattr(record, key) == (value or None) for key, value in named.items())
        ]

    def _tables(self, side: Sequence[RunRecord]) -> dict[int, MetricTable]:
        """Hits per user by seed; nothing where a run kept none."""
        kept = {record.seed: self.results.outcomes(record.key) for record in side}
        return {seed: table for seed, table in kept.items() if table} if all(kept.values()) else {}

    def _user_error(
        self, sides: Sequence[Sequence[RunRecord]], tables: Sequence[dict[int, MetricTable]]
    ) -> float:
        """Of the mean over users of the paired difference, each user averaged over seeds."""
        if not all(tables) or not _same_users(tables):
            # Without outcomes of the same users: the runs' own intervals, as if independent.
            return math.hypot(*(_own_error(side) for side in sides))
        rates = [np.mean([t.per_user(METRIC) for t in side.values()], axis=0) for side in tables]
        gap = rates[0] - rates[1]
        return float(gap.std(ddof=1) / math.sqrt(len(gap)))


def _by_t(
    means: Sequence[float], errors: Sequence[tuple[float, int]], runs: Sequence[int]
) -> Tested:
    """A difference whose error has several parts, each with degrees of freedom (Satterthwaite)."""
    difference, error = means[0] - means[1], math.hypot(*(part for part, _ in errors))
    margin, p_value = 0.0, 0.0
    if error:
        freedom = error**4 / sum(part**4 / n for part, n in errors if part)
        margin = error * float(stats.t.ppf(0.975, freedom))
        p_value = 2 * float(stats.t.sf(abs(difference) / error, freedom))
    return Tested(
        metric=METRIC,
        name_a="first",
        name_b="second",
        mean_a=means[0],
        mean_b=means[1],
        difference=difference,
        low=difference - margin,
        high=difference + margin,
        p_value=p_value,
        n_users=0,
        n_seeds=(runs[0], runs[1]),
    )


def _same_users(tables: Sequence[Mapping[int, MetricTable]]) -> bool:
    each = [table for side in tables for table in side.values()]
    return all(each[0].same_users(table) for table in each)


def _printed(
    dataset: str, first: Mapping[str, Any], second: Mapping[str, Any], measure: str
) -> float | None:
    """The difference of the counterparts in the paper's tables, as a share of the second."""
    tables = _TABLES.get(str(first["experiment"]), ["table3", "table4"])
    if measure == "tail users":
        tables = ["table5"]
    if measure not in (METRIC, "tail users") or first.get("recipe", "paper") != "paper":
        return None
    rows = [row for table in tables for row in paper_rows(table, dataset)]
    keys = ("variant",) if tables[0] in ("table6", "table7") else ("model", "init")
    values: list[float] = [
        row[METRIC]
        for side in (first, second)
        for row in [r for r in rows if all(r[k] == (side.get(k) or None) for k in keys)][:1]
        if row[METRIC] is not None
    ]
    return (values[0] - values[1]) / values[1] if len(values) == 2 else None


def _each(chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One selection for each of the models, inits or variants that a selection lists."""
    lists = {key: chosen[key] for key in ("model", "init", "variant") if key in chosen}
    lists = {key: value for key, value in lists.items() if isinstance(value, list)}
    return [{**chosen, **dict(zip(lists, one, strict=True))} for one in product(*lists.values())]


def _label(chosen: Mapping[str, Any]) -> str:
    parts = [chosen["model"], chosen.get("variant") or chosen.get("init") or ""]
    recipe = chosen.get("recipe", "paper")
    parts += [f"({recipe})"] if recipe not in ("paper", "") else []
    return " ".join(part for part in parts if part)


def _mean(records: Sequence[RunRecord], *, tail: bool = False) -> float:
    return float(np.mean([(r.tail_metrics if tail else r.metrics)[METRIC] for r in records]))


def _seed_error(records: Sequence[RunRecord], *, tail: bool = False) -> tuple[float, int]:
    """Of the mean over seeds, and its degrees of freedom; 0 for one run."""
    values = [(r.tail_metrics if tail else r.metrics)[METRIC] for r in records]
    if len(values) < 2:
        return 0.0, 1
    return float(np.std(values, ddof=1) / math.sqrt(len(values))), len(values) - 1


def _own_error(records: Sequence[RunRecord]) -> float:
    low, high = records[0].extra["confidence_95"][METRIC][-2:]
    return float(high - low) / (2 * 1.96)

"""The paper's claims evaluated on our records: numbers computed, sentences written.

`claims.toml` holds each claim with its sentence, its verdict and the comparisons behind it.
`evaluate_claims` makes the comparisons; `Claim.contradiction` says where a written verdict is not
what they give; `repeats` finds the same request run more than once, and what that alone changes;
`verdict_page` is docs/verdict.md.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from leporid import initializers
from leporid.experiments import RunRecord
from leporid.html import fill_template
from reproduction.store import PackedResults
from reproduction.tables import DATA_SETS, measurements

METRIC, ALSO = "HR@10", "F1@10"
_WIDTH = 1.96
"""Standard errors on each side of a 95% interval."""
_REPEATED = ("initialisers", "losses", "architectures", "alpha", "neighbours")
"""Each of these groups has the paper's DLR2 with LEPORID initialisation among its runs."""


@dataclass(frozen=True)
class Comparison:
    """One number against another on one data set; all None where either was not run."""

    dataset: str
    what: str
    """Which records are compared."""
    seeds: tuple[int, int]
    values: tuple[float, float] | None = None
    difference: float | None = None
    error: float = 0.0
    """Standard error of the difference: users and seeds."""
    also: float | None = None
    """The difference in F1@10."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the difference."""
        if self.difference is None:
            return None
        return self.difference - _WIDTH * self.error, self.difference + _WIDTH * self.error

    @property
    def reading(self) -> str:
        """`above`, `below`, `level` (the interval holds zero) or `not run yet`."""
        if self.interval is None:
            return "not run yet"
        low, high = self.interval
        return "above" if low > 0 else "below" if high < 0 else "level"


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we say of it, and the comparisons behind both."""

    title: str
    paper: str
    sentence: str
    verdict: str
    every: bool
    """Whether one comparison below refutes the claim; else it speaks of a tendency."""
    command: str
    """The name that makes `python -m reproduction` run what is missing."""
    comparisons: tuple[Comparison, ...]

    @property
    def run(self) -> list[Comparison]:
        """The comparisons there are records for."""
        return [comparison for comparison in self.comparisons if comparison.difference is not None]

    @property
    def missing(self) -> list[str]:
        """The data sets on which something was not run."""
        gone = (c.dataset for c in self.comparisons if c.difference is None)
        return list(dict.fromkeys(gone))

    def computed(self, datasets: Collection[str] | None = None) -> str:
        """The verdict of the numbers, over all data sets or some."""
        asked = [c for c in self.comparisons if datasets is None or c.dataset in datasets]
        readings = [c.reading for c in asked if c.difference is not None]
        if not readings:
            return "not run yet" if asked else "-"
        if all(reading == "above" for reading in readings):
            return "holds"
        if "above" not in readings or (self.every and "below" in readings):
            return "does not hold"
        return "holds in part"

    @property
    def contradiction(self) -> str | None:
        """Where the written verdict is not that of the numbers."""
        if (computed := self.computed()) == self.verdict:
            return None
        return f"{self.title!r} is said to be {self.verdict!r}, the records say {computed!r}"


def evaluate_claims(
    root: str | Path, claims: Sequence[Mapping[str, Any]] | None = None
) -> list[Claim]:
    """Every claim of `claims.toml` (or of `claims`) on the records under `root`."""
    if claims is None:
        text = Path(__file__).with_name("claims.toml").read_text("utf-8")
        claims = tomllib.loads(text)["claims"]
    comparer = _Comparer(root)
    return [
        Claim(
            **{key: entry[key] for key in ("title", "paper", "sentence", "verdict", "command")},
            every=entry["rule"] == "every",
            comparisons=tuple(comparer.comparisons(entry["compare"])),
        )
        for entry in claims
    ]


def verdict_page(root: str | Path) -> str:
    """docs/verdict.md."""
    claims = evaluate_claims(root)
    others = {c.dataset for claim in claims for c in claim.comparisons} - set(DATA_SETS)
    columns = {"ML-1M": ["ml-1m-r3"], "Anime": ["anime-5k"], "other logs": sorted(others)}
    filters = {"signed": lambda value: f"{value:+.4f}"}
    again = repeats(root, *DATA_SETS)
    values: dict[str, Any] = {"claims": claims, "columns": columns, "repeats": again}
    values["run_to_run"] = run_to_run(again)
    return fill_template("reproduction", "verdict.md", filters, **values)


@dataclass(frozen=True)
class Repeats:
    """Runs that differ in nothing but when they were made."""

    dataset: str
    model: str
    seed: int
    values: dict[str, float]
    """HR@10 by the group of runs a run belongs to."""

    @property
    def deviation(self) -> float:
        """Standard deviation of HR@10 from run to run."""
        return float(np.std(list(self.values.values()), ddof=1))


def repeats(root: str | Path, *datasets: str) -> list[Repeats]:
    """Every request that was run more than once, by data set and seed."""
    same: dict[tuple[str, str, int, str], dict[str, float]] = defaultdict(dict)
    for dataset in datasets:
        for record in PackedResults(root).records(dataset, _REPEATED):
            key = dataset, record.model, record.seed, _request(record)
            same[key][record.experiment] = record.metrics["HR@10"]
    return [Repeats(*key[:3], values) for key, values in sorted(same.items()) if len(values) > 1]


def run_to_run(found: list[Repeats]) -> float:
    """The standard deviation over the repetitions of a request, pooled; 0 where none is known."""
    return float(np.sqrt(np.mean([one.deviation**2 for one in found]))) if found else 0.0


def _request(record: RunRecord) -> str:
    """The initialiser, its settings and those of the model, defaults filled in."""
    given = record.extra["cell"]["init_settings"]
    init = initializers.get(record.init).config_class(**given).to_dict() if record.init else {}
    return json.dumps([record.init, record.config, init], sort_keys=True)


class _Comparer:
    """Comparisons from the records of one folder."""

    def __init__(self, root: str | Path) -> None:
        self.root, self.results = root, PackedResults(root)
        self._records = cache(lambda data, group: tuple(self.results.records(data, [group])))
        self.repeats = repeats(root, *DATA_SETS)

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
        means = [_mean(side, METRIC) for side in sides]
        also: float | None = _mean(sides[0], ALSO) - _mean(sides[1], ALSO)
        tail = [_mean(side, METRIC, tail=True) for side in sides]
        error = math.hypot(self._user_error(sides), *self._seed_errors(sides, tail=False))
        # Records keep means of tail users only: a quarter of the users, twice the error.
        tail_error = math.hypot(2 * self._user_error(sides), *self._seed_errors(sides, tail=True))
        if measure == "tail users":
            also = _mean(sides[0], ALSO, tail=True) - _mean(sides[1], ALSO, tail=True)
            means, error = tail, tail_error
        elif measure == "tail users' ratio against all users'":
            error = math.hypot(error / means[1], tail_error / tail[1])
            means = [tail[0] / tail[1], means[0] / means[1]]
            also = None
        pair = means[0], means[1]
        return Comparison(dataset, what, seeds, pair, pair[0] - pair[1], error, also)

    def _seconds(self, dataset: str, first: Mapping[str, Any]) -> Comparison:
        """Seconds of runs against the measured ones of our own graph and eigenvectors."""
        rows, runs = measurements(self.root, dataset).get("time_cost"), self._select(dataset, first)
        what = f"seconds of {_label(first)} - of the user graph and its eigenvectors"
        if not rows or not runs:
            return Comparison(dataset, what, (len(runs), 0))
        ours = sum(row["seconds"] for row in rows if "scipy" not in row["step"])
        theirs = sum(run.seconds for run in runs) / len(runs)
        return Comparison(dataset, what, (len(runs), 1), (theirs, ours), theirs - ours)

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

    def _user_error(self, sides: Sequence[Sequence[RunRecord]]) -> float:
        """Of the mean over users of the paired difference, each user averaged over seeds."""
        rates = []
        for side in sides:
            kept = [self.results.outcomes(record.key) for record in side]
            rates.append([outcomes.per_user("HR@10") for outcomes in kept if outcomes is not None])
        if not all(rates) or len({len(rate) for side in rates for rate in side}) > 1:
            # Without outcomes of the same users: the runs' own intervals, as if independent.
            return math.hypot(*(_own_error(side) for side in sides))
        gap = np.mean(rates[0], axis=0) - np.mean(rates[1], axis=0)
        return float(gap.std(ddof=1) / math.sqrt(len(gap)))

    def _seed_errors(self, sides: Sequence[Sequence[RunRecord]], *, tail: bool) -> list[float]:
        """Of each mean over seeds. One seed has no deviation: it takes that of its model's runs on
        the same data set, or where all of them have one seed on another."""
        return [
            0.0 if side[0].init is None else self._deviation(side, tail) / math.sqrt(len(side))
            for side in sides
        ]

    def _deviation(self, side: Sequence[RunRecord], tail: bool) -> float:
        """Over seeds, and not less than from run to run."""
        least = run_to_run([one for one in self.repeats if one.model == side[0].model])
        if len(side) > 1:
            return max(_spread(side, tail), least)
        for dataset in (side[0].dataset, *DATA_SETS):
            groups: dict[tuple[str | None, ...], list[RunRecord]] = {}
            for record in self._records(dataset, side[0].experiment):
                if record.model == side[0].model:
                    key = (record.init, record.recipe, record.variant)
                    groups.setdefault(key, []).append(record)
            spreads = [_spread(runs, tail) ** 2 for runs in groups.values() if len(runs) > 1]
            if spreads:
                return max(math.sqrt(sum(spreads) / len(spreads)), least)
        return least


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


def _values(records: Sequence[RunRecord], metric: str, tail: bool = False) -> list[float]:
    return [(record.tail_metrics if tail else record.metrics)[metric] for record in records]


def _mean(records: Sequence[RunRecord], metric: str, *, tail: bool = False) -> float:
    return float(np.mean(_values(records, metric, tail)))


def _spread(records: Sequence[RunRecord], tail: bool) -> float:
    return float(np.std(_values(records, METRIC, tail), ddof=1))


def _own_error(records: Sequence[RunRecord]) -> float:
    low, high = records[0].extra["confidence_95"][METRIC][-2:]
    return float(high - low) / (2 * _WIDTH)

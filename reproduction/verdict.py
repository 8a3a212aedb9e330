"""The paper's claims evaluated on our records: numbers computed, sentences written.

`claims.toml` holds each claim with its sentence, its verdict and the comparisons behind it.
`evaluate_claims` makes the comparisons; `Claim.contradiction` says where a written verdict is not
what they give; `verdict_page` is docs/verdict.md.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import DataError
from leporid.evaluation import Comparison as Tested
from leporid.evaluation import MetricTable, compare, holm
from leporid.foundation import fill_template
from leporid.runs import RunRecord
from reproduction.activity import TAIL, read_quartiles
from reproduction.remarks import remark_values
from reproduction.store import PackedResults
from reproduction.tables import DATA_NAMES, DATA_SETS, paper_rows

METRIC = "HR@10"
TAIL_USERS = "tail users"
TAIL_RATIO = "tail users' ratio against all users'"
WORDS = ("better", "equivalent", "inconclusive", "worse")
"""In the order of the page."""
VERDICTS = ("confirmed", "confirmed in part", "not confirmed", "undecided", "not run yet")
_SEEDS = 3
"""A model that is trained needs this many runs to count."""
_TABLES = {"losses": ["table6"], "architectures": ["table7"]}
"""Where the paper prints the runs of an experiment; others are in tables 3 and 4."""
_SUPPORT: dict[str, tuple[set[str], set[str]]] = {
    "better": ({"better"}, {"worse"}),
    "not worse": ({"better", "equivalent"}, {"worse"}),
    "equivalent": ({"equivalent"}, {"better", "worse"}),
}
"""The words that support what the paper expects of the first value, and those that contradict."""


@dataclass(frozen=True)
class Comparison:
    """One number against another on one data set; `tested` is None where either was not run."""

    dataset: str
    what: str
    """Which records are compared."""
    pair: str
    """The two sides as a reader knows them."""
    seeds: tuple[int, int]
    tested: Tested | None = None
    counted: bool = True
    """Whether each trained side has three runs: fewer are shown, and decide nothing."""
    printed: float | None = None
    """The difference that the paper prints, as a share of its second value."""

    @property
    def word(self) -> str:
        """One of the four words, with p-values adjusted within the claim."""
        if self.tested is None:
            return "not run yet"
        return self.tested.outcome if self.counted else "too few seeds"

    @property
    def excludes_printed(self) -> bool:
        """Whether the interval leaves out the difference that the paper prints."""
        if self.tested is None or self.printed is None:
            return False
        printed = self.printed * self.tested.mean_b
        return not self.tested.low <= printed <= self.tested.high

    @property
    def misses_printed(self) -> bool:
        """Whether the paper prints a gain, and the interval ends below it."""
        return self.excludes_printed and self.percent < 100 * (self.printed or 0)

    @property
    def percent(self) -> float:
        """The difference in percent of the second value."""
        return self._share(self._known.difference)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval in percent of the second value."""
        return self._share(self._known.low), self._share(self._known.high)

    @property
    def _known(self) -> Tested:
        assert self.tested is not None
        return self.tested

    def _share(self, value: float) -> float:
        return 100 * value / self._known.mean_b


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we say of it, and the comparisons behind both."""

    id: str
    title: str
    paper: str
    sentence: str
    verdict: str
    command: str
    """The name that makes `python -m reproduction` run what is missing."""
    comparisons: tuple[Comparison, ...]
    expects: str = "better"
    """What the paper says of the first value: a key of `_SUPPORT`."""

    @property
    def run(self) -> list[Comparison]:
        """The comparisons there are records for."""
        return [comparison for comparison in self.comparisons if comparison.tested is not None]

    @property
    def counted(self) -> list[Comparison]:
        """Those that have enough runs."""
        return [comparison for comparison in self.run if comparison.counted]

    @property
    def main(self) -> Comparison | None:
        """The comparison of the short table: the first one, on the paper's data where it is run."""
        order = [*DATA_SETS, *(c.dataset for c in self.comparisons)]
        return min(self.counted, key=lambda c: order.index(c.dataset), default=None)

    @property
    def words(self) -> str:
        """How often each of `WORDS` is the outcome: '2 better, 1 worse'."""
        counts = Counter(comparison.word for comparison in self.counted)
        return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])

    @property
    def missing(self) -> list[str]:
        """The data sets on which something was not run."""
        gone = (c.dataset for c in self.comparisons if c.tested is None)
        return list(dict.fromkeys(gone))

    @property
    def data_sets(self) -> list[str]:
        """The data sets with comparisons that count."""
        return list(dict.fromkeys(c.dataset for c in self.counted))

    def computed(self, datasets: Collection[str] | None = None) -> str:
        """The verdict of the numbers, over all data sets or some."""
        asked = [c for c in self.comparisons if datasets is None or c.dataset in datasets]
        if not any(c.tested for c in asked):
            return "not run yet" if asked else "-"
        counted = [c for c in asked if c.tested and c.counted]
        words = [c.word for c in counted]
        supporting, contradicting = _SUPPORT[self.expects]
        support = sum(word in supporting for word in words)
        contradict = sum(word in contradicting for word in words)
        if counted and support == len(counted):
            return "confirmed"
        if support > contradict:
            return "confirmed in part"
        if contradict or "equivalent" in words or any(c.misses_printed for c in counted):
            return "not confirmed"
        return "undecided"

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
    comparer = _Comparer(root)
    words = ("id", "title", "paper", "sentence", "verdict", "command")
    return [
        Claim(
            **{key: entry[key] for key in words},
            comparisons=_adjusted(comparer.comparisons(entry["compare"])),
            expects=entry.get("expects", "better"),
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
    filters = {
        "signed": lambda value: f"{value:+.4f}",
        "percent": lambda value: f"{value:+.1f}%",
        "size": lambda value: f"{abs(value):.1f}% {'higher' if value >= 0 else 'lower'}",
        "data_name": lambda name: DATA_NAMES[name],
    }
    numbers = remark_values(root)
    remarks = [
        {**one, "sentence": one["sentence"].format(**numbers)} for one in read_claims()["remarks"]
    ]
    found = Counter(claim.computed() for claim in claims)
    verdicts = {name: found[name] for name in VERDICTS if found[name]}
    return fill_template(
        "reproduction",
        "verdict.md",
        filters,
        claims=claims,
        remarks=remarks,
        verdicts=verdicts,
        on_own_data=any(DATA_SETS[0] in claim.data_sets for claim in claims),
    )


class _Comparer:
    """Comparisons from the records of one folder."""

    def __init__(self, root: str | Path) -> None:
        self.results = PackedResults(root)
        self._quartiles = read_quartiles(root)
        self._records = cache(lambda data, group: tuple(self.results.records(data, [group])))

    def comparisons(self, entries: Sequence[Mapping[str, Any]]) -> Iterable[Comparison]:
        for entry in entries:
            seconds, measure = entry["second"], entry.get("measure", METRIC)
            seconds = seconds if isinstance(seconds, list) else [seconds]
            for dataset, first in product(entry["data"], _each(entry["first"])):
                for second in (one for named in seconds for one in _each({**first, **named})):
                    yield self._compare(dataset, first, second, measure)

    def _compare(
        self, dataset: str, first: Mapping[str, Any], second: Mapping[str, Any], measure: str
    ) -> Comparison:
        where = [str(side["experiment"]).strip("[]").replace("'", "") for side in (first, second)]
        what = f"{where[0]}: {_label(first)} - " + (f"{where[1]}: " if len({*where}) > 1 else "")
        what += _label(second)
        pair = _pair(first, second)
        sides = [self._select(dataset, chosen) for chosen in (first, second)]
        seeds = len(sides[0]), len(sides[1])
        if measure != METRIC:
            what += f", {measure}"
            pair += f", {measure}"
        if not all(sides):
            return Comparison(dataset, what, pair, seeds)
        counted = all(side[0].init is None or len(side) >= _SEEDS for side in sides)
        printed = _printed(dataset, first, second, measure)
        tested = self._tested(sides, measure)
        return Comparison(dataset, what, pair, seeds, tested, counted, printed)

    def _tested(self, sides: Sequence[Sequence[RunRecord]], measure: str) -> Tested:
        """The comparison of the users' hits: of all, of tail users, or of the ratios of both."""
        tables = [self._tables(side) for side in sides]
        if measure == METRIC:
            return compare(tables[0], tables[1], METRIC)
        is_tail = self._tail(sides[0][0])
        hits = [{seed: t.per_user(METRIC) for seed, t in side.items()} for side in tables]
        if measure == TAIL_USERS:
            tail = [{seed: values[is_tail] for seed, values in side.items()} for side in hits]
            return compare(tail[0], tail[1], METRIC)
        return compare(
            ratio_by_user(hits[0], hits[1], is_tail),
            ratio_by_user(hits[0], hits[1], np.ones_like(is_tail)),
            METRIC,
        )

    def _tail(self, record: RunRecord) -> NDArray[np.bool_]:
        digest = str(record.extra.get("data_digest"))
        if digest not in self._quartiles:
            raise DataError(
                f"{record.dataset} has no quartiles of activity under {digest}: add them with "
                f"`python -m reproduction activity --dataset {record.dataset} --source FILE`"
            )
        return np.asarray(self._quartiles[digest] == TAIL)

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
        """Hits per user by seed."""
        kept = {record.seed: self.results.outcomes(record.key) for record in side}
        if None in kept.values() or len(kept) < len(side):
            raise DataError(
                f"{side[0].key}: each run behind a claim needs a seed of its own and the hits of "
                "its users"
            )
        return {seed: table for seed, table in kept.items() if table is not None}


def ratio_by_user(
    first: Mapping[int, NDArray[np.float64]],
    second: Mapping[int, NDArray[np.float64]],
    members: NDArray[np.bool_],
) -> dict[int, NDArray[np.float64]]:
    """Values per user whose mean is the ratio of two means over some users (delta method).

    The ratio is linear in both means to the first order, so each user adds their own share of it.
    Both sides need the same seeds.
    """
    a, b = (np.stack([side[seed][members] for seed in sorted(first)]) for side in (first, second))
    ratio = a.mean() / b.mean()
    share = (a - ratio * b) / b.mean() * (len(members) / members.sum())
    values = np.full((len(a), len(members)), ratio)
    values[:, members] += share
    return dict(zip(sorted(first), values, strict=True))


def _printed(
    dataset: str, first: Mapping[str, Any], second: Mapping[str, Any], measure: str
) -> float | None:
    """The difference of the counterparts in the paper's tables, as a share of the second."""
    tables = _TABLES.get(str(first["experiment"]), ["table3", "table4"])
    if measure == TAIL_USERS:
        tables = ["table5"]
    if measure == TAIL_RATIO or first.get("recipe", "paper") != "paper":
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


_KNOWN_AS = {
    "toppop": "most popular items",
    "userknn": "UserKNN",
    "itemknn": "ItemKNN",
    "p3alpha": "P3alpha",
    "rp3beta": "RP3beta",
    "leporid": "LEPORID",
    "random": "random",
    "graph_bert": "Graph-Bert",
    "netmf": "NetMF",
    "node2vec": "node2vec",
    "lightgcn": "LightGCN",
    "sasrec": "SASRec",
    "infer-S-loss-G+S": "both losses",
    "infer-S-loss-S": "the discriminative loss alone",
    "resnet": "ResNet",
    "revnet": "RevNet",
    "only_conv": "convolutions alone",
    "no_conv": "fully connected layers",
}
"""Names of models, initialisations and variants; others are written in capitals."""


def _pair(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """'NCF: LEPORID against random', 'ItemKNN against SLIM'."""
    sides = [_side(first), _side(second)]
    if first["model"] == second["model"]:
        return f"{_known_as(first['model'])}: {sides[0][1]} against {sides[1][1]}"
    return " against ".join(f"{model} from {start}" if start else model for model, start in sides)


def _side(chosen: Mapping[str, Any]) -> tuple[str, str]:
    start = str(chosen.get("variant") or chosen.get("init") or "")
    return _known_as(chosen["model"]), _known_as(start)


def _known_as(name: str) -> str:
    """The name of a setting ('alpha-0.7', 'k-200') is written with '='."""
    if name.startswith(("alpha-", "k-")):
        return name.replace("-", " = ").replace("k =", "K =")
    return _KNOWN_AS.get(name, name.upper())


def _label(chosen: Mapping[str, Any]) -> str:
    parts = [chosen["model"], chosen.get("variant") or chosen.get("init") or ""]
    recipe = chosen.get("recipe", "paper")
    parts += [f"({recipe})"] if recipe not in ("paper", "") else []
    return " ".join(part for part in parts if part)

"""The leaderboard: every model on every log of an experiment, from the records there are.

`read_leaderboard` finds the records of a grid and, beside them, those of the tuned classical models
(the experiment `baselines`) and of networks as `leporid train` trains them (`default`). Everything
else is computed from that: ranks over the logs, the gain of LEPORID over other initialisations,
and `leaderboard_page`, which is docs/leaderboard.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare

from leporid.evaluation import Comparison, holm
from leporid.foundation import fill_template, read_json
from leporid.runs import ExperimentSpec, RunRecord, read_experiment
from reproduction.gains import have_seen, paired_gains
from reproduction.ranks import Ranking, critical_difference, mean_ranks
from reproduction.store import PackedResults
from reproduction.tuned_baselines import BASELINES

FAMILIES = {
    "popularity": ("toppop",),
    "neighbours, linear": ("userknn", "itemknn", "slim", "ease"),
    "random walks, filters": ("p3alpha", "rp3beta", "gfcf", "turbocf"),
    "transitions": ("transitions",),
    "factors": ("ials", "bpr", "ncf"),
    "graph networks": ("ngcf", "dgcf", "lightgcn"),
    "sequences": ("hgn", "sasrec", "hgn as it comes", "sasrec as it comes"),
    "DLR2": ("dlr2", "dlr2 as it comes"),
}
"""Models by what they are, simplest first; those that a grid does not train are the baselines."""
METRIC, ALSO = "NDCG@10", "HR@10"
"""Rows are sorted and ranked by the first; the second is shown beside it."""
BASES = ("random", "svd", "le", "bpr", "netmf", "node2vec", "graph_bert")
"""The initialisers LEPORID is compared with."""
DEFAULT, AS_IT_COMES = "default", " as it comes"
"""The grid of networks with their linear part, and what their rows end in; the rows without it are
networks alone, with the recipes of version 0.7.0."""
DLR2, SASREC = (f"dlr2{AS_IT_COMES}", "leporid"), (f"sasrec{AS_IT_COMES}", "leporid")
"""Rows of that grid."""
CLASSICAL = {m for name in list(FAMILIES)[:4] for m in FAMILIES[name]} - {"bpr", "ncf"}
RIVALS: tuple[tuple[str, str | None], ...] = (
    SASREC,
    ("sasrec", "leporid"),
    ("ease", None),
    ("itemknn", None),
)
"""The rows DLR2 as it comes is compared with, beside the best classical model on validation."""
_MEASURED = "training-parts.json"
"""Sizes of training parts by the digest of their split, for records that do not hold them."""


@dataclass(frozen=True)
class Row:
    """A model and its initialiser on one log: the runs of the grid, and those there are."""

    model: str
    init: str | None
    asked: int
    """How many runs the grid has, one per seed."""
    records: tuple[RunRecord, ...]

    @property
    def key(self) -> tuple[str, str | None]:
        """What makes it the same row on another log."""
        return self.model, self.init

    @property
    def name(self) -> str:
        """As printed: 'sasrec from svd', 'ease'."""
        return f"{self.model} from {self.init}" if self.init else self.model

    def mean(self, metric: str, part: str = "metrics") -> float:
        """Over the seeds; NaN where a record has no such metric."""
        values = [getattr(record, part).get(metric, math.nan) for record in self.records]
        return float(np.mean(values))

    def shown(self, metric: str) -> str:
        """The mean, and the standard deviation over seeds where there are several."""
        values = [record.metrics[metric] for record in self.records]
        spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
        return f"{np.mean(values):.4f}{spread}"

    @property
    def seeds(self) -> str:
        """How many runs it has; of how many where some are missing."""
        has = len(self.records)
        return str(has) if has >= self.asked else f"{has} of {self.asked}"

    @property
    def seconds(self) -> float:
        """Of a fit, mean over the seeds."""
        return float(np.mean([record.seconds for record in self.records]))

    @property
    def device(self) -> str:
        """On which it was fitted."""
        return " / ".join(sorted({record.device for record in self.records}))

    @property
    def history(self) -> str:
        """The part of each user's history that it was given when it was tested."""
        return have_seen(self.records)

    @property
    def tuning(self) -> str:
        """How its settings were found."""
        first = self.records[0]
        if not first.config:
            return "it has none"
        trials = first.extra.get("tuning", {}).get("trials")
        if trials:
            return f"{trials} trials"
        return f"recipe `{first.recipe}`" if first.recipe else "defaults"


@dataclass(frozen=True)
class Log:
    """One log of the leaderboard."""

    spec: ExperimentSpec
    rows: tuple[Row, ...]
    train: Mapping[str, Any]
    """Users, items, interactions and density of the training part; empty where not recorded."""
    left_out: int
    """Records that belong to other cells than the file's, or to other data."""

    @property
    def name(self) -> str:
        """The name its records are filed under."""
        return self.spec.dataset

    @property
    def run(self) -> list[Row]:
        """The rows there are records for, best first."""
        found = (row for row in self.rows if row.records)
        return sorted(found, key=lambda row: -row.mean(METRIC))

    def row(self, model: str, init: str | None) -> Row | None:
        """The row of a model and its initialiser, if it was run."""
        return next((row for row in self.run if row.key == (model, init)), None)

    @property
    def lacking(self) -> list[Row]:
        """The rows that lack runs."""
        return [row for row in self.rows if len(row.records) < row.asked]

    @property
    def missing(self) -> list[str]:
        """For each model what was not run: 'dlr2 from svd, le (1 of 3 seeds)'."""
        inits: dict[str, list[str]] = {}
        for row in self.lacking:
            part = f" ({row.seeds} seeds)" if row.records else ""
            inits.setdefault(row.model, []).extend([row.init + part] if row.init else [])
        return [f"{m} from {', '.join(of)}" if of else m for m, of in inits.items()]

    def commands(self, experiment: str | Path) -> list[str]:
        """What runs it; FOLDER is where the logs lie."""
        spec, lines = self.spec, []
        if any(row.model in spec.models for row in self.lacking):
            file = f"reproduction/grids/{Path(experiment).name}"
            lines.append(f"python -m reproduction run --source {file} --data FOLDER")
        if classical := [row.model for row in self.lacking if row.model not in spec.models]:
            options = {"dataset": spec.dataset, "core": spec.core, "protocol": spec.protocol}
            options |= {} if spec.min_rating is None else {"min-rating": spec.min_rating}
            options |= {} if spec.source is None else {"source": f"FOLDER/{spec.source}"}
            options |= {"metric": spec.metric, "seeds": 0, "only": " ".join(classical)}
            words = (f"--{name} {value}" for name, value in options.items())
            lines.append(f"python -m reproduction tune-classical {' '.join(words)}")
        return lines


@dataclass(frozen=True)
class Difference:
    """NDCG@10 of one row against another's on one log, p-values adjusted within its family."""

    log: Log
    first: Row
    second: Row
    gain: Comparison
    family: str
    """What is compared: LEPORID with one other initialiser, or DLR2 with one rival."""

    @property
    def same_model(self) -> bool:
        """Whether the rows differ in the initialiser alone."""
        return self.first.model == self.second.model


def read_leaderboard(experiment: str | Path, root: str | Path) -> list[Log]:
    """The logs of an experiment file, with what there are records of under `root`."""
    results = PackedResults(root)
    path = Path(root) / _MEASURED
    measured = read_json(path) if path.is_file() else {}
    logs = []
    for spec in read_experiment(experiment):
        cells = {cell.key: cell for cell in spec.cells() if cell.variant is None}
        asked = Counter((cell.model, cell.init) for cell in cells.values())
        every = results.records(spec.dataset, [spec.name, BASELINES, DEFAULT])
        own = [r for r in every if r.key in cells or r.experiment in (BASELINES, DEFAULT)]
        digests = Counter(str(record.extra.get("data_digest")) for record in own)
        digest = digests.most_common(1)[0][0] if digests else None
        kept = [r for r in own if str(r.extra.get("data_digest")) == digest]
        found: dict[tuple[str, str | None], list[RunRecord]] = {}
        for record in kept:
            ending = AS_IT_COMES if record.experiment == DEFAULT else ""
            found.setdefault((record.model + ending, record.init), []).append(record)
        listed = (m for models in FAMILIES.values() for m in models if AS_IT_COMES not in m)
        runs: dict[tuple[str, str | None], int] = dict(asked)
        runs |= {(m, None): 1 for m in listed if m not in spec.models}
        runs |= {key: len(own) for key, own in found.items() if key[0].endswith(AS_IT_COMES)}
        rows = tuple(Row(*key, n, tuple(found.get(key, ()))) for key, n in runs.items())
        sizes = next((r.extra["train"] for r in kept if "train" in r.extra), None)
        by_name = {part["dataset"]: part for part in measured.values()} if digest is None else {}
        train = sizes or measured.get(digest) or by_name.get(spec.dataset) or {}
        logs.append(Log(spec, rows, train, len(every) - len(kept)))
    return logs


def rank_rows(
    logs: Sequence[Log],
    title: str,
    *,
    model: str | None = None,
    inits: Sequence[str | None] | None = None,
) -> Ranking | None:
    """Rows (of a model, or of some initialisers) on the logs that have most of them.

    None where there are fewer than two of either.
    """
    tables = [
        {
            row.key: row
            for row in log.run
            if model in (None, row.model) and (inits is None or row.init in inits)
        }
        for log in logs
    ]
    most = max(map(len, tables), default=0)
    found = [(log.name, t) for log, t in zip(logs, tables, strict=True) if t and len(t) == most]
    keys = [key for key in (found[0][1] if found else ()) if all(key in t for _, t in found)]
    if len(found) < 2 or len(keys) < 2:
        return None
    values, other = (
        np.array([[table[key].mean(metric) for key in keys] for _, table in found])
        for metric in (METRIC, ALSO)
    )
    ranks, also = mean_ranks(values), mean_ranks(other)
    order = np.argsort(ranks, kind="stable")
    p = float(friedmanchisquare(*values.T).pvalue) if len(keys) > 2 else None
    return Ranking(
        title,
        [name for name, _ in found],
        [found[0][1][keys[index]].name for index in order],
        ranks[order],
        also[order],
        critical_difference(len(keys), len(found)),
        p,
    )


def rankings(logs: Sequence[Log]) -> list[Ranking]:
    """All rows; each model once (with LEPORID); the initialisers of models that have several."""
    found = [rank_rows(logs, "All rows")]
    found += [rank_rows(logs, "Models", inits=(None, "leporid"))]
    inits = Counter(model for model, init in {r.key for log in logs for r in log.rows} if init)
    for model in sorted(model for model, count in inits.items() if count > 2):
        found += [rank_rows(logs, f"Initialisers of {model}", model=model)]
    return [ranking for ranking in found if ranking]


def differences(logs: Sequence[Log], root: str | Path) -> list[Difference]:
    """LEPORID against other initialisers of each model, and DLR2 against rivals, log by log."""
    compared: list[Difference] = []
    for log in logs:
        rows = [
            (log.row(model, "leporid"), log.row(model, base), f"initialiser {base}")
            for base in BASES
            for model in log.spec.models
        ]
        ours = log.row(*DLR2) or log.row("dlr2", "leporid")
        others = {row.name: row for rival in RIVALS if (row := log.row(*rival))}
        if best := best_classical(log):
            others["best classical model"] = best
        rows += [(ours, row, name) for name, row in others.items()]
        pairs = [(first, second, name) for first, second, name in rows if first and second]
        gains = paired_gains([(a.records, b.records) for a, b, _ in pairs], root, METRIC)
        compared += [
            Difference(log, first, second, gain, name)
            for (first, second, name), gain in zip(pairs, gains, strict=True)
            if gain
        ]
    adjusted: dict[int, Comparison] = {}
    for family in {difference.family for difference in compared}:
        places = [i for i, difference in enumerate(compared) if difference.family == family]
        adjusted |= dict(zip(places, holm(compared[i].gain for i in places), strict=True))
    return [replace(difference, gain=adjusted[i]) for i, difference in enumerate(compared)]


def best_classical(log: Log) -> Row | None:
    """The tuned classical model that is best on validation."""
    found = [row for row in log.run if row.model in CLASSICAL]
    return max(found, key=lambda row: row.mean(METRIC, "valid_metrics"), default=None)


def best_of_families(logs: Sequence[Log]) -> list[dict[str, Any]]:
    """For each log its sizes and the row of each family that is best on validation, or None.

    † marks rows that were given the training part alone when they were tested.
    """
    rows = []
    for log in logs:
        best: dict[str, dict[str, Any] | None] = {}
        for family, models in FAMILIES.items():
            found = [row for row in log.run if row.model in models]
            on_valid = [np.nan_to_num(row.mean(METRIC, "valid_metrics")) for row in found]
            best[family] = None
            if found:
                row = found[int(np.argmax(on_valid))]
                name = f"{row.name} †" if row.history == "train only" else row.name
                best[family] = {"row": name, METRIC: row.mean(METRIC), ALSO: row.mean(ALSO)}
        sizes = {key: log.train.get(key) for key in ("users", "items", "density")}
        rows.append({"log": log.name, **sizes, "best": best})
    return rows


def short_table(logs: Sequence[Log]) -> str:
    """`best_of_families` as Markdown: the README's table."""
    lines = [
        f"| log | users x items, density | {' | '.join(FAMILIES)} |",
        "|---|---|" + "---|" * len(FAMILIES),
    ]
    for row in best_of_families(logs):
        about = "-"
        if row["users"]:
            about = f"{row['users']:,} x {row['items']:,}, {100 * row['density']:.2g}%"
        top = max((found[METRIC] for found in row["best"].values() if found), default=None)
        cells = [_best(found, top) for found in row["best"].values()]
        lines.append(f"| {row['log']} | {about} | {' | '.join(cells)} |")
    return "\n".join(lines)


def leaderboard_page(experiment: str | Path, root: str | Path) -> str:
    """docs/leaderboard.md."""
    logs = read_leaderboard(experiment, root)
    compared = differences(logs, root)
    values: dict[str, Any] = {
        "logs": logs,
        "experiment": experiment,
        "short": short_table(logs),
        "rankings": rankings(logs),
        "inits": [d for d in compared if d.same_model],
        "rivals": [d for d in compared if not d.same_model],
        "bases": BASES,
        "words": ("worse", "better", "equivalent", "inconclusive"),
    }
    filters = {
        "signed": lambda value: f"{value:+.4f}",
        "plain": lambda value: "-" if math.isnan(value) else f"{value:.4f}",
    }
    return fill_template("reproduction", "leaderboard.md", filters, **values)


def _best(cell: Mapping[str, Any] | None, top: float | None) -> str:
    if cell is None:
        return "not run yet"
    numbers = f"{cell[METRIC]:.4f} / {cell[ALSO]:.4f}"
    return f"{f'**{numbers}**' if cell[METRIC] == top else numbers} {cell['row']}"

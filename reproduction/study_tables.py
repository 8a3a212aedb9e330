"""The study's records: brought into `results/`, compared, and as tables of docs/initialisation.md.

Comparisons need all five seeds on both sides; each hypothesis of the study is one family.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leporid.evaluation import Comparison, MetricTable, compare, holm
from leporid.runs import RunRecord
from reproduction.activity import add_quartiles, outcomes_of_nothing, read_quartiles, unpacked
from reproduction.store import PackedResults
from reproduction.study_cells import EXPERIMENT, STUDY, split_of

TRAINED = ("sasrec general", "lightgcn general", "dlr2 general", "dlr2 paper")
OUTCOMES = ("better", "equivalent", "inconclusive", "worse")
FROZEN = ("two_tower general", "sasrec general frozen")
LOGS = tuple(log for log in STUDY["logs"] if "share" not in STUDY["logs"][log])


def add_records(cells: Path, root: Path) -> int:
    """Put the cells of a file of the runner into the results under `root`; how many."""
    results = PackedResults(root)
    lines = [json.loads(line) for line in cells.read_text(encoding="utf-8").splitlines()]
    users = {}
    for log in dict.fromkeys(line["dataset"] for line in lines):
        users[log] = outcomes_of_nothing(split_of(log)).hit_columns()
        add_quartiles(root, log, split_of(log))
    for line in lines:
        columns = users[line["dataset"]]
        extra = line["extra"]
        mask = unpacked(extra.pop("hits"))
        hits = MetricTable.from_hits(columns["user"], mask, columns["relevant"])
        extra["curve"] = [[step, round(m, 5), round(s, 1)] for step, m, s in extra["curve"]]
        extra["cell"] = {"variant": extra.pop("variant") or None}
        results.add(RunRecord.from_dict(line), hits)
    results.pack()
    return len(lines)


@dataclass(frozen=True)
class Group:
    """The runs of one model and initialisation on one log, by seed."""

    log: str
    kind: str
    init: str
    runs: dict[int, RunRecord]

    def mean(self, metric: str = "NDCG@10", *, tail: bool = False) -> float:
        values = [(r.tail_metrics if tail else r.metrics)[metric] for r in self.runs.values()]
        return float(np.mean(values))

    def best_step(self) -> float:
        return float(np.mean([r.extra["training"]["best_step"] for r in self.runs.values()]))


class Study:
    """The records of the study under `root`."""

    def __init__(self, root: Path) -> None:
        self.results = PackedResults(root)
        self.quartiles = read_quartiles(root)
        groups: dict[tuple[str, str, str], dict[int, RunRecord]] = {}
        for log in STUDY["logs"]:
            for record in self.results.records(log, [EXPERIMENT]):
                kind = f"{record.model} {record.recipe} {record.variant or ''}".strip()
                groups.setdefault((log, kind, str(record.init)), {})[record.seed] = record
        self.groups = {
            key: Group(*key, runs)
            for key, runs in groups.items()
            if len(runs) == len(STUDY["seeds"])
        }
        self.left_out = {
            f"{log}: {kind} from {init}": len(runs)
            for (log, kind, init), runs in groups.items()
            if len(runs) < len(STUDY["seeds"])
        }

    def places(self, kinds: Iterable[str], logs: Sequence[str] = LOGS) -> list[tuple[str, str]]:
        """Pairs of log and model that have complete runs."""
        there = {(log, kind) for log, kind, _ in self.groups}
        return [(log, kind) for kind in kinds for log in logs if (log, kind) in there]

    def compare(
        self, log: str, kind: str, first: str, second: str, *, metric: str = "NDCG@10",
        quartile: int = 0,
    ) -> Comparison | None:  # fmt: skip
        """Two initialisations on the same users and seeds; None where either is incomplete."""
        sides = [self.groups.get((log, kind, init)) for init in (first, second)]
        if sides[0] is None or sides[1] is None:
            return None
        a, b = ({s: self._values(r, metric, quartile) for s, r in g.runs.items()} for g in sides)  # type: ignore[union-attr]
        return compare(a, b, metric, name_a=first, name_b=second)

    def _values(self, run: RunRecord, metric: str, quartile: int) -> NDArray[np.float64]:
        outcomes = self.results.outcomes(run.key)
        assert outcomes is not None
        values = outcomes.per_user(metric)
        digest = run.extra["data_digest"]
        return values[self.quartiles[digest] == quartile] if quartile else values

    def family(
        self, places: Sequence[tuple[str, str]], pairs: Sequence[tuple[str, str]], **how: Any
    ) -> dict[tuple[str, str, str, str], Comparison]:
        """All comparisons of a hypothesis, adjusted together."""
        asked = [(log, kind, a, b) for log, kind in places for a, b in pairs]
        found = {key: self.compare(*key, **how) for key in asked}
        there = {key: one for key, one in found.items() if one is not None}
        return dict(zip(there, holm(there.values()), strict=True))

    def steps(
        self, places: Sequence[tuple[str, str]], inits: Sequence[str]
    ) -> dict[tuple[str, str, str], Comparison]:
        """Steps to 99% of the random run's best validation over those of that run, as logarithms.

        Only seeds whose run reaches it; `n_seeds` says how many of the five do.
        """
        found = {}
        for log, kind in places:
            base = self.groups.get((log, kind, "random"))
            for group in (self.groups.get((log, kind, init)) for init in inits):
                if base is None or group is None:
                    continue
                pairs = [steps_to(group.runs[s], base.runs[s]) for s in sorted(base.runs)]
                ratio = [math.log(a / b) for a, b in pairs if a is not None and b is not None]
                found[log, kind, group.init] = _t_test(ratio, group.init)
        return dict(zip(found, holm(found.values()), strict=True))


def steps_to(run: RunRecord, base: RunRecord) -> tuple[int | None, int | None]:
    """First validated step of `run`, and of `base`, with 99% of the best validation of `base`."""
    target = 0.99 * max(metric for _, metric, _ in base.extra["curve"])
    first, second = (
        next((step for step, metric, _ in one.extra["curve"] if metric >= target), None)
        for one in (run, base)
    )
    return first, second


def _t_test(values: Sequence[float], name: str) -> Comparison:
    """Whether the mean of some logarithms is zero."""
    n, mean = len(values), float(np.mean(values)) if values else math.nan
    error = float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.inf
    margin = error * float(stats.t.ppf(0.975, n - 1)) if n > 1 else math.inf
    p_value = 1.0
    if n > 1:
        p_value = 2 * float(stats.t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return Comparison(
        metric="log of the ratio of steps",
        name_a=name,
        name_b="random",
        mean_a=mean,
        mean_b=0.0,
        difference=mean,
        low=mean - margin,
        high=mean + margin,
        p_value=p_value,
        n_users=0,
        n_seeds=(n, n),
    )


def tables(root: Path) -> dict[str, str]:
    """The tables of docs/initialisation.md by name, as Markdown."""
    study = Study(root)
    return {
        "frozen": _frozen(study),
        "trained": _trained(study),
        "steps": _steps(study),
        "tail": _tail(study),
        "tenth": _tenth(study),
        "left out": _left_out(study),
    }


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _values(study: Study, log: str, kind: str) -> list[str]:
    """NDCG@10 of every initialisation."""
    groups = [study.groups.get((log, kind, init)) for init in STUDY["inits"]]
    return ["-" if group is None else f"{group.mean():.4f}".lstrip("0") for group in groups]


def _outcomes(found: dict[str, Comparison]) -> str:
    """'better: random, svd; inconclusive: le' of comparisons by the name of the other side."""
    words = {word: [b for b, one in found.items() if one.outcome == word] for word in OUTCOMES}
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in words.items() if names)


def _percent(one: Comparison) -> str:
    low, high = (100 * value / one.mean_b for value in (one.low, one.high))
    return f"{one.percent:+.1f} [{low:+.1f}, {high:+.1f}] {one.outcome}"


def _frozen(study: Study) -> str:
    """H1."""
    others = [init for init in STUDY["inits"] if init not in ("adapted", "shuffled")]
    places = study.places(FROZEN)
    family = study.family(places, [("adapted", other) for other in others])
    rows = []
    for log, kind in places:
        found = {b: one for (*place, _, b), one in family.items() if place == [log, kind]}
        rows.append([log, *_values(study, log, kind), _outcomes(found)])
    return _markdown(["log", *STUDY["inits"], "adapted against"], rows)


def _trained(study: Study) -> str:
    """H2, H3 and H7."""
    places = study.places(TRAINED)
    gains = study.family(places, [("adapted", "random")])
    order = study.family(places, [("leporid", "shuffled")])
    others = study.family(places, [("adapted", "leporid"), ("adapted", "svd")])
    rows = []
    for log, kind in places:
        found = {b: one for (*place, _, b), one in others.items() if place == [log, kind]}
        gain, shuffled = gains[log, kind, "adapted", "random"], None
        shuffled = order[log, kind, "leporid", "shuffled"].outcome
        row = [kind, log, *_values(study, log, kind), _percent(gain), shuffled, _outcomes(found)]
        rows.append(row)
    last = ["adapted over random, %", "leporid against shuffled", "adapted against"]
    return _markdown(["model", "log", *STUDY["inits"], *last], rows)


def _steps(study: Study) -> str:
    """H4."""
    places = study.places(TRAINED)
    found = study.steps(places, ["leporid", "adapted"])
    rows = []
    for log, kind in places:
        row = [kind, log, f"{study.groups[log, kind, 'random'].best_step():,.0f}"]
        for init in ("leporid", "adapted"):
            one = found[log, kind, init]
            ratio, low, high = (math.exp(x) for x in (one.difference, one.low, one.high))
            word = {"worse": "fewer", "better": "more"}.get(one.outcome, one.outcome)
            reached = "" if one.n_seeds[0] == 5 else f", {one.n_seeds[0]} of 5 reach it"
            row.append(f"{ratio:.2f} [{low:.2f}, {high:.2f}] {word}{reached}")
        rows.append(row)
    for init in ("leporid", "adapted"):
        ratios = [one.difference for (_, _, name), one in found.items() if name == init]
        rows.append(["geometric mean", init, "", f"{math.exp(np.mean(ratios)):.2f}", ""])
    return _markdown(["model", "log", "best step of random", "leporid", "adapted"], rows)


def _tail(study: Study) -> str:
    """H5, and what tail users and all others gain."""
    places = study.places(TRAINED)
    how: dict[str, Any] = {"metric": "HR@10", "quartile": 1}
    paper = study.family(study.places(["dlr2 paper"]), [("leporid", "le")], **how)
    rows = []
    for log, kind in places:
        quarters = [
            study.compare(log, kind, "adapted", "random", quartile=quarter) for quarter in (1, 4)
        ]
        row = [kind, log, *(_percent(one) for one in quarters if one is not None)]
        one = paper.get((log, kind, "leporid", "le"))
        row.append("" if one is None else f"{one.difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"
                   f" {one.outcome}")  # fmt: skip
        rows.append(row)
    header = ["model", "log", "tail users, NDCG@10, %", "most active quarter, %"]
    return _markdown([*header, "leporid - le, tail users, HR@10"], rows)


def _tenth(study: Study) -> str:
    """H6."""
    rows = []
    for kind, log in (("sasrec general", "ml-1m-r3"), ("lightgcn general", "ml-1m-r3"),
                      ("sasrec general", "beauty"), ("lightgcn general", "beauty")):  # fmt: skip
        small = f"{log}-tenth"
        values = _values(study, small, kind)
        found = {
            init: study.compare(small, kind, init, "random") for init in ("leporid", "adapted")
        }
        gains = ["-" if one is None else _percent(one) for one in found.values()]
        if any(value != "-" for value in values):
            rows.append([kind, small, *values, *gains])
    last = ["leporid over random, %", "adapted over random, %"]
    return _markdown(["model", "log", *STUDY["inits"], *last], rows)


def _left_out(study: Study) -> str:
    """What was begun and has fewer than five seeds."""
    return "\n".join(f"- {name}: {n} of 5 seeds" for name, n in study.left_out.items())

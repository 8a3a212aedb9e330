"""Which start should a model of one's own get: random, SVD, LE, LEPORID or LEPORID that adapts?

The plan is docs/own-model-study.md. It was written before the runs.

    python -m benchmarks.own_starts run --data FOLDER --out SCRATCH [--logs a,b] [--models c,d]
    python -m benchmarks.own_starts record --out SCRATCH
    python -m benchmarks.own_starts isolate --data FOLDER --out SCRATCH --logs a,b

`run` appends one row per training to SCRATCH/rows.jsonl and puts the values per user beside it; a
second call skips what is there. `record` compares the rows and writes benchmarks/records.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import leporid
from benchmarks.harness import write_record
from benchmarks.probe_vectors import load_log
from leporid.data import Split, split_by, synthesize
from leporid.embeddings import InitialEmbeddings, initial_embeddings
from leporid.evaluation import compare, holm

Score: TypeAlias = Callable[[NDArray[np.int32], Any], NDArray[np.float32]]

METRIC = "NDCG@10"
DIM = 64
CORES = {
    "lastfm": 1,
    "ml-100k": 5,
    "movietweetings-100k": 10,
    "steam-200k": 5,
    "beauty": 1,
    "toys": 1,
    "ml-1m": 20,
    "anime-5k": 20,
}
RANDOM_SPLIT = ("steam-200k", "anime-5k")
"""Data sets whose rows have no order."""
SEEDS = {log: 5 if log in ("lastfm", "ml-100k", "movietweetings-100k", "steam-200k") else 3
         for log in CORES}  # fmt: skip
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "random": ("random", {}),
    "svd": ("svd", {}),
    "svd, not z-scored": ("svd", {}),
    "le": ("le", {}),
    "leporid": ("leporid", {"alpha": 0.5, "row_norm": "as-is", "fold_in_users": False}),
    "adapted": ("leporid", {"alpha": "auto", "row_norm": "auto", "fold_in_users": False}),
    "folded": ("leporid", {"alpha": "auto", "row_norm": "auto", "fold_in_users": True}),
}
OURS = "folded"
"""The start that the others are compared with."""
PRINTED = {"folded": "adapted", "adapted": "adapted, own users"}
"""What a record calls a start that was given another name when its runs were made."""
ITERATIONS = 60
LOOKS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60)
"""Iterations of implicit after which validation is looked at."""
RATES = (0.01, 0.03, 0.1)
DEFAULT_RATE = 0.01
SHORT = 0.3
"""The mean length of rows that was found best on validation (`isolated`)."""
LENGTHS = (1.0, 0.3, 0.1, 0.03)
VALIDATION_USERS = 2000
TOWER_STEPS = 600
TOWER_SEEDS = 3
BPR_STEPS = 1500


@dataclass(frozen=True)
class Training:
    """One training, by what distinguishes it from the others."""

    log: str
    model: str
    start: str
    seed: int
    rate: float = 0.0
    length: float = 1.0
    """Mean length of the rows that implicit is given."""

    @property
    def key(self) -> str:
        """A name for files."""
        values = list(asdict(self).values())
        parts = values[:-1] if self.length == 1 else values
        return "_".join(map(str, parts)).replace(" ", "-").replace(",", "")


class Watch:
    """Validation over a training, its own processor time not counted."""

    def __init__(self, split: Split) -> None:
        self._split = _fewer_validation_users(split)
        self._began = time.process_time()
        self.curve: list[tuple[int, float, float]] = []
        """Step, seconds of training, validation NDCG@10."""
        self.best: Any = None
        """What `look` was given when validation was best."""

    def look(self, step: int, score: Score, keep: Callable[[], Any]) -> None:
        """Validate; `keep` copies what has to be kept if this is the best so far."""
        seconds = time.process_time() - self._began
        table = leporid.evaluate(score, self._split, at=(10,), part="valid", metrics=["NDCG"])
        value = table.mean()[METRIC]
        if not self.curve or value > max(v for _, _, v in self.curve):
            self.best = keep()
        self.curve.append((step, seconds, value))
        self._began = time.process_time() - seconds


@dataclass
class Data:
    """A split and the starts that were computed from its training part."""

    log: str
    split: Split
    starts: dict[str, InitialEmbeddings]
    seconds: dict[str, float]
    """Processor seconds of each start."""

    @classmethod
    def read(cls, folder: Path, log: str) -> Data:
        """Read a data set, split it and compute every start once."""
        interactions = load_log(folder, log, CORES[log])
        protocol = "random" if log in RANDOM_SPLIT else "temporal"
        split = split_by(interactions, protocol)
        starts, seconds = {}, {}
        for name, (method, settings) in STARTS.items():
            began = time.process_time()
            found = initial_embeddings(method, split.train, dim=DIM, cache=False, **settings)
            seconds[name] = time.process_time() - began
            assert found is not None
            starts[name] = _as_computed(found) if name.endswith("not z-scored") else found
        return cls(log, split, starts, seconds)

    def start(self, name: str, seed: int, size: float = DIM**-0.5) -> InitialEmbeddings:
        """The vectors of a start; random ones are drawn anew for each seed, with entries of size
        `size`."""
        if name != "random":
            return self.starts[name]
        options: dict[str, Any] = {"dim": DIM, "seed": seed, "deviation": size, "cache": False}
        found = initial_embeddings("random", self.split.train, **options)
        assert found is not None
        return found

    @cached_property
    def csr(self) -> Any:
        """The training part as implicit takes it."""
        return self.split.train.csr()


def _as_computed(vectors: InitialEmbeddings) -> InitialEmbeddings:
    """Vectors that are scaled to a root mean square of one as a whole, and not z-scored."""

    def one(side: Any) -> Any:
        known = {**side.provenance, "standardized": True}
        return replace(side, vectors=side.vectors / np.float32(side.size), provenance=known)

    return replace(vectors, users=one(vectors.users), items=one(vectors.items))


def _fewer_validation_users(split: Split) -> Split:
    users = np.unique(split.valid.user)
    if len(users) <= VALIDATION_USERS:
        return split
    sample = np.random.default_rng(0).choice(users, VALIDATION_USERS, replace=False)
    return replace(split, valid=split.valid.select(np.isin(split.valid.user, sample)))


def _products(users: NDArray[Any], items: NDArray[Any]) -> Score:
    return lambda rows, _: np.asarray(users[rows] @ items.T, dtype=np.float32)


def train_implicit(data: Data, training: Training) -> tuple[Watch, Score, Score]:
    """implicit's BPR; the scores after the last iteration and after the best one."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    from leporid.interop import to_implicit

    model = BayesianPersonalizedRanking(
        factors=DIM,
        iterations=ITERATIONS,
        learning_rate=training.rate,
        num_threads=1,
        random_state=training.seed,
    )
    if training.start != "own":
        scale = training.length / DIM**0.5
        to_implicit(model, data.start(training.start, training.seed), scale=scale)
    watch = Watch(data.split)

    def factors() -> tuple[NDArray[Any], NDArray[Any]]:
        return model.user_factors.copy(), model.item_factors.copy()

    def look(iteration: int, *_: Any) -> None:
        if iteration in LOOKS:
            watch.look(iteration, _products(model.user_factors, model.item_factors), factors)

    if training.start != "own":
        look(0)
    model.fit(data.csr, show_progress=False, callback=lambda i, *_: look(i + 1))
    return watch, _products(*factors()), _products(*watch.best)


def train_two_tower(data: Data, training: Training) -> tuple[Watch, Score, Score]:
    """The two-tower model of the examples."""
    import torch

    from examples.two_tower import TwoTower, train

    torch.set_num_threads(1)
    torch.manual_seed(training.seed)
    split = data.split.train
    model = TwoTower(split.n_users, split.n_items)
    if training.start != "random":
        vectors = data.start(training.start, training.seed)
        leporid.initialize(model, users="users", items="items", embeddings=vectors)
    users, items = (torch.from_numpy(side).long() for side in (split.user, split.item))
    watch = Watch(data.split)

    def tables() -> tuple[NDArray[Any], NDArray[Any]]:
        sides = (model.users.weight, model.items.weight)
        return tuple(side.detach().numpy().copy() for side in sides)  # type: ignore[return-value]

    def look(step: int, _: Any) -> None:
        watch.look(step, _products(*tables()), tables)

    train(model, users, items, TOWER_STEPS, look)
    return watch, _products(*tables()), _products(*watch.best)


def train_bpr(data: Data, training: Training) -> tuple[Watch, Score, Score]:
    """leporid's own `bpr` with its default settings and fewer steps."""
    from leporid import models

    chosen = models.get("bpr").recipe_settings("general", data.split.train)
    chosen |= {"steps": BPR_STEPS, "eval_every": 100, "eval_users": VALIDATION_USERS}
    model: Any = models.get("bpr")(**chosen)
    init = None
    if training.start != "own":
        init = data.start(training.start, training.seed, size=model.init_size)
    began = time.process_time()
    model.fit(data.split, seed=training.seed, init=init, progress=False)
    seconds = time.process_time() - began
    watch = Watch(data.split)
    rows = [row for row in model.history.rows if "metric" in row]
    last = rows[-1]["step"]
    watch.curve = [(row["step"], seconds * row["step"] / last, row["metric"]) for row in rows]
    return watch, model.score, model.score


MODELS: dict[str, Callable[[Data, Training], tuple[Watch, Score, Score]]] = {
    "implicit": train_implicit,
    "two-tower": train_two_tower,
    "bpr": train_bpr,
}


class Store:
    """Finished trainings: a row each, and the values per user in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "rows.jsonl"
        lines = self.path.read_text().splitlines() if self.path.is_file() else []
        self.rows: dict[Training, dict[str, Any]] = {}
        for line in lines:
            row = json.loads(line)
            self.rows[Training(**row["training"])] = row

    def add(self, training: Training, row: Mapping[str, Any]) -> None:
        """Append a row."""
        full = {"training": asdict(training), **row}
        self.rows[training] = full
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(full) + "\n")

    def values(self, training: Training, end: str) -> NDArray[np.float64]:
        """NDCG@10 of every test user, after the last or the best iteration."""
        loaded: NDArray[np.float64] = np.load(self.folder / f"{training.key}.{end}.npy")
        return loaded.astype(np.float64)


def run_one(data: Data, training: Training, store: Store) -> None:
    """Train, test after the last and after the best iteration, and keep the row."""
    if training in store.rows:
        return
    began = time.process_time()
    watch, last, best = MODELS[training.model](data, training)
    row: dict[str, Any] = {
        "curve": watch.curve,
        "start seconds": data.seconds.get(training.start, 0.0),
    }
    ends = {"best": best} if training.model != "implicit" else {"last": last, "best": best}
    if training.model == "implicit" and training.rate != DEFAULT_RATE:
        del ends["last"]
    for end, score in ends.items():
        table = leporid.evaluate(score, data.split, at=(10,), metrics=["NDCG", "HR"])
        row[end] = table.mean()[METRIC]
        row[f"{end}, tail HR@10"] = table.mean("tail-users")["HR@10"]
        values = table.columns(METRIC)[:, 0]
        np.save(store.folder / f"{training.key}.{end}.npy", values.astype(np.float32))
    store.add(training, row | {"cpu seconds": time.process_time() - began})
    top = max(v for _, _, v in watch.curve)
    print(f"{training.key}: valid {top:.4f} test {row['best']:.4f} "
          f"{time.process_time() - began:.1f}s", flush=True)  # fmt: skip


def trainings(log: str, model: str, store: Store) -> Iterator[Training]:
    """Every training of a model on a data set; the first seed chooses the rates of the others."""
    starts = starts_of(model)
    if model == "implicit/short":
        for seed in seeds_of(log, model):
            for start in STARTS:
                yield Training(log, "implicit", start, seed, DEFAULT_RATE, SHORT)
            yield Training(log, "implicit", "own", seed, DEFAULT_RATE)
        return
    for seed in seeds_of(log, model):
        for start in starts:
            for rate in _rates(log, model, start, seed, store):
                yield Training(log, model, start, seed, rate)


def starts_of(model: str) -> list[str]:
    """The starts of a model; the two-tower model draws a random one of this scale itself."""
    if model == "two-tower":
        return [start for start in STARTS if start != "adapted"]
    return [*STARTS, "own"]


def seeds_of(log: str, model: str) -> range:
    """The seeds of a cell; a softmax over all items is slow."""
    return range(1, (TOWER_SEEDS if model == "two-tower" else SEEDS[log]) + 1)


def _rates(log: str, model: str, start: str, seed: int, store: Store) -> tuple[float, ...]:
    if model != "implicit":
        return (0.0,)
    if seed == 1:
        return RATES
    return tuple(dict.fromkeys((DEFAULT_RATE, tuned_rate(log, start, store))))


def tuned_rate(log: str, start: str, store: Store) -> float:
    """implicit's rate for a start: the best on validation with the first seed."""

    def valid(rate: float) -> float:
        row = store.rows[Training(log, "implicit", start, 1, rate)]
        return max(value for _, _, value in row["curve"])

    return max(RATES, key=valid)


def run(given: argparse.Namespace) -> None:
    """Run what is missing, data set by data set."""
    warnings.simplefilter("ignore")
    store = Store(given.out)
    small = synthesize(300, 200, 6000, seed=0)
    for method, settings in STARTS.values():  # what the first call compiles is part of no time
        initial_embeddings(method, small, dim=DIM, cache=False, **settings)
    for log in given.logs.split(","):
        data = Data.read(given.data, log)
        for model in given.models.split(","):
            for training in trainings(log, model, store):
                run_one(data, training, store)


@dataclass(frozen=True)
class View:
    """One row of the report: a model in one way of using it."""

    name: str
    model: str
    end: str
    """'last' or 'best' iteration."""
    length: float = 1.0
    tuned: bool = False

    def rate(self, log: str, start: str, store: Store) -> float:
        """The rate that this view takes for a start."""
        if self.model != "implicit":
            return 0.0
        return tuned_rate(log, start, store) if self.tuned else DEFAULT_RATE


VIEWS = (
    View("implicit's BPR, 60 iterations", "implicit", "last", SHORT),
    View("implicit's BPR, best iteration", "implicit", "best", SHORT),
    View("implicit's BPR, rows of length 1, 60 iterations", "implicit", "last"),
    View("implicit's BPR, rows of length 1, tuned rate", "implicit", "best", tuned=True),
    View("two-tower model", "two-tower", "best"),
    View("leporid's bpr", "bpr", "best"),
)


@dataclass
class Cell:
    """A model on a data set: every start with its seeds."""

    view: View
    log: str
    runs: dict[str, list[Training]]

    @classmethod
    def read(cls, view: View, log: str, store: Store) -> Cell | None:
        """Read a cell, or None where seeds are missing."""
        runs = {}
        starts = starts_of(view.model)
        for start in starts:
            if view.tuned and Training(log, view.model, start, 1, RATES[-1]) not in store.rows:
                return None
            rate, length = view.rate(log, start, store), 1.0 if start == "own" else view.length
            runs[start] = [
                Training(log, view.model, start, seed, rate, length)
                for seed in seeds_of(log, view.model)
            ]
            if not all(training in store.rows for training in runs[start]):
                return None
        return cls(view, log, runs)

    def values(self, start: str, store: Store) -> dict[int, NDArray[np.float64]]:
        """NDCG@10 of every test user by seed."""
        return {t.seed: store.values(t, self.view.end) for t in self.runs[start]}

    def curve(self, start: str, store: Store) -> list[tuple[int, float, float]]:
        """Step, seconds and validation NDCG@10, means over the seeds."""
        curves = [store.rows[t]["curve"] for t in self.runs[start]]
        longest = max(curves, key=len)
        # A training that stopped early keeps its last value.
        whole = [curve + [curve[-1]] * (len(longest) - len(curve)) for curve in curves]
        means = np.array(whole)[:, :, 1:].mean(axis=0).tolist()
        return [(row[0], *rest) for row, rest in zip(longest, means, strict=True)]

    def valid(self, start: str, store: Store) -> float:
        """Validation NDCG@10 at the end of this view, mean over the seeds."""
        curves = [[value for _, _, value in store.rows[t]["curve"]] for t in self.runs[start]]
        return float(np.mean([c[-1] if self.view.end == "last" else max(c) for c in curves]))

    def mean(self, start: str, name: str, store: Store) -> float:
        """The mean over the seeds of a value of the rows."""
        return float(np.mean([store.rows[t][name] for t in self.runs[start]]))


def record(given: argparse.Namespace) -> None:
    """Compare what has run and write the records `own_starts` and `own_starts_left_out`."""
    store = Store(given.out)
    cells = [cell for view in VIEWS for log in CORES if (cell := Cell.read(view, log, store))]
    rows, left_out = [], []
    for view in VIEWS:
        own = [cell for cell in cells if cell.view == view]
        if own:
            rows += _rows(own, store)
            left_out += _left_out(own, store)
    settings = {"dim": DIM, "metric": "NDCG@10 on test", "implicit iterations": ITERATIONS,
                "rates": RATES, "seeds": SEEDS, "cores": CORES}  # fmt: skip
    write_record("own_starts", rows, settings, [
        "`adapted is`: adapted against this start, paired by user, over the seeds; Holm over all "
        "comparisons of the model.",
        "Iterations and seconds until a start has 99% of the best validation value of random; "
        "processor time of one thread.",
    ])  # fmt: skip
    write_record("own_starts_left_out", left_out, settings, [
        "The start that the other data sets choose on validation, on the test part of this one.",
    ])  # fmt: skip


def _rows(cells: list[Cell], store: Store) -> list[dict[str, Any]]:
    """One row per data set and start of a model, and how adapted compares with it."""
    rows = []
    compared = []
    for cell in cells:
        wanted = 0.99 * max(value for _, _, value in cell.curve("random", store))
        for start in cell.runs:
            curve = cell.curve(start, store)
            there = next(((n, s) for n, s, value in curve if value >= wanted), (None, None))
            rows.append({
                "model": cell.view.name, "log": cell.log, "start": PRINTED.get(start, start),
                "seeds": len(cell.runs[start]), "rate": cell.runs[start][0].rate or None,
                "valid": cell.valid(start, store), METRIC: cell.mean(start, cell.view.end, store),
                "tail HR@10": cell.mean(start, f"{cell.view.end}, tail HR@10", store),
                "iterations to 99%": there[0], "seconds to 99%": there[1],
                "start seconds": cell.mean(start, "start seconds", store),
            })  # fmt: skip
            if start != OURS:
                sides = cell.values(OURS, store), cell.values(start, store)
                compared.append((rows[-1], compare(*sides, METRIC)))
    for (row, _), found in zip(compared, holm(c for _, c in compared), strict=True):
        row |= {"adapted is": found.outcome, "difference": found.difference,
                "low": found.low, "high": found.high, "p": found.p_value}  # fmt: skip
    return rows


def _left_out(cells: list[Cell], store: Store) -> list[dict[str, Any]]:
    """What the other data sets choose for each, compared on it with the other starts."""
    rows: list[dict[str, Any]] = []
    compared = []
    for cell in cells:
        others = [other for other in cells if other is not cell]
        if not others:
            continue

        def gain(start: str, others: list[Cell] = others) -> float:
            return float(np.mean([
                np.log(o.valid(start, store) / o.valid("random", store)) for o in others
            ]))  # fmt: skip

        chosen = max(cell.runs, key=gain)
        best = max(cell.runs, key=lambda start, cell=cell: cell.valid(start, store))
        row: dict[str, Any] = {"model": cell.view.name, "log": cell.log,
                               "chosen": PRINTED.get(chosen, chosen),
                               "best on validation here": PRINTED.get(best, best)}  # fmt: skip
        rows.append(row)
        for start in cell.runs:
            if start != chosen:
                sides = cell.values(chosen, store), cell.values(start, store)
                compared.append((row, start, compare(*sides, METRIC)))
    for (row, start, _), found in zip(compared, holm(c for *_, c in compared), strict=True):
        row[f"against {PRINTED.get(start, start)}"] = found.outcome
    return rows


def isolate(given: argparse.Namespace) -> None:
    """implicit's BPR by the length of its rows, on validation; the record `own_starts_isolated`."""
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for log in given.logs.split(","):
        data = Data.read(given.data, log)
        for start in STARTS:
            for length in LENGTHS:
                training = Training(log, "implicit", start, 1, DEFAULT_RATE, length)
                values = [value for _, _, value in train_implicit(data, training)[0].curve]
                rows.append({
                    "log": log, "start": PRINTED.get(start, start), "length": length,
                    "before training": values[0], "best": max(values), "last": values[-1],
                })  # fmt: skip
                print(rows[-1], flush=True)
    settings = {"dim": DIM, "rate": DEFAULT_RATE, "iterations": ITERATIONS, "seed": 1}
    write_record("own_starts_isolated", rows, settings, ["NDCG@10 on validation."])


def main() -> None:
    """Run trainings, or write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "record", "isolate"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--logs", default=",".join(CORES))
    parser.add_argument("--models", default="implicit,two-tower,bpr")
    given = parser.parse_args()
    {"run": run, "record": record, "isolate": isolate}[given.what](given)


if __name__ == "__main__":
    main()

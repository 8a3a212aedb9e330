"""The five parts of the demonstration, in the order they run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leporid.data import ItemInfo, fetch, load, load_items, synthesize, temporal_split
from leporid.embeddings import initial_embeddings
from leporid.errors import DataError
from leporid.evaluation import Comparison, compare, evaluate
from leporid.foundation import ProgressLike, SettingValue, atomic_path
from leporid.models import Init, ModelSpec, get
from leporid.runs import Run, RunSpec, execute_to_folder

if TYPE_CHECKING:
    from leporid.data import Interactions, Split
    from leporid.embeddings import InitialEmbeddings
    from leporid.models import Recommender

METRIC = "NDCG@10"


@dataclass(frozen=True)
class DemoResult:
    """Everything the terminal and the page show, part by part."""

    source: str
    """Which data, and from where."""
    stats: Mapping[str, float]
    core: int
    steps: int
    """Of DLR2."""
    vector_seconds: float
    curves: dict[str, dict[int, float]]
    """Two-tower model: validation NDCG@10 by initialisation and step, mean of three seeds."""
    everyone: Comparison
    tail: Comparison
    """LEPORID against random on test: all users, and tail users."""
    rows: list[dict[str, Any]]
    """DLR2 beside the baselines on test."""
    comparisons: list[Comparison]
    """DLR2 against each of them."""
    user: str
    history: list[str]
    """Titles of the shown user's last items, oldest first."""
    picks: list[dict[str, Any]]
    """The recommendations: rank, title, whether the user chose it later."""
    paper_rows: list[dict[str, Any]]
    """DLR2 with the paper's recipe, from random and from LEPORID's embeddings."""
    seconds: float


def run_demo(
    output: Path, progress: ProgressLike, *, data: str, core: int, steps: int, seed: int
) -> DemoResult:
    """Run every part, keep the runs under `output`, and return what there is to show.

    `data` is the name of a data set, 'synthetic', or a file. DLR2 takes `steps` optimiser steps,
    the two-tower model twice as many.
    """
    began = time.perf_counter()
    get("dlr2")  # fails before the download where torch is missing
    log, titles, source = _data(data, seed, progress)
    log = log.core(core)
    split = temporal_split(log)
    progress.start("part 1 of 5: embeddings of users and items")
    ready = time.perf_counter()
    vectors = initial_embeddings("leporid", split.train, cache=False, seed=seed)
    assert vectors is not None
    vector_seconds = time.perf_counter() - ready
    vectors.save(output / "embeddings.safetensors")
    curves, everyone, tail = two_towers(split, vectors, 2 * steps, progress)

    def dlr2(stage: str, folder: str, init: Init, recipe: str, **settings: SettingValue) -> Run:
        """Train DLR2 into a folder of its own."""
        progress.start(stage)
        model = ModelSpec.resolve(
            "dlr2", split.train, init=init, recipe=recipe, seed=seed,
            settings={"steps": steps, **settings}, cache=True,
        )  # fmt: skip
        spec = RunSpec(model, dataset=Path(data).stem)
        spec = spec.with_baselines(split) if recipe == "general" else spec
        run, _ = execute_to_folder(spec, split, output / folder, progress=progress)
        return run

    best = dlr2("part 3 of 5: baselines, then DLR2", "dlr2", "leporid", "general")
    assert best.check is not None
    check = best.check
    rows = [_row(baseline.name, baseline.metrics) for baseline in check.baselines]
    # Of the paper's networks the one that trains in seconds on a CPU.
    small = {"architecture": "no_conv"}
    paper = {
        "random": dlr2(
            "part 5 of 5: the paper's recipe", "paper-random", "random", "paper", **small
        ),
        "LEPORID": dlr2(
            "part 5 of 5: the same from LEPORID", "paper-leporid", "leporid", "paper", **small
        ),
    }
    names = _write_titles(output / "items.parquet", split, titles)
    user, history, picks = _recommendations(best.model, split, names, seed)
    return DemoResult(
        source=source,
        stats=log.stats().as_dict(),
        core=core,
        steps=steps,
        vector_seconds=vector_seconds,
        curves=curves,
        everyone=everyone,
        tail=tail,
        rows=[*rows, _row("DLR2", best.test.mean())],
        comparisons=[replace(b.comparison, name_a="DLR2") for b in check.baselines],
        user=user,
        history=history,
        picks=picks,
        paper_rows=[_row(f"{name} init", run.test.mean()) for name, run in paper.items()],
        seconds=time.perf_counter() - began,
    )


def _data(
    name: str, seed: int, progress: ProgressLike
) -> tuple[Interactions, Mapping[str, ItemInfo], str]:
    """The log, titles by item id, and a sentence about them."""
    if Path(name).is_file():
        return load(name), {}, name
    why = "as asked"
    if name != "synthetic":
        progress.start(f"fetching {name}")
        try:
            files = fetch(name, progress=progress)
        except DataError as error:
            why = f"{name} could not be fetched ({error})"
        else:
            titles = load_items(files.items) if files.items else {}
            named = {str(key): info for key, info in titles.items()}
            log = load(name, progress=False)
            return log, named, f"{name} ({files.interactions.name})"
    data = synthesize(943, 1682, 100_000, seed=seed)
    return data, {}, f"SYNTHETIC data made by leporid.synthesize, not real users: {why}"


def two_towers(
    split: Split, vectors: InitialEmbeddings, steps: int, progress: ProgressLike
) -> tuple[dict[str, dict[int, float]], Comparison, Comparison]:
    """The two-tower model from random and from given embeddings of the same scale, three seeds.

    Returns the mean validation curves, and the comparison on test for all users and tail users.
    """
    import torch

    from examples.two_tower import TwoTower, train
    from leporid.interop import initialize

    users, items = (torch.from_numpy(s).long() for s in (split.train.user, split.train.item))
    curves: dict[str, dict[int, list[float]]] = {"random": {}, "LEPORID": {}}
    tables: dict[str, dict[int, Any]] = {"random": {}, "LEPORID": {}}
    # What the first call compiles is not part of the estimate.
    shape = (split.train.n_users, split.train.n_items)
    evaluate(np.zeros(shape, np.float32), split, at=(10,), part="valid")
    looks = len(range(0, steps + 1, max(1, steps // 20)))
    progress.start("part 2 of 5: a two-tower model, six trainings", 6 * looks)
    for seed, name in ((seed, name) for seed in (1, 2, 3) for name in curves):
        best: list[Any] = [-1.0, None]  # of the weights so far: validation, and test by user

        def watch(step: int, scores: Any, name: str = name, best: list[Any] = best) -> None:
            value = evaluate(scores, split, at=(10,), part="valid").mean()[METRIC]
            curves[name].setdefault(step, []).append(value)
            if value > best[0]:
                best[:] = [value, scores]
            progress.advance()

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = TwoTower(split.train.n_users, split.train.n_items)
            if name == "LEPORID":
                initialize(model, users="users", items="items", embeddings=vectors)
            train(model, users, items, steps, watch)
        tables[name][seed] = evaluate(best[1], split, at=(10,))
    means = {n: {s: float(np.mean(v)) for s, v in at.items()} for n, at in curves.items()}
    sides = (tables["LEPORID"], tables["random"], METRIC)
    tail = compare(*sides, name_a="LEPORID", name_b="random", stratum="tail-users")
    return means, compare(*sides, name_a="LEPORID", name_b="random"), tail


def _row(name: str, metrics: Mapping[str, float]) -> dict[str, Any]:
    """What the tables show; a hit is an item chosen later among the first ten."""
    return {"model": name, "users with a hit": metrics["HR@10"], METRIC: metrics[METRIC]}


def _recommendations(
    model: Recommender, split: Split, names: list[str], seed: int
) -> tuple[str, list[str], list[dict[str, Any]]]:
    """Ten items for a user drawn by the seed from those with something to find."""
    later = split.test.sequences()
    able = [user for user in range(split.train.n_users) if len(later.of(user))]
    user = int(np.random.default_rng(seed).choice(able))
    history = [names[item] for item in split.train_valid.sequences().of(user)[-5:]]
    top = model.top_k(np.array([user], dtype=np.int32), 10)
    chosen = set(later.of(user).tolist())
    picks = [
        {"rank": rank, "title": names[item], "chosen later": "yes" if item in chosen else ""}
        for rank, item in enumerate(top.items[0].tolist(), 1)
    ]
    return str(split.train.users.external(user)), history, picks


def _write_titles(path: Path, split: Split, titles: Mapping[str, ItemInfo]) -> list[str]:
    """Item ids and titles beside the runs, for `leporid recommend --items` and the service."""
    ids = [str(item) for item in split.train.items.ids.to_pylist()]
    items = [titles.get(item, ItemInfo(f"item {item}")) for item in ids]
    names = [item.title for item in items]
    columns = {"item_id": ids, "title": names, "genres": ["|".join(i.genres) for i in items]}
    with atomic_path(path) as target:
        pq.write_table(pa.table(columns), target)
    return names

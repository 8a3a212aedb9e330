"""The stages of `leporid demo` in the order they run, and the page that shows their results."""

from __future__ import annotations

import html
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leporid.artifacts import atomic_path
from leporid.config import Config, setting
from leporid.data import ItemInfo, fetch, load, load_items, synthesize, temporal_split
from leporid.errors import DataError
from leporid.experiments import Run, RunRecord, fit, fit_and_test, paired_tests, write_run
from leporid.html import draw_bars, figure_html, new_figure, rows_html, write_report
from leporid.initializers import initial_embeddings
from leporid.models import get
from leporid.progress import ProgressLike

if TYPE_CHECKING:
    from leporid.data import Interactions, Split
    from leporid.models import Recommender

_NAMES = {
    "toppop": "TopPop",
    "itemknn": "ItemKNN",
    "random": "DLR2, random init",
    "leporid": "DLR2, LEPORID init",
}


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Config):
    """What the demonstration does, sized for two CPU cores."""

    data: str = "ml-100k"
    """Data set name, 'synthetic', or a file."""
    core: int = setting(20, at_least=0)
    """Keep users and films with at least this many interactions."""
    batch_size: int = setting(256, at_least=1)
    steps: int = setting(1500, at_least=1)
    """Optimiser steps of each DLR2 run; fewer where `seconds` would not be enough."""
    seconds: float = setting(80.0, at_least=0)
    """Time each DLR2 run may take; 0 always runs all steps."""
    seed: int = 123


@dataclass(frozen=True)
class DemoResult:
    """Everything the terminal and the page show."""

    settings: DemoSettings
    source: str
    """A sentence: which data, and from where."""
    stats: Mapping[str, float]
    steps: int
    rows: list[dict[str, Any]]
    """One per model: HR@10, F1@10, the same for tail users, seconds."""
    intervals: dict[str, tuple[float, float]]
    """95% interval of HR@10 over users by row name."""
    tests: list[dict[str, Any]]
    """DLR2 with LEPORID against each other row: paired by user, Holm-corrected."""
    user: str
    history: list[str]
    """Titles of the shown user's last items, oldest first."""
    picks: list[dict[str, Any]]
    """The recommendations: rank, title, whether the user chose it later."""
    seconds: float


def run_demo(output: Path, settings: DemoSettings, progress: ProgressLike) -> DemoResult:
    """Run every stage, keep all four runs under `output`, and return what there is to show."""
    began = time.perf_counter()
    # Fail before the download where torch or matplotlib is missing.
    get("dlr2")
    new_figure(1, 1)
    data, titles, source = _data(settings, progress)
    data = data.core(settings.core)
    split = temporal_split(data)
    vectors = initial_embeddings(
        "leporid", split.train, cache=False, progress=progress, seed=settings.seed
    )
    assert vectors is not None
    steps = _affordable_steps(split, settings, progress)
    runs: list[Run] = []
    spec: dict[str, Any] = {"experiment": "demo", "dataset": Path(settings.data).stem}
    inits: dict[str, Any] = {"random": "random", "leporid": vectors}
    for key, name in _NAMES.items():
        if key in inits:
            progress.start(f"training {name}")
            how = _dlr2(settings, steps=steps, eval_every=max(1, steps // 4))
            run = fit_and_test(**how, split=split, init=inits[key], progress=progress, **spec)
        else:
            progress.start(f"fitting {name}")
            run = fit_and_test(key, split, seed=settings.seed, progress=False, **spec)
        write_run(output / key, *run)
        runs.append(Run(name, run.record, run.table))
    vectors.save(output / "embeddings.safetensors")
    names = _write_titles(output / "items.parquet", split, titles)
    # The last of the four models is DLR2 with LEPORID.
    user, history, picks = _recommendations(run.model, split, names)
    return DemoResult(
        settings=settings,
        source=source,
        stats=data.stats().as_dict(),
        steps=steps,
        rows=[_row(run.name, run.record) for run in runs],
        intervals={r.name: r.record.extra["confidence_95"]["HR@10"] for r in runs},
        tests=_tests(runs),
        user=user,
        history=history,
        picks=picks,
        seconds=time.perf_counter() - began,
    )


def _data(
    settings: DemoSettings, progress: ProgressLike
) -> tuple[Interactions, Mapping[str, ItemInfo], str]:
    """The log, titles by item id, and a sentence about them."""
    if Path(settings.data).is_file():
        return load(settings.data), {}, settings.data
    why = "as asked"
    if settings.data != "synthetic":
        progress.start(f"fetching {settings.data}")
        try:
            files = fetch(settings.data, progress=progress)
        except DataError as error:
            why = f"{settings.data} could not be fetched ({error})"
        else:
            titles = load_items(files.items) if files.items else {}
            named = {str(key): info for key, info in titles.items()}
            return load(settings.data), named, f"{settings.data} ({files.interactions.name})"
    data = synthesize(943, 1682, 100_000, seed=settings.seed)
    return data, {}, f"SYNTHETIC data made by leporid.synthesize, not real users: {why}"


def _affordable_steps(split: Split, settings: DemoSettings, progress: ProgressLike) -> int:
    """The steps that fit into the time: a few are timed, after as many to warm up."""
    if not settings.seconds:
        return settings.steps
    progress.start("measuring the speed of this machine", 2)
    sample = 6
    for _ in range(2):
        began = time.perf_counter()
        how = _dlr2(settings, steps=sample, eval_every=0)
        fit(split=split, init="random", progress=False, **how)
        each = (time.perf_counter() - began) / sample
        progress.advance()
    return max(1, min(settings.steps, int(settings.seconds / each)))


def _dlr2(settings: DemoSettings, **more: Any) -> dict[str, Any]:
    """What `fit_and_test` and `fit` are told of DLR2.

    The paper's fully connected network trains in a minute on a laptop, its residual one (the
    default elsewhere) in half an hour.
    """
    own = {"architecture": "no_conv", "batch_size": settings.batch_size, **more}
    return {"model": "dlr2", "seed": settings.seed, "recipe": "paper", "settings": own}


def _row(name: str, record: RunRecord) -> dict[str, Any]:
    shown = ("HR@10", "F1@10")
    overall = {metric: record.metrics[metric] for metric in shown}
    tail = {f"tail users {metric}": record.tail_metrics[metric] for metric in shown}
    seconds = round(record.seconds, 1)
    return {"model": name, "has seen": record.seen, **overall, **tail, "seconds": seconds}


def _tests(runs: list[Run]) -> list[dict[str, Any]]:
    return [
        {
            "LEPORID against": row.name_a,
            "difference of F1@10": -row.difference,
            "low": -row.high,
            "high": -row.low,
            "p (t-test, Holm)": row.p_value,
        }
        for row in paired_tests(runs, ["F1@10"], against=_NAMES["leporid"])
    ]


def _recommendations(
    model: Recommender, split: Split, names: list[str]
) -> tuple[str, list[str], list[dict[str, Any]]]:
    """Ten items for the user of median activity among those with something to find."""
    activity = np.diff(split.train.csr().indptr)
    later = split.test.sequences()
    able = [user for user in range(split.train.n_users) if len(later.of(user))]
    user = sorted(able, key=lambda index: (activity[index], index))[len(able) // 2]
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


def write_page(result: DemoResult, path: Path) -> Path:
    """Write the page; returns its path."""
    names = [row["model"] for row in result.rows]
    bars = draw_bars(
        names,
        [row["HR@10"] for row in result.rows],
        [result.intervals[name] for name in names],
        "HR@10 on test, 95% interval over users",
    )
    sections = [
        ("Quality", rows_html(result.rows, "On test; tail users are the 25% least active")),
        ("", figure_html(bars, "Share of users with at least one hit among ten")),
        ("Is it luck?", rows_html(result.tests, "Paired by user, F1@10, 95% interval")),
        (f"Recommendations for user {result.user}", _user(result)),
    ]
    title = "leporid: initial embeddings for recommenders"
    return write_report(path, title, sections, _summary(result))


def _summary(result: DemoResult) -> str:
    random, leporid = result.rows[-2:]
    [test] = [row for row in result.tests if row["LEPORID against"] == random["model"]]
    return (
        f"With LEPORID's initial embeddings DLR2 has a film that the user chose later among its "
        f"ten for {leporid['HR@10']:.1%} of users, with random ones for {random['HR@10']:.1%}; of "
        f"the least active users for {leporid['tail users HR@10']:.1%} and "
        f"{random['tail users HR@10']:.1%}.\n"
        f"F1@10 differs by {test['difference of F1@10']:+.4f} (95% interval {test['low']:+.4f} to "
        f"{test['high']:+.4f}). Data: {result.source}."
    )


def _user(result: DemoResult) -> str:
    before = ", ".join(html.escape(title) for title in result.history)
    picks = rows_html(result.picks, "DLR2 from LEPORID, the ten best unseen items")
    return f"<p>Last chosen, oldest first: {before}.</p>{picks}"

"""`record_run`: test a fitted model once. Every caller that makes a record ends there.

`train_to_folder` also compares with baselines (`against_baselines`): TopPop, ItemKNN, EASE (and
Frequency with `include_seen`) as they come, fitted on the same split and evaluated alike. Then it
writes the page of the run.
"""

import contextlib
import html
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import leporid.html as page
from leporid import models
from leporid.artifacts import check_output_folder
from leporid.data import Split, titles_of
from leporid.embeddings import InitialEmbeddings
from leporid.errors import ConfigError, DataError, LeporidError
from leporid.evaluation import Comparison, MetricTable, compare, evaluate
from leporid.machine import check_device
from leporid.models import Recommender, fit_sentence
from leporid.progress import ProgressLike, make_progress
from leporid.runs.record import Meter, RunRecord, write_final, write_record, write_run

CUTOFFS: tuple[int, ...] = (1, 5, 10)
"""The list lengths a run is tested at."""
BASELINES = ("toppop", "itemknn", "ease")
MAX_EASE_ITEMS = 10_000
"""EASE inverts a dense matrix: with more items it would take minutes."""
METRIC = "NDCG@10"
"""What a model and its baselines are compared by."""


class FittedRun(NamedTuple):
    """A fitted model, its record, and the metrics of each user on test."""

    model: Recommender
    record: RunRecord
    table: MetricTable


def record_run(
    fitted: Recommender,
    split: Split,
    meter: Meter,
    *,
    init: str | InitialEmbeddings | None,
    at: tuple[int, ...] = CUTOFFS,
    table: MetricTable | None = None,
    extra: dict[str, Any] | None = None,
    **spec: Any,
) -> FittedRun:
    """Evaluate a fitted model on test, validation and tail users, and record it.

    `meter` measured the fit. `spec` is dataset, experiment, recipe and seed; `model` and
    `spec_hash` where they are not the model's name and the hash of those. `table` is the evaluation
    on test, where it was made before. `extra` is recorded too.
    """
    test = evaluate(fitted, split, at=at) if table is None else table
    valid = (
        evaluate(fitted, split, at=at, part="valid").mean()
        if len(split.valid.goals)
        else {}
    )
    bounded = [f"{family}@{max(at)}" for family in ("NDCG", "HR", "F1")]
    facts: dict[str, Any] = {
        "protocol": split.protocol,
        "data_digest": split.digest,
        "train": split.train.stats().as_dict(),
        "seen": "train and validation" if fitted.reads_history else "train only",
        "skipped_users": test.skipped,
        "cold_users": test.cold,
        "confidence_95": {name: list(test.confidence(name)[1:]) for name in bounded},
    }
    if split.protocol.startswith("cold-items"):
        for stratum in ("cold-items", "warm-items"):
            facts[f"{stratum[:4]}_item_metrics"] = test.mean(stratum=stratum)
    users, items = split.users, split.items
    if users.core or items.core:
        facts["core"] = {
            "k": max(users.core, items.core),
            "dropped_users": len(users.dropped or ()),
            "dropped_items": len(items.dropped or ()),
        }
    optional = {
        "include_seen": split.include_seen,
        "repeated_items": test.repeated,
        "cold_metrics": test.mean(stratum="cold-users") if test.cold else {},
        "training": fitted.training_summary()
        if hasattr(fitted, "training_summary")
        else {},
    }
    facts |= {name: value for name, value in optional.items() if value}
    device = getattr(fitted, "device", None)
    if device is not None and device.type == "cuda":
        import torch

        device = torch.cuda.get_device_name(device)
    if isinstance(init, InitialEmbeddings):
        init = str(init.items.provenance["method"])
    fields = {
        "model": fitted.name,
        "init": None if init == "none" else init,
        "config": fitted.config.to_dict(),
        "metrics": test.mean(),
        "valid_metrics": valid,
        # Among a handful of users with something to find there may be none of the tail.
        "tail_metrics": test.mean(stratum="tail-users")
        if test.has_users("tail-users")
        else {},
        "seconds": meter.seconds,
        "peak_memory_mb": meter.peak_memory_mb,
        "device": str(device or "cpu"),
        "extra": facts | (extra or {}),
    }
    return FittedRun(fitted, RunRecord.make(**fields | spec), test)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A simple model on the same split, and the trained model compared with it."""

    model: str
    name: str
    """As it is written: ItemKNN."""
    settings: dict[str, Any]
    """Its defaults, all of them."""
    metrics: dict[str, float]
    """On test."""
    seconds: float
    """Wall-clock time of the fit."""
    comparison: Comparison
    """The trained model (a) with this baseline (b)."""


@dataclass(frozen=True)
class BaselineCheck:
    """The baselines that were fitted, and what follows for the trained model."""

    baselines: tuple[Baseline, ...]
    left_out: str = ""
    """Which baseline was left out and why, one sentence; empty where none was."""

    @property
    def best(self) -> Baseline:
        return max(self.baselines, key=lambda baseline: baseline.comparison.mean_b)

    def verdict(self) -> str:
        """The trained model against the best baseline, in one sentence."""
        comparison = self.best.comparison
        advice = "; do not deploy it" if comparison.outcome == "below" else ""
        return comparison.describe() + advice

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values, as `RunRecord.extra["baselines"]` holds them."""
        each = {
            baseline.model: {
                **asdict(baseline),
                "comparison": baseline.comparison.to_dict(),
            }
            for baseline in self.baselines
        }
        return {"models": each, "verdict": self.verdict(), "left_out": self.left_out}


def against_baselines(
    outcome: MetricTable,
    split: Split,
    *,
    fitted: Recommender | None = None,
    progress: bool | ProgressLike | None = None,
) -> BaselineCheck:
    """Fit the baselines on `split` and compare a model's test outcome with theirs by NDCG@10.

    `outcome` is what `evaluate(model, split)` returned. `fitted` is that model, so that
    a baseline is not compared with itself.
    """
    if METRIC not in outcome.names:
        raise ConfigError(
            f"baselines are compared by {METRIC}: evaluate with at=(1, 5, 10)"
        )
    own = fitted.name if fitted is not None else "the model"
    reporter = make_progress(progress)
    rows, left_out = [], ""
    names = (*BASELINES, *(["frequency"] if split.include_seen else []))
    for model in (models.get(name)() for name in names):
        if model.name == "ease" and split.n_items > MAX_EASE_ITEMS:
            left_out = f"EASE is left out: {split.n_items:,} items are more than {MAX_EASE_ITEMS:,}"
            continue
        if fitted is not None and (fitted.name, fitted.asked) == (
            model.name,
            model.asked,
        ):
            continue
        name = type(model).__name__
        reporter.start(f"baseline {name}")
        with Meter() as meter:
            model.fit(split)
        table = evaluate(model, split)
        about: dict[str, Any] = {"model": model.name, "name": name}
        about |= {"settings": model.config.to_dict(), "metrics": table.mean()}
        found = compare(outcome, table, METRIC, name_a=own, name_b=name)
        rows.append(Baseline(**about, seconds=meter.seconds, comparison=found))
    if reporter is not progress:
        reporter.close()
    return BaselineCheck(tuple(rows), left_out)


def _train_once(*of: Any, checkpoint: Path, **how: Any) -> Recommender:
    """`train`; a run that the folder holds finished, by its checkpoint, is not trained again."""
    if (checkpoint.parent / "record.json").is_file():
        with contextlib.suppress(
            ConfigError, DataError
        ):  # the checkpoint is of another run
            return models.train(*of, checkpoint=checkpoint, **{**how, "resume": True})
    return models.train(*of, checkpoint=checkpoint, **how)


def train_to_folder(
    folder: Path,
    model: str,
    split: Split,
    init: str | InitialEmbeddings | None,
    *,
    dataset: str,
    seed: int = 123,
    recipe: str | None = None,
    device: str = "auto",
    final: bool = False,
    baselines: bool = True,
    resume: bool = False,
    progress: bool | ProgressLike | None = None,
    settings: Mapping[str, Any] | None = None,
    init_settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[FittedRun, BaselineCheck | None]:
    """Fit and test a model, compare it with baselines, and keep everything in a run folder.

    `init` is the name of an initialiser, whose result is cached, or initial embeddings. `more`
    goes to `leporid.train`. The model that comes back is the final one where `final` asks for it.
    """
    check_device(device)
    check_output_folder(folder)
    reporter, checkpoint = make_progress(progress), folder / "checkpoint"
    if isinstance(init, str) and init != "none":
        init_settings = {"cache": True, **(init_settings or {})}
    spec: dict[str, Any] = {"seed": seed, "recipe": recipe}
    how: dict[str, Any] = {"progress": reporter, "device": device, "resume": resume}
    args = {**spec, **how, **more, "init_settings": init_settings, **(settings or {})}
    train: Callable[..., Recommender] = models.train
    if final and not resume:
        train = _train_once
    check = None
    try:
        with Meter() as meter:
            fitted = train(model, split, init, checkpoint=checkpoint, **args)
        if (history := getattr(fitted, "history", None)) and history.rows:
            # With those before a checkpoint that the training went on from.
            meter.seconds = max(meter.seconds, history.rows[-1]["seconds"])
        spec |= {"dataset": dataset, "experiment": "train", "init": init}
        _, record, table = record_run(fitted, split, meter, **spec)
        write_run(folder, fitted, record, table)
        if baselines:
            check = against_baselines(table, split, fitted=fitted, progress=reporter)
            record = write_record(folder, record, baselines=check.to_dict())
        deployed = fitted
        if final:
            if fitted.takes_initial_vectors:
                how["checkpoint"] = checkpoint / "final"
            else:
                how = {"progress": reporter}
            with Meter() as meter:
                deployed = fitted.refit(split, **how)
            record = write_final(folder, deployed, fitted, record, meter.seconds)
        write_train_report(folder, fitted, deployed, record, table)
    finally:
        if reporter is not progress:
            reporter.close()
    return FittedRun(deployed, record, table), check


def hits_in_words(
    own: float, others: Mapping[str, float], n: int = 10, of: str = ""
) -> str:
    """HR@n in words: "Of 100 users 69 find something ...; with the bestsellers 53."."""
    count = "ten" if n == 10 else str(n)
    more = "".join(f"; with {name} {100 * value:.0f}" for name, value in others.items())
    return (
        f"Of 100 users {100 * own:.0f} find something they chose later among {count} "
        f"recommendations{of}{more}."
    )


def hits_html(hits: Mapping[str, float]) -> str:
    """HR@10 by model as bars."""
    caption = "Of 100 users, those who find something they chose later among ten"
    return page.bars_html(
        {name: 100 * value for name, value in hits.items()}, caption, of_100=True
    )


def groups_of_users(table: MetricTable, metric: str) -> list[dict[str, Any]]:
    """The metric of all users, of warm ones, of the least active quarter, and of cold ones."""
    strata = [
        name
        for name in ("warm-users", "tail-users", "cold-users")
        if table.has_users(name)
    ]
    return [
        {
            "users of the test part": name or "all",
            "number": len(table.columns(metric, name)),
            "value": table.mean(name)[metric],
        }
        for name in (None, *strata)
    ]


def examples_html(model: Recommender, items: Any) -> str:
    """The newest items of three users, and what they would be shown; with titles where known."""
    known = model.known.sequences()
    lengths = np.diff(known.indptr)
    users = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths == 0) :]
    if not len(users):
        return ""
    chosen = users[[len(users) // 4, len(users) // 2, 3 * len(users) // 4]].astype(
        np.int32
    )
    titles = [str(key) for key in model.items.ids.to_pylist()]
    if items is not None:
        with contextlib.suppress(LeporidError):  # a table without titles
            titles = [info.title for info in titles_of(model.items, items)]
    about: dict[str, Any] = {
        "users": [model.users.external(int(user)) for user in chosen],
        "histories": [
            [titles[item] for item in known.of(int(user))[-5:]] for user in chosen
        ],
        "lists": [
            [titles[i] for i in top if i >= 0] for top in model.top_k(chosen, 5).items
        ],
    }
    return page.fill_template("leporid", "figures.html", part="users", **about)


def write_train_report(
    folder: Path,
    fitted: Recommender,
    deployed: Recommender,
    record: RunRecord,
    table: MetricTable,
) -> None:
    """Write `report.html` of a run: its test beside the baselines, its training, its settings."""
    check: Mapping[str, Any] = record.extra.get("baselines", {"models": {}})
    tested = {record.model: record.metrics}
    tested |= {other["name"]: other["metrics"] for other in check["models"].values()}
    hits = {name: metrics["HR@10"] for name, metrics in tested.items()}
    popular = {"the bestsellers": hits["TopPop"]} if "TopPop" in hits else {}
    said = [hits_in_words(hits[record.model], popular)]
    said += (
        [f"On test {check['verdict']}.", check["left_out"]] if check["models"] else []
    )
    said.append(f"The folder holds the {fit_sentence(deployed)}.")
    shown = ("HR@10", "F1@10", "NDCG@10")
    rows = [
        {"model": name, **{key: of[key] for key in shown}}
        for name, of in tested.items()
    ]
    curves = {"metric": f"Validation {record.config.get('metric')}", "loss": "Loss"}
    charts = ""
    for key, name in curves.items():
        history = fitted.history.rows if hasattr(fitted, "history") else []
        points = [
            (row["step"], row[key]) for row in history if row.get(key) is not None
        ]
        charts += page.chart_html(
            [page.Series(name, points, 1)], "optimiser steps", name
        )
    settings = [
        {"setting": key, "value": str(value)} for key, value in record.config.items()
    ]
    folder_name = html.escape(shlex.quote(str(folder)))
    sections = [
        ("On test", hits_html(hits)),
        (
            "",
            page.rows_html(
                rows, f"{len(table):,} users; baselines have their default settings"
            ),
        ),
        (
            "Groups of users",
            page.rows_html(groups_of_users(table, "NDCG@10"), "NDCG@10 on test"),
        ),
        ("Training", charts and f"<div class='charts'>{charts}</div>"),
        ("Look at it", f"<pre>leporid serve {folder_name} --items ITEMS.csv</pre>"),
        ("Settings", page.folded_html(settings, f"{record.model}, seed {record.seed}")),
    ]
    title = f"leporid train: {record.model} on {record.dataset}"
    page.write_report(
        folder / "report.html", title, sections, "\n".join(filter(None, said))
    )

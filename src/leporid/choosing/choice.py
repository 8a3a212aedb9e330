"""`choose`: which model, from which start, for a log, within a time; and what came out."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leporid.artifacts import read_json, write_json
from leporid.choosing import words
from leporid.choosing.budget import Timer, format_duration, parse_duration
from leporid.choosing.candidates import log_facts
from leporid.choosing.closing import Closing
from leporid.choosing.journal import Journal
from leporid.choosing.judging import Rehearsal, stage_of
from leporid.choosing.narration import narrator
from leporid.choosing.programme import Programme
from leporid.choosing.race import Race, Workers
from leporid.choosing.report import write_page
from leporid.data import Interactions, Split, load, split_by
from leporid.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.evaluation import parse_metric
from leporid.html import new_figure
from leporid.models import Recommender, available, find_model
from leporid.runs import claim

_SUMMARY = "chosen.json"
_CLOSING_SHARE, _CLOSING_SECONDS = 0.03, 1.0
"""Kept for words, pages and files."""

_TOO_SMALL = (
    "the log is too small to judge anything: no user has enough interactions to hold some back; "
    "the most popular items are the answer until there are more"
)
_DRAWN_SECONDS = 30.0
"""With less time the race is not drawn."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The answer: a model to deploy, and the reasons."""

    model: Recommender
    """Fitted on everything."""
    why: str
    """The answer in words."""
    table: list[dict[str, Any]]
    """One row per candidate: model, start, settings, the metric on the rehearsal, seconds,
    milliseconds per request, memory."""
    tested: list[dict[str, Any]]
    """On test: the chosen model first, then the runner-up and the baselines."""
    winner: str
    """The chosen candidate in a few words."""
    metric: str
    commands: list[str]
    """What fits the chosen model again, on the command line."""
    elapsed: float
    """Seconds, of all sittings together."""
    folder: Path | None = None
    """Where it was written: a run that `leporid serve` and `leporid recommend` take."""

    def __repr__(self) -> str:
        return f"Choice({self.winner}, after {format_duration(self.elapsed)})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, as plain values."""
        names = ("winner", "metric", "why", "table", "tested", "commands", "elapsed")
        return {name: getattr(self, name) for name in names}


def choose(
    data: Interactions | Split | str | Path,
    budget: str | float = "10m",
    metric: str = "NDCG@10",
    *,
    output: str | Path | None = None,
    models: Sequence[str] | None = None,
    protocol: str = "temporal",
    seed: int = 0,
    device: str = "auto",
    progress: bool | None = True,
    dataset: str | None = None,
    spent: float = 0.0,
    workers: Workers | None = None,
) -> Choice:
    """Race models and starts on a log, and fit the best on everything before the time is over.

    Parameters
    ----------
    data : a log, a split of one, or what `leporid.load` reads
    budget : the time for everything: "90s", "10m", "1h30m", or seconds
    metric : what decides, judged on the inner validation split; test is read once, at the end
    output : a folder; it holds the model, its record, the race and a report, and a killed race
        goes on there. Without one nothing is kept on disk.
    models : the models that take part, by name; None for all
    protocol : how a log is split, one of "temporal", "leave-last-out", "global-time", "random"
    seed : of every random choice
    device : where networks are trained
    progress : a table that follows the race, or one line per event where nobody can watch one
    dataset : name of the data in the record
    spent : seconds of the budget that are gone already (loading the log, say)
    workers : who judges candidates at the same time: an object with `submit(function, *arguments)`,
        such as a pool of `concurrent.futures` or `leporid.distributed.Workers`
    """
    begun, seconds = time.monotonic(), parse_duration(budget)
    _check(metric, models)
    name, source = dataset or "log", "LOG"
    if isinstance(data, str | Path):
        name, source, data = dataset or Path(data).stem, str(data), load(data)
    split = data if isinstance(data, Split) else split_by(data, protocol, seed=seed)
    if len(split.train) == 0:
        raise DataError(
            f"nothing is left to learn from: under {split.protocol} no user has enough "
            f"interactions for a training part; give a log with several interactions per user"
        )
    with contextlib.ExitStack() as stack:
        folder = Path(output or stack.enter_context(tempfile.TemporaryDirectory()))
        question = {"data": split.digest, "protocol": split.protocol, "metric": metric}
        journal = Journal(folder / "race" / "journal.jsonl", question | {"seed": seed})
        if (earlier := _earlier(journal, folder, seconds)) is not None:
            return earlier
        timer = Timer(seconds, journal.spent + spent + time.monotonic() - begun)
        tell = stack.enter_context(narrator(progress, timer, metric))
        judge = Rehearsal(split, stage_of(split), metric, timer, journal.path.parent)
        judge.seed, judge.device, judge.workers = seed, device, workers
        race = Race(judge, journal, timer, reserve=_reserve(timer), tell=tell)
        closing = Closing(race, judge, split, metric, folder, name, tell)
        facts = log_facts(split)
        if judge.stage is split:
            closing.verdict.notes.append(_TOO_SMALL)
        else:
            try:
                Programme(race, judge, facts, metric, tell, models).run()
            except (KeyboardInterrupt, TrainingInterruptedError):
                # Ctrl-C once: the best so far is fitted; twice: nothing is.
                closing.verdict.notes.append("the race was interrupted: this is the best so far")
        chosen = _closed(closing, facts, source)
        return chosen if output is not None else replace(chosen, folder=None)


def _reserve(timer: Timer) -> float:
    """Seconds for words, pages and files at the end."""
    if timer.left > _DRAWN_SECONDS:
        with contextlib.suppress(MissingExtraError):
            new_figure(1, 1)  # loading it takes seconds, which are easier to spare now
    return _CLOSING_SHARE * timer.budget + _CLOSING_SECONDS


def _closed(closing: Closing, facts: dict[str, Any], source: str) -> Choice:
    """The end of the race, by one process only."""
    with claim(closing.folder / "race" / "claims" / "closing") as mine:
        if not mine:
            where = closing.folder
            raise DataError(f"another process is writing the answer into {where}: wait for it")
        closing.decide()
        closing.learn_curve()
        closing.fit()
        closing.test_others()
        return _written(closing, facts, source)


def _written(closing: Closing, facts: dict[str, Any], source: str) -> Choice:
    """The answer, also as files."""
    assert closing.model is not None
    race, metric, folder = closing.race, closing.metric, closing.folder
    table, shown = words.race_table(race, metric), words.commands(closing, source)
    why = words.explain(closing, race.timer.elapsed)
    write_page(folder / "report.html", closing, why, table, shown, facts)
    elapsed = race.timer.elapsed
    tested = [
        {
            "model": tested.label,
            metric: tested.metrics[metric],
            **{k: v for k, v in tested.metrics.items() if k != metric},
            "strata": tested.strata,
            "chosen minus this": None if place == 0 else [tested.low, tested.high],
        }
        for place, tested in enumerate(closing.tested)
    ]
    choice = Choice(
        closing.model, why, table, tested, closing.label, metric, shown, elapsed, folder
    )
    write_json(folder / _SUMMARY, {**choice.to_dict(), "budget": race.timer.budget})
    race.journal.append("chosen", at=elapsed, label=closing.label, budget=race.timer.budget)
    return choice


def _earlier(journal: Journal, folder: Path, budget: float) -> Choice | None:
    """The answer of a race that is over, unless there is more time now."""
    done = journal.of("chosen")
    model = find_model(folder)
    if not done or done[-1]["budget"] < budget or model is None:
        return None
    kept = read_json(folder / _SUMMARY)
    kept.pop("budget")
    return Choice(Recommender.load(model), folder=folder, **kept)


def _check(metric: str, models: Sequence[str] | None) -> None:
    """Refuse what cannot be, before any data is read."""
    for name in models or ():
        if name not in available():
            raise UnknownNameError("model", name, available())
    family, _ = parse_metric(metric)
    if family in ("Popularity", "Gini", "Coverage"):
        raise ConfigError(f"{metric} is not a goal to maximise: choose NDCG@10, HR@10 or F1@10")

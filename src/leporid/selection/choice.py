"""`choose`: which model, from which start, for a log, within a time; and what came out."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leporid.artifacts import write_json
from leporid.data import Interactions, Split, load, split_by
from leporid.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.evaluation import parse_metric
from leporid.experiments import claim
from leporid.html import new_figure
from leporid.models import Recommender, available
from leporid.selection import summary as words
from leporid.selection.answer import SUMMARY, Answer, known_from, read_answer
from leporid.selection.budget import Timer, format_duration, parse_duration
from leporid.selection.candidates import log_facts
from leporid.selection.decision import TIMING
from leporid.selection.evaluator import Rehearsal, stage_of
from leporid.selection.finalise import Closing
from leporid.selection.journal import Journal
from leporid.selection.progress_messages import narrator
from leporid.selection.report import write_page
from leporid.selection.schedule import Programme
from leporid.selection.search import Race, Workers

_CLOSING_SHARE, _CLOSING_SECONDS = 0.03 + TIMING, 1.0
"""Kept for timing level candidates again, and for words, pages and files."""

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
    note: str = ""
    """Why the folder's earlier answer was kept, in one sentence; empty for a new answer."""

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
    clock: Callable[[], float] = time.monotonic,
) -> Choice:
    """Race models and starts on a log, and fit the best on everything before the time is over.

    Parameters
    ----------
    data : a log, a split of one, or what `leporid.load` reads
    budget : the time for everything: "90s", "10m", "1h30m", or seconds
    metric : what decides, judged on the inner validation split; test is read once, at the end
    output : a folder; it holds the model, its record, the race and a report, and a killed race
        goes on there. An answer in it is replaced only by one with a higher metric. Without a
        folder nothing is kept on disk.
    models : the models that take part, by name; None for all
    protocol : how a log is split, one of "temporal", "leave-last-out", "global-time", "random"
    seed : of every random choice
    device : where networks are trained
    progress : a table that follows the race, or one line per event where nobody can watch one
    dataset : name of the data in the record
    spent : seconds of the budget that are gone already (loading the log, say)
    workers : who judges candidates at the same time: an object with `submit(function, *arguments)`,
        such as a pool of `concurrent.futures` or `leporid.distributed.Workers`
    clock : what tells the time, in seconds
    """
    begun, seconds = clock(), parse_duration(budget)
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
        standing = read_answer(folder)
        if standing is not None and standing.is_complete and standing.budget >= seconds:
            return _kept(standing, folder, f"the answer for {format_duration(standing.budget)}")
        timer = Timer(seconds, journal.spent + spent + clock() - begun, clock)
        tell = stack.enter_context(narrator(progress, timer, metric))
        judge = Rehearsal(split, stage_of(split), metric, timer, journal.path.parent)
        judge.seed, judge.device, judge.workers = seed, device, workers
        race = Race(judge, journal, timer, reserve=_reserve(timer), tell=tell)
        facts = log_facts(split)
        describe = partial(_describe, facts=facts, source=source)
        closing = Closing(race, judge, split, metric, folder, name, tell, describe)
        if standing is not None and standing.is_complete and timer.left <= race.reserve():
            return _kept(standing, folder, "no time is left to search for a better one")
        if judge.stage is split:
            closing.verdict.notes.append(_TOO_SMALL)
        elif (before := closing.decided()) is None or before["budget"] < seconds:
            try:
                Programme(race, judge, facts, metric, tell, models).run()
            except (KeyboardInterrupt, TrainingInterruptedError):
                # Ctrl-C once: the best so far is fitted; twice: nothing is.
                closing.verdict.notes.append("the race was interrupted: this is the best so far")
                closing.is_interrupted = True
        chosen = _closed(closing)
        return chosen if output is not None else replace(chosen, folder=None)


def _reserve(timer: Timer) -> float:
    """Seconds for words, pages and files at the end."""
    if timer.left > _DRAWN_SECONDS:
        with contextlib.suppress(MissingExtraError):
            new_figure(1, 1)  # loading it takes seconds, which are easier to spare now
    return _CLOSING_SHARE * timer.budget + _CLOSING_SECONDS


def _closed(closing: Closing) -> Choice:
    """The end of the race, by one process only."""
    race, folder = closing.race, closing.folder
    with claim(folder / "race" / "claims" / "closing") as mine:
        if not mine:
            raise DataError(f"another process is writing the answer into {folder}: wait for it")
        race.journal.reload()
        standing = read_answer(folder)  # another process may have written it meanwhile
        if standing is not None:
            standing = known_from(standing, race.finished)
            if standing.is_complete and _answers(standing, closing):
                return _kept(standing, folder, "the search has found no better candidate")
        closing.decide()
        closing.learn_curve()
        if not closing.fit(standing):
            assert standing is not None
            return _kept(standing, folder, "nothing better could be fitted in time")
        closing.test_others()
        closing.is_complete = True
        parts = closing.describe(closing, folder)
        about = {"label": closing.label, "budget": race.timer.budget}
        race.journal.append("chosen", at=race.timer.elapsed, **about)
        assert closing.model is not None
        return Choice(closing.model, folder=folder, **parts)


def _answers(standing: Answer, closing: Closing) -> bool:
    """Whether an answer is that of the last decision, and nothing was judged since."""
    if closing.race.leader is None:
        return standing.value is None
    before = closing.decided()
    return before is not None and before["taken"] == standing.key


def _kept(standing: Answer, folder: Path, why: str) -> Choice:
    """The answer that the folder holds, which stays as it is."""
    note = f"nothing was written: {folder} keeps {standing.parts['winner']}, {why}"
    return Choice(Recommender.load(standing.model), folder=folder, note=note, **standing.parts)


def _describe(closing: Closing, folder: Path, facts: dict[str, Any], source: str) -> dict[str, Any]:
    """Write the report and the summary of what was fitted; the parts of a `Choice`."""
    race, metric = closing.race, closing.metric
    elapsed, table = race.timer.elapsed, words.race_table(race, metric)
    why, shown = words.explain(closing, elapsed), words.commands(closing, source)
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
    parts = {
        "winner": closing.label,
        "metric": metric,
        "why": why,
        "table": table,
        "tested": tested,
        "commands": shown,
        "elapsed": elapsed,
    }
    about = {"key": closing.key, "value": closing.value, "budget": race.timer.budget}
    write_page(folder / "report.html", closing, why, table, shown, facts)
    write_json(folder / SUMMARY, {**parts, **about, "complete": closing.is_complete})
    return parts


def _check(metric: str, models: Sequence[str] | None) -> None:
    """Refuse what cannot be, before any data is read."""
    for name in models or ():
        if name not in available():
            raise UnknownNameError("model", name, available())
    family, _ = parse_metric(metric)
    if family in ("Popularity", "Gini", "Coverage"):
        raise ConfigError(f"{metric} is not a goal to maximise: choose NDCG@10, HR@10 or F1@10")

"""`choose`: which model and initialisation for a log, within a budget of time."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leporid.data import PROTOCOLS, Interactions, ItemTable, Split, load, split_by
from leporid.errors import (
    ConfigError,
    DataError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.evaluation import parse_metric
from leporid.foundation import (
    JsonValue,
    check_device,
    check_output_folder,
    checks_arguments,
)
from leporid.models import Recommender, available
from leporid.runs import Journal
from leporid.selection.answer import Answer, Row, StoredAnswer, read_answer
from leporid.selection.budget import Timer, format_duration, parse_duration
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.events import (
    last_decision,
    open_journal,
    progress_lines,
    seconds_spent,
)
from leporid.selection.finalise import Session, finalise
from leporid.selection.schedule import run_schedule
from leporid.selection.search import Search
from leporid.selection.task import SearchTask

SHARE_FOR_BLEND_AND_REPORT = 0.04
SECONDS_FOR_BLEND_AND_REPORT = 1.5
TOO_SMALL = (
    "the log is too small to evaluate anything: no user has enough interactions to hold some back; "
    "the most popular items are the answer until there are more"
)


@dataclass(frozen=True, eq=False)
class Choice:
    """The answer: a model to deploy, and the reasons."""

    model: Recommender
    """Fitted on everything."""
    why: str
    """The answer in three paragraphs: what to deploy, how sure, what next."""
    table: list[Row]
    """One row per candidate: family, model, init, settings, the metric on the inner validation
    split, seconds, milliseconds per request, memory."""
    tested: list[Row]
    """Metrics on test: the chosen model first, then the baselines."""
    commands: list[str]
    """What tests the chosen model again, and what fits it again, on the command line."""
    details: dict[str, Any]
    """Groups of users, models left out, the learning curve, initialisations, the prior."""
    folder: Path | None = None
    """Where it was written: a run that `leporid serve` and `leporid recommend` take."""
    note: str = ""
    """Why the folder's earlier answer was kept, in one sentence; empty for a new answer."""

    @classmethod
    def of(
        cls, model: Recommender, answer: Answer, folder: Path, note: str = ""
    ) -> Choice:
        """Put the model and the rest of the answer together."""
        return cls(
            model,
            answer.why,
            answer.table,
            answer.tested,
            answer.commands,
            answer.details,
            folder,
            note,
        )

    def __repr__(self) -> str:
        return f"Choice({self.winner}, after {format_duration(self.elapsed)})"

    @property
    def winner(self) -> str:
        """The chosen candidate in a few words."""
        return str(self.details["winner"])

    @property
    def metric(self) -> str:
        """What decided."""
        return str(self.details["metric"])

    @property
    def elapsed(self) -> float:
        """Seconds of all sessions together."""
        return float(self.details["elapsed"])

    @property
    def best(self) -> list[Row]:
        """The best row of each model."""
        best: dict[str, Row] = {}
        for row in self.table:
            best.setdefault(row["model"], dict(row))
        return list(best.values())

    def to_dict(self) -> dict[str, JsonValue]:
        """Return everything but the model, as plain values."""
        answer = Answer(self.why, self.table, self.tested, self.commands, self.details)
        return answer.to_dict()


@checks_arguments({"seed": 0}, example="['dlr2', 'ease']")
def choose(  # noqa: PLR0913 (options are spelled out)
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
    items: str | Path | None = None,
    source: str | None = None,
    include_seen: bool | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Choice:
    """Search models and initialisations for a log, and fit the best on everything within a budget.

    Parameters
    ----------
    data : a log, a split of one, or what `leporid.load` reads
    budget : the time for everything: "90s", "10m", "1h30m", or seconds
    metric : what decides, on the inner validation split; test is read once, at the end
    output : a folder; it holds the model, its record, the search and a report, and a killed
        search goes on there. An answer in it is replaced only by one with a higher metric.
        Without a folder nothing is kept on disk.
    models : the models that take part, by name; None for all
    protocol : how a log is split, one of "temporal", "leave-last-out", "global-time", "random"
    seed, device : of every random choice; where networks are trained
    progress : one line per trial and fit on stderr
    dataset : name of the data in the record
    spent : seconds of the budget that are gone already (loading the log, say)
    items : the file of an item table: models are tried with it too, and the report has titles
    source : the log and its options as the printed commands have them
    include_seen : as in `leporid.train`; then a log that is a path keeps its repeats
    clock : what tells the time, in seconds
    """
    begun = clock()
    seconds = parse_duration(budget)
    check_question(metric, models, protocol, device)
    if output is not None:
        check_output_folder(output)
    if items is not None:
        ItemTable.load(items)
        items = str(items)

    if isinstance(data, str | Path):
        dataset = dataset or Path(data).stem
        source = source or str(data)
    split = split_of(data, protocol, seed, include_seen)

    with contextlib.ExitStack() as stack:
        folder = Path(output or stack.enter_context(tempfile.TemporaryDirectory()))
        journal = open_journal(
            folder / "search",
            {
                "data": split.digest,
                "protocol": split.protocol,
                "metric": metric,
                "seed": seed,
                "items": items,
            },
        )
        stored = read_answer(folder)
        if stored is not None and stored.budget >= seconds:
            why = f"the answer for {format_duration(stored.budget)}"
            return unchanged(stored, folder, why)
        if not stack.enter_context(journal.try_lock("search")):
            raise DataError(
                f"another process is searching in {folder}: wait for its end"
            )
        journal.reload()  # it may have ended since

        timer = Timer(seconds, seconds_spent(journal) + spent + clock() - begun, clock)
        task = SearchTask.of(split, metric, seed=seed, device=device, items=items)
        search = Search(
            TrialEvaluator(task, timer, folder / "search"),
            journal,
            timer,
            reserve=SHARE_FOR_BLEND_AND_REPORT * seconds + SECONDS_FOR_BLEND_AND_REPORT,
            tell=progress_lines(progress, timer, metric),
        )
        if stored is not None and timer.left <= search.reserve():
            why = "no time is left to search for a better one"
            return unchanged(stored, folder, why)

        session = Session(search, folder, dataset or "log", source or "LOG")
        if task.inner is split:
            session.notes.append(TOO_SMALL)
        elif not is_searched(journal, seconds):
            run_session(session, models)
        choice = answered(session, stored)
    return choice if output is not None else replace(choice, folder=None)


def split_of(
    data: Interactions | Split | str | Path,
    protocol: str,
    seed: int,
    include_seen: bool | None,
) -> Split:
    """Read and split a log; refuse one without a training part."""
    if isinstance(data, str | Path):
        data = load(data, duplicates="all" if include_seen else "first")
    split = data if isinstance(data, Split) else split_by(data, protocol, seed=seed)
    split = split.including_seen(include_seen)
    if len(split.train) == 0:
        raise DataError(
            f"nothing is left to learn from: under {split.protocol} no user has enough "
            f"interactions for a training part; give a log with several interactions per user"
        )
    return split


def is_searched(journal: Journal, budget: float) -> bool:
    """Tell whether an earlier session has searched for so long, and only the end is missing."""
    decision = last_decision(journal)
    return decision is not None and decision.budget >= budget


def run_session(session: Session, models: Sequence[str] | None) -> None:
    """Search until the time is over or somebody presses Ctrl-C.

    Ctrl-C once: the best so far is fitted; twice: nothing is.
    """
    try:
        run_schedule(session.search, models)
    except (KeyboardInterrupt, TrainingInterruptedError):
        session.notes.append("interrupted: this is the best so far")
        session.is_interrupted = True


def answered(session: Session, stored: StoredAnswer | None) -> Choice:
    """Return what the search ends with: a new answer, or the one that the folder holds."""
    folder = session.folder
    if stored is None:
        ended = finalise(session, lambda key, value: True)
        assert ended is not None
        return Choice.of(*ended, folder)
    decision = last_decision(session.search.journal)
    is_current = decision is not None and decision.key == stored.key
    if is_current or (session.search.leader is None and stored.value is None):
        return unchanged(stored, folder, "the search has found no better candidate")
    ended = finalise(session, stored.gives_way_to)
    if ended is None:
        return unchanged(stored, folder, "nothing better could be fitted in time")
    return Choice.of(*ended, folder)


def unchanged(stored: StoredAnswer, folder: Path, why: str) -> Choice:
    """Return the answer that the folder holds, and why it stays."""
    winner = stored.answer.details["winner"]
    note = f"nothing was written: {folder} keeps {winner}, {why}"
    return Choice.of(Recommender.load(stored.model), stored.answer, folder, note)


def check_question(
    metric: str, models: Sequence[str] | None, protocol: str, device: str
) -> None:
    """Refuse wrong arguments before any data is read."""
    if models is not None and not len(models):
        raise ConfigError(
            "models must name at least one model, or be None for all of them"
        )
    for name in models or ():
        if name not in available():
            raise UnknownNameError("model", name, available())
    family, _ = parse_metric(metric)
    if family in ("Popularity", "Gini", "Coverage"):
        raise ConfigError(
            f"{metric} is not a goal to maximise: choose NDCG@10, HR@10 or F1@10"
        )
    check_device(device)
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", protocol, PROTOCOLS)

"""`choose`: which model and initialisation for a log, within a budget of time."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leporid.arguments import checks_arguments
from leporid.artifacts import check_manifest, check_output_folder, read_object
from leporid.data import PROTOCOLS, Interactions, ItemTable, Split, load, split_by
from leporid.errors import (
    ConfigError,
    DataError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.evaluation import parse_metric
from leporid.machine import check_device
from leporid.models import Recommender, available, find_model
from leporid.selection.budget import Timer, format_duration, parse_duration
from leporid.selection.candidates import Problem
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
from leporid.selection.summary import FIRST_DETAILS, PARTS, SUMMARY, as_json, best_rows

SHARE_FOR_BLEND_AND_REPORT, SECONDS_FOR_BLEND_AND_REPORT = 0.04, 1.5
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
    table: list[dict[str, Any]]
    """One row per candidate: family, model, init, settings, the metric on the inner validation
    split, seconds, milliseconds per request, memory."""
    tested: list[dict[str, Any]]
    """On test: the chosen model first, then the baselines."""
    commands: list[str]
    """What tests the chosen model again, and what fits it again, on the command line."""
    details: dict[str, Any]
    """Groups of users, models left out, the learning curve, initialisations, the prior."""
    folder: Path | None = None
    """Where it was written: a run that `leporid serve` and `leporid recommend` take."""
    note: str = ""
    """Why the folder's earlier answer was kept, in one sentence; empty for a new answer."""

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
        """Seconds, of all sessions together."""
        return float(self.details["elapsed"])

    @property
    def best(self) -> list[dict[str, Any]]:
        """The best row of each model."""
        return best_rows(self.table)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, as plain values."""
        return as_json({name: getattr(self, name) for name in PARTS})


@dataclass(frozen=True)
class Answer:
    """An answer that an earlier session wrote into a folder."""

    model: Path
    parts: dict[str, Any]
    """Those of a `Choice`, but for the model."""
    key: str
    value: float | None
    """None for a candidate that was not evaluated."""
    budget: float

    def gives_way_to(self, key: str, value: float | None) -> bool:
        """Whether another may replace it: the same candidate, or one with a higher value."""
        if self.value is None or self.key == key:
            return True
        return value is not None and value > self.value


@checks_arguments({"seed": 0}, example="['dlr2', 'ease']")
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
    begun, seconds = clock(), parse_duration(budget)
    _check(metric, models)
    check_device(device)
    if output is not None:
        check_output_folder(output)
    if items is not None:
        ItemTable.load(items)
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", protocol, PROTOCOLS)
    name = dataset or "log"
    if isinstance(data, str | Path):
        name, source = dataset or Path(data).stem, source or str(data)
        data = load(data, duplicates="all" if include_seen else "first")
    split = data if isinstance(data, Split) else split_by(data, protocol, seed=seed)
    split = split.including_seen(include_seen)
    _check_split(split)
    items = None if items is None else str(items)
    with contextlib.ExitStack() as stack:
        folder = Path(output or stack.enter_context(tempfile.TemporaryDirectory()))
        question: dict[str, Any] = {"data": split.digest, "protocol": split.protocol}
        question |= {"metric": metric, "seed": seed, "items": items}
        kept = folder / "search"
        journal, standing = open_journal(kept, question), read_answer(folder)
        if standing is not None and standing.budget >= seconds:
            return _kept(
                standing, folder, f"the answer for {format_duration(standing.budget)}"
            )
        if not stack.enter_context(journal.claim("search")):
            raise DataError(
                f"another process is searching in {folder}: wait for its end"
            )
        journal.reload()  # it may have ended since
        timer = Timer(seconds, seconds_spent(journal) + spent + clock() - begun, clock)
        tell = progress_lines(progress, timer, metric)
        problem = Problem.of(split, metric, seed=seed, device=device, items=items)
        evaluator = TrialEvaluator(problem, timer, kept)
        reserve = SHARE_FOR_BLEND_AND_REPORT * seconds + SECONDS_FOR_BLEND_AND_REPORT
        search = Search(evaluator, journal, timer, reserve=reserve, tell=tell)
        session = Session(search, folder, name, source or "LOG")
        if standing is not None and timer.left <= search.reserve():
            return _kept(standing, folder, "no time is left to search for a better one")
        if problem.inner is split:
            session.notes.append(TOO_SMALL)
        elif (before := last_decision(journal)) is None or before["budget"] < seconds:
            try:
                run_schedule(search, models)
            except (KeyboardInterrupt, TrainingInterruptedError):
                # Ctrl-C once: the best so far is fitted; twice: nothing is.
                session.notes.append("interrupted: this is the best so far")
                session.is_interrupted = True
        chosen = _finalised(session, standing)
        return chosen if output is not None else replace(chosen, folder=None)


def _finalised(session: Session, standing: Answer | None) -> Choice:
    """The end of the search."""
    folder, before = session.folder, last_decision(session.search.journal)
    if standing is not None:
        is_current = before is not None and before["key"] == standing.key
        if is_current or (session.search.leader is None and standing.value is None):
            return _kept(standing, folder, "the search has found no better candidate")
    done = finalise(session, standing.gives_way_to if standing else lambda *_: True)
    if done is None:
        assert standing is not None
        return _kept(standing, folder, "nothing better could be fitted in time")
    model, parts = done
    return Choice(model, folder=folder, **parts)


def _kept(standing: Answer, folder: Path, why: str) -> Choice:
    """The answer that the folder holds, unchanged."""
    note = f"nothing was written: {folder} keeps {standing.parts['details']['winner']}, {why}"
    return Choice(
        Recommender.load(standing.model), folder=folder, note=note, **standing.parts
    )


def _check_split(split: Split) -> None:
    if len(split.train) == 0:
        raise DataError(
            f"nothing is left to learn from: under {split.protocol} no user has enough "
            f"interactions for a training part; give a log with several interactions per user"
        )


def _check(metric: str, models: Sequence[str] | None) -> None:
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


def read_answer(folder: Path) -> Answer | None:
    """The answer in a folder; None where there is none, or where its files do not belong together.

    A folder that cannot be renamed (the working directory) is filled file by file, and a kill
    may leave a mixture there.
    """
    model, path = find_model(folder), folder / SUMMARY
    if model is None or not path.is_file():
        return None
    try:
        check_manifest(folder, "run", "record.json")
    except DataError:
        return None
    kept = read_object(path)
    try:
        parts = {name: kept[name] for name in PARTS}
        parts["details"] = kept["details"] | {
            name: kept[name] for name in FIRST_DETAILS
        }
        if not all(
            isinstance(row[kept["metric"]], int | float) for row in kept["table"]
        ):
            raise TypeError("a row of its table has no value")
        value = None if kept["value"] is None else float(kept["value"])
        return Answer(model, parts, str(kept["key"]), value, float(kept["budget"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({error}): remove it, and the same command writes it again"
        ) from None

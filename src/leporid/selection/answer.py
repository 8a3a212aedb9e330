"""The answer of a search: what a session fits, and what its folder already holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leporid.artifacts import check_manifest, read_object
from leporid.errors import DataError
from leporid.experiments import FittedRun
from leporid.models import Recommender, find_model
from leporid.selection.candidates import Candidate, Result
from leporid.selection.decision import Decision
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.search import Search

SUMMARY = "chosen.json"
PARTS = ("winner", "metric", "why", "table", "tested", "commands", "elapsed")


@dataclass
class Session:
    """One call of `choose`."""

    search: Search
    folder: Path
    dataset: str
    source: str
    """The log on the command line."""
    decision: Decision = field(default_factory=Decision)
    is_interrupted: bool = False

    @property
    def evaluator(self) -> TrialEvaluator:
        """Of the search."""
        return self.search.evaluator


@dataclass
class FinalModel:
    """What was fitted: one candidate, or the members of a blend."""

    label: str
    members: list[Candidate]
    value: float | None
    """The metric in the search; None for a candidate that was not evaluated."""
    model: Recommender | None = None
    run: FittedRun | None = None
    """The validated model and its record."""
    tested: list[dict[str, Any]] = field(default_factory=list)
    """A row per model on the test part, the chosen one first."""

    @property
    def key(self) -> str:
        """Of the candidate, or of the members."""
        return "+".join(member.key for member in self.members)


@dataclass(frozen=True)
class Answer:
    """An answer that an earlier session wrote into a folder."""

    model: Path
    parts: dict[str, Any]
    """Those of a `Choice`, but for the model."""
    key: str
    value: float | None
    """None for a candidate that was not evaluated, or in folders of 0.7.0."""
    budget: float

    def gives_way_to(self, final: FinalModel) -> bool:
        """Whether `final` may replace it: the same candidate, or one with a higher value."""
        if self.value is None or self.key == final.key:
            return True
        return final.value is not None and final.value > self.value


def with_value(answer: Answer, finished: Sequence[Result]) -> Answer:
    """The answer of an older version with the value of its candidate in the search."""
    for result in finished if answer.value is None else ():
        if result.candidate.label == answer.parts["winner"]:
            return replace(answer, key=result.candidate.key, value=result.value)
    return answer


def read_answer(folder: Path) -> Answer | None:
    """The answer in a folder; None where there is none, or where its files do not belong together.

    A folder that cannot be renamed (the working directory) is filled file by file, and a kill
    may leave a mixture there.
    """
    model, path = find_model(folder), folder / SUMMARY
    if model is None or not path.is_file():
        return None
    try:
        check_manifest(folder, "run", "record.json", required=False)
    except DataError:
        return None
    kept = read_object(path)
    try:
        parts = {name: kept[name] for name in PARTS}
        parts["table"] = [
            {"init" if key == "start" else key: value for key, value in row.items()}  # 0.7
            for row in kept["table"]
        ]
        value, budget = kept.get("value"), float(kept["budget"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({error}): remove it, and the same command writes it again"
        ) from None
    key, value = str(kept.get("key", "")), None if value is None else float(value)
    return Answer(model, parts, key, value, budget)

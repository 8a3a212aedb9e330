"""The answer that a folder holds: what it is, and what may replace it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leporid.artifacts import check_manifest, read_object
from leporid.errors import DataError
from leporid.models import find_model
from leporid.selection.candidates import Candidate
from leporid.selection.search import Result

SUMMARY = "chosen.json"
_PARTS = ("winner", "metric", "why", "table", "tested", "commands", "elapsed")


@dataclass(frozen=True)
class Answer:
    """An answer that was written with its model."""

    model: Path
    parts: dict[str, Any]
    """Those of a `Choice`, but for the model."""
    key: str
    """Of the candidate, or of the members of a blend."""
    value: float | None
    """The metric in the race; None where it was not judged, or where an older version wrote it."""
    budget: float
    is_complete: bool
    """Whether the end came to its last line."""

    def gives_way_to(self, members: Sequence[Candidate], value: float | None) -> bool:
        """Whether this may take its place: the same again, or one with a higher value."""
        if self.value is None or self.key == "+".join(member.key for member in members):
            return True
        return value is not None and value > self.value


def known_from(answer: Answer, finished: Sequence[Result]) -> Answer:
    """The answer of an older version with what the race knows of its candidate."""
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
        parts = {name: kept[name] for name in _PARTS}
        value, budget = kept.get("value"), float(kept["budget"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({error}): remove it, and the same command writes it again"
        ) from None
    key, complete = str(kept.get("key", "")), bool(kept.get("complete", True))
    return Answer(model, parts, key, None if value is None else float(value), budget, complete)

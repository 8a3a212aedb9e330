"""`Answer`: everything that `choose` says besides the model; and the one in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from leporid.errors import DataError
from leporid.foundation import JsonValue, check_manifest, read_object
from leporid.models import find_model

SUMMARY = "chosen.json"
Row: TypeAlias = dict[str, Any]
"""A row of a table: values by column, one of which is named by the metric."""


@dataclass(frozen=True)
class Answer:
    """Everything that `choose` says besides the model, as plain JSON values."""

    why: str
    table: list[Row]
    tested: list[Row]
    commands: list[str]
    details: Row

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Answer:
        """Return the answer that `to_dict` has made into a mapping."""
        first = {name: values[name] for name in ("winner", "metric", "elapsed")}
        return cls(
            why=values["why"],
            table=values["table"],
            tested=values["tested"],
            commands=values["commands"],
            details={**values["details"], **first},
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain values; the most important details stand before all."""
        return {
            "winner": self.details["winner"],
            "metric": self.details["metric"],
            "elapsed": self.details["elapsed"],
            "why": self.why,
            "table": [*self.table],
            "tested": [*self.tested],
            "commands": [*self.commands],
            "details": self.details,
        }


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that an earlier session wrote into a folder."""

    model: Path
    """The folder of its model."""
    answer: Answer
    key: str
    """The key of what was decided."""
    value: float | None
    """The metric on the inner validation split; None for a candidate that was not evaluated."""
    budget: float

    def gives_way_to(self, key: str, value: float | None) -> bool:
        """Tell whether another may replace it: the same candidate, or one with a higher value."""
        if self.value is None or self.key == key:
            return True
        return value is not None and value > self.value


def read_answer(folder: Path) -> StoredAnswer | None:
    """Read the answer in a folder; None if there is none, or if its files do not belong together.

    A folder that cannot be renamed (the working directory) is filled file by file, and a kill
    may leave a mixture there.
    """
    model = find_model(folder)
    path = folder / SUMMARY
    if model is None or not path.is_file():
        return None
    try:
        check_manifest(folder, "run", "record.json")
    except DataError:
        return None
    document = read_object(path)
    try:
        answer = Answer.from_dict(document)
        values = (row[document["metric"]] for row in answer.table)
        if not all(isinstance(value, int | float) for value in values):
            raise TypeError("a row of its table has no value")
        value = document["value"]
        return StoredAnswer(
            model,
            answer,
            key=str(document["key"]),
            value=None if value is None else float(value),
            budget=float(document["budget"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({error}): remove it, and the same command writes it again"
        ) from None

"""The answer that a folder holds, and what may replace it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leporid.artifacts import check_manifest, read_object
from leporid.errors import DataError
from leporid.models import find_model

SUMMARY = "chosen.json"
PARTS = ("why", "table", "tested", "commands", "details")
FIRST_DETAILS = ("winner", "metric", "elapsed")


def as_json(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a `Choice` as the file has them: the first details stand before all."""
    return {name: parts["details"][name] for name in FIRST_DETAILS} | parts


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
    kept = {"details": {}, **read_object(path)}  # 0.7 has no details
    try:
        parts = {name: kept[name] for name in PARTS}
        parts["details"] = kept["details"] | {name: kept[name] for name in FIRST_DETAILS}
        parts["table"] = [
            {"init" if key == "start" else key: value for key, value in row.items()}  # 0.7
            for row in kept["table"]
        ]
        found = [float(row[kept["metric"]]) for row in parts["table"]]
        value = kept.get("value", max(found, default=None))  # 0.7 has no value
        value = None if value is None else float(value)
        return Answer(model, parts, str(kept.get("key", "")), value, float(kept["budget"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({error}): remove it, and the same command writes it again"
        ) from None

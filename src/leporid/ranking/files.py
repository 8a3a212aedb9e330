"""`write_recommendations`: the lists of any number of users in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from leporid.errors import ConfigError
from leporid.foundation import (
    Progress,
    atomic_path,
    check_output_file,
    checks_arguments,
    described,
)
from leporid.ranking.allowed import Ids, allowed_items
from leporid.ranking.asked_users import Unknown, asked_users
from leporid.ranking.bound_rules import BoundRules
from leporid.ranking.lists import UserRanker, list_frames, list_schema

if TYPE_CHECKING:
    # `checks_arguments` leaves this one to the function: a model itself says if it is not fitted.
    from leporid.ranking.lists import ListModel


@checks_arguments()
def write_recommendations(  # noqa: PLR0913 (options are spelled out)
    model: ListModel,
    target: str | Path,
    users: Any = None,
    n: int = 10,
    *,
    unknown: Unknown = "error",
    include_seen: bool | None = None,
    only: Ids = None,
    exclude: Ids = None,
    rules: BoundRules | None = None,
    progress: Progress = None,
) -> int:
    """Write the rows of `model.recommend_frame` into `target`, in bounded memory; return how many.

    The suffix is the format: `.parquet`, `.csv` or `.jsonl`. The file appears when it is complete.
    """
    if isinstance(model, type) or not isinstance(model, UserRanker):
        raise ConfigError(
            f"write_recommendations: model must be a Recommender, not {described(model)}"
        )
    asked = asked_users(model.users, users, unknown, model.name).distinct()
    allowed = allowed_items(model.users, model.items, asked, only, exclude, rules)
    names = asked.names(model.users)
    frames = list_frames(model, asked, names, n, include_seen, allowed, progress)
    return write_frames(frames, list_schema(names, model.items), Path(target))


def write_frames(
    frames: Iterable[pa.Table],
    schema: pa.Schema,
    target: Path,
) -> int:
    """Write tables into one file, which appears when it is complete; return how many rows."""
    if target.suffix not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise ConfigError(f"{target}: the suffix is the format, choose one of {known}")
    check_output_file(target)
    open_writer = _WRITERS[target.suffix]
    n_rows = 0
    with atomic_path(target) as path, open_writer(path, schema) as writer:
        for table in frames:
            writer.write_table(table)
            n_rows += table.num_rows
    return n_rows


class _TableWriter(Protocol):
    """What writes tables one after the other into an open file."""

    def write_table(self, table: pa.Table) -> None: ...


class _JsonLinesWriter:
    """Writes a line of JSON for each row."""

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
    ) -> None:
        self._file = path.open("w", encoding="utf-8")

    def __enter__(self) -> _JsonLinesWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write_table(self, table: pa.Table) -> None:
        """Write the rows with nine digits of the score, which is all that float32 has."""
        for row in table.to_pylist():
            row["score"] = float(f"{row['score']:.9g}")
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")


_WRITERS: dict[
    str,
    Callable[[Path, pa.Schema], AbstractContextManager[_TableWriter]],
] = {
    ".parquet": pyarrow.parquet.ParquetWriter,
    ".csv": pyarrow.csv.CSVWriter,
    ".jsonl": _JsonLinesWriter,
}
"""What opens a file of recommendations, by its suffix."""

"""`write_recommendations`: the lists of any number of users in one file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from leporid.artifacts import atomic_path
from leporid.errors import ConfigError
from leporid.models.shared.lists import Ids, allowed_items, frame_schema
from leporid.models.shared.recommender import Recommender
from leporid.progress import ProgressLike, make_progress

_FORMATS: dict[str, Callable[[Path, pa.Schema], Any]] = {
    ".parquet": pyarrow.parquet.ParquetWriter,
    ".csv": pyarrow.csv.CSVWriter,
    ".jsonl": lambda path, schema: path.open("w", encoding="utf-8"),
}
"""What opens a file of each format."""


class WrittenRecommendations(NamedTuple):
    """What `write_recommendations` wrote."""

    path: Path
    users: int
    rows: int


def write_recommendations(
    model: Recommender,
    target: str | Path,
    users: Any = None,
    n: int = 10,
    exclude_seen: bool = True,
    *,
    only: Ids = None,
    exclude: Ids = None,
    progress: bool | ProgressLike | None = None,
) -> WrittenRecommendations:
    """Write the rows of `model.recommend_frame` into `target`, in bounded memory.

    The suffix is the format: `.parquet`, `.csv` or `.jsonl`. The file appears when it is complete.
    """
    target = Path(target)
    if target.suffix not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise ConfigError(f"{target}: the suffix is the format, choose one of {known}")
    index, allowed = model._all_or(users), allowed_items(model.items, only, exclude)
    schema, rows, reporter = frame_schema(model.users, model.items), 0, make_progress(progress)
    reporter.start("recommending", len(index))
    with atomic_path(target) as path, _FORMATS[target.suffix](path, schema) as file:
        for count, table in model._tables(index, n, exclude_seen, allowed):
            if target.suffix == ".jsonl":
                for row in table.to_pylist():
                    row["score"] = float(f"{row['score']:.9g}")  # all that float32 has
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            else:
                file.write_table(table)
            rows += table.num_rows
            reporter.advance(count)
    reporter.close()
    return WrittenRecommendations(target, len(index), rows)

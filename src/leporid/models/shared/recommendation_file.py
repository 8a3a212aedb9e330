"""`write_recommendations`: the lists of any number of users in one file.

The rows are computed in parts of a fixed number of users, kept in a folder beside the target and
joined in the end. A run that was broken off goes on after its last whole part, and ends with the
same bytes: the size of a batch is part of the plan that the folder holds.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from leporid.artifacts import atomic_path, read_json, write_json
from leporid.config import canonical_hash
from leporid.errors import ConfigError, DataError
from leporid.evaluation import chunk_rows
from leporid.models.shared.lists import Ids, allowed_items, check_n, frame_schema
from leporid.models.shared.recommender import Recommender
from leporid.progress import ProgressLike, make_progress

_ROWS = 2**17
"""Rows of a part, at least (but for one batch that is larger): a row group of the file."""

_FORMATS: dict[str, Callable[[Path, pa.Schema], Any]] = {
    ".parquet": pyarrow.parquet.ParquetWriter,
    ".csv": pyarrow.csv.CSVWriter,
    ".jsonl": lambda path, schema: path.open("w", encoding="utf-8"),
}
"""What opens a file of each format."""


@dataclass(frozen=True)
class WrittenRecommendations:
    """What `write_recommendations` did."""

    path: Path
    users: int
    rows: int
    resumed_users: int
    """Users whose lists an earlier run had left; 0 where it did not have to go on."""


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

    The suffix is the format: `.parquet`, `.csv` or `.jsonl`. Parts are kept in the folder
    `target` + ".parts" until all are there; the same call again after a kill goes on with them.
    """
    target = Path(target)
    if target.suffix not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise ConfigError(f"{target}: the suffix is the format, choose one of {known}")
    check_n(n)
    index, allowed = model._all_or(users), allowed_items(model.items, only, exclude)
    folder = target.with_name(f"{target.name}.parts")
    plan = {
        "model": _model_hash(model),
        "n": int(n),
        "exclude_seen": exclude_seen,
        "users": hashlib.sha256(index.tobytes()).hexdigest()[:16],
        "items": None if allowed is None else hashlib.sha256(allowed.tobytes()).hexdigest()[:16],
    }
    step = _agree(folder, plan, chunk_rows(model.known.n_items))
    size = step * max(1, -(-_ROWS // (step * n)))
    parts = [folder / f"{first:012d}.parquet" for first in range(0, len(index), size)]
    reporter, resumed = make_progress(progress), 0
    reporter.start("recommending", len(index))
    for number, part in enumerate(parts):
        some = index[number * size : (number + 1) * size]
        if part.is_file():
            resumed += len(some)
            reporter.advance(len(some))
            continue
        tables = []
        for count, table in model._tables(some, n, exclude_seen, allowed, step):
            tables.append(table)
            reporter.advance(count)
        with atomic_path(part) as path:
            pyarrow.parquet.write_table(pa.concat_tables(tables), path)
    reporter.close()
    rows = _join(parts, target, frame_schema(model.users, model.items))
    shutil.rmtree(folder)
    return WrittenRecommendations(target, len(index), rows, resumed)


def _agree(folder: Path, plan: dict[str, Any], step: int) -> int:
    """The users of a batch: those of the run that left the folder, else `step`."""
    path = folder / "plan.json"
    if not path.is_file():
        write_json(path, {**plan, "step": step})
        return step
    before = read_json(path)
    differing = [key for key, value in plan.items() if before.get(key) != value]
    if differing:
        raise DataError(
            f"{folder} holds parts of another run (it differs in: {', '.join(differing)}): "
            f"repeat that one to finish it, or remove the folder"
        )
    return int(before["step"])


def _join(parts: list[Path], target: Path, schema: pa.Schema) -> int:
    """All parts as one file; returns the number of rows."""
    rows, suffix = 0, target.suffix
    with atomic_path(target) as path, _FORMATS[suffix](path, schema) as file:
        for part in parts:
            table = pyarrow.parquet.read_table(part)
            rows += table.num_rows
            if suffix == ".parquet":
                file.write_table(table, row_group_size=max(1, table.num_rows))
            elif suffix == ".csv":
                file.write_table(table)
            else:
                for row in table.to_pylist():
                    row["score"] = float(f"{row['score']:.9g}")  # all that float32 has
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return rows


def _model_hash(model: Recommender) -> str:
    """Of everything that can change a list: settings, what was learnt, and what is known."""
    hasher = hashlib.blake2b(canonical_hash(model.config.to_dict()).encode(), digest_size=8)
    hasher.update(f"{model.name} {model.known.digest}".encode())
    for name, array in sorted(model._arrays().items()):
        hasher.update(name.encode())
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()

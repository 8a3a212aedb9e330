"""`load`: any log of interactions, from anywhere, as `Interactions`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from leporid.data.datasets import DATASETS, fetch
from leporid.data.interactions import Interactions
from leporid.data.policies import to_interactions
from leporid.data.readers import is_frame, read_frame, read_matrix, read_parquet
from leporid.data.text_files import read_text
from leporid.errors import DataError, closest

__all__ = ["load"]


def load(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    time: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> Interactions:
    """Read an interaction log; `.source` says what was guessed of what the arguments leave open.

    Parameters
    ----------
    source : path, data set name, pandas or polars frame, pyarrow table, mapping or sparse matrix
        A delimited text file (also gzip), a RecBole `.inter` file, a parquet file, a directory
        of parquet files; 'ml-100k', 'ml-1m', 'ml-20m', 'steam' or 'anime' (a path of that name
        wins); a table with named columns; a scipy sparse matrix with users as rows, whose
        positions are the ids.
    user, item, time, rating : name or place (from 0) of a column that has no usual name
    min_rating : keep rows with at least this rating; the others are counted in `.dropped`
    separator, header, encoding : of a text file, where its first line does not show them

    Returns
    -------
    Interactions
        Distinct pairs. `.dropped` counts the rows each policy left out (docs/data.md), and
        missing values also give one `LeporidWarning`.
    """
    requested = {"user": user, "item": item, "time": time, "rating": rating}
    need_rating = min_rating is not None
    if hasattr(source, "tocoo"):
        raw = read_matrix(source)
    elif isinstance(source, str | os.PathLike):
        path = _locate(source)
        if _is_parquet(path):
            raw = read_parquet(path, requested, need_rating)
        else:
            raw = read_text(path, requested, need_rating, separator, header, encoding)
    elif is_frame(source):
        raw = read_frame(source, requested, need_rating)
    else:
        raise DataError(
            f"cannot load a {type(source).__name__}: give a path, a data set name, a pandas or "
            f"polars frame, a pyarrow table or a scipy sparse matrix"
        )
    return to_interactions(raw, min_rating)


def _locate(source: str | os.PathLike[str]) -> Path:
    """The file or directory of that path, or the log of the data set of that name."""
    path = Path(source).expanduser()
    if path.exists():
        return path
    if str(source) in DATASETS:
        return fetch(str(source)).interactions
    guess = closest(str(source), DATASETS)
    hint = f"did you mean the data set {guess!r}?" if guess else f"data sets: {', '.join(DATASETS)}"
    raise DataError(f"no such file: {source} ({hint})")


def _is_parquet(path: Path) -> bool:
    """A directory, or a file by its content: a parquet file may have any name."""
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        return True
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"

"""`load`: any log of interactions, from anywhere, as `Interactions`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leporid.data.interactions import Interactions
from leporid.data.policies import apply_policies
from leporid.data.raw import LoadReport, RawTable
from leporid.data.readers import is_frame, read_frame, read_matrix, read_parquet
from leporid.data.text_files import read_text
from leporid.errors import DataError, closest

__all__ = ["LoadReport", "load"]


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
    """Read an interaction log; what is not given is found, and `.source` says what was found.

    Parameters
    ----------
    source : path, data set name, pandas or polars frame, pyarrow table, mapping or sparse matrix
        A delimited text file (also gzip), a RecBole `.inter` file, a parquet file, a directory
        of parquet files; 'ml-100k', 'ml-1m', 'ml-20m', 'steam' or 'anime' (a path of that name
        wins); a table with named columns; a scipy sparse matrix with users as rows, whose
        positions are the ids.
    user, item, time, rating : name or place (from 0) of a column, where it is not found by name
    min_rating : keep rows with at least this rating; the others are counted in `.dropped`
    separator, header, encoding : of a text file, where they are not found

    Returns
    -------
    Interactions
        Distinct pairs. `.dropped` counts the rows each policy left out (docs/data.md), and
        missing values also give one `LeporidWarning`.
    """
    given = {"user": user, "item": item, "time": time, "rating": rating}
    need_rating = min_rating is not None
    if hasattr(source, "tocoo"):
        shape = (int(source.shape[0]), int(source.shape[1]))
        return apply_policies(read_matrix(source), min_rating, shape=shape)
    if isinstance(source, str | os.PathLike):
        path, known = _locate(source)
        given = {role: known.get(role) if name is None else name for role, name in given.items()}
        raw = _read_path(path, given, separator, header, encoding, need_rating)
    elif is_frame(source):
        raw = read_frame(source, given, need_rating=need_rating)
    else:
        raise DataError(
            f"cannot load a {type(source).__name__}: give a path, a data set name, a pandas or "
            f"polars frame, a pyarrow table or a scipy sparse matrix"
        )
    return apply_policies(raw, min_rating)


def _locate(source: str | os.PathLike[str]) -> tuple[Path, Mapping[str, str | int]]:
    """The file of a path or of a data set name, and what is known of its columns."""
    path = Path(source).expanduser()
    if path.exists():
        return path, {}
    from leporid.data.datasets import DATASETS, fetch

    if str(source) in DATASETS:
        files = fetch(str(source))
        return files.interactions, files.columns
    guess = closest(str(source), DATASETS)
    hint = f"did you mean the data set {guess!r}?" if guess else f"data sets: {', '.join(DATASETS)}"
    raise DataError(f"no such file: {source} ({hint})")


def _read_path(
    path: Path,
    given: Mapping[str, str | int | None],
    separator: str | None,
    header: bool | None,
    encoding: str,
    need_rating: bool,
) -> RawTable:
    if path.is_dir() or _is_parquet(path):
        return read_parquet(path, given, need_rating=need_rating)
    return read_text(
        path,
        given,
        separator=separator,
        header=header,
        encoding=encoding,
        need_rating=need_rating,
    )


def _is_parquet(path: Path) -> bool:
    """By content, so that a parquet file of any name is read as one."""
    if path.suffix in (".parquet", ".pq"):
        return True
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"

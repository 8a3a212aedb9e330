"""Titles and genres of items, for people who read recommendations."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from leporid.data.columns import normalise
from leporid.data.datasets import DATASETS, fetch
from leporid.errors import DataError

_ML_100K_GENRES = (
    "unknown|Action|Adventure|Animation|Children's|Comedy|Crime|Documentary|Drama|Fantasy|"
    "Film-Noir|Horror|Musical|Mystery|Romance|Sci-Fi|Thriller|War|Western"
)
"""The order of the flags in u.item."""


class ItemInfo(NamedTuple):
    """What a person calls an item."""

    title: str
    genres: tuple[str, ...] = ()


def load_items(source: str | os.PathLike[str]) -> dict[Any, ItemInfo]:
    """External item id to title and genres.

    Parameters
    ----------
    source : the name of a data set ('ml-100k', 'ml-1m', 'ml-20m', 'anime'), or a file: a
        MovieLens `u.item` or `movies.dat`, a RecBole `.item`, or parquet or CSV with an item, a
        title (or name) and perhaps a genres column
    """
    path = Path(source).expanduser()
    if not path.exists():
        if str(source) not in DATASETS:
            raise DataError(f"no such file: {source}")
        titles = fetch(str(source)).items
        if titles is None:
            raise DataError(f"the data set {str(source)!r} comes without item titles")
        path = titles
    items = dict(_titles(path, *_table(path)))
    if not items:
        raise DataError(f"{path} holds no items")
    whole = all(re.fullmatch(r"-?(0|[1-9]\d*)", key) for key in items)
    return {int(key): info for key, info in items.items()} if whole else {**items}


def rarest_genres(
    genres: Sequence[tuple[str, ...]], most: int
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Each item's rarest among the `most` common genres: "Drama" on everything would say little.

    Returns the genres' names, the most common first, and an index into them per item,
    int32[n_items]. Items with none of them share a last name, "other"; without any genres there
    are no names and the indices are -1.
    """
    count = Counter(name for names in genres for name in names)
    common = [name for name, _ in count.most_common(most)]
    if not common:
        return (), np.full(len(genres), -1, np.int32)
    shared = [[name for name in names if name in common] for names in genres]
    own = [min(names, key=lambda name: count[name], default="other") for names in shared]
    names = (*common, *({"other"} - set(common) if "other" in own else ()))
    return names, np.asarray([names.index(name) for name in own], np.int32)


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names of the columns and the rows."""
    if path.suffix in (".parquet", ".pq"):
        table = pa_parquet.read_table(path)
        values = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return table.column_names, [["" if v is None else str(v) for v in row] for row in values]
    lines = [line.rstrip("\r") for line in _text(path).split("\n") if line.strip()]
    if path.name == "u.item":
        names, records = _ML_100K_GENRES.split("|"), [line.split("|") for line in lines]
        genres = [" ".join(compress(names, map(int, record[5:]))) for record in records]
        rows = [[r[0], r[1], listed] for r, listed in zip(records, genres, strict=True)]
        return ["item", "title", "genres"], rows
    if path.suffix == ".dat":
        records = [line.split("::") for line in lines]
        return ["item", "title", "genres"], [[r[0], "::".join(r[1:-1]), r[-1]] for r in records]
    if path.suffix == ".item":
        records = [line.split("\t") for line in lines]
    else:
        records = list(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))
    return (records[0] if records else []), records[1:]


def _text(path: Path) -> str:
    """MovieLens' old files are Latin-1, everything newer is UTF-8."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _titles(
    path: Path, names: list[str], records: list[list[str]]
) -> Iterator[tuple[str, ItemInfo]]:
    spelled = [normalise(name) for name in names]

    def place(candidates: str) -> int | None:
        return next((spelled.index(name) for name in candidates.split() if name in spelled), None)

    key = place("itemid movieid animeid item id asin productid appid")
    title = place("title movietitle name itemname productname appname")
    if key is None or title is None:
        raise DataError(
            f"{path} needs an item and a title column (columns found: {', '.join(names)})"
        )
    genres, year = place("genres genre class categories category tags"), place("releaseyear")
    for number, fields in enumerate(records, start=2):
        if len(fields) != len(names):
            raise DataError(
                f"{path}, line {number}: expected {len(names)} columns, got {len(fields)}"
            )
        dated = f" ({fields[year]})" if year is not None and fields[year] else ""
        listed = () if genres is None else _genres(fields[genres], path.suffix)
        yield fields[key], ItemInfo(fields[title] + dated, tuple(listed))


def _genres(text: str, suffix: str) -> list[str]:
    separator = " " if suffix == ".item" else "|"
    if separator not in text and ", " in text:
        separator = ","
    return [genre.strip() for genre in text.split(separator) if genre.strip()]

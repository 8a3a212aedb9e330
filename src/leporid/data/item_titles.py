"""Titles and genres of items, for people who read recommendations."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.data.columns import normalise
from leporid.errors import DataError

__all__ = ["ItemInfo", "load_items", "rarest_genres"]

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
        from leporid.data.datasets import DATASETS, fetch

        if str(source) not in DATASETS:
            raise DataError(f"no such file: {source}")
        titles = fetch(str(source)).items
        if titles is None:
            raise DataError(f"the data set {str(source)!r} comes without item titles")
        path = titles
    rows = list(_rows(path))
    if not rows:
        raise DataError(f"{path} holds no items")
    whole = all(_is_whole(key) for key, _, _ in rows)
    return {
        int(key) if whole else key: ItemInfo(title, tuple(genres)) for key, title, genres in rows
    }


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


def _is_whole(key: str) -> bool:
    digits = key.removeprefix("-")
    return digits.isdecimal() and (digits == "0" or not digits.startswith("0"))


def _rows(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    if path.suffix in (".parquet", ".pq"):
        import pyarrow.parquet as pa_parquet

        table = pa_parquet.read_table(path)
        records = [["" if v is None else str(v) for v in row.values()] for row in table.to_pylist()]
        yield from _named_rows(path, table.column_names, records)
        return
    lines = [line.rstrip("\r") for line in _text(path).split("\n") if line.strip()]
    if path.name == "u.item":
        for fields in (line.split("|") for line in lines):
            flags = zip(_genres(_ML_100K_GENRES), fields[5:], strict=False)
            yield fields[0], fields[1], [genre for genre, flag in flags if flag == "1"]
    elif path.suffix == ".dat":
        for fields in (line.split("::") for line in lines):
            yield fields[0], "::".join(fields[1:-1]), _genres(fields[-1])
    else:
        if path.suffix == ".item":
            records = [line.split("\t") for line in lines]
        else:
            records = list(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))
        yield from _named_rows(path, records[0] if records else [], records[1:])


def _text(path: Path) -> str:
    """MovieLens' old files are Latin-1, everything newer is UTF-8."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _named_rows(
    path: Path, names: list[str], records: list[list[str]]
) -> Iterator[tuple[str, str, list[str]]]:
    spelled = [normalise(name) for name in names]

    def place(*candidates: str) -> int | None:
        return next((spelled.index(name) for name in candidates if name in spelled), None)

    key = place("itemid", "movieid", "animeid", "item", "id", "asin", "productid", "appid")
    title = place("title", "movietitle", "name", "itemname", "productname", "appname")
    if key is None or title is None:
        raise DataError(
            f"{path} needs an item and a title column (columns found: {', '.join(names)})"
        )
    genres = place("genres", "genre", "class", "categories", "category", "tags")
    year = place("releaseyear")
    for number, fields in enumerate(records, start=2):
        if len(fields) != len(names):
            raise DataError(
                f"{path}, line {number}: expected {len(names)} columns, got {len(fields)}"
            )
        named = fields[title]
        if year is not None and fields[year]:
            named += f" ({fields[year]})"
        listed = _genres(fields[genres], " " if path.suffix == ".item" else "|") if genres else []
        yield fields[key], named, listed


def _genres(text: str, separator: str = "|") -> list[str]:
    if separator not in text and ", " in text:
        separator = ","
    return [genre.strip() for genre in text.split(separator) if genre.strip()]

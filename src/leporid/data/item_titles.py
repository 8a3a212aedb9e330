"""Titles and genres of items, for people who read recommendations."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from leporid.data.columns import listed, place_of
from leporid.data.datasets import DATASETS, fetch
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.data.source_file import SourceFile, in_words, located, reading, shortened
from leporid.data.text_files import read_lines, read_rows
from leporid.errors import DataError, UnknownNameError

_ML_100K_GENRES = (
    "unknown|Action|Adventure|Animation|Children's|Comedy|Crime|Documentary|Drama|Fantasy|"
    "Film-Noir|Horror|Musical|Mystery|Romance|Sci-Fi|Thriller|War|Western"
)
"""The order of the flags in u.item."""


ID_NAMES = (
    "itemid movieid animeid item id asin productid appid movie artistid trackid songid bookid isbn "
    "gameid articleid newsid videoid parentasin businessid sku"
)
_TITLE_NAMES = (
    "title movietitle name itemname productname appname itemtitle producttitle moviename "
    "artistname trackname songname booktitle animename englishtitle gamename videotitle"
)
GENRE_NAMES = "genres genre class categories category tags"
"""Spellings after `normalise`, the surest first."""


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
    items = dict(_titles(read_item_table(source)))
    if not items:
        raise DataError(f"{source} holds no items")
    whole = all(re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", key) for key in items)
    return {int(key): info for key, info in items.items()} if whole else {**items}


def titles_of(items: IdMap, source: str | os.PathLike[str]) -> list[ItemInfo]:
    """Title and genres of every item, by index; one the file does not name is its own id.

    A file that names none of them belongs to other items: a `DataError`.
    """
    named = {str(key): info for key, info in load_items(source).items()}
    keys = [str(key) for key in items.ids.to_pylist()]
    if not any(key in named for key in keys):
        raise DataError(
            f"{source} has the title of none of the {len(keys):,} items: its ids are such as "
            f"{next(iter(named))!r}, those of the model such as {keys[0]!r}"
        )
    return [named.get(key) or ItemInfo(key) for key in keys]


def items_where(
    source: str | os.PathLike[str], column: str, *values: str, among: IdMap | None = None
) -> list[Any]:
    """The ids of the items that have one of `values` in a column of a file about items.

    Parameters
    ----------
    source : a file or data set, as for `load_items`; it needs no titles
    column : its name in any spelling, "genre" for "genres" too
    values : in any case; a cell may list several, as in "Drama|War"
    among : the items that count, such as `model.items`; None for all in the file
    """
    table = read_item_table(source)
    place, key = (place_of(table.names, name) for name in (f"{column} {column}s", ID_NAMES))
    if place is None:
        raise UnknownNameError(f"column of {source}:", column, table.names)
    if key is None:
        raise DataError(f"{table.path} needs a column of item ids {_found(table)}")
    wanted = {value.casefold().strip() for value in values}
    ids: list[Any] = []
    present: Counter[str] = Counter()
    for fields in table.records:
        if among is not None and len(among.split_known([fields[key]])[0]) == 0:
            continue
        cell = fields[place].casefold().strip()
        parts = {cell, *(part.casefold() for part in _genres(fields[place], table.path.suffix))}
        present.update(parts)
        if wanted & parts:
            ids.append(fields[key])
    if not ids:
        known = ", ".join(name for name, _ in present.most_common(10))
        raise DataError(
            f"no item of {source} has {column}={','.join(values)}; there are {known or 'none'}"
        )
    return ids


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


class ItemTable(NamedTuple):
    """A file about items, as text."""

    path: Path
    names: list[str]
    records: list[list[str]]


def read_item_table(source: str | os.PathLike[str]) -> ItemTable:
    """The file about items with this path, or of the data set of this name."""
    path = located(source)
    if not os.path.exists(path):
        if str(source) not in DATASETS:
            raise DataError(f"no such file: {source}")
        titles = fetch(str(source)).items
        if titles is None:
            raise DataError(f"the data set {str(source)!r} comes without item titles")
        path = titles
    with reading(path) as file:
        return ItemTable(path, *_columns_and_rows(file))


def _columns_and_rows(file: SourceFile) -> tuple[list[str], list[list[str]]]:
    """The names of the columns and the rows."""
    path = file.path
    if file.is_parquet():
        with in_words(str(path), "is not a whole parquet file"):
            table = pa_parquet.read_table(file.content)
        texts = [_as_text(column) for column in table.columns]
        names = list(compress(table.column_names, (text is not None for text in texts)))
        columns = (text for text in texts if text is not None)
        return names, [list(row) for row in zip(*columns, strict=True)]
    if path.name == "u.item" or path.suffix == ".dat":
        separator = "|" if path.name == "u.item" else "::"
        records = [line.split(separator) for line in read_lines(file)]
        return ["item", "title", "genres"], [_movielens(path, fields) for fields in records]
    separator = "\t" if path.suffix in (".item", ".tsv") else ","
    records = read_rows(file, separator, quoting=path.suffix != ".item")
    return records[0], records[1:]


def _movielens(path: PurePath, fields: list[str]) -> list[str]:
    """Item, title and genres; those of u.item are flags in the order of `_ML_100K_GENRES`."""
    flags = fields[5:]
    if path.suffix == ".dat" and len(fields) >= 3:
        return [fields[0], "::".join(fields[1:-1]), fields[-1]]
    if path.name == "u.item" and flags and set(flags) <= {"0", "1"}:
        genres = compress(_ML_100K_GENRES.split("|"), map(int, flags))
        return [fields[0], fields[1], " ".join(genres)]
    row = shortened("|".join(fields), 60)
    raise DataError(f"{path}: a row has no item, title and genres, as MovieLens has them: {row!r}")


def _as_text(column: pa.ChunkedArray) -> list[str] | None:
    """A column as text, lists with `|` between their parts; None for what is no text."""
    try:
        values = uuids_as_text(column.combine_chunks())
        if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            text = pc.binary_join(values, "|")
        else:
            text = values.cast(pa.string())
    except pa.ArrowException:
        return None
    return list(pc.fill_null(text, "").to_pylist())


def _titles(table: ItemTable) -> Iterator[tuple[str, ItemInfo]]:
    wanted = (ID_NAMES, _TITLE_NAMES, GENRE_NAMES, "releaseyear")
    key, title, genres, year = (place_of(table.names, names) for names in wanted)
    if key is None or title is None:
        raise DataError(f"{table.path} needs an item and a title column {_found(table)}")
    for fields in table.records:
        dated = f" ({fields[year]})" if year is not None and fields[year] else ""
        listed = () if genres is None else _genres(fields[genres], table.path.suffix)
        yield fields[key], ItemInfo(fields[title] + dated, tuple(listed))


def _found(table: ItemTable) -> str:
    return f"(columns found: {listed(table.names)})"


def _genres(text: str, suffix: str) -> list[str]:
    separator = " " if suffix == ".item" else "|"
    if separator not in text and ", " in text:
        separator = ","
    return [genre.strip() for genre in text.split(separator) if genre.strip()]

"""What is known of items: `ItemTable`, and the titles, genres and filters that it answers.

`UserTable` is the same for users.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from leporid.data.arrays import AnyArray
from leporid.data.cells import null_unless
from leporid.data.columns import USUAL_NAMES, listed, position_of
from leporid.data.datasets import DATASETS, fetch
from leporid.data.delimited import read_lines, text_table
from leporid.data.files import SourceFile, in_words, located, reading
from leporid.data.frames import converted, frame_columns
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.data.vector_files import VECTOR_READERS
from leporid.errors import DataError, shortened
from leporid.foundation import read_arrays

_VECTOR_FILES = {".npy": "npy", ".itememb": "recbole"}
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^(?i:nan)$"
_ID_NAMES = (
    "itemid movieid animeid item id asin productid appid movie artistid trackid songid bookid isbn "
    "gameid articleid newsid videoid parentasin businessid sku"
)
_TITLE_NAMES = (
    "title movietitle name itemname productname appname itemtitle producttitle moviename "
    "artistname trackname songname booktitle animename englishtitle gamename videotitle"
)
_PICTURE_NAMES = (
    "imageurl image pictureurl picture posterurl poster coverurl cover thumbnail"
)
_PICTURE = re.compile(r"https?://[A-Za-z0-9.:-]+/[^\s|]+|data:image/[^\s|]+")
GENRE_NAMES = "genres genre class categories category tags"
"""Spellings after `normalise`, the surest first."""
_ML_100K_GENRES = (
    "unknown|Action|Adventure|Animation|Children's|Comedy|Crime|Documentary|Drama|Fantasy|"
    "Film-Noir|Horror|Musical|Mystery|Romance|Sci-Fi|Thriller|War|Western"
)
"""The order of the flags in u.item."""


@dataclass(frozen=True, eq=False)
class ItemTable:
    """A table about items, one row per item."""

    kind: ClassVar[str] = "item"
    id_names: ClassVar[str] = _ID_NAMES
    name: str
    """The file it came from, for messages."""
    ids: pa.Array
    raw: dict[str, pa.Array]
    """The other columns, as they were read."""

    @classmethod
    def load(cls, source: object) -> Self:
        """Read a table about items.

        It is a file: parquet or CSV with a column of item ids, a MovieLens `u.item` or
        `movies.dat`, a RecBole `.item`; vectors by id: `.npy` with `.ids.npy` beside it,
        RecBole's `.itememb`, the safetensors file of `leporid embed`; the name of a data set
        ('ml-100k', 'anime'); or a table in memory (Arrow, pandas, Polars, a dict of columns).
        """
        if isinstance(source, cls):
            return source
        if not isinstance(source, str | os.PathLike):
            return cls._from_memory(source)
        path = _item_file(source)
        if path.suffix in _VECTOR_FILES:
            ids, matrix = VECTOR_READERS[_VECTOR_FILES[path.suffix]](path)
            return cls._of_vectors(path, ids, matrix)
        if path.suffix == ".safetensors":
            return cls._from_safetensors(path)
        with reading(path) as file:
            return cls.of(_read(file), str(path))

    @classmethod
    def _from_memory(cls, source: object) -> Self:
        name = f"the {cls.kind} table"
        columns = frame_columns(source, f"{name} is a file, a frame or columns")
        with in_words(name):
            arrays = {
                key: converted(values, f"column {key!r}")
                for key, values in columns.items()
            }
            return cls.of(pa.table(arrays), name)

    @classmethod
    def _from_safetensors(cls, path: Path) -> Self:
        arrays, _ = read_arrays(path)
        side = f"{cls.kind}s"
        prefix = ""
        if any(name.startswith(f"{side}.") for name in arrays):
            prefix = f"{side}."
        matrix = arrays.get(side, arrays.get("vectors"))
        if matrix is None or not {f"{prefix}ids", f"{prefix}bytes"} & arrays.keys():
            raise DataError(f"{path} holds no {cls.kind} vectors with their ids")
        ids = IdMap.from_arrays(arrays, cls.kind, prefix).ids
        return cls._of_vectors(path, ids, matrix)

    @classmethod
    def of(cls, table: pa.Table, name: str) -> Self:
        """Make an item table of a table whose column of ids is found by its name."""
        names = [str(column) for column in table.column_names]
        key = position_of(names, cls.id_names)
        if key is None:
            raise DataError(
                f"{name} needs a column of {cls.kind} ids, such as {cls.kind}_id (columns found: "
                f"{listed(names) or 'none'})"
            )
        if len(table) == 0:
            raise DataError(f"{name} holds no {cls.kind}s")
        columns = {}
        for column_name, column in zip(names, table.columns, strict=True):
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            columns[column_name] = column.combine_chunks()
        return cls(name, uuids_as_text(columns.pop(names[key])), columns)

    @classmethod
    def _of_vectors(
        cls,
        path: Path,
        ids: pa.Array,
        matrix: AnyArray,
    ) -> Self:
        if matrix.ndim != 2 or len(ids) != len(matrix):
            raise DataError(
                f"{path} has {len(ids)} ids for an array of shape {matrix.shape}"
            )
        flat = pa.array(np.ascontiguousarray(matrix, np.float32).ravel())
        vectors = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
        return cls(str(path), ids, {"vector": vectors})

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """The other columns, trimmed; empty cells are null, text of numbers alone is numbers."""
        return {name: _decoded(column) for name, column in self.raw.items()}

    def places(self, items: IdMap) -> NDArray[np.int64]:
        """Return int64[rows], the index of the item of each row; -1 for others and second rows."""
        ids = self.ids
        if pa.types.is_floating(ids.type):  # what frames make of integers with gaps
            ids = ids.cast(pa.int64(), safe=False)
        text = ids.cast(pa.string())
        if items.is_integer:
            is_whole = pc.match_substring_regex(text, r"^-?\d{1,18}$")
            text = null_unless(is_whole, text).cast(pa.int64())
        index = items.encode(text).astype(np.int64)
        _, first_rows = np.unique(index, return_index=True)
        is_first = np.zeros(len(index), bool)
        is_first[first_rows] = True
        return np.where(is_first, index, -1)

    def texts(self, column: str | None = None) -> list[str]:
        """Return a column (the ids by default) as text: lists with `|` between their parts."""
        values = self.ids if column is None else self.raw[column]
        with in_words(f"{self.name}, column {column or 'of ids'}", "is no text"):
            if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
                return [
                    "|".join(str(part) for part in cell or () if part is not None)
                    for cell in values.to_pylist()
                ]
            text = uuids_as_text(values).cast(pa.string())
            return list(pc.fill_null(text, "").to_pylist())

    def find(self, names: str) -> str | None:
        """Return the column with the first of these names that there is, in any spelling."""
        columns = list(self.raw)
        index = position_of(columns, names)
        return None if index is None else columns[index]

    def genres(self, cell: str) -> list[str]:
        """Return the parts of a cell that lists several."""
        separator = " " if Path(self.name).suffix == ".item" else "|"
        if separator not in cell and ", " in cell:
            separator = ","
        return [part.strip() for part in cell.split(separator) if part.strip()]


@dataclass(frozen=True, eq=False)
class UserTable(ItemTable):
    """A table about users, one row per user."""

    kind: ClassVar[str] = "user"
    id_names: ClassVar[str] = USUAL_NAMES["user"]


TABLES: dict[str, type[ItemTable]] = {"items": ItemTable, "users": UserTable}
"""What describes the rows of each side."""


class ItemInfo(NamedTuple):
    """The title and genres of an item, and the address of its picture."""

    title: str
    genres: tuple[str, ...] = ()
    picture: str = ""


def load_items(source: object) -> dict[int, ItemInfo] | dict[str, ItemInfo]:
    """Return what is shown of each item, by external id, from what `ItemTable.load` reads."""
    table = ItemTable.load(source)
    title = table.find(_TITLE_NAMES)
    if title is None:
        raise DataError(
            f"{table.name} needs a title column (columns found: {listed(table.raw)})"
        )
    picture = table.find(_PICTURE_NAMES)
    if picture is not None and not str(table.raw[picture].type).endswith("string"):
        picture = None  # the pixels, or several sizes
    items = {}
    for key, name, genres, year, address in zip(
        table.texts(),
        table.texts(title),
        _texts_or_blanks(table, table.find(GENRE_NAMES)),
        _texts_or_blanks(table, table.find("releaseyear")),
        _texts_or_blanks(table, picture),
        strict=True,
    ):
        url = _PICTURE.match(address)
        items[key] = ItemInfo(
            f"{name} ({year})" if year else name,
            tuple(table.genres(genres)),
            url[0] if url else "",
        )
    if all(re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", key) for key in items):
        return {int(key): info for key, info in items.items()}
    return items


def _texts_or_blanks(table: ItemTable, column: str | None) -> list[str]:
    return [""] * len(table.ids) if column is None else table.texts(column)


def titles_of(items: IdMap, source: object) -> list[ItemInfo]:
    """Return title and genres of every item, by index; the id is the title where there is none.

    A table that names none of them belongs to other items: a `DataError`.
    """
    named = {str(key): info for key, info in load_items(source).items()}
    keys = [str(key) for key in items.ids.to_pylist()]
    if not any(key in named for key in keys):
        raise DataError(
            f"{source} has the title of none of the {len(keys):,} items: its ids are such as "
            f"{next(iter(named))!r}, those of the model such as {keys[0]!r}"
        )
    return [named.get(key) or ItemInfo(key) for key in keys]


def _item_file(source: str | os.PathLike[str]) -> Path:
    """Return the path, or the file about items of the data set of this name."""
    path = located(source)
    if os.path.exists(path):
        return path
    if str(source) not in DATASETS:
        raise DataError(f"no such file: {source}")
    titles = fetch(str(source)).items
    if titles is None:
        raise DataError(f"the data set {str(source)!r} comes without item titles")
    return titles


def _read(file: SourceFile) -> pa.Table:
    path = Path(file.path)
    if file.is_parquet():
        with in_words(file.path, "is not a whole parquet file"):
            return pa_parquet.read_table(file.content, filesystem=file.system)
    if path.name == "u.item" or path.suffix == ".dat":
        separator = "|" if path.name == "u.item" else "::"
        rows = [_movielens(path, line.split(separator)) for line in read_lines(file)]
        return pa.table(list(zip(*rows, strict=True)), ["item", "title", "genres"])
    separator = "\t" if file.suffix in (".item", ".tsv") else ","
    return text_table(file, separator, header=True)


def _movielens(path: Path, fields: list[str]) -> list[str]:
    """Return item, title and genres, which are flags in u.item, ordered like `_ML_100K_GENRES`."""
    flags = fields[5:]
    if path.suffix == ".dat" and len(fields) >= 3:
        return [fields[0], "::".join(fields[1:-1]), fields[-1]]
    if path.name == "u.item" and flags and set(flags) <= {"0", "1"}:
        genres = compress(_ML_100K_GENRES.split("|"), map(int, flags))
        return [fields[0], fields[1], " ".join(genres)]
    row = shortened("|".join(fields), 60)
    raise DataError(
        f"{path}: a row has no item, title and genres, as MovieLens has them: {row!r}"
    )


def _decoded(column: pa.Array) -> pa.Array:
    """Return cells without blanks around them; null where they are empty."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    text = null_unless(pc.not_equal(text, ""), text)
    has_only_numbers = pc.all(pc.match_substring_regex(text, _NUMBER)).as_py()
    if has_only_numbers and text.null_count < len(text):
        return text.cast(pa.float64())
    return text

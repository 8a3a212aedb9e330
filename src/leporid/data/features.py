"""`item_features`: one row of numbers per item, from the columns of an `ItemTable`.

Text and categories are weighted by TF-IDF, numbers are z-scores. The block of each column has rows
of length one, so that columns weigh alike, and so has the whole row: the product of two rows is
their cosine.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.id_map import IdMap
from leporid.data.item_table import GENRE_NAMES, ItemTable
from leporid.errors import ConfigError, DataError, UnknownNameError, warn

Kind = Literal["text", "categories", "number", "vector"]
_REPEATED = 4
"""Parts of cells that occur this often on average are categories rather than text."""


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """float32[n_items, f] in CSR form; rows of length one, empty where nothing is known."""

    matrix: sparse.csr_array
    kinds: dict[str, Kind]
    """What each column was taken for."""
    left_out: dict[str, int]
    """What the table lacks or has too much of, by reason."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """bool[n_items]: whether anything is known of an item."""
        return np.asarray(np.diff(self.matrix.indptr) > 0)


def item_features(
    items: IdMap, *sources: Any, columns: Sequence[str] = ()
) -> ItemFeatures:
    """The features of `items` (or users, of a `UserTable`) from tables that `ItemTable.load` reads.

    `columns` chooses some of the columns, `("title", "year:categories")`, with what they are
    where that is not to be guessed: text, categories, number or vector. What was left out is
    counted in a `LeporidWarning`. Of an item in several tables the first one counts.
    """
    table = _joined([ItemTable.load(source) for source in sources])
    index = table.places(items)
    rows, unused = np.flatnonzero(index >= 0), int(np.count_nonzero(index < 0))
    if not len(rows):
        raise DataError(
            f"{table.name} has content for none of the {len(items):,} {items.kind}s: its ids are "
            f"such as {table.ids[0].as_py()!r}, those of the data such as {items.external(0)!r}"
        )
    left_out: Counter[str] = Counter({f"content rows of no known {items.kind}": unused})
    kinds = _kinds(table, columns, left_out)
    blocks = []
    for name, kind in kinds.items():
        column = table.columns[name].take(pa.array(rows))
        blocks.append(_BLOCKS[kind](column, f"{table.name}, column {name}", left_out))
    places = index[rows], np.arange(len(rows))
    spread = sparse.csr_array((np.ones(len(rows)), places), (len(items), len(rows)))
    matrix = _unit_rows(spread @ sparse.hstack(blocks, format="csr"))
    nothing = int(np.count_nonzero(np.diff(matrix.indptr) == 0))
    left_out[f"{items.kind}s without content"] = nothing
    if nothing == len(items):
        shared = f"nothing that two {items.kind}s share"
        raise DataError(f"{table.name} says {shared}: there is no content")
    counts = {reason: count for reason, count in left_out.items() if count}
    if counts:
        words = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
        warn(f"{table.name}: {words}")
    return ItemFeatures(matrix, kinds, counts)


def _joined(tables: list[ItemTable]) -> ItemTable:
    """The rows of all tables one after the other, with the columns of the first."""
    if len(tables) == 1:
        return tables[0]
    name = " and ".join(table.name for table in tables)
    ids = pa.concat_arrays([table.ids.cast(pa.string()) for table in tables])
    columns = {}
    for key, first in tables[0].columns.items():
        parts = [t.columns.get(key, pa.nulls(len(t.ids), first.type)) for t in tables]
        try:
            columns[key] = pa.concat_arrays([part.cast(first.type) for part in parts])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{name} differ in what column {key!r} holds: {error}"
            ) from None
    return ItemTable(name, ids, columns)


def _kinds(
    table: ItemTable, columns: Sequence[str], left_out: Counter[str]
) -> dict[str, Kind]:
    kinds: dict[str, Any] = {}
    for column in columns or table.columns:
        name, _, kind = (
            column.partition(":") if column not in table.columns else (column, "", "")
        )
        if name not in table.columns:
            raise UnknownNameError(
                f"column of {table.name}:", name, list(table.columns)
            )
        if kind and kind not in get_args(Kind):
            raise ConfigError(f"{column!r} must be one of {', '.join(get_args(Kind))}")
        kinds[name] = kind or _column_kind(name, table.columns[name])
    left_out["columns of no known kind"] = sum(kind is None for kind in kinds.values())
    kinds = {name: kind for name, kind in kinds.items() if kind is not None}
    if not kinds:
        raise DataError(f"{table.name} has ids and no column with content beside them")
    return kinds


def _column_kind(name: str, column: pa.Array) -> Kind | None:
    """What a column holds; None where it is nothing that can be compared."""
    types, kind = pa.types, column.type
    if (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    ):
        one_length = len(column.drop_null().value_lengths().unique()) == 1
        return (
            "vector"
            if types.is_floating(kind.value_type) and one_length
            else "categories"
        )
    if types.is_boolean(kind):
        return "categories"
    numbers = types.is_integer, types.is_floating, types.is_decimal, types.is_temporal
    if any(is_kind(kind) for is_kind in numbers):
        return "number"
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return None
    if re.sub(r"[^a-z]", "", name.lower()) in GENRE_NAMES.split():
        return "categories"
    parts = [part for cell in column.to_pylist() for part in _parts(cell)]
    return "categories" if len(set(parts)) * _REPEATED <= len(parts) else "text"


def _parts(cell: Any) -> list[str]:
    """The categories in a cell: a list, or text with | or commas between them."""
    if cell is None:
        return []
    if not isinstance(cell, list):
        cell = str(cell).split("|" if "|" in str(cell) else ",")
    return [
        text
        for part in cell
        if part is not None and (text := str(part).strip().casefold())
    ]


def _text(column: pa.Array, where: str, left_out: Counter[str]) -> sparse.csr_array:
    words = re.compile(r"\w\w+")
    cells = (
        " ".join(map(str, c)) if isinstance(c, list) else c for c in column.to_pylist()
    )
    return _tf_idf([words.findall(str(cell or "").casefold()) for cell in cells])


def _categories(
    column: pa.Array, where: str, left_out: Counter[str]
) -> sparse.csr_array:
    return _tf_idf([_parts(cell) for cell in column.to_pylist()])


def _tf_idf(documents: list[list[str]]) -> sparse.csr_array:
    """(1 + log tf) (1 + log((1 + n) / (1 + df))) of terms that two documents share; unit rows."""
    n = len(documents)
    terms = pa.array([term for document in documents for term in document], pa.string())
    row = np.repeat(np.arange(n), [len(document) for document in documents])
    distinct = pc.unique(terms)
    distinct = distinct.take(pc.sort_indices(distinct))
    column = np.asarray(pc.index_in(terms, value_set=distinct), np.int64)
    counts = sparse.csr_array((np.ones(len(row)), (row, column)), (n, len(distinct)))
    counts.sum_duplicates()
    df = np.bincount(counts.indices, minlength=len(distinct))
    counts.data = 1 + np.log(counts.data)
    weighted = counts @ sparse.diags_array(1 + np.log((1 + n) / (1 + df)))
    return _unit_rows(sparse.csr_array(weighted)[:, df > 1])


def _number(column: pa.Array, where: str, left_out: Counter[str]) -> sparse.csr_array:
    """Z-scores; the average where there is none."""
    try:
        plain = column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column
        values = (
            plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).copy()
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{where} is no column of numbers: {error}") from None
    missing = ~np.isfinite(values)
    left_out["missing numbers"] += int(missing.sum())
    if not missing.all():
        values = (values - values[~missing].mean()) / (values[~missing].std() or np.inf)
    values[missing] = 0
    return sparse.csr_array(values[:, None])


def _vector(column: pa.Array, where: str, left_out: Counter[str]) -> sparse.csr_array:
    """Vectors less their mean, of length one; nothing where an entry is missing."""
    rows = column.to_pylist()
    lengths = {len(row) for row in rows if row is not None}
    if len(lengths) != 1:
        raise DataError(
            f"{where} must hold vectors of one length, not of {sorted(lengths)}"
        )
    nothing = [np.nan] * lengths.pop()
    values = np.array([nothing if row is None else row for row in rows], np.float64)
    usable = np.isfinite(values).all(axis=1)
    left_out["vectors with missing or infinite entries"] += int(
        np.count_nonzero(~usable)
    )
    if not usable.any():
        raise DataError(f"{where} has no vector without NaN or infinite entries")
    values -= values[usable].mean(axis=0)
    values[~usable] = 0
    return _unit_rows(sparse.csr_array(values))


_BLOCKS = {
    "text": _text,
    "categories": _categories,
    "number": _number,
    "vector": _vector,
}


def _unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    scaled = sparse.diags_array(1 / np.where(length > 0, length, 1.0)) @ matrix
    scaled = sparse.csr_array(scaled, dtype=np.float32)
    scaled.eliminate_zeros()
    scaled.sort_indices()
    return scaled

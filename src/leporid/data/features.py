"""`item_features`: one row of numbers per item, from the columns of an `ItemTable`.

Text and categories are weighted by TF-IDF, numbers are z-scores. The block of each column has rows
of length one, so that columns weigh alike, and so has the whole row: the product of two rows is
their cosine.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from leporid.data.arrays import Mask
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
    """What each column is read as."""
    left_out: dict[str, int]
    """What the table lacks or has too much of, by reason."""

    @property
    def known(self) -> Mask:
        """bool[n_items]: whether anything is known of an item."""
        return np.asarray(np.diff(self.matrix.indptr) > 0)


def item_features(
    items: IdMap,
    *sources: object,
    columns: Sequence[str] = (),
) -> ItemFeatures:
    """Return the features of `items` (or users, of a `UserTable`) from tables about them.

    A source is what `ItemTable.load` reads. `columns` chooses some of the columns, `("title",
    "year:categories")`, with what they are where that is not to be guessed: text, categories,
    number or vector. What was left out is counted in a `LeporidWarning`. An item in several tables
    has the content of the first one.
    """
    table = _joined([ItemTable.load(source) for source in sources])
    index = table.places(items)
    rows = np.flatnonzero(index >= 0)
    if not len(rows):
        raise DataError(
            f"{table.name} has content for none of the {len(items):,} {items.kind}s: its ids are "
            f"such as {table.ids[0].as_py()!r}, those of the data such as {items.external(0)!r}"
        )
    left_out: Counter[str] = Counter()
    left_out[f"content rows of no known {items.kind}"] = len(index) - len(rows)
    kinds = _kinds(table, columns, left_out)
    blocks = []
    for name, kind in kinds.items():
        column = table.columns[name].take(pa.array(rows))
        blocks.append(_BLOCKS[kind](column, f"{table.name}, column {name}", left_out))
    places = index[rows], np.arange(len(rows))
    row_of_item = sparse.csr_array(
        (np.ones(len(rows)), places),
        (len(items), len(rows)),
    )
    matrix = _unit_rows(row_of_item @ sparse.hstack(blocks, format="csr"))
    empty = int(np.count_nonzero(np.diff(matrix.indptr) == 0))
    left_out[f"{items.kind}s without content"] = empty
    if empty == len(items):
        raise DataError(
            f"{table.name} says nothing that two {items.kind}s share: there is no content"
        )
    counts = {reason: count for reason, count in left_out.items() if count}
    if counts:
        words = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
        warn(f"{table.name}: {words}")
    return ItemFeatures(matrix, kinds, counts)


def _joined(tables: list[ItemTable]) -> ItemTable:
    """Join the rows of all tables one after the other, with the columns of the first."""
    if len(tables) == 1:
        return tables[0]
    name = " and ".join(table.name for table in tables)
    ids = pa.concat_arrays([table.ids.cast(pa.string()) for table in tables])
    columns = {}
    for key, first in tables[0].columns.items():
        try:
            parts = []
            for table in tables:
                nothing = pa.nulls(len(table.ids), first.type)
                parts.append(table.columns.get(key, nothing).cast(first.type))
            columns[key] = pa.concat_arrays(parts)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{name} differ in what column {key!r} holds: {error}"
            ) from None
    return ItemTable(name, ids, columns)


def _kinds(
    table: ItemTable,
    columns: Sequence[str],
    left_out: Counter[str],
) -> dict[str, Kind]:
    """Return what each column is read as, without those that cannot be compared."""
    kinds: dict[str, Kind] = {}
    for column in columns or table.columns:
        name = column
        named_kind = ""
        if column not in table.columns:
            name, _, named_kind = column.partition(":")
        if name not in table.columns:
            raise UnknownNameError(
                f"column of {table.name}:",
                name,
                list(table.columns),
            )
        kind = _checked_kind(column, named_kind)
        if kind is None:
            kind = _column_kind(name, table.columns[name])
        if kind is None:
            left_out["columns of no known kind"] += 1
        else:
            kinds[name] = kind
    if not kinds:
        raise DataError(f"{table.name} has ids and no column with content beside them")
    return kinds


def _checked_kind(column: str, named_kind: str) -> Kind | None:
    """Return the kind that the caller named; None where there is none."""
    if not named_kind:
        return None
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in kinds:
        if kind == named_kind:
            return kind
    raise ConfigError(f"{column!r} must be one of {', '.join(kinds)}")


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    is_any_length = types.is_list(kind) or types.is_large_list(kind)
    return bool(is_any_length or types.is_fixed_size_list(kind))


def _column_kind(name: str, column: pa.Array) -> Kind | None:
    """Return what a column holds; None where it is nothing that can be compared."""
    types = pa.types
    kind = column.type
    if _is_list(kind):
        lengths = column.drop_null().value_lengths().unique()
        is_vector = types.is_floating(kind.value_type) and len(lengths) == 1
        return "vector" if is_vector else "categories"
    if types.is_boolean(kind):
        return "categories"
    is_number = types.is_integer(kind) or types.is_floating(kind)
    if is_number or types.is_decimal(kind) or types.is_temporal(kind):
        return "number"
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return None
    if re.sub(r"[^a-z]", "", name.lower()) in GENRE_NAMES.split():
        return "categories"
    parts = [part for cell in column.to_pylist() for part in _parts(cell)]
    return "categories" if len(set(parts)) * _REPEATED <= len(parts) else "text"


def _parts(cell: object) -> list[str]:
    """Return the categories in a cell: a list, or text with | or commas between them."""
    if cell is None:
        return []
    if isinstance(cell, list):
        parts = [str(part) for part in cell if part is not None]
    else:
        text = str(cell)
        parts = text.split("|" if "|" in text else ",")
    categories = [part.strip().casefold() for part in parts]
    return [category for category in categories if category]


def _text(
    column: pa.Array,
    where: str,
    left_out: Counter[str],
) -> sparse.csr_array:
    words = re.compile(r"\w\w+")
    documents = []
    for cell in column.to_pylist():
        text = " ".join(map(str, cell)) if isinstance(cell, list) else str(cell or "")
        documents.append(words.findall(text.casefold()))
    return _tf_idf(documents)


def _categories(
    column: pa.Array,
    where: str,
    left_out: Counter[str],
) -> sparse.csr_array:
    return _tf_idf([_parts(cell) for cell in column.to_pylist()])


def _tf_idf(documents: list[list[str]]) -> sparse.csr_array:
    """Weigh terms that two documents share by TF-IDF, in rows of length one.

    The weight is (1 + log tf) (1 + log((1 + n) / (1 + df))).
    """
    n = len(documents)
    terms = pa.array([term for document in documents for term in document], pa.string())
    row = np.repeat(np.arange(n), [len(document) for document in documents])
    distinct = pc.unique(terms)
    distinct = distinct.take(pc.sort_indices(distinct))
    column = np.asarray(pc.index_in(terms, value_set=distinct), np.int64)
    entries = np.ones(len(row)), (row, column)
    counts = sparse.csr_array(entries, (n, len(distinct)))
    counts.sum_duplicates()
    df = np.bincount(counts.indices, minlength=len(distinct))
    counts.data = 1 + np.log(counts.data)
    idf = 1 + np.log((1 + n) / (1 + df))
    weighted = sparse.csr_array(counts @ sparse.diags_array(idf))
    return _unit_rows(weighted[:, df > 1])


def _number(
    column: pa.Array,
    where: str,
    left_out: Counter[str],
) -> sparse.csr_array:
    """Return z-scores; the average where there is none."""
    try:
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int64())
        floats = column.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{where} is no column of numbers: {error}") from None
    values = floats.to_numpy(zero_copy_only=False).copy()
    is_missing = ~np.isfinite(values)
    left_out["missing numbers"] += int(is_missing.sum())
    if not is_missing.all():
        known = values[~is_missing]
        values = (values - known.mean()) / (known.std() or np.inf)
    values[is_missing] = 0
    return sparse.csr_array(values[:, None])


def _vector(
    column: pa.Array,
    where: str,
    left_out: Counter[str],
) -> sparse.csr_array:
    """Return vectors less their mean, of length one; nothing where an entry is missing."""
    rows = column.to_pylist()
    lengths = {len(row) for row in rows if row is not None}
    if len(lengths) != 1:
        raise DataError(
            f"{where} must hold vectors of one length, not of {sorted(lengths)}"
        )
    nothing = [np.nan] * lengths.pop()
    values = np.array([nothing if row is None else row for row in rows], np.float64)
    is_usable = np.isfinite(values).all(axis=1)
    unusable = int(np.count_nonzero(~is_usable))
    left_out["vectors with missing or infinite entries"] += unusable
    if not is_usable.any():
        raise DataError(f"{where} has no vector without NaN or infinite entries")
    values -= values[is_usable].mean(axis=0)
    values[~is_usable] = 0
    return _unit_rows(sparse.csr_array(values))


_BLOCKS = {
    "text": _text,
    "categories": _categories,
    "number": _number,
    "vector": _vector,
}


def _unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    length = np.sqrt(squares)
    scale = 1 / np.where(length > 0, length, 1.0)
    scaled = sparse.diags_array(scale) @ matrix
    scaled = sparse.csr_array(scaled, dtype=np.float32)
    scaled.eliminate_zeros()
    scaled.sort_indices()
    return scaled

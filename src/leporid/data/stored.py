"""`store_interactions`: a log larger than memory becomes a binary matrix on disk.

Two passes, each a block at a time: the pairs as codes, into one flat file; the pairs sorted into
buckets of users that fit into memory, where each bucket is made distinct and appended to the
matrix. The core is counted on the matrix, and cut out of it in one more pass. The order in time
is not kept: a graph does not depend on it.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from leporid.data.arrays import Int32Array, Int64Array
from leporid.data.codes import id_lookup
from leporid.data.columns import RawTable, ReadOptions
from leporid.data.files import matching
from leporid.data.id_map import IdMap
from leporid.data.k_core import core_counts, with_core_dropped
from leporid.data.log_files import log_batches, reading_log
from leporid.data.policies import check_kept, keep_rows
from leporid.errors import DataError
from leporid.foundation import checks_arguments, memory_left, parse_memory

BYTES_PER_ROW = 160
"""What one row of a block takes while it is read, coded and sorted."""
FEWEST_ROWS = 4096
"""The smallest block."""
MOST_ROWS = 1 << 20
"""The largest block: larger ones are not faster."""
_PAIR_BYTES = 8
"""A pair of indices in a file: the row, then the column, as int32."""


@dataclass(frozen=True, eq=False)
class StoredInteractions:
    """Distinct (user, item) pairs as a CSR matrix whose columns lie in a file."""

    indptr: Int64Array
    """int64[n_users + 1]."""
    items_of: Int32Array
    """int32[n], ascending within a user; mapped from the file."""
    users: IdMap
    items: IdMap
    dropped: Mapping[str, int]
    """How many rows each policy left out, by reason."""
    folder: Path
    block_rows: int
    """Pairs worked on at a time."""

    def __len__(self) -> int:
        return len(self.items_of)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def digest(self) -> str:
        """A hash of the pairs and the ids."""
        hasher = hashlib.sha256(self.indptr.data)
        # No copy: the pages of the file are read in turn.
        hasher.update(self.items_of.data)
        hasher.update((self.users.digest + self.items.digest).encode())
        return hasher.hexdigest()[:16]

    def csr(self) -> sparse.csr_array:
        """Return the matrix as scipy has it; its values take four bytes per pair."""
        ones = np.ones(len(self), np.float32)
        rows = ones, self.items_of, self.indptr
        return sparse.csr_array(rows, shape=(self.n_users, self.n_items))


@checks_arguments()
def store_interactions(  # noqa: PLR0913 (options are spelled out)
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    memory: str | int,
    *,
    core: int = 0,
    user: str | int | None = None,
    item: str | int | None = None,
    time: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> StoredInteractions:
    """Write the pairs of a parquet or text file, a folder or a pattern, to a matrix on disk.

    The matrix is that of `load(source).core(core).csr()`.

    `folder` receives the matrix (four bytes per pair) and, while this runs, up to five times that.
    `memory` covers the process: the ids of users and items stay in memory.
    """
    folder = Path(folder)
    rows_in_memory = memory_left(parse_memory(memory)) // 2 // BYTES_PER_ROW
    block = max(FEWEST_ROWS, min(MOST_ROWS, rows_in_memory))
    columns = {
        "user": user,
        "item": item,
        "time": time,
        "rating": rating,
    }
    options = ReadOptions(columns, min_rating is not None, separator, header, encoding)
    with reading_log(matching(source)) as files:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            batches = log_batches(files, options, block)
            stored = _store(batches, files.origin, folder, block, min_rating)
            return _core(stored, core) if core else stored
        except OSError as error:
            raise _not_written(folder, error) from error


def _not_written(folder: Path, error: OSError) -> DataError:
    return DataError(f"could not write {folder}: {error.strerror or error}")


class _Vocabulary:
    """The values of a column in the order of their appearance, and how often each is kept."""

    def __init__(self) -> None:
        self.values = pa.array([], pa.string())
        self.counts = np.zeros(0, np.int64)

    def add(self, codes: Int32Array, values: pa.Array) -> Int32Array:
        """Return the rows of a batch as positions in this vocabulary.

        `codes` are positions in `values`, which are those of the batch.
        """
        if not len(self.values):
            self.values = self.values.cast(values.type)
        if values.type != self.values.type:
            # Files that disagree about a column are read as text.
            values = values.cast(pa.string())
            self.values = self.values.cast(pa.string())
        index = pc.index_in(values, value_set=self.values)
        positions = np.array(pc.fill_null(index, -1))
        is_new = positions < 0
        # Otherwise nothing that lives on is allocated amid the blocks of a batch.
        if is_new.any():
            positions[is_new] = len(self.values) + np.arange(np.count_nonzero(is_new))
            added = values.filter(pa.array(is_new))
            self.values = pa.concat_arrays([self.values, added])
            self.counts = np.pad(self.counts, (0, len(added)))
        rows = positions[codes].astype(np.int32, copy=False)
        self.counts += np.bincount(rows, minlength=len(self.counts))
        return rows


def _store(
    batches: Iterator[RawTable],
    origin: str,
    folder: Path,
    block: int,
    min_rating: float | None,
) -> StoredInteractions:
    user = _Vocabulary()
    item = _Vocabulary()
    dropped: Counter[str] = Counter()
    rows = 0
    flat = folder / "pairs"
    with open(flat, "wb") as file:
        for batch in batches:
            kept_rows = keep_rows(batch, min_rating)
            rows += batch.report.rows
            dropped.update(kept_rows.dropped)
            users = user.add(kept_rows.user, kept_rows.user_values)
            items = item.add(kept_rows.item, kept_rows.item_values)
            np.stack([users, items], axis=1, dtype=np.int32).tofile(file)
            del batch, kept_rows, users, items  # before the next batch is decoded
    check_kept(origin, rows, dropped)
    user_of, user_ids = id_lookup(user.values, user.counts, "user")
    item_of, item_ids = id_lookup(item.values, item.counts, "item")
    # A value that no kept row has points at the first id, and adds nothing.
    counts = np.bincount(user_of, user.counts, len(user_ids)).astype(np.int64)
    pairs = (
        np.stack([user_of[users], item_of[items]], axis=1, dtype=np.int32)
        for users, items in _read_pairs(flat, block)
    )
    target = folder / "items"
    indptr = _sorted_rows(pairs, counts, len(item_ids), block, target)
    flat.unlink()
    repeated = int(counts.sum() - indptr[-1])
    if repeated:
        dropped["duplicate pair"] = repeated
    return StoredInteractions(
        indptr,
        _mapped(target),
        user_ids,
        item_ids,
        dict(dropped),
        folder,
        block,
    )


def _mapped(path: Path) -> Int32Array:
    """Return a file of int32 as an array; an empty file cannot be mapped."""
    if not path.stat().st_size:
        return np.zeros(0, np.int32)
    return np.asarray(np.memmap(path, np.int32, "r"))


def _read_pairs(path: Path, block: int) -> Iterator[Int32Array]:
    """Read int32[2, pairs], rows and columns, a block at a time."""
    with open(path, "rb") as file:
        while len(flat := np.fromfile(file, np.int32, 2 * block)):
            yield flat.reshape(-1, 2).T


def _sorted_rows(
    blocks: Iterator[Int32Array],
    counts: Int64Array,
    columns: int,
    block: int,
    target: Path,
) -> Int64Array:
    """Write the columns of distinct pairs, by row and ascending, and return the indptr.

    First the pairs are grouped in a file, by ranges of rows that hold about `block` pairs each. The
    indptr is int64[rows + 1].
    """
    ends = np.cumsum(counts)
    bounds = _row_ranges(ends, block)
    begins = np.concatenate([[0], ends])[bounds]
    grouped = target.with_suffix(".by-row")
    _group_pairs(blocks, bounds, begins, grouped)
    indptr = np.zeros(len(counts) + 1, np.int64)
    with open(grouped, "rb") as file, open(target, "wb") as out:
        ranges = zip(bounds[:-1], bounds[1:], np.diff(begins), strict=True)
        for begin, end, size in ranges:
            pairs = np.fromfile(file, np.int32, 2 * int(size)).reshape(-1, 2)
            rows = pairs[:, 0].astype(np.int64) - begin
            keys = rows * columns + pairs[:, 1]
            keys.sort()  # `np.unique` hashes them, which takes many times as long
            keys = keys[np.diff(keys, prepend=-1) > 0]
            (keys % columns).astype(np.int32).tofile(out)
            sizes = np.bincount(keys // columns, minlength=end - begin)
            indptr[begin + 1 : end + 1] = sizes
    grouped.unlink()
    np.cumsum(indptr, out=indptr)
    return indptr


def _row_ranges(ends: Int64Array, block: int) -> Int64Array:
    """Return the bounds of ranges of rows with up to `block` pairs each.

    `ends` counts the pairs up to the end of each row. A row with more pairs is its own range.
    """
    bounds = [0]
    while bounds[-1] < len(ends):
        begin = ends[bounds[-1] - 1] if bounds[-1] else 0
        following = int(np.searchsorted(ends, begin + block, side="right"))
        bounds.append(max(following, bounds[-1] + 1))
    return np.asarray(bounds, np.int64)


def _group_pairs(
    blocks: Iterator[Int32Array],
    bounds: Int64Array,
    begins: Int64Array,
    target: Path,
) -> None:
    """Write pairs by ranges of rows, which lie between `bounds` and begin at pair `begins`."""
    cursor = begins[:-1].copy()
    smallest_type = np.min_scalar_type(len(bounds))
    with open(target, "wb") as file:
        for pairs in blocks:
            region = np.searchsorted(bounds, pairs[:, 0], side="right") - 1
            # As a number of 8 or 16 bits it is sorted by counting.
            order = np.argsort(region.astype(smallest_type), kind="stable")
            sizes = np.bincount(region, minlength=len(cursor))
            ends = np.cumsum(sizes[sizes > 0])
            groups = np.split(pairs[order], ends[:-1])
            for position, group in zip(np.flatnonzero(sizes), groups, strict=True):
                file.seek(int(cursor[position]) * _PAIR_BYTES)
                file.write(group.tobytes())
            cursor += sizes


def transpose(
    indptr: Int64Array,
    columns: Int32Array,
    n_columns: int,
    folder: Path,
    block: int,
) -> tuple[Int64Array, Int32Array]:
    """Return the CSR matrix transposed: (indptr, rows ascending within a column), in `folder`."""
    counts = np.zeros(n_columns, np.int64)
    for start in range(0, len(columns), block):
        counts += np.bincount(columns[start : start + block], minlength=n_columns)
    target = folder / "users"
    swapped = (
        np.stack([items, rows], axis=1, dtype=np.int32)
        for rows, items in _blocks(indptr, columns, block)
    )
    try:
        of_column = _sorted_rows(swapped, counts, len(indptr) - 1, block, target)
    except OSError as error:
        raise _not_written(folder, error) from error
    return of_column, _mapped(target)


def _blocks(
    indptr: Int64Array,
    columns: Int32Array,
    block: int,
) -> Iterator[tuple[Int64Array, Int32Array]]:
    """Read the rows and columns of a CSR matrix, a block of pairs at a time."""
    for start in range(0, len(columns), block):
        stop = min(start + block, len(columns))
        first = int(np.searchsorted(indptr, start, side="right")) - 1
        last = int(np.searchsorted(indptr, stop))
        sizes = np.diff(indptr[first : last + 1].clip(start, stop))
        yield np.repeat(np.arange(first, last), sizes), columns[start:stop]


def _core(stored: StoredInteractions, k: int) -> StoredInteractions:
    """Keep only users and items with at least `k` pairs, repeated until stable."""

    def pairs() -> Iterator[tuple[Int64Array, Int32Array]]:
        return _blocks(stored.indptr, stored.items_of, stored.block_rows)

    of_user, of_item = core_counts(pairs, stored.n_users, stored.n_items, k)
    core_users = np.flatnonzero(of_user)
    core_items = np.flatnonzero(of_item)
    new_item = np.cumsum(of_item > 0, dtype=np.int32) - 1
    target = stored.folder / "core-items"
    with open(target, "wb") as out:
        for user, item in pairs():
            is_inside = (of_user[user] > 0) & (of_item[item] > 0)
            new_item[item[is_inside]].tofile(out)
    (stored.folder / "items").unlink()
    indptr = np.concatenate([[0], np.cumsum(of_user[core_users])])
    lost = len(stored) - int(indptr[-1])
    return replace(
        stored,
        indptr=indptr,
        items_of=_mapped(target),
        users=stored.users.take(core_users),
        items=stored.items.take(core_items),
        dropped=with_core_dropped(stored.dropped, lost, k),
    )

"""`store_interactions`: a log larger than memory becomes a binary matrix on disk.

Three passes, each a block at a time: the distinct ids; the pairs as codes, into one flat file; the
pairs sorted into buckets of users that fit into memory, where each bucket is made distinct and
appended to the matrix. The core is counted on the matrix, and cut out of it in one more pass.
The order in time is not kept: a graph does not depend on it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.id_map import IdMap
from leporid.data.parquet_stream import ParquetStream
from leporid.data.policies import compact_ids, listed
from leporid.errors import ConfigError, DataError, LeporidWarning
from leporid.memory import memory_left, parse_memory

__all__ = ["StoredInteractions", "mapped", "store_interactions", "transpose"]

BYTES_A_ROW = 160
"""What one row of a block takes while it is read, coded and sorted."""
FEWEST_ROWS, MOST_ROWS = 4096, 1 << 20
"""Blocks are not smaller, and grow no larger: they would not be faster."""
PAIR = np.dtype([("row", np.int32), ("column", np.int32)])


@dataclass(frozen=True, eq=False)
class StoredInteractions:
    """Distinct (user, item) pairs as a CSR matrix whose columns lie in a file."""

    indptr: NDArray[np.int64]
    """int64[n_users + 1]."""
    items_of: NDArray[np.int32]
    """int32[n], ascending within a user; mapped from the file."""
    users: IdMap
    items: IdMap
    dropped: Mapping[str, int]
    """How many rows each policy left out, by reason; as `Interactions.dropped`."""
    folder: Path
    block_rows: int
    """Pairs worked on at a time."""

    def __len__(self) -> int:
        return len(self.items_of)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def csr(self) -> sparse.csr_array:
        """The matrix as scipy has it; its values take four bytes a pair."""
        data = np.ones(len(self), np.float32)
        return sparse.csr_array(
            (data, self.items_of, self.indptr), shape=(self.n_users, self.n_items)
        )


def store_interactions(
    source: str | Path,
    folder: str | Path,
    memory: str | int,
    *,
    core: int = 0,
    user: str | int | None = None,
    item: str | int | None = None,
    time: str | int | None = None,
    rating: str | int | None = None,
    min_rating: float | None = None,
) -> StoredInteractions:
    """The pairs of a parquet file or a directory of them, as `load(source).core(core).csr()`.

    `folder` receives the matrix (four bytes a pair) and, while this runs, up to five times that.
    `memory` covers the process (`leporid.memory`): the ids of users and items stay in memory.
    """
    source, folder = Path(source).expanduser(), Path(folder)
    if not source.exists():
        raise DataError(f"no such file or directory: {source}")
    if core < 0:
        raise ConfigError(f"the core needs k >= 1, got {core}")
    left = memory_left(parse_memory(memory))
    block = max(FEWEST_ROWS, min(MOST_ROWS, left // 2 // BYTES_A_ROW))
    given = {"user": user, "item": item, "time": time, "rating": rating}
    stream = ParquetStream(source, given, block)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stored = _store(stream, folder, block, min_rating)
        return _core(stored, core) if core else stored
    except OSError as error:
        raise DataError(f"could not write {folder}: {error.strerror or error}") from error


def _store(
    stream: ParquetStream, folder: Path, block: int, min_rating: float | None
) -> StoredInteractions:
    user_values, item_values = stream.distinct()
    used = [np.zeros(len(user_values), np.int64), np.zeros(len(item_values), np.int64)]
    dropped: dict[str, int] = {}
    rows = 0
    flat = folder / "pairs"
    with open(flat, "wb") as file:
        for batch in stream.pairs(user_values, item_values, min_rating):
            rows += batch.rows
            for reason, count in batch.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
            used[0] += np.bincount(batch.user, minlength=len(used[0]))
            used[1] += np.bincount(batch.item, minlength=len(used[1]))
            pairs = np.empty(len(batch.user), PAIR)
            pairs["row"], pairs["column"] = batch.user, batch.item
            pairs.tofile(file)
    kept = int(used[0].sum())
    _report(stream, rows, kept, dropped)
    lookups, maps = [], []
    for role, values, counts in zip(
        ("user", "item"), (user_values, item_values), used, strict=True
    ):
        present = np.flatnonzero(counts)
        lookup = np.zeros(len(counts), np.int32)
        lookup[present], ids = compact_ids(present, stream.ids(values, role), role)
        lookups.append(lookup)
        maps.append(ids)
    counts = np.bincount(lookups[0], weights=used[0], minlength=len(maps[0])).astype(np.int64)
    # A value that no kept row has points at the first id, and adds nothing.
    in_order = folder / "by-user"
    regions = _sort_into_regions(_coded(_read_pairs(flat, block), lookups), counts, block, in_order)
    flat.unlink()
    target = folder / "items"
    indptr = _distinct_rows(in_order, regions, counts, len(maps[1]), target)
    in_order.unlink()
    if kept > indptr[-1]:
        dropped["duplicate pair"] = int(kept - indptr[-1])
    return StoredInteractions(
        indptr, mapped(target, np.int32), maps[0], maps[1], dropped, folder, block
    )


def _report(stream: ParquetStream, rows: int, kept: int, dropped: Mapping[str, int]) -> None:
    if rows == 0:
        raise DataError(f"{stream.path} has no rows")
    missing = {r: c for r, c in dropped.items() if r.startswith("missing")}
    if missing:
        warnings.warn(
            f"{stream.path}: left out {sum(missing.values()):,} of {rows:,} rows with missing "
            f"values ({listed(missing)})",
            LeporidWarning,
            stacklevel=4,
        )
    if not kept:
        raise DataError(f"{stream.path}: no rows are left of {rows:,}: {listed(dropped)}")


def mapped(path: Path, kind: Any, *, write: bool = False, size: int | None = None) -> Any:
    """A file as an array; `size` makes (or lengthens) it first. An empty one is no mapping."""
    if size is not None:
        with open(path, "ab") as file:
            # Room on the disk now, not a bus error while the pages are written.
            if size:
                os.posix_fallocate(file.fileno(), 0, size * np.dtype(kind).itemsize)
    if path.stat().st_size == 0:
        return np.zeros(0, kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r+" if write else "r"))


def _read_pairs(path: Path, block: int) -> Iterator[NDArray[Any]]:
    with open(path, "rb") as file:
        while len(pairs := np.fromfile(file, PAIR, block)):
            yield pairs


def _coded(blocks: Iterator[NDArray[Any]], lookups: list[NDArray[np.int32]]) -> Iterator[Any]:
    for pairs in blocks:
        pairs["row"], pairs["column"] = lookups[0][pairs["row"]], lookups[1][pairs["column"]]
        yield pairs


def _sort_into_regions(
    blocks: Iterator[NDArray[Any]], counts: NDArray[np.int64], block: int, target: Path
) -> NDArray[np.int64]:
    """Write pairs grouped by ranges of rows that hold about `block` pairs each, order kept.

    Returns int64[regions + 1]: the first row of each. A row with more pairs has one of its own.
    """
    ends = np.cumsum(counts)
    first = [0]
    while first[-1] < len(counts):
        begin = ends[first[-1] - 1] if first[-1] else 0
        following = int(np.searchsorted(ends, begin + block, side="right"))
        first.append(max(following, first[-1] + 1))
    bounds = np.asarray(first, np.int64)
    cursor = np.concatenate([[0], ends])[bounds[:-1]]
    with open(target, "wb") as file:
        for pairs in blocks:
            region = np.searchsorted(bounds, pairs["row"], side="right") - 1
            order = np.argsort(region, kind="stable")
            grouped, sizes = pairs[order], np.bincount(region, minlength=len(cursor))
            start = 0
            for place in np.flatnonzero(sizes):
                part = grouped[start : start + sizes[place]]
                _write_at(file.fileno(), part.tobytes(), int(cursor[place]) * PAIR.itemsize)
                cursor[place] += sizes[place]
                start += sizes[place]
    return bounds


def _write_at(file: int, content: bytes, offset: int) -> None:
    """`os.pwrite` until all is written: it may stop early, on a disk that fills up."""
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _distinct_rows(
    source: Path, bounds: NDArray[np.int64], counts: NDArray[np.int64], columns: int, target: Path
) -> NDArray[np.int64]:
    """Sort each region, drop repeated pairs, append the columns to `target`; the indptr."""
    indptr = np.zeros(len(counts) + 1, np.int64)
    sizes = np.add.reduceat(counts, bounds[:-1]) if len(counts) else counts
    with open(source, "rb") as file, open(target, "wb") as out:
        for begin, end, size in zip(bounds[:-1], bounds[1:], sizes, strict=True):
            pairs = np.fromfile(file, PAIR, int(size))
            keys = (pairs["row"].astype(np.int64) - begin) * columns + pairs["column"]
            keys = np.unique(keys)
            (keys % columns).astype(np.int32).tofile(out)
            indptr[begin + 1 : end + 1] = np.bincount(keys // columns, minlength=end - begin)
    np.cumsum(indptr, out=indptr)
    return indptr


def transpose(
    indptr: NDArray[np.int64], columns: NDArray[np.int32], n_columns: int, folder: Path, block: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """CSR of the transposed matrix, in `folder`: (indptr, rows ascending within a column)."""
    counts = np.zeros(n_columns, np.int64)
    for start in range(0, len(columns), block):
        counts += np.bincount(columns[start : start + block], minlength=n_columns)
    in_order, target = folder / "by-item", folder / "users"
    try:
        regions = _sort_into_regions(
            (_swapped(pairs) for pairs in _blocks(indptr, columns, block)), counts, block, in_order
        )
        made = _distinct_rows(in_order, regions, counts, len(indptr) - 1, target)
    except OSError as error:
        raise DataError(f"could not write {folder}: {error.strerror or error}") from error
    in_order.unlink()
    return made, mapped(target, np.int32)


def _swapped(pairs: NDArray[Any]) -> NDArray[Any]:
    swapped = np.empty_like(pairs)
    swapped["row"], swapped["column"] = pairs["column"], pairs["row"]
    return swapped


def _blocks(
    indptr: NDArray[np.int64], columns: NDArray[np.int32], block: int
) -> Iterator[NDArray[Any]]:
    """The pairs of a CSR matrix, a block at a time."""
    for start in range(0, len(columns), block):
        stop = min(start + block, len(columns))
        pairs = np.empty(stop - start, PAIR)
        pairs["row"] = np.searchsorted(indptr, np.arange(start, stop), side="right") - 1
        pairs["column"] = columns[start:stop]
        yield pairs


def _core(stored: StoredInteractions, k: int) -> StoredInteractions:
    """Only users and items with at least `k` pairs, repeated until stable."""
    users, items = np.ones(stored.n_users, bool), np.ones(stored.n_items, bool)
    while True:
        of_user, of_item = np.zeros(len(users), np.int64), np.zeros(len(items), np.int64)
        for pairs in _kept_blocks(stored, users, items):
            of_user += np.bincount(pairs["row"], minlength=len(users))
            of_item += np.bincount(pairs["column"], minlength=len(items))
        weak = (users & (of_user < k)).any() or (items & (of_item < k)).any()
        users, items = users & (of_user >= k), items & (of_item >= k)
        if not weak:
            break
        if not users.any() or not items.any():
            raise DataError(
                f"the {k}-core of {len(stored):,} interactions of {stored.n_users:,} users and "
                f"{stored.n_items:,} items is empty: choose a smaller k"
            )
    new_item = np.cumsum(items, dtype=np.int64).astype(np.int32) - 1
    target = stored.folder / "core-items"
    with open(target, "wb") as out:
        for pairs in _kept_blocks(stored, users, items):
            new_item[pairs["column"]].tofile(out)
    indptr = np.concatenate([[0], np.cumsum(of_user[users])]).astype(np.int64)
    dropped = dict(stored.dropped)
    if len(stored) > indptr[-1]:
        dropped[f"outside the {k}-core"] = int(len(stored) - indptr[-1])
    (stored.folder / "items").unlink()
    return StoredInteractions(
        indptr,
        mapped(target, np.int32),
        stored.users.take(np.flatnonzero(users)),
        stored.items.take(np.flatnonzero(items)),
        dropped,
        stored.folder,
        stored.block_rows,
    )


def _kept_blocks(
    stored: StoredInteractions, users: NDArray[np.bool_], items: NDArray[np.bool_]
) -> Iterator[NDArray[Any]]:
    for pairs in _blocks(stored.indptr, stored.items_of, stored.block_rows):
        yield pairs[users[pairs["row"]] & items[pairs["column"]]]

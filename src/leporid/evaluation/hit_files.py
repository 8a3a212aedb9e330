"""Hits of each user as bit masks, and files of them: a few bytes per user, enough to compare."""

from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from leporid.data import in_words
from leporid.errors import DataError
from leporid.foundation import atomic_path

Ints: TypeAlias = NDArray[np.int32]
HIT_COLUMNS = ("user", "hits", "relevant")
"""Columns of the files that `MetricTable.save_hits` writes."""
MASK_BITS = 31
"""Number of ranks that a mask holds."""


class HitTable(NamedTuple):
    """The hits of each user with test items."""

    user: Ints
    """int32[m]: user indices, ascending."""
    hits: Ints
    """int32[m]: bit r - 1 is set if the item at rank r is a test item."""
    relevant: Ints
    """int32[m]: number of test items."""


def pack_hits(hits: NDArray[np.bool_]) -> Ints:
    """Return int32[m]: the masks of the first 31 columns of bool[m, k]."""
    n_ranks = min(hits.shape[1], MASK_BITS)
    bits = (1 << np.arange(n_ranks)).astype(np.int32)
    return np.asarray((hits[:, :n_ranks] * bits).sum(axis=1, dtype=np.int32))


def unpack_hits(masks: Ints) -> NDArray[np.bool_]:
    """Return bool[m, 31] from masks."""
    ranks = np.arange(MASK_BITS, dtype=np.int32)
    return np.asarray((masks[:, None] >> ranks & 1).astype(np.bool_))


def write_parquet(
    table: pa.Table,
    path: str | Path,
) -> Path:
    """Write a table as a parquet file, which appears when it is complete."""
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd")
    return Path(path)


def read_hits(path: str | Path) -> HitTable:
    """Read what `MetricTable.save_hits` wrote; anything else is refused."""
    with in_words(str(path), "is not a parquet file"):
        table = pyarrow.parquet.read_table(path)
    columns = [table[name] for name in HIT_COLUMNS if name in table.column_names]
    are_integers = all(
        pa.types.is_integer(column.type) and not column.null_count for column in columns
    )
    if len(columns) != len(HIT_COLUMNS) or not are_integers:
        raise DataError(
            f"{path} must have columns of integers: {', '.join(HIT_COLUMNS)}"
        )
    hits = HitTable(*map(np.asarray, columns))
    if (np.diff(hits.user) <= 0).any() or (hits.relevant < 1).any():
        raise DataError(f"{path} must have each user once, in order, with test items")
    return hits

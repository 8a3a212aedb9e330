"""Item-to-item lists: the items with the largest weights after each item, as frames and a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import IdMap, Sequences
from leporid.foundation import checks_arguments, chunk_rows
from leporid.ranking.files import write_frames
from leporid.ranking.lists import check_n
from leporid.ranking.top_k import masked_top_k

ItemWeightMatrix: TypeAlias = sparse.csr_array | NDArray[np.float32]
"""float32[n_items, n_items]: row i holds what item i of a history says for every item."""


class ItemListModel(Protocol):
    """What `write_item_lists` needs of a model."""

    @property
    def items(self) -> IdMap: ...

    def item_list_frames(self, n: int) -> Iterator[pa.Table]: ...


def item_list_schema(items: IdMap) -> pa.Schema:
    """Return the columns of `Recommender.item_lists`."""
    return pa.schema(
        {
            "item": items.ids.type,
            "rank": pa.int32(),
            "other_item": items.ids.type,
            "score": pa.float32(),
        }
    )


def item_list_frames(
    weights: ItemWeightMatrix, items: IdMap, n: int
) -> Iterator[pa.Table]:
    """Yield the `n` largest positive weights of each row but its own, a chunk of rows at a time."""
    check_n(n)
    n = min(n, len(items))
    schema = item_list_schema(items)
    step = chunk_rows(len(items))
    for first in range(0, len(items), step):
        block = _dense(weights[first : first + step])
        own = np.arange(first, first + len(block), dtype=np.int32)
        itself = Sequences(np.arange(len(block) + 1, dtype=np.int64), own)
        top = masked_top_k(np.where(block > 0, block, -np.inf), n, seen=itself)
        row, rank = np.nonzero(top.items >= 0)
        columns = [
            items.ids.take(pa.array(own[row], pa.int32())),
            pa.array(rank + 1, pa.int32()),
            items.ids.take(pa.array(top.items[row, rank], pa.int32())),
            pa.array(top.scores[row, rank], pa.float32()),
        ]
        yield pa.table(columns, schema=schema)


def _dense(rows: ItemWeightMatrix) -> NDArray[np.float32]:
    return rows.toarray() if isinstance(rows, sparse.csr_array) else rows


@checks_arguments()
def write_item_lists(model: ItemListModel, target: str | Path, n: int = 10) -> int:
    """Write the rows of `model.item_lists` into `target`; return how many.

    The suffix is the format: `.parquet`, `.csv` or `.jsonl`. The file appears when it is complete.
    """
    frames = model.item_list_frames(n)
    return write_frames(frames, item_list_schema(model.items), Path(target))

"""External ids of a saved model."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.data.id_map import IdMap
from leporid.errors import DataError

__all__ = ["read_ids", "write_ids"]


def write_ids(path: Path, ids: IdMap) -> None:
    """External ids as one parquet column: small and quick also for millions."""
    path.unlink(missing_ok=True)
    pq.write_table(pa.table({"id": ids.ids}), path)


def read_ids(path: Path, kind: str) -> IdMap:
    """The inverse of `write_ids`."""
    try:
        column = pq.read_table(path).column("id").combine_chunks()
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (pa.ArrowInvalid, KeyError) as error:
        raise DataError(f"{path} is not a list of ids: {error}") from None
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return IdMap(column, kind)

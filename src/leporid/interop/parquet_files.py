"""`ParquetFiles`: vectors as files, for everything that has its own search.

All other targets write these files too.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.interop.formats import vector_table
from leporid.interop.vectors import Changes, ModelVectors, Positions

Tables = dict[str, pa.Table]
"""Rows to write by side, "items" and "users"."""
NO_EXPORT = "{} to refresh: export the model whole first, without --refresh"
"""Error sentence of a refresh without anything to refresh."""


@dataclass
class ParquetFiles:
    """`items.parquet` and `users.parquet`, and what all targets have in common."""

    folder: Path
    """Folder to write into."""
    address: str | None = None
    """Address of a server that is loaded as well."""
    name: str = "leporid"
    """Name of what is made on a server."""

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """Write `items.parquet` (`id`, `vector`) and `users.parquet`, which also has `seen`.

        `seen` has item ids. Both files are whole; the rows that a store lacks are returned.
        """
        ids = vectors.item_ids.ids
        seen = pa.ListArray.from_arrays(
            pa.array(vectors.seen.indptr, pa.int32()),
            ids.take(pa.array(vectors.seen.items)),
        )
        tables = {
            "items": vector_table(ids, vectors.items),
            "users": vector_table(vectors.user_ids.ids, vectors.users, seen),
        }
        for side, table in tables.items():
            pq.write_table(table, self.folder / f"{side}.parquet")
            if changes is not None:
                tables[side] = table.filter(changes.written[side])
        return tables

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Return the best `n` unseen items, by the products of what is in the files."""
        stored = ModelVectors.read(self.folder)
        return stored.top_k(stored.users[users], stored.seen.take(users), n)

"""`FaissIndex`: an exact index of the items beside the parquet files."""

import numpy as np

from leporid.errors import import_extra
from leporid.interop.parquet_files import ParquetFiles, Tables
from leporid.interop.vectors import Changes, ModelVectors, Positions


class FaissIndex(ParquetFiles):
    """`items.faiss` beside the parquet files; its labels are the rows of `items.parquet`."""

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """Write an exact index, always of all items."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index = faiss.IndexFlatIP(vectors.width)
        index.add(np.ascontiguousarray(vectors.items))
        faiss.write_index(index, str(self.folder / "items.faiss"))
        return super().write(vectors, changes)

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Ask for as many more as the longest history, and leave out what each user has seen."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index = faiss.read_index(str(self.folder / "items.faiss"))
        longest = int(np.diff(vectors.seen.indptr)[users].max(initial=0))
        count = min(n + longest, len(vectors.items))
        queries = np.ascontiguousarray(vectors.users[users])
        _, candidates = index.search(queries, count)

        lists = np.full((len(users), n), -1, np.int32)
        for row, items in enumerate(candidates):
            is_seen = np.isin(items, vectors.seen.of(users[row]))
            unseen = items[(items >= 0) & ~is_seen][:n]
            lists[row, : len(unseen)] = unseen
        return lists

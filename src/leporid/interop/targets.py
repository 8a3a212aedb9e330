"""Where `ModelVectors` can go: parquet files, faiss, Qdrant, PostgreSQL, ONNX.

Each target is written, and can be searched as its users will search it.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data import Sequences
from leporid.errors import ConfigError, import_extra
from leporid.interop.databases import PostgresTables, QdrantCollections
from leporid.interop.vectors import Changes, ModelVectors, ParquetFiles, Positions, Tables

HISTORY_MODELS = ("dlr2", "hgn", "sasrec")


class FaissIndex(ParquetFiles):
    """`items.faiss` beside the parquet files; its labels are the rows of `items.parquet`."""

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """An exact index, or an HNSW graph; always of all items."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index = (
            faiss.IndexHNSWFlat(vectors.width, 32, faiss.METRIC_INNER_PRODUCT)
            if self.approximate
            else faiss.IndexFlatIP(vectors.width)
        )
        index.add(np.ascontiguousarray(vectors.items))
        faiss.write_index(index, str(self.folder / "items.faiss"))
        return super().write(vectors, changes)

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Ask for as many more as the longest history, and leave out what each user has seen."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index, hidden = faiss.read_index(str(self.folder / "items.faiss")), vectors.seen
        longest = int(np.diff(hidden.indptr)[users].max(initial=0))
        count = min(n + longest, len(vectors.items))
        if self.approximate:
            index.hnsw.efSearch = max(64, 2 * count)
        _, found = index.search(np.ascontiguousarray(vectors.users[users]), count)
        kept = np.full((len(users), n), -1, np.int32)
        for row, items in enumerate(found):
            free = items[(items >= 0) & ~np.isin(items, hidden.of(users[row]))][:n]
            kept[row, : len(free)] = free
        return kept


@dataclass
class OnnxEncoder(ParquetFiles):
    """`encoder.onnx` beside the parquet files.

    Inputs: `history` int64[users, length], rows of `items.parquet`, oldest first and filled as
    `export.json` says; where the model has a user table `user` int64[users], rows of
    `users.parquet`, or -1 for a new user, who has a blank row. Output: `vector`
    float32[users, width].
    """

    def __post_init__(self) -> None:
        model = self.model
        if model.name not in HISTORY_MODELS:
            raise ConfigError(
                f"{model.name} does not read histories in time order: ONNX is for "
                f"{', '.join(HISTORY_MODELS)}; other models' vectors go to parquet or an index"
            )
        self._reads_users, sampling = model.user_table() is not None, model.sampling()
        repeats = sampling.kind == "windows" and sampling.repeat
        short = "its first item, repeated" if repeats else "-1"
        self.notes = {"history_length": sampling.length, "short_histories_begin_with": short}

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        import torch

        import_extra("onnx", "ONNX", "onnx")
        model, length = self.model, self.model.sampling().length
        names = ["history", "user"] if self._reads_users else ["history"]

        class Encoder(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = model.net

            def forward(self, history: Any, user: Any = None) -> Any:
                rows = user
                if user is not None:
                    rows = model.user_table()[user.clamp(min=0)] * (user >= 0)[:, None]
                return model.encode_users(rows, history, history)

        zeros = (torch.zeros(2, length, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
        before = model.device
        try:
            # The exporter prints hints about itself, and warns of what `encode` promises.
            quiet = contextlib.redirect_stdout(io.StringIO())
            with warnings.catch_warnings(action="ignore"), quiet, torch.no_grad():
                model.to("cpu")
                torch.onnx.export(
                    Encoder().eval(),
                    zeros[: len(names)],
                    str(self.folder / "encoder.onnx"),
                    input_names=names,
                    output_names=["vector"],
                    dynamic_axes={name: {0: "users"} for name in (*names, "vector")},
                    dynamo=False,
                )
        finally:
            model.to(before)
        return super().write(vectors, changes)

    def encode(
        self, histories: Sequences, users: NDArray[Any] | None = None
    ) -> NDArray[np.float32]:
        """User vectors from the file, run by onnxruntime on the CPU."""
        session = import_extra("onnxruntime", "ONNX", "onnx").InferenceSession(
            str(self.folder / "encoder.onnx"), providers=["CPUExecutionProvider"]
        )
        rows = np.arange(len(histories), dtype=np.int32)
        feed = {"history": self.model._recent(histories, rows).cpu().numpy()}
        if self._reads_users:
            blank = np.full(len(histories), -1)
            feed["user"] = (blank if users is None else users).astype(np.int64)
        return np.asarray(session.run(["vector"], feed)[0])

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Encode the histories of the users, then take products with the item vectors."""
        hidden = vectors.seen.take(users)
        return vectors.top_k(self.encode(hidden, users), hidden, n)


TARGETS: dict[str, type[ParquetFiles]] = {
    "faiss": FaissIndex,
    "onnx": OnnxEncoder,
    "parquet": ParquetFiles,
    "pgvector": PostgresTables,
    "qdrant": QdrantCollections,
}

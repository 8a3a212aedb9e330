"""`text_vectors`: what a sentence-transformers model makes of the texts in an item table.

The model is a folder on this machine; nothing is ever downloaded. The result is a table of ids and
vectors, to be written once and given to `content`, `leporid_content` or `grow` as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leporid.data import read_item_columns
from leporid.errors import DataError, UnknownNameError, import_extra
from leporid.initializers.item_features import LONGEST, column_kind


def text_vectors(
    source: Any,
    folder: str | Path,
    columns: Sequence[str] = (),
    *,
    batch_size: int = 64,
    device: str | None = None,
) -> pa.Table:
    """`item_id` and `vector` of all items of a table (`leporid.data.read_item_columns`).

    Parameters
    ----------
    source : the table
    folder : of a sentence-transformers model, as its `save` writes it
    columns : whose texts are joined, in this order; all with text or categories by default
    batch_size, device : of the model
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DataError(
            f"{folder} is no folder with a sentence-transformers model: save one there first, "
            f"nothing is downloaded"
        )
    package = import_extra("sentence_transformers", "text_vectors", "text")
    table = read_item_columns(source)
    for column in columns:
        if column not in table.columns:
            raise UnknownNameError(f"column of {table.name}:", column, list(table.columns))
    chosen = list(columns) or [
        name
        for name, column in table.columns.items()
        if column_kind(name, column) in ("text", "categories")
    ]
    if not chosen:
        raise DataError(f"{table.name} has no column of text: name one in columns=")
    cells = [table.columns[name].to_pylist() for name in chosen]
    texts = [". ".join(filter(None, map(_words, row))) for row in zip(*cells, strict=True)]
    some = [row for row, text in enumerate(texts) if text]
    if not some:
        raise DataError(f"{table.name}: every text in {', '.join(chosen)} is empty")
    try:
        model = package.SentenceTransformer(str(path), device=device, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{folder} holds no sentence-transformers model: {reason}") from None
    vectors = np.asarray(
        model.encode([texts[row] for row in some], batch_size=batch_size, show_progress_bar=False),
        dtype=np.float32,
    )
    made = dict(zip(some, vectors, strict=True))
    rows = [made.get(row) for row in range(len(texts))]
    kind = pa.list_(pa.float32(), vectors.shape[1])
    return pa.table({"item_id": table.ids, "vector": pa.array(rows, kind)})


def _words(cell: Any) -> str:
    """A cell as text, at most as long as other features read it."""
    if isinstance(cell, list):
        cell = ", ".join(str(part) for part in cell if part is not None)
    return "" if cell is None else str(cell).strip()[:LONGEST]

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

from leporid.data import item_texts
from leporid.errors import DataError, import_extra


def text_vectors(
    source: Any,
    folder: str | Path,
    columns: Sequence[str] = (),
    *,
    batch_size: int = 64,
    device: str | None = None,
) -> pa.Table:
    """`item_id` and `vector` of all items of a table (`leporid.data.ItemTable.load`).

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
    table, texts = item_texts(source, columns)
    some = [row for row, text in enumerate(texts) if text]
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

"""The text format of word2vec: a line `n d`, then an id and d numbers a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from leporid.errors import DataError
from leporid.initializers.base import InitialEmbeddings
from leporid.interop.sides import (
    SIDES,
    Side,
    assemble,
    read_provenance,
    text_ids,
    text_lines,
    write_provenance,
)

__all__ = ["read_word2vec", "write_word2vec"]


def write_word2vec(embeddings: InitialEmbeddings, folder: Path, name: str) -> None:
    """`users.w2v.txt` and `items.w2v.txt`."""
    for side, embedding, ids in embeddings.sides():
        values = text_ids(
            ids, embedding.n, side, r"[\s\p{Z}]|^$", "contain spaces", "the word2vec format"
        )
        lines = [f"{embedding.n} {embedding.dim}", *text_lines(values, embedding.vectors, " ")]
        (folder / f"{side}.w2v.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_provenance(folder, embeddings)


def read_word2vec(folder: Path) -> InitialEmbeddings:
    """The inverse of `write_word2vec`."""
    users, items = (_read_side(folder / f"{side}.w2v.txt") for side in SIDES)
    return assemble(users, items, read_provenance(folder), folder)


def _read_side(path: Path) -> Side:
    try:
        with open(path, encoding="utf-8") as file:
            n, dim = (int(part) for part in file.readline().split())
            ids: list[str] = []
            vectors = np.empty((n, dim), dtype=np.float32)
            for row in range(n):
                name, *numbers = file.readline().split()
                if len(numbers) != dim:
                    raise DataError(
                        f"line {row + 2} of {path} has {len(numbers)} numbers, not {dim}"
                    )
                ids.append(name)
                vectors[row] = np.array(numbers, dtype=np.float32)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path} is cut short or not in word2vec text format: {error}") from None
    return pa.array(ids, type=pa.string()), vectors

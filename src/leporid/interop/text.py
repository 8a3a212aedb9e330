"""Formats made of lines, an id and its numbers each: word2vec's, and RecBole's atomic files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.errors import DataError
from leporid.spectral import Embedding

CONFIG_LINES = """\
additional_feat_suffix: [useremb, itememb]
load_col:
  inter: [user_id, item_id]
  useremb: [uid, user_emb]
  itememb: [iid, item_emb]
alias_of_user_id: [uid]
alias_of_item_id: [iid]
preload_weight:
  uid: user_emb
  iid: item_emb
"""
"""RecBole then gives the vectors, in its own row order, by `dataset.get_preload_weight("uid")`
and `("iid")`; its models do not read them by themselves, `leporid.initialize` puts them in."""


def write_word2vec(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A line `n d`, then one line per row: the id and d numbers, apart by spaces."""
    names = _names(ids, kind, r"[\s\p{Z}]|^$", "contain spaces", "the word2vec format")
    _write(path, f"{embedding.n} {embedding.dim}", names, " ", embedding.vectors)


def read_word2vec(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_word2vec`."""
    try:
        with open(path, encoding="utf-8") as file:
            n, dim = (int(part) for part in file.readline().split())
            rows = (file.readline().split() for _ in range(n))
            return _parse(path, ((name, numbers) for name, *numbers in rows), dim)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path} is cut short or not in word2vec text format: {error}") from None


def write_recbole(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """RecBole's header, then id, tab and numbers; `recbole.yaml` makes RecBole read the files."""
    problem = "are empty or contain tabs or line breaks"
    names = _names(ids, kind, r"[\t\r\n]|^$", problem, "RecBole's files")
    header = f"{kind[0]}id:token\t{kind}_emb:float_seq"
    _write(path, header, names, "\t", embedding.vectors)
    path.with_name("recbole.yaml").write_text(CONFIG_LINES, encoding="utf-8")


def read_recbole(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_recbole`."""
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    parts = (line.partition("\t") for line in lines if line)
    return _parse(path, ((name, numbers.split()) for name, _, numbers in parts))


def _names(ids: pa.Array, kind: str, refused: str, problem: str, where: str) -> pa.Array:
    """The ids as text; an error where one matches `refused`, which says `problem` of `where`."""
    names = ids.cast(pa.string())
    bad = names.filter(pc.match_substring_regex(names, refused))
    if len(bad):
        raise DataError(
            f"{len(bad)} {kind} ids {problem}, the first is {bad[0].as_py()!r}: "
            f"{where} cannot hold them, choose another format"
        )
    return names


def _write(
    path: Path, header: str, names: pa.Array, separator: str, vectors: NDArray[np.float32]
) -> None:
    """One line per row: the id, `separator`, and the entries apart by single spaces.

    Entries are the shortest decimals that read back to the same float32.
    """
    columns = [pc.cast(pa.array(column), pa.string()) for column in vectors.T.copy()]
    numbers = pc.binary_join_element_wise(*columns, " ")
    lines = pc.binary_join_element_wise(names, numbers, separator).to_pylist()
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def _parse(
    path: Path, rows: Iterable[tuple[str, list[str]]], dim: int | None = None
) -> tuple[pa.Array, NDArray[np.float32]]:
    """Ids and vectors of the lines after the header; `dim` is the first line's by default."""
    names: list[str] = []
    vectors: list[NDArray[np.float32]] = []
    for number, (name, numbers) in enumerate(rows, start=2):
        dim = len(numbers) if dim is None else dim
        if len(numbers) != dim or dim == 0:
            raise DataError(f"line {number} of {path} has {len(numbers)} numbers, not {dim}")
        try:
            vectors.append(np.array(numbers, dtype=np.float32))
        except ValueError as error:
            raise DataError(f"line {number} of {path} is not a vector: {error}") from None
        names.append(name)
    if dim is None:
        raise DataError(f"{path} holds no vectors")
    matrix = np.array(vectors, dtype=np.float32).reshape(len(names), dim)
    return pa.array(names, type=pa.string()), matrix

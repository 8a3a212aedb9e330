"""How each format is written and read: parquet, CSV, `.npy`, word2vec text, RecBole's files."""

from __future__ import annotations

import json
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
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


def write_parquet(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """`id`, and `vector` as a fixed-size list."""
    vector = pa.FixedSizeListArray.from_arrays(pa.array(embedding.vectors.ravel()), embedding.dim)
    note = json.dumps(dict(embedding.provenance), sort_keys=True)
    table = pa.table({"id": ids, "vector": vector})
    pq.write_table(table.replace_schema_metadata({"leporid.provenance": note}), path)


def read_parquet(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_parquet`."""
    try:
        table = pq.read_table(path, columns=["id", "vector"]).combine_chunks()
    except (pa.ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not a parquet file of (id, vector): {reason}") from None
    column = table.column("vector").combine_chunks()
    lengths = set(column.value_lengths().to_pylist())
    if len(lengths) != 1 or None in lengths:
        raise DataError(f"{path} must hold vectors of one length, not of {sorted(lengths)}")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return table.column("id").combine_chunks(), flat.reshape(len(table), -1).astype(np.float32)


def write_csv(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A header, then the id and the D entries of each row."""
    columns: dict[str, Any] = {"id": ids}
    columns |= {f"v{index}": column for index, column in enumerate(embedding.vectors.T.copy())}
    pcsv.write_csv(pa.table(columns), path, pcsv.WriteOptions(quoting_style="needed"))


def read_csv(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_csv`; the first column is the id, whatever its name."""
    try:
        header = pcsv.open_csv(path).schema.names
        types = dict.fromkeys(header[1:], pa.float32()) | {header[0]: pa.string()}
        options = pcsv.ConvertOptions(column_types=types, strings_can_be_null=False)
        parse = pcsv.ParseOptions(newlines_in_values=True)
        table = pcsv.read_csv(path, parse_options=parse, convert_options=options)
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not a CSV of an id and numbers: {reason}") from None
    vectors = np.column_stack([table.column(c).to_numpy() for c in header[1:]])
    return table.column(0).combine_chunks(), vectors.astype(np.float32)


def write_npy(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """One file of vectors, one of ids beside it: row r of both belongs together."""
    # Arrays of text drop NULs at the end.
    if pa.types.is_string(ids.type):
        _names(ids, kind, r"\x00$", "end in NUL", "the npy format")
    np.save(path, embedding.vectors, allow_pickle=False)
    plain = np.array(ids.to_pylist()) if len(ids) else np.empty(0, np.int64)
    np.save(_id_file(path), plain, allow_pickle=False)


def _id_file(path: Path) -> Path:
    """`users.ids.npy`, or `user_ids.npy` beside the `user_factors.npy` of `implicit`."""
    return path.with_name(f"{path.stem}.ids.npy".replace("_factors.ids", "_ids"))


def read_npy(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """The inverse of `write_npy`."""
    vectors, ids = (_load(file) for file in (path, _id_file(path)))
    if vectors.ndim != 2:
        raise DataError(f"{path} must be a matrix, not of shape {vectors.shape}")
    return pa.array(ids.tolist()), vectors.astype(np.float32)


def _load(path: Path) -> NDArray[Any]:
    try:
        # Mapped first: a header that promises more than the file has is refused, not allocated.
        return np.array(np.load(path, allow_pickle=False, mmap_mode="r"))
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except OSError as error:
        raise DataError(f"could not read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise DataError(f"{path} is not a plain .npy file: {error}") from None


def write_word2vec(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A line `n d`, then one line per row: the id and d numbers, apart by spaces."""
    names = _names(ids, kind, r"[\s\p{Z}\x1c-\x1f\x85]|^$", "contain spaces", "the word2vec format")
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
    """One line per row; entries are the shortest decimals that read back to the same float32."""
    columns = [pc.cast(pa.array(column), pa.string()) for column in vectors.T.copy()]
    numbers = pc.binary_join_element_wise(*columns, " ")
    lines = pc.binary_join_element_wise(names, numbers, separator).to_pylist()
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def _parse(
    path: Path, rows: Iterable[tuple[str, list[str]]], dim: int | None = None
) -> tuple[pa.Array, NDArray[np.float32]]:
    """Ids and vectors of the lines after the header; `dim` is the first line's by default."""
    names, vectors = [], []
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

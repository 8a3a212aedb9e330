"""How each format is written: parquet, CSV, `.npy`, word2vec text, RecBole's vectors and splits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.artifacts import atomic_path
from leporid.data import Split, vector_id_file, write_log
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
BENCHMARK_LINES = "benchmark_filename: [train, valid, test]\n"
"""RecBole then reads the three files in place of `NAME.inter`, and splits nothing itself."""


def write_parquet(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """`id`, and `vector` as a fixed-size list."""
    vector = pa.FixedSizeListArray.from_arrays(pa.array(embedding.vectors.ravel()), embedding.dim)
    note = json.dumps(dict(embedding.provenance), sort_keys=True)
    table = pa.table({"id": ids, "vector": vector})
    pq.write_table(table.replace_schema_metadata({"leporid.provenance": note}), path)


def write_csv(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A header, then the id and the D entries of each row."""
    columns: dict[str, Any] = {"id": ids}
    columns |= {f"v{index}": column for index, column in enumerate(embedding.vectors.T.copy())}
    pcsv.write_csv(pa.table(columns), path, pcsv.WriteOptions(quoting_style="needed"))


def write_npy(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """One file of vectors, one of ids beside it: row r of both belongs together."""
    # Arrays of text drop NULs at the end.
    if pa.types.is_string(ids.type):
        _names(ids, kind, r"\x00$", "end in NUL", "the npy format")
    np.save(path, embedding.vectors, allow_pickle=False)
    plain = np.array(ids.to_pylist()) if len(ids) else np.empty(0, np.int64)
    np.save(vector_id_file(path), plain, allow_pickle=False)


def write_word2vec(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A line `n d`, then one line per row: the id and d numbers, apart by spaces."""
    names = _names(ids, kind, r"[\s\p{Z}\x1c-\x1f\x85]|^$", "contain spaces", "the word2vec format")
    _write(path, f"{embedding.n} {embedding.dim}", names, " ", embedding.vectors)


def write_recbole(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """RecBole's header, then id, tab and numbers; `recbole.yaml` makes RecBole read the files."""
    problem = "are empty or contain tabs or line breaks"
    names = _names(ids, kind, r"[\t\r\n]|^$", problem, "RecBole's files")
    header = f"{kind[0]}id:token\t{kind}_emb:float_seq"
    _write(path, header, names, "\t", embedding.vectors)
    path.with_name("recbole.yaml").write_text(CONFIG_LINES, encoding="utf-8")


def write_benchmark(split: Split, folder: str | Path, name: str | None = None) -> list[Path]:
    """Write `NAME.train.inter`, `.valid.inter`, `.test.inter` and `benchmark.yaml`.

    RecBole's models then train and test on the same parts. It looks for them in a folder of the
    data set's name, which is the default of `name`.
    """
    folder = Path(folder)
    name = name or folder.resolve().name
    files = [
        write_log(getattr(split, part), folder / f"{name}.{part}.inter")
        for part in ("train", "valid", "test")
    ]
    with atomic_path(folder / "benchmark.yaml") as temporary:
        temporary.write_text(BENCHMARK_LINES, encoding="utf-8")
    return [*files, folder / "benchmark.yaml"]


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

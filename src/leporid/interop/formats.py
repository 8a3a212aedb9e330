"""One call to write embeddings in any format, one to read them back.

What a table of numbers cannot say (method, eigenvalues, type of ids) is in `provenance.json`.
"""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import leporid.artifacts as artifacts
from leporid.data import VECTOR_READERS, IdMap, Split, write_log
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.models import find_model, read_trained

SAFETENSORS = "embeddings.safetensors"
PROVENANCE = "provenance.json"
_SEALED = 2
"""`format` in `provenance.json`: the files beside it have a manifest."""
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
INITIALIZE_LINES = """\
import leporid  # RecBole's models read no preloaded weights: run this once the model is built
tokens = dataset.field2id_token
ids = {"users": [None, *tokens["user_id"][1:]], "items": [None, *tokens["item_id"][1:]]}
tables = {"users": "user_embedding", "items": "item_embedding"}
leporid.initialize(model, **tables, embeddings="%s", id_map=ids, padding_idx=0)
"""
"""What puts the vectors into a RecBole model that is built; %s is the folder of the files."""
BENCHMARK_LINES = "benchmark_filename: [train, valid, test]\n"
"""RecBole then reads the three files in place of `NAME.inter`, and splits nothing itself."""


def vector_table(
    ids: pa.Array, vectors: NDArray[np.float32], **more: pa.Array
) -> pa.Table:
    """`id`, `vector` as a fixed-size list, and other columns."""
    lists = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors.ravel()), vectors.shape[1]
    )
    return pa.table({"id": ids, "vector": lists, **more})


def _write_parquet(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    note = json.dumps(dict(embedding.provenance), sort_keys=True)
    table = vector_table(ids, embedding.vectors)
    pq.write_table(table.replace_schema_metadata({"leporid.provenance": note}), path)


def _write_csv(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """A header, then the id and the D entries of each row."""
    columns: dict[str, Any] = {"id": ids}
    columns |= {
        f"v{index}": column for index, column in enumerate(embedding.vectors.T.copy())
    }
    pcsv.write_csv(pa.table(columns), path, pcsv.WriteOptions(quoting_style="needed"))


def _write_recbole(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """RecBole's header, then id, tab and numbers; `recbole.yaml` makes RecBole read the files."""
    names = ids.cast(pa.string())
    bad = names.filter(pc.match_substring_regex(names, r"[\t\r\n]|^$"))
    if len(bad):
        raise DataError(
            f"{len(bad)} {kind} ids are empty or contain tabs or line breaks, the first is "
            f"{bad[0].as_py()!r}: RecBole's files cannot hold them, choose another format"
        )
    # The shortest decimals that read back to the same float32.
    columns = [
        pc.cast(pa.array(column), pa.string()) for column in embedding.vectors.T.copy()
    ]
    numbers = pc.binary_join_element_wise(*columns, " ")
    lines = pc.binary_join_element_wise(names, numbers, "\t").to_pylist()
    header = f"{kind[0]}id:token\t{kind}_emb:float_seq"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    path.with_name("recbole.yaml").write_text(CONFIG_LINES, encoding="utf-8")


def write_benchmark(
    split: Split, folder: str | Path, name: str | None = None
) -> list[Path]:
    """Write `NAME.train.inter`, `.valid.inter`, `.test.inter` and `benchmark.yaml` for RecBole.

    It looks for them in a folder of the data set's name, which is the default of `name`.
    """
    if split.train.goal is not None or split.train.disliked is not None:
        raise ConfigError(
            "RecBole's files know no goal and no dislikes: load without events"
        )
    folder = Path(folder)
    name = name or folder.resolve().name
    files = [
        write_log(getattr(split, part), folder / f"{name}.{part}.inter")
        for part in ("train", "valid", "test")
    ]
    with artifacts.atomic_path(folder / "benchmark.yaml") as temporary:
        temporary.write_text(BENCHMARK_LINES, encoding="utf-8")
    return [*files, folder / "benchmark.yaml"]


_FILES = {
    "safetensors": SAFETENSORS,
    "parquet": "{side}.parquet",
    "csv": "{side}.csv",
    "recbole": "{name}.{kind}emb",
    "npy": "{side}.npy",
    "implicit": "{kind}_factors.npy",
}
"""The file of a side ('users', of kind 'user'); the last three are read, not written."""
_WRITERS: dict[str, Callable[[Path, str, pa.Array, Embedding], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "recbole": _write_recbole,
}
"""What writes path, kind, ids and vectors of a side."""
FORMATS = ("safetensors", *_WRITERS)


def write_embeddings(
    embeddings: InitialEmbeddings,
    path: str | Path,
    format: str = "safetensors",
    *,
    name: str | None = None,
) -> list[Path]:
    """Write users and items with their ids into the folder `path`; returns the files.

    A path ending in `.safetensors` is written as that one file. `name` is the dataset name
    RecBole's files are called after (default: the folder's own name).
    """
    path = Path(path)
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    if path.suffix == ".safetensors":
        if format != "safetensors":
            raise DataError(
                f"{path} names a safetensors file but the format is {format!r}"
            )
        return [embeddings.save(path)]
    with artifacts.atomic_folder(path) as folder:
        if format == "safetensors":
            embeddings.save(folder / SAFETENSORS)
        else:
            notes: dict[str, Any] = {"format": _SEALED}
            for side, embedding, ids in embeddings.sides():
                file = folder / _file(format, side, name or path.resolve().name)
                known = pa.array(np.arange(embedding.n)) if ids is None else ids.ids
                _WRITERS[format](file, side[:-1], known, embedding)
                values = embedding.eigenvalues
                notes[side] = {
                    "provenance": dict(embedding.provenance),
                    "rows": embedding.n,
                    "eigenvalues": None if values is None else values.tolist(),
                    "ids": "none"
                    if ids is None
                    else "integer"
                    if ids.is_integer
                    else "string",
                }
            artifacts.write_json(folder / PROVENANCE, notes)
            names = sorted(file.name for file in folder.iterdir())
            artifacts.write_manifest(folder, "embeddings", *names, beside=path)
        files = sorted(file.name for file in folder.iterdir())
    return [path / file for file in files]


def read_embeddings(path: str | Path, format: str | None = None) -> InitialEmbeddings:
    """Read what `write_embeddings` wrote; the format is recognised by the files' names."""
    path = artifacts.recovered(path)
    if format is not None and format not in _FILES:
        raise UnknownNameError("format", format, _FILES)
    if path.is_file():
        return InitialEmbeddings.load(path)
    if not path.is_dir():
        raise DataError(f"no such file or folder: {path}")
    if format is None:
        held = [name for name in _FILES if any(path.glob(_file(name, "users")))]
        if len(held) != 1:
            what = " and ".join(held) or "no embeddings"
            raise DataError(
                f"{path} holds {what}: name the format, one of {', '.join(_FILES)}"
            )
        format = held[0]
    if format == "safetensors":
        return InitialEmbeddings.load(path / SAFETENSORS)
    notes = (
        artifacts.read_object(path / PROVENANCE)
        if (path / PROVENANCE).is_file()
        else {}
    )
    if notes.get("format", _SEALED) != _SEALED:
        raise DataError(
            f"{path / PROVENANCE} has the format {notes['format']!r}, this release reads {_SEALED}"
        )
    if not all(isinstance(notes.get(side, {}), dict) for side in ("users", "items")):
        raise DataError(
            f"{path / PROVENANCE} must hold an object for 'users' and for 'items'"
        )
    # Files of other programs have neither notes nor a manifest.
    names = [
        file.name
        for side in ("users", "items")
        for file in path.glob(_file(format, side))
    ]
    artifacts.check_manifest(path, "embeddings", *names, required="format" in notes)
    users, items = (
        _read_side(path, format, side, notes) for side in ("users", "items")
    )
    return InitialEmbeddings(users[0], items[0], users[1], items[1])


def read_any(path: str | Path) -> InitialEmbeddings:
    """Embeddings in any format, or the tables of a trained model or run."""
    model = find_model(path)
    return read_embeddings(path) if model is None else read_trained(model)


def _file(format: str, side: str, name: str = "*") -> str:
    """The file of a side, or the pattern for files of any data set."""
    return _FILES[format].format(side=side, kind=side[:-1], name=name)


def _read_side(
    folder: Path, format: str, side: str, notes: dict[str, Any]
) -> tuple[Embedding, IdMap | None]:
    """Vectors in the order of sorted ids, and the ids; files of others come without notes."""
    pattern, kind, noted = _file(format, side), side[:-1], notes.get(side, {})
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise DataError(
            f"{folder} must hold exactly one file {pattern}, it holds {len(paths)}"
        )
    try:
        artifacts.regular_size(paths[0])
        values, vectors = VECTOR_READERS[format](paths[0])
        return _side(folder, kind, noted, values, vectors)
    except DataError:
        raise
    except (
        pa.ArrowException,
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
    ) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{paths[0]} is not in the format {format}: {reason}") from None
    except (TypeError, ValueError) as error:
        raise DataError(f"{paths[0]} or its {PROVENANCE} is damaged: {error}") from None


def _side(
    folder: Path,
    kind: str,
    noted: dict[str, Any],
    values: pa.Array,
    vectors: NDArray[np.float32],
) -> tuple[Embedding, IdMap | None]:
    """Rows of a file in the order of sorted ids, where they are whole, distinct and finite."""
    values.validate(full=True)  # text of other programs need not be text
    text = pa.types.is_string(values.type) and noted.get("ids") != "string"
    # Text becomes integers where every id looks like one and 64 bits hold it.
    if (
        text
        and pc.all(pc.match_substring_regex(values, r"^(0|-?[1-9][0-9]*)$")).as_py()
    ):
        with contextlib.suppress(pa.ArrowInvalid):
            values = values.cast(pa.int64())
    ids, n = IdMap.from_values(values, kind), len(vectors)
    if not len(ids) == len(values) == n:
        raise DataError(f"{folder}: {n} {kind} vectors for {len(ids)} distinct ids")
    if (rows := noted.get("rows", n)) != n:
        count = f"{n} {kind} vectors, {PROVENANCE} says {rows}"
        raise DataError(f"{folder} is cut short or from another export: {count}")
    if not np.all(np.isfinite(vectors)):
        raise DataError(f"{folder} has {kind} vectors with NaN or infinite entries")
    saved, origin = noted.get("eigenvalues"), noted.get("provenance", {})
    eigenvalues = None if saved is None else np.asarray(saved, dtype=np.float64)
    if eigenvalues is not None and eigenvalues.shape != vectors.shape[1:]:
        raise DataError(
            f"{folder / PROVENANCE} must have one eigenvalue per column, or none"
        )
    if not isinstance(origin, dict):
        raise DataError(f"the provenance in {folder / PROVENANCE} must be an object")
    ordered = np.empty(vectors.shape, dtype=np.float32)
    ordered[ids.encode(values)] = vectors
    embedding = Embedding(ordered, eigenvalues, origin)
    return embedding, None if noted.get("ids") == "none" else ids

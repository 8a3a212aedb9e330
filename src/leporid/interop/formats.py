"""One call to write embeddings in any format, one to read them back.

What a table of numbers cannot say (method, eigenvalues, type of ids) is in `provenance.json`.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.data import VECTOR_READERS, IdMap, Split, write_log
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.foundation import artifacts
from leporid.models import find_model, read_trained

Notes = Mapping[str, object]
"""Facts in `provenance.json` about one side: ids, rows, eigenvalues, provenance."""
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
"""Configuration with which RecBole gives the vectors, in its own row order, by
`dataset.get_preload_weight("uid")` and `("iid")`. The models of RecBole do not read them by
themselves; `leporid.initialize` puts them in."""
INITIALIZE_LINES = """\
import leporid  # RecBole's models read no preloaded weights: run this once the model is built
tokens = dataset.field2id_token
ids = {"users": [None, *tokens["user_id"][1:]], "items": [None, *tokens["item_id"][1:]]}
tables = {"users": "user_embedding", "items": "item_embedding"}
leporid.initialize(model, **tables, embeddings="%s", id_map=ids, padding_idx=0)
"""
"""Code that puts the vectors into a RecBole model; %s is the folder of the files."""
BENCHMARK_LINES = "benchmark_filename: [train, valid, test]\n"
"""Configuration with which RecBole reads three files in place of `NAME.inter`."""


def vector_table(
    ids: pa.Array,
    vectors: NDArray[np.float32],
    seen: pa.Array | None = None,
) -> pa.Table:
    """Return a table of `id`, `vector` as a fixed-size list and, if given, `seen`."""
    width = vectors.shape[1]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
    table = pa.table({"id": ids, "vector": lists})
    return table if seen is None else table.append_column("seen", seen)


def _write_parquet(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """Write ids and vectors, with the provenance in the schema."""
    provenance = json.dumps(dict(embedding.provenance), sort_keys=True)
    table = vector_table(ids, embedding.vectors)
    table = table.replace_schema_metadata({"leporid.provenance": provenance})
    pq.write_table(table, path)


def _write_csv(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """Write a header, then the id and the D entries of each row."""
    columns = {"id": ids}
    for index, column in enumerate(embedding.vectors.T.copy()):
        columns[f"v{index}"] = column
    pcsv.write_csv(pa.table(columns), path, pcsv.WriteOptions(quoting_style="needed"))


def _write_recbole(path: Path, kind: str, ids: pa.Array, embedding: Embedding) -> None:
    """Write RecBole's header, then id, tab and numbers.

    `recbole.yaml` beside it makes RecBole read the files.
    """
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

    RecBole looks for them in a folder of the data set's name, which is the default of `name`.
    """
    if split.train.is_target is not None or split.train.disliked is not None:
        raise ConfigError(
            "RecBole's files know no target events and no dislikes: load without events"
        )
    folder = Path(folder)
    name = name or folder.resolve().name
    files = [
        write_log(split.train, folder / f"{name}.train.inter"),
        write_log(split.valid, folder / f"{name}.valid.inter"),
        write_log(split.test, folder / f"{name}.test.inter"),
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
"""The file of a side ('users', of kind 'user'); `npy` and `implicit` are read, not written."""
_WRITERS: dict[str, Callable[[Path, str, pa.Array, Embedding], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "recbole": _write_recbole,
}
"""Writers of one side: each takes the path, the kind, the ids and the embedding."""
FORMATS = ("safetensors", *_WRITERS)


def write_embeddings(
    embeddings: InitialEmbeddings,
    path: str | Path,
    format: str = "safetensors",
    *,
    name: str | None = None,
) -> list[Path]:
    """Write users and items with their ids into the folder `path`; return the files.

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
            notes = _write_sides(
                embeddings, folder, format, name or path.resolve().name
            )
            artifacts.write_json(folder / PROVENANCE, notes)
            names = sorted(file.name for file in folder.iterdir())
            artifacts.write_manifest(folder, "embeddings", *names, beside=path)
        files = sorted(file.name for file in folder.iterdir())
    return [path / file for file in files]


def _write_sides(
    embeddings: InitialEmbeddings, folder: Path, format: str, name: str
) -> dict[str, object]:
    """Write the files of both sides; return what `provenance.json` says of them."""
    notes: dict[str, object] = {"format": _SEALED}
    for side, embedding, ids in embeddings.sides():
        known = pa.array(np.arange(embedding.n)) if ids is None else ids.ids
        file = folder / _file(format, side, name)
        _WRITERS[format](file, side[:-1], known, embedding)
        values = embedding.eigenvalues
        notes[side] = {
            "provenance": dict(embedding.provenance),
            "rows": embedding.n,
            "eigenvalues": None if values is None else values.tolist(),
            "ids": _id_type(ids),
        }
    return notes


def _id_type(ids: IdMap | None) -> str:
    """Return the type of ids that `provenance.json` names."""
    if ids is None:
        return "none"
    return "integer" if ids.is_integer else "string"


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
        format = _recognised_format(path)
    if format == "safetensors":
        return InitialEmbeddings.load(path / SAFETENSORS)

    notes = _read_notes(path)
    # Files of other programs have neither notes nor a manifest.
    names = [
        file.name
        for side in ("users", "items")
        for file in path.glob(_file(format, side))
    ]
    artifacts.check_manifest(path, "embeddings", *names, required="format" in notes)
    users, user_ids = _read_side(path, format, "users", notes.get("users", {}))
    items, item_ids = _read_side(path, format, "items", notes.get("items", {}))
    return InitialEmbeddings(users, items, user_ids, item_ids)


def _recognised_format(folder: Path) -> str:
    """Return the only format whose files a folder has."""
    present = [name for name in _FILES if any(folder.glob(_file(name, "users")))]
    if len(present) != 1:
        what = " and ".join(present) or "no embeddings"
        raise DataError(
            f"{folder} holds {what}: name the format, one of {', '.join(_FILES)}"
        )
    return present[0]


def _read_notes(folder: Path) -> dict[str, Any]:
    """Read `provenance.json`, if the folder has one."""
    path = folder / PROVENANCE
    if not path.is_file():
        return {}
    notes = artifacts.read_object(path)
    if notes.get("format", _SEALED) != _SEALED:
        raise DataError(
            f"{path} has the format {notes['format']!r}, this release reads {_SEALED}"
        )
    if not all(isinstance(notes.get(side, {}), dict) for side in ("users", "items")):
        raise DataError(f"{path} must hold an object for 'users' and for 'items'")
    return notes


def read_any(path: str | Path) -> InitialEmbeddings:
    """Read embeddings in any format, or the tables of a trained model or run."""
    model = find_model(path)
    return read_embeddings(path) if model is None else read_trained(model)


def _file(format: str, side: str, name: str = "*") -> str:
    """Return the file of a side, or the pattern for files of any data set."""
    return _FILES[format].format(side=side, kind=side[:-1], name=name)


def _read_side(
    folder: Path, format: str, side: str, notes: Notes
) -> tuple[Embedding, IdMap | None]:
    """Read vectors in the order of sorted ids, and the ids."""
    pattern = _file(format, side)
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise DataError(
            f"{folder} must hold exactly one file {pattern}, it holds {len(paths)}"
        )
    try:
        artifacts.regular_size(paths[0])
        values, vectors = VECTOR_READERS[format](paths[0])
        return _checked_side(folder, side[:-1], notes, values, vectors)
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


def _checked_side(
    folder: Path,
    kind: str,
    notes: Notes,
    values: pa.Array,
    vectors: NDArray[np.float32],
) -> tuple[Embedding, IdMap | None]:
    """Return the rows of a file in the order of sorted ids.

    Rows that are cut short, have an id twice or are not finite are refused.
    """
    values.validate(full=True)  # text of other programs need not be text
    if pa.types.is_string(values.type) and notes.get("ids") != "string":
        values = _as_integers(values)
    ids = IdMap.from_values(values, kind)
    n = len(vectors)
    if not len(ids) == len(values) == n:
        raise DataError(f"{folder}: {n} {kind} vectors for {len(ids)} distinct ids")
    rows = notes.get("rows", n)
    if rows != n:
        raise DataError(
            f"{folder} is cut short or from another export: "
            f"{n} {kind} vectors, {PROVENANCE} says {rows}"
        )
    if not np.all(np.isfinite(vectors)):
        raise DataError(f"{folder} has {kind} vectors with NaN or infinite entries")
    saved_eigenvalues = notes.get("eigenvalues")
    eigenvalues = None
    if saved_eigenvalues is not None:
        eigenvalues = np.asarray(saved_eigenvalues, dtype=np.float64)
        if eigenvalues.shape != vectors.shape[1:]:
            raise DataError(
                f"{folder / PROVENANCE} must have one eigenvalue per column, or none"
            )
    provenance = notes.get("provenance", {})
    if not isinstance(provenance, dict):
        raise DataError(f"the provenance in {folder / PROVENANCE} must be an object")

    ordered = np.empty(vectors.shape, dtype=np.float32)
    ordered[ids.encode(values)] = vectors
    embedding = Embedding(ordered, eigenvalues, provenance)
    return embedding, None if notes.get("ids") == "none" else ids


def _as_integers(texts: pa.Array) -> pa.Array:
    """Return integers if every text looks like one and 64 bits hold it, else the texts."""
    if pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]*)$")).as_py():
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(pa.int64())
    return texts

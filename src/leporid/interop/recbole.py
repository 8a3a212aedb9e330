"""RecBole's `.useremb` and `.itememb` files, with the settings that make RecBole read them."""

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

__all__ = ["CONFIG_LINES", "read_recbole", "write_recbole"]

_FIELDS = {"users": ("useremb", "uid", "user_emb"), "items": ("itememb", "iid", "item_emb")}

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


def write_recbole(embeddings: InitialEmbeddings, folder: Path, name: str) -> None:
    """`<name>.useremb`, `<name>.itememb` and `recbole.yaml`; `name` is RecBole's dataset name."""
    for side, embedding, ids in embeddings.sides():
        suffix, key, field = _FIELDS[side]
        problem = "are empty or contain tabs or line breaks"
        values = text_ids(ids, embedding.n, side, r"[\t\r\n]|^$", problem, "RecBole's files")
        lines = [f"{key}:token\t{field}:float_seq", *text_lines(values, embedding.vectors, "\t")]
        (folder / f"{name}.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "recbole.yaml").write_text(CONFIG_LINES, encoding="utf-8")
    write_provenance(folder, embeddings)


def read_recbole(folder: Path) -> InitialEmbeddings:
    """The inverse of `write_recbole`; the folder must hold one file of each kind."""
    users, items = (_read_side(folder, _FIELDS[side][0]) for side in SIDES)
    return assemble(users, items, read_provenance(folder), folder)


def _read_side(folder: Path, suffix: str) -> Side:
    found = sorted(folder.glob(f"*.{suffix}"))
    if len(found) != 1:
        raise DataError(f"{folder} must hold exactly one .{suffix} file, it holds {len(found)}")
    path = found[0]
    lines = path.read_text(encoding="utf-8").split("\n")
    ids, rows = [], []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        name, _, numbers = line.partition("\t")
        try:
            rows.append(np.array(numbers.split(), dtype=np.float32))
        except ValueError as error:
            raise DataError(f"line {number} of {path} is not a vector: {error}") from None
        if len(rows[-1]) != len(rows[0]) or len(rows[-1]) == 0:
            raise DataError(
                f"line {number} of {path} has {len(rows[-1])} numbers, not {len(rows[0])}"
            )
        ids.append(name)
    if not rows:
        raise DataError(f"{path} holds no vectors")
    return pa.array(ids, type=pa.string()), np.stack(rows)

"""Every format: what is written is read back, and what is broken is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.data import IdMap
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import DataError, UnknownNameError
from leporid.interop import FORMATS, read_embeddings, write_embeddings


def make(n_users: int = 5, n_items: int = 3, dim: int = 4, ids: Any = None) -> InitialEmbeddings:
    """Vectors over many magnitudes, with eigenvalues on one side only."""
    rng = np.random.default_rng(n_users)
    users, items = (
        (rng.standard_normal((n, dim)) * 10.0 ** rng.integers(-30, 5, (n, dim))).astype(np.float32)
        for n in (n_users, n_items)
    )
    user_values = ids or [10 * (u + 1) for u in range(n_users)]
    item_values = [f"naïve-{i}" for i in range(n_items)]
    return InitialEmbeddings(
        Embedding(users, np.linspace(0.9, 0.1, dim), {"method": "test", "data": "abc"}),
        Embedding(items, None, {"method": "test"}),
        IdMap.from_values(user_values, "user"),
        IdMap.from_values(item_values, "item"),
    )


def assert_same(a: InitialEmbeddings, b: InitialEmbeddings) -> None:
    """Equal to the bit: vectors, ids, eigenvalues, provenance."""
    for x, y in ((a.users, b.users), (a.items, b.items)):
        np.testing.assert_array_equal(x.vectors, y.vectors)
        assert y.vectors.dtype == np.float32
        assert dict(x.provenance) == dict(y.provenance)
        assert (x.eigenvalues is None) == (y.eigenvalues is None)
        if x.eigenvalues is not None and y.eigenvalues is not None:
            np.testing.assert_array_equal(x.eigenvalues, y.eigenvalues)
    assert a.user_ids == b.user_ids
    assert a.item_ids == b.item_ids


@pytest.mark.parametrize("format", FORMATS)
def test_round_trip_is_exact(tmp_path: Path, format: str) -> None:
    made = make()
    files = write_embeddings(made, tmp_path / "out", format)
    assert files
    assert all(file.is_file() for file in files)
    assert_same(read_embeddings(tmp_path / "out"), made)
    # A second write over the first replaces it, and leaves nothing beside it.
    other = make(7, 2)
    write_embeddings(other, tmp_path / "out", format)
    assert_same(read_embeddings(tmp_path / "out", format), other)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("format", FORMATS)
def test_number_like_strings_stay_strings(tmp_path: Path, format: str) -> None:
    made = make(3, ids=["10", "007", "9"])
    write_embeddings(made, tmp_path / "out", format)
    back = read_embeddings(tmp_path / "out")
    assert back.user_ids == made.user_ids
    assert back.user_ids is not None
    assert not back.user_ids.is_integer


@pytest.mark.parametrize("format", FORMATS)
def test_integers_of_64_bits_stay_integers(tmp_path: Path, format: str) -> None:
    made = make(3, ids=[2**63 - 1, 1234567890123456789, -(2**63)])
    write_embeddings(made, tmp_path / "out", format)
    assert read_embeddings(tmp_path / "out").user_ids == made.user_ids


@pytest.mark.parametrize("format", FORMATS)
def test_positions_are_used_where_there_are_no_ids(tmp_path: Path, format: str) -> None:
    made = make(12)
    bare = InitialEmbeddings(made.users, made.items)
    write_embeddings(bare, tmp_path / "out", format)
    back = read_embeddings(tmp_path / "out")
    assert back.user_ids is None
    np.testing.assert_array_equal(back.users.vectors, made.users.vectors)


@given(
    names=st.lists(
        st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
@settings(deadline=None, max_examples=30)
@pytest.mark.parametrize("format", ["csv", "parquet", "safetensors", "recbole"])
def test_any_text_is_an_id(tmp_path_factory: Any, format: str, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("ids") / "out"
    made = make(len(names), ids=names)
    write_embeddings(made, folder, format)
    assert_same(read_embeddings(folder), made)


def test_rows_follow_their_ids_not_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.useremb").write_text("uid:token\tuser_emb:float_seq\n30\t1 2\n4\t3 4\n")
    (tmp_path / "x.itememb").write_text("iid:token\titem_emb:float_seq\nb\t5 6 \n")
    back = read_embeddings(tmp_path)
    assert back.user_ids is not None
    assert back.user_ids.ids.to_pylist() == [4, 30]
    np.testing.assert_array_equal(back.users.vectors, [[3, 4], [1, 2]])


def test_arrays_of_earlier_exports_are_read_and_not_written(tmp_path: Path) -> None:
    for name, ids in (("users.npy", "users.ids.npy"), ("user_factors.npy", "user_ids.npy")):
        folder = tmp_path / name
        folder.mkdir()
        for side in ("user", "item"):
            np.save(folder / name.replace("user", side), np.eye(3, dtype=np.float32))
            np.save(folder / ids.replace("user", side), np.array([7, 5, 6]))
        back = read_embeddings(folder)
        assert back.item_ids is not None
        assert back.item_ids.ids.to_pylist() == [5, 6, 7]
        np.testing.assert_array_equal(back.items.vectors, np.eye(3)[[1, 2, 0]])
    with pytest.raises(UnknownNameError, match="format 'npy'"):
        write_embeddings(make(), tmp_path / "out", "npy")


def test_recbole_files_have_its_header_and_config(tmp_path: Path) -> None:
    write_embeddings(make(), tmp_path / "out", "recbole", name="ml-100k")
    lines = (tmp_path / "out" / "ml-100k.useremb").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "uid:token\tuser_emb:float_seq"
    assert lines[1].split("\t")[0] == "10"
    assert len(lines[1].split("\t")[1].split(" ")) == 4
    assert "preload_weight" in (tmp_path / "out" / "recbole.yaml").read_text()


def test_ids_a_format_cannot_hold_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line breaks"):
        write_embeddings(make(2, ids=["a\tb", "x"]), tmp_path / "out", "recbole")
    assert list(tmp_path.iterdir()) == []


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'parquet'"):
        write_embeddings(make(), tmp_path / "out", "parket")
    with pytest.raises(DataError, match="no embeddings"):
        read_embeddings(tmp_path)
    head = "uid:token\tuser_emb:float_seq\n"
    (tmp_path / "x.itememb").write_text("iid:token\titem_emb:float_seq\nb\t5 6\n")
    for rows, what in (
        ("30\t1 2\n4\t3\n", r"line 3 of .*x.useremb has 1 numbers"),
        ("4\t1 2\n4\t3 4\n", "1 distinct ids"),
        ("4\t1 nan\n", "NaN"),
    ):
        (tmp_path / "x.useremb").write_text(head + rows)
        with pytest.raises(DataError, match=what):
            read_embeddings(tmp_path)
    for format in ("parquet", "csv", "recbole"):
        folder = tmp_path / format
        write_embeddings(make(), folder, format)
        victim = next(p for p in sorted(folder.iterdir()) if "user" in p.name)
        victim.write_bytes(victim.read_bytes()[:60])
        with pytest.raises(DataError):
            read_embeddings(folder)


def test_a_single_safetensors_file(tmp_path: Path) -> None:
    made = make()
    assert write_embeddings(made, tmp_path / "e.safetensors") == [tmp_path / "e.safetensors"]
    assert_same(read_embeddings(tmp_path / "e.safetensors"), made)
    with pytest.raises(DataError, match="format is 'csv'"):
        write_embeddings(made, tmp_path / "f.safetensors", "csv")

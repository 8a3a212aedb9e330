"""Titles by index, and lists of ids from files."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leporid.data import IdMap, ItemInfo, load_items, read_ids, titles_of
from leporid.errors import DataError

_MOVIES = """movieId,title,genres,Release Year
1,"Toy Story",Animation|Comedy,1995
2,Heat,Action|Crime|Drama,1995
3,Ran,Drama,1985
"""


@pytest.fixture
def movies(tmp_path: Path) -> Path:
    path = tmp_path / "movies.csv"
    path.write_text(_MOVIES)
    return path


def test_titles_by_index_and_a_file_of_other_items(movies: Path, tmp_path: Path) -> None:
    named = titles_of(IdMap.from_values([2, 9], "item"), movies)
    assert named == [ItemInfo("Heat (1995)", ("Action", "Crime", "Drama")), ItemInfo("9")]
    with pytest.raises(DataError, match=r"none of the 1 items: its ids are such as '1', .* '77'"):
        titles_of(IdMap.from_values([77], "item"), movies)
    strange = tmp_path / "strange.csv"
    strange.write_text("code,label\n2,Heat\n")
    with pytest.raises(DataError, match=r"a column of item ids, .*\(columns found: code, la"):
        titles_of(IdMap.from_values([2], "item"), strange)


def test_ids_from_lines_columns_and_parquet(tmp_path: Path) -> None:
    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    assert read_ids(file("a.txt", "bea\n\n al \nbea\n")) == ["bea", "al"]
    assert read_ids(file("b.csv", "user_id,x\n7,1\n8,2\n")) == ["7", "8"]
    assert read_ids(file("c.csv", "x,who\n1,7\n"), column="who") == ["7"]
    assert read_ids(file("d.csv", "bea\nal\n")) == ["bea", "al"]
    assert read_ids(file("e.csv", "user\nal\n")) == ["al"]
    one = uuid.UUID(int=5)
    pq.write_table(pa.table({"x": [1, 2], "user": [one, one]}), tmp_path / "f.parquet")
    assert read_ids(tmp_path / "f.parquet") == [str(one)]
    with pytest.raises(DataError, match="no column that looks like the user"):
        read_ids(file("g.csv", "x,y\n1,2\n"))
    with pytest.raises(DataError, match="is empty"):
        read_ids(file("h.txt", "\n"))


def test_titles_of_any_length_and_lists_of_genres(tmp_path: Path) -> None:
    long = 'two\nlines, "quoted"' + "x" * 200_000
    table = pa.table(
        {"item": [1.0, 2.0], "title": ["Ran", long], "genres": [["Drama", "War"], None]}
    )
    table = table.append_column("more", pa.array([{"a": 1}, None]))
    pq.write_table(table, tmp_path / "a.parquet")
    assert load_items(tmp_path / "a.parquet") == {
        1: ItemInfo("Ran", ("Drama", "War")),
        2: ItemInfo(long),
    }
    text = 'item,title\n1,Ran\n2,"{}"\n'.format(long.replace('"', '""'))
    (tmp_path / "a.csv").write_text(text, newline="")
    assert load_items(tmp_path / "a.csv") == {1: ItemInfo("Ran"), 2: ItemInfo(long)}


def test_a_picture_is_the_first_address_of_its_cell(tmp_path: Path) -> None:
    far = "https://pictures.example/a.jpg"
    cells = [far, f"{far}|{far}", "a.jpg", "https://", "https://é.example/a", None]
    table = pa.table({"item_id": list(range(6)), "title": list("abcdef"), "imageURL": cells})
    found = load_items(table)
    assert [found[item].picture for item in range(6)] == [far, far, "", "", "", ""]
    sizes = pa.array([{"small": far}] * 6)  # no text: as if it were not there
    assert load_items(table.set_column(2, "image", sizes))[0] == ItemInfo("a")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", b"PAR1 no", "not a whole parquet file"),
        ("a.csv", b'item,title\n1,"Ran\n2,Heat\n', "line 2: a quote opens here"),
        ("a.csv", b"item,title\n1,Ran,x\n", "line 2: expected 2 columns, got 3"),
        ("u.item", b"1|Ran|||x|0|7\n", "a row has no item, title and genres"),
        ("movies.dat", b"1::Ran\n", "a row has no item, title and genres"),
        ("a.csv", b"", "is empty"),
    ],
)
def test_broken_tables_of_items(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_items(tmp_path / name)


def test_broken_files_of_ids(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="not a whole parquet file"):
        read_ids(tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": [[1], [2]]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"has type list.*, no id"):
        read_ids(tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text('user\n"al\n')
    with pytest.raises(DataError, match="line 2: a quote opens here"):
        read_ids(tmp_path / "c.csv")

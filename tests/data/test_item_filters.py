"""Items by a column of a table about them, titles by index, and lists of ids from files."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leporid.data import IdMap, ItemInfo, items_where, read_ids, titles_of
from leporid.errors import DataError, UnknownNameError

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


def test_items_by_one_of_several_values(movies: Path) -> None:
    assert items_where(movies, "genre", "drama") == ["2", "3"]
    assert items_where(movies, "genres", "Comedy", "crime") == ["1", "2"]
    assert items_where(movies, "release_year", "1995") == ["1", "2"]
    assert items_where(movies, "title", "ran") == ["3"]
    few = IdMap.from_values([3, 4], "item")
    assert items_where(movies, "genre", "Drama", among=few) == ["3"]


def test_a_value_or_column_that_is_not_there(movies: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'genres'"):
        items_where(movies, "genrs", "Drama")
    with pytest.raises(DataError, match=r"no item of .* has genre=Western; there are drama"):
        items_where(movies, "genre", "Western")


def test_titles_by_index_and_a_file_of_other_items(movies: Path, tmp_path: Path) -> None:
    named = titles_of(IdMap.from_values([2, 9], "item"), movies)
    assert named == [ItemInfo("Heat (1995)", ("Action", "Crime", "Drama")), ItemInfo("9")]
    with pytest.raises(DataError, match=r"none of the 1 items: its ids are such as '1', .* '77'"):
        titles_of(IdMap.from_values([77], "item"), movies)
    strange = tmp_path / "strange.csv"
    strange.write_text("code,label\n2,Heat\n")
    with pytest.raises(DataError, match=r"an item and a title column \(columns found: code, la"):
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

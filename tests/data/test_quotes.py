"""Quotes in delimited text: what is read, what is refused, and separators of several characters."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import pytest

from leporid import load
from leporid.data import delimited, load_items, store_interactions
from leporid.errors import DataError


def items_of(path: Path, separator: str | None = None, encoding: str = "utf-8") -> list[str]:
    data = load(path, user=0, item=1, separator=separator, encoding=encoding, progress=False)
    return [str(item) for item in data.items.ids.to_pylist()]


@pytest.mark.parametrize("bare", ['5" disk', 'a "b" "c', 'x"', "no quote"])
def test_a_quote_inside_a_field_does_not_hide_a_quoted_line_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare: str
) -> None:
    """pyarrow drops one half of a quoted CR LF that the end of a block cuts in two."""
    text = f'user,item\r\n1,{bare}\r\n2,"big\r\nid"\r\n3,other\r\n'
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    monkeypatch.setattr(delimited, "LONGEST_ROW", text.index("\r\nid") + 1)
    assert items_of(path) == sorted([bare, "big\r\nid", "other"])
    stored = store_interactions(path, tmp_path / "scratch", "100GB")
    assert "big\r\nid" in stored.items.ids.to_pylist()


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ('2,"ab"cd', 3),
        ('2,""e', 3),
        ('2,"a" "b"', 3),
        ('"2"2,b', 3),
        ('2,5" disk\n3,"open', 4),
        ('2,"a""\n3,b', 3),
        ('2,"a\nb"\n3,"c"d', 5),
        ('2,"a",\n3,"c', 4),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("longest", [4 << 20, 37])
def test_a_quote_that_is_not_closed_where_its_field_ends_is_refused_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: str,
    line: int,
    encoding: str,
    longest: int,
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f'user,item\n1,"e"\n{row}\n'.encode(encoding))
    monkeypatch.setattr(delimited, "LONGEST_ROW", longest)
    said = rf"a\.csv, line {line}: a quote opens here and is not closed where its field ends"
    with pytest.raises(DataError, match=said):
        load(path, encoding=encoding)
    with pytest.raises(DataError, match=said):
        store_interactions(path, tmp_path / "scratch", "100GB", encoding=encoding)


def test_quotes_that_are_written_well_are_read_as_the_standard_library_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    fields = ["".join(parts) for parts in itertools.product(('"', "x", "\r\n", ";"), repeat=3)]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=";", lineterminator="\r\n")
    writer.writerow(["user", "item"])
    writer.writerows((f"u{number}", f"{field}y") for number, field in enumerate(fields))
    path.write_bytes(text.getvalue().encode())
    expected = sorted(f"{field}y".strip() for field in fields)
    for longest in range(40, 60):
        monkeypatch.setattr(delimited, "LONGEST_ROW", longest)
        assert items_of(path) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("separator", ["::", "§"])
def test_separators_of_several_bytes_in_any_encoding(
    tmp_path: Path, encoding: str, separator: str
) -> None:
    path = tmp_path / "ratings.dat"
    rows = ["user", "item"], ["1", "caf\xe9"], ["2", "a\x1fb"], ["3", 'c"\x1e:d'], ["4", "~"]
    path.write_bytes("".join(f"{separator.join(row)}\n" for row in rows).encode(encoding))
    assert items_of(path, separator, encoding) == sorted(["caf\xe9", "a\x1fb", 'c"\x1e:d', "~"])
    stored = store_interactions(
        path, tmp_path / "scratch", "100GB", separator=separator, encoding=encoding
    )
    assert len(stored.items) == 4


def test_a_wrong_row_with_such_a_separator_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    path.write_bytes("1::a\x1fb\n2::c\n3\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"ratings\.dat, line 3: expected 2 columns, got 1"):
        load(path, encoding="utf-16")


def test_a_file_with_every_character_has_none_to_stand_in_for_its_separator(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    every = "".join(chr(n) for n in range(1, 127) if chr(n) not in "\t\r\n")
    path.write_text(f"1::a\n2::{every}\n", newline="")
    with pytest.raises(DataError, match=r"every ASCII character.*separate its fields with one"):
        load(path)


def test_titles_may_hold_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "movies.dat"
    path.write_bytes(b"1::Ran::Drama\n2::A\x1fB::War\n")
    assert [info.title for info in load_items(path).values()] == ["Ran", "A\x1fB"]

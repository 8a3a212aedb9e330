from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid import load
from leporid.data import delimited, store_interactions, write_log
from leporid.errors import ConfigError, DataError, LeporidWarning
from tests.data.strategies import Row, external_rows, rows


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


EXPECTED = [(1, 20, 5), (1, 10, 7), (2, 10, 6)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "userId,movieId,rating,timestamp\n1,10,4,7\n1,20,3,5\n2,10,1,6\n"),
        ("a.csv", "timestamp;Item-ID;x;USER\n7;10;q;1\n5;20;;1\n6;10;r;2"),
        ("a.csv", '"user_id","item_id","ts"\r\n"1","10",7\r\n\r\n1,20,5\r\n2,10,6\r\n'),
        ("a.csv", "\ufeffuser,item,time\n1,10,7\n1,20,5\n2,10,6\n"),
        ("a.csv", "\n\nuser,item,time\n1, 10 ,7\n 1,20,5\n2,10,6\n"),
        ("u.data", "1\t10\t4\t7\n1\t20\t3\t5\n2\t10\t1\t6\n"),
        ("ratings.dat", "1::10::4::7\n1::20::3::5\n2::10::1::6\n"),
        (
            "a.inter",
            "user_id:token\titem_id:token\ttimestamp:float\n1\t10\t7\n1\t20\t5\n2\t10\t6\n",
        ),
        ("a.txt", "1 10 4 7\n1 20 3 5\n2 10 1 6\n"),
        ("a.csv", "user,item,time\r1,10,7\r1,20,5\r\r2,10,6\r"),
        ("a.csv", 'user,"item\r\nid",time\n1,10,7\n1,"20" ,5\n2,10,6\n'),
        ("a.csv", "user,item,time\n1.0,10,7\n1.0,20,5\n2.0,10,6\n"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_usual_files(tmp_path: Path, name: str, text: str, zipped: bool) -> None:
    content = text.encode()
    path = write(
        tmp_path / (name + ".gz" * zipped), gzip.compress(content, mtime=0) if zipped else content
    )
    assert external_rows(load(path)) == EXPECTED


@pytest.mark.parametrize(("codec", "ending"), [("bz2", ".bz2"), ("zstd", ".zst"), ("gzip", "")])
def test_compression_is_known_by_the_first_bytes(tmp_path: Path, codec: str, ending: str) -> None:
    path = tmp_path / f"a.inter{ending}"
    with pa.output_stream(path, compression=codec) as stream:
        stream.write(b'user_id:token\titem_id:token\n1\t"a\n2\tb\n')
    assert load(path).items.ids.to_pylist() == ['"a', "b"]
    with pytest.raises(DataError, match=r"a\.inter.* is not a whole compressed file"):
        load(write(path, path.read_bytes()[:-4]))


def test_three_columns_without_header_are_told_apart(tmp_path: Path) -> None:
    rated = load(write(tmp_path / "a.csv", "1,10,4\n1,20,3\n"))
    assert rated.time is None
    assert rated.source is not None
    assert rated.source.columns == {"user": "column 0", "item": "column 1", "rating": "column 2"}
    timed = load(write(tmp_path / "b.csv", "1,10,978300760\n1,20,978300759\n"))
    assert timed.item.tolist() == [1, 0]
    dated = load(write(tmp_path / "c.csv", "a,10,2020-01-02\na,20,2020-01-01\n"))
    assert dated.item.tolist() == [1, 0]

    days = load(write(tmp_path / "d.csv", "1,10,20200102\n1,20,20200101\n"))
    assert days.item.tolist() == [1, 0]
    assert days.source is not None
    assert days.source.time_unit == "microseconds"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("user,item,lat,listened_at", "listened_at"),
        ("user,item,format,watchTime", "watchTime"),
        ("user,item,chat,Order Date", "Order Date"),
        ("user,item,created_at,ts", "ts"),
        ("user_id:token,item_id:token,flat:float,rated_time:float", "rated_time:float"),
        ("user,item,update,what", None),
    ],
)
def test_a_name_that_ends_in_a_word_for_time_is_the_time(
    tmp_path: Path, header: str, found: str | None
) -> None:
    source = load(write(tmp_path / "a.csv", f"{header}\n1,2,3,4\n")).source
    assert source is not None
    assert source.columns.get("time") == found


def test_a_given_column_is_not_guessed_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,time\n1,10,1\n1,20,5\n")
    data = load(path, rating="time", min_rating=2)
    assert data.time is None
    assert data.items.ids.to_pylist() == [20]


def test_the_report_says_what_was_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "who|what|when\n1|10|7\n2|10|6\n")
    with pytest.raises(DataError, match=r"a\.csv has no column .* user \(columns found: who, what"):
        load(path)
    data = load(path, user="who", item=1, time="when")
    assert data.source is not None
    assert data.source.guessed == ()
    assert data.source.separator == "|"
    assert data.source.sentence() == ""
    found = load(write(tmp_path / "b.csv", "uid,item,score\n1,10,7\n"))
    assert found.source is not None
    expected = "guessed: user=uid, item=item, rating=score, separator=',', header=yes"
    assert found.source.sentence() == expected
    assert found.source.rows == 1


def test_python_says_once_what_was_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEPORID_PROGRESS", "on")
    path = write(tmp_path / "b.csv", "uid,item\n1,10\n")
    said = f"{path}: guessed: user=uid, item=item, separator=',', header=yes\n"
    load(path)
    assert capsys.readouterr().err == said
    load(path, progress=False)
    load({"user": ["1"], "item": ["2"]}, user="user", item="item")
    assert capsys.readouterr().err == ""


def test_a_mistyped_column_is_answered_with_the_closest(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,movie,time\n1,10,7\n")
    with pytest.raises(DataError, match="did you mean 'movie'"):
        load(path, item="mvie")
    with pytest.raises(DataError, match="same column"):
        load(path, user="user", item="user")


def test_ids_keep_their_spelling(tmp_path: Path) -> None:
    text = "user,item\n007,é\n7,日本\n-1,x y\n"
    data = load(write(tmp_path / "a.csv", text))
    assert [row[:2] for row in external_rows(data)] == [("-1", "x y"), ("007", "é"), ("7", "日本")]
    negative = load(write(tmp_path / "b.csv", "user,item\n-5,3\n2,-1\n0,0\n"))
    assert negative.users.ids.to_pylist() == [-5, 0, 2]
    large = load(write(tmp_path / "c.csv", "user,item\n99999999999999999999,3\n2,1\n"))
    assert large.users.ids.to_pylist() == ["2", "99999999999999999999"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a\.csv is empty"),
        ("\n\n", r"a\.csv is empty"),
        ("user,item,time\n", r"a\.csv has no rows"),
        ("user,item,time\n1,2,3\n\n4,5\n", r"a\.csv, line 4: expected 3 columns, got 2"),
        ("user,item,time\n1,2,3\n4,5,6,7\n", r"line 3: expected 3 columns, got 4"),
        ("\n\nuser,item,time\n1,2,3\n4,5", r"line 5: expected 3 columns, got 2"),
        ("1::2::3::4\n1::2", r"line 2: expected 4 columns, got 2"),
        ("user\n1\n", r"line 1: found one column"),
        ('user,item\n1,"2\n3,4\n5,6\n', r"line 2: a quote opens here and is not closed"),
        ('user,item\n1,"2\n3,"4"\n5,6\n', r"line 2: a quote opens here and is not closed"),
        ('user,item\n"a\n\nb",2\n\n3,4,5\n', r"line 6: expected 2 columns, got 3"),
        ('"user,item\n1,2\n', r"line 1: a quote opens here and is not closed"),
        ('{"user": 1, "item": 2}\n{"user": 3, "item": 4}\n', r"line 1: this looks like JSON"),
        ("user,item\n1,2\n".encode("utf-16-le"), r"line 1: the bytes are not utf-8"),
        ("user,item\n1," + "x" * (9 << 20), r"line 2: a row is longer than 4 MiB"),
        ("x" * (9 << 20), r"line 1: a row is longer than 4 MiB"),
        ("user::item\n1::" + "x" * (9 << 20), r"line 2: a row is longer than 4 MiB"),
        (f"{','.join(['x' * 99] * 999)}\n", r"a\.csv has no column .{400,700}\.\.\.\): name it"),
        (
            "user,item,time\n1,2,yesterday\n",
            r"column 'time' holds 'yesterday', which is in none of",
        ),
        (b"user,item\n1,caf\xe9\n", r"line 2: the bytes are not utf-8"),
        (b"us\xe9r,item\n1,2\n", r"line 1: the bytes are not utf-8"),
        (
            gzip.compress(b"user,item\n" + b"1,2\n" * 5000, mtime=0)[:-20],
            r"not a whole compressed file",
        ),
    ],
)
def test_broken_files_are_refused_with_their_place(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "a.csv", text))


@pytest.mark.parametrize(("threads", "used"), [(1, False), (2, True)])
def test_one_thread_is_not_asked_to_wait_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, used: bool
) -> None:
    asked: list[bool] = []

    def read_csv(file: Any, read: Any, *options: Any) -> Any:
        asked.append(read.use_threads)
        return pa_csv.open_csv(file, read, *options).read_all()

    monkeypatch.setattr(delimited.pa, "cpu_count", lambda: threads)
    monkeypatch.setattr(delimited.pa_csv, "read_csv", read_csv)
    assert len(load(write(tmp_path / "a.csv", "user,item\n1,2\n"))) == 1
    assert asked == [used]


@pytest.mark.parametrize("role", ["rating", "weight", "time"])
def test_values_that_cannot_be_read_are_counted_and_shown(tmp_path: Path, role: str) -> None:
    values = ["3", "good", " 4.5 ", "5e0", "bad", "2", "7"]
    rows = "".join(f"1,{item},{value}\n" for item, value in enumerate(values))
    text = f"user,item,{role}\n{rows}"
    path = write(tmp_path / "a.csv", text)
    asked: dict[str, dict[str, Any]] = {"rating": {"min_rating": 1}, "weight": {"weight": "weight"}}
    options, kind = asked.get(role, {}), "in none of .*" if role == "time" else "no number"
    said = rf"a\.csv: column '{role}' holds 'good', which is {kind}: rows left out: 2"
    with pytest.warns(LeporidWarning, match=said):
        data = load(path, **options)
    assert data.dropped == {f"unreadable {role}": 2}
    assert data.items.ids.to_pylist() == [0, 2, 3, 5, 6]
    frame = {"user": [1] * 7, "item": list(range(7)), role: values}
    with pytest.warns(LeporidWarning, match="holds 'good'"):
        assert load(frame, **options).dropped == data.dropped
    if role != "weight":  # a log that is streamed has none
        with pytest.warns(LeporidWarning, match="holds 'good'"):
            stored = store_interactions(path, tmp_path / "scratch", "100GB", **options)
        assert stored.dropped == data.dropped
    worse = write(tmp_path / "b.csv", text.replace("4.5", "x").replace("5e0", "y"))
    with pytest.raises(DataError, match=rf"column '{role}' holds 'good'.*and 3 more"):
        load(worse, **options)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2024-02-27 02:12:00 UTC", 0),
        ("2024-02-27T02:12:00Z", 0),
        ("2024-02-27 02:12:00", 0),
        ("2024-02-27 02:12:00+02:00", 2),
        ("2024-02-27 02:12:00 +0200", 2),
        ("2024-02-27T02:12:00.000-05", -5),
    ],
)
def test_times_as_they_come(tmp_path: Path, text: str, zone: int) -> None:
    expected = datetime(2024, 2, 27, 2, 12, tzinfo=timezone(timedelta(hours=zone)))
    rows = f"user,item,bought_at\n1,1,{text}\n1,2,2024-02-30\n1,3,2024-02-28\n"
    with pytest.warns(LeporidWarning, match="holds '2024-02-30', which is in none of the forms"):
        data = load(write(tmp_path / "a.csv", rows))
    assert data.dropped == {"unreadable time": 1}
    assert data.time is not None
    assert data.time[0] == expected.timestamp() * 1_000_000
    assert data.ticks_per_day == 86_400_000_000


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000])
def test_the_unit_of_whole_numbers_is_found(unit: int) -> None:
    data = load({"user": [1, 2], "item": [1, 1], "ts": [1_709_000_000 * unit, 5]})
    assert data.ticks_per_day == 86_400 * unit
    assert load({"user": [1, 2], "item": [1, 1], "ts": [17, 5]}).ticks_per_day is None


def test_columns_that_are_not_read_are_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEPORID_PROGRESS", "on")
    path = write(tmp_path / "a.csv", "user,price,item,ts,stars,shop\n1,9,10,3,4,x\n")
    data = load(path)
    assert data.source is not None
    assert data.source.ignored == ("price", "shop")
    assert capsys.readouterr().err.count("not read: price, shop\n") == 1
    named = load(path, user="user", item="item", time="ts", rating="stars")
    assert named.source is not None
    assert named.source.sentence() == "not read: price, shop"


def test_other_encodings_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"user,item\n1,caf\xe9\n")
    assert load(path, encoding="latin-1").items.ids.to_pylist() == ["café"]
    wide = write(tmp_path / "b.csv", "user,item\n1,日\n".encode("utf-16"))
    assert load(wide, encoding="utf-16").items.ids.to_pylist() == ["日"]
    for encoding in ("ascii", "no-such", "hex", "a\0b"):
        with pytest.raises(DataError, match="bytes are not"):
            load(path, encoding=encoding)


@pytest.mark.parametrize("separator", ['"', "\n", "::\r"])
def test_some_characters_cannot_separate(tmp_path: Path, separator: str) -> None:
    with pytest.raises(ConfigError, match="cannot separate fields"):
        load(write(tmp_path / "a.csv", "user,item\n1,2\n"), separator=separator)


def test_long_fields_and_long_integers_are_themselves(tmp_path: Path) -> None:
    long = "x" * 300_000
    path = write(tmp_path / "a.csv", f"user,item\n9223372036854775807,{long}\n")
    assert external_rows(load(path)) == [(9223372036854775807, long, None)]


@pytest.mark.parametrize("name", ["a.inter", "a.inter.gz"])
def test_recbole_files_have_no_quotes(tmp_path: Path, name: str) -> None:
    text = b'user_id:token\titem_id:token\n1\t"a\n2\t"b"\n'
    path = write(tmp_path / name, gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    assert load(path).items.ids.to_pylist() == ['"a', '"b"']


def test_missing_values_are_counted_once_and_said(tmp_path: Path) -> None:
    text = "user,item,time\n1,10,7\n,10,7\nNA,,\n2,NaN,3\n2,10,\n2,20,null\n3,  ,4\n"
    path = write(tmp_path / "a.csv", text)
    with pytest.warns(LeporidWarning, match="left out 6 of 7 rows") as said:
        data = load(path)
    assert len(said) == 1
    assert data.dropped == {"missing user": 2, "missing item": 2, "missing time": 2}
    assert external_rows(data) == [(1, 10, 7)]


def test_all_rows_missing_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item\n,1\n,2\n")
    with (
        pytest.warns(LeporidWarning),
        pytest.raises(DataError, match="no rows are left of 2: 2 missing user"),
    ):
        load(path)


def test_the_rating_threshold_counts_without_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,rating\n1,10,2.5\n1,20,3\n2,30,5\n2,20,1\n")
    data = load(path, min_rating=3)
    assert data.dropped == {"below min_rating": 2}
    assert data.items.ids.to_pylist() == [20, 30]
    with pytest.raises(DataError, match="no rows are left of 4: 4 below min_rating"):
        load(path, min_rating=6)
    bare = write(tmp_path / "b.csv", "user,item\n1,2\n")
    with pytest.raises(DataError, match="no column that looks like a rating"):
        load(bare, min_rating=3)


def test_times_that_change_type_late_in_the_file(tmp_path: Path) -> None:
    """A fraction, or the first date, may appear megabytes after the first integer."""
    many = "".join(f"{n % 977},{n},{n}\n" for n in range(400_000))
    data = load(write(tmp_path / "a.csv", "user,item,time\n" + many + "0,999999,12.5\n"))
    assert data.source is not None
    assert data.source.time_unit == "microseconds"
    assert data.time is not None
    assert data.time[data.item == data.items.index(999999)].tolist() == [12_500_000]


@pytest.mark.parametrize("separator", ["::", "|||", ":|"])
def test_separators_of_several_characters_stream_as_they_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    """A field may hold a part of the separator, and a block may end anywhere."""
    monkeypatch.setattr(delimited, "LONGEST_ROW", 61)
    lines = (f"u:{n % 7}{separator}i|{n % 11}{separator}{n}\n" for n in range(200))
    path = write(tmp_path / "a.dat", f"user{separator}item{separator}time\n" + "".join(lines))
    data = load(path, separator=separator)
    assert data.users.ids.to_pylist() == [f"u:{n}" for n in range(7)]
    assert data.items.ids.to_pylist() == sorted(f"i|{n}" for n in range(11))
    stored = store_interactions(path, tmp_path / "scratch", "100GB", separator=separator)
    assert (stored.csr() != data.csr()).nnz == 0


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_a_quoted_line_break_survives_the_end_of_any_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """pyarrow drops the "\\n" of a quoted "\\r\\n" whose halves lie in two of its blocks."""
    items = [f"é{'x' * (n % 9)}\r\n{n}" for n in range(120)]
    text = "user,item,time\r\n" + "".join(f'{n},"{i}",{n}\r\n' for n, i in enumerate(items))
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    for longest in (61, 64, 100):
        monkeypatch.setattr(delimited, "LONGEST_ROW", longest)
        data = load(path, encoding=encoding)
        assert data.items.ids.to_pylist() == sorted(items)
        stored = store_interactions(path, tmp_path / "scratch", "100GB", encoding=encoding)
        assert stored.items.ids.to_pylist() == sorted(items)


TIME_COLUMNS = {
    "nanoseconds": (["2024-02-27 02:12:00.123456789", "2024-02-27 02:12:00.123456111"], 123_456),
    "nanoseconds in zones": (
        ["2024-02-27T02:12:00.123456789Z", "2024-02-27 04:12:00.123456789 +0200"],
        123_456,
    ),
    "forms": (["2024-02-27 02:12:00.123456789", "2024-02-27", "2024-02-27 02:12"], 123_456),
    "before nanoseconds": (["2024-02-27 02:12:00.000000001", "1500-01-01"], 0),
}


@pytest.mark.parametrize("form", TIME_COLUMNS)
def test_times_load_alike_from_one_file_two_parts_and_a_frame(tmp_path: Path, form: str) -> None:
    times, fraction = TIME_COLUMNS[form]
    expected = datetime(2024, 2, 27, 2, 12, tzinfo=UTC).timestamp() * 1_000_000 + fraction
    lines = [f"{user},7,{time}\n" for user, time in enumerate(times)]
    whole = load(write(tmp_path / "a.csv", "user,item,time\n" + "".join(lines)))
    assert whole.dropped == {}
    assert whole.time is not None
    assert whole.time[0] == expected
    (tmp_path / "log").mkdir()
    for number, line in enumerate(lines):
        write(tmp_path / "log" / f"part-{number}", f"user,item,time\n{line}")
    parts = load(tmp_path / "log", time="time")
    assert parts.digest == whole.digest
    users = list(range(len(times)))
    assert load({"user": users, "item": [7] * len(times), "time": times}).digest == whole.digest


@pytest.mark.parametrize("role", ["time", "rating", "weight"])
@pytest.mark.parametrize(
    ("values", "dropped"),
    [
        (["1", "2", "inf"], {"time": "missing time", "weight": "missing weight"}),
        (["1", "2", "0x10"], {name: f"unreadable {name}" for name in ("time", "rating", "weight")}),
        (["1.5", "2", "0X1F"], {n: f"unreadable {n}" for n in ("time", "rating", "weight")}),
        (["1", "1709000000123456789", "x"], {n: f"unreadable {n}" for n in ("time", "rating")}),
    ],
)
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_numbers_load_alike_from_one_file_two_parts_and_a_frame(
    tmp_path: Path, role: str, values: list[str], dropped: dict[str, str]
) -> None:
    asked: dict[str, dict[str, Any]] = {"rating": {"min_rating": 1}, "weight": {"weight": "weight"}}
    options = asked.get(role, {})
    lines = [f"{user},7,{value}\n" for user, value in enumerate(values)]
    head = f"user,item,{role}\n"
    whole = load(write(tmp_path / "a.csv", head + "".join(lines)), **options)
    if role in dropped:
        assert whole.dropped == {dropped[role]: 1}
    if role == "time" and "x" in values:
        assert whole.time is not None
        assert whole.time.tolist() == [1, 1709000000123456789]
    (tmp_path / "log").mkdir()
    write(tmp_path / "log" / "part-0", head + lines[0])
    write(tmp_path / "log" / "part-1", head + "".join(lines[1:]))
    parts = load(tmp_path / "log", user="user", item="item", **options)
    assert (parts.digest, parts.dropped) == (whole.digest, whole.dropped)
    frame = {"user": list(range(len(values))), "item": [7] * len(values), role: values}
    assert load(frame, **options).digest == whole.digest


LARGE_TIMES = [1709000000123456789, 1709000000123456788]
"""Two times that are one float."""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1709000000123456787.0", 1709000000123456787),
        ("1e18", 10**18),
        ("1.709e9", 1_709_000_000),
        ("5.0", 5),
        ("+7", 7),
        ("unreadable", None),
        ("inf", None),
    ],
)
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_one_time_in_another_form_does_not_round_the_others(
    tmp_path: Path, text: str, number: int | None
) -> None:
    times = [*map(str, LARGE_TIMES), text]
    path = write(
        tmp_path / "a.csv",
        "user,item,time\n" + "".join(f"{user},7,{time}\n" for user, time in enumerate(times)),
    )
    expected = LARGE_TIMES if number is None else [*LARGE_TIMES, number]
    frame = {"user": [0, 1, 2], "item": [7, 7, 7], "time": times}
    for source in (path, frame):
        data = load(source)
        assert data.time is not None
        assert data.time.tolist() == expected
        assert data.source is not None
        assert data.source.time_unit == "as given"


@pytest.mark.parametrize("scale", [0, 3])
def test_decimal_times_are_read_exactly(scale: int) -> None:
    times = pa.array(LARGE_TIMES).cast(pa.decimal128(30, scale))
    data = load({"user": [1, 2], "item": [1, 1], "time": times})
    assert data.time is not None
    assert data.time.tolist() == LARGE_TIMES


@pytest.mark.parametrize("text", ["1709000000123456787.5", "9223372036854775808", "1e70"])
def test_times_that_do_not_fit_beside_the_others_are_refused(tmp_path: Path, text: str) -> None:
    rows = "".join(f"{user},7,{time}\n" for user, time in enumerate([*LARGE_TIMES, text]))
    path = write(tmp_path / "a.csv", f"user,item,time\n{rows}")
    with pytest.raises(DataError, match="column 'time' holds times beyond 64 bits"):
        load(path)


def test_booleans_are_ratings(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,rating\n1,2,true\n1,3,false\n2,3,True\n")
    assert load(path, min_rating=1).dropped == {"below min_rating": 1}


@pytest.mark.parametrize("text", ["03/25/2024 10:00", "25.03.2024", "10:30:00", "0x10"])
def test_a_time_in_another_form_is_answered_with_those_that_are_read(
    tmp_path: Path, text: str
) -> None:
    path = write(tmp_path / "a.csv", f"user,item,time\n1,2,{text}\n")
    said = rf"holds '{text}', which is in none of the forms .*20240325.*with pandas\.to_datetime"
    with pytest.raises(DataError, match=said):
        load(path)
    with pytest.raises(DataError, match=said):
        load({"user": [1], "item": [2], "time": [text]})


@given(rows, st.sampled_from([".csv", ".tsv", ".inter", ".parquet"]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, log: list[Row], ending: str, text_ids: bool
) -> None:
    user, item, time = (list(column) for column in zip(*log, strict=True))
    if text_ids:
        user, item = [f"é{value}" for value in user], [f"0{value}, x" for value in item]
    data = load({"user": user, "item": item, "time": time})
    path = write_log(data, tmp_path_factory.mktemp("round") / f"log{ending}")
    again = load(path)
    assert external_rows(again) == external_rows(data)
    assert again.digest == data.digest

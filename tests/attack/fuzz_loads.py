"""Files that are well-formed, odd or broken, from a seed; what is read of them must be right.

    python -m tests.attack.fuzz_loads CASES [FIRST]

A well-formed file must come back row by row. A broken one may be refused by a `LeporidError` of
one line; text that is read all the same must have the rows that Python's `csv` finds in it.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.data import Split, delimited, load, load_items, read_ids, store_interactions
from leporid.errors import LeporidError, LeporidWarning
from tests.data.strategies import external_rows

Record = tuple[Any, Any, int]
_WORDS = ["a", "B7", "007", "+1", "é", "日本", "x y", "--", "1.5", "o'neil", "a|b", "a;b", "NAN"]
_ODD = ['a"b', '"', "a\nb", "a\r\nb", "\nz", ",", "a,b", '""', '"a"', ",\n,", '",\n"']
_WRONG = [b'"', b'""', b"\n", b"\r", b",", b"\t", b"\0", b"\xff", b"\xfe\xff", b"::", b"\x1f\x8b"]
_WRONG += [b"PAR1", b"9" * 30, b"1e999", b"NA", b"{", b"\xed\xa0\x80", b" ", b"-", b"\xef\xbb\xbf"]


def _ids(random_: random.Random, n: int, *, odd: bool) -> list[Any]:
    """`n` distinct ids: all integers, or all text that is not read as integers or missing."""
    if random_.random() < 0.5:
        top = random_.choice([40, 10**6, 2**63 - 1])
        return random_.sample([*range(top - n, top + 1), -1, -2, -(2**63)], n)
    words = _WORDS + _ODD * odd
    return [f"{random_.choice(words)}{k if k else 'q'}".strip() for k in range(n)]


def records(random_: random.Random, *, odd: bool) -> list[Record]:
    users, items = (_ids(random_, random_.randint(1, 6), odd=odd) for _ in range(2))
    last = random_.choice([9, 10**9, 2**62])
    n = random_.randint(1, 30)
    choice = random_.choice
    return [(choice(users), choice(items), random_.randint(-3, last)) for _ in range(n)]


def expected(rows: Sequence[Record]) -> list[Record]:
    """By user, time and place in the file; the first of every pair."""
    kept: dict[tuple[Any, Any], Record] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        kept.setdefault(row[:2], row)
    return list(kept.values())


def text_file(
    random_: random.Random, rows: Sequence[Sequence[Any]], names: list[str]
) -> tuple[str, bytes, dict[str, Any]]:
    """Name, content and options of a file of text with these rows."""
    separator = random_.choice(",;\t|")
    end = random_.choice(["\n", "\n", "\r\n", "\r"])
    out = io.StringIO()
    quoting = random_.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
    if end == "\r":  # Python would leave a line feed in a field unquoted
        quoting = csv.QUOTE_ALL
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator=end)
    for row in [names, *rows]:
        if random_.random() < 0.1:
            out.write(end)
        writer.writerow(row)
    text = out.getvalue()
    if random_.random() < 0.2:
        text = text.removesuffix(end)
    options: dict[str, Any] = {"separator": separator} if random_.random() < 0.7 else {}
    encoding = random_.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
    try:
        content = text.encode(encoding)
    except UnicodeError:
        encoding, content = "utf-8", text.encode()
    if encoding in ("utf-16", "cp1252"):
        options["encoding"] = encoding
    name = random_.choice(["log.csv", "log.txt", "log"]) if separator != "\t" else "log.tsv"
    if random_.random() < 0.2:
        return name + ".gz", gzip.compress(content, 1), options
    return name, content, options


def bare_file(random_: random.Random, rows: Sequence[Record]) -> tuple[str, bytes, dict[str, Any]]:
    """`::` and RecBole's tabs: formats without quotes and with lines as rows."""
    name, separator = random_.choice([("ratings.dat", "::"), ("log.inter", "\t")])
    end = random_.choice(["\n", "\r\n"])
    lines = [separator.join(["user_id:token", "item_id:token", "timestamp:float"])]
    if separator == "::":
        lines = ["user::item::time"]
    lines += [separator.join(map(str, row)) for row in rows]
    return name, (end.join(lines) + end).encode(), {"separator": separator}


def parquet_file(random_: random.Random, rows: Sequence[Record]) -> bytes:
    table = {}
    for place, name in enumerate(("user", "item")):
        column = pa.array([row[place] for row in rows])
        if pa.types.is_string(column.type):
            kind = random_.choice([pa.string(), pa.large_string(), pa.binary()])
            column = column.cast(kind) if kind != pa.binary() else column.dictionary_encode()
        table[name] = column
    table["time"] = pa.array([row[2] for row in rows], pa.int64())
    odd = [[{"a": 1}] * len(rows), [[1, 2]] * len(rows), [b"\xff"] * len(rows), [None] * len(rows)]
    table["more"] = pa.array(random_.choice(odd))
    out = io.BytesIO()
    size = random_.choice([1, 3, 100])
    codec = random_.choice(["none", "snappy", "zstd"])
    pq.write_table(pa.table(table), out, row_group_size=size, compression=codec)
    return out.getvalue()


def odd_parquet(random_: random.Random) -> bytes:
    """Whole parquet files whose columns are no ids or times, or hardly."""
    values: list[Any] = [
        pa.array([{"a": 1}, None]),
        pa.array([[1], [2, 3]]),
        pa.array([b"\xff\xfe", b"a"]),
        pa.array([2**62, -(2**62)], pa.timestamp(random_.choice(["ms", "us", "ns"]))),
        pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
        pa.array([2**62, 5], pa.int64()).cast(pa.date64()),
        pa.array([float("inf"), 1e300]),
        pa.array([2**64 - 1, 3], pa.uint64()),
        pa.array([None, None]),
        pa.array([True, False]),
        pa.array([1, 2], pa.time64("us")),
        pa.array([1, 2], pa.duration("s")),
        pa.array([1.5, -0.5]).cast(pa.decimal128(38, 30)),
        pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        pa.array(["x", "y"]),
        pa.array([1, 2]),
        pa.array([7.0, 8.0], pa.float32()),
    ]
    names = random_.choice(
        [["user", "item", "time"], ["user", "item", "rating"], ["item", "title"]]
    )
    arrays = [random_.choice(values) for _ in names]
    if random_.random() < 0.05:
        names = [names[0]] * len(names)
    out = io.BytesIO()
    pq.write_table(pa.table(arrays, names=names), out)
    return out.getvalue()


def broken(random_: random.Random, content: bytes) -> bytes:
    """The bytes with one to three changes that a disk, a network or a person makes."""
    data = bytearray(content)
    for _ in range(random_.randint(1, 3)):
        place = random_.randrange(len(data) + 1)
        length = random_.choice([1, 1, 2, 20])
        change = random_.randrange(5)
        if change == 0:
            del data[place : place + length]
        elif change == 1:
            data[place:place] = random_.choice(_WRONG)
        elif change == 2 and place < len(data):
            data[place] = random_.randrange(256)
        elif change == 3:
            data[place:place] = data[random_.randrange(len(data) + 1) :][: length * 3]
        elif random_.random() < 0.3:
            del data[place:]
    return bytes(data)


def rows_by_csv(content: bytes, separator: str, encoding: str) -> int | None:
    """How many rows Python's csv finds after the header; None where it cannot tell."""
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
        lines = io.StringIO(text, newline="")
        found = [row for row in csv.reader(lines, delimiter=separator) if row]
        first = next(place for place, row in enumerate(found) if "".join(row).strip("\ufeff \t"))
    except (UnicodeError, csv.Error, StopIteration):
        return None
    return len(found) - first


@contextlib.contextmanager
def readable(whole: bool) -> Iterator[None]:
    """A whole file must not be refused."""
    try:
        yield
    except LeporidError as error:
        if whole:
            raise AssertionError(f"refused: {error}") from None
        raise


def attack_log(random_: random.Random, folder: Path) -> None:
    """A log in any format, whole or broken."""
    kind = random_.choice(["text", "text", "text", "bare", "parquet"])
    rows = records(random_, odd=kind == "text")
    options: dict[str, Any] = {}
    if kind == "text":
        name, content, options = text_file(random_, rows, ["user", "item", "time"])
    elif kind == "bare":
        name, content, options = bare_file(random_, rows)
    else:
        name, content = "log.parquet", parquet_file(random_, rows)
    whole = random_.random() < 0.5
    if not whole:
        content = broken(random_, content)
    (folder / name).write_bytes(content)
    longest = random_.choice([200, 300, 4 << 20, 4 << 20])
    with readable(whole), mock.patch.object(delimited, "LONGEST_ROW", longest):
        data = load(folder / name, **options)
    if whole:
        assert external_rows(data) == expected(rows), (name, options)
        assert data.source is not None
        assert data.source.rows == len(rows)
        assert sum(data.dropped.values()) == len(rows) - len(data)
    elif kind == "text" and not name.endswith(".gz"):
        assert data.source is not None
        separator, encoding = data.source.separator or ",", options.get("encoding", "utf-8")
        by_csv = rows_by_csv(content, separator, encoding)
        if by_csv is not None and not content.startswith((b"\x1f\x8b", b"PAR1")):
            assert data.source.rows == by_csv - bool(data.source.header), (data.source, by_csv)


def attack_odd_columns(random_: random.Random, folder: Path) -> None:
    path = folder / "odd.parquet"
    path.write_bytes(odd_parquet(random_))
    if random_.random() < 0.3:
        path.write_bytes(broken(random_, path.read_bytes()))
    rating = random_.choice([None, 1.0])
    reads: list[Callable[[], Any]] = [
        lambda: load(path, min_rating=rating),
        lambda: store_interactions(path, folder / "stored", "100GB", min_rating=rating),
        lambda: load_items(path),
        lambda: read_ids(path),
        lambda: read_ids(path, "item"),
    ]
    random_.choice(reads)()


def attack_streamed(random_: random.Random, folder: Path) -> None:
    """The streaming loader reads what `load` reads."""
    rows, whole = records(random_, odd=True), random_.random() < 0.5
    content = parquet_file(random_, rows)
    (folder / "log.parquet").write_bytes(content if whole else broken(random_, content))
    with readable(whole):
        stored = store_interactions(folder / "log.parquet", folder / "stored", "100GB")
    if whole:
        data = load(folder / "log.parquet")
        assert stored.users == data.users
        assert stored.items == data.items
        assert (stored.csr() != data.csr()).nnz == 0


def attack_items(random_: random.Random, folder: Path) -> None:
    """Tables of items, and files of ids."""
    ids = _ids(random_, random_.randint(1, 8), odd=True)
    titles = [f"{random_.choice(_WORDS + _ODD)}!" for _ in ids]
    out = io.StringIO()
    kind, end = random_.choice([".csv", ".tsv"]), random_.choice(["\n", "\r\n"])
    csv.writer(out, delimiter="," if kind == ".csv" else "\t", lineterminator=end).writerows(
        [("item_id", "title"), *zip(ids, titles, strict=True)]
    )
    content, whole = out.getvalue().encode(), random_.random() < 0.5
    path = folder / f"items{kind}"
    if random_.random() < 0.1:
        path, whole = folder / random_.choice(["u.item", "movies.dat", "a.item", "ids.txt"]), False
    path.write_bytes(content if whole else broken(random_, content))
    if random_.random() < 0.5:
        with readable(whole):
            items = load_items(path)
        if whole:
            assert {key: info.title for key, info in items.items()} == dict(
                zip(ids, titles, strict=True)
            )
    else:
        with readable(whole):
            read = read_ids(path, "item")
        if whole:
            assert read == [str(value) for value in ids]


def attack_path(random_: random.Random, folder: Path) -> None:
    """Paths that lead nowhere, or not to a file."""
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dir").mkdir()
    (folder / "dir" / "inner.parquet").mkdir()
    wrong = [
        "~nobody-here/x",
        "x" * 5000,
        f"{folder}/{'x' * 300}",
        "a\0b",
        "\ud800",
        "",
        str(folder),
    ]
    wrong += [str(folder / name) for name in ("loop", "dir", "none", "none.parquet")]
    wrong += ["/dev/zero", "/dev/null", "/dev/null/x"]
    path = random_.choice(wrong)
    reads: list[Callable[[], Any]] = [
        lambda: load(path),
        lambda: load_items(path),
        lambda: read_ids(path),
        lambda: store_interactions(path, folder / "stored", "100GB"),
        lambda: Split.load(path),
    ]
    random_.choice(reads)()
    raise AssertionError(f"{path!r} was read")


ATTACKS = {
    attack_log: 12,
    attack_odd_columns: 3,
    attack_streamed: 1,
    attack_items: 4,
    attack_path: 1,
}


def attack(cases: range) -> tuple[Counter[str], list[str]]:
    """How the cases went, and the story of each that went wrong."""
    outcomes: Counter[str] = Counter()
    wrong = []
    for case in cases:
        random_ = random.Random(case)
        (one,) = random_.choices(list(ATTACKS), list(ATTACKS.values()))
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore", LeporidWarning)
            try:
                one(random_, Path(place))
                outcomes[f"{one.__name__} read"] += 1
            except LeporidError as error:
                outcomes[f"{one.__name__} refused"] += 1
                if len(str(error).splitlines()) != 1 or len(str(error)) > 6000:
                    wrong.append(f"case {case}: the error is no sentence: {error!r}")
            except Exception:
                wrong.append(f"case {case}: {traceback.format_exc()}")
    return outcomes, wrong


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts, failures = attack(range(first, first + int(sys.argv[1])))
    print(*failures[:20], sep="\n")
    print(dict(counts), f"{len(failures)} wrong")
    sys.exit(bool(failures))

"""Could DuckDB read logs in place of our own reader? Files with known rows, through both.

    python -m benchmarks.read_duckdb [--files 4000] [--megabytes 100]

DuckDB is no dependency: put it on the `PYTHONPATH`. Only the parsing is exchanged: the roles of
columns and the policies are ours on both sides, so a file is `equal` where the interactions are.
The files are those of `tests/attack/fuzz_loads.py`, half of them damaged, then one for each
behaviour that docs/data.md promises. Each is read by DuckDB in several ways:

- `sniffed`: the caller's separator and encoding are passed on, all else is DuckDB's guess;
- `sniffed as text`: the same, and every column is text;
- `strict`, `lenient`, `padded`: separator, header, quotes, encoding and compression as our `sniff`
  finds them, with `strict_mode` on, off, and off with `null_padding`.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import lzma
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import timed, write_record
from leporid.data import Interactions, load
from leporid.data.columns import RawTable, ReadOptions, find_columns
from leporid.data.delimited import sniff
from leporid.data.files import reading
from leporid.data.log_files import MISSING
from leporid.data.policies import to_interactions
from leporid.errors import LeporidError
from tests.attack.fuzz_loads import bare_file, broken, expected, parquet_file, records, text_file
from tests.data.strategies import external_rows

SNIFFED, EXPLICIT = ("sniffed", "sniffed as text"), ("strict", "lenient", "padded")
WAYS = (*SNIFFED, *EXPLICIT)
NOTES = (
    "Other programs ran on the machine: only the ratios of seconds say something.",
    "Three differences of strict, lenient and padded come from the glue between DuckDB and our "
    "policies: `times: nine decimals` (also of sniffed as text: our own policy refuses them where "
    "a column is text), `quotes: in the header` (DuckDB skips rows, `sniff` counts lines) and "
    "`folder: other order of columns` (one list of columns for all files).",
    "DuckDB reads UTF-8, UTF-16 and Latin-1. Others need its extension `encodings`, a download "
    "that was not tried. It does not decompress bzip2. Decoding first would mend both.",
    "Damaged text that strict reads differently: two files differ in the name of a reason alone "
    "(`missing` and `unreadable`), in two DuckDB takes quotes behind a space for quotes.",
    "250 of the whole text files that padded refuses have quoted line breaks, which need "
    "`parallel = false`; the others that any way but sniffed refuses are cp1252.",
    "The wheel of DuckDB 2.0.0 for Linux has 24 MB (68 MB installed), that of pyarrow 26.0.1 55 MB "
    "(170 MB installed).",
    "Sniffed ways get the separator and the encoding that the caller names, and our names for "
    "missing values; all else is DuckDB's default.",
)
OUTCOMES = (
    "equal",
    "both refuse",
    "differs silently",
    "refused, read today",
    "read, refused today",
)


@cache
def connected() -> Any:
    """One connection for all files: to open another costs ten times as much as a small file."""
    connection = import_module("duckdb").connect()
    connection.execute("SET threads = 2")
    connection.execute("SET autoinstall_known_extensions = false")
    return connection


@dataclass(frozen=True)
class Case:
    """A file or folder, and what the caller says of it."""

    kind: str
    name: str
    content: bytes | Mapping[str, bytes]
    """Bytes of a file, or those of each file of a folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    truth: list[Any] | None = None
    """The rows that it holds, where they are known."""

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.content, bytes):
            path.write_bytes(self.content)
            return path
        for name, content in self.content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path


def fuzzed(count: int) -> Iterator[Case]:
    """Files of the fuzz test, from the seeds 0 to `count` - 1."""
    for seed in range(count):
        random_ = random.Random(seed)
        kind = random_.choice(["text", "text", "text", "text", "bare", "parquet"])
        rows = records(random_, odd=kind == "text")
        options: dict[str, Any] = {}
        if kind == "text":
            name, content, options = text_file(random_, rows, ["user", "item", "time"])
        elif kind == "bare":
            name, content, options = bare_file(random_, rows)
        else:
            name, content = "log.parquet", parquet_file(random_, rows)
        if random_.random() < 0.5:
            yield Case(f"{kind}, whole", name, content, options, expected(rows))
        else:
            yield Case(f"{kind}, damaged", name, broken(random_, content), options)


def documented() -> Iterator[Case]:
    """One file for each promise of docs/data.md."""

    def text(kind: str, content: str | bytes, name: str = "a.csv", **options: Any) -> Case:
        data = content if isinstance(content, bytes) else content.encode()
        return Case(kind, name, data, options)

    rows = "1,10,7\n1,20,5\n2,10,6\n"
    log = "user,item,time\n" + rows
    yield text("comma", log)
    for name, separator in (("tab", "\t"), ("semicolon", ";"), ("bar", "|"), ("space", " ")):
        yield text(f"separator: {name}", log.replace(",", separator), "a.txt")
    yield text("separator: ::", log.replace(",", "::"), "a.dat")
    yield text("separator: :: without header", "1::10::4::7\n1::20::3::5\n", "ratings.dat")
    yield text("separator: ||| named", log.replace(",", "|||"), "a.dat", separator="|||")
    yield text("separator: fields hold another", "user;item;time\na,b;c,d;7\na,e;c,d;8\n")
    yield text("separator: a part of :: in a field", "user::item::time\nu:1::a:b::7\n", "a.dat")
    yield text("RecBole", 'user_id:token\titem_id:token\n1\t"a\n2\t"b"\n', "a.inter")
    yield text("header: none, two columns", "1,10\n2,20\n")
    yield text("header: none, u.data", "1\t10\t4\t7\n1\t20\t3\t5\n2\t10\t1\t6\n", "u.data")
    yield text("header: none, date third", "a,10,2020-01-02\na,20,2020-01-01\n")
    yield text("header: none, text ids", "ann,x1,7\nbob,x2,8\n")
    yield text("header: text everywhere", "user,item\nann,x\nbob,y\n")
    yield text("header: text everywhere, one row", "user,item\nann,x\n")
    yield text(
        "header: names that are no usual ones",
        "who|what|when\n1|10|7\n2|10|6\n",
        user="who",
        item="what",
        time="when",
    )
    yield text("header: repeated name", "user,item,x,x\n1,10,3,4\n2,20,5,6\n")
    yield text("header: repeated user", "user,item,user\n1,10,3\n2,20,5\n")
    yield text("header: names with case", "User,item,user\n1,10,3\n2,20,5\n")
    yield text("header: empty name", ",user,item\n0,1,10\n1,2,20\n")
    yield text("header: header=False", "1,2\n3,4\n", header=False)
    yield text(
        "header: again in the middle", "user,item,time\n1,10,7\nuser,item,time\n2,10,6\n2,20,8\n"
    )
    yield text("header: once more at the top of each part", "user,item,time\n1,10,7\n")
    yield text("BOM", "\ufeff" + log)
    yield text("BOM, no header", "\ufeff1,10,4\n2,20,3\n")
    for encoding in (
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "latin-1",
        "cp1252",
        "shift-jis",
        "utf-32",
    ):
        letters = "日本" if encoding == "shift-jis" else "café"
        content = f"user,item,time\n1,{letters},7\n2,x,8\n".encode(encoding)
        yield text(f"encoding: {encoding}", content, encoding=encoding)
    yield text("encoding: latin-1, not said", "user,item\n1,café\n2,x\n".encode("latin-1"))
    yield text(
        "encoding: latin-1 after 30,000 rows, not said",
        b"user,item\n" + b"1,2\n" * 30_000 + b"3,caf\xe9\n",
    )
    yield text("encoding: UTF-16, not said", log.encode("utf-16"))
    yield text("line ends: CRLF", log.replace("\n", "\r\n"))
    yield text("line ends: CR", log.replace("\n", "\r"))
    yield text("line ends: mixed", "user,item,time\r\n1,10,7\n1,20,5\r\n2,10,6\n")
    yield text("line ends: none at the end", log.rstrip())
    yield text("blank lines: between", "user,item,time\n\n1,10,7\n\n\n2,10,6\n")
    yield text("blank lines: before", "\n\n" + log)
    yield text("quotes: line break", 'user,item,time\n1,"a\nb",7\n2,"c\r\nd",8\n')
    yield text("quotes: line break in CRLF file", 'user,item\r\n1,"a\r\nb"\r\n2,"c\nd"\r\n')
    yield text("quotes: in the header", 'user,"item\nid",time\n1,10,7\n')
    yield text("quotes: doubled", 'user,item\n1,"say ""x"""\n2,""""\n')
    yield text("quotes: inside a bare field", 'user,item\n1,7" vinyl\n2,a"b"c\n')
    yield text("quotes: apostrophes", "user,item\n1,'a'\n2,'b'\n3,o'neil\n")
    yield text("quotes: backslash", 'user,item\n1,"a\\"\n2,b\\\n')
    yield text("quotes: separators in them", 'user,item\n1,"a,b"\n2,"c;d"\n')
    yield text("quotes: closed before a space", 'user,item,time\n1,"20" ,5\n2,10,6\n')
    yield text("quotes: not closed", 'user,item\n1,"2\n3,4\n5,6\n')
    yield text("quotes: closed two rows on", 'user,item\n1,"2\n3,"4"\n5,6\n')
    yield text("quotes: text behind the closing one", 'user,item\n1,"2"x\n3,4\n')
    yield text(
        "quotes: not closed after 30,000 rows", "user,item\n" + "1,2\n" * 30_000 + '3,"4\n5,6\n'
    )
    yield text("ids: leading zeros", "user,item\n007,1\n7,2\n010,3\n")
    yield text("ids: leading zeros in all", "user,item\n007,1\n008,2\n")
    yield text("ids: leading zero after 30,000 rows", "user,item\n" + "7,1\n" * 30_000 + "007,2\n")
    yield text("ids: plus sign", "user,item\n+7,1\n7,2\n")
    yield text("ids: white space around", "user,item\n 7 ,x \n7, x\n8,y\n")
    yield text("ids: blank", "user,item\n  ,x\n7,x\n8,y\n")
    yield text("ids: beyond 64 bits", "user,item\n99999999999999999999,3\n2,1\n")
    yield text(
        "ids: largest of 64 bits", "user,item\n9223372036854775807,3\n9223372036854775806,1\n"
    )
    yield text("ids: 40 digits", f"user,item\n{'1' * 40},3\n{'1' * 39}2,1\n")
    yield text("ids: whole floats", "user,item\n7.0,1\n8.0,2\n")
    yield text("ids: negative", "user,item\n-5,3\n2,-1\n0,0\n")
    yield text("ids: booleans", "user,item\ntrue,3\nfalse,4\nTRUE,5\n")
    yield text("ids: dates", "user,item\n2020-01-02,3\n2020-1-2,4\n")
    yield text("ids: with exponent", "user,item\n1e5,3\n100000,4\n")
    yield text(
        "ids: UUIDs in capitals",
        "user,item\n6F9619FF-8B86-D011-B42D-00CF4FC964FF,3\n6f9619ff-8b86-d011-b42d-00cf4fc964fe,4\n",
    )
    yield text("ids: times of a day", "user,item\n1:2:3,3\n01:02:03,4\n")
    yield text("ids: text after 30,000 integers", "user,item\n" + "7,1\n" * 30_000 + "x,2\n")
    yield text(
        "missing: unquoted", "user,item,time\n1,10,7\n,10,7\nNA,3,\n2,NaN,3\n2,10,\n2,20,null\n"
    )
    yield text("missing: quoted NA is an id", 'user,item\n"NA",10\nNA,20\n2,30\n')
    yield text("missing: quoted and empty", 'user,item\n"",10\n2,30\n')
    yield text("missing: a last field", "user,item,x\n1,10,\n2,20,\n")
    yield text(
        "times: nine decimals",
        "user,item,time\n1,1,2024-02-27T02:12:00.123456789\n1,2,2024-02-27T02:12:00.123456788\n",
    )
    yield text(
        "times: with a zone",
        "user,item,time\n1,1,2024-02-27T02:12:00Z\n1,2,2024-02-27 02:12:00+02:00\n",
    )
    yield text(
        "times: UTC behind",
        "user,item,time\n1,1,2024-02-27 02:12:00 UTC\n1,2,2024-02-28 02:12:00 UTC\n",
    )
    yield text(
        "times: a wrong day", "user,item,time\n1,1,2024-02-27\n1,2,2024-02-30\n1,3,2024-02-28\n"
    )
    yield text("times: as days", "user,item,time\n1,10,20200102\n1,20,20200101\n")
    yield text("times: day first", "user,item,time\n1,1,27/02/2024\n1,2,28/02/2024\n")
    yield text("times: day or month first", "user,item,time\n1,1,01/02/2024\n1,2,02/01/2024\n")
    yield text("times: beyond 2^53", "user,item,time\n1,1,9007199254740993\n1,2,9007199254740992\n")
    yield text(
        "times: fraction after 30,000 rows",
        "user,item,time\n" + "".join(f"1,{n},{n}\n" for n in range(30_000)) + "0,1,12.5\n",
    )
    yield text("ratings: comma as decimal", "user;item;rating\n1;2;3,5\n2;3;4,5\n", min_rating=1)
    yield text("columns: a row too short", log + "4,5\n")
    yield text("columns: a row too long", log + "4,5,6,7\n")
    yield text(
        "columns: too short after 30,000 rows", "user,item,time\n" + "1,2,3\n" * 30_000 + "4,5\n"
    )
    yield text("columns: most rows shorter than the header", "user,item,time\n1,2\n3,4\n5,6\n")
    yield text(
        "columns: a note above the header", "# made by a shop\nuser,item,time\n1,2,3\n4,5,6\n"
    )
    yield text("columns: rows that begin with #", "user,item\n#1,2\n#2,3\n4,5\n")
    yield text("columns: first row is a stray one", "x\nuser,item\n1,2\n3,4\n")
    yield text("columns: one", "user\n1\n2\n")
    yield text("empty", "")
    yield text("header alone", "user,item,time\n")
    yield text("JSON", '{"user": 1, "item": 2}\n{"user": 3, "item": 4}\n')
    yield text("bytes of zero", b"user,item\n1,a\0b\n2,c\n")
    yield text("a row of 9 MiB", "user,item\n1," + "x" * (9 << 20) + "\n")
    yield text("a field of 300,000 letters", "user,item\n1," + "x" * 300_000 + "\n2,y\n")
    packed = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    packed["zst"] = lambda data: pa.compress(data, codec="zstd", asbytes=True)
    for ending, pack in packed.items():
        yield text(f"compressed: {ending}", pack(log.encode()), f"a.csv.{ending}")
        yield text(f"compressed: {ending}, not in the name", pack(log.encode()), "a.csv")
        cut = pack(("user,item\n" + "".join(f"{n},{n * 7}\n" for n in range(5000))).encode())[:-20]
        yield text(f"compressed: {ending}, cut", cut, f"a.csv.{ending}")
    many = gzip.compress(log.encode()) + gzip.compress(b"3,4,5\n")
    yield text("compressed: two gzip streams", many, "a.csv.gz")
    parts = {"part-0.csv": log.encode(), "part-1.csv": b"user,item,time\n5,6,7\n"}
    yield Case("folder: parts", "logs", {**parts, "_SUCCESS": b"", ".part-0.crc": b"crc"})
    yield Case(
        "folder: parts without an ending",
        "logs",
        {f"part-0000{n}": f"{n},2,3\n".encode() for n in range(3)},
    )
    yield Case("folder: an empty part", "logs", {**parts, "part-2.csv": b""})
    yield Case(
        "folder: a part with a header alone", "logs", {**parts, "part-2.csv": b"user,item,time\n"}
    )
    yield Case("folder: other columns", "logs", {**parts, "part-2.csv": b"user,item\n1,2\n"})
    yield Case(
        "folder: other order of columns",
        "logs",
        {**parts, "part-2.csv": b"item,user,time\n9,8,7\n"},
    )
    days = {f"day=2024-01-0{n}/part-0.csv": f"user,item\n{n},2\n".encode() for n in (1, 2)}
    yield Case("folder: partitions", "logs", days, {"time": "day"})
    shops = {f"user=0{n}/part-0.csv": f"item,x\n{n},2\n".encode() for n in (1, 2)}
    yield Case("folder: partitions with leading zeros", "logs", shops)
    nothing = {"day=__HIVE_DEFAULT_PARTITION__/part-0.csv": b"user,item\n7,2\n"}
    yield Case("folder: partition without a value", "logs", {**days, **nothing}, {"time": "day"})
    yield Case(
        "folder: compressed parts",
        "logs",
        {f"part-{n}.csv.gz": gzip.compress(log.encode()) for n in (1, 2)},
    )


def by_duckdb(path: Path, options: Mapping[str, Any], way: str) -> Interactions:
    """`load` with DuckDB's parsing; the table goes through our columns and policies."""
    asked = {
        name: options.get(name) for name in ("user", "item", "time", "rating", "weight", "event")
    }
    need_rating = options.get("min_rating") is not None
    separator, header = options.get("separator"), options.get("header")
    given = ReadOptions(asked, need_rating, separator, header, options.get("encoding", "utf-8"))
    files, read = str(path), "read_csv"
    if path.is_dir():
        found = sorted(str(file) for file in path.rglob("*") if file.name[0] not in "._")
        files = [file for file in found if Path(file).is_file()]  # type: ignore[assignment]
    elif path.suffix == ".parquet":
        read = "read_parquet"
    settings: dict[str, Any] = {}
    first_row = None
    if path.is_dir():
        settings |= {"hive_partitioning": True, "hive_types_autocast": way == "sniffed"}
    if read == "read_csv":
        settings |= {"nullstr": MISSING, "allow_quoted_nulls": False}
        if way in SNIFFED:
            settings |= {"all_varchar": way == "sniffed as text"}
            settings |= {} if separator is None else {"delim": separator}
            settings |= {} if header is None else {"header": header}
            if given.encoding not in ("utf-8", "utf-8-sig"):
                settings["encoding"] = given.encoding
        else:
            one = files if isinstance(files, str) else files[0]
            with reading(one) as file:
                layout = sniff(file, separator, header, given.encoding)
            names = [f"c{position}" for position in range(len(layout.names))]
            settings |= {
                "auto_detect": False,
                "columns": dict.fromkeys(names, "VARCHAR"),
                "delim": layout.separator,
                "header": False,
                "skip": layout.line - 1,
                "quote": '"' if layout.quoting else "",
                "escape": '"' if layout.quoting else "",
                "encoding": given.encoding.removesuffix("-sig"),
                "strict_mode": way == "strict",
                "null_padding": way == "padded",
            }
            with open(one, "rb") as content:
                packed = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}.get(content.read(2))
            settings |= {"compression": packed} if packed else {}
            first_row = None if layout.header else layout.first_row
    shown = ", ".join(f"{name} = {_literal(value)}" for name, value in settings.items())
    query = f"SELECT * FROM {read}({_literal(files)}{', ' * bool(shown)}{shown})"
    table = connected().sql(query).to_arrow_table()
    names = table.column_names
    if read == "read_csv" and way in EXPLICIT:
        names = [*layout.names, *names[len(layout.names) :]]
    elif table.num_rows and all(re.fullmatch(r"column\d+", name) for name in names):
        first_row = [str(value) for value in table.slice(0, 1).to_pylist()[0].values()]
    positions, report = find_columns(names, given, str(path), "text", first_row)
    chosen = table.select([table.column_names[position] for position in positions.values()])
    raw = RawTable.of(chosen, positions, report)
    return to_interactions(raw, options.get("min_rating"))


def _literal(value: Any) -> str:
    """A value as SQL writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return "{" + ", ".join(f"{_literal(key)}: {_literal(v)}" for key, v in value.items()) + "}"


def result(read: Any) -> tuple[list[Any] | None, str]:
    """The rows, or None and the error."""
    try:
        data = read()
    except (LeporidError, import_module("duckdb").Error, pa.ArrowException) as error:
        return None, str(error)
    return [*map(tuple, external_rows(data)), dict(data.dropped)], ""


def outcome(ours: list[Any] | None, theirs: list[Any] | None) -> str:
    if ours is None:
        return "both refuse" if theirs is None else "read, refused today"
    if theirs is None:
        return "refused, read today"
    return "equal" if repr(ours) == repr(theirs) else "differs silently"


def compare(
    cases: Iterator[Case],
) -> tuple[dict[tuple[str, str], Counter[str]], list[dict[str, str]]]:
    """Outcomes by (kind, way), and every case that is not equal or refused by both."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    stories = []
    for number, case in enumerate(cases):
        if number % 200 == 0:
            print(case.kind, number, flush=True)
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = case.write(Path(place))
            ours, error = result(partial(load, path, progress=False, **case.options))
            if case.truth is not None and (ours is None or ours[:-1] != case.truth):
                raise SystemExit(f"our own reader is wrong: {case}, {error}")
            for way in WAYS if path.suffix != ".parquet" else ("sniffed",):
                theirs, reason = result(partial(by_duckdb, path, case.options, way))
                found = outcome(ours, theirs)
                counts.setdefault((case.kind, way), Counter())[found] += 1
                told = {"kind": case.kind, "way": way, "outcome": found}
                told |= {"ours": error or _short(ours), "DuckDB": reason or _short(theirs)}
                told = {key: text.replace(place, "") for key, text in told.items()}
                stories.append(told | {"options": str(dict(case.options))})
    return counts, stories


def _short(rows: Any) -> str:
    text = repr(rows)
    return text if len(text) < 300 else f"{text[:140]} ... {text[-140:]}"


def speed(megabytes: int) -> Iterator[dict[str, Any]]:
    """Seconds of both for one large file of integers, and one of quoted text."""
    draws = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        for kind in ("integers", "quoted text"):
            path, count = Path(place) / f"{kind}.csv", megabytes * (1 << 20) // 20
            users, items = draws.integers(10**6, size=count), draws.integers(10**5, size=count)
            times = draws.integers(1_600_000_000, 1_700_000_000, size=count)
            form = "{},{},{}\n" if kind == "integers" else '"u{}","i, {}",{}\n'
            with open(path, "w") as file:
                file.write("user,item,time\n")
                while file.tell() < megabytes << 20:
                    block = zip(users[:50_000], items[:50_000], times[:50_000], strict=True)
                    file.write("".join(form.format(*row) for row in block))
                    users, items, times = users[50_000:], items[50_000:], times[50_000:]
                    if not len(users):
                        break
            seconds: dict[str, float] = {}
            for _ in range(2):
                for name in ("ours", "sniffed", "strict"):
                    if name == "ours":
                        spent, _ = timed(partial(load, path, progress=False))
                    else:
                        spent, _ = timed(partial(by_duckdb, path, {}, name))
                    seconds[name] = min(spent, seconds.get(name, np.inf))
            size = path.stat().st_size / (1 << 20)
            for name, spent in seconds.items():
                row = {"what": f"seconds for {size:.0f} MiB of {kind}", "way": name}
                yield row | {"seconds": round(spent, 2), "times ours": spent / seconds["ours"]}


def import_seconds(modules: str) -> float:
    """Best of five fresh processes."""
    code = f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return min(float(run.stdout) for run in runs)


def fuzz(count: int) -> tuple[dict[tuple[str, str], Counter[str]], list[dict[str, str]]]:
    return compare(fuzzed(count))


def promises() -> tuple[dict[tuple[str, str], Counter[str]], list[dict[str, str]]]:
    return compare(documented())


def speeds(megabytes: int) -> list[dict[str, Any]]:
    return list(speed(megabytes))


def notes_of(stories: list[dict[str, str]]) -> list[str]:
    """What to know of the figures, and the promises that each way does not keep."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for told in stories:
        if told["outcome"] in OUTCOMES[2:]:
            kinds.setdefault((told["way"], told["outcome"]), []).append(told["kind"])
    listed = [f"{way}, {found}: {'; '.join(of)}." for (way, found), of in kinds.items()]
    return [*NOTES, *sorted(listed)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=2400)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--stories", type=Path, help="a file for every outcome, as lines of JSON")
    options = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        first, second = pool.submit(fuzz, options.files), pool.submit(promises)
        third = pool.submit(speeds, options.megabytes)
        (promised, more), sizes = second.result(), third.result()
        print(*sizes, sep="\n", flush=True)
        counts, stories = first.result()
    if options.stories:
        options.stories.write_text("\n".join(map(json.dumps, stories + more)))
    rows: list[dict[str, Any]] = []
    for counted, prefix in ((counts, "fuzzed: "), (promised, "docs/data.md: ")):
        total: dict[tuple[str, str], Counter[str]] = {}
        for (kind, way), found in counted.items():
            group = kind if counted is counts else "all promises"
            total.setdefault((prefix + group, way), Counter()).update(found)
        for (kind, way), found in sorted(total.items()):
            rows.append({"what": kind, "way": way} | {name: found[name] for name in OUTCOMES})
    rows += sizes
    for modules in ("duckdb", "pyarrow, pyarrow.csv, pyarrow.parquet"):
        rows.append({"what": f"import {modules}", "seconds": round(import_seconds(modules), 3)})
    version = import_module("duckdb").__version__
    write_record("read_duckdb", rows, {"duckdb": version, "files": options.files}, notes_of(more))
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()

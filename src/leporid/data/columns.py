"""Which column is the user, item, time, rating, weight and event; the table of those columns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, Self

import pyarrow as pa

from leporid.errors import DataError, closest, shortened


class ReadOptions(NamedTuple):
    """What the caller says about a log."""

    columns: Mapping[str, str | int | None]
    """Role to the name or position of its column, where the caller named one."""
    need_rating: bool
    """Whether rows are chosen by their ratings."""
    separator: str | None = None
    """What separates the fields of text; None: found in the first line."""
    header: bool | None = None
    """Whether text begins with names; None: found in the first line."""
    encoding: str = "utf-8"


USUAL_NAMES: Mapping[str, str] = {
    "user": "userid user uid users useridx userindex reviewerid customerid customer memberid "
    "member visitorid accountid account profileid playerid personid clientid username usersha1 "
    "author reviewer sessionid session",
    "item": "itemid item iid items itemidx itemindex movieid movie animeid anime productid "
    "product asin parentasin trackid track songid song artistid artist bookid book isbn "
    "businessid gameid game appid app articleid article newsid videoid video poiid venueid "
    "locationid recipeid beerid sku productname title name",
    "time": "timestamp time ts datetime date timestamps unixtime unixtimestamp unixreviewtime "
    "reviewtime ratingtimestamp eventtime createdat ratedat watchedat playedat lastupdated "
    "createdtime dateadded",
    "rating": "rating ratings score stars overall myscore ratingvalue grade preference",
}
"""Spellings after `normalise`, the surest first."""

_POSITIONS: Mapping[int, tuple[str, ...]] = {
    2: ("user", "item"),
    3: ("user", "item", "rating"),
    4: ("user", "item", "rating", "time"),
}
"""What the columns of a file without a header mean, as in MovieLens' u.data and ratings.dat."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")
_TIME_NAME = re.compile(r"(?i:.*[_ -](at|time|date|ts))|.*[a-z0-9](At|Time|Date|Ts)")
"""created_at, EventTime, order-date."""
_EARLIEST_TIME = 19_000_101
"""A third column this large is a time (in seconds, or 20240227), not a rating."""


@dataclass(frozen=True)
class LoadReport:
    """What was read, and what had to be guessed to read it."""

    origin: str
    """The path, the data set name, or the kind of object."""
    format: str
    """'text', 'json', 'parquet', 'frame' or 'matrix'."""
    columns: Mapping[str, str]
    """Role ('user', 'item', 'time', 'rating', 'weight', 'event') to the name of its column."""
    guessed: tuple[str, ...]
    """The roles whose column the caller did not name."""
    rows: int
    """Rows in the source, before any policy."""
    separator: str | None = None
    """Between the fields of a text file."""
    header: bool | None = None
    """Whether a text file begins with names."""
    time_unit: str | None = None
    """'as given' or 'microseconds'; None without times."""
    ignored: tuple[str, ...] = ()
    """The columns without a role."""

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            **asdict(self),
            "columns": dict(self.columns),
            "guessed": list(self.guessed),
        }

    def sentence(self) -> str:
        """Return one line with what was guessed and what is not read; empty where neither is so."""
        parts = []
        if self.guessed:
            guesses = [f"{role}={self.columns[role]}" for role in self.guessed]
            if self.separator is not None:
                spelled = {"\t": "tab", " ": "space"}
                separator = spelled.get(self.separator, f"'{self.separator}'")
                guesses.append(f"separator={separator}")
                guesses.append(f"header={'yes' if self.header else 'no'}")
            parts.append(f"guessed: {', '.join(guesses)}")
        if self.ignored:
            parts.append(f"not read: {listed(self.ignored)}")
        return "; ".join(parts)


class RawTable(NamedTuple):
    """The columns that matter, before any policy."""

    columns: dict[str, pa.ChunkedArray]
    """Role to values; 'user' and 'item' are always there."""
    report: LoadReport
    """How the columns were found."""
    shape: tuple[int, int] | None = None
    """Number of users and of items of a matrix, whose ids are positions; None for other tables."""

    @classmethod
    def of(
        cls,
        table: pa.Table,
        roles: Iterable[str],
        report: LoadReport,
    ) -> Self:
        """Name the columns of a table by `roles`, in that order."""
        columns = dict(zip(roles, table.columns, strict=True))
        if "weight" in report.columns:  # a column that is the rating too is read once
            columns.setdefault("weight", columns.get("rating"))
        return cls(columns, replace(report, rows=table.num_rows))


def _bare(name: str) -> str:
    """Return a name without its RecBole type."""
    return name.strip().split(":")[0]


def normalise(name: str) -> str:
    """Return 'userid' for 'User-ID', 'user_id:token' and 'userId'."""
    return re.sub(r"[^0-9a-z]", "", _bare(name).lower())


def looks_like_header(fields: Sequence[str]) -> bool:
    """Return whether a first line has a usual name, or neither a number nor a date."""
    if position_of(fields, " ".join(USUAL_NAMES.values())) is not None:
        return True
    values = [field.strip() for field in fields]
    return not any(
        _NUMBER.fullmatch(value) or _DATE.fullmatch(value) for value in values
    )


def find_columns(
    names: Sequence[str],
    options: ReadOptions,
    origin: str,
    kind: str,
    first_row: Sequence[str] | None = None,
) -> tuple[dict[str, int], LoadReport]:
    """Return the position of each column to read, by its role, each once; and what was found.

    `names` are placeholders where there is no header; then `first_row` is the first line. The
    report also names ratings that need not be read.
    """
    positions = _requested_positions(names, options, origin)
    guesses = _guesses(names, first_row)
    guessed = []
    for role, position in guesses.items():
        if role not in positions and position not in positions.values():
            positions[role] = position
            guessed.append(role)
    for role in ("user", "item"):
        if role not in positions:
            raise DataError(
                f"{origin} has no column that looks like the {role} (columns found: "
                f"{listed(names)}): name it with {role}=... (--{role} on the command line)"
            )
    weight = options.columns.get("weight")
    if weight == "rating" and first_row is not None:  # no column has a name
        weight = positions.get("rating", weight)
    if weight is not None:
        positions["weight"] = _requested_position(names, weight, "weight", origin)
    names_by_role = {
        role: names[positions[role]]
        for role in (*USUAL_NAMES, "weight", "event")
        if role in positions
    }
    weight_is_rating = "weight" in positions and (
        positions["weight"] == positions.get("rating")
    )
    used = set(positions.values())
    if len(used) < len(positions) - weight_is_rating:
        roles = listed(f"{role}={name}" for role, name in names_by_role.items())
        raise DataError(f"{origin}: two roles have the same column: {roles}")
    unread = None
    if not options.need_rating:
        unread = "rating"
    elif weight_is_rating:
        unread = "weight"
    read = {role: positions[role] for role in names_by_role if role != unread}
    report = LoadReport(
        origin,
        kind,
        names_by_role,
        tuple(guessed),
        rows=0,
        ignored=tuple(name for n, name in enumerate(names) if n not in used),
    )
    return read, report


def _requested_positions(
    names: Sequence[str],
    options: ReadOptions,
    origin: str,
) -> dict[str, int]:
    """Return the positions of the columns that the caller named, but that of the weight."""
    positions = {}
    for role, column in options.columns.items():
        if column is not None and role != "weight":
            positions[role] = _requested_position(names, column, role, origin)
    return positions


def _guesses(
    names: Sequence[str],
    first_row: Sequence[str] | None,
) -> dict[str, int]:
    """Return where the columns of the usual roles seem to be."""
    if first_row is not None:
        by_position = _guess_by_position(first_row)
        return {role: by_position[role] for role in USUAL_NAMES if role in by_position}
    guesses = {}
    for role, usual in USUAL_NAMES.items():
        guess = position_of(names, usual)
        if guess is None and role == "time":
            guess = _first_like_a_time(names)
        if guess is not None:
            guesses[role] = guess
    return guesses


def _first_like_a_time(names: Sequence[str]) -> int | None:
    for position, name in enumerate(names):
        if _TIME_NAME.fullmatch(_bare(name)):
            return position
    return None


def listed(names: Iterable[str]) -> str:
    """Join the names of columns, for a message."""
    return shortened(", ".join(names), 500)


def find_column(
    names: Sequence[str],
    role: str,
    column: str | int | None,
    origin: str,
) -> int:
    """Return the position of one column: the one the caller named, the only, or the usual one."""
    if column is not None:
        return _requested_position(names, column, role, origin)
    if len(names) == 1:
        return 0
    position = position_of(names, USUAL_NAMES[role])
    if position is None:
        raise DataError(
            f"{origin} has no column that looks like the {role} (columns found: {listed(names)}): "
            f"name it"
        )
    return position


def _requested_position(
    names: Sequence[str],
    column: str | int,
    role: str,
    origin: str,
) -> int:
    """Return the position of a column by its number, its name, or its name without RecBole type."""
    bare = [_bare(name) for name in names]
    if isinstance(column, int) or (column not in names and column.isdigit()):
        if 0 <= int(column) < len(names):
            return int(column)
    elif column in names:
        return names.index(column)
    elif column in bare:
        return bare.index(column)
    guess = closest(str(column), list(names))
    hint = f"; did you mean {guess!r}?" if guess else ""
    raise DataError(
        f"{origin} has no column {column!r} for the {role} (columns found: {listed(names)}){hint}"
    )


def position_of(names: Sequence[str], usual_names: str) -> int | None:
    """Return the position of the first of `usual_names` that there is, in any spelling."""
    spelled = [normalise(name) for name in names]
    for usual in usual_names.split():
        if normalise(usual) in spelled:
            return spelled.index(normalise(usual))
    return None


def _guess_by_position(first_row: Sequence[str]) -> dict[str, int]:
    roles = _POSITIONS.get(len(first_row), ())
    if len(first_row) == 3:
        third = first_row[2].strip()
        if not _NUMBER.fullmatch(third) or float(third) >= _EARLIEST_TIME:
            roles = ("user", "item", "time")
    return {role: position for position, role in enumerate(roles)}

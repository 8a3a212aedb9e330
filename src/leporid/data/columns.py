"""Which column is the user, the item, the time and the rating: by name, or by place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leporid.errors import DataError, closest

__all__ = ["ROLES", "Columns", "find_columns", "looks_like_header", "normalise"]

ROLES = ("user", "item", "time", "rating")

_USUAL_NAMES: Mapping[str, str] = {
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

_PLACES: Mapping[int, tuple[str, ...]] = {
    2: ("user", "item"),
    3: ("user", "item", "rating"),
    4: ("user", "item", "rating", "time"),
}
"""What the columns of a file without a header mean, as in MovieLens' u.data and ratings.dat."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")
_EARLIEST_EPOCH = 100_000_000
"""A third column this large is a time in seconds (1973 and later), not a rating."""


@dataclass(frozen=True)
class Columns:
    """The place of each role among the columns of a table; None where it is absent."""

    user: int
    item: int
    time: int | None
    rating: int | None
    guessed: tuple[str, ...]
    """The roles that were found rather than given."""

    def places(self) -> dict[str, int]:
        """Role to place, present roles only."""
        found = {role: getattr(self, role) for role in ROLES}
        return {role: place for role, place in found.items() if place is not None}


def normalise(name: str) -> str:
    """'User-ID', 'user_id:token' and 'userId' are all 'userid'."""
    return re.sub(r"[^0-9a-z]", "", name.strip().split(":")[0].lower())


def looks_like_header(fields: Sequence[str]) -> bool:
    """A first line with a usual name, or without any number or date, is a header."""
    usual = {spelling for spellings in _USUAL_NAMES.values() for spelling in spellings.split()}
    if any(normalise(field) in usual for field in fields):
        return True
    values = [field.strip() for field in fields]
    return not any(_NUMBER.fullmatch(value) or _DATE.fullmatch(value) for value in values)


def find_columns(
    names: Sequence[str],
    given: Mapping[str, str | int | None],
    origin: str,
    *,
    first_row: Sequence[str] | None = None,
) -> Columns:
    """The place of each role.

    Parameters
    ----------
    names : column names, or placeholders where there is no header
    given : role to name or place, for those the caller fixed
    origin : the source, for messages
    first_row : the first line of a file without a header; None where there is one
    """
    places: dict[str, int] = {
        role: _given_place(names, column, role, origin)
        for role, column in given.items()
        if column is not None
    }
    guess = _guess_by_name(names) if first_row is None else _guess_by_place(first_row)
    guessed = []
    for role in ROLES:
        if role in places or role not in guess or guess[role] in places.values():
            continue
        places[role] = guess[role]
        guessed.append(role)
    for role in ("user", "item"):
        if role not in places:
            raise DataError(
                f"{origin} has no column that looks like the {role} (columns found: "
                f"{', '.join(names)}): name it with {role}=... (--{role} on the command line)"
            )
    if len(set(places.values())) < len(places):
        raise DataError(f"{origin}: two roles were given the same column: {_said(places, names)}")
    return Columns(
        places["user"], places["item"], places.get("time"), places.get("rating"), tuple(guessed)
    )


def _said(places: Mapping[str, int], names: Sequence[str]) -> str:
    return ", ".join(f"{role}={names[place]}" for role, place in places.items())


def _given_place(names: Sequence[str], column: str | int, role: str, origin: str) -> int:
    """The place of a column the caller named: exactly, then without its RecBole type."""
    if isinstance(column, int) or (column not in names and column.isdigit()):
        if 0 <= int(column) < len(names):
            return int(column)
    elif column in names:
        return names.index(column)
    else:
        bare = [name.split(":")[0] for name in names]
        if column in bare:
            return bare.index(column)
    guess = closest(str(column), list(names))
    hint = f"; did you mean {guess!r}?" if guess else ""
    raise DataError(
        f"{origin} has no column {column!r} for the {role} "
        f"(columns found: {', '.join(names)}){hint}"
    )


def _guess_by_name(names: Sequence[str]) -> dict[str, int]:
    spelled = [normalise(name) for name in names]
    guess = {}
    for role, usual in _USUAL_NAMES.items():
        known = [spelling for spelling in usual.split() if spelling in spelled]
        if known:
            guess[role] = spelled.index(known[0])
    return guess


def _guess_by_place(first_row: Sequence[str]) -> dict[str, int]:
    roles = _PLACES.get(len(first_row), ())
    if len(first_row) == 3 and _NUMBER.fullmatch(first_row[2].strip()):
        if float(first_row[2]) >= _EARLIEST_EPOCH:
            roles = ("user", "item", "time")
    elif len(first_row) == 3:
        roles = ("user", "item", "time")
    return {role: place for place, role in enumerate(roles)}

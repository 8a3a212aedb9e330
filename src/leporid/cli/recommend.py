"""`leporid recommend`: ranked lists, similar items and the reasons for a recommendation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from leporid import models
from leporid.cli.options import Json, OutputFile, load_model, parse_list
from leporid.cli.printing import Part, show
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError

if TYPE_CHECKING:
    from leporid.models import Recommender
    from leporid.ranking import BoundRules, Unknown


_POLICIES: dict[str, Unknown] = {"error": "error", "skip": "skip", "popular": "popular"}


@dataclass(frozen=True)
class FilterOptions:
    """Which items may be recommended."""

    only: Annotated[
        list[str] | None, "Only these: ID,ID or COLUMN=VALUE,VALUE of --items."
    ] = None
    exclude: Annotated[list[str] | None, "Not these items; as --only."] = None
    include_seen: Annotated[
        bool | None, "Also items the user already has [as trained]."
    ] = None
    rules: Annotated[
        Path | None, "Rules for the lists, .toml or .json, on --items."
    ] = None

    def resolve(self, model: Recommender, items: Path | None) -> _Filters:
        """Find the items of the model that the options mean."""
        only = None
        if self.only:
            sets = [set(_item_ids(model, text, "--only", items)) for text in self.only]
            only = sorted(set.intersection(*sets))
            if not only:
                raise ConfigError(
                    "no item is left: the --only options exclude each other"
                )
        exclude: list[str] = []
        for text in self.exclude or []:
            exclude += _item_ids(model, text, "--exclude", items)
        rules = None
        if self.rules is not None:
            from leporid.ranking import Rules

            rules = Rules.read(self.rules).bind(model.item_columns(items))
        return _Filters(only, exclude or None, self.include_seen, rules)


@dataclass(frozen=True)
class _Filters:
    """Which items of a model may be recommended."""

    only: list[str] | None
    """Ids of the only items that may; None: all."""
    exclude: list[str] | None
    """Ids of items that may not."""
    include_seen: bool | None
    """Whether users may get what they have; None: as the model was trained."""
    rules: BoundRules | None
    """Rules for the lists."""


@dataclass(frozen=True)
class _Question:
    """The users or items whose lists are wanted, and how long these are."""

    user: Annotated[list[str] | None, "A user's id; may be repeated."] = None
    history: Annotated[
        list[str] | None, "Items of a new user, oldest first: ID,ID,..."
    ] = None
    all_users: Annotated[
        bool, Option("--all", help="Every user of the model, into -o.")
    ] = False
    users: Annotated[
        Path | None, "File of user ids: lines, csv or parquet; into -o."
    ] = None
    user_column: Annotated[str | None, "Column of --users; else found by name."] = None
    similar: Annotated[str | None, "The items most like this item instead."] = None
    all_items: Annotated[
        bool, "What the model's weights say goes with every item, into -o."
    ] = False
    n: Annotated[int, Option("-n", help="Length of a list.")] = 10
    unknown: Annotated[
        str | None,
        "Unknown users get: error, skip or popular [error; skip with --users].",
    ] = None
    explain: Annotated[bool, "Add the items of the history that say why."] = False

    @property
    def policy(self) -> Unknown:
        """What becomes of unknown users and of histories without a known item."""
        if self.unknown is None:
            return "skip" if self.users else "error"
        if self.unknown not in _POLICIES:
            raise UnknownNameError("--unknown", self.unknown, _POLICIES)
        return _POLICIES[self.unknown]

    def check(self, output: Path | None) -> None:
        """Refuse options that do not go together."""
        subjects = (
            self.user,
            self.history,
            self.all_users,
            self.users,
            self.similar,
            self.all_items,
        )
        if sum(map(bool, subjects)) != 1:
            raise ConfigError(
                "ask for one of --user ID, --history ID,ID,..., --all, --users FILE, "
                "--similar ITEM, --all-items"
            )
        if output is None and (self.all_users or self.users or self.all_items):
            raise ConfigError(
                "many lists go into a file: add -o recs.parquet (or .csv, .jsonl)"
            )
        if output is not None and (self.history or self.similar or self.explain):
            raise ConfigError(
                "-o writes lists of users: leave --history, --similar, --explain out"
            )


@dataclass
class _Entry:
    """One item of a list."""

    item: object
    """External id."""
    measure: str
    """Name of `value`: a score, a similarity or a contribution."""
    value: float
    title: str | None = None
    reasons: list[_Entry] | None = None
    """Items of the history that say why; None if nobody asked."""

    @property
    def name(self) -> object:
        """The title, or else the id."""
        return self.item if self.title is None else self.title

    def to_dict(self) -> dict[str, object]:
        """Return the columns of a table, without the reasons."""
        columns = {"item": self.item, self.measure: self.value}
        if self.title is not None:
            columns["title"] = self.title
        return columns


@dataclass
class _List:
    """One list of items, best first."""

    kind: str
    """What was asked for: "user", "history" or "similar to"."""
    subject: object
    """The user, the history or the item."""
    entries: list[_Entry]
    reason_kind: str | None = None
    """What the reasons are, where they were asked for."""

    def to_dict(self) -> dict[str, object]:
        """Return the list as JSON has it."""
        items = []
        for entry in self.entries:
            item = entry.to_dict()
            if entry.reasons is not None:
                item["because"] = [reason.to_dict() for reason in entry.reasons]
            items.append(item)
        document = {self.kind: self.subject, "items": items}
        if self.reason_kind is not None:
            document["reasons"] = self.reason_kind
        return document

    def table(self) -> Part:
        """Return the list as it is printed."""
        title = f"{self.kind} {self.subject}"
        rows: list[dict[str, object]] = []
        for rank, entry in enumerate(self.entries, 1):
            row = {"rank": str(rank), **entry.to_dict()}
            if entry.reasons is not None:
                reasons = [
                    f"{reason.name} ({reason.value:.2f})" for reason in entry.reasons
                ]
                row[f"because ({self.reason_kind})"] = ", ".join(reasons)
            rows.append(row)
        return (title, rows) if rows else f"{title}: no item"


def recommend(
    run: Annotated[
        Path, Argument(help="Folder of a saved model, or of a run with one.")
    ],
    filters: FilterOptions,
    question: _Question,
    items: Annotated[
        Path | None, "File with item ids and titles, to show them."
    ] = None,
    output: Annotated[
        Path | None, OutputFile("File to write: .parquet, .csv or .jsonl.")
    ] = None,
    json_output: Json = False,
) -> None:
    """The best items for --user, for a new user with --history, or for --all into a file."""
    question.check(output)
    model = load_model(run)
    if not json_output:
        typer.echo(models.fit_sentence(model), err=True)
    if question.all_items and output is not None:
        if filters != FilterOptions():
            raise ConfigError(
                "--all-items takes no filters: leave --only, --exclude out"
            )
        _write_item_lists(model, output, question.n, json_output)
        return
    resolved = filters.resolve(model, items)
    if output is not None:
        _write_lists(model, question, resolved, output, json_output)
        return

    titles = _titles(model, items, filters)
    if question.similar is not None:
        if filters != FilterOptions():
            raise ConfigError("--similar takes no filters: leave --only, --exclude out")
        lists = [_similar_items(model, question.similar, question.n, titles)]
    else:
        lists = _ranked_lists(model, question, resolved, titles)
    tables = [entry.table() for entry in lists]
    show(json_output, [entry.to_dict() for entry in lists], *tables)


def _write_lists(
    model: Recommender,
    question: _Question,
    filters: _Filters,
    output: Path,
    json_output: bool,
) -> None:
    """Write the lists of many users into a file."""
    from leporid.ranking import write_recommendations

    users: Sequence[object] | None = question.user
    if question.users is not None:
        from leporid.data import read_ids

        among = model.users if question.policy == "skip" else None
        users = read_ids(question.users, "user", question.user_column, among)
    n_rows = write_recommendations(
        model,
        output,
        users,
        question.n,
        unknown=question.policy,
        only=filters.only,
        exclude=filters.exclude,
        include_seen=filters.include_seen,
        rules=filters.rules,
        progress=not json_output,
    )
    n_users = len(model.users if users is None else users)
    line = f"wrote {output}: {n_rows:,} rows for {n_users:,} users"
    report = {"path": str(output), "users": n_users, "rows": n_rows}
    show(json_output, report, line)


def _write_item_lists(
    model: Recommender, output: Path, n: int, json_output: bool
) -> None:
    """Write what goes with every item into a file."""
    from leporid.ranking import write_item_lists

    n_rows = write_item_lists(model, output, n)
    n_items = len(model.items)
    line = f"wrote {output}: {n_rows:,} rows for {n_items:,} items"
    report = {"path": str(output), "items": n_items, "rows": n_rows}
    show(json_output, report, line)


def _similar_items(
    model: Recommender, item: str, n: int, titles: Mapping[str, str] | None
) -> _List:
    """Return the items most like an item."""
    near, similarities = model.similar_items(item, n)
    # The id is shown as the log has it: a number where all items have one.
    subject = model.items.external(model.items.index(item))
    return _List(
        "similar to", subject, _entries(near, similarities, "similarity", titles)
    )


def _ranked_lists(
    model: Recommender,
    question: _Question,
    filters: _Filters,
    titles: Mapping[str, str] | None,
) -> list[_List]:
    """Return the lists of users, or of new users with a history."""
    # Ids are shown as the log has them: numbers where all of its users have one.
    users: list[object] = []
    for user in question.user or []:
        known, _unknown = model.users.split_known([user])
        users.append(model.users.external(known[0]) if len(known) else user)
    histories = [parse_list(text) for text in question.history or []]
    if users:
        kind = "user"
        items, scores = model.recommend(
            users,
            question.n,
            unknown=question.policy,
            only=filters.only,
            exclude=filters.exclude,
            include_seen=filters.include_seen,
            rules=filters.rules,
        )
    else:
        kind = "history"
        items, scores = model.recommend_history(
            histories,
            question.n,
            unknown=question.policy,
            only=filters.only,
            exclude=filters.exclude,
            include_seen=filters.include_seen,
            rules=filters.rules,
        )
    subjects = users or question.history or []
    lists: list[_List] = []
    for subject, asked, row_items, row_scores in zip(
        subjects, users or histories, items, scores, strict=True
    ):
        entries = _entries(row_items, row_scores, "score", titles)
        ranked = _List(kind, subject, entries)
        if question.explain and _is_known(model, asked):
            ranked.reason_kind = model.reason_kind
            _add_reasons(model, asked, entries, titles)
        lists.append(ranked)
    return lists


def _is_known(model: Recommender, asked: object) -> bool:
    """Return whether the model knows a user, or an item of a history."""
    if isinstance(asked, list):
        return len(model.items.split_known(asked)[0]) > 0
    return len(model.users.split_known([asked])[0]) > 0


def _add_reasons(
    model: Recommender,
    user: object,
    entries: list[_Entry],
    titles: Mapping[str, str] | None,
) -> None:
    """Add the items of the user that say why; `user` is an id or a history."""
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        # Unknown items of a history were counted when it was ranked.
        for entry in entries:
            items, values = model.explain(user, entry.item)
            entry.reasons = _entries(items, values, model.reason_value, titles)


def _entries(
    items: Iterable[object],
    values: Iterable[float],
    measure: str,
    titles: Mapping[str, str] | None,
) -> list[_Entry]:
    """Return items with their scores and titles; None fills a short list."""
    return [
        _Entry(item, measure, float(value), titles[str(item)] if titles else None)
        for item, value in zip(items, values, strict=True)
        if item is not None
    ]


def _item_ids(
    model: Recommender, text: str, option: str, items: Path | None
) -> list[str]:
    """Return ids separated by commas, or the items of the model with COLUMN=VALUE."""
    from leporid.ranking import Condition

    column, equals, values = text.partition("=")
    if not equals or len(model.items.split_known([text])[0]):
        return parse_list(text)
    if items is None:
        raise DataError(
            f"{option} {text} needs the table with that column: add --items FILE"
        )
    condition: Condition = [*parse_list(values)]
    meeting = model.item_columns(items).meeting(column, condition)
    return [str(item) for item in model.items.externals(meeting.nonzero()[0])]


def _titles(
    model: Recommender, path: Path | None, filters: FilterOptions
) -> dict[str, str] | None:
    """Return titles by item id as text; None without a table of items."""
    if path is None:
        return None

    from leporid.data import titles_of

    try:
        items = titles_of(model.items, path)
    except DataError:
        texts = [*(filters.only or []), *(filters.exclude or [])]
        if filters.rules or any("=" in text for text in texts):
            return None  # a table that is there for its other columns needs no titles
        raise
    ids = map(str, model.items.ids.to_pylist())
    return {key: item.title for key, item in zip(ids, items, strict=True)}

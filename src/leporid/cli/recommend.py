"""`leporid recommend`: lists from a saved model, similar items, files for all users."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from leporid import models
from leporid.cli.options import Json, load_model, parse_list
from leporid.cli.output import print_json, print_table
from leporid.errors import ConfigError, DataError, LeporidWarning

if TYPE_CHECKING:
    from leporid.models import Recommender

Titles = dict[str, str]
"""Item id, as text, to title."""


@dataclass(frozen=True)
class FilterOptions:
    """Which items may be recommended."""

    only: Annotated[
        list[str] | None,
        "Only these items: ids separated by commas, or COLUMN=VALUE of the --items file "
        "(VALUE,VALUE: any of them). Each further --only narrows the choice.",
    ] = None
    exclude: Annotated[list[str] | None, "Not these items; as --only."] = None
    include_seen: Annotated[bool, "Also items the user has already."] = False

    def settings(self, model: Recommender, items: Path | None) -> dict[str, Any]:
        """Keywords of the library's functions."""
        sets = [_item_ids(model, text, "--only", items) for text in self.only or []]
        only = sorted(set.intersection(*map(set, sets))) if sets else None
        if only == []:
            raise ConfigError("no item is left: the --only options exclude each other")
        hidden = [_item_ids(model, text, "--exclude", items) for text in self.exclude or []]
        exclude = [item for ids in hidden for item in ids] or None
        return {"only": only, "exclude": exclude, "exclude_seen": not self.include_seen}


_ALL_ITEMS = FilterOptions()


def recommend(
    run: Annotated[Path, Argument(help="Folder of a saved model, or of a run with one.")],
    user: Annotated[list[str] | None, "A user's id; may be repeated."] = None,
    history: Annotated[
        list[str] | None, "Item ids of a new user, oldest first, separated by commas."
    ] = None,
    all_users: Annotated[bool, Option("--all", help="Every user of the model, into -o.")] = False,
    users: Annotated[
        Path | None, "File of user ids, one per line or a column of csv or parquet; into -o."
    ] = None,
    user_column: Annotated[str | None, "Column of --users; else found by name."] = None,
    similar: Annotated[str | None, "The items most like this item instead."] = None,
    n: Annotated[int, Option("-n", help="Length of a list.")] = 10,
    explain: Annotated[bool, "Add the items of the history that are nearest to each."] = False,
    filters: FilterOptions = _ALL_ITEMS,
    items: Annotated[Path | None, "File with item ids and titles, to show them."] = None,
    output: Annotated[Path | None, "File to write: .parquet, .csv or .jsonl."] = None,
    json_output: Json = False,
) -> None:
    """The best items for --user, for a new user with --history, or for --all into a file."""
    if sum(map(bool, (user, history, all_users, users, similar))) != 1:
        raise ConfigError(
            "ask for one of --user ID, --history ID,ID,..., --all, --users FILE, --similar ITEM"
        )
    if output is None and (all_users or users):
        raise ConfigError("many lists go into a file: add -o recs.parquet (or .csv, .jsonl)")
    if output is not None and (history or similar or explain):
        raise ConfigError("-o writes lists of users: leave --history, --similar, --explain out")
    model = load_model(run)
    if not json_output:
        typer.echo(models.fit_sentence(model), err=True)
    settings = filters.settings(model, items)
    if output is not None:
        if users is not None:
            from leporid.data import read_ids

            user = read_ids(users, "user", user_column, model.users)
        _write(model, output, user, n, settings, json_output)
        return
    titles = _titles(model, items, filters)
    if similar is not None:
        if filters != _ALL_ITEMS:
            raise ConfigError("--similar takes no filters: leave --only, --exclude out")
        near = _entries(model.similar_items(similar, n), "similarity", titles)
        _print([{"similar to": similar, "items": near}], "similar to", json_output)
        return
    kind, names = ("user", user) if user else ("history", history or [])
    asked: list[Any] = names if user else [parse_list(text) for text in names]
    ranked = (model.recommend if user else model.recommend_history)(asked, n, **settings)
    lists = []
    for name, query, *chosen in zip(names, asked, *ranked, strict=True):
        entries = _entries(chosen, "score", titles)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            # Unknown items of a history were counted when it was ranked.
            for entry in entries if explain else ():
                reasons = model.explain(query, entry["item"])
                entry["because"] = _entries(reasons, "similarity", titles)
        lists.append({kind: name, "items": entries})
    _print(lists, kind, json_output)


def _entries(chosen: Sequence[Any], value: str, titles: Titles | None) -> list[dict[str, Any]]:
    """Items and their scores as they are shown; None fills a short list."""
    return [
        {"item": item, value: float(score), **({"title": titles[str(item)]} if titles else {})}
        for item, score in zip(*chosen, strict=True)
        if item is not None
    ]


def _print(lists: list[dict[str, Any]], kind: str, json_output: bool) -> None:
    if json_output:
        print_json(lists)
        return
    for entry in lists:
        if not entry["items"]:
            typer.echo(f"{kind} {entry[kind]}: no item")
            continue
        rows = [{"rank": str(rank), **row} for rank, row in enumerate(entry["items"], 1)]
        for row in rows:
            near = row.get("because", ())
            words = (f"{own.get('title', own['item'])} ({own['similarity']:.2f})" for own in near)
            if "because" in row:
                row["because"] = ", ".join(words)
        print_table(f"{kind} {entry[kind]}", rows)


def _write(
    model: Recommender,
    output: Path,
    users: list[Any] | None,
    n: int,
    settings: dict[str, Any],
    json_output: bool,
) -> None:
    from leporid.models import write_recommendations

    progress, count = not json_output, len(model.users if users is None else users)
    rows = write_recommendations(model, output, users, n, progress=progress, **settings)
    if json_output:
        print_json({"path": str(output), "users": count, "rows": rows})
        return
    typer.echo(f"wrote {output}: {rows:,} rows for {count:,} users")


def _item_ids(model: Recommender, text: str, option: str, items: Path | None) -> list[Any]:
    """Ids separated by commas, or the items of the model with COLUMN=VALUE."""
    column, equals, values = text.partition("=")
    if not equals or len(model.items.split_known([text])[0]):
        return parse_list(text)
    if items is None:
        raise DataError(f"{option} {text} needs the table with that column: add --items FILE")

    from leporid.data import items_where

    return items_where(items, column, *parse_list(values), among=model.items)


def _titles(model: Recommender, path: Path | None, filters: FilterOptions) -> Titles | None:
    if path is None:
        return None

    from leporid.data import titles_of

    try:
        named = titles_of(model.items, path)
    except DataError:
        if any("=" in text for text in [*(filters.only or []), *(filters.exclude or [])]):
            return None  # a table that is there for its other columns needs no titles
        raise
    ids = map(str, model.items.ids.to_pylist())
    return {key: info.title for key, info in zip(ids, named, strict=True)}

"""`leporid recommend`: lists from a saved model, for known users or for a history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from leporid import models
from leporid.cli.options import Json, load_model, parse_list
from leporid.cli.output import print_json, print_table
from leporid.errors import ConfigError


def recommend(
    run: Annotated[Path, Argument(help="Folder of a saved model, or of a run with one.")],
    user: Annotated[list[str] | None, "A user's id; may be repeated."] = None,
    history: Annotated[
        list[str] | None, "Item ids of somebody new, oldest first, separated by commas."
    ] = None,
    n: Annotated[int, Option("-n", help="Length of a list.")] = 10,
    candidates: Annotated[str | None, "Recommend only these items, separated by commas."] = None,
    include_seen: Annotated[bool, "Also items the user has already."] = False,
    items: Annotated[Path | None, "File with item_id and title, to show titles."] = None,
    json_output: Json = False,
) -> None:
    """The best items for --user, or for somebody new with --history."""
    if bool(user) == bool(history):
        raise ConfigError("give either --user ID or --history ID,ID,..., at least once")
    model = load_model(run)
    if not json_output:
        typer.echo(models.fit_sentence(model), err=True)
    options: dict[str, Any] = {"n": n, "exclude_seen": not include_seen}
    options["candidates"] = parse_list(candidates) if candidates else None
    kind, asked = ("user", user) if user else ("history", history or [])
    if user:
        chosen, scores = model.recommend(user, **options)
    else:
        chosen, scores = model.recommend_history([parse_list(text) for text in asked], **options)
    titles = _titles(items)
    lists: list[dict[str, Any]] = []
    for who, row, values in zip(asked, chosen, scores, strict=True):
        entries = [
            {"item": item, "score": float(score), **titles(item)}
            for item, score in zip(row, values, strict=True)
            if item is not None
        ]
        lists.append({kind: who, "items": entries})
    if json_output:
        print_json(lists)
        return
    for entry in lists:
        rows = [{"rank": str(rank), **row} for rank, row in enumerate(entry["items"], 1)]
        print_table(f"{kind} {entry[kind]}", rows)


def _titles(path: Path | None) -> Any:
    """A function from an item id to `{"title": ...}`, empty where none is known."""
    if path is None:
        return lambda item: {}

    from leporid.data import load_items

    known = {str(key): info.title for key, info in load_items(path).items()}
    return lambda item: {"title": known.get(str(item), "")}

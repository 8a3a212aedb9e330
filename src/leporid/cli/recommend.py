"""`leporid recommend`: lists from a saved model, for known users or for a history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table
from leporid.errors import ConfigError, DataError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("recommend")(recommend)


def recommend(
    run: Annotated[Path, typer.Argument(help="Folder of a saved model, or of a run with one.")],
    user: Annotated[
        list[str] | None, typer.Option("--user", help="A user's id; may be repeated.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            "--history", help="Item ids of somebody new, oldest first, separated by commas."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", help="Length of a list.")] = 10,
    candidates: Annotated[
        str | None, typer.Option(help="Recommend only these items, separated by commas.")
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items the user has already.")
    ] = False,
    items: Annotated[
        Path | None, typer.Option(help="File with item_id and title, to show titles.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """The best items for --user, or for somebody new with --history."""
    if bool(user) == bool(history):
        raise ConfigError("give either --user ID or --history ID,ID,..., at least once")

    from leporid.models.shared.base import Recommender

    model = Recommender.load(_saved(run))
    options: dict[str, Any] = {
        "n": n,
        "exclude_seen": not include_seen,
        "candidates": _ids(candidates) if candidates else None,
    }
    asked = user or history or []
    if user:
        found, scores = model.recommend(user, **options)
    else:
        found, scores = model.recommend_history([_ids(text) for text in asked], **options)
    titles = _titles(items)
    lists = [
        {
            "user" if user else "history": who,
            "items": [
                {"item": item, "score": float(score)} | titles(item)
                for item, score in zip(row, values, strict=True)
                if item is not None
            ],
        }
        for who, row, values in zip(asked, found, scores, strict=True)
    ]
    if json_output:
        print_json(lists)
        return
    for who, entry in zip(asked, lists, strict=True):
        rows: Any = [{"rank": str(rank), **row} for rank, row in enumerate(entry["items"], 1)]
        print_table(f"{'user' if user else 'history'} {who}", rows)


def _saved(run: Path) -> Path:
    for place in (run, run / "model"):
        if (place / "model.json").is_file():
            return place
    raise DataError(f"{run} holds no saved model: there is no model.json in it")


def _ids(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _titles(path: Path | None) -> Any:
    """A function from an item id to `{"title": ...}`, empty where none is known."""
    if path is None:
        return lambda item: {}

    from leporid.data.item_titles import load_items

    known = {str(key): info.title for key, info in load_items(path).items()}
    return lambda item: {"title": known.get(str(item), "")}
